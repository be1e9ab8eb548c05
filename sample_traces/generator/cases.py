"""The cases: a server, a workload, the log it would have written and what is true of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sample_traces.generator.capture import LAST_SCRAPE_S, How, Life, client_truth, files, metrics_truth, scrapes
from sample_traces.generator.clients import Client
from sample_traces.generator.render import Log, Model, SGLangServer, VLLMServer, client, probes
from sample_traces.generator.sglang_metrics import SGLangEndpoint
from sample_traces.generator.sglang_model import (
    Cost,
    PrefillReport,
    RetractReport,
    SGLangConfig,
    SGLangModel,
)
from sample_traces.generator.sglang_model import Seq as SGLangSeq
from sample_traces.generator.vllm_metrics import VLLMEndpoint
from sample_traces.generator.vllm_model import Seq as VLLMSeq
from sample_traces.generator.vllm_model import StepCost, VLLMConfig, VLLMModel
from sample_traces.generator.workload import Phase, arrivals

PROCESS_START_S = -67.4  # of the vLLM servers: before their first line
SLOW_TTFT_S = 5.0  # a first token later than this makes the incident window
AnySeq = SGLangSeq | VLLMSeq

SMALL = Model("models/demo-8b", "LlamaForCausalLM", 32, 8, 128, 14.98, 47.4)
LARGE = Model("models/demo-70b-fp8", "LlamaForCausalLM", 80, 8, 128, 33.47, 79.1, "fp8")
LARGE_BF16 = Model("models/demo-70b", "LlamaForCausalLM", 80, 8, 128, 65.74, 79.1)
SMALL_COST = Cost(0.012, 0.00006, 0.0, 0.0145, 0.00012, 2.0e-8)
LARGE_COST = Cost(0.05, 0.00014, 0.004, 0.040, 0.00022, 6.0e-8)
SMALL_STEP = StepCost(0.0125, 0.00006, 0.00012, 2.0e-8)
HEALTHY_IS_NOT = ["l1_bound", "reservation_bound", "cap_bound", "prefill_bound", "decode_bound"]


@dataclass(frozen=True, slots=True)
class Built:
    """A case's files; `captured` are those beside the log, by name."""

    log: str
    expected: dict[str, Any]
    captured: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Label:
    """What a reader should conclude."""

    causes: Sequence[str]
    not_expected: Sequence[str]
    description: str


def _base(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 2, day, hour, minute, tzinfo=UTC)


# -- what is true ---------------------------------------------------------------------------


def _percentile(values: Sequence[float], share: float) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3)


def _ttft(seqs: Iterable[AnySeq]) -> dict[str, Any]:
    values = [s.first_token - s.req.arrival for s in seqs if s.first_token is not None]
    return {"p50": _percentile(values, 0.5), "p99": _percentile(values, 0.99), "n": len(values)}


def _truth(log: Log, seqs: Sequence[AnySeq], end: float, quiet_until: float | None = None) -> dict[str, Any]:
    slow = [s for s in seqs if (s.first_token or end) - s.req.arrival > SLOW_TTFT_S]
    start = min((s.req.arrival for s in slow), default=None)
    last = max((s.first_token or end for s in slow), default=None)
    truth: dict[str, Any] = {
        "requests": len(seqs),
        "unfinished": sum(s.finish is None for s in seqs),
        "ttft_s": _ttft(seqs),
        "window": {
            "start": None if start is None else log.utc(start),
            "end": None if last is None else log.utc(last),
            "rule": f"first arrival to last first token of the requests with TTFT > {SLOW_TTFT_S:g} s",
        },
    }
    if quiet_until is not None:
        truth["ttft_before_load_s"] = _ttft(s for s in seqs if s.req.arrival < quiet_until)
    if start is not None and last is not None:
        truth["ttft_in_window_s"] = _ttft(s for s in seqs if start <= s.req.arrival <= last)
    return truth


def _expected(label: Label, peaks: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    return {
        "cause": list(label.causes),
        "peaks": peaks,
        "not_expected": list(label.not_expected),
        "truth": truth,
        "year": 2026,
        "tz": "UTC",
        "description": label.description,
    }


# -- what was saved beside the log ----------------------------------------------------------


def _captured(
    log: Log, engine: str, lives: Sequence[Life], how: How, records: list[dict[str, Any]], until: float | None = None
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of scrapes and clients, and what is true of them."""
    taken = scrapes(lives, log.base.timestamp(), how, until)
    return files(taken, how, records), {"metrics": metrics_truth(taken, engine, how), "clients": client_truth(records)}


# -- SGLang ---------------------------------------------------------------------------------


def _sglang_model(server: SGLangServer, cost: Cost, phases: tuple[Phase, ...], seed: int, **more: Any) -> SGLangModel:
    cfg = SGLangConfig(
        capacity=server.capacity,
        max_running_requests=server.running_limit,
        conservativeness=server.conservativeness,
        chunked_prefill_size=server.chunked_prefill_size,
        max_prefill_tokens=server.max_prefill_tokens,
        context_len=server.context_len,
        host_tokens=server.host_tokens,
        cost=cost,
        old_retract=server.version == "0.4.6",
    )
    return SGLangModel(cfg, arrivals(phases, seed), **more)


def _sglang_log(log: Log, server: SGLangServer, models: Sequence[SGLangModel], access: str = "first_token") -> None:
    """Scheduler lines of each rank and the access line of each request."""
    for dp, model in enumerate(models):
        for report in model.reports:
            server.report(log, report, dp)
    for seq in sorted((s for m in models for s in m.seqs), key=lambda s: s.req.rid):
        t = {"first_token": seq.first_token, "finish": seq.finish, "arrival": seq.req.arrival}[access]
        if t is not None:
            server.access(log, t + 0.004, "POST /v1/chat/completions", client(seq.req.rid))


def _sglang_peaks(server: SGLangServer, models: Sequence[SGLangModel]) -> dict[str, Any]:
    """Peaks of what the lines print: the sum over ranks of each rank's latest line."""
    early = server.format.prefill_when_scheduled
    events = []
    for dp, model in enumerate(models):
        for n, r in enumerate(model.reports):
            if isinstance(r, RetractReport):
                continue
            prefill = isinstance(r, PrefillReport)
            usage = r.usage_before if early and isinstance(r, PrefillReport) else r.usage
            t = r.sched_t if early and isinstance(r, PrefillReport) else r.t
            events.append((t, dp, n, r.running, r.queue, float(f"{usage:.2f}"), prefill))
    latest: dict[int, tuple[int, int]] = {}
    running = waiting = 0
    kv = 0.0
    for _, dp, _, run, queue, usage, _ in sorted(events):
        latest[dp] = (run, queue)
        running = max(running, sum(x for x, _ in latest.values()))
        waiting = max(waiting, sum(x for _, x in latest.values()))
        kv = max(kv, usage)
    retracts = [r for m in models for r in m.reports if isinstance(r, RetractReport)]
    return {
        "running": running,
        "waiting": waiting,
        "kv_usage": kv,
        "retraction_events": len(retracts),
        "retracted_requests": sum(r.requests for r in retracts),
        "preemptions": None,
    }


def _sglang_truth(log: Log, models: Sequence[SGLangModel], end: float, quiet_until: float | None = None) -> dict[str, Any]:
    seqs = sorted((s for m in models for s in m.seqs), key=lambda s: s.req.rid)
    truth = _truth(log, seqs, end, quiet_until)
    truth["retractions"] = sum(s.retractions for s in seqs)
    truth["recomputed_tokens"] = sum(m.recomputed_tokens for m in models)
    hosts = [m for m in models if m.cfg.host_tokens]
    if hosts:
        truth["l2_used_share_max"] = round(max(m.pool.host_peak / m.cfg.host_tokens for m in hosts), 3)
    return truth


def _sglang_case(
    log: Log,
    server: SGLangServer,
    models: Sequence[SGLangModel],
    label: Label,
    quiet_until: float | None = None,
    how: How | None = None,
    priorities: bool = False,
) -> Built:
    """The common end: all lines between start-up and the last step, what was captured besides, and the labels."""
    end = max(m.t for m in models)
    _sglang_log(log, server, models)
    probes(server, log, 5.0, end, 60.0)
    truth = _sglang_truth(log, models, end, quiet_until)
    last = end + LAST_SCRAPE_S
    life = Life(SGLangEndpoint(server, models, end=last, priorities=priorities), -3600.0, last)
    users = _sglang_client(log, server)
    captured, more = _captured(log, "sglang", [life], how or How(), [users.record(s) for m in models for s in m.seqs])
    return Built(log.text(), _expected(label, _sglang_peaks(server, models), truth | more), captured)


def _sglang_client(log: Log, server: SGLangServer) -> Client:
    return Client(f"http://gpu-07:{server.port}", log.base.timestamp())


def healthy_sglang() -> Built:
    """Light load: nothing ever waits."""
    server = SGLangServer("0.5.9", SMALL, 214_016, 32768)
    phases = (Phase(420.0, 0.35, (300, 1500), (150, 600), max_new=1024, prefixes=4, prefix_len=900),)
    model = _sglang_model(server, SMALL_COST, phases, seed=101)
    model.run()
    log = Log(_base(3, 10))
    server.startup(log, -72.0, 68.0)
    label = Label(["none"], HEALTHY_IS_NOT, "SGLang 0.5.9 under light load: no queue, pool nearly empty.")
    how = How(form="csv", job="sglang", instance=f"gpu-07:{server.port}")
    return _sglang_case(log, server, [model], label, how=how)


def l1_bound_sglang() -> Built:
    """The title case: L1 full, requests queue and are retracted, L2 has room."""
    server = SGLangServer("0.5.23", LARGE, 196_608, 32768, tp=2, host_tokens=393_216)
    chat = Phase(480.0, 0.22, (800, 6000), (120, 480), max_new=1024, prefixes=12, prefix_len=1200)
    batch = Phase(
        600.0,
        0.10,
        (2500, 4500),
        (950, 1200),
        max_new=1200,
        prefixes=40,
        prefix_len=2600,
        burst=26,
        burst_every=80.0,
    )
    phases = (chat, batch, replace(chat, seconds=360.0, rate=0.20))
    model = _sglang_model(server, LARGE_COST, phases, seed=26)
    model.run()
    log = Log(_base(17, 9))
    server.startup(log, -96.0, 92.0)
    label = Label(
        ["l1_bound"],
        ["none", "cap_bound", "prefill_bound", "l2_bound", "decode_bound", "hang"],
        "Ten minutes of batch jobs with longer prompts and outputs fill the KV pool in HBM: requests queue "
        "and are retracted while the host pool (L2) stays mostly empty; P99 TTFT goes from 2 s to over 40 s.",
    )
    return _sglang_case(log, server, [model], label, quiet_until=480.0)


def reservation_bound_sglang() -> Built:
    """Every client asks for 4096 tokens and stops after 200: the budget is full, the pool is not."""
    server = SGLangServer("0.5.23", LARGE_BF16, 24_576, 8192, conservativeness=1.3, tp=2)
    chat = Phase(120.0, 0.4, (80, 240), (120, 260), max_new=4096)
    busy = replace(chat, seconds=150.0, rate=2.3)
    model = _sglang_model(server, LARGE_COST, (chat, busy, replace(chat, seconds=90.0)), seed=41)
    model.run()
    log = Log(_base(11, 16))
    server.startup(log, -96.0, 92.0)
    label = Label(
        ["reservation_bound"],
        ["none", "l1_bound", "cap_bound", "prefill_bound", "l2_bound", "decode_bound"],
        "max_new_tokens 4096 with outputs of 200 and a conservativeness of 1.3: requests queue at a token "
        "usage of 0.2 to 0.3, because the reservation is full and not the pool.",
    )
    return _sglang_case(log, server, [model], label, quiet_until=120.0, how=How(15.0))


def cap_bound_sglang() -> Built:
    """--max-running-requests 8 in front of an empty pool."""
    server = SGLangServer("0.5.23", SMALL, 214_016, 32768, max_running_requests=8)
    chat = Phase(120.0, 0.4, (200, 900), (250, 600), max_new=800)
    model = _sglang_model(server, SMALL_COST, (chat, replace(chat, seconds=200.0, rate=1.4), chat), seed=42)
    model.run()
    log = Log(_base(12, 11))
    server.startup(log, -72.0, 68.0)
    label = Label(
        ["cap_bound"],
        ["none", "l1_bound", "reservation_bound", "prefill_bound", "l2_bound", "decode_bound"],
        "max_running_requests 8 with a nearly empty pool: running stands at 8 while the queue grows.",
    )
    return _sglang_case(log, server, [model], label, quiet_until=120.0, priorities=True)


def prefill_bound_sglang() -> Built:
    """Scoring: prompts of 8 to 16 thousand tokens and one output token."""
    server = SGLangServer("0.5.23", replace(SMALL, gpu_gb=79.1), 428_032, 32768)
    calm = Phase(120.0, 0.25, (8000, 16000), (1, 1), max_new=1)
    cost = replace(SMALL_COST, prefill_token=0.00011)
    model = _sglang_model(server, cost, (calm, replace(calm, seconds=200.0, rate=0.9), calm), seed=43)
    model.run()
    log = Log(_base(13, 8))
    server.startup(log, -72.0, 68.0)
    label = Label(
        ["prefill_bound"],
        ["none", "l1_bound", "reservation_bound", "cap_bound", "l2_bound", "decode_bound"],
        "Prompts of 12,000 tokens with one output token: input throughput is flat at its top, #pending-token grows, usage stays below 0.1.",
    )
    return _sglang_case(log, server, [model], label, quiet_until=120.0)


def decode_bound_sglang() -> Built:
    """Hundreds of long answers at once: nothing waits, every token takes long."""
    server = SGLangServer("0.5.9", replace(SMALL, gpu_gb=139.8), 856_064, 32768, graph_max_bs=256)
    cost = replace(SMALL_COST, decode=0.022, decode_request=0.00085, context_token=0.0)
    calm = Phase(120.0, 0.15, (120, 400), (700, 1500), max_new=2048)
    phases = (
        calm,
        replace(calm, seconds=420.0, rate=0.5, rate_end=1.3),
        replace(calm, seconds=60.0, rate=0.05),
    )
    model = _sglang_model(server, cost, phases, seed=44)
    model.run()
    log = Log(_base(14, 13))
    server.startup(log, -72.0, 68.0)
    label = Label(
        ["decode_bound"],
        ["l1_bound", "reservation_bound", "cap_bound", "prefill_bound", "l2_bound", "hang"],
        "Running climbs, the queue stays empty and the pool free, but the generation throughput has "
        "reached its top: each request gets fewer and fewer tokens per second.",
    )
    how = How(form="query_range", job="sglang", instance=f"gpu-07:{server.port}")
    return _sglang_case(log, server, [model], label, quiet_until=120.0, how=how)


def hang_sglang() -> Built:
    """The scheduler stops in the middle of a step, with requests running and waiting."""
    half = replace(SMALL, weights_gb=7.51, gpu_gb=23.6)
    server = SGLangServer("0.5.9", half, 198_400, 32768, max_running_requests=24, tp=2)
    calm = Phase(150.0, 0.5, (300, 1500), (250, 600), max_new=1024)
    model = _sglang_model(server, SMALL_COST, (calm, replace(calm, seconds=300.0, rate=4.0)), seed=45)
    stop = 172.0
    model.run(until=stop)
    log = Log(_base(18, 15))
    server.startup(log, -80.0, 76.0)
    _sglang_log(log, server, [model])
    probes(server, log, 5.0, model.t, 30.0)
    end = model.t + server.watchdog_timeout + 71.0  # it looks every 150 s
    for k in range(11):  # the server answers, but no token comes back
        asked = model.t + 13.0 + 30.0 * k
        health = (
            "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. "
            f"tic start time: {log.stamp(asked, '%H:%M:%S')}. "
            f"last_heartbeat time: {log.stamp(model.t, '%H:%M:%S')}"
        )
        server.line(log, asked + 20.0, health)
        server.access(log, asked + 20.0, "GET /health", client(2_000_000 + k), "503 Service Unavailable")
    for tp in range(server.tp):
        text = server.format.watchdog.format(timeout=server.watchdog_timeout)
        server.line(log, end + 0.3 + 0.002 * tp, text, server.tag(0, tp))
    server.line(log, end + 5.4, "SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
    log.add(end + 6.1, "Killed")
    label = Label(
        ["hang", "crash"],
        ["none", "l1_bound", "reservation_bound", "prefill_bound"],
        "With 24 requests running and more waiting the scheduler prints nothing any more; health checks "
        "fail, and after six minutes the watchdog (300 s, looking every 150 s) kills the server.",
    )
    truth = _sglang_truth(log, [model], end, quiet_until=150.0)
    truth["hang"] = {"start": log.utc(model.t), "end": log.utc(end)}
    lives = [Life(SGLangEndpoint(server, [model], end=model.t), -3600.0, end)]  # the endpoint goes on answering
    users = _sglang_client(log, server)
    records = [users.record(s, lost_at=end) for s in model.seqs] + [users.unanswered(r, end) for r in model.arriving]
    captured, more = _captured(log, "sglang", lives, How(), records)
    return Built(log.text(), _expected(label, _sglang_peaks(server, [model]), truth | more), captured)


def restart_sglang() -> Built:
    """The process dies without a word and comes back with a smaller pool."""
    first = SGLangServer("0.4.6", SMALL, 214_016, 32768, pid=412)
    second = replace(first, capacity=187_392, pid=988)
    load = (Phase(240.0, 0.4, (300, 1500), (150, 600), max_new=1024, prefixes=4, prefix_len=900),)
    before = _sglang_model(first, SMALL_COST, load, seed=46)
    before.run(until=232.4)
    back = 232.4 + 41.0 + 66.0
    after = SGLangModel(
        replace(before.cfg, capacity=second.capacity),
        arrivals(load, 47, start=back + 2.0, first_rid=500),
        start=back,
    )
    after.run()
    log = Log(_base(19, 21))
    first.startup(log, -70.0, 66.0)
    for server, model in ((first, before), (second, after)):
        _sglang_log(log, server, [model], access="finish")
    probes(first, log, 5.0, before.t, 30.0)
    second.startup(log, back - 66.0, 66.0)
    probes(second, log, back + 5.0, after.t, 30.0)
    label = Label(
        ["restart"],
        ["none", "l1_bound", "reservation_bound", "cap_bound", "prefill_bound", "hang"],
        "The log breaks off under light load; 41 s later a new process starts, with 187,392 instead of 214,016 tokens of capacity.",
    )
    truth = _sglang_truth(log, [before, after], before.t)  # what was lost waited until then
    truth["down"] = {"start": log.utc(before.t), "end": log.utc(back)}
    truth["capacity_tokens"] = [first.capacity, second.capacity]
    peaks = [_sglang_peaks(first, [before]), _sglang_peaks(second, [after])]
    merged = {k: None if v is None else max(v, peaks[1][k]) for k, v in peaks[0].items()}
    merged |= {k: sum(p[k] for p in peaks) for k in ("retraction_events", "retracted_requests")}
    last = after.t + LAST_SCRAPE_S
    lives = [
        Life(SGLangEndpoint(first, [before], end=before.t), -3600.0, before.t),
        Life(SGLangEndpoint(second, [after], end=last), back - 5.0, last),
    ]
    users = _sglang_client(log, first)
    records = [users.record(s, lost_at=before.t) for s in before.seqs] + [users.refused(r) for r in before.arriving]
    records += [users.record(s) for s in after.seqs]
    captured, more = _captured(log, "sglang", lives, How(), records)
    return Built(log.text(), _expected(label, merged, truth | more), captured)


def dp_sglang() -> Built:
    """Two data-parallel ranks of two GPUs each; both pools fill up."""
    server = SGLangServer("0.5.5", replace(LARGE, gpu_gb=59.2), 98_304, 32768, tp=2, dp=2, conservativeness=0.3)
    chat = Phase(120.0, 0.3, (600, 3000), (120, 480), max_new=1024)
    busy = Phase(280.0, 0.1, (2500, 5000), (900, 1200), max_new=1200, burst=44, burst_every=70.0)
    requests = arrivals((chat, busy, replace(chat, seconds=100.0)), 48)
    cfg = _sglang_model(server, LARGE_COST, (), seed=0).cfg
    models = [SGLangModel(cfg, [r for r in requests if r.rid % server.dp == dp]) for dp in range(server.dp)]
    for model in models:
        model.run()
    log = Log(_base(20, 7))
    server.startup(log, -96.0, 92.0)
    label = Label(
        ["l1_bound"],
        ["none", "cap_bound", "prefill_bound", "l2_bound", "decode_bound", "skew"],
        "dp=2, tp=2: the lines of two schedulers interleave; both pools are full and both retract.",
    )
    return _sglang_case(log, server, models, label, quiet_until=120.0)


# -- vLLM -----------------------------------------------------------------------------------


def _vllm_model(server: VLLMServer, cost: StepCost, phases: tuple[Phase, ...], seed: int) -> VLLMModel:
    v0, new = server.format.v0, server.format.one_capacity_line
    cfg = VLLMConfig(
        blocks=server.blocks,
        max_num_seqs=server.max_num_seqs,
        max_num_batched_tokens=server.max_num_batched_tokens,
        block_size=server.block_size,
        reserve_full_isl=new,
        count_cached_prompt=not new,
        v0=v0,
        watermark=0.01 if v0 else 0.0,
        stats_interval=5.0 if v0 else 10.0,
        cost=cost,
    )
    return VLLMModel(cfg, arrivals(phases, seed))


def _vllm_log(log: Log, server: VLLMServer, model: VLLMModel) -> None:
    """Stats lines, V0's warnings, and the access line of each (streamed) request."""
    for stats in model.stats:
        server.stats(log, stats)
    for preemption in model.preemptions:
        server.preempt(log, preemption)
    for seq in model.seqs:
        server.access(log, seq.req.arrival + 0.006, "POST /v1/completions", client(seq.req.rid))


def _vllm_peaks(server: VLLMServer, model: VLLMModel) -> dict[str, Any]:
    printed = [p.number for p in model.preemptions if p.number % 50 == 1] if server.format.v0 else []
    return {
        "running": max(s.running for s in model.stats),
        "waiting": max(s.waiting for s in model.stats),
        "kv_usage": round(max(float(f"{s.usage * 100:.1f}") for s in model.stats) / 100, 3),
        "retraction_events": None,
        "retracted_requests": None,
        "preemptions": printed[-1] if printed else None,
    }


def _vllm_truth(log: Log, model: VLLMModel, end: float, quiet_until: float | None = None) -> dict[str, Any]:
    truth = _truth(log, model.seqs, end, quiet_until)
    truth["preemptions"] = len(model.preemptions)
    truth["peak_between_lines"] = {
        "running": model.peak_running,
        "waiting": model.peak_waiting,
        "kv_usage": round(model.peak_usage, 3),
    }
    return truth


def _vllm_case(log: Log, server: VLLMServer, model: VLLMModel, label: Label, quiet_until: float | None = None) -> Built:
    """The common end: all lines between start-up and the last step, what was captured besides (V1), and the labels."""
    _vllm_log(log, server, model)
    probes(server, log, 5.0, model.t, 30.0)
    truth = _vllm_truth(log, model, model.t, quiet_until)
    captured: dict[str, bytes] = {}
    if not server.format.v0:
        epoch, last = log.base.timestamp(), model.t + LAST_SCRAPE_S
        users = Client(f"http://gpu-07:{server.port}", epoch)
        lives = [Life(VLLMEndpoint(server, model, epoch + PROCESS_START_S), -3600.0, last)]
        captured, more = _captured(log, "vllm", lives, How(), [users.record(s) for s in model.seqs])
        truth |= more
    return Built(log.text(), _expected(label, _vllm_peaks(server, model), truth), captured)


def healthy_vllm() -> Built:
    """Light load: nothing ever waits."""
    server = VLLMServer("0.11.2", SMALL, 27_921, 32768, 256, 8192)
    load = Phase(300.0, 0.6, (300, 1500), (150, 600), prefixes=4, prefix_len=900)
    quiet = Phase(60.0, 0.0, (1, 1), (1, 1))
    model = _vllm_model(server, SMALL_STEP, (load, quiet, replace(load, seconds=240.0, rate=0.8)), seed=102)
    model.run()
    log = Log(_base(4, 14))
    server.startup(log, -66.0, 62.0)
    label = Label(["none"], HEALTHY_IS_NOT, "vLLM 0.11.2 under light load with a quiet minute in the middle.")
    return _vllm_case(log, server, model, label)


def l1_bound_vllm() -> Built:
    """V1 preempts, and its log does not say so."""
    server = VLLMServer("0.11.2", SMALL, 3_584, 16384, 256, 2048)
    chat = Phase(180.0, 0.7, (400, 1600), (200, 700))
    busy = Phase(300.0, 1.45, (800, 2400), (600, 1400))
    model = _vllm_model(server, SMALL_STEP, (chat, busy, replace(chat, seconds=120.0)), seed=51)
    model.run()
    log = Log(_base(5, 9))
    server.startup(log, -66.0, 62.0)
    label = Label(
        ["l1_bound"],
        ["none", "cap_bound", "prefill_bound", "l2_bound", "decode_bound"],
        "The block pool is full and running requests are preempted again and again, which a V1 log "
        "never mentions: only KV usage at 100 % beside a growing Waiting shows it.",
    )
    return _vllm_case(log, server, model, label, quiet_until=180.0)


def l1_bound_vllm_v0() -> Built:
    """V0 counts its preemptions, one warning in fifty."""
    server = VLLMServer("0.6.6", SMALL, 3_584, 8192, 256, 8192)
    chat = Phase(180.0, 0.7, (400, 1600), (200, 700))
    busy = Phase(300.0, 1.45, (800, 2400), (600, 1400))
    model = _vllm_model(server, SMALL_STEP, (chat, busy, replace(chat, seconds=120.0)), seed=52)
    model.run()
    log = Log(_base(6, 9))
    server.startup(log, -66.0, 62.0)
    label = Label(
        ["l1_bound"],
        ["none", "cap_bound", "prefill_bound", "l2_bound", "decode_bound"],
        "vLLM V0 with a full block pool: every 50th preemption is a warning with the cumulative count.",
    )
    return _vllm_case(log, server, model, label, quiet_until=180.0)


def cap_bound_vllm() -> Built:
    """--max-num-seqs 8 in front of an empty pool."""
    server = VLLMServer("0.33", SMALL, 13_376, 32768, 8, 8192)
    chat = Phase(120.0, 0.5, (200, 900), (250, 600))
    model = _vllm_model(server, SMALL_STEP, (chat, replace(chat, seconds=200.0, rate=1.55), chat), seed=53)
    model.run()
    log = Log(_base(7, 11))
    server.startup(log, -66.0, 62.0)
    label = Label(
        ["cap_bound"],
        ["none", "l1_bound", "reservation_bound", "prefill_bound", "l2_bound", "decode_bound"],
        "max_num_seqs 8 with a nearly empty pool: Running stands at 8 while Waiting grows.",
    )
    return _vllm_case(log, server, model, label, quiet_until=120.0)


def prefill_bound_vllm() -> Built:
    """Long prompts, short answers, a small token budget per step."""
    server = VLLMServer("0.33", SMALL, 40_960, 32768, 256, 2048)
    calm = Phase(120.0, 0.2, (6000, 14000), (4, 24))
    cost = replace(SMALL_STEP, token=0.00011)
    model = _vllm_model(server, cost, (calm, replace(calm, seconds=240.0, rate=1.02), calm), seed=54)
    model.run()
    log = Log(_base(9, 10))
    server.startup(log, -66.0, 62.0)
    label = Label(
        ["prefill_bound"],
        ["none", "l1_bound", "reservation_bound", "cap_bound", "l2_bound", "decode_bound"],
        "Prompts of 10,000 tokens and a budget of 2048 tokens a step: prompt throughput is flat at its "
        "top, Waiting grows, KV usage stays low.",
    )
    return _vllm_case(log, server, model, label, quiet_until=120.0)


def crash_vllm() -> Built:
    """The engine core dies of a CUDA error under normal load."""
    server = VLLMServer("0.33", SMALL, 27_921, 32768, 256, 8192)
    load = (Phase(400.0, 0.8, (300, 1500), (150, 600), prefixes=4, prefix_len=900),)
    model = _vllm_model(server, SMALL_STEP, load, seed=55)
    model.run(until=287.3)
    end = model.t
    log = Log(_base(10, 18))
    server.startup(log, -66.0, 62.0)
    _vllm_log(log, server, model)
    probes(server, log, 5.0, end, 30.0)
    server.crash(log, end, [(s.req.rid, s.length - 1, s.out) for s in model.running])
    late = [r for r in model.arriving if r.arrival < end + 2.0]
    for request in late:
        server.access(
            log,
            request.arrival + 0.01,
            "POST /v1/completions",
            client(request.rid),
            "500 Internal Server Error",
        )
    for text in (
        "Shutting down",
        "Waiting for application shutdown.",
        "Application shutdown complete.",
        f"Finished server process [{server.pid}]",
    ):
        server.uvicorn(log, end + 2.5, text)
    label = Label(
        ["crash"],
        [*HEALTHY_IS_NOT, "none", "hang", "restart"],
        "EngineCore hits a fatal error with requests running, the API server gives up, then silence.",
    )
    truth = _vllm_truth(log, model, end)
    truth["crash"] = {"at": log.utc(end), "running": len(model.running)}
    epoch, last = log.base.timestamp(), end + LAST_SCRAPE_S
    lives = [Life(VLLMEndpoint(server, model, epoch + PROCESS_START_S), -3600.0, end + 2.0)]
    users = Client(f"http://gpu-07:{server.port}", epoch)
    records = [users.record(s, lost_at=end + 0.25) for s in model.seqs]
    records += [users.unanswered(r, r.arrival + 0.01, "HTTP 500") for r in late]
    records += [users.refused(r) for r in model.arriving if end + 2.0 <= r.arrival < last]
    captured, more = _captured(log, "vllm", lives, How(), records, until=last)
    return Built(log.text(), _expected(label, _vllm_peaks(server, model), truth | more), captured)


CASES: dict[str, Callable[[], Built]] = {
    f.__name__: f
    for f in (
        healthy_sglang,
        healthy_vllm,
        l1_bound_sglang,
        l1_bound_vllm,
        l1_bound_vllm_v0,
        reservation_bound_sglang,
        cap_bound_sglang,
        cap_bound_vllm,
        prefill_bound_sglang,
        prefill_bound_vllm,
        decode_bound_sglang,
        hang_sglang,
        crash_vllm,
        restart_sglang,
        dp_sglang,
    )
}
