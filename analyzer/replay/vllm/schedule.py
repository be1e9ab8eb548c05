"""One pass of the scheduler, and what the output of a step changes.

This is vLLM's `schedule` and `update_from_output`, for text and models with full attention only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzer.replay.settings import Vllm
from analyzer.replay.vllm.blocks import Hit, Pool
from analyzer.replay.vllm.host import Host
from analyzer.replay.vllm.requests import ByPriority, Fcfs, Live, Queue


@dataclass(slots=True)
class Step:
    """What one pass scheduled, and the state right after it.

    `sampling` are the requests that make a token, `starting` those of them that make the first one since they were admitted. `attended`
    and `kv_tokens` as `StepTime.seconds` takes them; `load_s` is how long L2 takes to load what was found there. `entered` are, under the
    priority policy, all its requests and how many tokens of each.
    """

    entered: dict[Live, int] = field(default_factory=dict)
    sampling: list[Live] = field(default_factory=list)
    starting: list[Live] = field(default_factory=list)
    admitted: list[Live] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)
    tokens: int = 0
    prefill_tokens: int = 0
    attended: float = 0.0
    kv_tokens: int = 0
    load_s: float = 0.0
    running: int = 0
    waiting: int = 0

    def count(self, computed: int, tokens: int, samples: bool, sign: int = 1) -> None:
        """Add up a request's part, after which it has `computed` tokens. One token that makes another is decode, all else prefill."""
        self.tokens += sign * tokens
        if tokens == 1 and samples:
            self.kv_tokens += sign * computed
        else:
            self.prefill_tokens += sign * tokens
            self.attended += sign * tokens * (computed - tokens / 2)

    @property
    def plain(self) -> bool:
        """Every running request has made its next token and nothing else happened: the next pass will do the same, if there is room."""
        return not self.starting and not self.admitted and not self.preempted and self.tokens == len(self.sampling) == self.running


@dataclass(slots=True)
class Counts:
    """Running totals, as the engine's counters have them; `made` are generated tokens."""

    preemptions: int = 0
    made: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0


class Scheduler:
    """Who is running, who waits, and the pool. `blocked`: the last pass could not admit the head of the queue."""

    def __init__(self, settings: Vllm, host: Host | None = None) -> None:
        self.settings = settings
        self.host = host
        self.pool = Pool(settings.num_blocks - 1, settings.block_tokens, settings.prefix_caching, host)
        self.running: list[Live] = []
        self.waiting: Queue = Fcfs() if settings.policy == "fcfs" else ByPriority()
        self.blocked = False
        self.counts = Counts()
        self._behind = settings.async_scheduling
        # a request with a higher priority may take from one that is in the step already
        self._takes_back = settings.policy == "priority"
        self._watermark = int(settings.watermark_share * settings.num_blocks)

    @property
    def unfinished(self) -> bool:
        """Something runs or waits."""
        return bool(self.running) or len(self.waiting) > 0

    def add(self, live: Live) -> None:
        """A request arrives."""
        # behind a head that cannot be admitted it changes nothing
        self.blocked = self.blocked and self.settings.policy == "fcfs"
        self.waiting.add(live)

    def schedule(self) -> Step:
        """Choose the next step: running requests first, then waiting ones while they fit."""
        step = Step()
        alone = len(self.running) + len(self.waiting) == 1
        longest = 0 if alone else self.settings.long_prefill_threshold
        budget = self._schedule_running(step, longest)
        self.blocked = False
        if not step.preempted:
            self._admit(step, longest, budget)
        step.running, step.waiting = len(self.running), len(self.waiting)
        return step

    def update(self, step: Step) -> list[Live]:
        """Take in the output of a step; those that finish give back their blocks, and are returned."""
        finished = []
        behind = self._behind
        for live in step.sampling:
            if behind:
                if live.placeholders and live.cached >= live.depth:
                    live.placeholders -= 1
                elif not self._arrives(live):
                    continue
            tokens = live.tokens = live.tokens + 1
            if tokens >= live.end:
                finished.append(live)
                self._finish(live)
        self.counts.made += len(step.sampling)
        if finished:
            self.running = [live for live in self.running if not live.done]
            self.blocked = False
        return finished

    def _arrives(self, live: Live) -> bool:
        """With async scheduling, count off a token that was under way; False where its request has finished before."""
        if live.done:
            return False
        if live.stale:
            # preempted meanwhile: it has no blocks to remember the token in
            live.stale -= 1
            return True
        live.placeholders -= 1
        if live.cached < live.depth:
            self.pool.cache(live, live.written)
        return True

    def _finish(self, live: Live) -> None:
        live.done = True
        if not live.blocks:
            # its last token was under way when it was preempted
            self.waiting.remove(live)
        self._release(live)
        live.placeholders = 0

    def _release(self, live: Live) -> None:
        self.pool.cache(live, live.written)
        self.pool.release(live)
        if self.host:
            self.host.leaves(live)

    def _schedule_running(self, step: Step, longest: int) -> int:
        """Returns what is left of the step's token budget."""
        budget = self.settings.step_tokens
        block_tokens = self.settings.block_tokens
        simple = not self.host and not self._takes_back
        placeholder = 1 if self._behind else 0
        sampling = step.sampling
        kv_tokens = short = 0
        index = 0
        while index < len(self.running) and budget > 0:
            live = self.running[index]
            index += 1
            computed = live.computed
            if live.placeholders and computed + 1 >= live.limit:
                # the step under way makes its last token
                continue
            if live.decodes:
                if simple and computed < live.blocks * block_tokens and live.cached >= live.depth:
                    # what nearly every request does in nearly every pass: `_enter`, short for speed
                    live.computed = computed + 1
                    live.placeholders += placeholder
                    sampling.append(live)
                    kv_tokens += computed + 1
                    short += 1
                    budget -= 1
                    continue
                wanted = 1
            else:
                wanted = live.tokens + live.placeholders - computed
                if 0 < longest < wanted:
                    wanted = longest
                wanted = min(wanted, budget, self.settings.max_model_tokens - 1 - computed)
                if wanted <= 0:
                    continue
            if not self._extend(live, computed + wanted):
                budget += self._preempt_for(step, live, computed + wanted)
                if not live.computed:
                    # it was the last one to take blocks from
                    break
                index = self.running.index(live) + 1
            self._enter(step, live, wanted)
            budget -= wanted
        step.tokens += short
        step.kv_tokens += kv_tokens
        return budget

    def _preempt_for(self, step: Step, live: Live, tokens: int) -> int:
        """Preempt until a request has blocks for its first `tokens` tokens, or is preempted itself; returns what the step lost thereby."""
        taken = 0
        while not self._extend(live, tokens):
            victim = self._victim()
            self.running.remove(victim)
            taken += self._preempt(step, victim)
            if victim is live:
                break
        return taken

    def _extend(self, live: Live, tokens: int) -> bool:
        """Blocks for a request's first `tokens` tokens; False where there are not enough."""
        needed = self.pool.count(min(tokens, self.settings.max_model_tokens)) - live.blocks
        if needed > self.pool.free:
            return False
        if needed > 0:
            self.pool.take(live, needed)
        return True

    def _enter(self, step: Step, live: Live, tokens: int) -> None:
        """Make a request's next tokens part of the step."""
        computed = live.computed = live.computed + tokens
        known = min(computed, live.tokens)
        samples = live.decodes or computed >= live.tokens + live.placeholders
        if self._takes_back:
            step.entered[live] = tokens
        step.count(computed, tokens, samples)
        if not live.decodes or live.cached < live.depth:
            self.pool.cache(live, known)
        if self.host:
            self.host.written(live, known)
        if samples:
            step.sampling.append(live)
            if not live.decodes:
                live.decodes = True
                step.starting.append(live)
            if self._behind:
                live.placeholders += 1

    def _victim(self) -> Live:
        if self.settings.policy == "fcfs":
            return self.running[-1]
        return max(self.running, key=lambda live: live.rank)

    def _preempt(self, step: Step, victim: Live) -> int:
        """Back to the queue, without its blocks; returns how many tokens of the step are taken back with it."""
        tokens = self._take_back(step, victim) if victim in step.entered else 0
        victim.stale = victim.placeholders
        self._release(victim)
        victim.computed = victim.placeholders = 0
        victim.decodes = False
        victim.served.retractions += 1
        self.counts.preemptions += 1
        self.waiting.put_back(victim)
        step.preempted.append(victim.request.id)
        return tokens

    def _take_back(self, step: Step, victim: Live) -> int:
        tokens = step.entered.pop(victim)
        samples = victim in step.sampling
        step.count(victim.computed, tokens, samples, sign=-1)
        if samples:
            step.sampling.remove(victim)
            if victim in step.starting:
                step.starting.remove(victim)
            if self._behind:
                victim.placeholders -= 1
        return tokens

    def _admit(self, step: Step, longest: int, budget: int) -> None:
        settings = self.settings
        while len(self.waiting):
            self.blocked = True
            if budget <= 0 or len(self.running) >= settings.max_running:
                return
            live = self.waiting.head()
            hit = self.pool.look_up(live)
            local = hit.blocks * settings.block_tokens
            loaded = self.host.look_up(live, local) if self.host else 0
            wanted = live.tokens - local - loaded
            if 0 < longest < wanted:
                wanted = longest
            if wanted > budget and not settings.chunked_prefill:
                return
            wanted = min(wanted, budget)
            if not self._fits(live, hit, local + loaded + wanted):
                return
            self.blocked = False
            self.running.append(self.waiting.pop())
            self._count_hit(live, local, loaded)
            self.pool.hold(live, hit)
            self._extend(live, local + loaded + wanted)
            if self.host:
                step.load_s += self.host.load(loaded)
            live.computed = local + loaded
            step.admitted.append(live)
            self._enter(step, live, wanted)
            budget -= wanted

    def _fits(self, live: Live, hit: Hit, tokens: int) -> bool:
        """Whether a waiting request can be admitted with its first `tokens` tokens."""
        # hit blocks that nobody holds leave the free ones as well
        held = hit.blocks - hit.unheld
        if self.settings.reserve_full_isl:
            tokens = live.tokens
        needed = max(self.pool.count(min(tokens, self.settings.max_model_tokens)) - held, hit.unheld)
        return needed + (self._watermark if self.running else 0) <= self.pool.free

    def _count_hit(self, live: Live, local: int, loaded: int) -> None:
        counts, served = self.counts, live.served
        if not served.retractions:
            served.cached_tokens, served.l2_tokens = local + loaded, loaded
        if not self.settings.prefix_caching:
            return
        if served.retractions:
            counts.preempted_queries += live.tokens
            counts.preempted_hits += local
        else:
            counts.prefix_queries += live.tokens
            counts.prefix_hits += local
