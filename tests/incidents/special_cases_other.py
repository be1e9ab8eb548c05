"""Caps, slow decode, uneven ranks, and waiting that neither pool nor scheduler explains."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from incident import Incident
from special_engine import Engine, Request, Settings
from special_load import Fields, numbered, phases, stream
from special_scene import FILES, Scene, labelled
from special_sglang import SGLang
from special_text import Lines, client_lines
from special_vllm import VLLM

from analyzer.diagnosis.model import Cause
from sample_traces.generator.exposition import as_text

SG = Settings(pool=300_000, cap=128, prefill_first=True, chunk=8192, page=1, ratio=0.2)
VL = Settings(pool=300_000, cap=128, chunk=8192)


def _load(
    quiet: float, busy: float, until: float, prompt: tuple[int, int], output: tuple[int, int], more: Fields | None = None,
    limit: int | None = None,
) -> Callable[[random.Random], list[Request]]:  # fmt: skip
    return lambda rng: numbered(stream(rng, until - 20, phases((0, quiet), (60, busy), (150, quiet)), prompt, output, limit, more))


def _adapters(of: int) -> Fields:
    """Each request names one of several LoRA adapters; outside the busy time only two of them are asked for."""
    return lambda rng, t, prompt: {"adapter": rng.randrange(of if 60 <= t < 150 else 2)}


def _one_adapter(rng: random.Random, t: float, prompt: int) -> dict[str, int]:
    return {"adapter": 0}


def _grammar(start: float, end: float) -> Fields:
    """Grammars that take long to compile, from a time on; many requests share one that is being compiled."""

    def fields(rng: random.Random, t: float, prompt: int) -> dict[str, float]:
        ready = end + 4 * rng.random() if rng.random() < 0.7 else t
        return {"grammar_s": max(0.0, ready - t) if start <= t < end else 0.0}

    return fields


def _front(start: float, end: float) -> Fields:
    """The front end (tokenizing, templates) is busy for 20 to 60 s, and the scheduler gets nothing to wait for."""
    return lambda rng, t, prompt: {"front_s": rng.uniform(20, 60) if start <= t < end else 0.01}


def _caps() -> list[Scene]:
    most = {"pool": 600_000}
    return [
        Scene(
            "one-below-cap", "cap_bound", "sglang", "0.5.15", 61,
            "one row of the batch is lost, so that running stands at 15 of 16 with a queue and a usage below 0.2",
            replace(SG, cap=16, lost_rows=1), _load(0.5, 1.8, 360, (400, 1200), (200, 500)), 360,
            lever={"cap": 32}, idle=(most, {"token_s": 0.00005}),
        ),
        Scene(
            "one-below-cap-vllm", "cap_bound", "vllm", "0.11.2", 62,
            "one row of the batch is lost, so that running stands at 23 of 24 with a queue and a usage below 0.2",
            replace(VL, cap=24, lost_rows=1), _load(0.6, 2.2, 360, (400, 1200), (200, 500)), 360,
            lever={"cap": 48}, idle=(most, {"token_s": 0.00005}),
        ),
        Scene(
            "cap-with-lora", "cap_bound", "vllm", "0.19.1", 63,
            "all requests use the one adapter that is loaded, and running stands at the cap of 20 with a queue and a usage below 0.2",
            replace(VL, cap=20, adapters=4), _load(0.5, 1.9, 360, (400, 1200), (200, 500), _one_adapter), 360,
            lever={"cap": 40}, idle=(most, {"adapters": 8}), server={"args": {"enable_lora": True, "max_loras": 4}},
        ),
    ]  # fmt: skip


def _unexplained() -> list[Scene]:
    lora = "requests wait for a LoRA slot at a usage below 0.1, which is none of the causes that can be named"
    few = {"pool": 600_000}, {"cap": 256}
    return [
        Scene(
            "lora-slots-vllm", "insufficient_data", "vllm", "0.33.0", 64, lora,
            replace(VL, adapters=4), _load(0.5, 0.9, 360, (300, 900), (200, 400), _adapters(40)), 360,
            lever={"adapters": 40}, idle=few, server={"args": {"enable_lora": True, "max_loras": 4}, "stuck_reason": "deferred"},
        ),
        Scene(
            "lora-slots-sglang", "insufficient_data", "sglang", "0.5.9", 65, lora,
            replace(SG, adapters=4), _load(0.5, 0.9, 360, (300, 900), (200, 400), _adapters(40)), 360,
            lever={"adapters": 40}, idle=few, server={"args": {"enable_lora": True, "max_loras_per_batch": 4}},
        ),
        Scene(
            "grammar-vllm", "insufficient_data", "vllm", "0.11.2", 66,
            "from second 70 to 130 seven of ten requests wait for a grammar to be compiled, at a usage below 0.1 and far below the cap",
            VL, _load(0.8, 0.8, 260, (300, 900), (100, 250), _grammar(70, 130)), 260,
        ),
        Scene(
            "grammar-vllm-new", "insufficient_data", "vllm", "0.33.0", 67,
            "from second 70 to 120 seven of ten requests wait for a grammar to be compiled, at a usage below 0.1 and far below the cap",
            VL, _load(1.0, 1.0, 260, (300, 900), (100, 250), _grammar(70, 120)), 260,
        ),
        Scene(
            "front-end-sglang", "insufficient_data", "sglang", "0.5.12", 68,
            "from second 70 to 160 the front end holds each request for 20 to 60 s before the scheduler gets it: nothing waits there",
            SG, _load(0.5, 0.9, 300, (400, 1200), (60, 200), _front(70, 160)), 300,
        ),
        Scene(
            "front-end-vllm", "insufficient_data", "vllm", "0.19.1", 69,
            "from second 70 to 160 the front end holds each request for 20 to 60 s before the scheduler gets it: nothing waits there",
            VL, _load(0.5, 0.9, 300, (400, 1200), (60, 200), _front(70, 160)), 300,
        ),
    ]  # fmt: skip


def _decode() -> list[Scene]:
    heavy = {"row_s": 0.0018, "base_s": 0.02}
    return [
        Scene(
            "slow-decode-sglang", "decode_bound", "sglang", "0.5.15", 70,
            "running climbs to more than a hundred, nothing waits and the pool is half empty, and each token takes over five times as long",
            replace(SG, pool=500_000, cap=512, ratio=0.05, **heavy), _load(0.2, 2.0, 420, (200, 700), (300, 500)), 420, measure="token",
            lever={"row_s": 0.0001}, idle=({"pool": 1_000_000}, {"cap": 1024}),
        ),
        Scene(
            "slow-decode-vllm", "decode_bound", "vllm", "0.32.0", 71,
            "running climbs to more than a hundred, nothing waits and the pool is half empty, and each token takes over five times as long",
            replace(VL, pool=500_000, cap=512, **heavy), _load(0.2, 2.0, 420, (200, 700), (300, 500)), 420, measure="token",
            lever={"row_s": 0.0001}, idle=({"pool": 1_000_000}, {"cap": 1024}),
        ),
    ]  # fmt: skip


def scenes() -> list[Scene]:
    """All with one scheduler."""
    return [*_caps(), *_unexplained(), *_decode()]


@dataclass(frozen=True)
class Skewed:
    """Data-parallel ranks in one process; the router sends most requests of a time to one of them."""

    name: str
    cause: Cause
    engine: str
    version: str
    seed: int
    because: str
    settings: Settings
    ranks: int
    rate: float
    to_one: float = 0.8
    until: float = 330.0
    also: tuple[Cause, ...] = ()
    server: Mapping[str, Any] = field(default_factory=dict)

    def play(self, to_one: float | None = None) -> list[Engine]:
        """One engine per rank. `to_one`: the share that goes to the first while it is uneven."""
        rng = random.Random(self.seed)
        load = stream(rng, self.until - 20, phases((0, 0.9), (60, self.rate), (150, 0.9)), (2000, 4000), (200, 500))
        parts: list[list[Request]] = [[] for _ in range(self.ranks)]
        for n, r in enumerate(numbered(load)):
            uneven = 60 <= r.at < 150 and rng.random() < (self.to_one if to_one is None else to_one)
            parts[0 if uneven else n % self.ranks].append(r)
        return [Engine(self.settings, part, rng).run(self.until) for part in parts]

    def render(self) -> dict[str, bytes]:
        """The files: all ranks print into one log and are behind one endpoint."""
        engines = self.play()
        kind: Any = {"sglang": SGLang, "vllm": VLLM}[self.engine]
        servers = [kind(self.version, self.settings, rank=n, ranks=self.ranks, **self.server) for n in range(self.ranks)]
        log = Lines()
        for n, (server, engine) in enumerate(zip(servers, engines, strict=True)):
            log.extend(server.log(engine, start=self.engine == "sglang" or n == 0))
        others = dict(enumerate(engines[1:], 1))
        everyone = [r for e in engines for r in e.requests]
        return {
            FILES["log"]: log.data(),
            FILES["metrics"]: as_text(servers[0].scrapes(engines[0], others)),
            FILES["client"]: client_lines(everyone, self.until, f"http://10.0.3.2:{servers[0].port}"),
        }

    def incident(self) -> Incident:
        """The labelled case."""
        return labelled(self, self.render, ("log", "metrics", "client"), self.because)


def skewed() -> list[Skewed]:
    """All with several ranks."""
    said = "four of five requests from second 60 to 150 go to rank 0, whose pool is full with a queue; the others are used to less than {}"
    return [
        Skewed(
            "dp-sglang", "skew", "sglang", "0.5.9", 72, said.format("a third; spread evenly, none of them waits longer than 1 s"),
            Settings(pool=70_000, cap=128, prefill_first=True, chunk=8192, page=1, ratio=0.25), 4, 2.4,
        ),
        Skewed(
            "dp-vllm", "skew", "vllm", "0.11.2", 73, said.format("a third; spread evenly, none of them waits longer than 1 s"),
            Settings(pool=80_000, cap=128, chunk=8192), 4, 2.6, server={"args": {"data_parallel_size": 4}},
        ),
    ]  # fmt: skip
