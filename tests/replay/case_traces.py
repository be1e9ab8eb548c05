"""Captures for the tests of cases: rendered from runs of the engines' own schedulers, or written line by line."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "incidents"))

from oracle import CASES
from oracle_files import CLIENTS, LOG, METRICS, began, files, load

from analyzer import ingest, open_trace
from analyzer.ingestion import IngestOptions
from analyzer.replay.settings import Settings
from analyzer.trace.reader import Trace

__all__ = ["CLIENTS", "LOG", "METRICS", "Truth", "instance_of", "kept", "opened", "set_as_run", "truth"]


@dataclass(frozen=True)
class Truth:
    """What is true of a rendered case: its requests in the order of arrival (seconds after `start_s`, epoch), and its configuration."""

    requests: list[dict[str, Any]]
    config: dict[str, Any]
    start_s: float


def truth(key: str) -> Truth:
    """Of one of the oracle cases, for example `sglang_l1-short_s1`."""
    doc = load(key)
    rows = [dict(zip(doc["request_columns"], row, strict=True)) for row in doc["requests"]]
    return Truth(sorted(rows, key=lambda r: r["arrival"]), doc["config"], began(doc).replace(tzinfo=UTC).timestamp())


def kept(key: str, *names: str) -> dict[str, bytes]:
    """The files of an oracle case that were kept."""
    made = files(key, CASES[key])
    return {n: made[n] for n in names if n in made}


def opened(folder: Path, given: dict[str, bytes | str]) -> Trace:
    """An opened trace of the files; the caller closes it."""
    inputs = folder / "in"
    inputs.mkdir(parents=True)
    for name, data in given.items():
        (inputs / name).parent.mkdir(exist_ok=True)
        (inputs / name).write_bytes(data.encode() if isinstance(data, str) else data)
    ingest([str(inputs)], folder / "t.kvtrace", IngestOptions(year=2026, zone=UTC))
    return open_trace(folder / "t.kvtrace")


def instance_of(trace: Trace) -> str:
    """The only instance."""
    ((name,),) = trace.con.execute("SELECT DISTINCT instance FROM run").fetchall()
    return str(name)


def set_as_run(key: str, settings: Settings) -> bool:
    """Whether settings are those that an oracle case ran with."""
    names = {
        "sglang": {
            "l1_tokens": "max_total_num_tokens", "page_tokens": "page_size", "chunked_prefill_tokens": "chunked_prefill_size",
            "max_prefill_tokens": "max_prefill_tokens", "max_running": "max_running_requests", "policy": "schedule_policy",
            "conservativeness": "schedule_conservativeness", "context_tokens": "context_length", "overlap": "overlap",
        },
        "vllm": {
            "num_blocks": "num_blocks", "block_tokens": "block_size", "max_running": "max_num_seqs",
            "step_tokens": "max_num_batched_tokens", "max_model_tokens": "max_model_len", "watermark_share": "watermark",
            "prefix_caching": "enable_prefix_caching",
        },
    }[key.partition("_")[0]]  # fmt: skip
    config = truth(key).config
    assert {ours: getattr(settings, ours) for ours in names} == {ours: config[theirs] for ours, theirs in names.items()}
    return True
