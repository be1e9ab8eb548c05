"""Logs as they are: of nothing but scheduler lines, and of 3 % of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.contest import Contest, Reader
from benchmarks.inputs import logs
from benchmarks.inputs.writing import MB, write
from benchmarks.peers.line_kinds import KINDS
from benchmarks.workshop import Workshop, kvpm, peer, rows_in, sum_of_lines

PEAK = 500 * MB
AWK = Path(__file__).resolve().parents[1] / "peers" / "split_fields.awk"
# What slow peers read of a log, in MB: polars holds all of it several times over.
DENSE_PART, SPARSE_PART = 50, 200


def contests(work: Workshop) -> Iterator[Contest]:
    """Dense logs of both engines, and a sparse one."""
    for engine, name, mb in (("sglang", "dense, SGLang", 400), ("vllm", "dense, vLLM", 200)):
        if work.wants(name):
            size = work.bytes_of(mb)
            folder = work.made(f"dense-{engine}")
            log, part = folder / "server.log", folder / "part.log"
            whole = write(log, logs.dense(engine, work.seed), size)
            less = write(part, logs.dense(engine, work.seed), work.part_of(size, DENSE_PART))
            lines = _rg(engine, log, whole, at_least=1 / 4)
            yield Contest(name, ingest(folder, log, whole), [lines, *_parsers(engine, log, whole, part, less, at_least=10)], PEAK)
            shutil.rmtree(folder)
    if work.wants("sparse, SGLang"):
        size = work.bytes_of(1000)
        folder = work.made("sparse")
        log, part = folder / "server.log", folder / "part.log"
        whole = write(log, logs.sparse("sglang", work.seed), size)
        less = write(part, logs.sparse("sglang", work.seed), work.part_of(size, SPARSE_PART))
        words = grep("sglang", log, whole, at_least=1 / 6)
        yield Contest("sparse, SGLang", ingest(folder, log, whole), [words, *_parsers("sglang", log, whole, part, less, at_least=5)], PEAK)
        shutil.rmtree(folder)


def ingest(folder: Path, given: Path, size: int) -> Reader:
    """The whole command, to the finished trace; found are the rows that scheduler lines become."""
    trace = folder / "server.kvtrace"
    command = kvpm("ingest", given, "-o", trace, "--force", "--year", str(logs.YEAR))
    return Reader("kvpm ingest", command, size, rows_in(trace, ("scheduler", "events")))


def grep(engine: str, given: Path, size: int, at_least: float | None = None) -> Reader:
    """The words of the line kinds, counted by line; in a folder, of all its files."""
    words = [x for kind in KINDS[engine].values() for x in ("-e", kind.words)]
    many = ["-rh"] if given.is_dir() else []
    return Reader("grep -cF", ["grep", *many, "-cF", *words, given], size, sum_of_lines, at_least)


def _rg(engine: str, log: Path, size: int, at_least: float) -> Reader:
    """The lines of the kinds counted, from their words to a field at their end."""
    patterns = [x for kind in KINDS[engine].values() for x in ("-e", kind.whole)]
    return Reader("rg -c", ["rg", "-c", *patterns, log], size, sum_of_lines, at_least)


def _parsers(engine: str, log: Path, whole: int, part: Path, less: int, at_least: float) -> Sequence[Reader]:
    """What takes the fields out of the lines; slow ones get a part."""
    out = log.parent / "out"
    out.mkdir()
    return (
        Reader("mawk", ["mawk", "-v", f"out={out}", "-f", AWK, log], whole, sum_of_lines),
        Reader("polars extract_groups", peer("polars_groups", engine, part, out), less, sum_of_lines, at_least),
        Reader("polars, words first", peer("polars_groups", "--words-first", engine, part, out), less, sum_of_lines),
        Reader("Python re to CSV", peer("python_re", engine, part, out), less, sum_of_lines),
        Reader("DuckDB regexp_extract", peer("duckdb_regexp", engine, part, out), less, sum_of_lines),
    )
