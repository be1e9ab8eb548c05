"""A design of load on a server, run through the models of `sample_traces`, as it is and with one thing changed.

What a change removes of the excess P99 TTFT is how a cause is known: nothing here knows what the tool makes of it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from analyzer.diagnosis.model import Cause
from sample_traces.generator.render import SGLangServer, VLLMServer
from sample_traces.generator.sglang_model import Cost, RetractReport, SGLangConfig, SGLangModel
from sample_traces.generator.sglang_model import Seq as SGLangSeq
from sample_traces.generator.vllm_model import Seq as VLLMSeq
from sample_traces.generator.vllm_model import StepCost, VLLMConfig, VLLMModel
from sample_traces.generator.workload import Phase, Request, arrivals

Server = SGLangServer | VLLMServer
AnyModel = SGLangModel | VLLMModel
AnySeq = SGLangSeq | VLLMSeq

KNOBS = ("pool", "cap", "prefill", "reservation", "balance", "decode")
"""Twice the pool, the cap, the speed (and budget) of prefill; half the reservation; requests dealt out in turn; twice the decode speed."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What a capture lost: shares of report lines and of scrapes, how far scrapes come off their time, in seconds."""

    lines: float = 0.0
    scrapes: float = 0.0
    jitter_s: float = 0.0


@dataclass(frozen=True, eq=False)  # one object is one design: the cache of runs needs no more
class Design:
    """A server and its load. The first phase is the quiet stretch that excess is counted from; `told` adds words to the label.

    `ranks` is the number of data-parallel ranks, of which the first gets the share `first_share` of the requests (None: all get
    the same in turn). `slow` is a time in seconds and how many times longer a decode step takes from then on. `watermark` and
    `whole_prompt` are vLLM's: the share of blocks kept free at admission, and whether a sequence must fit as a whole.
    """

    name: str
    cause: Cause
    server: Server
    cost: Cost | StepCost
    phases: tuple[Phase, ...]
    seeds: tuple[int, int]
    ranks: int = 1
    first_share: float | None = None
    slow: tuple[float, float] | None = None
    watermark: float = 0.0
    whole_prompt: bool = True
    every_s: float = 5.0
    access: bool = True
    told: str = ""
    noise: Noise = field(default_factory=Noise)

    @property
    def engine(self) -> str:
        """The engine's name."""
        return "sglang" if isinstance(self.server, SGLangServer) else "vllm"


@lru_cache(maxsize=8)
def run(design: Design, seed: int, knob: str = "", until: float | None = None) -> tuple[AnyModel, ...]:
    """One model per rank, run to the end of its load or to `until` (seconds)."""
    requests = [_asked(r, knob) for r in arrivals(design.phases, seed)]
    models = []
    for rank in range(design.ranks):
        own = [r for r in requests if _rank(design, r, knob) == rank]
        model = _model(design, own, knob)
        if design.slow is not None:
            at, factor = design.slow
            model.run(until=at if until is None else min(at, until))
            model.cfg = replace(model.cfg, cost=_slower(model.cfg.cost, factor))
        model.run(until=until)
        models.append(model)
    return tuple(models)


def _rank(design: Design, request: Request, knob: str) -> int:
    if design.first_share is None or knob == "balance":
        return request.rid % design.ranks
    # A number from 0 to 1 that is the same for the same request.
    draw = (request.rid * 0.6180339887) % 1.0
    if draw < design.first_share:
        return 0
    return 1 + request.rid % (design.ranks - 1) if design.ranks > 1 else 0


def _asked(request: Request, knob: str) -> Request:
    """With the reservation halved, a client asks for no more than twice what it gets."""
    return replace(request, max_new=min(request.max_new, 2 * request.output)) if knob == "reservation" else request


def _slower(cost: Cost | StepCost, factor: float) -> Cost | StepCost:
    if isinstance(cost, Cost):
        return replace(cost, decode=cost.decode * factor, decode_request=cost.decode_request * factor)
    return replace(cost, base=cost.base * factor, request=cost.request * factor)


def _model(design: Design, requests: Sequence[Request], knob: str) -> AnyModel:
    server, cost = design.server, design.cost
    pool, cap, budget = (2 if knob == k else 1 for k in ("pool", "cap", "prefill"))
    if isinstance(server, SGLangServer):
        assert isinstance(cost, Cost)
        if knob == "prefill":
            cost = replace(cost, prefill_token=cost.prefill_token / 2)
        if knob == "decode":
            cost = replace(cost, decode=cost.decode / 2, decode_request=cost.decode_request / 2, context_token=cost.context_token / 2)
        return SGLangModel(
            SGLangConfig(
                capacity=server.capacity * pool,
                max_running_requests=server.running_limit * cap,
                conservativeness=server.conservativeness / (2 if knob == "reservation" else 1),
                chunked_prefill_size=server.chunked_prefill_size * budget,
                max_prefill_tokens=server.max_prefill_tokens * budget,
                context_len=server.context_len,
                host_tokens=server.host_tokens,
                cost=cost,
                old_retract=server.version.startswith("0.4."),
            ),
            requests,
        )
    assert isinstance(cost, StepCost)
    if knob == "prefill":
        cost = replace(cost, token=cost.token / 2)
    if knob == "decode":
        cost = replace(cost, base=cost.base / 2, request=cost.request / 2, context_token=cost.context_token / 2)
    v0, freed = server.format.v0, knob == "reservation"
    return VLLMModel(
        VLLMConfig(
            blocks=server.blocks * pool,
            max_num_seqs=server.max_num_seqs * cap,
            max_num_batched_tokens=server.max_num_batched_tokens * budget,
            block_size=server.block_size,
            reserve_full_isl=design.whole_prompt and not freed and server.version in ("0.19.1", "0.32", "0.33"),
            count_cached_prompt=server.version == "0.11.2",
            v0=v0,
            watermark=0.0 if freed else design.watermark,
            stats_interval=5.0 if v0 else 10.0,
            cost=cost,
        ),
        requests,
    )


# -- what is true of it


def seqs(models: Sequence[AnyModel]) -> list[AnySeq]:
    """All requests, in the order of their ids."""
    return sorted((s for m in models for s in m.seqs), key=lambda s: s.req.rid)


def percentile(values: Sequence[float], share: float) -> float:
    """The value at int(share x n) of the sorted list; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def p99_ttft(models: Sequence[AnyModel], before: float | None = None) -> float:
    """P99 TTFT in seconds, of the requests that came before `before`. One without a token waited to the end."""
    end = max(m.t for m in models)
    found = [s for s in seqs(models) if before is None or s.req.arrival < before]
    return percentile([(end if s.first_token is None else s.first_token) - s.req.arrival for s in found], 0.99)


def token_s(models: Sequence[AnyModel], start: float, end: float) -> float:
    """The median over requests of seconds per output token after the first, of those that came in a time range."""
    found = [s for s in seqs(models) if start <= s.req.arrival < end and s.finish is not None and s.first_token is not None and s.out > 1]
    return percentile([((s.finish or 0.0) - (s.first_token or 0.0)) / (s.out - 1) for s in found], 0.5)


def _waiting(models: Sequence[AnyModel]) -> dict[str, float]:
    """The most requests that waited on a rank, and the mean usage of the pool while any did."""
    seen: list[tuple[int, float]] = []
    for model in models:
        if isinstance(model, SGLangModel):
            seen += [(r.queue, r.usage) for r in model.reports if not isinstance(r, RetractReport)]
        else:
            seen += [(s.waiting, s.used / model.cfg.blocks) for s in model.steps]
    usages = [usage for waiting, usage in seen if waiting]
    found = {"waiting": float(max(waiting for waiting, _ in seen))}
    return {**found, "usage_waiting": sum(usages) / len(usages)} if usages else found


def figures(design: Design, seed: int) -> dict[str, float]:
    """What `because` is made of: P99 TTFT in seconds as it is and in the quiet stretch, and what share of the excess each knob removes.

    With decode_bound also seconds per token, before and in the trouble, as it is and with twice the decode speed.
    """
    models, quiet = run(design, seed), design.phases[0].seconds
    found = {"p99_s": p99_ttft(models), "quiet_p99_s": p99_ttft(models, quiet), **_waiting(models)}
    if design.cause == "decode_bound":
        end = sum(p.seconds for p in design.phases[:2])
        found["token_s"] = token_s(models, quiet, end)
        found["quiet_token_s"] = token_s(models, 0.0, quiet)
        found["fast_token_s"] = token_s(run(design, seed, "decode"), quiet, end)
    elif design.cause != "none":
        excess = found["p99_s"] - found["quiet_p99_s"]
        for knob in KNOBS[:5] if design.ranks > 1 else KNOBS[:4]:
            changed = run(design, seed, knob)
            found[knob] = 1 - (p99_ttft(changed) - p99_ttft(changed, quiet)) / excess
    return {name: round(value, 3) for name, value in found.items()}
