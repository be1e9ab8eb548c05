"""What a command reads it does not write over, whatever flags it is given."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
CONFIG = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 512}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of one log, with notes beside it."""
    made = tmp_path / "incident"
    made.mkdir()
    shutil.copy(SAMPLES / "l1_bound_vllm" / "server.log", made / "server.log")
    return made


@pytest.mark.parametrize("given", ["incident/server.log", "incident", "incident/*.log", "./incident/../incident"])
@pytest.mark.parametrize("command", ["report", "diagnose", "replay"])
def test_an_input_stays_whatever_it_is_named_by(kvpm: Run, folder: Path, command: str, given: str) -> None:
    before = (folder / "server.log").read_bytes()
    # a suffix that names a form would be refused for that
    more = ["--format", "md"] if command == "report" else []
    code, _, err = kvpm(command, given, *more, "-o", "incident/server.log", "--force")
    assert code == 2
    assert "is an input" in err.splitlines()[0]
    assert (folder / "server.log").read_bytes() == before


def test_both_sides_of_a_comparison_stay(kvpm: Run, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "after"
    other.mkdir()
    (other / "bench.json").write_text("{}")
    code, _, err = kvpm("compare", "incident", "after", "--json", "-o", "after/bench.json", "--force")
    assert (code, "is an input" in err, (other / "bench.json").read_text()) == (2, True, "{}")


def test_a_link_to_an_input_is_the_input(kvpm: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out.html").symlink_to(folder / "server.log")
    code, _, err = kvpm("report", "incident", "-o", "out.html", "--force")
    assert (code, "is an input" in err) == (2, True)


def test_a_page_in_the_folder_is_made_anew(kvpm: Run, folder: Path) -> None:
    assert kvpm("report", "incident", "-o", "incident/r.html")[0] in (0, 4)
    first = (folder / "r.html").stat().st_mtime_ns
    assert kvpm("report", "incident", "-o", "incident/r.html", "--force")[0] in (0, 4)
    assert (folder / "r.html").stat().st_mtime_ns > first


def test_a_stored_trace_is_not_written_into(kvpm: Run, folder: Path, tmp_path: Path) -> None:
    kvpm("ingest", "incident", "-o", "T.kvtrace")
    manifest = tmp_path / "T.kvtrace" / "manifest.json"
    before = manifest.read_bytes()
    for arguments in (("diagnose", "T.kvtrace"), ("replay", "T.kvtrace")):
        code, _, err = kvpm(*arguments, "-o", str(manifest), "--force")
        assert (code, "T.kvtrace, which is an input" in err) == (2, True)
    assert manifest.read_bytes() == before


def test_files_that_options_name_are_inputs_too(kvpm: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("full_usage = 0.9\n")
    (tmp_path / "step.json").write_text('{"base_s": 0.01}')
    for arguments, file in (
        (("diagnose", "incident", "--thresholds", "mine.toml"), "mine.toml"),
        (("report", "incident", "--format", "md", "--thresholds", "mine.toml"), "mine.toml"),
        (("replay", "incident", "--step-time", "step.json"), "step.json"),
    ):
        before = (tmp_path / file).read_bytes()
        code, _, err = kvpm(*arguments, "-o", file, "--force")
        assert (code, err.splitlines()[0]) == (2, f"kvpm: {file} is an input")
        assert (tmp_path / file).read_bytes() == before


def test_a_configuration_is_an_input(kvpm: Run, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(CONFIG))
    for given in ("model", "model/config.json"):
        code, _, err = kvpm("capacity", given, "-o", "model/config.json", "--force")
        assert (code, err.splitlines()[0]) == (2, "kvpm: model/config.json is an input")
    assert json.loads(config.read_text()) == CONFIG
    assert kvpm("capacity", "model", "-o", "model/capacity.txt")[0] == 0
    assert kvpm("capacity", "model", "-o", "model/capacity.txt", "--force")[0] == 0


def test_a_trace_made_anew_does_not_take_its_input_with_it(kvpm: Run, folder: Path, tmp_path: Path) -> None:
    kvpm("ingest", "incident", "-o", "T.kvtrace")
    kept = shutil.copy(folder / "server.log", tmp_path / "T.kvtrace" / "server.log")
    code, _, err = kvpm("ingest", "T.kvtrace/server.log", "-o", "T.kvtrace", "--force")
    assert (code, "which --force removes" in err) == (2, True)
    assert Path(kept).is_file()
