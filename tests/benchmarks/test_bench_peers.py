"""The peers find what there is: a peer that skips work would make the tool look slow."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import polars as pl
import pytest

from analyzer import ingest, open_trace
from benchmarks.inputs import logs
from benchmarks.inputs.requests import records
from benchmarks.inputs.scrapes import scrapes
from benchmarks.inputs.writing import gzipped, write, zstandard_packed
from benchmarks.peers import duckdb_regexp, orjson_lines, polars_groups, prometheus_parser, python_re, unpack
from benchmarks.peers.line_kinds import KINDS
from benchmarks.process import run
from benchmarks.suites.logs import AWK


@pytest.fixture(params=["dense sglang", "dense vllm", "sparse sglang"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, int]:
    """Engine, a log, and how many lines of its scheduler are in it."""
    make, engine = str(request.param).split()
    path = tmp_path / "server.log"
    write(path, getattr(logs, make)(engine, 3), 400_000)
    text = path.read_text(encoding="utf-8")
    return engine, path, sum(text.count(kind.words) for kind in KINDS[engine].values())


def test_parsers_find_every_line(log: tuple[str, Path, int], tmp_path: Path) -> None:
    engine, path, lines = log
    assert lines > 50
    assert python_re.parse(engine, path, tmp_path) == lines
    assert polars_groups.parse(engine, path, tmp_path) == lines
    assert polars_groups.parse(engine, path, tmp_path, words_first=True) == lines
    assert duckdb_regexp.parse(engine, path, tmp_path) == lines


def test_fields_are_those_of_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    write(path, logs.dense("sglang", 3), 200_000)
    ingest([str(path)], tmp_path / "t.kvtrace")
    with open_trace(tmp_path / "t.kvtrace") as trace:
        ours = trace.con.execute(
            "SELECT running, waiting, kv_usage, kv_used_tokens FROM scheduler WHERE kind = 'decode' ORDER BY record"
        ).fetchall()
    columns = ["running", "queue", "usage", "token"]
    polars_groups.parse("sglang", path, tmp_path)
    theirs = pl.read_parquet(tmp_path / "decode.parquet").select(columns).rows()
    assert [tuple(map(float, row)) for row in ours] == theirs
    duckdb_regexp.parse("sglang", path, tmp_path)
    assert pl.read_parquet(tmp_path / "decode.parquet").select(pl.col(columns).cast(float)).rows() == theirs
    python_re.parse("sglang", path, tmp_path)
    with (tmp_path / "decode.csv").open(encoding="utf-8", newline="") as handle:
        assert [tuple(float(row[c]) for c in columns) for row in csv.DictReader(handle)] == theirs


@pytest.mark.skipif(shutil.which("mawk") is None, reason="needs mawk")
def test_mawk_finds_every_line_and_splits_it(log: tuple[str, Path, int], tmp_path: Path) -> None:
    _, path, lines = log
    assert run(["mawk", "-v", f"out={tmp_path}", "-f", AWK, path], tmp_path).out == f"{lines}\n"
    rows = (tmp_path / "fields.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == lines
    assert all(row.count(",") > 4 for row in rows)


@pytest.mark.skipif(shutil.which("rg") is None, reason="needs ripgrep")
def test_ripgrep_counts_every_line(log: tuple[str, Path, int], tmp_path: Path) -> None:
    engine, path, lines = log
    patterns = [x for kind in KINDS[engine].values() for x in ("-e", kind.whole)]
    assert run(["rg", "-c", *patterns, path], tmp_path).out == f"{lines}\n"


def test_the_rest_find_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write(path, scrapes(1, series=100), 100_000)
    samples = [line for line in path.read_bytes().splitlines() if not line.startswith(b"#")]
    assert prometheus_parser.count(path) == len(samples)
    write(path, records(1), 100_000)
    assert orjson_lines.count(path) == path.read_bytes().count(b"\n")


def test_unpacking_finds_words_that_lie_across_two_blocks(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    write(path, logs.dense("sglang", 1), 3 * unpack.BLOCK)
    text = path.read_bytes()
    for packed in (gzipped(path), zstandard_packed(path)):
        assert unpack.count(packed, [b"Decode batch", b"Prefill batch"]) == text.count(b"Decode batch") + text.count(b"Prefill batch")
