"""A stored trace: the same again changes nothing, what grew is added, and nothing partial is ever visible."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from trace_logs import content, counts, read, rows, sglang, vllm, write

import analyzer.ingestion
import analyzer.trace.manifest
import analyzer.trace.store
from analyzer.errors import ExitCode, KvpmError
from analyzer.trace.manifest import FORMAT_VERSION, MANIFEST, read_manifest
from analyzer.trace.reader import Trace
from analyzer.trace.schema import TABLES


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "t.kvtrace"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write(tmp_path / "logs", a__s=sglang(0, 20, port=30000), b__v=vllm(0, 200))


def test_reading_the_same_again_changes_no_byte(logs: Path, trace: Path) -> None:
    read(logs, trace)
    before = content(trace)
    read(logs, trace)
    assert content(trace) == before


def test_two_traces_of_the_same_logs_hold_the_same_bytes(logs: Path, trace: Path, tmp_path: Path) -> None:
    read(logs, trace)
    read(logs, tmp_path / "other.kvtrace")
    assert content(trace) == content(tmp_path / "other.kvtrace")


def test_a_grown_log_adds_its_tail(tmp_path: Path, trace: Path) -> None:
    logs = write(tmp_path / "logs", s=sglang(0, 10))
    read(logs, trace)
    first = read_manifest(trace).sources[0].source_id
    write(logs, s=sglang(0, 25))
    read(logs, trace)
    assert counts(trace) == {"logs": 25}
    (source,) = read_manifest(trace).sources
    assert source.source_id == first
    assert rows(trace, "SELECT count(DISTINCT record), max(record) FROM scheduler") == [(25, 25)]


def test_a_log_that_was_replaced_is_another_source(tmp_path: Path, trace: Path) -> None:
    logs = write(tmp_path / "logs", s=sglang(0, 10))
    read(logs, trace)
    write(logs, s=sglang(100, 105, running=9))
    read(logs, trace)
    assert counts(trace) == {"logs": 15}
    assert len({s.source_id for s in read_manifest(trace).sources}) == 2


def test_the_same_content_under_another_name_is_counted_once(tmp_path: Path, trace: Path) -> None:
    logs = write(tmp_path / "logs", a=sglang(0, 10), b=sglang(0, 10))
    result = read(logs, trace)
    assert counts(trace) == {"logs": 10}
    assert any("the same bytes" in p.message for p in result.problems)
    write(logs, c=sglang(0, 10))
    read(logs, trace)
    assert counts(trace) == {"logs": 10}


def test_a_second_log_joins_the_first(tmp_path: Path, trace: Path) -> None:
    """Which process a row belongs to is settled again when another source tells more."""
    read(write(tmp_path / "one", x__late=sglang(200, 210)), trace)
    assert rows(trace, "SELECT DISTINCT run_id FROM scheduler") == [("r1",)]
    read(write(tmp_path / "one", x__early=sglang(0, 10), x__between=sglang(100, 110, port=30000)), trace)
    assert rows(trace, "SELECT run_id, count(*) FROM scheduler GROUP BY 1 ORDER BY 1") == [("r1", 10), ("r2", 20)]


@pytest.mark.parametrize("where", ["first table", "second table", "sources", "manifest"])
def test_what_is_broken_off_is_not_visible(where: str, logs: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(write(logs.parent / "first", s=sglang(0, 10)), trace)
    before = rows(trace, "SELECT count(*) FROM scheduler")
    manifest = (trace / MANIFEST).read_bytes()
    calls = 0

    def broken(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    def broken_second(*args: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return original(*args, **more)

    original = analyzer.trace.assembly.store_rows
    with monkeypatch.context() as patch:
        if where == "first table":
            patch.setattr(analyzer.trace.assembly, "store_rows", broken)
        elif where == "second table":
            patch.setattr(analyzer.trace.assembly, "store_rows", broken_second)
        elif where == "sources":
            patch.setattr(analyzer.trace.store.pq, "write_table", broken)
        else:
            patch.setattr(analyzer.trace.manifest, "replace_file", broken)
        with pytest.raises(KeyboardInterrupt):
            read(logs, trace)
    assert (trace / MANIFEST).read_bytes() == manifest
    assert rows(trace, "SELECT count(*) FROM scheduler") == before
    assert rows(trace, "SELECT count(*) FROM sources") == [(1,)]
    with Trace(trace) as opened:
        assert opened.con.execute("SELECT count(*) FROM scheduler_clean").fetchall() == before
    # the next attempt cleans up
    read(logs, trace)
    assert sum(counts(trace).values()) == 50
    assert not list(trace.rglob("*.partial"))
    named = {f.path for s in read_manifest(trace).sources for files in s.files.values() for f in files}
    assert named == {str(p.relative_to(trace)) for p in trace.rglob("*.parquet")} - {read_manifest(trace).sources_file}


def test_a_folder_that_was_never_finished_is_no_trace(logs: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(analyzer.trace.manifest, "replace_file", broken)
        with pytest.raises(KeyboardInterrupt):
            read(logs, trace)
    with pytest.raises(KvpmError) as error:
        Trace(trace)
    assert error.value.exit_code == ExitCode.NOTHING_USABLE


def test_a_newer_format_is_refused(logs: Path, trace: Path) -> None:
    read(logs, trace)
    document = json.loads((trace / MANIFEST).read_text())
    document["format_version"] = FORMAT_VERSION + 1
    (trace / MANIFEST).write_text(json.dumps(document))
    for attempt in (lambda: Trace(trace), lambda: read(logs, trace)):
        with pytest.raises(KvpmError) as error:
            attempt()
        assert error.value.exit_code == ExitCode.NOTHING_USABLE
        assert str(FORMAT_VERSION + 1) in error.value.message
        assert error.value.hint


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"sources": []}', b'{"format_version": "x", "sources": []}'])
def test_a_damaged_manifest_says_so(damage: bytes, logs: Path, trace: Path) -> None:
    read(logs, trace)
    (trace / MANIFEST).write_bytes(damage)
    with pytest.raises(KvpmError) as error:
        Trace(trace)
    assert MANIFEST in error.value.message or "trace format" in error.value.message


def test_any_reader_can_read_the_files(logs: Path, trace: Path) -> None:
    read(logs, trace)
    for source in read_manifest(trace).sources:
        for name, stored in ((name, f) for name, files in source.files.items() for f in files):
            table = pq.read_table(trace / stored.path)
            assert table.schema.equals(TABLES[name].arrow)
            assert table.num_rows == stored.rows
            assert table.column("ts").to_pylist() == sorted(table.column("ts").to_pylist())


def test_something_else_is_not_overwritten(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(KvpmError):
        read(logs, tmp_path / "mine")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
