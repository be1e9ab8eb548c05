"""Cases in which the process itself failed: it crashed, stopped making progress, or came back."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from generated_files import CLIENTS, LOG, METRICS, STARTUP_S, base, endpoint, scrapes_of, thinned, write_reports
from generated_model import AnyModel, Design, Noise, run, seqs

from sample_traces.generator.capture import LAST_SCRAPE_S, Life
from sample_traces.generator.cases import SMALL, SMALL_COST, SMALL_STEP
from sample_traces.generator.clients import Client, as_lines
from sample_traces.generator.render import Log, SGLangServer, VLLMServer, client, probes
from sample_traces.generator.vllm_model import VLLMModel
from sample_traces.generator.workload import Phase

_LOAD = Phase(400.0, 0.8, (300, 1500), (150, 500), max_new=1024)
_NOISE = Noise(lines=0.03, jitter_s=1.0)

CRASHES = (
    Design("crash-of-the-core", "crash", VLLMServer("0.32", SMALL, 27_921, 32768, 256, 8192), SMALL_STEP, (_LOAD,), (401, 402)),
    Design("crash-of-the-scheduler", "crash", SGLangServer("0.5.21", SMALL, 214_016, 32768), SMALL_COST, (_LOAD,), (403, 404)),
)
HANGS = (
    Design(
        "hang-until-the-watchdog",
        "hang",
        SGLangServer("0.5.12", SMALL, 214_016, 32768, tp=2, watchdog_timeout=120),
        SMALL_COST,
        (_LOAD,),
        (411, 412),
    ),
    Design("hang-in-silence", "hang", VLLMServer("0.33", SMALL, 27_921, 32768, 256, 8192), SMALL_STEP, (_LOAD,), (413, 414)),
)
RESTARTS = (
    Design("restart-without-a-word", "restart", SGLangServer("0.4.9", SMALL, 214_016, 32768), SMALL_COST, (_LOAD,), (421, 422)),
    Design("restart-by-a-signal", "restart", VLLMServer("0.32", SMALL, 27_921, 32768, 256, 8192), SMALL_STEP, (_LOAD,), (423, 424)),
)
DESIGNS = (*CRASHES, *HANGS, *RESTARTS)


def stop_s(seed: int) -> float:
    """When the process stops, in seconds of the case."""
    return 190.0 + 7.3 * (seed % 10)


def down_s(seed: int) -> float:
    """How long nobody listens until the next process is ready, in seconds."""
    return 24.0 + seed % 10 + STARTUP_S


def because(design: Design, seed: int) -> str:
    """How the label is known: the model was stopped."""
    loaded = f"{stop_s(seed):.0f} s into a load that it carried well"
    return {
        "crash": f"the process dies {loaded}, and says so",
        "hang": f"no token comes any more {loaded}, and the front end goes on",
        "restart": f"the process ends {loaded}, and {down_s(seed):.0f} s later another one is ready",
    }[design.cause]


def files(design: Design, seed: int, number: int) -> dict[str, bytes]:
    """The files of one case."""
    models = run(design, seed, until=stop_s(seed))
    return {"crash": _crash, "hang": _hang, "restart": _restart}[design.cause](design, seed, number, models[0])


def _begin(design: Design, number: int, model: AnyModel) -> tuple[Log, Client]:
    """The log up to the stop, and the clients."""
    log = Log(base(number))
    design.server.startup(log, -STARTUP_S - 4.0, STARTUP_S)
    write_reports(log, design.server, [model])
    probes(design.server, log, 5.0, model.t, 30.0)
    return log, Client(f"http://gpu-07:{design.server.port}", log.base.timestamp())


def _finish(design: Design, seed: int, log: Log, lives: list[Life], rows: list[dict[str, Any]], until: float) -> dict[str, bytes]:
    rng = random.Random(seed)
    return {
        LOG: thinned(log.text(), _NOISE.lines, rng).encode(),
        CLIENTS: as_lines(rows),
        METRICS: scrapes_of(lives, log.base.timestamp(), 5.0, _NOISE, rng, until),
    }


def _crash(design: Design, seed: int, number: int, model: AnyModel) -> dict[str, bytes]:
    server, end = design.server, model.t
    log, users = _begin(design, number, model)
    if isinstance(server, VLLMServer):
        server.crash(log, end, [(s.req.rid, s.length - 1, s.out) for s in model.running])
        for text in ("Shutting down", "Application shutdown complete.", f"Finished server process [{server.pid}]"):
            server.uvicorn(log, end + 2.5, text)
    else:
        server.line(log, end + 0.1, "Scheduler hit an exception: Traceback (most recent call last):")
        for text in (
            '  File "sglang/srt/managers/scheduler.py", line 3391, in run_scheduler_process',
            "    scheduler.event_loop_overlap()",
            '  File "sglang/srt/managers/tp_worker.py", line 411, in forward_batch_generation',
            "    logits = self.model_runner.forward(batch)",
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
            "",
        ):
            log.add(end + 0.1, text)
        server.line(log, end + 0.9, "SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        log.add(end + 1.4, "Killed")
    last = end + LAST_SCRAPE_S
    start = log.base.timestamp()
    rows = [users.record(s, lost_at=end + 0.3) for s in seqs([model])]
    rows += [users.refused(r) for r in model.arriving if r.arrival < last]
    return _finish(design, seed, log, [Life(endpoint(server, [model], start, end), -3600.0, end + 0.5)], rows, last)


def _hang(design: Design, seed: int, number: int, model: AnyModel) -> dict[str, bytes]:
    """The scheduler stops inside a step; the front end goes on answering, and clients give up after two minutes."""
    server, stop = design.server, model.t
    if isinstance(model, VLLMModel):
        model.run(until=stop, watched_s=20.0)  # the tokens since the last line, then one line of zeros
    log, users = _begin(design, number, model)
    if isinstance(server, SGLangServer):
        end = stop + server.watchdog_timeout + 33.0
        for k in range(int((end - stop - 33.0) // 30)):
            server.access(log, stop + 33.0 + 30.0 * k, "GET /health", client(2_000_000 + k), "503 Service Unavailable")
        for tp in range(server.tp):
            server.line(log, end, server.format.watchdog.format(timeout=server.watchdog_timeout), server.tag(0, tp))
        server.line(log, end + 5.0, "SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        log.add(end + 5.5, "Killed")
    else:
        end = stop + 240.0
        probes(server, log, stop + 30.0, end, 30.0)  # the front end is well
    late = [r for r in model.arriving if r.arrival < end]
    rows = [users.record(s, lost_at=min(end, max(stop, s.req.arrival) + 120.0)) for s in seqs([model])]
    rows += [users.unanswered(r, min(end, r.arrival + 120.0), "timeout") for r in late]
    life = Life(endpoint(server, [model], log.base.timestamp(), stop), -3600.0, end)
    return _finish(design, seed, log, [life], rows, end)


def _restart(design: Design, seed: int, number: int, before: AnyModel) -> dict[str, bytes]:
    """Requests in flight are lost, those that come while nobody listens are refused, and another process takes over."""
    first, stop = design.server, before.t
    second = replace(first, pid=first.pid + 576)
    ready = stop + down_s(seed)
    load = replace(_LOAD, seconds=120.0)
    idle = Phase(ready + 2.0, 0.0, (1, 1), (1, 1))
    (after,) = run(replace(design, server=second, phases=(idle, load)), seed + 1000)
    log, users = _begin(design, number, before)
    if isinstance(first, VLLMServer):
        for text in ("Shutting down", "Waiting for application shutdown.", "Application shutdown complete."):
            first.uvicorn(log, stop + 0.6, text)
        first.uvicorn(log, stop + 0.7, f"Finished server process [{first.pid}]")
    second.startup(log, ready - STARTUP_S, STARTUP_S)
    for seq in after.seqs:
        seq.req = replace(seq.req, rid=seq.req.rid + 5000)
    write_reports(log, second, [after])
    probes(second, log, ready + 5.0, after.t, 30.0)
    start, last = log.base.timestamp(), after.t + LAST_SCRAPE_S
    rows = [users.record(s, lost_at=stop + 0.2) for s in seqs([before])]
    rows += [users.refused(r) for r in before.arriving if r.arrival < ready]
    rows += [users.record(s) for s in seqs([after])]
    lives = [
        Life(endpoint(first, [before], start, stop), -3600.0, stop),
        Life(endpoint(second, [after], start + ready, last), ready - 5.0, last),
    ]
    return _finish(design, seed, log, lives, rows, last)
