"""Ingesting: what is said of inputs that give nothing, or not everything."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import analyzer.ingestion
from analyzer.errors import ExitCode, KvpmError
from analyzer.ingestion import IngestOptions, IngestResult, default_trace_name, ingest
from analyzer.parsers.bulk import stream
from analyzer.processes import spread
from analyzer.trace.reader import Trace
from analyzer.trace.schema import TABLES

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
LINE = (
    "[2026-03-10 12:00:{:02d}] Decode batch, #running-req: 4, #token: 900, token usage: 0.09, cuda graph: True, "
    "gen throughput (token/s): 99.00, #queue-req: 0\n"
)
LOG = "".join(LINE.format(s) for s in range(50))


def read(trace: Path, *given: Path) -> IngestResult:
    return ingest([str(g) for g in given], trace, IngestOptions(UTC, 2026))


def reports(trace: Path) -> int:
    with Trace(trace) as opened:
        ((count,),) = opened.con.execute("SELECT count(*) FROM scheduler").fetchall()
        return int(count)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "t.kvtrace"


def test_a_log(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "s.log").write_text(LOG)
    result = read(trace, tmp_path / "s.log")
    assert (result.exit_code, result.problems, reports(trace)) == (ExitCode.OK, [], 50)
    assert result.manifest.totals["scheduler"] == 50


@pytest.mark.parametrize("content", [b"", b"hello\nworld\n", b"\x00\x01\x02" * 500], ids=["empty", "other text", "binary"])
def test_nothing_usable(content: bytes, tmp_path: Path, trace: Path) -> None:
    (tmp_path / "s.log").write_bytes(content)
    with pytest.raises(KvpmError) as error:
        read(trace, tmp_path / "s.log")
    assert error.value.exit_code == ExitCode.NOTHING_USABLE
    assert "s.log" in error.value.message
    assert error.value.hint
    assert not trace.exists()


def everything(trace: Path) -> dict[str, object]:
    """All rows of all tables, and the manifest but for when and where."""
    manifest = json.loads((trace / "manifest.json").read_text())
    rows = {name: pq.read_table(trace / name).to_pylist() for name in TABLES if (trace / name).exists()}
    return {"manifest": manifest, "rows": rows}


def many_kinds(folder: Path) -> Path:
    """A folder of logs, scrapes and client records, some twice, packed, cut or of no use."""
    for name in ("l1_bound_sglang", "cap_bound_vllm"):
        shutil.copytree(SAMPLES / name, folder / name, ignore=shutil.ignore_patterns("*.json"))
    (folder / "again.log").write_bytes((SAMPLES / "l1_bound_sglang" / "server.log").read_bytes())
    (folder / "packed.log.gz").write_bytes(gzip.compress((SAMPLES / "cap_bound_vllm" / "server.log").read_bytes()))
    (folder / "cut.log.gz").write_bytes(gzip.compress((LOG * 20).encode())[:-30])
    (folder / "empty.log").write_text("")
    (folder / "core.log").write_bytes(b"\x7fELF\x00\x00" * 400)
    (folder / "other.log").write_text("hello\nworld\n")
    return folder


@pytest.mark.parametrize("large", [1000, 1 << 40], ids=["by blocks", "by sources"])
def test_a_trace_does_not_depend_on_the_number_of_processes(tmp_path: Path, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = many_kinds(tmp_path / "in")
    alone = ingest([str(folder)], tmp_path / "one.kvtrace", IngestOptions(UTC, 2026, jobs=1))
    monkeypatch.setattr(analyzer.ingestion, "_LARGE", large)
    monkeypatch.setattr(analyzer.ingestion, "_WORTH_PROCESSES", 0)
    monkeypatch.setattr(stream.read_blocks, "__defaults__", (50_000,))
    monkeypatch.setattr(stream.read_blocks, "__kwdefaults__", {"jobs": 1, "alone": 1})
    started = spread_calls(monkeypatch)
    several = ingest([str(folder)], tmp_path / "three.kvtrace", IngestOptions(UTC, 2026, jobs=3))
    assert started
    assert several.problems == alone.problems
    assert sorted((Path(p.name).name, p.message.split(" ")[0]) for p in alone.problems) == [
        ("core.log", "is"), ("empty.log", "is"), ("other.log", "holds"), ("server.log", "holds"), ("server.log", "holds"),
    ]  # fmt: skip
    assert everything(tmp_path / "three.kvtrace") == everything(tmp_path / "one.kvtrace")


def spread_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of processes of each time that work is spread."""
    calls: list[int] = []

    def watched(*args: Any, jobs: int) -> Iterator[tuple[Any, Any]]:
        calls.append(jobs)
        return spread(*args, jobs=jobs)

    for module in (analyzer.ingestion, stream):
        monkeypatch.setattr(module, "spread", watched)
    return calls


def test_one_useless_file_does_not_spoil_the_others(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "good.log").write_text(LOG)
    (tmp_path / "logs" / "empty.log").write_text("")
    (tmp_path / "logs" / "core.log").write_bytes(b"\x7fELF\x00\x00" * 400)
    result = read(trace, tmp_path / "logs")
    assert result.exit_code == ExitCode.OK
    assert reports(trace) == 50
    assert {Path(p.name).name for p in result.problems} == {"empty.log", "core.log"}


def test_an_archive_that_is_cut_off_is_kept_up_to_there(tmp_path: Path, trace: Path) -> None:
    packed = gzip.compress("".join(LINE.format(s % 60).replace("99.00", f"{s * 7919 % 10007}.00") for s in range(3000)).encode())
    (tmp_path / "s.log.gz").write_bytes(packed[: len(packed) // 2])
    result = read(trace, tmp_path / "s.log.gz")
    assert result.exit_code == ExitCode.INPUT_CUT
    assert 100 < reports(trace) < 3000
    assert result.manifest.sources[0].row["cut"] is True
    # it is not better the second time
    assert read(trace, tmp_path / "s.log.gz").exit_code == ExitCode.INPUT_CUT


def test_nothing_there(tmp_path: Path, trace: Path) -> None:
    with pytest.raises(KvpmError) as error:
        read(trace, tmp_path / "missing.log")
    assert "missing.log" in error.value.message
    (tmp_path / "folder").mkdir()
    with pytest.raises(KvpmError) as error:
        read(trace, tmp_path / "folder")
    assert error.value.exit_code == ExitCode.NOTHING_USABLE


def test_lines_add_up(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "s.log").write_text(LOG + 'INFO:     127.0.0.1:5 - "GET /health HTTP/1.1" 200 OK\n' + "something else\n")
    row = read(trace, tmp_path / "s.log").manifest.sources[0].row
    assert row["lines"] == 52
    assert row["lines"] == row["matched_lines"] + row["ignored_lines"] + row["unmatched_lines"] + row["other_lines"]
    assert row["matched_lines"] == 50


def test_progress_reaches_the_end(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "s.log").write_text(LOG)
    seen: list[tuple[str, int, int]] = []
    ingest([str(tmp_path / "s.log")], trace, IngestOptions(UTC, 2026), progress=lambda *step: seen.append(step))
    assert seen[-1][1] == seen[-1][2] == len(LOG)


@pytest.mark.parametrize(
    ("given", "name"),
    [("-", "stdin.kvtrace"), ("x/server.log", "server.kvtrace"), ("server.log.gz", "server.kvtrace"), ("logs/", "logs.kvtrace")],
)
def test_the_trace_is_named_after_its_first_input(given: str, name: str) -> None:
    assert default_trace_name([given]).name == name


def test_the_same_log_packed_and_plain_is_counted_once(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "sample_traces" / "l1_bound_sglang" / "server.log").read_bytes()
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "server.log").write_bytes(text)
    (tmp_path / "s" / "server.log.gz").write_bytes(gzip.compress(text))
    result = ingest([str(tmp_path / "s")], tmp_path / "t.kvtrace")
    assert len(result.manifest.sources) == 1
    assert any("counted once" in p.message for p in result.problems)
