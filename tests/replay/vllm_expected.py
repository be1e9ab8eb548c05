"""Holds the model against what vLLM's own scheduler wrote for a workload, line by line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from analyzer.replay.oracle_files import OracleWorkload, parse, request_rows
from analyzer.replay.vllm import serve

Rows = list[dict[str, Any]]


def read(document: dict[str, Any]) -> OracleWorkload:
    """A workload file's object, with what only this oracle's requests have: an output that ends before its limit."""
    loaded = parse(document)
    limits = {str(row["id"]): row.get("max_new_tokens", row["output_len"]) for row in document["requests"]}
    requests = tuple(replace(request, max_new_tokens=limits[request.id]) for request in loaded.workload.requests)
    return replace(loaded, workload=replace(loaded.workload, requests=requests))


def differences(document: dict[str, Any], steps: Rows, requests: Rows) -> list[str]:
    """What the model does otherwise, told for the first step and the first request that differ; with rows and without."""
    loaded = read(document)
    rows: Rows = []
    told = serve(loaded.workload, loaded.settings, loaded.step_time, sink=rows.append)
    silent = serve(loaded.workload, loaded.settings, loaded.step_time)
    found = _first(rows, steps) + _first(request_rows(loaded, told), requests)
    same = told.requests == silent.requests and told.curves == silent.curves and told.end_s == silent.end_s
    return found + ([] if same else ["without a sink the result is another"])


def _first(mine: Rows, theirs: Rows) -> list[str]:
    for at, (ours, wanted) in enumerate(zip(mine, theirs, strict=False)):
        # as text, so that the order of the columns and 1 and 1.0 count
        if json.dumps(ours) != json.dumps(wanted):
            keys = [key for key in wanted | ours if ours.get(key) != wanted.get(key)]
            return [f"line {at}: " + str({key: (ours.get(key), wanted.get(key)) for key in keys} or "written otherwise")]
    return [] if len(mine) == len(theirs) else [f"{len(mine)} lines, not {len(theirs)}"]
