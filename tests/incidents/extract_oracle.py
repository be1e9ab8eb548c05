"""Turns the runs of the engines' own schedulers into the small extracts of `data/`: `extract_oracle.py RUNS ENGINE [CASE ...]`.

An extract keeps what a log, a scraper and a client would see (one row per SGLang report, one per second for counters, one per request),
the P99 of TTFT with each knob turned, and what the scheduler itself knew about its queue. Seconds are seconds of the run.
"""

from __future__ import annotations

import gzip
import json
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

Row = dict[str, Any]
DATA = Path(__file__).parent / "data"
DECODE_STEPS = 40  # SGLang's default interval of decode lines


def lines(path: Path) -> list[Row]:
    """A JSON-lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def p99_ttft(requests: Sequence[Row]) -> float:
    """P99 of TTFT in seconds, the nearest rank as the driver's summary has it."""
    known = sorted(r["first_token"] - r["arrival"] for r in requests if r["first_token"] is not None)
    return float(known[min(len(known) - 1, int(len(known) * 0.99))])


def _ms(t: float) -> float:
    return round(t, 3)


# -- what the scheduler knew


def queue_facts(engine: str, config: Row, steps: Sequence[Row], requests: Sequence[Row]) -> Row:
    """Of the steps with requests waiting: for how many the head's prompt would have fitted; retractions; the longest queue, in seconds."""
    order = sorted(requests, key=lambda r: (r["added"], r["arrival"]))
    head = fitted = waiting = retracted = 0
    longest, since = 0.0, None
    for step in steps:
        if not step["waiting"]:
            since = None
            continue
        since = step["t"] if since is None else since
        longest = max(longest, step["t_end"] - since)
        retracted += len(step["retracted"] if engine == "sglang" else step["preempted"])
        while head < len(order) and order[head]["first_scheduled"] <= step["t"]:
            head += 1
        if head == len(order):
            continue  # only retracted requests wait
        waiting += 1
        need = order[head]["prompt_len"] - (order[head].get("cached_tokens") or 0)
        fitted += need <= _room(engine, config, step)
    return {
        "steps_waiting": waiting, "head_fitted": round(fitted / waiting, 4) if waiting else None, "retracted_while_waiting": retracted,
        "longest_queue_s": _ms(longest), "max_waiting": max(s["waiting"] for s in steps), "max_running": max(s["running"] for s in steps),
        "max_usage": max(s["token_usage" if engine == "sglang" else "kv_usage"] for s in steps),
        "requests": len(requests),
    }  # fmt: skip


def _room(engine: str, config: Row, step: Row) -> int:
    if engine == "sglang":
        return int(step["available"] + step["evictable"])
    return int((1 - step["kv_usage"]) * (config["num_blocks"] - 1)) * int(config["block_size"])


# -- what would be printed


def sglang_rows(config: Row, steps: Sequence[Row], requests: Sequence[Row]) -> list[Row]:
    """One row per line, with the pool as it was when the line was printed: after the batch's result was taken in.

    With the overlapped scheduler the next batch has been made by then, so `q` is the queue behind that one; `before` and `q_before` are
    what older versions print, when they make the batch.
    """
    by_id = {r["id"]: r for r in requests}
    new_tokens = [(r["added"], r["prompt_len"] - r["cached_tokens"]) for r in requests]
    new_tokens += [(r["first_scheduled"], r["cached_tokens"] - r["prompt_len"]) for r in requests]
    new_tokens.sort()
    arrived = pending = 0
    rows: list[Row] = []
    seen: set[str] = set()
    written: dict[str, int] = {}  # tokens of the running requests
    decodes = tokens = 0
    last_decode = steps[0]["t"]
    last_prefill: float | None = None
    before = 0.0
    for number, step in enumerate(steps):
        following = steps[number + 1] if number + 1 < len(steps) else step
        waiting = (following if following["t"] < step["t_end"] - 1e-6 else step)["waiting"]
        if step["retracted"]:
            gone = step["retracted"]
            rows.append({
                "k": "retract", "t": _ms(step["t"]), "n": len(gone), "a": step["new_token_ratio_before"], "b": step["new_token_ratio"],
                "in": sum(by_id[i]["prompt_len"] for i in gone), "out": sum(written.pop(i, 1) for i in gone),
            })  # fmt: skip
        pool = {"av": step["available_end"], "ev": step["evictable_end"], "after": step["token_usage_end"]}
        while arrived < len(new_tokens) and new_tokens[arrived][0] <= following["t"]:
            pending += new_tokens[arrived][1]
            arrived += 1
        if step["kind"] == "prefill":
            fresh = [i for i in step["new_ids"] if i not in seen]
            seen |= set(fresh)
            done = [i for i in step["new_ids"] if i != step["chunked"]]
            for i in done:
                written[i] = written.get(i, 0) + 1
            end = step["t_end"]
            rows.append({
                "k": "prefill", "s": _ms(step["t_start"]), "t": _ms(end), "new": len(step["new_ids"]), "tok": step["tokens"],
                "cached": sum(by_id[i]["cached_tokens"] for i in fresh), "before": before, "run": step["running"], "q": waiting,
                "q_before": step["waiting"], "pending": pending, "ratio": round(step["new_token_ratio"], 4),
                "d": _ms(end - (step["t_start"] if last_prefill is None else last_prefill)), **pool,
            })  # fmt: skip
            last_prefill = end
            tokens += len(done)
        else:
            decodes += 1
            tokens += step["batch"]
            for i in written:
                written[i] += 1
            if decodes % DECODE_STEPS == 0:
                used = config["max_total_num_tokens"] - step["available_end"] - step["evictable_end"]
                rate = tokens / max(1e-3, step["t_end"] - last_decode)
                rows.append({
                    "k": "decode", "t": _ms(step["t_end"]), "run": step["batch"], "used": used, "gen": round(rate, 2), "q": waiting, **pool
                })  # fmt: skip
                tokens, last_decode = 0, step["t_end"]
        for i in step["finished"]:
            written.pop(i, None)
        before = step["token_usage" if config["overlap"] else "token_usage_end"]
    return rows


def sglang_seconds(steps: Sequence[Row], rows: Sequence[Row]) -> list[list[float]]:
    """Running totals at the end of each second: prefill tokens, cached tokens, decode tokens."""
    events = [(s["t_end"], 0, s["tokens"]) if s["kind"] == "prefill" else (s["t_end"], 2, s["batch"]) for s in steps]
    events += [(r["t"], 1, r["cached"]) for r in rows if r["k"] == "prefill"]
    return _totals(events, int(steps[-1]["t_end"]) + 2)


def _totals(events: list[tuple[float, int, int]], seconds: int) -> list[list[float]]:
    totals: list[float] = [0, 0, 0]
    out, at = [], 0
    events.sort()
    for second in range(1, seconds + 1):
        while at < len(events) and events[at][0] <= second:
            totals[events[at][1]] += events[at][2]
            at += 1
        out.append(list(totals))
    return out


VLLM_COLUMNS = [
    *("t", "running", "waiting", "kv_usage", "prompt_tokens", "generated_tokens", "preemptions", "hit", "hit_tokens", "queried_tokens"),
    "computed_tokens",
]


def vllm_rows(steps: Sequence[Row], requests: Sequence[Row]) -> list[list[float]]:
    """The gauges and running totals at the end of each second; `hit` is a share, `computed_tokens` are prompt tokens without hits."""
    ends = [s["t_end"] for s in steps]
    first = sorted((r["first_token"], r["prompt_len"]) for r in requests if r["first_token"] is not None)
    resumed = _resumed(steps, requests)
    # A prefill that is complete writes a token too: the first of a request (counted below) or the next of one that was preempted.
    generated = list(accumulate(s["scheduled_tokens"] - s["prefill_tokens"] + n for s, n in zip(steps, resumed, strict=True)))
    preemptions = list(accumulate(resumed))
    out: list[list[float]] = []
    at, prompt, computed = 0, 0, 0
    for second in range(1, int(ends[-1]) + 26):
        while at < len(first) and first[at][0] <= second:
            prompt += first[at][1]
            at += 1
        i = bisect_right(ends, second) - 1
        if i < 0:
            out.append([second, 0, 0, 0.0, 0, 0, 0, 0.0, 0, 0, 0])
            continue
        step = steps[i]
        computed = max(computed, prompt - int(step["prefix_hits"]))
        out.append([
            second, step["running_end"], step["waiting_end"], step["kv_usage_end"], prompt, generated[i] + at, preemptions[i],
            round(step["prefix_hits"] / max(1, step["prefix_queries"]), 4), step["prefix_hits"], step["prefix_queries"], computed,
        ])  # fmt: skip
    return out


def _resumed(steps: Sequence[Row], requests: Sequence[Row]) -> list[int]:
    """How many preempted requests each step took up again: that is when vLLM counts the preemption."""
    fresh = Counter(r["first_scheduled"] for r in requests)
    firsts = sorted(fresh)
    out, running, at = [], 0, 0
    for step in steps:
        new = 0
        while at < len(firsts) and firsts[at] < step["t_end"] - 1e-6:
            new += fresh[firsts[at]]
            at += 1
        out.append(step["running"] - running + len(step["preempted"]) - new)
        running = step["running_end"]
    return out


REQUEST_COLUMNS = ["arrival", "queue", "ttft", "e2e", "prompt", "output", "max_new", "cached"]


def request_rows(requests: Sequence[Row]) -> list[list[float]]:
    """One row per request, in the order of arrival: seconds and tokens."""
    return [
        [
            _ms(r["arrival"]), _ms(r["first_scheduled"] - r["arrival"]), _ms(r["first_token"] - r["arrival"]),
            _ms(r["finish"] - r["arrival"]), r["prompt_len"], r["output_len"], r.get("max_new_tokens", r["output_len"]),
            r.get("cached_tokens", 0),
        ]
        for r in sorted(requests, key=lambda r: r["arrival"])
    ]  # fmt: skip


def extract(case: Path, engine: str) -> Row:
    """All that is kept of one case's runs."""
    workload = json.loads((case / "base.json").read_text())
    requests, steps = lines(case / "base.requests.jsonl"), lines(case / "base.steps.jsonl")
    assert all(r["finish"] is not None for r in requests), case
    p99 = {"base": p99_ttft(requests), "quiet": p99_ttft([r for r in requests if r["arrival"] < workload["quiet_s"]])}
    for run in sorted(case.glob("*.requests.jsonl")):
        p99[run.name.split(".")[0]] = p99_ttft(lines(run))
    design, _, seed = case.name.removeprefix(f"{engine}-").rpartition("-s")
    doc: Row = {
        "design": design, "engine": engine, "seed": int(seed), "config": workload["config"], "cost": workload["cost"],
        "quiet_s": workload["quiet_s"], "p99_ttft_s": {k: _ms(v) for k, v in p99.items()},
        "facts": queue_facts(engine, workload["config"], steps, requests),
    }  # fmt: skip
    if engine == "sglang":
        doc["rows"] = sglang_rows(workload["config"], steps, requests)
        doc["seconds"] = sglang_seconds(steps, doc["rows"])
    else:
        doc["columns"], doc["rows"] = VLLM_COLUMNS, vllm_rows(steps, requests)
    doc["request_columns"], doc["requests"] = REQUEST_COLUMNS, request_rows(requests)
    return doc


def save(doc: Row, to: Path = DATA) -> Path:
    """The same runs give the same bytes."""
    path = to / f"oracle_{doc['engine']}_{doc['design']}_s{doc['seed']}.json.gz"
    text = json.dumps(doc, separators=(",", ":")) + "\n"
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return path


if __name__ == "__main__":
    runs, engine_name, wanted = Path(sys.argv[1]), sys.argv[2], set(sys.argv[3:])
    for folder in sorted(p for p in runs.iterdir() if not wanted or p.name in wanted):
        print(save(extract(folder, engine_name)).name)
