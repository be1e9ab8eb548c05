"""Inputs that are made up: seeded, of their size, and what their names say."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
import zstandard
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.inputs import logs
from benchmarks.inputs.requests import records
from benchmarks.inputs.scrapes import scrapes
from benchmarks.inputs.writing import gzipped, write, write_one_line, write_split, zstandard_packed

STREAMS: dict[str, Callable[[int], Iterator[bytes]]] = {
    "dense, SGLang": lambda seed: logs.dense("sglang", seed),
    "dense, vLLM": lambda seed: logs.dense("vllm", seed),
    "sparse": lambda seed: logs.sparse("sglang", seed),
    "scrapes": scrapes,
    "requests": records,
}


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
def test_a_seed_makes_the_same_and_another_seed_something_else(make: Callable[[int], Iterator[bytes]]) -> None:
    first, again, other = (b"".join(islice(make(seed), 2)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
def test_a_smaller_file_is_the_beginning_of_a_larger_one(make: Callable[[int], Iterator[bytes]], tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    for path, size in ((small, 300_000), (large, 500_000)):
        written = write(path, make(1), size)
        assert size - 10_000 < written == path.stat().st_size <= size
        assert path.read_bytes().endswith(b"\n")
    assert large.read_bytes().startswith(small.read_bytes())


def test_a_file_has_at_least_one_line(tmp_path: Path) -> None:
    assert write(tmp_path / "f", iter([b"first line\nsecond\n"]), 3) == len(b"first line\n")


@pytest.mark.parametrize(("engine", "stamp"), [("sglang", rb"\d{4}-\d\d-\d\d [\d:]{8}"), ("vllm", rb"\d\d-\d\d [\d:]{8}")])
def test_time_goes_on_from_block_to_block_and_lines_stay_whole(engine: str, stamp: bytes) -> None:
    blocks = list(islice(logs.dense(engine, 1), 3))
    samples = {re.sub(rb"\d", b"0", line) for line in logs.sample_lines(engine)[0]}
    lines = b"".join(blocks).splitlines(keepends=True)
    assert {re.sub(rb"\d", b"0", line) for line in lines} == samples
    stamps = [m[0] for m in (re.search(stamp, line) for line in lines) if m]
    assert len(stamps) == len(lines)
    assert stamps == sorted(stamps)
    assert len(set(stamps)) >= len(stamps) / logs.DENSE_PER_S
    assert blocks[0] != blocks[1]


def test_three_of_a_hundred_lines_of_a_sparse_log_are_a_schedulers() -> None:
    lines = next(logs.sparse("sglang", 1)).splitlines()
    reports = sum(b" batch, #" in line or b"Retract requests" in line for line in lines)
    assert reports / len(lines) == pytest.approx(logs.SPARSE_SHARE, rel=0.1)
    assert any(b" HTTP/" in line for line in lines)


def test_an_incident_begins_with_the_start_of_the_server_and_goes_on() -> None:
    whole = b"".join(logs.incident(700_000))
    assert 700_000 <= len(whole) < 1_000_000
    assert whole.count(b"server_args=") == 1
    stamps = re.findall(rb"^\[([\d-]+ [\d:]+)", whole, re.MULTILINE)
    assert stamps == sorted(stamps)


def test_a_log_in_parts_is_the_log(tmp_path: Path) -> None:
    size = write_split(tmp_path / "parts", logs.sparse("sglang", 1), 1_000_000, 250_000)
    parts = [path.read_bytes() for path in sorted((tmp_path / "parts").iterdir())]
    whole = b"".join(islice(logs.sparse("sglang", 1), 3))
    assert len(parts) == 4
    assert b"".join(parts) == whole[:size]
    assert all(part.endswith(b"\n") for part in parts)


def test_one_line_is_one_line(tmp_path: Path) -> None:
    size = write_one_line(tmp_path / "log", 2_500_000, b"the end\n")
    first, last = (tmp_path / "log").read_bytes().splitlines()
    assert (len(first), last, size) == (2_500_000, b"the end", 2_500_009)


def test_packed_files_hold_the_same(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    write(log, logs.dense("vllm", 1), 100_000)
    assert gzip.decompress(gzipped(log).read_bytes()) == log.read_bytes()
    with zstandard.open(zstandard_packed(log)) as handle:
        assert handle.read() == log.read_bytes()


def test_scrapes_are_of_the_series_asked_for_and_counters_never_fall() -> None:
    first, second = ({(s.name, *s.labels.values()): s.value for f in text_string_to_metric_families(text.decode()) for s in f.samples}
                     for text in islice(scrapes(1, series=400), 2))  # fmt: skip
    assert len(first) == pytest.approx(400, rel=0.15)
    assert first.keys() == second.keys()
    gauges = {key for key in first if key[0] == "vllm:kv_cache_usage_perc"}
    assert all(0 <= second[key] <= 1 for key in gauges)
    assert all(second[key] >= value for key, value in first.items() if key not in gauges)
    assert first != second


def test_requests_have_prompts_of_all_sorts() -> None:
    rows = [json.loads(line) for line in islice(records(1), 200)]
    assert all({"send", "ttft", "e2e", "prompt", "output"} <= row.keys() for row in rows)
    text = "".join(row["prompt"] for row in rows)
    assert all(piece in text for piece in ("\n", '"', "首先"))
    assert len({row["prompt"] for row in rows}) == len(rows)
    assert [row["send"] for row in rows] == sorted(row["send"] for row in rows)
