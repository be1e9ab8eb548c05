"""What was saved beside a log: scrapes of the metrics endpoint and the clients' records, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sample_traces.generator.clients import as_lines
from sample_traces.generator.exposition import Family, Scrape, as_long_csv, as_query_range, as_text, scrape_times

FIRST_SCRAPE_S = -1.783  # the server is up, nobody has asked yet
LAST_SCRAPE_S = 45.0  # after the last step, so that idle gauges are seen too
GAUGES = {
    "sglang": ("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"),
    "vllm": ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
}
COUNTERS = {"retracted_requests": "sglang:num_retracted_requests_total", "preemptions": "vllm:num_preemptions_total"}
STATES = {state: f"sglang:kv_{state}_tokens" for state in ("used", "evictable", "available")}


class Endpoint(Protocol):
    """A process that can be scraped, once, forwards in time."""

    def read(self, t: float) -> list[Family]:
        """All families at t."""


@dataclass(frozen=True, slots=True)
class Life:
    """When a process answers scrapes (seconds of the case)."""

    endpoint: Endpoint
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class How:
    """How the metrics were saved: every so many seconds, as "text", "query_range" or "csv"."""

    every: float = 5.0
    form: str = "text"
    job: str = ""  # name and address of the scrape target, for the forms that tell it
    instance: str = ""


def scrapes(lives: Sequence[Life], epoch: float, how: How, until: float | None = None) -> list[Scrape]:
    """All scrapes, those nobody answered too; the scraper stops with the last process, or goes on to `until`."""
    found = []
    for t in scrape_times(FIRST_SCRAPE_S, lives[-1].end if until is None else until, how.every):
        families = next((life.endpoint.read(t) for life in lives if life.start <= t <= life.end), None)
        found.append(Scrape(round(epoch + t, 3), families))
    return found


def files(taken: Sequence[Scrape], how: How, clients: Sequence[dict[str, Any]]) -> dict[str, bytes]:
    """The two files by name."""
    job = {"job": how.job, "instance": how.instance}
    metrics = {
        "text": lambda: ("metrics.prom.gz", as_text(taken)),
        "query_range": lambda: ("metrics.json.gz", as_query_range(taken, job)),
        "csv": lambda: ("metrics.csv.gz", as_long_csv(taken, job)),
    }[how.form]()
    return {metrics[0]: metrics[1], "client.jsonl.gz": as_lines(clients)}


def metrics_truth(taken: Sequence[Scrape], engine: str, how: How) -> dict[str, Any]:
    """What the scrapes say: peaks summed over dp ranks (usage: the highest), counters, L1 and L2. None: not exported."""
    seen = [_Seen(s.families) for s in taken if s.families is not None]
    running, waiting, usage = GAUGES[engine]
    fullest = max(seen, key=lambda s: s.total(STATES["used"]) or 0.0)
    shares = [
        (s.total("sglang:hicache_host_used_tokens") or 0.0) / total for s in seen if (total := s.total("sglang:hicache_host_total_tokens"))
    ]
    return {
        "scrapes": len(seen),
        "every_s": how.every,
        "peaks": {
            "running": max(s.total(running) or 0.0 for s in seen),
            "waiting": max(s.total(waiting) or 0.0 for s in seen),
            "kv_usage": round(max(s.highest(usage) for s in seen), 6),
        },
        **{name: seen[-1].total(counter) for name, counter in COUNTERS.items()},
        "l1_at_peak": {state: fullest.total(name) for state, name in STATES.items()} if fullest.total(STATES["used"]) else None,
        "l2_used_share_max": round(max(shares), 4) if shares else None,
    }


class _Seen:
    """The values of one scrape; of series by priority only the one for all."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._values: dict[str, list[float]] = {}
        for family in families:
            for name, labels, value in family.samples:
                if not labels.get("priority"):
                    self._values.setdefault(name, []).append(value)

    def total(self, name: str) -> float | None:
        return float(sum(self._values[name])) if name in self._values else None

    def highest(self, name: str) -> float:
        return max(self._values[name])


def client_truth(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Requests by fate, and TTFT of those that got a first token: the value at int(p x n) of the sorted list."""
    times = sorted(r["ttft"] for r in records if r["ttft"] is not None)
    n = len(times)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {
        "finished": sum(r["error"] is None and not r["pending"] for r in records),
        "errors": sum(r["error"] is not None for r in records),
        "pending": sum(r["pending"] for r in records),
        "ttft_s": {**{name: times[min(n - 1, int(n * share))] for name, share in shares.items()}, "n": n},
    }
