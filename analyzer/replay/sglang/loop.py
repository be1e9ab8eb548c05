"""SGLang's event loop: requests come in, batches run, results are dealt with; with overlap, one batch behind."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from analyzer.language import _
from analyzer.replay.result import Replayed, Served, StepSink
from analyzer.replay.settings import Sglang
from analyzer.replay.sglang.clock import Clock
from analyzer.replay.sglang.live import Batch, Live
from analyzer.replay.sglang.pool import OutOfMemoryError
from analyzer.replay.sglang.record import DecodeSteps, Recorder, Row
from analyzer.replay.sglang.scheduler import Scheduler
from analyzer.replay.step_time import Pace, StepTime
from analyzer.replay.workload import Workload

# So many equal steps are looked ahead at once.
_AHEAD = 256
# So many passes may come to nothing before it counts as stuck.
_IDLE_PASSES = 3


def serve(
    workload: Workload,
    settings: Sglang,
    step_time: StepTime,
    *,
    pace: Pace | None = None,
    until_s: float | None = None,
    sink: StepSink | None = None,
) -> Replayed:
    """Serve `workload` as SGLang's scheduler would; see `analyzer.replay.run.replay`."""
    return _Server(workload, settings, Clock(step_time, pace), until_s, sink).run()


@dataclass(slots=True)
class _Flight:
    """A batch that runs: its requests as they were then."""

    reqs: list[Live]
    prefill: bool
    end_s: float
    row: Row | None


class _Server:
    """One replay. `now` is the scheduler's time, `device_free` when the device has done what it was given."""

    def __init__(self, workload: Workload, settings: Sglang, clock: Clock, until_s: float | None, sink: StepSink | None) -> None:
        self.workload = workload
        self.settings = settings
        self.clock = clock
        self.until_s = inf if until_s is None else until_s
        self.scheduler = Scheduler(settings, record_checks=sink is not None)
        self.recorder = Recorder(self.scheduler, sink)
        self.overlap = settings.overlap
        self.now = self.device_free = 0.0
        self.in_flight: deque[_Flight] = deque()
        self.coming = deque(workload.requests)
        self.served: list[Served] = []
        self.idle_passes = 0
        self.l2_load_s = 0.0

    def run(self) -> Replayed:
        """To the end, or to `until_s`."""
        try:
            while self.now < self.until_s:
                self._take_in()
                if not self._decode_ahead() and not self._one_pass():
                    break
            self._refuse_waiting(stuck=self.now < self.until_s)
        except OutOfMemoryError:
            self._died()
        self.recorder.close()
        return self._replayed()

    def _take_in(self) -> None:
        """What has arrived joins the queue."""
        while self.coming and self.coming[0].arrival_s <= self.now:
            request = self.coming.popleft()
            served = Served(request.id, request.arrival_s, added_s=self.now)
            self.served.append(served)
            max_new = longest_output(request.prompt_tokens, request.max_new_tokens, self.settings)
            live = Live(request, served, max_new, self.workload.contents)
            if request.prompt_tokens > self.settings.context_tokens:
                self._give_up(live, _("Its prompt is longer than the context of {tokens} tokens.", tokens=self.settings.context_tokens))
                continue
            self.scheduler.begin_pass()
            self.scheduler.queue(live)
            for turned_away in self.scheduler.aborted:
                self._give_up(turned_away)

    def _one_pass(self) -> bool:
        """One turn of the event loop; False when there is nothing left to do, or nothing that can be done."""
        scheduler = self.scheduler
        scheduler.begin_pass()
        ratio_before = scheduler.ratio.current
        batch = scheduler.next_batch(self.in_flight[0].reqs if self.in_flight else None)
        for req in scheduler.aborted:
            self._give_up(req)
        if batch is not None:
            self._run(batch, ratio_before)
        else:
            self.recorder.no_batch()
        last, scheduler.last = scheduler.last, batch
        if self.overlap and last is not None:
            self._land()
        elif batch is not None:
            if not self.overlap:
                self._land()
        else:
            return self._wait()
        return True

    def _run(self, batch: Batch, ratio_before: float) -> None:
        self.idle_passes = 0
        start_s = max(self.now, self.device_free)
        for req in batch.reqs:
            if req.served.first_scheduled_s is None:
                req.served.first_scheduled_s = self.now
                req.served.cached_tokens = req.prefix
        if batch.prefill:
            self.l2_load_s += batch.load_s
            self.device_free = self.clock.prefill_end(start_s, batch.reqs, batch.load_s)
        else:
            self.device_free = self.clock.decode_end(start_s, batch.reqs)
        row = self.recorder.step(batch, self.now, start_s, self.device_free, ratio_before)
        self.in_flight.append(_Flight(batch.reqs, batch.prefill, self.device_free, row))

    def _land(self) -> None:
        """Deal with the result of the batch that has run longest."""
        flight = self.in_flight.popleft()
        self.now = max(self.now, flight.end_s)
        pool = self.scheduler.pool
        finished = []
        for req in flight.reqs:
            if req.stale or req.finished:
                continue
            if req.chunks:
                req.chunks -= 1
                continue
            req.out += 1
            req.served.output_tokens = req.out
            if req.served.first_token_s is None:
                req.served.first_token_s = self.now
            if req.out >= req.ends_at:
                req.finished = True
                req.served.finish_s = self.now
                pool.release(req, keep=True)
                req.forget_text()
                finished.append(req)
            elif flight.prefill:
                pool.checkpoint(req, req.end)
                req.prefix = req.end
        self.recorder.result(flight.row, finished)

    def _wait(self) -> bool:
        """Nothing ran: go to the next arrival, if there is one."""
        scheduler = self.scheduler
        if not (scheduler.waiting or scheduler.running.reqs or scheduler.chunked or self.in_flight):
            scheduler.ratio.reset()
        else:
            self.idle_passes += 1
            if self.idle_passes <= _IDLE_PASSES:
                return True
            self.idle_passes = 0
        if not self.coming:
            return False
        self.now = max(self.now, self.coming[0].arrival_s)
        return True

    def _decode_ahead(self) -> bool:
        """Take decode steps that differ in nothing at once: none arrives, finishes, is admitted, evicted or retracted. Whether any."""
        scheduler = self.scheduler
        running, reqs = scheduler.running, scheduler.running.reqs
        if scheduler.last is not running or running.prefill or not reqs or not scheduler.nothing_to_admit:
            return False
        flight = self.in_flight[0] if self.in_flight else None
        if self.overlap and (flight is None or flight.prefill or flight.reqs is not reqs):
            return False
        unfinished = min([r.ends_at - r.out for r in reqs]) - 1
        if unfinished < 1:
            return False
        free = scheduler.pool.free_ahead(reqs, min(_AHEAD, unfinished))
        if not len(free):
            return False
        ahead = self._steps(reqs, free, flight)
        steps = len(ahead.end_s)
        scheduler.ratio.current = float(ahead.ratio[-1])
        scheduler.pool.decode_ahead(reqs, steps, int(ahead.free[-1]))
        for req in reqs:
            req.out += steps
            req.served.output_tokens = req.out
        row = self.recorder.decode_steps(ahead, flight.row if flight else None, behind=self.overlap)
        self.device_free = float(ahead.end_s[-1])
        if flight is None:
            self.now = self.device_free
        else:
            self.now = float(ahead.start_s[-1])
            self.in_flight[0] = _Flight(reqs, False, self.device_free, row)
        self.idle_passes = 0
        return True

    def _steps(self, reqs: list[Live], free: NDArray[np.int64], flight: _Flight | None) -> DecodeSteps:
        """The next decode steps, at most as many as `free` has values, and none scheduled after an arrival or the end."""
        begin_s = max(self.now, self.device_free)
        ends = self.clock.decode_ends(begin_s, reqs, len(free))
        starts = np.concatenate(([begin_s], ends[:-1]))
        # with overlap a step is scheduled when the one before it starts
        at = starts if flight is None else np.concatenate(([self.now], starts[:-1]))
        steps = max(1, int(np.searchsorted(at, min(self.coming[0].arrival_s if self.coming else inf, self.until_s))))
        ratio = self.scheduler.ratio
        return DecodeSteps(at[:steps], starts[:steps], ends[:steps], free[:steps], ratio.ahead(steps), ratio.current)

    def _give_up(self, req: Live, why: str = "") -> None:
        req.served.aborted = True
        req.served.finish_s = self.now
        req.served.refused = why

    def _refuse_waiting(self, *, stuck: bool) -> None:
        """Who still waits and could not be admitted into the empty pool, and, where nothing moves any more, who waits behind."""
        pool = self.scheduler.pool
        for req in self.scheduler.waiting:
            need = req.length + min(max(req.max_new - req.out, 0), self.settings.clip_max_new_tokens) + pool.page
            if need >= pool.total // pool.page * pool.page:
                req.served.refused = _("It needs {tokens} tokens to be admitted, and the pool has {pool}.", tokens=need, pool=pool.total)
            elif stuck:
                req.served.refused = _("It waits behind a request that can never be admitted.")

    def _died(self) -> None:
        """A prefill did not get its memory: the engine ends here, and everything it had with it."""
        for served in self.served:
            if served.finish_s is None:
                served.refused = _("The engine ran out of memory in a prefill.")

    def _replayed(self) -> Replayed:
        end_s = min(self.now, self.until_s)
        # who came while the last step ran was not taken in any more
        self.served += [Served(r.id, r.arrival_s) for r in self.coming if r.arrival_s <= end_s]
        for served in self.served:
            # the result that was waited for came in after the end
            for name in ("first_token_s", "finish_s"):
                at_s = getattr(served, name)
                if at_s is not None and at_s > self.until_s:
                    setattr(served, name, None)
        host = self.scheduler.pool.host
        return Replayed(
            self.served,
            self.recorder.curves,
            end_s,
            self.settings.l1_tokens,
            retractions=self.recorder.retractions,
            l2_loaded_tokens=host.pool.loaded_tokens if host is not None else 0,
            l2_load_s=self.l2_load_s,
        )


def longest_output(prompt: int, max_new: int, settings: Sglang) -> int:
    """What SGLang makes of a request's max_new_tokens: no more than context and empty pool have room for."""
    page = settings.page_tokens
    in_context = min(settings.context_tokens - 1, settings.l1_tokens - 1) - prompt - 1
    in_pool = settings.l1_tokens - -(-prompt // page) * page - page - 1
    return max(0, min(max_new, in_context, in_pool))
