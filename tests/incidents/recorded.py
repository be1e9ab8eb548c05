"""Labelled incidents from the recordings of running servers in `sample_traces`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from incident import Incident, split_of

from analyzer.diagnosis.model import Cause

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
LOG, METRICS, CLIENTS = "server.log", "metrics.prom.gz", "client.jsonl.gz"

# folder, seed of the arrivals, cause, also, because
RECORDINGS: tuple[tuple[str, int, Cause, tuple[Cause, ...], str], ...] = (
    ("healthy", 32, "none", (), "1.5 requests/s used 0.8 % of the pool and nothing waited; P99 TTFT was 1.0 s by stalls of the host"),
    (
        "l1_bound",
        11,
        "l1_bound",
        (),
        "a pool of 64 blocks for 6 requests/s was full, 132 requests waited and 378 were preempted below a cap of 64",
    ),
    ("cap_bound", 13, "cap_bound", (), "max_num_seqs was 2, 154 requests waited and the pool was used to 0.7 %"),
    (
        "prefill_bound",
        14,
        "prefill_bound",
        (),
        "2,000-token prompts met a budget of 128 tokens a step; 401 requests waited at a usage of 1.6 %",
    ),
    (
        "restart_midway",
        41,
        "restart",
        ("l1_bound",),
        "the server was ended by SIGTERM and started again; before that it had preempted 20 requests",
    ),
)


def incidents() -> list[Incident]:
    """All cases of this module."""
    return [
        Incident(
            f"recorded-{folder.replace('_', '-')}",
            cause,
            "recorded",
            "vllm",
            "0.32.0",
            seed,
            split_of(seed),
            because,
            partial(_files, folder),
            also=also,
            logs=(LOG,),
            metrics=(METRICS,),
            clients=(CLIENTS,),
        )
        for folder, seed, cause, also, because in RECORDINGS
    ]


def _files(folder: str) -> dict[str, bytes]:
    return {name: (SAMPLES / f"recorded_{folder}" / name).read_bytes() for name in (LOG, METRICS, CLIENTS)}
