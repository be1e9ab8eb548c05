"""The files of a run: a log as the version prints it, scrapes, and what the clients saw."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from generated_model import AnyModel, Noise, Server, seqs

from sample_traces.generator.capture import FIRST_SCRAPE_S, LAST_SCRAPE_S, Endpoint, Life
from sample_traces.generator.clients import Client, as_lines
from sample_traces.generator.exposition import Family, Scrape, as_text, scrape_times
from sample_traces.generator.render import Log, SGLangServer, VLLMServer, client, probes
from sample_traces.generator.sglang_metrics import SGLangEndpoint
from sample_traces.generator.sglang_model import SGLangModel
from sample_traces.generator.vllm_metrics import VLLMEndpoint
from sample_traces.generator.vllm_model import VLLMModel

STARTUP_S = 70.0
LOG, METRICS, CLIENTS = "server.log", "metrics.prom.gz", "client.jsonl.gz"
METRICS_OF = {
    **{"0.4.9": "0.4.6", "0.5.3": "0.5.5", "0.5.12": "0.5.9", "0.5.21": "0.5.23"},
    **{"0.19.1": "0.11.2", "0.32": "0.33"},
}
"""The version whose names and labels a version without its own exports."""


def base(number: int) -> datetime:
    """The moment 0 of a case: another day and hour for each."""
    return datetime(2026, 3, 1, 6, tzinfo=UTC) + timedelta(hours=27 * number)


def write_reports(log: Log, server: Server, models: Sequence[AnyModel], access: bool = True) -> None:
    """The scheduler's lines of each rank, and the access line of each request."""
    for rank, model in enumerate(models):
        if isinstance(server, SGLangServer):
            assert isinstance(model, SGLangModel)
            for report in model.reports:
                server.report(log, report, rank)
        else:
            assert isinstance(model, VLLMModel)
            _vllm_reports(log, server, model, rank)
    if not access:
        return
    path = "POST /v1/chat/completions" if isinstance(server, SGLangServer) else "POST /v1/completions"
    for seq in seqs(models):
        if seq.first_token is not None:
            server.access(log, seq.first_token + 0.004, path, client(seq.req.rid))


def _vllm_reports(log: Log, server: VLLMServer, model: VLLMModel, rank: int) -> None:
    # Each engine's line is the same but for its number.
    scratch = Log(log.base)
    for stats in model.stats:
        server.stats(scratch, stats)
    for stats, line in zip(model.stats, scratch.text().splitlines(), strict=True):
        log.add(stats.t, line.replace("Engine 000: ", f"Engine {rank:03d}: "))
    for preemption in model.preemptions:
        server.preempt(log, preemption)


def log_of(server: Server, models: Sequence[AnyModel], start: datetime, access: bool = True) -> Log:
    """Start-up, reports, access lines and health checks."""
    log = Log(start)
    server.startup(log, -STARTUP_S - 4.0, STARTUP_S)
    write_reports(log, server, models, access)
    probes(server, log, 5.0, max(m.t for m in models), 30.0)
    return log


def endpoint(server: Server, models: Sequence[AnyModel], start: float, end: float) -> Endpoint:
    """What a process exports until `end` (seconds of the case); `start` is the epoch of the case's moment 0."""
    shown = replace(server, version=METRICS_OF.get(server.version, server.version))
    if isinstance(shown, SGLangServer):
        return SGLangEndpoint(shown, [m for m in models if isinstance(m, SGLangModel)], end=end)
    return _Engines([VLLMEndpoint(shown, m, start - STARTUP_S) for m in models if isinstance(m, VLLMModel)])


class _Engines:
    """One API server with several engines: a series of each, told apart by the label."""

    def __init__(self, parts: Sequence[VLLMEndpoint]) -> None:
        self._parts = parts

    def read(self, t: float) -> list[Family]:
        """All families at t."""
        found: dict[str, Family] = {}
        for number, part in enumerate(self._parts):
            for family in part.read(t):
                into = found.setdefault(family.name, Family(family.name, family.type))
                for name, labels, value in family.samples:
                    if "engine" in labels:
                        into.samples.append((name, {**labels, "engine": str(number)}, value))
                    elif number == 0:
                        into.samples.append((name, labels, value))
        return list(found.values())


def scrapes_of(lives: Sequence[Life], start: float, every_s: float, noise: Noise, rng: random.Random, until: float | None = None) -> bytes:
    """Scrapes as a loop around curl saves them, some late and some lost."""
    taken = []
    for planned in scrape_times(FIRST_SCRAPE_S, lives[-1].end if until is None else until, every_s):
        t = planned + noise.jitter_s * rng.random()
        if rng.random() < noise.scrapes:
            continue
        families = next((life.endpoint.read(t) for life in lives if life.start <= t <= life.end), None)
        taken.append(Scrape(round(start + t, 3), families))
    return as_text(taken)


def thinned(text: str, share: float, rng: random.Random) -> str:
    """The log without a share of its report lines."""
    if not share:
        return text
    kept = [s for s in text.splitlines(keepends=True) if not _is_report(s) or rng.random() >= share]
    return "".join(kept)


def _is_report(line: str) -> bool:
    return " batch" in line or "Avg prompt throughput" in line


def capture(
    server: Server,
    models: Sequence[AnyModel],
    start: datetime,
    *,
    every_s: float = 5.0,
    noise: Noise | None = None,
    access: bool = True,
    seed: int = 0,
) -> dict[str, bytes]:
    """The three files of a process that lived from before the load to after it. V0 is not scraped here."""
    noise, rng = noise or Noise(), random.Random(seed)
    end, epoch = max(m.t for m in models) + LAST_SCRAPE_S, start.timestamp()
    text = thinned(log_of(server, models, start, access).text(), noise.lines, rng)
    users = Client(f"http://gpu-07:{server.port}", epoch)
    rows: list[dict[str, Any]] = [users.record(s) for s in seqs(models)]
    files = {LOG: text.encode(), CLIENTS: as_lines(rows)}
    if not (isinstance(server, VLLMServer) and server.format.v0):
        lives = [Life(endpoint(server, models, epoch, end), -3600.0, end)]
        files[METRICS] = scrapes_of(lives, epoch, every_s, noise, rng)
    return files
