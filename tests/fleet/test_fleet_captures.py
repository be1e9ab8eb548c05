"""What the user typed becomes captures: folders, stored traces, globs, lists, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.errors import KvpmError, NothingUsableError
from analyzer.fleet.captures import Found, find_captures
from analyzer.fleet.model import Fleet, Reading
from analyzer.fleet.state import save


def put(root: Path, *files: str) -> Path:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    return root


def told(found: Found) -> list[tuple[str, tuple[str, ...]]]:
    return [(c.name, c.inputs) for c in found.captures]


def test_sub_folders_and_traces_of_a_folder_are_captures_and_what_is_not_is_told(tmp_path: Path) -> None:
    put(
        tmp_path,
        "tue/server.log",
        "wed/deep/server.log",
        "thu.kvtrace/manifest.json",
        "README.md",
        ".git/config",
        "holder/a.kvtrace/manifest.json",
    )
    (tmp_path / "empty").mkdir()
    save(put(tmp_path, "out/index.html") / "out", Fleet("en"))
    found = find_captures([str(tmp_path)])
    assert told(found) == [("thu", ("thu.kvtrace",)), ("tue", ("tue",)), ("wed", ("wed",))]
    assert {c.base for c in found.captures} == {tmp_path}
    assert {s.what: s.why for s in found.skipped} == {
        "README.md": "a file beside captures that are folders",
        "empty": "holds no file",
        "holder": "holds stored traces only: name the folder itself",
        "out": "made by kvpm batch",
    }


def test_a_trace_is_read_instead_of_the_folder_that_it_was_made_of(tmp_path: Path) -> None:
    put(tmp_path, "tue/server.log", "tue.kvtrace/manifest.json")
    found = find_captures([str(tmp_path)])
    assert told(found) == [("tue", ("tue.kvtrace",))]
    assert found.skipped[0].why == "read from tue.kvtrace beside it"


def test_a_folder_of_files_is_one_capture_among_several_and_many_when_alone(tmp_path: Path) -> None:
    put(tmp_path, "a/one.log", "a/two.log", "b/three.log")
    alone = find_captures([str(tmp_path / "a")])
    assert told(alone) == [("one.log", ("one.log",)), ("two.log", ("two.log",))]
    assert all(c.loose for c in alone.captures)
    assert alone.of_files == [str(tmp_path / "a")]
    several = find_captures([str(tmp_path / "a"), str(tmp_path / "b")])
    assert told(several) == [("a", ("a",)), ("b", ("b",))]
    assert not several.of_files


def test_what_a_glob_finds_is_one_capture_each(tmp_path: Path) -> None:
    put(tmp_path, "a/one.log", "a/two.log", "b.log")
    save(put(tmp_path, "out/index.html") / "out", Fleet("en"))
    assert told(find_captures([str(tmp_path / "*")])) == [("a", ("a",)), ("b.log", ("b.log",))]
    with pytest.raises(KvpmError, match="nothing matches"):
        find_captures([str(tmp_path / "*.txt")])


def test_captures_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    put(tmp_path, "x/tue/a.log", "y/tue/a.log")
    found = find_captures([str(tmp_path / "x"), str(tmp_path / "y"), str(tmp_path / "x")])
    assert told(found) == [("x/tue", ("tue",)), ("y/tue", ("tue",))]


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NothingUsableError, match=r"empty: holds no file"):
        find_captures([str(tmp_path)])
    with pytest.raises(KvpmError, match="no such file"):
        find_captures([str(tmp_path / "gone")])
    with pytest.raises(KvpmError, match="standard input"):
        find_captures(["-"])


LIST = """
tz = "Asia/Shanghai"

[[capture]]
name = "tuesday"
inputs = ["tue/server.log", "tue/metrics-*.prom"]
since = "07:08"
instance = ["*a*=pod-a"]

[[capture]]
name = "wednesday"
inputs = "{folder}/wed"
tz = "UTC"
"""


def test_a_list_names_captures_and_how_to_read_each(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text(LIST.replace("{folder}", str(tmp_path)), encoding="utf-8")
    tuesday, wednesday = find_captures([str(path)], Reading(year=2026, instance=("b=c",))).captures
    assert tuesday.inputs == ("tue/server.log", "tue/metrics-*.prom")
    assert tuesday.base == tmp_path
    assert tuesday.reading == Reading(tz="Asia/Shanghai", year=2026, since="07:08", instance=("*a*=pod-a",))
    # where the list lies is nobody's business
    assert wednesday.inputs == ("wed",)
    assert wednesday.reading == Reading(tz="UTC", year=2026, instance=("b=c",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = [", "is no TOML"),
        ("", "lists no capture"),
        ("capture = 3", "lists no capture"),
        ('[[capture]]\ninputs = ["a"]', "capture 1 has no name"),
        ('[[capture]]\nname = "\\u202e "\ninputs = ["a"]', "capture 1 has no name"),
        ('[[capture]]\nname = "a"', "inputs is no list of paths"),
        ('[[capture]]\nname = "a"\ninputs = [3]', "inputs is no list of paths"),
        ('[[capture]]\nname = "a"\ninputs = ["-"]', "standard input"),
        ('[[capture]]\nname = "a"\ninputs = ["x"]\nyaer = 2026', "no option 'yaer'"),
        ('[[capture]]\nname = "a"\ninputs = ["x"]\nyear = "2026"', "year is no year"),
        ('[[capture]]\nname = "a"\ninputs = ["x"]\nyear = true', "year is no year"),
        ('[[capture]]\nname = "a"\ninputs = ["x"]\ntz = 8', "tz is no text"),
        ('[[capture]]\nname = "a"\ninputs = ["x"]\nkeep_text = 1', "neither true nor false"),
        ('[[capture]]\nname = "a"\ninputs = ["x"]\nmap = 1', "map is no list"),
        ('[[capture]]\nname = "a"\ninputs = ["x"]\n[[capture]]\nname = "a"\ninputs = ["y"]', "as one before it"),
        ('zone = "UTC"\n[[capture]]\nname = "a"\ninputs = ["x"]', "no option 'zone'"),
    ],
)
def test_a_faulty_list_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "list.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(KvpmError) as error:
        find_captures([str(path)])
    assert said in error.value.message
    assert str(path) in error.value.message
    assert error.value.hint
