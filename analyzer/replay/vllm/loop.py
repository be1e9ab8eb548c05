"""Serving a workload: time, arrivals, and the steps on their way."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from math import inf

import numpy as np

from analyzer.replay.result import Replayed, Served, StepSink
from analyzer.replay.settings import Vllm
from analyzer.replay.step_time import Pace, StepTime
from analyzer.replay.vllm.decode import DecodeAhead
from analyzer.replay.vllm.host import Host
from analyzer.replay.vllm.keys import shared_keys
from analyzer.replay.vllm.record import Launched, Record, Run
from analyzer.replay.vllm.refused import reason
from analyzer.replay.vllm.requests import Live
from analyzer.replay.vllm.schedule import Scheduler, Step
from analyzer.replay.workload import Workload

# An engine that can never schedule anything again spins for ever; the record of it ends after this many steps in all.
_PATIENCE = 10
# Nor does one whose requests preempt each other for ever: so many preemptions, and more for each request, without a single token.
_PREEMPTIONS, _PREEMPTIONS_EACH = 1000, 10


def serve(
    workload: Workload,
    settings: Vllm,
    step_time: StepTime,
    *,
    pace: Pace | None = None,
    until_s: float | None = None,
    sink: StepSink | None = None,
) -> Replayed:
    """Serve `workload` as vLLM's V1 scheduler does; see `analyzer.replay.run.replay`.

    With async scheduling a step is scheduled while the one before it runs on the device, and starts when that one ends. In the sink's rows
    `t` and `t_end` are then the times on the device; a request is first scheduled when the pass that takes it is made.
    """
    return _Server(workload, settings, step_time, pace or Pace(), inf if until_s is None else until_s, sink).run()


class _Server:
    """`now` is the scheduler's clock, `_device_free_s` when all that was launched has run."""

    def __init__(self, workload: Workload, settings: Vllm, step_time: StepTime, pace: Pace, until_s: float, sink: StepSink | None) -> None:
        self._settings = settings
        self._step_time = step_time
        self._pace = pace
        self._until_s = until_s
        self._host = Host(workload, settings) if settings.l2 else None
        self._scheduler = Scheduler(settings, self._host)
        self._record = Record(self._scheduler, sink)
        self._served = [Served(request.id, request.arrival_s) for request in workload.requests]
        keys = shared_keys(workload, settings.block_tokens, every=settings.policy == "priority") if settings.prefix_caching else None
        self._coming = deque(
            Live.of(request, served, keys[place] if keys else [], settings.max_model_tokens)
            for place, (request, served) in enumerate(zip(workload.requests, self._served, strict=True))
        )
        self._under_way: deque[Launched] = deque()
        # how many steps may be under way before the scheduler waits for output
        self._depth = 2 if settings.async_scheduling else 1
        self._last: Launched | None = None
        # generated tokens and preemptions, when a token was last seen to be made
        self._progress = 0, 0
        self._now = self._device_free_s = 0.0

    def run(self) -> Replayed:
        """To the end, or to `until_s`."""
        scheduler = self._scheduler
        while self._next_arrival() < inf or scheduler.unfinished or self._under_way:
            if not scheduler.unfinished and not self._under_way:
                self._now = max(self._now, self._next_arrival())
            if self._now >= self._until_s:
                break
            self._arrive()
            if self._decode_ahead():
                continue
            if scheduler.unfinished:
                self._launch()
                if len(self._under_way) < self._depth:
                    continue
            done = self._under_way.popleft()
            if not self._complete(done):
                break
            if self._stands_still(done) and not self._spin():
                break
            if done.step.preempted and self._thrashes():
                break
        return self._result()

    def _next_arrival(self) -> float:
        return self._coming[0].request.arrival_s if self._coming else inf

    def _arrive(self) -> None:
        while self._next_arrival() <= self._now:
            live = self._coming.popleft()
            live.served.added_s = self._now
            self._scheduler.add(live)

    def _launch(self) -> None:
        """Schedule a step and send it to the device."""
        scheduler = self._scheduler
        step = scheduler.schedule()
        for live in step.admitted:
            if live.served.first_scheduled_s is None:
                live.served.first_scheduled_s = self._now
        start = max(self._now, self._device_free_s)
        end = self._pace.end(start, self._seconds(step)) if step.tokens or not self._settings.async_scheduling else start
        self._last = self._launched(step, start, end, scheduler.pool.used)
        self._under_way.append(self._last)
        self._device_free_s = end

    def _seconds(self, step: Step) -> float:
        prefills = step.prefill_tokens > 0
        seconds = self._step_time.seconds(step.tokens, step.running, prefill=prefills, attended=step.attended, kv_tokens=step.kv_tokens)
        return seconds + step.load_s

    def _launched(self, step: Step, start: float, end: float, used: int) -> Launched:
        return Launched(step, start, end, used, self._scheduler.pool.evictable, self._scheduler.counts.preemptions)

    def _complete(self, launched: Launched) -> bool:
        """Wait for a step and take in its output; False where that is later than the replay goes."""
        if launched.end_s > self._until_s:
            self._now = self._until_s
            return False
        self._now = max(self._now, launched.end_s)
        finished = self._scheduler.update(launched.step)
        _mark_first_tokens(launched)
        for live in finished:
            live.served.finish_s = self._now
            live.served.output_tokens = live.tokens - live.request.prompt_tokens
        self._record.step(launched, self._scheduler.pool.used)
        return True

    def _decode_ahead(self) -> bool:
        """Take a run of equal decode steps in one go, if there is one; it ends where an arrival comes in between."""
        if not self._only_decodes():
            return False
        scheduler, behind = self._scheduler, self._settings.async_scheduling
        ahead = DecodeAhead(scheduler)
        running = len(scheduler.running)
        start = max(self._now, self._device_free_s)
        ends = self._pace.ends(start, self._step_time.decode_seconds(running, running, ahead.kv_tokens, ahead.passes))
        starts = np.concatenate(([start], ends[:-1])) if ahead.passes else ends
        # until then each pass waits, for the output of its own step or of the one before
        clock = starts if behind else ends
        before_arrival = 1 + int(np.searchsorted(clock, self._next_arrival()))
        passes = min(ahead.passes, before_arrival, int(np.searchsorted(clock, self._until_s, side="right")))
        if not passes:
            return False
        used = scheduler.pool.used + ahead.take(passes)
        step = Step(sampling=scheduler.running.copy(), tokens=running, kv_tokens=ahead.kv_tokens, running=running)
        step.waiting = len(scheduler.waiting)
        launched = self._launched(step, start, float(ends[0]), int(used[0]))
        told = passes
        if behind:
            # the step that is under way ends, and the last one is under way then
            before = self._under_way.popleft()
            _mark_first_tokens(before)
            self._record.step(before, launched.used)
            told -= 1
        if told:
            self._record.run(launched, Run(starts[:told], ends[:told], used[:told], used[passes - told :]))
        self._now = float(clock[passes - 1])
        self._last = replace(launched, start_s=float(starts[passes - 1]), end_s=float(ends[passes - 1]), used=int(used[-1]))
        self._device_free_s = self._last.end_s
        if behind:
            self._under_way.append(self._last)
        return True

    def _only_decodes(self) -> bool:
        """The last pass gave every running request a token, and nothing has changed since."""
        last, scheduler = self._last, self._scheduler
        if last is None or not scheduler.running or not last.step.plain:
            return False
        if self._settings.async_scheduling and len(last.step.sampling) != len(scheduler.running):
            return False
        if not len(scheduler.waiting):
            return True
        # what L2 takes in meanwhile can let the head of the queue in where more than its length decides
        return scheduler.blocked and (not self._host or (self._settings.reserve_full_isl and self._settings.chunked_prefill))

    def _stands_still(self, done: Launched) -> bool:
        """Nothing runs on the device, nothing could be scheduled, and no pass changed anything: only an arrival can."""
        last = self._last or done
        return not last.step.preempted and not any(launched.step.tokens for launched in (done, last, *self._under_way))

    def _spin(self) -> bool:
        """Let time pass until something arrives; False where nothing will."""
        scheduler, arrival = self._scheduler, self._next_arrival()
        if not scheduler.unfinished:
            return True
        head = scheduler.running[0] if scheduler.running else scheduler.waiting.head()
        head.served.refused = reason(head, self._settings)
        if not self._settings.async_scheduling:
            self._spin_until(arrival)
        elif arrival < inf:
            # an empty step takes no time on the device
            self._now = max(self._now, arrival)
        return arrival < inf

    def _spin_until(self, arrival: float) -> None:
        """The steps without tokens that an engine makes meanwhile."""
        step = Step(running=len(self._scheduler.running), waiting=len(self._scheduler.waiting))
        seconds = self._seconds(step)
        if arrival == inf:
            most = max(0, _PATIENCE + 1 - self._record.steps)
        elif seconds > 0:
            most = max(0, int((min(arrival, self._until_s) - self._now) / seconds) + 2)
        else:
            self._now = max(self._now, arrival)
            return
        ends = self._pace.ends(self._now, np.full(most, seconds))
        steps = min(most, 1 + int(np.searchsorted(ends, arrival)), int(np.searchsorted(ends, self._until_s, side="right")))
        if not steps or arrival <= self._now:
            return
        used = np.full(steps, self._scheduler.pool.used)
        starts = np.concatenate(([self._now], ends[: steps - 1]))
        like = self._launched(step, self._now, float(ends[0]), int(used[0]))
        self._record.run(like, Run(starts, ends[:steps], used, used))
        self._now = float(ends[steps - 1])

    def _thrashes(self) -> bool:
        """Nothing arrives any more, and requests do nothing but preempt each other."""
        counts = self._scheduler.counts
        made, preemptions = self._progress
        if counts.made > made:
            self._progress = counts.made, counts.preemptions
            return False
        unfinished = len(self._scheduler.running) + len(self._scheduler.waiting)
        if self._coming or counts.preemptions - preemptions < _PREEMPTIONS + _PREEMPTIONS_EACH * unfinished:
            return False
        for live in (*self._scheduler.running, *self._scheduler.waiting):
            live.served.refused = reason(live, self._settings) if live.tokens > self._settings.l1_tokens else ""
        return True

    def _result(self) -> Replayed:
        end = min(self._now, self._until_s)
        for live in (*self._scheduler.running, *self._scheduler.waiting):
            live.served.output_tokens = live.tokens - live.request.prompt_tokens
        return Replayed(
            requests=[served for served in self._served if served.arrival_s <= end],
            curves=self._record.curves,
            end_s=end,
            l1_tokens=self._settings.l1_tokens,
            retractions=self._scheduler.counts.preemptions,
            l2_loaded_tokens=self._host.loaded_tokens if self._host else 0,
            l2_load_s=self._host.load_s if self._host else 0.0,
        )


def _mark_first_tokens(launched: Launched) -> None:
    for live in launched.step.starting:
        if live.served.first_token_s is None:
            live.served.first_token_s = launched.end_s
