"""SGLang's scheduler: which batch runs next."""

from __future__ import annotations

from typing import Any

from analyzer.replay.settings import Sglang
from analyzer.replay.sglang.admission import Admission, Verdict
from analyzer.replay.sglang.live import Batch, Live
from analyzer.replay.sglang.policy import Policy
from analyzer.replay.sglang.pool import Pool
from analyzer.replay.sglang.ratio import NewTokenRatio
from analyzer.replay.sglang.retract import retract


class Scheduler:
    """What waits, what runs, and the rules between.

    `retracted`, `aborted` and `checks` are of the last pass; `checks` is None where nobody asks.
    """

    def __init__(self, settings: Sglang, *, record_checks: bool) -> None:
        self.settings = settings
        self.pool = Pool(settings)
        self.ratio = NewTokenRatio(settings)
        self.waiting: list[Live] = []
        self.running = Batch()
        self.last: Batch | None = None
        self.chunked: Live | None = None
        self.retracted: list[Live] = []
        self.aborted: list[Live] = []
        self.checks: list[dict[str, Any]] | None = [] if record_checks else None
        self._policy = Policy(settings, self.pool)

    def queue(self, req: Live) -> None:
        """Put a request at the end of the queue, or turn it away where the queue is full."""
        if self.settings.max_queued is not None and len(self.waiting) + 1 > self.settings.max_queued:
            self.aborted.append(req)
            return
        self.waiting.append(req)

    def begin_pass(self) -> None:
        """Forget what the last pass did."""
        self.retracted, self.aborted = [], []
        if self.checks is not None:
            self.checks = []

    def next_batch(self, in_flight: list[Live] | None) -> Batch | None:
        """The batch to run now, its memory taken; None where there is none. `in_flight`: requests of a batch whose result is not in."""
        self._take_over_prefilled()
        if self.running.keep([r for r in self.running.reqs if not r.finished]):
            self.running.full = False
        batch = self._prefill()
        if batch is None and self.running.reqs and not self.running.makes_nothing:
            batch = self._decode(in_flight)
        return batch

    @property
    def nothing_to_admit(self) -> bool:
        """A pass would not look at the queue."""
        return self.chunked is None and (self.running.full or not self.waiting)

    def _take_over_prefilled(self) -> None:
        """What was prefilled in the last step runs from now on; a prompt that is not through goes on as a chunk."""
        chunked = self.chunked
        if chunked is not None and chunked.end > chunked.prefix:
            self.pool.checkpoint(chunked, chunked.end)
            chunked.prefix = chunked.end
        last = self.last
        if last is None or not last.prefill:
            return
        if last.keep([r for r in last.reqs if not (r.finished or r is chunked or r is last.chunked)]):
            self.running.full = False
        if last.reqs and last is not self.running:
            if self.running.reqs:
                self.running.merge(last)
            else:
                self.running = last

    def _prefill(self) -> Batch | None:
        running = self.running
        if not running.reqs:
            running.full = False
        if self.nothing_to_admit:
            return None
        if self._slots(0) <= 0 and self.chunked is None:
            running.full = True
            return None
        self._policy.order(self.waiting)
        admission = Admission(self.settings, self.pool, running.reqs, self.ratio.current, self.checks)
        if self.chunked is not None and not admission.go_on_with(self.chunked):
            self.chunked = None
        self._walk_queue(admission)
        if not admission.admitted:
            return None
        admitted = set(admission.admitted)
        self.waiting = [r for r in self.waiting if r not in admitted]
        if admission.chunked is not None:
            self.chunked = admission.chunked
        if self.chunked is not None:
            self.chunked.chunks += 1
        self.pool.extend(admission.admitted)
        for req in admission.admitted:
            req.stale = False
        nothing = all(r.max_new == 0 for r in admission.admitted)
        return Batch(admission.admitted, prefill=True, chunked=self.chunked, load_s=admission.load_s, makes_nothing=nothing)

    def _walk_queue(self, admission: Admission) -> None:
        """Offer the queue, up to the first that is refused: nobody overtakes."""
        running = self.running
        for req in self.waiting:
            if admission.verdict() is Verdict.STEP_FULL:
                return
            if len(admission.admitted) >= self._slots(sum(1 for r in admission.admitted if r.has_row)):
                running.full = True
            if running.full:
                return
            self.pool.match(req, req.length - 1)
            verdict = admission.offer(req)
            if verdict is Verdict.NO_ROOM:
                running.full = bool(admission.admitted or running.reqs)
            if verdict is not Verdict.GO_ON:
                return

    def _slots(self, held: int) -> int:
        """How many may be in the next prefill; `held` of them have their row already."""
        return min(self.settings.max_running - len(self.running.reqs), self.pool.rows + held)

    def _decode(self, in_flight: list[Live] | None) -> Batch | None:
        """One token for all that run, after retraction where that does not fit."""
        batch, pool = self.running, self.pool
        before = len(batch.reqs)
        # the last token of these is being made
        finishing = [r for r in batch.reqs if r.out + 1 >= r.max_new] if in_flight else []
        if finishing:
            under_way = set(in_flight or ())
            finishing = [r for r in finishing if r in under_way]
            batch.keep([r for r in batch.reqs if r not in finishing])
        if not batch.reqs:
            batch.full = False
            return None
        if pool.make_room(pool.next_step(batch.reqs)):
            self.ratio.step()
        elif finishing:
            # their memory comes back with the result: wait for it rather than retract
            batch.full = False
            return None
        else:
            self._retract(batch)
        if len(batch.reqs) < before:
            batch.full = False
        if not batch.reqs:
            return None
        pool.decode(batch.reqs)
        batch.prefill = False
        return batch

    def _retract(self, batch: Batch) -> None:
        self.retracted, given_up = retract(self.settings, self.pool, batch)
        self.ratio.retracted(batch.reqs)
        self.aborted.extend(given_up)
        for req in self.retracted:
            req.served.retractions += 1
            self.queue(req)
