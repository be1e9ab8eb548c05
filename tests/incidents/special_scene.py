"""A special case as settings, load and the lever that proves its cause; and how it becomes an Incident."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from incident import Incident, split_of
from special_engine import Engine, Request, Settings
from special_figures import FIGURES
from special_sglang import SGLang
from special_text import EPOCH, Lines, client_lines
from special_vllm import VLLM

from analyzer.diagnosis.model import Cause
from sample_traces.generator.exposition import Scrape, as_text

Extra = Callable[["Scene", Any, Engine, Lines], None]
WORDS = {
    "pool": "a pool of", "cap": "a cap of", "load_rate": "a load rate of", "window_pool": "a sliding-window pool of",
    "states": "a number of state slots of", "token_s": "a prompt-token time of", "slow": "a lower tier or network as fast as before",
    "adapters": "a number of LoRA slots of", "context_s": "a time per context token of", "row_s": "a time per row of",
}  # fmt: skip
MEASURES = {"ttft": "the excess P99 TTFT", "thrown": "the requests thrown out of the pool", "token": "the excess time per token"}
FILES = {"log": "server.log", "metrics": "metrics.prom.gz", "client": "client.jsonl.gz"}


@dataclass(frozen=True)
class Scene:
    """One server under one load.

    `because` says what is so by construction. `lever` names settings that take the trouble away, `idle` settings
    that a reader could suspect and that do not. `quiet` is until when the load was easy. `extra` adds lines to the log. `keep` says
    which of log, metrics and client the capture has.
    """

    name: str
    cause: Cause
    engine: str
    version: str
    seed: int
    because: str
    settings: Settings
    load: Callable[[random.Random], list[Request]]
    until: float
    quiet: float = 60.0
    lever: Mapping[str, Any] = field(default_factory=dict)
    measure: str = "ttft"  # what the lever must take away: ttft, thrown (out of the pool) or token (time for each)
    idle: tuple[Mapping[str, Any], ...] = ()
    server: Mapping[str, Any] = field(default_factory=dict)
    extra: Extra | None = None
    keep: tuple[str, ...] = ("log", "metrics", "client")
    also: tuple[Cause, ...] = ()
    start: bool = True
    prepare: Callable[[list[Request]], None] | None = None  # after the run, for what clients did

    def play(self, **changed: Any) -> Engine:
        """One run, with some settings changed."""
        rng = random.Random(self.seed)
        requests = self.load(rng)
        return Engine(replace(self.settings, **changed), requests, rng).run(self.until)

    def render(self) -> dict[str, bytes]:
        """The files of the capture."""
        engine = self.play()
        kind = {"sglang": SGLang, "vllm": VLLM}[self.engine]
        server = kind(self.version, self.settings, **self.server)
        if self.prepare:
            self.prepare(engine.requests)
        log = server.log(engine, start=self.start)
        if self.extra:
            self.extra(self, server, engine, log)
        lost = self.settings.crash_at
        if lost is not None:
            log.cut(lost + 10)
        files = {}
        if "log" in self.keep:
            files[FILES["log"]] = log.data()
        if "metrics" in self.keep:
            files[FILES["metrics"]] = as_text([*server.scrapes(engine), *(failed_scrapes(lost, lost + 20) if lost is not None else [])])
        if "client" in self.keep:
            files[FILES["client"]] = client_lines(engine.requests, self.until, f"http://10.0.3.2:{server.port}", lost)
        return files

    def incident(self) -> Incident:
        """The labelled case."""
        return labelled(self, self.render, self.keep, self.because + self._proof())

    def changes(self) -> tuple[Mapping[str, Any], ...]:
        """The settings that the label was tried with, the lever first."""
        return (self.lever, *self.idle) if self.lever else ()

    def _proof(self) -> str:
        if not self.lever:
            return ""
        parts = [
            f"{', '.join(_said(k, v) for k, v in change.items())} takes {percent} %"
            for change, percent in zip(self.changes(), FIGURES[self.name], strict=True)
        ]
        return f"; of {MEASURES[self.measure]}, " + ", ".join(parts) + " away"


def _said(name: str, value: Any) -> str:
    """A changed setting in words."""
    return WORDS[name] if WORDS[name].endswith("as before") else f"{WORDS[name]} {value:g}"


def labelled(case: Any, files: Callable[[], dict[str, bytes]], keep: tuple[str, ...], because: str) -> Incident:
    """An Incident of the usual file names."""
    return Incident(
        name=f"special-{case.name}-s{case.seed}", cause=case.cause, origin="generated", engine=case.engine, version=case.version,
        seed=case.seed, split=split_of(case.seed), because=because, files=files, also=case.also,
        logs=(FILES["log"],) if "log" in keep else (),
        metrics=(FILES["metrics"],) if "metrics" in keep else (),
        clients=(FILES["client"],) if "client" in keep else (),
    )  # fmt: skip


def failed_scrapes(start: float, end: float) -> list[Scrape]:
    """Reads that nobody answered."""
    return [Scrape(EPOCH + start + 1 + 5 * n, None) for n in range(int((end - start) / 5))]


def worst_ttft(requests: list[Request], until: float, since: float = 0.0, share: float = 0.99) -> float:
    """A percentile of TTFT in seconds; a request without a token waited until the end at least."""
    waits = sorted((r.first if r.first is not None else until) - r.at for r in requests if since <= r.at < until)
    return waits[min(len(waits) - 1, int(share * len(waits)))] if waits else 0.0


def slowest_token(requests: list[Request], since: float, until: float) -> float:
    """The 90th percentile of the mean time per output token, of requests that came in a time, in seconds."""
    times = sorted((r.last - r.first) / (r.out - 1) for r in requests if since <= r.at < until and r.first is not None and r.out > 1)
    return times[int(0.9 * len(times))] if times else 0.0


def trouble(scene: Scene, engine: Engine) -> float:
    """What the scene is about, above what it was in the quiet time: seconds or events."""
    easy = [r for r in engine.requests if r.at < scene.quiet]
    if scene.measure == "thrown":
        return float(engine.totals["thrown"])
    if scene.measure == "token":
        return slowest_token(engine.requests, scene.quiet, scene.until) - slowest_token(easy, 0.0, scene.quiet)
    return worst_ttft(engine.requests, scene.until) - worst_ttft(easy, scene.until, share=0.9)


def relief(scene: Scene, **changed: Any) -> float:
    """The part of the trouble that a change takes away."""
    return 1.0 - max(0.0, trouble(scene, scene.play(**changed))) / trouble(scene, scene.play())
