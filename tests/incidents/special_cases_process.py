"""What happens to the process or to one request: never fits, hangs, crashes, restarts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from incident import Incident
from special_engine import Engine, Request, Settings
from special_load import at, numbered, phases, stream
from special_scene import FILES, Scene, failed_scrapes, labelled
from special_sglang import SGLang
from special_text import Lines, client_lines, name_of
from special_vllm import VLLM

from analyzer.diagnosis.model import Cause
from sample_traces.generator.exposition import as_text

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB. GPU 0 has 79.15 GiB of which 1.02 GiB is free."
SG = Settings(pool=200_000, cap=128, prefill_first=True, chunk=8192, page=1, ratio=0.2)
VL = Settings(pool=200_000, cap=128, chunk=8192)


def _even(
    rate: float, end: float, prompt: tuple[int, int] = (400, 1200), output: tuple[int, int] = (100, 300)
) -> Callable[..., list[Request]]:
    return lambda rng: numbered(stream(rng, end, phases((0, rate)), prompt, output))


def _with_giant(rate: float, end: float, giant: Request) -> Callable[..., list[Request]]:
    def load(rng: random.Random) -> list[Request]:
        big = Request(0, giant.at, giant.prompt, giant.output, giant.limit)
        return numbered(stream(rng, end, phases((0, rate)), (400, 1200), (100, 300)), [big])

    return load


# -- a request that never fits


def _unhealthy(scene: Scene, server: Any, engine: Engine, log: Lines) -> None:
    """The health check is a request too, and waits behind the one that never fits."""
    stopped = max(r.t for r in engine.reports)
    t = stopped + 35
    while t < scene.until:
        server.line(
            log, t,
            "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. "
            f"tic start time: 13:{21 + int(t - 20) // 60:02d}:00. last_heartbeat time: 13:{21 + int(stopped) // 60:02d}:00", rank=False,
        )  # fmt: skip
        server.access(log, t, 40102, "503 Service Unavailable", "GET /health")
        t += 30


def _alive(scene: Scene, server: Any, engine: Engine, log: Lines) -> None:
    """The API server goes on answering what needs no engine."""
    for n in range(int(scene.until // 20)):
        server.access(log, n * 20.0 + 3, 51000 + n, path="GET /metrics")


def _too_long(scene: Scene, server: Any, engine: Engine, log: Lines) -> None:
    """Each request that is longer than the pool is refused with a line."""
    for r in engine.requests:
        if r.error is None:
            continue
        if scene.engine == "sglang":
            text = f"Input length ({r.prompt} tokens) exceeds the maximum allowed length ({scene.settings.pool - 6} tokens). "
            server.line(log, r.at + 0.05, text + "Use a shorter input or enable --allow-auto-truncate.", rank=False)
            server.access(log, r.at + 0.06, 33000 + r.number, "400 Bad Request")
        else:
            text = f"Input prompt ({r.prompt} tokens) is too long and exceeds the capacity of block_manager"
            server.line(log, r.at + 0.05, "scheduler.py", text, level="WARNING")


def _refused(rate: float, pool: int, error: str) -> Callable[[random.Random], list[Request]]:
    def load(rng: random.Random) -> list[Request]:
        fine = stream(rng, 240, phases((0, rate)), (400, 1200), (100, 300))
        long = stream(rng, 180, phases((0, 0), (60, 0.5)), (pool + 500, pool + 9000), (100, 300))
        for r in long:
            r.error, r.done, r.front_s = error, r.at + 0.06, 1e6
        return numbered(fine, long)

    return load


def _unschedulable() -> list[Scene]:
    small = replace(SG, pool=90_000, window=4096, window_pool=9_000, chunk=16384)
    sized = replace(VL, pool=40_000)
    alone = Settings(pool=24_000, cap=64, prefill_first=True, chunk=8192, page=1, ratio=0.0, sessions=3000, aborts_alone=True)

    def giants(rng: random.Random) -> list[Request]:
        grow = [Request(0, t, 16_000, 7_990, 7_990) for t in (70.0, 75.0, 80.0)]
        return numbered(stream(rng, 60, phases((0, 0.5)), (400, 900), (80, 200)), grow)

    waits = "it stands at the head of the queue and everything behind it waits, with nothing running and a usage of 0"
    return [
        Scene(
            "never-fits-swa", "unschedulable", "sglang", "0.5.12", 41,
            f"one prompt of 14,000 tokens needs more of the sliding-window pool (9,000 tokens) than there is; {waits}",
            small, _with_giant(0.7, 260, Request(0, 80, 14_000, 200, 200)), 300, extra=_unhealthy, server={"pools": ("swa",)},
        ),
        Scene(
            "never-fits-vllm", "unschedulable", "vllm", "0.19.1", 42,
            f"one prompt of 52,000 tokens is within the model's length and larger than the pool of 40,000 tokens; {waits}",
            sized, _with_giant(0.7, 260, Request(0, 80, 52_000, 200, 200)), 300, extra=_alive,
        ),
        Scene(
            "never-fits-vllm-new", "unschedulable", "vllm", "0.33.0", 43,
            f"one prompt of 47,000 tokens is within the model's length and larger than the pool of 40,000 tokens; {waits}",
            sized, _with_giant(0.9, 260, Request(0, 95, 47_000, 200, 200)), 300, extra=_alive,
        ),
        Scene(
            "grows-beyond-pool", "unschedulable", "sglang", "0.5.15", 44,
            "three requests of 16,000 tokens that would grow to 23,990 cannot finish in a pool of 24,000, of "
            "which open sessions hold 3,000: each "
            "runs alone until the pool is full and is aborted",
            alone, giants, 900,
            quiet=60,
        ),
        Scene(
            "refused-v0", "unschedulable", "vllm", "0.6.6", 45,
            "nearly two of five prompts from second 60 to 180 are longer than the pool of 30,000 tokens and refused at "
            "once; the others are served as ever",
            replace(VL, pool=30_000), _refused(0.8, 30_000, "empty answer"), 260, extra=_too_long,
        ),
        Scene(
            "refused-sglang", "unschedulable", "sglang", "0.5.23", 46,
            "nearly two of five prompts from second 60 to 180 are longer than the pool of 30,000 tokens and refused at "
            "once; the others are served as ever",
            replace(SG, pool=30_000), _refused(0.8, 30_000, "400 Bad Request"), 260, extra=_too_long,
        ),
    ]  # fmt: skip


# -- hangs and crashes


def _watchdog(scene: Scene, server: Any, engine: Engine, log: Lines) -> None:
    start = (scene.settings.stuck or (0, 0))[0]
    at_s = start + 120
    name = "Watchdog timeout (self.watchdog_timeout=120)"
    server.line(log, at_s, name if server.at < (0, 5, 7) else f"Scheduler watchdog timeout (self.watchdog_timeout=120, self.soft={False})")
    for n in range(int((scene.until - start) // 30)):
        server.access(log, start + 20 + 30 * n, 40200 + n, "503 Service Unavailable", "GET /health")


def _cuda_oom(scene: Scene, server: Any, engine: Engine, log: Lines) -> None:
    t = (scene.settings.crash_at or 0.0) + 0.4
    if scene.engine == "sglang":
        server.line(log, t, "Scheduler hit an exception: Traceback (most recent call last):")
        for text in (
            '  File "/opt/venv/lib/python3.11/site-packages/sglang/srt/managers/scheduler.py", line 2291, in run_scheduler_process',
            "    scheduler.event_loop_overlap()",
            '  File "/opt/venv/lib/python3.11/site-packages/sglang/srt/layers/logits_processor.py", line 402, in forward',
            "    logits = torch.matmul(hidden, weight.T)",
            OOM,
        ):
            log.add(t, text)
        server.line(log, t + 0.5, "Received sigquit from a child process. It usually means the child failed.", rank=False)
        return
    server.line(log, t, "core.py", "EngineCore encountered a fatal error.", core=True, level="ERROR")
    for text in (
        "Traceback (most recent call last):",
        '  File "vllm/v1/engine/core.py", line 842, in run_engine_core',
        '  File "vllm/v1/worker/gpu_model_runner.py", line 2544, in execute_model',
        OOM,
    ):
        server.line(log, t, "core.py", text, core=True, level="ERROR")
    server.line(log, t + 0.3, "async_llm.py", "AsyncLLM output_handler failed.", level="ERROR")
    for r in [r for r in engine.requests if r.entered is not None and r.done is None][:12]:
        server.line(log, t + 0.4, "async_llm.py", f"Request cmpl-{name_of(r.number)}-0 failed (engine dead).")


def _hangs() -> list[Scene]:
    return [
        Scene(
            "hang-free-pool", "hang", "sglang", "0.5.9", 51,
            "no step begins from second 110 on, at a usage below 0.2, with requests running, and the watchdog fires",
            replace(SG, stuck=(110.0, 400.0)), _even(1.2, 330), 350, extra=_watchdog, server={"args": {"watchdog_timeout": 120}},
        ),
        Scene(
            "livelock-capacity", "hang", "vllm", "0.33.0", 52,
            "nothing runs and the pool is empty from second 120 on, yet requests wait for capacity that each of them would fit into many "
            "times: they ask for at most 1,500 of 200,000 tokens",
            replace(VL, admits_none=(120.0, 400.0)),
            lambda rng: numbered(
                stream(rng, 95, phases((0, 1.2)), (400, 1200), (60, 200)), at([121.0 + 9 * n for n in range(16)], 1100, 300)
            ),
            300, extra=_alive,
        ),
        Scene(
            "livelock-capacity-metrics", "hang", "vllm", "0.32.0", 53,
            "nothing runs and the pool is empty from second 120 on, yet requests that ask for 1,400 of 200,000 tokens wait; only scrapes "
            "and client records were kept",
            replace(VL, admits_none=(120.0, 400.0)),
            lambda rng: numbered(
                stream(rng, 95, phases((0, 1.2)), (400, 1200), (60, 200)), at([121.0 + 7 * n for n in range(20)], 1100, 300)
            ),
            300, keep=("metrics", "client"),
        ),
    ]  # fmt: skip


def _crashes() -> list[Scene]:
    return [
        Scene(
            "oom-vllm", "crash", "vllm", "0.11.2", 54,
            "the process dies of CUDA out of memory at second 150 under load, with room in the pool and requests running",
            replace(VL, crash_at=150.0), _even(2.4, 200, (400, 2400), (200, 500)), 200, extra=_cuda_oom,
        ),
        Scene(
            "oom-sglang", "crash", "sglang", "0.4.6", 55,
            "the process dies of CUDA out of memory at second 140 under load, with room in the pool and requests running",
            replace(SG, crash_at=140.0), _even(2.4, 200, (400, 2400), (200, 500)), 200, extra=_cuda_oom,
        ),
    ]  # fmt: skip


# -- restarts


@dataclass(frozen=True)
class Restart:
    """A server that is told to stop under load and comes back; requests in flight are lost."""

    name: str
    cause: Cause
    engine: str
    version: str
    seed: int
    because: str
    settings: Settings
    stop: float = 150.0
    back: float = 215.0
    until: float = 320.0
    also: tuple[Cause, ...] = ()

    def render(self) -> dict[str, bytes]:
        """The files: both processes print into one log."""
        rng = random.Random(self.seed)
        requests = numbered(stream(rng, self.until - 20, phases((0, 1.5)), (400, 1500), (100, 400)))
        before = Engine(replace(self.settings, crash_at=self.stop), [r for r in requests if r.at < self.stop], rng).run(self.until)
        gone = [r for r in requests if self.stop <= r.at < self.back]
        after = Engine(self.settings, [r for r in requests if r.at >= self.back], rng, t=self.back).run(self.until)
        server: Any = {"sglang": SGLang, "vllm": VLLM}[self.engine](self.version, self.settings)
        log = server.log(before)
        log.cut(self.stop + 0.5)
        self._stop(server, log, len(before.running) + len(before.waiting))
        server.start(log, self.back - 60)
        log.extend(server.log(after, start=False))
        url = f"http://10.0.3.2:{server.port}"
        clients = client_lines([*before.requests, *gone], self.until, url, self.stop) + client_lines(after.requests, self.until, url)
        return {
            FILES["log"]: log.data(),
            FILES["metrics"]: as_text([*server.scrapes(before), *failed_scrapes(self.stop, self.back), *server.scrapes(after)]),
            FILES["client"]: clients,
        }

    def _stop(self, server: Any, log: Lines, held: int) -> None:
        t = self.stop + 0.6
        if self.engine == "sglang":
            text = "SIGTERM received. signum=<Signals.SIGTERM: 15> frame=None. Draining requests and shutting down..."
            server.line(log, t, text, rank=False)
            return
        server.line(log, t, "core.py", f"[shutdown] EngineCore: aborting in-flight requests count={held}", core=True)
        log.add(t + 1, "INFO:     Shutting down")
        log.add(t + 1, "INFO:     Application shutdown complete.")

    def incident(self) -> Incident:
        """The labelled case."""
        return labelled(self, self.render, ("log", "metrics", "client"), self.because)


def restarts() -> list[Restart]:
    """All of them."""
    told = "the process is told to stop at second 150 under an ordinary load without a queue, and the next serves from second 215 on"
    return [
        Restart("sigterm-vllm", "restart", "vllm", "0.33.0", 56, told, VL),
        Restart("sigterm-sglang", "restart", "sglang", "0.5.23", 57, told, SG),
    ]


def scenes() -> list[Scene]:
    """All with one process."""
    return [*_unschedulable(), *_hangs(), *_crashes()]
