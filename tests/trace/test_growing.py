"""A log that grows: what is made of it is what is made of the whole, at the cost of its new bytes."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pytest
from growing import everything, grow, parts, read, read_growing, small_scale
from trace_logs import sglang, vllm

import analyzer.trace.assembly
import analyzer.trace.manifest
from analyzer.ingestion import IngestOptions, ingest
from analyzer.sources.timestamps import zone_from_option
from analyzer.trace.compaction import compact
from analyzer.trace.manifest import MANIFEST, read_manifest
from analyzer.trace.reader import Trace
from analyzer.trace.store import ROW_TABLES

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
NAMES = sorted(p.parent.name for p in SAMPLES.glob("*/server.log"))
SECRET = "the-prompt-of-a-user"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_scale(monkeypatch)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "in" / "server.log"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "t.kvtrace"


def whole(log: Path, **options: Any) -> dict[str, Any]:
    """What is made of a log that is read for the first time."""
    trace = log.parents[1] / "whole.kvtrace"
    assert read(trace, log, **options) == [0]
    return everything(trace)


def some_cuts(name: str, data: bytes, count: int) -> list[int]:
    """Places in a log, mostly in the middle of a line."""
    chosen = random.Random(name)
    return [chosen.randrange(len(data) // 10, len(data)) for _ in range(count)]


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(2, 12))])
# every second one every day: both engines, a crash, data-parallel ranks and recordings are among them; a restart is below
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.thorough if k % 2 else []) for k, n in enumerate(NAMES)])
def test_rows_are_those_of_the_whole_log(name: str, seed: int, log: Path, trace: Path) -> None:
    data = (SAMPLES / name / "server.log").read_bytes()
    cuts = some_cuts(f"{name} {seed}", data, 6)
    begun = read_growing(log, trace, data, cuts)
    assert everything(trace) == whole(log)
    assert len(begun) == len({*cuts, len(data)})
    assert begun[-1] > 0


def wrapped(text: str, width: int) -> str:
    """The same as a terminal of that width shows it."""
    return "".join(line[at : at + width] + "\n" for line in text.splitlines() for at in range(0, len(line), width))


def containers(text: str) -> str:
    """The same as a container runtime stores it, with long lines cut in two and another container's lines in between."""
    lines = []
    for number, line in enumerate(text.splitlines()):
        stamp = line[1:20].replace(" ", "T")
        half = len(line) // 2
        if number % 3 == 0:
            lines += [f"{stamp}.5Z stderr P {line[:half]}", f"{stamp}.5Z stdout F {SECRET}", f"{stamp}.6Z stderr F {line[half:]}"]
        else:
            lines.append(f"{stamp}.5Z stderr F {line}")
    return "\n".join(lines) + "\n"


def over_new_year(text: str) -> str:
    """Decode lines of vLLM, whose stamps have no year, from one year to the next."""
    return (
        text.replace("INFO 03-10 12", "INFO 12-31 23").replace("INFO 03-10 13", "INFO 01-01 00").replace("INFO 03-10 14", "INFO 01-01 01")
    )


def requests_in_two_lines() -> str:
    """Requests of SGLang that are received on one line and finished on another, some never."""
    lines = []
    for number in range(150):
        at = f"2026-03-10 12:{number // 60:02d}:{number % 60:02d}"
        lines.append(f"[{at}] Receive: obj=GenerateReqInput(rid='r{number}', sampling_params={{'max_new_tokens': 64}})")
        if number >= 20 and number % 7:
            meta = f"'id': 'r{number - 20}', 'finish_reason': {{'type': 'stop', 'matched': 2}}, 'prompt_tokens': 9, 'completion_tokens': 4"
            lines.append(f"[{at}] Finish: obj=GenerateReqInput(rid='r{number - 20}'), out={{'text': '{SECRET}', 'meta_info': {{{meta}}}}}")
    return "\n".join(lines) + "\n"


LOGS = {
    "restart": sglang(0, 90, port=30000) + sglang(300, 400, port=30000) + sglang(900, 950, port=30000),
    "wrapped": wrapped(sglang(0, 200, port=30000), 80),
    "container": containers(sglang(0, 300)),
    "new year": over_new_year(vllm(0, 6000)),
    "requests": requests_in_two_lines(),
    "carriage returns": sglang(0, 200).replace("\n", "\r\n"),
    "bytes that are no text": sglang(0, 100) + "\udcff\udcfe\n" + sglang(100, 200),
    "other programs": sglang(0, 100) + "a line of something else\n" * 300 + sglang(100, 150) + "INFO:     x\n" * 50,
    "two engines": sglang(0, 100) + vllm(100, 1500),
}


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(2, 12))])
@pytest.mark.parametrize("kind", LOGS)
def test_what_reaches_over_lines(kind: str, seed: int, log: Path, trace: Path) -> None:
    data = LOGS[kind].encode("utf-8", "surrogateescape")
    begun = read_growing(log, trace, data, some_cuts(f"{kind} {seed}", data, 12))
    assert everything(trace) == whole(log)
    # a wrapped log is read again whole: what looks like a record in it may be a part of one
    assert any(begun) == (kind != "wrapped")


def test_each_line_at_a_time(log: Path, trace: Path) -> None:
    text = LOGS["requests"].encode()
    data = text[:14_000]
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10 and at > 10_000]
    read_growing(log, trace, data, ends)
    assert everything(trace) == whole(log)


def test_requests_wait_for_their_end(log: Path, trace: Path) -> None:
    """The premise of the test above: requests were open where the log was cut."""
    data = LOGS["requests"].encode()
    grow(log, data)
    assert read(trace, log) == [0]
    statuses = [row["status"] for row in everything(trace)["requests"]]
    assert statuses.count("unfinished") > 10
    assert statuses.count("finished") > 50


def test_nothing_of_a_text_is_kept_for_later(log: Path, trace: Path) -> None:
    import zstandard

    for kind in ("container", "requests"):
        data = LOGS[kind].encode()
        grow(log.with_name(f"{kind}.log"), data[: len(data) // 2])
    read(trace, *log.parent.glob("*.log"))
    states = list((trace / "resume").iterdir())
    assert len(states) == 2
    for state in states:
        assert SECRET.encode() not in zstandard.ZstdDecompressor().decompress(state.read_bytes(), max_output_size=1 << 24)
    assert SECRET not in (trace / MANIFEST).read_text()


def test_old_parts_are_not_touched(log: Path, trace: Path) -> None:
    grow(log, sglang(0, 200, port=30000).encode())
    read(trace, log)
    before = parts(trace)
    for begin in (200, 300):
        grow(log, sglang(begin, begin + 100).encode())
        assert read(trace, log)[0] > 0
    after = parts(trace)
    assert before.items() <= after.items()
    assert len(after) == len(before) + 2


def test_a_restart_in_the_new_lines_touches_no_old_part(log: Path, trace: Path) -> None:
    grow(log, sglang(0, 200, port=30000).encode())
    read(trace, log)
    before = parts(trace)
    grow(log, sglang(500, 700, port=30000).encode())
    read(trace, log)
    assert before.items() <= parts(trace).items()
    assert everything(trace) == whole(log)
    assert [len(runs) for runs in everything(trace)["runs"].values()] == [2]


def test_rows_that_turn_out_to_be_of_another_process_are_written_again(log: Path, trace: Path) -> None:
    grow(log, sglang(300, 500, port=30000).encode())
    read(trace, log)
    grow(log, sglang(500, 600).encode())
    read(trace, log)
    grow(log.with_name("earlier.log"), sglang(0, 100, port=30000).encode())
    read(trace, log.parent)
    assert {row["run_id"] for row in everything(trace)["scheduler"] if row["record"] > 150} == {"r2"}
    grow(log, sglang(600, 700).encode())
    assert read(trace, log)[0] > 0
    runs = [(row["run_id"], row["source_id"]) for row in everything(trace)["scheduler"]]
    assert sorted((run, runs.count((run, source))) for run, source in set(runs)) == [("r1", 100), ("r2", 400)]


def test_a_clock_that_is_moved_moves_all_parts(log: Path, trace: Path) -> None:
    grow(log, sglang(0, 200).encode())
    read(trace, log)
    grow(log, sglang(200, 300).encode())
    ingest([str(log)], trace, IngestOptions(zone_from_option("UTC"), offsets=_offsets("server.log=+1h")))
    grow(log, sglang(300, 400).encode())
    assert read(trace, log)[0] > 0
    assert everything(trace) == whole(log, offsets=_offsets("server.log=+1h"))


def _offsets(text: str) -> Any:
    from analyzer.trace.offset_rules import parse_offset_rules

    return parse_offset_rules((text,))


def test_what_the_options_said_holds_on(log: Path, trace: Path) -> None:
    data = over_new_year(vllm(0, 6000)).encode()
    options = {"zone": zone_from_option("+08:00"), "year": 2024}
    half = len(data) // 2
    grow(log, data[:half])
    read(trace, log, **options)
    grow(log, data[half:])
    assert read(trace, log, zone=None)[0] > 0
    assert everything(trace) == whole(log, **options)


def test_another_zone_reads_it_again(log: Path, trace: Path) -> None:
    data = sglang(0, 200).encode()
    grow(log, data[:15_000])
    read(trace, log)
    grow(log, data[15_000:])
    assert read(trace, log, zone=zone_from_option("+08:00")) == [0]
    assert everything(trace) == whole(log, zone=zone_from_option("+08:00"))


def test_several_processes(log: Path, trace: Path) -> None:
    data = LOGS["restart"].encode()
    read_growing(log, trace, data, some_cuts("jobs", data, 3), jobs=2)
    assert everything(trace) == whole(log)


@pytest.mark.parametrize("damage", ["removed", "garbled", "of another release"])
def test_a_state_that_is_of_no_use(damage: str, log: Path, trace: Path) -> None:
    grow(log, sglang(0, 200).encode())
    read(trace, log)
    (state,) = (trace / "resume").iterdir()
    if damage == "removed":
        state.unlink()
    elif damage == "garbled":
        state.write_bytes(b"x" * 50)
    else:
        text = (trace / MANIFEST).read_text()
        ((source,),) = (json.loads(text)["sources"],)
        version = source["resume"]["tool_version"]
        (trace / MANIFEST).write_text(text.replace(f'"tool_version": "{version}"', '"tool_version": "0.0.0"'))
    grow(log, sglang(200, 300).encode())
    assert read(trace, log) == [0]
    assert everything(trace) == whole(log)


def test_on_a_cluster(log: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker gets what is known as a message, and what it made comes back as one."""
    from analyzer.fleet import cluster_reading
    from analyzer.fleet.publish import pack

    def run_all_on(_: str, tasks: Any) -> Any:
        for key, told in tasks:
            out = trace.parent / f"worker-{log.stat().st_size}"
            answer = cluster_reading.read_here(told["read"], str(out))
            yield key, answer | {"files": pack(out)}

    monkeypatch.setattr(cluster_reading, "run_all_on", run_all_on)
    data = LOGS["restart"].encode()
    for begin, end in ((0, 20_000), (20_000, 30_000), (30_000, len(data))):
        grow(log, data[begin:end])
        ingest([str(log)], trace, IngestOptions(zone_from_option("UTC"), cluster="tcp://host:1"))
    assert len(parts(trace)) > 3
    assert everything(trace) == whole(log)


# what a file is called, and what it holds


def test_a_rotated_set_is_recognised(log: Path, trace: Path) -> None:
    first, second = sglang(0, 200, port=30000).encode(), sglang(300, 500).encode()
    grow(log, first)
    read(trace, log.parent)
    # it grew once more before it was rotated
    grow(log, sglang(200, 300).encode())
    log.rename(log.with_name("server.log.1"))
    grow(log, second)
    begun = read(trace, log.parent)
    assert sorted(bool(b) for b in begun) == [False, True]
    log.with_name("server.log.1").rename(log.with_name("server.log.2"))
    log.rename(log.with_name("server.log.1"))
    grow(log, sglang(500, 600).encode())
    result = ingest([str(log.parent)], trace, IngestOptions(zone_from_option("UTC"), jobs=1))
    assert result.problems == []
    assert sorted((Path(s.path).name, s.rows_of("scheduler")) for s in result.manifest.sources) == [
        ("server.log", 100), ("server.log.1", 200), ("server.log.2", 300),
    ]  # fmt: skip


def test_a_log_that_was_packed_after_it_was_rotated_is_counted_once(log: Path, trace: Path) -> None:
    data = sglang(0, 400).encode()
    read_growing(log, trace, data, [len(data) // 2])
    assert read_manifest(trace).sources[0].sha256 is None
    log.with_name("server.log.1.gz").write_bytes(gzip.compress(data))
    log.unlink()
    result = ingest([str(log.parent)], trace, IngestOptions(zone_from_option("UTC"), jobs=1))
    assert [p.message for p in result.problems] == [f"holds the same as {log}, packed otherwise: counted once"]
    assert result.manifest.totals["scheduler"] == 400


def test_a_log_that_was_emptied_and_begins_anew_is_another(log: Path, trace: Path) -> None:
    grow(log, sglang(0, 200).encode())
    read(trace, log)
    log.write_bytes(b"")
    grow(log, sglang(200, 300, running=9).encode())
    assert read(trace, log) == [0]
    assert sorted(s.rows_of("scheduler") for s in read_manifest(trace).sources) == [100, 200]


def test_a_copy_of_what_a_grown_log_was_is_nothing_new(log: Path, trace: Path) -> None:
    data = sglang(0, 400).encode()
    grow(log, data[:30_000])
    read(trace, log)
    log.with_name("a_copy.log").write_bytes(data[:30_000])
    grow(log, data[30_000:])
    result = ingest([str(log.parent)], trace, IngestOptions(zone_from_option("UTC"), jobs=1))
    assert result.manifest.totals["scheduler"] == 400
    assert [Path(p.name).name for p in result.problems] == ["a_copy.log"]


def test_another_zone_with_a_copy_of_what_a_log_was(log: Path, trace: Path) -> None:
    data = sglang(0, 400).encode()
    grow(log, data[:30_000])
    read(trace, log)
    for name in ("a_copy.log", "z_copy.log"):
        log.with_name(name).write_bytes(data[:30_000])
    grow(log, data[30_000:])
    zone = zone_from_option("+08:00")
    result = ingest([str(log.parent)], trace, IngestOptions(zone, jobs=1))
    assert result.manifest.totals["scheduler"] == 400
    assert sorted(Path(p.name).name for p in result.problems) == ["a_copy.log", "z_copy.log"]


def test_a_copy_beside_it_does_not_rename_a_log(log: Path, trace: Path) -> None:
    data = sglang(0, 200).encode()
    grow(log, data)
    read(trace, log)
    copy = log.with_name("copy.log")
    copy.write_bytes(data)
    result = ingest([str(copy)], trace, IngestOptions(zone_from_option("UTC"), jobs=1))
    assert [Path(s.path).name for s in result.manifest.sources] == ["server.log"]
    assert len(result.problems) == 1


def test_the_last_line_may_be_written_to_its_end(log: Path, trace: Path) -> None:
    data = sglang(0, 200).encode()
    read_growing(log, trace, data, [len(data) - 30, len(data) - 1])
    assert everything(trace) == whole(log)


def test_a_source_that_did_not_grow_is_not_read(log: Path, trace: Path) -> None:
    data = sglang(0, 400).encode()
    read_growing(log, trace, data, [len(data) // 2])
    before = (trace / MANIFEST).read_bytes()
    assert read(trace, log) == []
    assert (trace / MANIFEST).read_bytes() == before


# how it is stored


def test_queries_see_the_parts_as_one(log: Path, trace: Path) -> None:
    data = (SAMPLES / "l1_bound_sglang" / "server.log").read_bytes()
    read_growing(log, trace, data, some_cuts("views", data, 8))
    whole(log)
    with Trace(trace) as grown, Trace(log.parents[1] / "whole.kvtrace") as once:
        views = [name for (name,) in grown.con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()]
        views += [name for (name,) in grown.con.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        assert len(views) > 30
        for name in views:
            if name not in ("sources", *ROW_TABLES) and not name.startswith("_empty"):
                assert _rows(grown.con, name) == _rows(once.con, name), name


def _rows(con: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    told = con.execute(f'SELECT * EXCLUDE (source_id) FROM "{name}"') if _has_source(con, name) else con.execute(f'SELECT * FROM "{name}"')
    return sorted(str([round(v, 6) if isinstance(v, float) else v for v in row]) for row in told.fetchall())


def _has_source(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    return any(c[0] == "source_id" for c in con.execute(f'SELECT * FROM "{name}" LIMIT 0').description or ())


def test_many_parts_become_few(log: Path, trace: Path) -> None:
    most = 0
    for step in range(40):
        grow(log, sglang(100 * step, 100 * step + 100, port=30000 if step == 0 else None).encode())
        read(trace, log)
        most = max(most, len(parts(trace)))
    # of three tables
    assert 3 < most <= 12
    assert everything(trace) == whole(log)


def test_compact(log: Path, trace: Path) -> None:
    data = sglang(0, 90, port=30000) + sglang(300, 400, port=30000)
    read_growing(log, trace, data.encode(), [15_000, 22_000])
    rows = everything(trace)
    assert max(len(files) for files in read_manifest(trace).sources[0].files.values()) > 2
    compact(trace)
    for files in read_manifest(trace).sources[0].files.values():
        assert [f.tail for f in files] in ([False], [False, True], [True])
    assert everything(trace) == rows
    named = {f.path for name in ROW_TABLES for f in read_manifest(trace).files_of(name)}
    assert {str(p.relative_to(trace)) for name in ROW_TABLES for p in (trace / name).glob("*")} == named
    # and it goes on from there
    grow(log, sglang(400, 500).encode())
    assert read(trace, log)[0] > 0
    assert everything(trace) == whole(log)


@pytest.mark.parametrize("where", ["rows", "state", "manifest"])
def test_what_is_broken_off_leaves_the_trace_as_it_was(where: str, log: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(log, sglang(0, 200, port=30000).encode())
    read(trace, log)
    rows = everything(trace)
    grow(log, sglang(200, 400).encode())

    def broken(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if where == "rows":
            patch.setattr(analyzer.trace.assembly, "store_rows", broken)
        elif where == "state":
            patch.setattr(analyzer.trace.assembly, "write_state", broken)
        else:
            patch.setattr(analyzer.trace.manifest, "replace_file", broken)
        with pytest.raises(KeyboardInterrupt):
            read(trace, log)
    assert everything(trace) == rows
    with Trace(trace) as opened:
        assert opened.con.execute("SELECT count(*) FROM scheduler").fetchall() == [(200,)]
    assert read(trace, log)[0] > 0
    assert everything(trace) == whole(log)
    assert not list(trace.rglob("*.partial"))
    assert len(list((trace / "resume").iterdir())) == 1


# traces of the format before


def as_format_1(trace: Path) -> None:
    """Write the manifest of a trace as it was before there were several files of a table."""
    document = json.loads((trace / MANIFEST).read_text())
    document["format_version"] = 1
    for source in document["sources"]:
        for name in ("sample", "content_size", "content_sample", "head", "resume", "placed"):
            del source[name]
        assert all(len(files) == 1 for files in source["files"].values())
        source["files"] = {table: {"path": f["path"], "rows": f["rows"]} for table, (f,) in source["files"].items()}
    (trace / MANIFEST).write_text(json.dumps(document))


@pytest.fixture
def old(log: Path, trace: Path) -> Path:
    grow(log, sglang(0, 200, port=30000).encode())
    read(trace, log, resumable=False)
    as_format_1(trace)
    return trace


def test_an_old_trace_opens(old: Path) -> None:
    with Trace(old) as opened:
        assert opened.con.execute("SELECT count(*) FROM scheduler").fetchall() == [(200,)]


def test_an_old_trace_is_added_to(old: Path, log: Path) -> None:
    assert read(old, log) == []
    assert read_manifest(old).format_version == 2
    assert read_manifest(old).sources[0].sample
    as_format_1(old)
    files = parts(old)
    grow(log.with_name("other.log"), sglang(0, 50, port=30001).encode())
    read(old, log.parent)
    assert sorted(s.rows_of("scheduler") for s in read_manifest(old).sources) == [50, 200]
    assert files.keys() != parts(old).keys()


def test_a_log_of_an_old_trace_grows(old: Path, log: Path) -> None:
    grow(log, sglang(200, 300).encode())
    assert read(old, log) == [0]
    grow(log, sglang(300, 400).encode())
    assert read(old, log)[0] > 0
    assert everything(old) == whole(log)


def test_an_older_release_refuses_the_new_format(log: Path, trace: Path) -> None:
    """It compares this number with the one it knows, and says what to do."""
    grow(log, sglang(0, 200).encode())
    read(trace, log)
    assert json.loads((trace / MANIFEST).read_text())["format_version"] == 2
