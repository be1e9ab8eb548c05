"""A small serving engine in virtual time, for the incidents that no engine's own scheduler was run for.

One step is one forward pass. `prefill_first` gives SGLang's order (a batch of prompts or a batch of decodes, a reservation, and
retraction), else vLLM's (decodes and prompts in one step, and preemption). KV is counted in tokens. What differs between the
incidents is a setting, so that a case can be run again with one setting changed, which is how its label is known.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

DECODE_LOG_STEPS = 40
CLIP = 4096  # an admission test counts no more than this of what a request may still generate


@dataclass(slots=True, eq=False)
class Request:
    """One request and what became of it. Times in seconds; None: it did not happen."""

    number: int
    at: float  # the client sent it
    prompt: int
    output: int  # what it will generate
    limit: int  # what it asked for at most
    cached: int = 0  # prompt tokens that others hold in the pool already: no room, no work
    remote: int = 0  # prompt tokens to be loaded from a lower tier or another server
    adapter: int | None = None
    front_s: float = 0.0  # before the scheduler gets it
    grammar_s: float = 0.0  # before the scheduler may look at it
    entered: float | None = None
    admitted: float | None = None
    first: float | None = None
    done: float | None = None
    out: int = 0
    computed: int = 0
    held: int = 0
    thrown: int = 0
    last: float = 0.0
    loads: tuple[float, float, float] | None = None  # asked, begun, done
    error: str | None = None

    @property
    def length(self) -> int:
        """Prompt and output so far."""
        return self.prompt + self.out

    @property
    def to_come(self) -> int:
        """What the admission test counts for the rest of the output."""
        return min(max(self.limit - self.out, 0), CLIP)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the engine has and how fast it is. Tokens, seconds, tokens per second."""

    pool: int
    cap: int
    prefill_first: bool = False
    chunk: int = 2048  # prompt tokens of one step
    page: int = 16
    ratio: float = 0.0  # what is reserved of what running requests may still generate, at first
    base_s: float = 0.03
    token_s: float = 0.0001
    row_s: float = 0.0002
    context_s: float = 0.0  # for each token of context that a decode step reads
    watermark: float = 0.0
    whole_prompt: bool = True  # an admission needs room for the whole prompt at once
    # how KV is loaded: "" not at all; "queue" before admission; "hold" after it, with its room taken; "step" in the step
    load: str = ""
    load_rate: float = math.inf
    slow: tuple[float, float, float] | None = None  # from, until, how many times slower loads and sends are
    send_rate: float = math.inf  # prefill side: KV leaves through the network and holds its room until then
    remote_only: bool = False  # decode side: nothing is computed here before the first token
    adapters: int | None = None  # LoRA slots
    lost_rows: int = 0  # rows of the batch that nobody can use any more
    states: int | None = None  # state slots of a hybrid model
    states_each: int = 1
    window: int | None = None  # sliding window: tokens held at most by a request in that pool
    window_pool: int | None = None
    stuck: tuple[float, float] | None = None  # no step begins in this time
    admits_none: tuple[float, float] | None = None  # the scheduler runs and takes requests in, but schedules none of them
    crash_at: float | None = None
    sessions: int = 0  # tokens that open sessions hold all the time
    aborts_alone: bool = False  # the last running request is aborted when it does not fit alone


@dataclass(slots=True)
class Report:
    """What a log line could tell: `kind` is prefill, decode or retract."""

    kind: str
    t: float
    values: dict[str, Any]


@dataclass(slots=True)
class Sample:
    """What an endpoint could tell at a time: `state` holds levels and totals, `seen` counts of observed values."""

    t: float
    state: dict[str, float]
    seen: dict[str, list[float]]


@dataclass(slots=True)
class _Channel:
    """One way for KV: a load begins when the one before it is done."""

    rate: float
    slow: tuple[float, float, float] | None
    free_at: float = 0.0

    def book(self, now: float, tokens: int) -> tuple[float, float, float]:
        begun = max(now, self.free_at)
        rate = self.rate
        if self.slow and self.slow[0] <= begun < self.slow[1]:
            rate /= self.slow[2]
        self.free_at = begun + 0.005 + tokens / rate
        return now, begun, self.free_at


@dataclass(slots=True)
class Engine:
    """One scheduler. `run` fills `reports`, `stats` and `samples`."""

    settings: Settings
    requests: list[Request]
    rng: random.Random
    sample_s: float = 5.0
    stats_s: float = 10.0
    t: float = 0.0
    waiting: list[Request] = field(default_factory=list)
    loading: list[Request] = field(default_factory=list)
    ready: list[Request] = field(default_factory=list)  # loaded, not yet running
    sending: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    chunked: Request | None = None
    used: int = 0
    reports: list[Report] = field(default_factory=list)
    stats: list[Sample] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    totals: Counter[str] = field(default_factory=Counter)
    seen: dict[str, list[float]] = field(default_factory=dict)
    shown: dict[str, float] = field(default_factory=dict)
    ratio: float = 0.0
    full: bool = False  # SGLang's latch: no admission is tried until a request leaves
    _next: int = 0
    _next_sample: float = 0.0
    _next_stats: float = 0.0
    _decodes: int = 0
    _generated: int = 0
    _reported_at: float = 0.0
    _decode_told: float = 0.0
    _grammar: bool = False
    _last_prefill: float = 0.0
    _loads: _Channel = field(default_factory=lambda: _Channel(math.inf, None))
    _sends: _Channel = field(default_factory=lambda: _Channel(math.inf, None))

    def __post_init__(self) -> None:
        s = self.settings
        self.requests.sort(key=lambda r: r.at + r.front_s + r.grammar_s)
        self._loads, self._sends = _Channel(s.load_rate, s.slow), _Channel(s.send_rate, s.slow)
        self.ratio, self.used = s.ratio, s.sessions
        self._grammar = any(r.grammar_s for r in self.requests)
        self._next_sample, self._next_stats = self.t + self.sample_s, self.t + self.stats_s
        self.shown = self.levels()

    # -- time

    def run(self, until: float) -> Engine:
        """Run until a time, or until the engine dies."""
        end = min(until, self.settings.crash_at or until)
        while self.t < end:
            self._arrive()
            stuck = self.settings.stuck
            if stuck and stuck[0] <= self.t < stuck[1]:
                self._pass(min(stuck[1], end))
            elif not self._step():
                self._pass(min(self._next_event(), end))
        return self

    def _next_event(self) -> float:
        times = [self.t + 5.0]
        if self._next < len(self.requests):
            times.append(self._due(self.requests[self._next]))
        times += [r.loads[2] for r in [*self.loading, *self.waiting] if r.loads and r.loads[2] > self.t]
        times += [r.loads[2] for r in self.sending if r.loads]
        if self.settings.stuck and self.settings.stuck[0] > self.t:
            times.append(self.settings.stuck[0])
        return max(min(times), self.t + 0.005)

    @staticmethod
    def _due(r: Request) -> float:
        return r.at + r.front_s + r.grammar_s

    def _arrive(self) -> None:
        while self._next < len(self.requests) and self._due(self.requests[self._next]) <= self.t:
            r = self.requests[self._next]
            self._next += 1
            r.entered = r.at + r.front_s
            if self.settings.load == "queue" and r.remote:
                r.loads = self._loads.book(self.t, r.remote)
            self.waiting.append(r)
        for r in [r for r in self.loading if r.loads and r.loads[2] <= self.t]:
            self.loading.remove(r)
            self.ready.append(r)
            r.computed = r.cached + r.remote
            self._saw("load_s", r.loads[2] - r.loads[0] if r.loads else 0.0)
            self.totals["loaded"] += r.remote
        for r in [r for r in self.sending if r.loads and r.loads[2] <= self.t]:
            self.sending.remove(r)
            self._release(r)
            self._saw("load_s", r.loads[2] - r.loads[0] if r.loads else 0.0)
            self.totals["sent"] += r.prompt
            r.first = r.first or self.t
            r.done = self.t
            self._saw("ttft_s", r.first - r.at)

    def _pass(self, to: float) -> None:
        """Move the clock; what endpoint and stats timer show on the way is the state before."""
        while min(self._next_sample, self._next_stats) <= to:
            if self._next_sample <= self._next_stats:
                if not self.running and self._next_sample - self._reported_at >= 30 and self.settings.prefill_first:
                    self.shown = self.levels()
                    self.shown["tps"] = 0.0
                    self._reported_at = self._next_sample
                self.samples.append(self._sample(self._next_sample, self.shown if self.settings.prefill_first else self.levels()))
                self._next_sample += self.sample_s
            else:
                self.stats.append(self._sample(self._next_stats, self.levels()))
                self._next_stats += self.stats_s
        self.t = to

    def levels(self) -> dict[str, float]:
        """The gauges now. A stream that is loaded or held back is counted as waiting."""
        s = self.settings
        in_grammar = self._held_back()
        begun = sum(1 for r in self.loading if r.loads and r.loads[1] <= self.t)
        rows = [*self.running, *([self.chunked] if self.chunked else [])]
        window = sum(min(r.held, s.window) for r in rows) if s.window else 0
        return {
            "running": len(self.running),
            "waiting": len(self.waiting),
            "grammar": in_grammar,
            "to_load": len(self.loading) - begun,
            "loading": begun,
            "ready": len(self.ready),
            "sending": len(self.sending),
            "used": self.used,
            "usage": self.used / s.pool,
            "held_usage": sum(r.held for r in [*self.loading, *self.ready]) / s.pool,
            "window": window,
            "window_usage": window / s.window_pool if s.window_pool else 0.0,
            "states": len(rows) * s.states_each,
            "states_usage": len(rows) * s.states_each / s.states if s.states else 0.0,
            "adapters": len({r.adapter for r in self.running if r.adapter is not None}),
            "tps": self.shown.get("tps", 0.0),
        }

    def _held_back(self) -> int:
        """Requests that have come and are not ready to be looked at."""
        return sum(r.at + r.front_s <= self.t for r in self.requests[self._next :]) if self._grammar else 0

    def _sample(self, t: float, levels: dict[str, float]) -> Sample:
        seen = {k: list(v) for k, v in self.seen.items()}
        self.seen = {}
        return Sample(t, {**levels, **self.totals}, seen)

    def _saw(self, name: str, value: float) -> None:
        self.seen.setdefault(name, []).append(value)

    # -- one step

    def _step(self) -> bool:
        none = self.settings.admits_none
        if none and none[0] <= self.t < none[1]:
            return False
        return self._step_prefill_first() if self.settings.prefill_first else self._step_mixed()

    def _cost(self, tokens: int, rows: int, context: int = 0) -> float:
        s = self.settings
        return (s.base_s + s.token_s * tokens + s.row_s * rows + s.context_s * context) * self.rng.lognormvariate(0.0, 0.06)

    def _step_prefill_first(self) -> bool:
        s = self.settings
        before = self.used
        batch, new, cached, loaded = self._admit_batch()
        if batch:
            rows = len(self.running)
            wait = sum(self._load_now(r.remote) for r in loaded)
            tokens = sum(n for _, n in batch)
            self._pass(self.t + self._cost(tokens, 0) + wait)
            self.totals["prefilled"] += tokens
            self.totals["hit"] += cached
            for r, n in batch:
                r.computed += n
                if r.computed < r.length:
                    self.chunked = r
                    continue
                self.chunked = None if self.chunked is r else self.chunked
                self._token(r)
                if r.done is None and s.send_rate < math.inf:
                    self._send(r)
                elif r.done is None:
                    self.running.append(r)
            values = {"new": new, "tokens": tokens, "cached": cached, "before": before, "used": self.used, "rows": rows, "wait": wait}
            values |= {"queue": len(self.waiting) + (self.chunked is not None), "pending": sum(r.prompt for r in self.waiting)}
            self._report("prefill", values)
            return True
        if s.remote_only and self.ready:
            self._start_ready()
        if not self.running:
            return False
        if s.pool - self.used < len(self.running):
            self._retract()
            if not self.running:
                return True
        rows = len(self.running)
        self._pass(self.t + self._cost(0, rows, self.used))
        for r in list(self.running):
            self._token(r)
            if r.done is not None:
                self.running.remove(r)
                self.full = False
        self.ratio = max(s.ratio * 0.14, self.ratio - s.ratio * 0.86 / 600)
        self._decodes += 1
        if self._decodes % DECODE_LOG_STEPS == 0:
            gap = max(self.t - self._decode_told, 1e-6)
            self.shown["tps"] = (self.totals["generated"] - self._generated) / gap
            self._generated, self._decode_told = self.totals["generated"], self.t
            self._report("decode", {"rows": rows, "used": self.used, "queue": len(self.waiting), "tps": self.shown["tps"]})
        return True

    def _start_ready(self) -> None:
        while self.ready and len(self.running) < self.settings.cap:
            r = self.ready.pop(0)
            r.computed = r.length
            self._token(r)
            if r.done is None:
                self.running.append(r)

    def _report(self, kind: str, values: dict[str, Any]) -> None:
        tps = self.shown.get("tps", 0.0)
        self.shown = {**self.levels(), "tps": tps}
        values |= {f"now_{k}": v for k, v in self.shown.items()}
        values["since"] = max(self.t - self._last_prefill, 1e-3)
        if kind == "prefill":
            self._last_prefill = self.t
        self._reported_at = self.t
        self.reports.append(Report(kind, self.t, values))

    def _admit_batch(self) -> tuple[list[tuple[Request, int]], int, int, list[Request]]:
        """SGLang: the prompts of one batch, the longest left in a chunk."""
        s, budget = self.settings, self.settings.chunk
        batch: list[tuple[Request, int]] = []
        loaded: list[Request] = []
        cached = 0
        if self.chunked:
            r = self.chunked
            n = min(r.length - r.computed, budget)
            batch.append((r, n))
            budget -= n
        if not self.full and budget > 0:
            reserved = sum(r.to_come for r in self.running) * self.ratio
            for r in list(self.waiting):
                if budget <= 0 or len(self.running) + len(batch) >= s.cap - s.lost_rows:
                    break
                if r.loads is not None and r.loads[2] > self.t and s.load == "queue":
                    continue
                if not self._adapter_fits(r, batch):
                    continue
                held = r.length - r.cached
                if held + r.to_come + s.page >= s.pool - self.used - reserved or not self._states_fit(r, len(batch)):
                    self.full = bool(self.running or batch)
                    break
                self.waiting.remove(r)
                if s.load == "hold" and r.remote and r.loads is None:
                    self._take(r, held)
                    r.loads = self._loads.book(self.t, r.remote)
                    self.loading.append(r)
                    continue
                self._take(r, held)
                done = r.cached + (r.remote if s.load in ("queue", "step") and not r.thrown else 0)
                r.computed = done
                reserved += r.to_come
                if s.load == "step" and r.remote and not r.thrown:
                    loaded.append(r)
                if not r.thrown:
                    self.totals["loaded"] += done - r.cached
                    if r.loads:
                        self._saw("load_s", r.loads[2] - r.loads[0])
                cached += done
                n = min(r.length - r.computed, budget)
                batch.append((r, n))
                budget -= n
                self._admitted(r)
        return batch, sum(1 for r, _ in batch), cached, loaded

    def _admitted(self, r: Request) -> None:
        if r.admitted is None:
            r.admitted = self.t
            self._saw("queue_s", self.t - (r.entered or r.at))
            self.totals["asked"] += r.prompt
            self.totals["found"] += r.cached
            if r.remote:
                self.totals["remote_asked"] += r.prompt - r.cached
                self.totals["remote_found"] += r.remote

    def _adapter_fits(self, r: Request, batch: Iterable[tuple[Request, int]]) -> bool:
        if self.settings.adapters is None or r.adapter is None:
            return True
        busy = {q.adapter for q in self.running} | {q.adapter for q, _ in batch}
        busy.discard(None)
        return r.adapter in busy or len(busy) < self.settings.adapters

    def _states_fit(self, r: Request, more: int) -> bool:
        s = self.settings
        rows = len(self.running) + more + 1
        if s.states is not None and rows * s.states_each > s.states:
            return False
        if s.window is None or s.window_pool is None:
            return True
        # a prompt needs its chunk in the window's pool, whatever the window is
        return sum(min(q.held, s.window) for q in self.running) + min(r.prompt, s.chunk) + s.page <= s.window_pool

    def _load_now(self, tokens: int) -> float:
        asked, _, done = self._loads.book(self.t, tokens)
        self._saw("load_s", done - asked)
        return done - asked

    def _take(self, r: Request, tokens: int) -> None:
        r.held += tokens
        self.used += tokens

    def _release(self, r: Request) -> None:
        self.used -= r.held
        r.held = 0

    def _send(self, r: Request) -> None:
        r.first = None
        r.loads = self._sends.book(self.t, r.prompt)
        self.sending.append(r)

    def _token(self, r: Request) -> None:
        """One more token of a request after a step."""
        if r.first is None:
            r.first = self.t
            self.totals["prompted"] += r.prompt
            if self.settings.send_rate == math.inf:
                self._saw("ttft_s", r.first - r.at)
        elif r.last:
            self._saw("itl_s", self.t - r.last)
        r.last = self.t
        r.out += 1
        self.totals["generated"] += 1
        if r.out >= min(r.output, r.limit) and self.settings.send_rate == math.inf:
            r.done = self.t
            self._saw("e2e_s", r.done - r.at)
            self.totals["finished"] += 1
            self._release(r)
        elif self.settings.prefill_first:
            self._take(r, 1)

    def _retract(self) -> None:
        """Throw out the requests with the fewest tokens until the rest can go on for a while."""
        s = self.settings
        before, free = self.ratio, s.pool - self.used
        victims = sorted(self.running, key=lambda r: (-r.out, r.prompt))
        thrown = 0
        while len(victims) > 1 and (not thrown or s.pool - self.used < 20 * len(victims)):
            r = victims.pop()
            self.running.remove(r)
            self._throw(r)
            self.waiting.append(r)
            thrown += 1
        if not thrown and s.aborts_alone:
            r = self.running.pop()
            self._release(r)
            r.error, r.done = "aborted", self.t
            self.reports.append(Report("abort", self.t, {"number": r.number}))
            self.full = False
            return
        left = sum(r.limit for r in self.running) + 1
        self.ratio = min(1.0, (sum(r.out for r in self.running) + 20 * len(self.running)) / left)
        self.full = False
        gained = s.pool - self.used - free
        self.reports.append(Report("retract", self.t, {"count": thrown, "gained": gained, "before": before, "after": self.ratio}))
        self.totals["retracted"] += thrown
        self.shown["retracted_now"] = thrown

    def _throw(self, r: Request) -> None:
        self._release(r)
        r.computed = 0
        r.thrown += 1
        self.totals["thrown"] += 1

    def _step_mixed(self) -> bool:
        """vLLM: tokens of running requests first, then of waiting ones, out of one budget."""
        s, budget, preempted = self.settings, self.settings.chunk, False
        work: list[tuple[Request, int]] = []
        index = 0
        while index < len(self.running) and budget > 0:
            r = self.running[index]
            n = min(r.length - r.computed, budget)
            need = max(0, r.computed + n - r.cached - r.held)
            while need > s.pool - self.used:
                victim = self.running.pop()
                preempted = True
                self._throw(victim)
                self.waiting.insert(0, victim)
                if victim is r:
                    break
            else:
                self._take(r, need)
                work.append((r, n))
                budget -= n
            index += 1
        wait = 0.0
        for r in [] if preempted else [*self.ready, *self.waiting]:
            if budget <= 0 or len(self.running) >= s.cap - s.lost_rows:
                break
            if not self._adapter_fits(r, ()):
                continue
            new = r.loads is None
            if s.load == "hold" and r.remote and not r.thrown and new:
                if r.length - r.cached > s.pool - self.used:
                    break
                self._take(r, r.length - r.cached)
                r.loads = self._loads.book(self.t, r.remote)
                self.waiting.remove(r)
                self.loading.append(r)
                continue
            start = r.cached + (r.remote if s.load and not r.thrown else 0)
            n = min(r.length - start, budget)
            need = (r.length - r.cached if s.whole_prompt else start + n - r.cached) - r.held
            spare = s.pool * s.watermark if self.running else 0.0
            if need + spare > s.pool - self.used:
                break
            (self.ready if r in self.ready else self.waiting).remove(r)
            r.computed = start
            self._take(r, max(0, need))
            self.running.append(r)
            work.append((r, n))
            budget -= n
            if s.load == "step" and r.remote and not r.thrown:
                wait += self._load_now(r.remote)
                self.totals["loaded"] += r.remote
                r.loads = self.t, self.t, self.t + wait
            self._admitted(r)
        if not work:
            return False
        rows, tokens = len(self.running), sum(n for _, n in work)
        self._pass(self.t + self._cost(tokens, rows, self.used) + wait)
        for r, n in work:
            r.computed += n
            if r.computed >= r.length and r in self.running:
                self._token(r)
                if r.done is not None:
                    self.running.remove(r)
        self.totals["preempted"] = self.totals["thrown"]
        return True


def arrivals(rng: random.Random, start: float, end: float, rate: Callable[[float], float]) -> list[float]:
    """Times of a Poisson process whose rate (per second) changes with time."""
    peak = max(rate(start + (end - start) * k / 200) for k in range(201))
    times, t = [], start
    while True:
        t += rng.expovariate(peak)
        if t >= end:
            return times
        if rng.random() * peak <= rate(t):
            times.append(t)
