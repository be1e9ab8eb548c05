"""SGLang's scheduler in virtual time: admission by budget, latch, chunks, retraction, ratio.

Rules as in 0.5.23, synchronous loop, fcfs, no mixed chunk; `old_retract` switches to the stop rule
of 0.5.1 and before. The model yields records of what the engine would have reported.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sample_traces.generator.pool import Key, Pool
from sample_traces.generator.workload import Request

CLIP_NEW_TOKENS = 4096  # SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION
RETRACT_DECODE_STEPS = 20
MIN_RATIO_FACTOR = 0.14
RATIO_DECAY_STEPS = 600


@dataclass(frozen=True, slots=True)
class Cost:
    """Virtual seconds per step."""

    prefill: float = 0.02
    prefill_token: float = 0.0001
    prefill_request: float = 0.0
    decode: float = 0.03
    decode_request: float = 0.0002
    context_token: float = 0.0  # per KV token read in a decode step


@dataclass(frozen=True, slots=True)
class SGLangConfig:
    """The settings that enter the scheduler's formulas."""

    capacity: int
    max_running_requests: int
    conservativeness: float = 1.0
    chunked_prefill_size: int = 8192
    max_prefill_tokens: int = 16384
    page_size: int = 1
    context_len: int = 32768
    decode_log_interval: int = 40
    host_tokens: int = 0
    old_retract: bool = False
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True, slots=True)
class PoolState:
    """The pool's three states and the host tier, in tokens."""

    used: int = 0
    evictable: int = 0
    available: int = 0
    host_used: int = 0


@dataclass(frozen=True, slots=True)
class PrefillReport:
    """One prefill batch. `sched_t` and `usage_before` are for versions that print when scheduling."""

    t: float
    sched_t: float
    new_seqs: int
    new_tokens: int
    cached_tokens: int
    usage: float
    usage_before: float
    running: int
    queue: int
    pending_tokens: int
    throughput: float
    throughput_previous: float  # the previous batch's tokens over this interval (0.5.9)
    pool: PoolState = PoolState()
    pool_before: PoolState = PoolState()
    ratio: float = 0.0
    queued: tuple[int, ...] = ()  # who waits


@dataclass(frozen=True, slots=True)
class DecodeReport:
    """Every 40th decode step."""

    t: float
    running: int
    tokens: int
    usage: float
    throughput: float
    queue: int
    pool: PoolState = PoolState()
    queued: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RetractReport:
    """One retraction event."""

    t: float
    requests: int
    tokens_gained: int
    ratio_before: float
    ratio_after: float
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did, for metrics that move with every step. `evicted`, `loaded` and `stored` are totals so far."""

    started: float
    t: float
    prefill_tokens: int
    cached_tokens: int
    decode_tokens: int
    pool: PoolState  # when the step was over
    evicted: int
    loaded: int  # from the host tier to the device
    stored: int  # from the device to the host tier
    gaps: Mapping[float, int]  # inter-token latencies and how many tokens had each


Report = PrefillReport | DecodeReport | RetractReport


@dataclass(slots=True, eq=False)
class Seq:
    """A request inside the engine."""

    req: Request
    max_new: int
    out: int = 0
    done_tokens: int = 0  # tokens of prompt and output that have KV
    held: int = 0  # pool units it owns alone
    prefix_locked: bool = False
    prefix_hit: int = 0  # units of the shared prefix that were there at admission
    retractions: int = 0
    admitted: float | None = None  # the first time
    cached_device: int = 0  # prompt tokens found in a cache then
    cached_host: int = 0
    first_token: float | None = None
    last_token: float | None = None
    finish: float | None = None

    @property
    def length(self) -> int:
        """Prompt and output so far."""
        return self.req.prompt + self.out


@dataclass(slots=True)
class _Budget:
    """PrefillAdder's running sums in one admission pass."""

    total: float  # reserved for running requests and for those just admitted
    current: int  # of that, what this pass computes
    input: int  # left of max_prefill_tokens
    chunk: int  # left of chunked_prefill_size


class SGLangModel:
    """One scheduler (one data-parallel rank)."""

    def __init__(self, cfg: SGLangConfig, requests: Iterable[Request], start: float = 0.0) -> None:
        self.cfg = cfg
        self.pool = Pool(cfg.capacity // cfg.page_size * cfg.page_size, cfg.host_tokens)
        self.ratio_init = min(0.7 * cfg.conservativeness, 1.0)
        self.ratio_min = min(self.ratio_init * MIN_RATIO_FACTOR, 1.0)
        self.ratio_decay = (self.ratio_init - self.ratio_min) / RATIO_DECAY_STEPS
        self.ratio = self.ratio_init
        self.t = start
        self.arriving = deque(sorted(requests, key=lambda r: (r.arrival, r.rid)))
        self.waiting: list[Seq] = []
        self.running: list[Seq] = []
        self.chunked: Seq | None = None
        self.batch_is_full = False
        self.reports: list[Report] = []
        self.seqs: list[Seq] = []
        self.decode_steps = 0
        self.recomputed_tokens = 0
        self.loaded_tokens = 0
        self.steps: list[Step] = []
        self._generated = 0
        self._last_decode_line = start
        self._last_prefill_line = start
        self._last_prefill_tokens = 0

    # -- the loop ---------------------------------------------------------------------------

    def run(self, until: float | None = None) -> None:
        """Run until nothing is left to do, or until the first step that would begin at `until`."""
        while True:
            self._ingest()
            if until is not None and self.t >= until:
                return
            if self._prefill() or self._decode():
                continue
            self.ratio = self.ratio_init  # idle
            if not self.arriving:
                return
            self.t = max(self.t, self.arriving[0].arrival)

    def _ingest(self) -> None:
        while self.arriving and self.arriving[0].arrival <= self.t:
            req = self.arriving.popleft()
            page = self.cfg.page_size
            room = min(self.cfg.context_len - 1, self.cfg.capacity - 1) - req.prompt - 1
            room = min(room, self.cfg.capacity - self._pages(req.prompt) - page - 1)
            seq = Seq(req, max(0, min(req.max_new, room)))
            self.seqs.append(seq)
            self.waiting.append(seq)

    def _pages(self, n: int) -> int:
        return -(-n // self.cfg.page_size) * self.cfg.page_size

    @property
    def usage(self) -> float:
        """`token usage`: evictable text is not used."""
        return self.pool.used / self.pool.capacity

    # -- prefill ----------------------------------------------------------------------------

    def _prefill(self) -> bool:
        """Form and run a prefill batch, if there is one to form."""
        if not self.running:
            self.batch_is_full = False
        if self.chunked is None:
            if self.batch_is_full or not self.waiting:
                return False
            if len(self.running) >= self.cfg.max_running_requests:
                self.batch_is_full = True
                return False
        usage_before, pool_before = self.usage, self._pool_state()
        reserved = sum(min(s.max_new - s.out, CLIP_NEW_TOKENS) for s in self.running) * self.ratio
        budget = _Budget(reserved, 0, self.cfg.max_prefill_tokens, self.cfg.chunked_prefill_size)
        batch: list[tuple[Seq, int]] = []  # with the tokens to compute now
        if self.chunked is not None:
            batch.append(self._continue_chunk(self.chunked, budget))
        cached = self._admit_waiting(batch, budget)
        if not batch:
            return False
        self._run_prefill(batch, cached, usage_before, pool_before)
        return True

    def _continue_chunk(self, seq: Seq, budget: _Budget) -> tuple[Seq, int]:
        todo, left = seq.length - seq.done_tokens, self.pool.free - budget.total
        now = min(todo, budget.chunk if left <= 0 else min(budget.chunk, int(left)))
        self._charge(seq, now, todo, budget)
        return seq, now

    def _admit_waiting(self, batch: list[tuple[Seq, int]], budget: _Budget) -> int:
        """Walk the queue up to the first request that does not fit; returns the tokens found cached."""
        pool, page, cached = self.pool, self.cfg.page_size, 0
        while self.waiting and self.chunked is None and budget.chunk > 0 and budget.input > 0:
            if len(self.running) + len(batch) >= self.cfg.max_running_requests:
                self.batch_is_full = True
                break
            seq = self.waiting[0]
            if seq.req.prefix_id is not None:
                pool.lock(("p", seq.req.prefix_id))  # held during the test
            device, host = self._match(seq)
            need = seq.length - device + min(max(seq.max_new - seq.out, 0), CLIP_NEW_TOKENS) + page
            if need >= pool.free - budget.total - self._own_hit(seq):
                if seq.req.prefix_id is not None:
                    pool.unlock(("p", seq.req.prefix_id))
                self.batch_is_full = bool(batch or self.running)
                break
            self.waiting.pop(0)
            hit = self._take_prefix(seq, device, host)
            cached += hit
            todo = seq.length - hit
            now = todo if todo <= budget.chunk else budget.chunk // page * page
            batch.append((seq, now))
            if seq.retractions:
                self.recomputed_tokens += todo
            self._charge(seq, now, todo, budget)
            if pool.free - budget.total <= 0 or pool.free - budget.current <= 0:
                self.batch_is_full = True
                break
        return cached

    def _charge(self, seq: Seq, now: int, todo: int, budget: _Budget) -> None:
        """Reserve what was admitted. Only a last chunk reserves the output."""
        units, page = self._pages(now), self.cfg.page_size
        self.chunked = seq if now < todo else None
        budget.total += units + page + (0 if self.chunked else min(seq.max_new, CLIP_NEW_TOKENS))
        budget.current += units + page
        budget.input -= units
        budget.chunk -= units

    def _match(self, seq: Seq) -> tuple[int, int]:
        """Tokens of the sequence cached on the device, and further ones on the host."""
        req, page = seq.req, self.cfg.page_size
        most = (seq.length - 1) // page * page  # the last token is always computed
        device = host = 0
        if req.prefix_id is not None:
            key: Key = ("p", req.prefix_id)
            device = min(self.pool.size(key), req.prefix_len)
            host = max(0, min(self.pool.host_size(key), req.prefix_len) - device)
        if device == req.prefix_len // page * page:
            device += self.pool.size(("r", req.rid))
        return min(device, most), min(host, max(0, most - device))

    def _own_hit(self, seq: Seq) -> int:
        # The candidate's own matched text is locked during the test, so no longer evictable.
        key: Key = ("r", seq.req.rid)
        return self.pool.size(key) if self.pool.is_idle(key) else 0

    def _take_prefix(self, seq: Seq, device: int, host: int) -> int:
        pool, req, loaded = self.pool, seq.req, 0
        seq.held = 0
        if req.prefix_id is not None:
            key: Key = ("p", req.prefix_id)
            seq.prefix_locked = True  # locked by the caller
            pool.hit(key)
            if host and pool.alloc(host):
                pool.grow_locked(key, pool.size(key) + host, host)
                device += host
                self.loaded_tokens += host
                loaded = host
            seq.prefix_hit = min(device, req.prefix_len // self.cfg.page_size * self.cfg.page_size)
        if device > seq.prefix_hit:
            seq.held = pool.take_idle(("r", req.rid))
        seq.done_tokens = device
        if seq.admitted is None:
            seq.admitted, seq.cached_device, seq.cached_host = self.t, device - loaded, loaded
        return device

    def _run_prefill(self, batch: list[tuple[Seq, int]], cached: int, usage_before: float, pool_before: PoolState) -> None:
        pool, cost, sched_t, running = self.pool, self.cfg.cost, self.t, len(self.running)
        tokens = sum(n for _, n in batch)
        for seq, n in batch:
            units = self._pages(seq.done_tokens + n) - self._pages(seq.done_tokens)
            if not pool.alloc(units):
                raise RuntimeError(f"prefill out of memory: {units} units, {pool.free} free")
            seq.held += units
            seq.done_tokens += n
        used_after, pool_after = self.usage, self._pool_state()
        self.t += cost.prefill + cost.prefill_token * tokens + cost.prefill_request * len(batch)
        pending = sum(s.length - self._match(s)[0] for s in self.waiting)
        pending += self.chunked.length - self.chunked.done_tokens if self.chunked else 0
        gap = max(self.t - self._last_prefill_line, 1e-6)
        self.reports.append(
            PrefillReport(
                self.t,
                sched_t,
                len(batch),
                tokens,
                cached,
                used_after,
                usage_before,
                running,
                len(self.waiting),
                pending,
                tokens / gap,
                self._last_prefill_tokens / gap,
                pool_after,
                pool_before,
                self.ratio,
                tuple(s.req.rid for s in self.waiting),
            )
        )
        self._last_prefill_line, self._last_prefill_tokens = self.t, tokens
        left = False
        gaps: Counter[float] = Counter()
        for seq, _ in batch:
            if seq is self.chunked:
                continue
            self._share_prefix(seq)
            self._emit(seq, gaps)
            if seq.first_token is None:
                seq.first_token = self.t
            if seq.out >= min(seq.req.output, seq.max_new):
                self._finish(seq)
                left = True
            else:
                self.running.append(seq)
        # A batch that joins an empty running batch replaces it, and the latch goes with the old one.
        if left or not running:
            self.batch_is_full = False
        self._note_step(sched_t, gaps, prefill=tokens, cached=cached)

    def _emit(self, seq: Seq, gaps: Counter[float]) -> None:
        """One token goes out."""
        seq.out += 1
        if seq.last_token is not None:
            gaps[round(self.t - seq.last_token, 6)] += 1
        seq.last_token = self.t

    def _pool_state(self) -> PoolState:
        return PoolState(self.pool.used, self.pool.evictable, self.pool.available, self.pool.host_used)

    def _note_step(self, started: float, gaps: Counter[float], *, prefill: int = 0, cached: int = 0, decode: int = 0) -> None:
        pool = self.pool
        self.steps.append(
            Step(started, self.t, prefill, cached, decode, self._pool_state(), pool.evicted, self.loaded_tokens, pool.stored, gaps)
        )

    def _share_prefix(self, seq: Seq) -> None:
        """After its prefill a request's prefix is in the tree for the others."""
        if seq.req.prefix_id is None:
            return
        target = seq.req.prefix_len // self.cfg.page_size * self.cfg.page_size
        given = target - seq.prefix_hit
        self.pool.grow_locked(("p", seq.req.prefix_id), target, given)
        seq.held -= given

    # -- decode -----------------------------------------------------------------------------

    def _decode(self) -> bool:
        if not self.running:
            return False
        page, pool, cost = self.cfg.page_size, self.pool, self.cfg.cost
        if not self._fits():
            self._retract()
        else:
            self.ratio = max(self.ratio - self.ratio_decay, self.ratio_min)
        batch = self.running
        if not batch:
            return True
        for seq in batch:
            if seq.done_tokens % page == 0:
                if not pool.alloc(page):
                    raise RuntimeError("decode out of memory")
                seq.held += page
            seq.done_tokens += 1
        started = self.t
        self.t += cost.decode + cost.decode_request * len(batch) + cost.context_token * pool.used
        running, tokens, usage, state = len(batch), pool.used, self.usage, self._pool_state()
        self._generated += running
        stay = []
        gaps: Counter[float] = Counter()
        for seq in batch:
            self._emit(seq, gaps)
            if seq.out >= min(seq.req.output, seq.max_new):
                self._finish(seq)
            else:
                stay.append(seq)
        if len(stay) < len(batch):
            self.batch_is_full = False
        self.running = stay
        self.decode_steps += 1
        if self.decode_steps % self.cfg.decode_log_interval == 0:
            gap = max(self.t - self._last_decode_line, 1e-6)
            queued = tuple(s.req.rid for s in self.waiting)
            self.reports.append(DecodeReport(self.t, running, tokens, usage, self._generated / gap, len(self.waiting), state, queued))
            self._last_decode_line, self._generated = self.t, 0
        self._note_step(started, gaps, decode=running)
        return True

    def _fits(self) -> bool:
        """Whether the next decode step's pages can be had, evicting if needed."""
        page = self.cfg.page_size
        need = page * sum(s.done_tokens % page == 0 for s in self.running)
        self.pool.evict(need - self.pool.available)
        return need <= self.pool.available

    def _retract(self) -> None:
        pool, before = self.pool, self.ratio
        available = pool.available
        order = sorted(self.running, key=lambda s: (s.out, -s.req.prompt), reverse=True)
        victims: list[Seq] = []
        while len(order) > 1:
            if victims and self._enough(order):
                break
            seq = order.pop()
            victims.append(seq)
            page = self.cfg.page_size
            keep = min(seq.held, max(0, (seq.req.prompt - self._prefix_units(seq)) // page * page))
            pool.store(("r", seq.req.rid), seq.held, keep)
            if seq.prefix_locked and seq.req.prefix_id is not None:
                pool.unlock(("p", seq.req.prefix_id))
            seq.held, seq.prefix_locked, seq.done_tokens = 0, False, 0
            seq.retractions += 1
            self.running = order
            pool.evict(len(order) * RETRACT_DECODE_STEPS - pool.available)
        self.waiting.extend(victims)
        self.batch_is_full = False
        made = sum(s.out for s in order) + RETRACT_DECODE_STEPS * len(order)
        self.ratio = min(1.0, made / (sum(s.max_new for s in order) + 1))
        gained = pool.available - available
        prompts, outputs = sum(s.req.prompt for s in victims), sum(s.out for s in victims)
        self.reports.append(RetractReport(self.t, len(victims), gained, before, self.ratio, prompts, outputs))

    def _enough(self, order: list[Seq]) -> bool:
        if self.cfg.old_retract:
            return self.pool.available >= len(order) * RETRACT_DECODE_STEPS
        return self._fits()

    def _prefix_units(self, seq: Seq) -> int:
        if seq.req.prefix_id is None or not seq.prefix_locked:
            return 0
        return self.pool.size(("p", seq.req.prefix_id))

    def _finish(self, seq: Seq) -> None:
        page = self.cfg.page_size
        keep = min(seq.held, max(0, (seq.done_tokens - self._prefix_units(seq)) // page * page))
        self.pool.store(("r", seq.req.rid), seq.held, keep)
        if seq.prefix_locked and seq.req.prefix_id is not None:
            self.pool.unlock(("p", seq.req.prefix_id))
        seq.held, seq.prefix_locked = 0, False
        seq.finish = self.t
