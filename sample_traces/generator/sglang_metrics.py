"""SGLang's metrics endpoint over time, from what the model did; names and labels as each version has them.

Gauges are set at each prefill and decode report, and every 30 s while the scheduler is idle: in between
they are old. A counter or histogram has no series before its first event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sample_traces.generator.exposition import Clock, Event, Family, Histogram, Labels
from sample_traces.generator.render import SGLangServer
from sample_traces.generator.sglang_model import DecodeReport, PoolState, PrefillReport, Report, RetractReport, Seq, SGLangModel, Step

IDLE_REPORT_S = 30.0
TTFT = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
E2E = {"0.4.6": (*TTFT, 800)}
E2E_NEW = (*TTFT, 600, 1200, 1800, 2400)
ITL = tuple(n / 1000 for n in (2, 4, 6, 8, 10, 15, 20, 25, 30, 35, 40, 60, 80, 100, 200, 400, 600, 800, 1000, 2000, 4000, 6000, 8000))
QUEUE = (
    *(0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100),
    *(200, 300, 400, 500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000),
)
PRIORITIES = ("0", "10")
ORDER = ("0.4.6", "0.5.5", "0.5.9", "0.5.23")


class SGLangEndpoint:
    """One process: all its schedulers and the tokenizer manager. `priorities` adds a series per priority to two gauges."""

    def __init__(self, server: SGLangServer, models: Sequence[SGLangModel], *, end: float, priorities: bool = False) -> None:
        self._server = server
        self._since = ORDER.index(server.version)
        self._ranks = [_Rank(server, m, priorities) for m in models]
        self._prompt = self._output = self._finished = 0
        self._cached: dict[str, int] = {}
        self._ttft, self._itl = Histogram(TTFT), Histogram(ITL)
        self._e2e = Histogram(E2E.get(server.version, E2E_NEW))
        events: list[Event] = [e for rank in self._ranks for e in rank.events(end)]
        for model in models:
            events += [(s.t, partial(self._tokens, s)) for s in model.steps]
            for seq in model.seqs:
                if seq.first_token is not None:
                    events.append((seq.first_token, partial(self._ttft.observe, seq.first_token - seq.req.arrival)))
                if seq.finish is not None:
                    events.append((seq.finish, partial(self._finish, seq, seq.finish - seq.req.arrival)))
        self._clock = Clock(events)

    def _has(self, version: str) -> bool:
        return self._since >= ORDER.index(version)

    def _tokens(self, step: Step) -> None:
        for gap, times in step.gaps.items():
            self._itl.observe(gap, times)

    def _finish(self, seq: Seq, e2e: float) -> None:
        self._e2e.observe(e2e)
        self._finished += 1
        self._prompt += seq.req.prompt
        self._output += seq.out
        for source, tokens in (("device", seq.cached_device), ("host", seq.cached_host)):
            if tokens:
                self._cached[source] = self._cached.get(source, 0) + tokens

    def read(self, t: float) -> list[Family]:
        """All families at t."""
        self._clock.advance(t)
        found: dict[str, Family] = {}
        for dp, rank in enumerate(self._ranks):
            labels = self._scheduler_labels(dp)
            for name, kind, own, value in rank.series():
                found.setdefault(name, Family(name, kind)).add({**labels, **own}, value)
        families = list(found.values())
        labels = self._tokenizer_labels()
        ending = {**labels, "is_streaming": "true"} if self._has("0.5.23") else labels
        if self._finished:
            families.append(Family("sglang:prompt_tokens_total", "counter").add(ending, self._prompt))
            families.append(Family("sglang:generation_tokens_total", "counter").add(ending, self._output))
            families.append(Family("sglang:num_requests_total", "counter").add(ending, self._finished))
        if self._cached:
            cached = Family("sglang:cached_tokens_total", "counter")
            if self._has("0.5.23"):
                for source, tokens in self._cached.items():
                    cached.add({**labels, "cache_source": source}, tokens)
            else:
                cached.add(labels, sum(self._cached.values()))
            families.append(cached)
        for name, histogram, which in (
            ("sglang:time_to_first_token_seconds", self._ttft, ending),
            ("sglang:inter_token_latency_seconds", self._itl, labels),
            ("sglang:e2e_request_latency_seconds", self._e2e, ending),
        ):
            if histogram.count:
                families.append(Family(name, "histogram").add(which, histogram))
        return families

    def _tokenizer_labels(self) -> Labels:
        model = {"model_name": self._server.model.path.rsplit("/", 1)[-1]}
        return model if not self._has("0.5.5") else {**model, "engine_type": "unified"}

    def _scheduler_labels(self, dp: int) -> Labels:
        labels = self._tokenizer_labels()
        if self._has("0.5.5"):
            labels |= {"tp_rank": "0", "pp_rank": "0"}
            if self._server.dp > 1:
                labels["dp_rank"] = str(dp)
        if self._has("0.5.9"):
            labels["moe_ep_rank"] = "0"
        return labels


class _Rank:
    """What one scheduler exports."""

    def __init__(self, server: SGLangServer, model: SGLangModel, priorities: bool) -> None:
        self._server, self._model, self._priorities = server, model, priorities
        self._since = ORDER.index(server.version)
        self._step: Step | None = None
        self._pool = PoolState(available=model.pool.capacity)
        self._running = self._queue = 0
        self._queued: tuple[int, ...] = ()
        self._throughput = self._hit_rate = 0.0
        self._ratio: float | None = None
        self._retracted = self._retracted_shown = 0
        self._counters: dict[str, int] = {}
        self._modes: dict[str, int] = {}
        self._waits = Histogram(QUEUE)

    def _has(self, version: str) -> bool:
        return self._since >= ORDER.index(version)

    def events(self, end: float) -> list[Event]:
        """Everything that changes what is exported, idle reports until `end` too."""
        early = self._server.format.prefill_when_scheduled
        events: list[Event] = []
        told = []
        for report in self._model.reports:
            t = report.sched_t if early and isinstance(report, PrefillReport) else report.t
            told.append(t)
            events.append((t, partial(self._report, report)))
        events += [(step.t, partial(self._count, step)) for step in self._model.steps]
        first = [(s.admitted, s.req.arrival) for s in self._model.seqs if s.admitted is not None]
        events += [(admitted, partial(self._waits.observe, admitted - arrival)) for admitted, arrival in first]
        begins = [s.started for s in self._model.steps[1:]] + [end]
        for step, begin in zip(self._model.steps, begins, strict=True):
            if begin - step.t < 1e-6:
                continue
            last = max((t for t in told if t <= step.t), default=step.t)
            t = max(step.t, last + IDLE_REPORT_S)
            while t < begin:
                events.append((t, partial(self._idle, step.pool)))
                t += IDLE_REPORT_S
        return events

    def _report(self, report: Report) -> None:
        if isinstance(report, RetractReport):
            self._retracted = report.requests  # the last event before a report wins
            for name, more in (
                ("num_retracted_requests_total", report.requests),
                ("num_retracted_input_tokens_total", report.input_tokens),
                ("num_retracted_output_tokens_total", report.output_tokens),
            ):
                self._counters[name] = self._counters.get(name, 0) + more
            return
        self._running, self._queue, self._queued = report.running, report.queue, report.queued
        self._retracted_shown, self._retracted = self._retracted, 0
        if isinstance(report, DecodeReport):
            self._pool, self._throughput = report.pool, report.throughput
            if not self._has("0.5.23"):
                self._hit_rate = 0.0
            return
        early = self._server.format.prefill_when_scheduled
        self._pool = report.pool_before if early else report.pool
        self._ratio = report.ratio
        looked_up = report.new_tokens + report.cached_tokens
        self._hit_rate = report.cached_tokens / looked_up if looked_up else 0.0

    def _idle(self, pool: PoolState) -> None:
        self._running, self._queue, self._queued, self._throughput, self._pool = 0, 0, (), 0.0, pool
        self._retracted_shown, self._retracted = self._retracted, 0

    def _count(self, step: Step) -> None:
        self._step = step
        for mode, more in (
            ("prefill_compute", step.prefill_tokens),
            ("prefill_cache", step.cached_tokens),
            ("decode", step.decode_tokens),
        ):
            if more:
                self._modes[mode] = self._modes.get(mode, 0) + more

    def series(self) -> list[tuple[str, str, Labels, float | Histogram]]:
        """Name, type, own labels and value of each series; those of a metric follow each other."""
        rows: list[tuple[str, str, Labels, float | Histogram]] = []

        def gauge(name: str, value: float, **labels: str) -> None:
            rows.append((f"sglang:{name}", "gauge", labels, value))

        capacity = self._model.pool.capacity
        usage = self._pool.used / capacity
        rounded = self._since in (ORDER.index("0.4.6"), ORDER.index("0.5.23"))
        if self._priorities:
            self._by_priority(gauge)
        else:
            gauge("num_running_reqs", self._running)
            gauge("num_queue_reqs", self._queue)
        gauge("token_usage", round(usage, 2) if rounded else usage)
        gauge("num_used_tokens", self._pool.used)
        gauge("gen_throughput", round(self._throughput, 6))
        gauge("cache_hit_rate", self._hit_rate)
        if self._has("0.5.5"):
            # declared without a multiprocess mode, so it carries the process id
            gauge("num_retracted_reqs", self._retracted_shown, pid=str(self._server.pid + 5))
            if self._waits.count:
                rows.append(("sglang:queue_time_seconds", "histogram", {}, self._waits))
        if self._has("0.5.9"):
            gauge("max_total_num_tokens", capacity)
            if self._ratio is not None:
                gauge("new_token_ratio", round(self._ratio, 6))
            rows += [(f"sglang:{name}", "counter", {}, value) for name, value in self._counters.items()]
            rows += [("sglang:realtime_tokens_total", "counter", {"mode": m}, value) for m, value in self._modes.items()]
            if self._step and self._step.evicted:
                rows.append(("sglang:evicted_tokens_total", "counter", {}, self._step.evicted))
        if self._has("0.5.23"):
            gauge("full_token_usage", round(usage, 2))
            gauge("kv_used_tokens", self._pool.used)
            gauge("kv_evictable_tokens", self._pool.evictable)
            gauge("kv_available_tokens", self._pool.available)
            gauge("page_size", self._model.cfg.page_size)
            gauge("num_pages", capacity // self._model.cfg.page_size)
            gauge("context_len", self._server.context_len)
            if self._server.host_tokens:
                self._host_tier(rows)
        return rows

    def _host_tier(self, rows: list[tuple[str, str, Labels, float | Histogram]]) -> None:
        rows.append(("sglang:hicache_host_used_tokens", "gauge", {}, self._pool.host_used))
        rows.append(("sglang:hicache_host_total_tokens", "gauge", {}, self._server.host_tokens))
        if self._step and self._step.loaded:
            rows.append(("sglang:load_back_tokens_total", "counter", {"pool": "kv"}, self._step.loaded))
        if self._step and self._step.stored:
            rows.append(("sglang:hicache_backup_tokens_total", "counter", {"pool": "kv"}, self._step.stored))

    def _by_priority(self, gauge: Callable[..., None]) -> None:
        gauge("num_running_reqs", self._running, priority="")
        gauge("num_queue_reqs", self._queue, priority="")  # all of them
        for priority in PRIORITIES:
            gauge("num_queue_reqs", sum(priority_of(rid) == priority for rid in self._queued), priority=priority)


def priority_of(rid: int) -> str:
    """Every third request is an urgent one."""
    return "10" if rid % 3 == 0 else "0"
