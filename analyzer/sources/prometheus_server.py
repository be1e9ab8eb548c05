"""A live Prometheus server as an input, read over its HTTP API.

Raw samples are asked for where no step is given: an instant query for a range selector answers with what was
scraped, at the times of the scrapes. The time is asked for in chunks, which are halved when one is too much for
the server. Every answer is one line of JSON, which the reader of API answers then reads.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from analyzer.errors import KvpmError, NothingUsableError
from analyzer.sources.prometheus_api import NARROWER, Client, PrometheusOptions, RefusedError

# The names this tool knows begin like this; Ray and OpenTelemetry write `_` for `:`, and Ray puts its own name
# in front. Left out: creation times, which repeat what the process start tells, results of recording rules
# (level:metric:operation), and the histograms of single functions, which are many and answer nothing here.
_WANTED = "(ray_)?(sglang|vllm|lmcache)[:_].+"
_UNWANTED = ".+_created|[^:]+:[^:]*:.*|sglang[:_]func_latency_seconds_(bucket|sum|count)"
# Every program exports these, so they are asked for only of the targets that export one of the above: when the
# process started tells runs apart, and `up` a server that was down from one that was not scraped.
_COMPANIONS = "up|process_start_time_seconds"
_TARGETS_A_QUERY = 40
_DEFAULT_SPAN = timedelta(hours=6)
# Half a million samples are some 15 MB of JSON and well below a server's own limit, 50 million by default.
_MOST_SAMPLES = 500_000
# What Prometheus gives of one series in answer to a range query.
_MOST_POINTS = 11_000
# The density of the samples is measured in so many slices.
_SLICES = 120
_SHORTEST_MS = 1000
# Halving helps against a limit at once. Against a slow server each try costs its whole timeout.
_SLOW_HALVINGS = 4
_SELECTORS = "--match takes series selectors, such as 'vllm:num_requests_running' or '{__name__=~\"vllm:.+\",pod=\"a\"}'"


def preset_selectors() -> tuple[str, ...]:
    """The series selectors that are read when the user names none, without the targets' own series."""
    return (f'{{__name__=~"{_WANTED}",__name__!~"{_UNWANTED}"}}',)


class PrometheusInput:
    """The answers of one server, each one line of JSON, in about the order of time.

    After iteration `cut` says whether the server failed halfway, with the reason in `notes`; `size` is the
    bytes received, unpacked, and `sha256` is of the lines given.
    """

    def __init__(self, options: PrometheusOptions) -> None:
        """Raises KvpmError for a URL, a header or a file that cannot be used, and a time that is none."""
        self.cut = False
        self.notes: list[str] = []
        self.packing: str | None = None
        self._step_ms: int | None = None
        if options.step_s is not None:
            if not (math.isfinite(options.step_s) and options.step_s >= 0.001):
                raise KvpmError(f"a step of {options.step_s:g} s is none", hint="give seconds: --step 15")
            self._step_ms = round(options.step_s * 1000)
        until = options.until or datetime.now(UTC)
        since = options.since or until - _DEFAULT_SPAN
        if since >= until:
            span = f"{_said(since.timestamp())} and {_said(until.timestamp())}"
            raise KvpmError(f"no time between {span}", hint="--since must be before --until")
        # Chunks are half-open, (after, last], as Prometheus 3 reads a range; the first sample is one at `since`.
        self._after = math.ceil(since.timestamp() * 1000) - 1
        self._last = math.floor(until.timestamp() * 1000)
        self._read_until = self._after
        self._match = options.match
        self._client = Client(options)
        self._owners: dict[bytes, int] = {}
        self._hash = hashlib.sha256()
        self._given = False
        if options.since is None:
            self.notes.append(f"read from {_said(since.timestamp())} on; --since names another time")
        if options.insecure:
            self.notes.append("the certificate of the server was not checked")

    @property
    def size(self) -> int:
        """Bytes received so far, unpacked."""
        return self._client.received

    @property
    def sha256(self) -> str | None:
        """Hash of the lines given: the same for the same time of a server that has not changed."""
        return self._hash.hexdigest() if self._given else None

    def __iter__(self) -> Iterator[bytes]:
        """Raises KvpmError when the server cannot be asked, NothingUsableError when it has no sample of these series."""
        try:
            selectors = list(self._match or preset_selectors())
            for selector in selectors:
                self._check(selector)
            for answer in self._answers(selectors):
                line = orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)
                self._hash.update(line)
                self._given = True
                yield line
        except KvpmError as error:
            if not self._given:
                raise
            self.cut = True
            self.notes.append(f"what the server holds after {_said(self._read_until / 1000)} was not read: {error.message}")
            return
        if not self._given:
            raise self._nothing(selectors)

    def _check(self, selector: str) -> None:
        """Ask for next to nothing, so that a wrong selector is told as it was written."""
        try:
            reply = self._client.get("query", query=f"{selector}[1ms]", time=_seconds(self._last))
        except RefusedError as error:
            if error.slow:
                raise
            raise KvpmError(error.message, hint=_SELECTORS) from None
        if reply["data"].get("resultType") != "matrix":
            raise KvpmError("--match holds something else than a series selector", hint=_SELECTORS)

    def _answers(self, selectors: list[str]) -> Iterator[dict[str, Any]]:
        """The answers for all selectors, the earliest chunk that is left first, so that a break leaves a beginning."""
        plans: list[_Plan] = []
        targets: set[tuple[str, str]] = set()
        for selector in selectors:
            slices, seen = self._density(selector)
            targets |= seen
            plans.append(self._plan(selector, slices))
        if not self._match:
            plans += [self._plan(selector, self._density(selector)[0]) for selector in _companions(targets)]
        slow = 0
        while waiting := [p for p in plans if p.after < self._last]:
            plan = min(waiting, key=lambda p: p.after)
            self._read_until = plan.after
            last, series_s = plan.next_chunk()
            try:
                answer = self._chunk(plan.selector, plan.after, last)
            except RefusedError as error:
                slow += error.slow
                if last - plan.after <= _SHORTEST_MS or slow > _SLOW_HALVINGS:
                    raise
                plan.longest_ms = (last - plan.after + 1) // 2
                continue
            slow = 0
            result = answer["data"]["result"]
            if self._step_ms is None:
                plan.learn(sum(len(s.get("values", ())) for s in result), series_s)
            plan.after = last
            if len(plans) > 1:
                number = plans.index(plan)
                answer["data"]["result"] = [s for s in result if self._owner(s["metric"], number)]
            if answer["data"]["result"]:
                yield answer

    def _plan(self, selector: str, slices: list[tuple[int, int]]) -> _Plan:
        if self._step_ms is None:
            return _Plan(selector, slices, self._after, self._last, rate=1.0, longest_ms=self._last - self._after)
        return _Plan(selector, slices, self._after, self._last, rate=1000 / self._step_ms, longest_ms=_MOST_POINTS * self._step_ms)

    def _owner(self, labels: dict[str, str], plan: int) -> bool:
        """True for the selector that brought a series first: a series that two of them match is read once."""
        key = hashlib.blake2b(orjson.dumps(labels, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
        return self._owners.setdefault(key, plan) == plan

    def _chunk(self, selector: str, after: int, last: int) -> dict[str, Any]:
        """The samples in (after, last], in milliseconds, of the series that have one."""
        if self._step_ms is None:
            reply = self._client.get("query", query=f"{selector}[{last - after}ms]", time=_seconds(last))
        else:
            # Steps lie on multiples of the step, where VictoriaMetrics and Mimir would move them to anyway.
            first, final = (after // self._step_ms + 1) * self._step_ms, last // self._step_ms * self._step_ms
            if first > final:
                return {"status": "success", "data": {"resultType": "matrix", "result": []}}
            reply = self._client.get(
                "query_range", query=selector, start=_seconds(first), end=_seconds(final), step=_seconds(self._step_ms)
            )
        result = []
        for series in reply["data"]["result"]:
            for kind in ("values", "histograms"):
                samples = series.get(kind)
                # Prometheus 2 takes the left end of a range too; what stands there came with the chunk before.
                while samples and round(samples[0][0] * 1000) <= after:
                    del samples[0]
            if series.get("values") or series.get("histograms"):
                result.append(series)
        told = {key: reply[key] for key in ("warnings", "infos") if reply.get(key)}
        return {"status": "success", "data": {"resultType": "matrix", "result": result}, **told}

    def _density(self, selector: str) -> tuple[list[tuple[int, int]], set[tuple[str, str]]]:
        """How many series have a sample in each slice of the time, as (end in ms, series); and their targets (job, instance).

        The slices' ends are multiples of their width, where every server leaves them; the first and the last
        reach beyond the time asked for.
        """
        width = math.ceil((self._last - self._after) / _SLICES / 1000) * 1000
        # The one function over time that keeps the name: without it series of several names would be the same.
        query = f"count by (job, instance) (last_over_time({selector}[{width}ms]))"
        ends = range((self._after // width + 1) * width, self._last + width, width)
        counts = dict.fromkeys(ends, 0)
        targets: set[tuple[str, str]] = set()
        waiting, slow = [ends], 0
        while waiting:
            part = waiting.pop()
            try:
                reply = self._client.get("query_range", query=query, start=_seconds(part[0]), end=_seconds(part[-1]), step=_seconds(width))
            except RefusedError as error:
                slow += error.slow
                if len(part) == 1 or slow > _SLOW_HALVINGS:
                    raise
                half = len(part) // 2
                waiting += [part[half:], part[:half]]
                continue
            for target in reply["data"]["result"]:
                targets.add((target["metric"].get("job", ""), target["metric"].get("instance", "")))
                for when, count in target["values"]:
                    end = round(when * 1000)
                    counts[end] = counts.get(end, 0) + int(float(count))
        return sorted(counts.items()), targets

    def _nothing(self, selectors: list[str]) -> NothingUsableError:
        """Why there is no sample: no such series at all, or none at that time; with what the server has instead."""
        span = f"between {_said((self._after + 1) / 1000)} and {_said(self._last / 1000)}"
        try:
            found = self._client.get("series", *(("match[]", s) for s in selectors), start="0", end=_seconds(self._last))["data"]
            if found:
                return NothingUsableError(
                    f"{self._client.name}: {len(found)} series match, and none has a sample {span}",
                    hint="name the time with --since and --until",
                )
            names = self._client.get("label/__name__/values")["data"]
        except KvpmError:
            return NothingUsableError(f"{self._client.name} has no sample of these series {span}", hint=NARROWER)
        begins = Counter(m[0] for n in names if (m := re.match(r"[A-Za-z0-9]+[:_]?", n)))
        has = ", ".join(prefix for prefix, _ in begins.most_common(5))
        return NothingUsableError(
            f"{self._client.name}: 0 series match {'the given selectors' if self._match else 'the names of SGLang, vLLM or LMCache'}",
            hint=f"most names on this server begin with {has}; name others with --match" if has else "this server has no series at all",
        )


@dataclass(slots=True, eq=False)
class _Plan:
    """What is still to be read of one selector: the time from `after` to `last`, in ms.

    `slices` are (end, series that are there); `rate` is how many samples a series has in a second, once a
    second until it is learned. No chunk is longer than `longest_ms`.
    """

    selector: str
    slices: list[tuple[int, int]]
    after: int
    last: int
    rate: float
    longest_ms: int

    def next_chunk(self) -> tuple[int, float]:
        """Where the next chunk ends, so that it holds about _MOST_SAMPLES, and its series x seconds."""
        limit = min(self.last, self.after + self.longest_ms)
        most = _MOST_SAMPLES / self.rate
        edge, held = self.after, 0.0
        for end, series in self.slices:
            span = min(end, limit) - edge
            if span <= 0:
                continue
            more = series * span / 1000
            if held + more > most:
                span = max(int(span * (most - held) / more), 1)
                return edge + span, held + series * span / 1000
            edge, held = edge + span, held + more
        return limit, held

    def learn(self, samples: int, series_s: float) -> None:
        """Take the rate from what a chunk brought, downwards in steps: others may be scraped more often."""
        if samples and series_s:
            self.rate = max(samples / series_s, self.rate / 4)


def _companions(targets: set[tuple[str, str]]) -> Iterator[str]:
    """Selectors of the targets' own series, some targets each."""
    jobs: dict[str, list[str]] = {}
    for job, instance in sorted(targets):
        jobs.setdefault(job, []).append(instance)
    for job, instances in jobs.items():
        for at in range(0, len(instances), _TARGETS_A_QUERY):
            some = "|".join(re.escape(i) for i in instances[at : at + _TARGETS_A_QUERY])
            yield f'{{__name__=~"{_COMPANIONS}",job={_quoted(job)},instance=~{_quoted(some)}}}'


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03d}"


def _said(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
