"""Holds the model against what SGLang's own scheduler wrote for a workload, line by line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from analyzer.replay.oracle_files import load, request_rows
from analyzer.replay.result import Replayed
from analyzer.replay.sglang import serve


def lines(path: Path) -> list[str]:
    """Of a text file, packed or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as text:
        return text.read().splitlines()


def differences(workload: Path, steps: list[str], requests: list[str]) -> list[str]:
    """What the model does otherwise, told for the first step and the first request that differ; with rows and without."""
    read = load(workload, "sglang")
    rows: list[str] = []
    told = serve(read.workload, read.settings, read.step_time, sink=lambda row: rows.append(json.dumps(row)))
    silent = serve(read.workload, read.settings, read.step_time)
    found = _first(rows, steps) + _first([json.dumps(row) for row in request_rows(read, told)], requests)
    return found + ([] if _same(told, silent) else ["without a sink the result is another"])


def _same(a: Replayed, b: Replayed) -> bool:
    return a.requests == b.requests and a.curves == b.curves and (a.end_s, a.retractions) == (b.end_s, b.retractions)


def _first(mine: list[str], theirs: list[str]) -> list[str]:
    for at, (a, b) in enumerate(zip(mine, theirs, strict=False)):
        if a != b:
            ours, wanted = json.loads(a), json.loads(b)
            return [
                f"line {at}: " + str({key: (ours.get(key), wanted.get(key)) for key in wanted | ours if ours.get(key) != wanted.get(key)})
            ]
    return [] if len(mine) == len(theirs) else [f"{len(mine)} lines, not {len(theirs)}"]
