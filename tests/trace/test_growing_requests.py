"""Request records that grow: what is made of them is what is made of the whole file."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from growing import everything, grow, read, read_growing

from analyzer.sources.timestamps import zone_from_option
from analyzer.trace.manifest import read_manifest

START = 1_796_022_481
SECRET = "the-prompt-of-a-user"
FILLER = "x" * 300


def client(count: int) -> Iterator[dict[str, Any]]:
    """What a load generator writes, of two servers, with some broken values."""
    for n in range(count):
        yield {
            "id": n, "send": START + n / 4, "ttft": 0.1 if n % 11 else -1, "e2e": 1.5, "prompt_tokens": 100 + n, "output_tokens": 9,
            "server": f"http://10.0.0.{n % 2 + 1}:8000", "prompt": SECRET, "note": FILLER,
        }  # fmt: skip


def export(count: int) -> Iterator[dict[str, Any]]:
    """SGLang's export of finished requests."""
    for n in range(count):
        asked = {"rid": f"r{n}", "text": SECRET, "sampling_params": {"max_new_tokens": 64}, "note": FILLER}
        yield {
            "request_parameters": json.dumps(asked), "id": f"r{n}", "prompt_tokens": 100 + n, "completion_tokens": 9,
            "e2e_latency": 2.5, "first_token_latency": 0.5, "request_received_ts": START + n, "finish_reason": {"type": "stop"},
        }  # fmt: skip


def events(count: int) -> Iterator[dict[str, Any]]:
    """SGLang's log of requests: each is received, and most end twenty lines later; one in five is never heard of again."""
    for n in range(count):
        at = datetime(2026, 3, 10, 12, tzinfo=UTC) + timedelta(seconds=n)
        stamp = at.isoformat().removesuffix("+00:00")
        yield {
            "timestamp": stamp,
            "event": "request.received",
            "rid": f"r{n}",
            "obj": {"text": SECRET, "sampling_params": {"max_new_tokens": n}},
        }
        if n >= 20 and n % 5:
            meta = {"id": f"r{n - 20}", "prompt_tokens": n, "completion_tokens": 9, "finish_reason": {"type": "stop"}, "note": FILLER}
            yield {"timestamp": stamp, "event": "request.finished", "rid": f"r{n - 20}", "obj": {}, "out": {"meta_info": meta}}


FORMATS = {"client": client, "sglang_metrics_file": export, "sglang_request_log": events}


def text_of(name: str, count: int = 500) -> bytes:
    """A file of these records, with a line in it that is none."""
    lines = [json.dumps(record) for record in FORMATS[name](count)]
    lines[len(lines) // 2 : len(lines) // 2] = ['{"broken": ', "", "no json"]
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "in" / "requests.jsonl"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "t.kvtrace"


def whole(file: Path, **options: Any) -> dict[str, Any]:
    """What is made of a file that is read for the first time."""
    trace = file.parents[1] / "whole.kvtrace"
    assert read(trace, file, **options) == [0]
    return everything(trace)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(3, 12))])
@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_those_of_the_whole_file(name: str, seed: int, file: Path, trace: Path) -> None:
    data = text_of(name)
    assert len(data) > 150_000
    chosen = random.Random(f"{name} {seed}")
    begun = read_growing(file, trace, data, [chosen.randrange(20_000, len(data)) for _ in range(6)] + [120_000])
    assert read_manifest(trace).sources[0].row["format"] == name
    assert everything(trace) == whole(file)
    assert begun[-1] > 0


@pytest.mark.parametrize("name", FORMATS)
def test_without_texts_none_is_kept_for_later(name: str, file: Path, trace: Path) -> None:
    import zstandard

    grow(file, text_of(name))
    read(trace, file)
    (state,) = (trace / "resume").iterdir()
    assert SECRET.encode() not in zstandard.ZstdDecompressor().decompress(state.read_bytes(), max_output_size=1 << 24)
    assert SECRET not in (trace / "manifest.json").read_text()


@pytest.mark.parametrize("name", FORMATS)
def test_texts_that_were_asked_for_once_are_kept_of_new_lines_too(name: str, file: Path, trace: Path) -> None:
    data = text_of(name)
    half = len(data) * 2 // 3
    grow(file, data[:half])
    read(trace, file, keep_text=True)
    grow(file, data[half:])
    assert read(trace, file)[0] > 0
    assert everything(trace) == whole(file, keep_text=True)


def test_a_record_over_many_lines_is_not_parted(file: Path, trace: Path) -> None:
    data = "\n".join(json.dumps(record, indent=1) for record in client(400)).encode()
    read_growing(file, trace, data, [100_000, 150_000, 170_000])
    assert everything(trace) == whole(file)


def test_an_array_that_is_written_line_by_line(file: Path, trace: Path) -> None:
    data = ("[" + ",\n".join(json.dumps(record) for record in client(400)) + "]\n").encode()
    begun = read_growing(file, trace, data, [100_000, 150_000, 170_000])
    assert everything(trace) == whole(file)
    assert begun[-1] > 0


def test_a_small_file_is_read_again(file: Path, trace: Path) -> None:
    """What servers there are is told by its beginning, which may not be there yet."""
    data = text_of("client", 100)
    assert read_growing(file, trace, data, [20_000]) == [0, 0]
    assert everything(trace) == whole(file)


def test_another_zone_reads_it_again(file: Path, trace: Path) -> None:
    data = text_of("sglang_request_log")
    grow(file, data[:150_000])
    read(trace, file)
    grow(file, data[150_000:])
    assert read(trace, file, zone=zone_from_option("+08:00")) == [0]
    assert everything(trace) == whole(file, zone=zone_from_option("+08:00"))
