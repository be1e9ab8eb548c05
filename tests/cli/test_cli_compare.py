"""`kvpm compare` from outside: its inputs, windows and instances, its outputs, and its errors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
HEALTHY = SAMPLES / "healthy_sglang" / "server.log"
L1 = SAMPLES / "recorded_l1_bound" / "server.log"

Run = Callable[..., tuple[int, str, str]]


def test_two_logs_are_compared_in_the_terminal(kvpm: Run) -> None:
    code, out, _ = kvpm("compare", str(L1), str(HEALTHY), "--year", "2026")
    assert code == 0
    assert out.splitlines()[0] in ("B is better than A", "Cannot tell whether the change helped")
    assert "A: recorded_l1_bound/server," in out
    assert "B: healthy_sglang/server," in out


def test_json_is_one_object_with_both_sides(kvpm: Run) -> None:
    code, out, _ = kvpm("compare", str(L1), str(HEALTHY), "--year", "2026", "--json", "--names", "before", "after")
    document = json.loads(out)
    assert code == 0
    assert document["schema_version"] == 1
    assert (document["a"]["name"], document["b"]["name"]) == ("before", "after")
    assert (document["a"]["cause"], document["b"]["cause"]) == ("l1_bound", "none")
    lost = next(d for d in document["deltas"] if d["id"] == "thrown_out")
    assert lost["a"]["value"] is None
    assert str(SAMPLES.parent) not in json.dumps([document["a"], document["b"], document["change"]])


def test_two_windows_of_one_log_are_read_once(kvpm: Run) -> None:
    windows = "07:07..07:08:20", "07:08:25..07:09:50"
    code, out, err = kvpm("compare", str(L1), "--year", "2026", "--windows", *windows, "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["a"]["name"] == "server 07:07..07:08:20"
    assert document["change"]["numbers"] == "worse"
    assert document["a"]["window"]["end"] <= document["b"]["window"]["start"]


def test_one_window_may_be_all_of_it(kvpm: Run) -> None:
    code, out, _ = kvpm("compare", str(L1), "--year", "2026", "--windows", "..07:08:20", "-", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["a"]["seconds"] < 60 < 800 < document["b"]["seconds"]


def test_two_servers_of_one_trace(kvpm: Run, tmp_path: Path) -> None:
    for pod, log in (("pod-a", L1), ("pod-b", SAMPLES / "recorded_cap_bound" / "server.log")):
        (tmp_path / "both" / pod).mkdir(parents=True)
        shutil.copy(log, tmp_path / "both" / pod / f"{pod}.log")
    rules = ("--instance", "pod-a=pod-a", "--instance", "pod-b=pod-b")
    code, out, _ = kvpm("compare", "both", "--year", "2026", *rules, "--instances", "pod-b", "pod-a", "--json")
    document = json.loads(out)
    assert code == 0
    assert [(document[s]["instance"], document[s]["cause"]) for s in "ab"] == [("pod-b", "cap_bound"), ("pod-a", "l1_bound")]
    assert document["notes"][0] == "A holds 2 instances; compared is pod-b."
    code, _, err = kvpm("compare", "both", "--year", "2026", *rules, "--instances", "pod-c", "-")
    assert (code, err.splitlines()[0]) == (2, "kvpm: A holds no instance 'pod-c'")
    assert "it holds pod-a, pod-b" in err


def test_the_page_is_written_once_and_not_over_another(kvpm: Run, tmp_path: Path) -> None:
    command = "compare", str(HEALTHY), str(HEALTHY), "-o", "c.html"
    code, out, _ = kvpm(*command)
    assert code == 0
    assert out.splitlines()[-1] == "comparison: c.html"
    first = (tmp_path / "c.html").read_bytes()
    assert first.startswith(b"<!doctype html>")
    code, _, err = kvpm(*command)
    assert (code, err.splitlines()[0]) == (2, "kvpm: c.html exists already")
    assert kvpm(*command, "--force")[0] == 0
    assert (tmp_path / "c.html").read_bytes() == first


def test_an_input_is_not_written_over(kvpm: Run, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    shutil.copy(HEALTHY, log)
    code, _, err = kvpm("compare", str(L1), str(log), "-o", str(log), "--force")
    assert code == 2
    assert "is an input" in err
    assert log.read_bytes() == HEALTHY.read_bytes()


def test_a_log_that_is_cut_short_is_compared_and_its_exit_code_says_so(kvpm: Run, tmp_path: Path) -> None:
    import gzip

    cut = tmp_path / "server.log.gz"
    cut.write_bytes(gzip.compress(HEALTHY.read_bytes())[:-400])
    code, out, _ = kvpm("compare", str(HEALTHY), str(cut), "--json")
    document = json.loads(out)
    assert code == 4
    assert (document["a"]["cut"], document["b"]["cut"]) == (False, True)
    assert "An input of B was cut short: it covers only what could be read." in document["change"]["weakens"]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("a.log",), "a.log alone has nothing to be compared with", "--windows"),
        (("a.log", "b.log", "c.log"), "compare takes two inputs, A and B, and got 3", "folder"),
        (("-", "-"), "standard input can be read once", "name a file"),
        ((str(L1), "--windows", "07:00", "-"), "--windows '07:00' is not FROM..TO", "07:00..07:10"),
        ((str(L1), "--windows", "..", "-"), "--windows '..' is not FROM..TO", "07:00..07:10"),
        ((str(L1), "--windows", "09:00..08:00", "-"), "--since is not before --until", ""),
        ((str(L1), "--windows", "-", "23:00..23:10"), "nothing lies between --since and --until", "the input covers"),
    ],
)
def test_errors_say_what_to_do(kvpm: Run, arguments: tuple[str, ...], message: str, hint: str) -> None:
    code, out, err = kvpm("compare", *arguments)
    assert (code, out) == (2, "")
    assert err.splitlines()[0] == f"kvpm: {message}"
    assert hint in err


def test_a_file_name_that_promises_another_form_is_refused(kvpm: Run, tmp_path: Path) -> None:
    code, _, err = kvpm("compare", "a.log", "b.log", "-o", str(tmp_path / "x.md"))
    assert code == 2
    assert "x.md would hold an HTML page" in err
