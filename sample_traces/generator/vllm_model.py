"""vLLM's schedulers in virtual time: V1 (0.11.2, 0.33) and V0 (0.6.6), recompute only.

The unit is a block. V1 serves running requests first, then admits while token budget, sequence cap
and blocks last; V0 schedules either prefills or decodes in one step and keeps a watermark.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sample_traces.generator.pool import Pool
from sample_traces.generator.workload import Request

HIT_RATE_REQUESTS = 1000  # the hit rate on the stats line covers about this many requests


@dataclass(frozen=True, slots=True)
class StepCost:
    """Virtual seconds per step: base + token x tokens + request x running + context x tokens held."""

    base: float = 0.02
    token: float = 0.0001
    request: float = 0.0002
    context_token: float = 0.0


@dataclass(frozen=True, slots=True)
class VLLMConfig:
    """The settings that enter the schedulers' formulas. `blocks` are usable ones (no null block)."""

    blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int = 2048
    block_size: int = 16
    reserve_full_isl: bool = False  # 0.19.1 and later: the whole sequence must fit at admission
    count_cached_prompt: bool = True  # up to 0.11.2 prompt throughput counts cached tokens too
    v0: bool = False
    watermark: float = 0.0  # V0: 0.01
    stats_interval: float = 10.0
    cost: StepCost = field(default_factory=StepCost)


@dataclass(frozen=True, slots=True)
class StatsReport:
    """One periodic stats line."""

    t: float
    prompt_tps: float
    generation_tps: float
    running: int
    waiting: int
    usage: float
    hit_rate: float


@dataclass(frozen=True, slots=True)
class PreemptReport:
    """One preemption; `number` counts from 1. V1 prints nothing about it, V0 every 50th."""

    t: float
    rid: int
    number: int


@dataclass(frozen=True, slots=True)
class Step:
    """The state a step left behind and what it added, for the metrics."""

    t: float
    running: int
    waiting: int
    used: int  # blocks
    prompt_tokens: int  # of requests that got their first token
    generated_tokens: int
    queried_tokens: int  # looked up in the prefix cache at a first admission
    hit_tokens: int
    preemptions: int  # told now: with the victim's next token
    gaps: Mapping[float, int]  # inter-token latencies and how many tokens had each


@dataclass(slots=True, eq=False)
class Seq:
    """A request inside the engine."""

    req: Request
    out: int = 0
    computed: int = 0
    held: int = 0  # blocks it owns alone
    prefix_locked: bool = False
    prefix_hit: int = 0
    shared: bool = False
    preemptions: int = 0
    preemptions_untold: int = 0
    admitted: float | None = None  # the first time
    first_token: float | None = None
    last_token: float | None = None
    finish: float | None = None

    @property
    def length(self) -> int:
        """Prompt and output so far."""
        return self.req.prompt + self.out


class VLLMModel:
    """One engine core."""

    def __init__(self, cfg: VLLMConfig, requests: Iterable[Request], start: float = 0.0) -> None:
        self.cfg = cfg
        self.pool = Pool(cfg.blocks)
        self.watermark_blocks = int(cfg.watermark * cfg.blocks)
        self.t = start
        self.arriving = deque(sorted(requests, key=lambda r: (r.arrival, r.rid)))
        self.waiting: deque[Seq] = deque()
        self.running: list[Seq] = []
        self.seqs: list[Seq] = []
        self.stats: list[StatsReport] = []
        self.preemptions: list[PreemptReport] = []
        self.steps: list[Step] = []
        self.peak_running = self.peak_waiting = 0
        self.peak_usage = 0.0
        self._lookups: deque[tuple[int, int]] = deque(maxlen=HIT_RATE_REQUESTS)
        self._next_stats = start + cfg.stats_interval
        self._last_stats = start
        self._prompt = self._generated = 0
        self._queried = self._hit = 0
        self._was_active = False

    def run(self, until: float | None = None, watched_s: float = 0.0) -> None:
        """Run until nothing is left to do, or until the first step that would begin at `until`.

        From there on V1's timer goes on for `watched_s` seconds, as it does when only the engine hangs.
        """
        while True:
            self._ingest()
            if until is not None and self.t >= until:
                break
            if self.running or self.waiting:
                self._step()
            elif self.arriving:
                self._tick(self.arriving[0].arrival)
                self.t = max(self.t, self.arriving[0].arrival)
            else:
                break
        if until is None and not self.cfg.v0:
            self._tick(self.t + 2 * self.cfg.stats_interval)
        elif watched_s:
            self._tick(self.t + watched_s)

    def _ingest(self) -> None:
        while self.arriving and self.arriving[0].arrival <= self.t:
            seq = Seq(self.arriving.popleft())
            self.seqs.append(seq)
            self.waiting.append(seq)

    # -- one step ---------------------------------------------------------------------------

    def _step(self) -> None:
        scheduled = self._schedule_v0() if self.cfg.v0 else self._schedule_v1()
        if not scheduled:
            raise RuntimeError("nothing schedulable")
        cost = self.cfg.cost
        tokens = sum(n for _, n in scheduled)
        context = self.pool.used * self.cfg.block_size
        self.peak_running = max(self.peak_running, len(self.running))
        self.peak_waiting = max(self.peak_waiting, len(self.waiting))
        self.peak_usage = max(self.peak_usage, self.pool.used / self.cfg.blocks)
        end = self.t + cost.base + cost.token * tokens + cost.request * len(self.running)
        end += cost.context_token * context
        if not self.cfg.v0:
            self._tick(end)
        self.t = end
        prompt = generated = preempted = 0
        gaps: Counter[float] = Counter()
        for seq, n in scheduled:
            seq.computed += n
            if seq.computed < seq.length:
                continue
            self._share_prefix(seq)
            if seq.first_token is None:
                seq.first_token = end
                cached = seq.prefix_hit * self.cfg.block_size
                self._prompt += seq.req.prompt - (0 if self.cfg.count_cached_prompt else cached)
                prompt += seq.req.prompt
            if seq.last_token is not None:
                gaps[round(end - seq.last_token, 6)] += 1
            seq.last_token = end
            preempted += seq.preemptions_untold
            seq.preemptions_untold = 0
            seq.out += 1
            generated += 1
            self._generated += 1
            if seq.out >= min(seq.req.output, seq.req.max_new):
                self._finish(seq)
        state = len(self.running), len(self.waiting), self.pool.used
        self.steps.append(Step(end, *state, prompt, generated, self._queried, self._hit, preempted, gaps))
        self._queried = self._hit = 0
        if self.cfg.v0 and self.t - self._last_stats >= self.cfg.stats_interval:
            self._report(self.t)

    def _schedule_v1(self) -> list[tuple[Seq, int]]:
        cfg, budget, scheduled, preempted = self.cfg, self.cfg.max_num_batched_tokens, [], False
        index = 0
        while index < len(self.running) and budget > 0:
            seq = self.running[index]
            n = min(seq.length - seq.computed, budget)
            while not self._extend(seq, seq.computed + n):
                preempted = True
                victim = self.running.pop()
                self._preempt(victim)
                if victim is seq:
                    break
            else:
                scheduled.append((seq, n))
                budget -= n
            index += 1
        while self.waiting and not preempted and budget > 0 and len(self.running) < cfg.max_num_seqs:
            seq = self.waiting[0]
            prefix, own = self._match(seq)
            hit = (prefix + own) * cfg.block_size
            n = min(seq.length - hit, budget)
            want = seq.length if cfg.reserve_full_isl else hit + n
            if not self._admit(seq, prefix, own, want, hit + n):
                break
            self.waiting.popleft()
            self.running.append(seq)
            scheduled.append((seq, n))
            budget -= n
        return scheduled

    def _schedule_v0(self) -> list[tuple[Seq, int]]:
        cfg, budget = self.cfg, self.cfg.max_num_batched_tokens
        scheduled: list[tuple[Seq, int]] = []
        while self.waiting and len(self.running) < cfg.max_num_seqs:
            seq = self.waiting[0]
            if scheduled and seq.length > budget:
                break
            if self._blocks(seq.length) > self.pool.free - self.watermark_blocks:
                break
            self._admit(seq, 0, 0, seq.length, seq.length)
            self.waiting.popleft()
            self.running.append(seq)
            scheduled.append((seq, seq.length))
            budget -= seq.length
        if scheduled:
            return scheduled
        index = 0
        while index < len(self.running):
            seq = self.running[index]
            while not self._extend(seq, seq.length):
                victim = self.running.pop()
                self._preempt(victim)
                if victim is seq:
                    break
            else:
                scheduled.append((seq, 1))
            index += 1
        return scheduled

    # -- blocks -----------------------------------------------------------------------------

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.cfg.block_size)

    def _match(self, seq: Seq) -> tuple[int, int]:
        """Cached blocks of the shared prefix, and of the request's own text."""
        req, most = seq.req, (seq.length - 1) // self.cfg.block_size
        full = req.prefix_len // self.cfg.block_size
        prefix = min(self.pool.size(("p", req.prefix_id)), full) if req.prefix_id is not None else 0
        own = self.pool.size(("r", req.rid)) if prefix == full else 0
        return min(prefix, most), min(own, max(0, most - prefix))

    def _admit(self, seq: Seq, prefix: int, own: int, want: int, now: int) -> bool:
        """Allocate for `now` tokens if `want` tokens would fit."""
        pool, req = self.pool, seq.req
        need = self._blocks(want) - prefix - own
        idle = own + (prefix if req.prefix_id is not None and pool.is_idle(("p", req.prefix_id)) else 0)
        if need + idle > pool.free:
            return False
        if seq.preemptions == 0:
            hit = (prefix + own) * self.cfg.block_size
            self._lookups.append((seq.length, hit))
            self._queried += seq.length
            self._hit += hit
        if seq.admitted is None:
            seq.admitted = self.t
        if req.prefix_id is not None:
            pool.lock(("p", req.prefix_id))
            seq.prefix_locked = True
        seq.prefix_hit, seq.shared = prefix, False
        seq.held = own
        if own:
            pool.take_idle(("r", req.rid), own)
        take = self._blocks(now) - prefix - own
        pool.alloc(take)
        seq.held += take
        seq.computed = (prefix + own) * self.cfg.block_size
        return True

    def _extend(self, seq: Seq, tokens: int) -> bool:
        need = self._blocks(tokens) - seq.held - self._prefix_blocks(seq)
        if need > 0:
            if not self.pool.alloc(need):
                return False
            seq.held += need
        return True

    def _prefix_blocks(self, seq: Seq) -> int:
        if not seq.prefix_locked:
            return 0
        return seq.req.prefix_len // self.cfg.block_size if seq.shared else seq.prefix_hit

    def _share_prefix(self, seq: Seq) -> None:
        if seq.req.prefix_id is None or seq.shared or not seq.prefix_locked:
            return
        target = seq.req.prefix_len // self.cfg.block_size
        given = target - seq.prefix_hit
        self.pool.grow_locked(("p", seq.req.prefix_id), target, given)
        seq.held -= given
        seq.shared = True

    def _free(self, seq: Seq) -> None:
        full = seq.computed // self.cfg.block_size - self._prefix_blocks(seq)
        keep = 0 if self.cfg.v0 else min(seq.held, max(0, full))
        self.pool.store(("r", seq.req.rid), seq.held, keep)
        if seq.prefix_locked and seq.req.prefix_id is not None:
            self.pool.unlock(("p", seq.req.prefix_id))
        seq.held, seq.prefix_locked, seq.shared = 0, False, False

    def _preempt(self, seq: Seq) -> None:
        self._free(seq)
        seq.computed = 0
        seq.preemptions += 1
        seq.preemptions_untold += 1
        self.preemptions.append(PreemptReport(self.t, seq.req.rid, len(self.preemptions) + 1))
        self.waiting.appendleft(seq)

    def _finish(self, seq: Seq) -> None:
        self._free(seq)
        seq.finish = self.t
        self.running.remove(seq)

    # -- stats ------------------------------------------------------------------------------

    def _tick(self, end: float) -> None:
        """V1: a timer prints what the last finished step left behind."""
        while self._next_stats <= end:
            self._report(self._next_stats)
            self._next_stats += self.cfg.stats_interval

    def _report(self, t: float) -> None:
        gap = t - self._last_stats
        active = bool(self._prompt or self._generated)
        if active or self._was_active:  # one all-zero line, then silence
            asked = sum(n for n, _ in self._lookups)
            hits = sum(hit for _, hit in self._lookups)
            self.stats.append(
                StatsReport(
                    t,
                    self._prompt / gap,
                    self._generated / gap,
                    len(self.running),
                    len(self.waiting),
                    self.pool.used / self.cfg.blocks,
                    hits / asked if asked else 0.0,
                )
            )
        self._was_active = active
        self._last_stats = t
        self._prompt = self._generated = 0
