"""Scrapes of a made-up vLLM server, as Prometheus text: one after the other, with the moment before each and changing values."""

from __future__ import annotations

import random
from collections.abc import Iterator

SERIES = 800
BOUNDS = (*(f"{n / 100:g}" for n in range(1, 10)), "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "20.0", "+Inf")
HISTOGRAMS = ("time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds")
PLAIN = (
    ("num_requests_running", "gauge"),
    ("num_requests_waiting", "gauge"),
    ("kv_cache_usage_perc", "gauge"),
    ("prompt_tokens_total", "counter"),
    ("generation_tokens_total", "counter"),
    ("num_preemptions_total", "counter"),
)
START = 1_796_000_000


def scrapes(seed: int, series: int = SERIES) -> Iterator[bytes]:
    """Scrapes of about `series` series, a second apart."""
    server = _Server(series, random.Random(seed))
    moment = START
    while True:
        yield (f"# scrape_ts {moment}.25\n" + "".join(server.scrape())).encode()
        moment += 1


class _Server:
    """A server whose counters go on."""

    def __init__(self, series: int, dice: random.Random) -> None:
        per_engine = len(HISTOGRAMS) * (len(BOUNDS) + 2) + len(PLAIN)
        self._engines = max(1, round(series / per_engine))
        self._dice = dice
        self._counts = [0.0] * (self._engines * per_engine)

    def scrape(self) -> Iterator[str]:
        """The lines of the next scrape."""
        at = 0
        for name, kind in PLAIN:
            yield f"# HELP vllm:{name} What {name} says.\n# TYPE vllm:{name} {kind}\n"
            for engine in range(self._engines):
                yield f'vllm:{name}{{engine="{engine}",model_name="demo-8b"}} {self._next(at, name)}\n'
                at += 1
        for name in HISTOGRAMS:
            yield f"# HELP vllm:{name} Histogram of {name}.\n# TYPE vllm:{name} histogram\n"
            for engine in range(self._engines):
                labels = f'engine="{engine}",model_name="demo-8b"'
                for bound in BOUNDS:
                    yield f'vllm:{name}_bucket{{{labels},le="{bound}"}} {self._next(at)}\n'
                    at += 1
                yield f"vllm:{name}_count{{{labels}}} {self._next(at)}\nvllm:{name}_sum{{{labels}}} {self._next(at + 1)}\n"
                at += 2

    def _next(self, at: int, name: str = "") -> float:
        if name == "kv_cache_usage_perc":
            return round(self._dice.random(), 4)
        # most series of a real server stand still between two scrapes
        if self._dice.random() < 0.3:
            self._counts[at] += self._dice.randrange(1, 50)
        return self._counts[at]
