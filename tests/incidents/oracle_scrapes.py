"""What a scraper would have read from the engines of the oracle cases: gauges, running totals and histograms, over time.

SGLang sets its gauges when it prints, so they are old in between; vLLM's are those of its last step. Names, labels and bounds are
those of SGLang 0.5.12 and newer and of vLLM 0.11 and newer.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sample_traces.generator import sglang_metrics, vllm_metrics
from sample_traces.generator.exposition import Family, Histogram, Labels, Scrape, as_text, scrape_times

Doc = dict[str, Any]
IDLE_REPORT_S = 30.0
STARTUP_S = 70.0
AFTER_S = 20.0


class Growing:
    """A histogram that takes in what has happened by then; moments must not go back."""

    def __init__(self, bounds: Sequence[float], events: Iterable[tuple[float, float, int]]) -> None:
        self._events = sorted(events)  # moment, value, times
        self._next = 0
        self._histogram = Histogram(bounds)

    def at(self, t: float) -> Histogram:
        """Everything up to and with t."""
        while self._next < len(self._events) and self._events[self._next][0] <= t:
            _, value, times = self._events[self._next]
            self._histogram.observe(value, times)
            self._next += 1
        return self._histogram


class Requests:
    """Arrivals, first tokens and ends of one rank, as running totals and histograms up to a moment."""

    def __init__(self, doc: Doc, bounds: Mapping[str, Sequence[float]], queue_told: str) -> None:
        names = doc["request_columns"]
        self._rows = [dict(zip(names, row, strict=True)) for row in doc["requests"]]
        self._ends = sorted((r["arrival"] + r["e2e"], r["prompt"], r["output"], r["cached"]) for r in self._rows)
        told = {"ttft": "ttft", "queue": queue_told, "e2e": "e2e"}  # what has passed since the arrival when it is observed
        self._histograms = {k: Growing(bounds[k], [(r["arrival"] + r[w], r[k], 1) for r in self._rows]) for k, w in told.items()}
        # inter-token latency: the mean of each ended request, as often as it had gaps
        gaps = [
            (r["arrival"] + r["e2e"], (r["e2e"] - r["ttft"]) / (r["output"] - 1), r["output"] - 1) for r in self._rows if r["output"] > 1
        ]
        self._histograms["itl"] = Growing(bounds["itl"], gaps)

    def busy(self, t: float) -> bool:
        """Whether any request is in the engine."""
        return any(r["arrival"] <= t < r["arrival"] + r["e2e"] for r in self._rows)

    def finished(self, t: float) -> tuple[int, int, int, int]:
        """Requests that ended, with their prompt, output and cached tokens."""
        done = [e for e in self._ends if e[0] <= t]
        return len(done), sum(e[1] for e in done), sum(e[2] for e in done), sum(e[3] for e in done)

    def histogram(self, name: str, t: float) -> Histogram:
        """`ttft`, `queue`, `e2e` or `itl`."""
        return self._histograms[name].at(t)


def end_of(doc: Doc) -> float:
    """When the last request ended, in seconds of the run."""
    return max(row[0] + row[3] for row in doc["requests"])


def scrapes(doc: Doc, version: tuple[int, ...], epoch: float, every: float, shifts: Sequence[float]) -> bytes:
    """Exposition text of all scrapes; one rank for each shift (seconds by which its run began later). `epoch` is the run's time 0."""
    endpoint = _SGLang(doc, version, shifts) if doc["engine"] == "sglang" else _VLLM(doc, version, epoch, shifts)
    times = scrape_times(-3.0, end_of(doc) + max(shifts) + AFTER_S, every)
    return as_text([Scrape(epoch + t + 0.217, endpoint.read(t + 0.217)) for t in times])


# -- SGLang


class _SGLang:
    """All ranks of a server; the tokenizer's series have no rank."""

    def __init__(self, doc: Doc, version: tuple[int, ...], shifts: Sequence[float]) -> None:
        self._doc, self._version, self._shifts = doc, version, shifts
        bounds = {"ttft": sglang_metrics.TTFT, "queue": sglang_metrics.QUEUE, "e2e": sglang_metrics.E2E_NEW, "itl": sglang_metrics.ITL}
        self._requests = [Requests(doc, bounds, queue_told="queue") for _ in shifts]
        self._reports = [r for r in doc["rows"] if r["k"] != "retract"]
        self._report_times = [r["t"] for r in self._reports]
        self._retractions = [r for r in doc["rows"] if r["k"] == "retract"]

    def read(self, t: float) -> list[Family]:
        """All families at t."""
        found: dict[str, Family] = {}
        for rank, shift in enumerate(self._shifts):
            labels = {"model_name": "x", "engine_type": "unified", "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}
            if len(self._shifts) > 1:
                labels["dp_rank"] = str(rank)
            for name, kind, own, value in self._scheduler(t - shift, self._requests[rank]):
                found.setdefault(name, Family(f"sglang:{name}", kind)).add({**labels, **own}, value)
        return [*found.values(), *self._tokenizer(t)]

    def _scheduler(self, t: float, requests: Requests) -> list[tuple[str, str, Labels, float | Histogram]]:
        capacity = self._doc["config"]["max_total_num_tokens"]
        at = bisect_right(self._report_times, t)
        report = self._reports[at - 1] if at else {"run": 0, "q": 0, "av": capacity, "ev": 0, "t": float("-inf")}
        prefills = [r for r in self._reports[:at] if r["k"] == "prefill"]
        decodes = [r for r in self._reports[:at] if r["k"] == "decode"]
        idle = t - report["t"] >= IDLE_REPORT_S and not requests.busy(t)
        available, evictable = report["av"], (capacity - report["av"] if idle else report["ev"])
        used = capacity - available - evictable
        usage = round(used / capacity, 2)
        looked_up = prefills[-1]["tok"] + prefills[-1]["cached"] if prefills else 0
        hits = prefills[-1]["cached"] / looked_up if looked_up else 0.0
        if report.get("k") == "decode" and self._version < (0, 5, 21):
            hits = 0.0  # older ones clear it when they report decoding
        gauges: dict[str, float] = {
            "num_running_reqs": 0 if idle else report["run"],
            "num_queue_reqs": 0 if idle else report["q"],
            "token_usage": usage,
            "full_token_usage": usage,
            "num_used_tokens": used,
            "kv_used_tokens": used,
            "kv_evictable_tokens": evictable,
            "kv_available_tokens": available,
            "max_total_num_tokens": capacity,
            "page_size": self._doc["config"]["page_size"],
            "context_len": self._doc["config"]["context_length"],
            "gen_throughput": decodes[-1]["gen"] if decodes and not idle else 0.0,
            "cache_hit_rate": hits,
        }
        if prefills:
            gauges["new_token_ratio"] = prefills[-1]["ratio"]
        rows: list[tuple[str, str, Labels, float | Histogram]] = [(n, "gauge", {}, v) for n, v in gauges.items()]
        gone = [r for r in self._retractions if r["t"] <= t]
        for what, key in (("requests", "n"), ("input_tokens", "in"), ("output_tokens", "out")):
            if gone:
                rows.append((f"num_retracted_{what}_total", "counter", {}, sum(r[key] for r in gone)))
        totals = self._doc["seconds"][min(int(t), len(self._doc["seconds"])) - 1] if t >= 1 else (0, 0, 0)
        for mode, total in zip(("prefill_compute", "prefill_cache", "decode"), totals, strict=True):
            if total:
                rows.append(("realtime_tokens_total", "counter", {"mode": mode}, total))
        waits = requests.histogram("queue", t)
        if waits.count:
            rows.append(("queue_time_seconds", "histogram", {}, waits))
        return rows

    def _tokenizer(self, t: float) -> list[Family]:
        labels = {"model_name": "x", "engine_type": "unified"}
        ending = {**labels, "is_streaming": "true"} if self._version >= (0, 5, 23) else labels
        families: list[Family] = []
        ranks = [(r, t - shift) for r, shift in zip(self._requests, self._shifts, strict=True)]
        done = [sum(n) for n in zip(*(r.finished(at) for r, at in ranks), strict=True)]
        if done[0]:
            for name, total in zip(("num_requests", "prompt_tokens", "generation_tokens"), done, strict=False):
                families.append(Family(f"sglang:{name}_total", "counter").add(ending, total))
        if done[3]:
            families.append(Family("sglang:cached_tokens_total", "counter").add({**labels, "cache_source": "device"}, done[3]))
        for name, key, which in (
            ("time_to_first_token_seconds", "ttft", ending),
            ("e2e_request_latency_seconds", "e2e", ending),
            ("inter_token_latency_seconds", "itl", labels),
        ):
            _add(families, f"sglang:{name}", which, [r.histogram(key, at) for r, at in ranks])
        return families


def _add(families: list[Family], name: str, labels: Labels, ranks: Sequence[Histogram]) -> None:
    """One histogram of all ranks; a series begins with its first observation."""
    whole = Histogram(ranks[0].bounds)
    whole.counts = [sum(n) for n in zip(*(r.counts for r in ranks), strict=True)]
    whole.sum = sum(r.sum for r in ranks)
    if whole.count:
        families.append(Family(name, "histogram").add(labels, whole))


# -- vLLM


class _VLLM:
    """One API server with an engine core for each rank. All series are there from the start."""

    def __init__(self, doc: Doc, version: tuple[int, ...], epoch: float, shifts: Sequence[float]) -> None:
        self._doc, self._version, self._epoch, self._shifts = doc, version, epoch, shifts
        bounds = {"ttft": vllm_metrics.TTFT, "queue": vllm_metrics.LATENCY, "e2e": vllm_metrics.LATENCY, "itl": vllm_metrics.ITL}
        self._requests = [Requests(doc, bounds, queue_told="e2e") for _ in shifts]  # the wait is told when the request ends

    def read(self, t: float) -> list[Family]:
        """All families at t."""
        found: dict[str, Family] = {}
        started = round(self._epoch - STARTUP_S, 2)
        found["start"] = Family("process_start_time_seconds", "gauge").add({}, started)
        for rank, shift in enumerate(self._shifts):
            labels = {"engine": str(rank), "model_name": "m/x"}
            for name, kind, own, value in self._engine(t - shift, self._requests[rank]):
                found.setdefault(name, Family(f"vllm:{name}", kind)).add({**labels, **own}, value)
            config = found.setdefault("config", Family("vllm:cache_config_info", "gauge"))
            config.add(self._cache_config(rank), 1)
        return list(found.values())

    def _engine(self, t: float, requests: Requests) -> list[tuple[str, str, Labels, float | Histogram]]:
        columns, rows = self._doc["columns"], self._doc["rows"]
        row = rows[min(int(t), len(rows)) - 1] if t >= 1 else [0] * len(columns)
        now = dict(zip(columns, row, strict=True))
        out: list[tuple[str, str, Labels, float | Histogram]] = [
            ("num_requests_running", "gauge", {}, now["running"]),
            ("num_requests_waiting", "gauge", {}, now["waiting"]),
        ]
        if self._version >= (0, 32):
            out.append(("num_requests_waiting_by_reason", "gauge", {"reason": "capacity"}, now["waiting"]))
            out.append(("num_requests_waiting_by_reason", "gauge", {"reason": "deferred"}, 0))
        out += [
            ("kv_cache_usage_perc", "gauge", {}, now["kv_usage"]),
            ("prefix_cache_queries_total", "counter", {}, now["queried_tokens"]),
            ("prefix_cache_hits_total", "counter", {}, now["hit_tokens"]),
            ("num_preemptions_total", "counter", {}, now["preemptions"]),
            ("prompt_tokens_total", "counter", {}, now["prompt_tokens"]),
            ("generation_tokens_total", "counter", {}, now["generated_tokens"]),
        ]
        finished = requests.finished(t)[0]
        for reason in ("stop", "length", "abort"):
            out.append(("request_success_total", "counter", {"finished_reason": reason}, finished if reason == "length" else 0))
        for name, key in (
            ("time_to_first_token_seconds", "ttft"),
            ("inter_token_latency_seconds", "itl"),
            ("e2e_request_latency_seconds", "e2e"),
            ("request_queue_time_seconds", "queue"),
        ):
            out.append((name, "histogram", {}, requests.histogram(key, t)))
        return out

    def _cache_config(self, rank: int) -> Labels:
        blocks, size = self._doc["config"]["num_blocks"], self._doc["config"]["block_size"]
        labels = {
            "engine": str(rank),
            "block_size": str(size),
            "cache_dtype": "auto",
            "enable_prefix_caching": "True",
            "num_gpu_blocks": str(blocks),
            "num_gpu_blocks_override": "None",
        }
        if self._version >= (0, 32):
            labels["kv_cache_size_tokens"] = str(blocks * size)
        return labels
