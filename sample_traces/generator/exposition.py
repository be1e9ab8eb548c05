"""Metric families and how a scraper saves them: exposition text, or what Prometheus' API answers.

HELP lines and `_created` series are left out; both can be absent on a real server too.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Labels = dict[str, str]


class Histogram:
    """Counts by upper bound, not yet cumulated; the last count is above all bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """A value equal to a bound is below it."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        """All observations."""
        return sum(self.counts)


@dataclass(slots=True)
class Family:
    """One metric with its series: full sample name, labels, value."""

    name: str
    type: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)

    def add(self, labels: Labels, value: float | Histogram) -> Family:
        """One more series (a histogram is many)."""
        if not isinstance(value, Histogram):
            self.samples.append((self.name, labels, value))
            return self
        total = 0
        for bound, count in zip((*map(_number, value.bounds), "+Inf"), value.counts, strict=True):
            total += count
            self.samples.append((f"{self.name}_bucket", {**labels, "le": bound}, total))
        self.samples.append((f"{self.name}_count", labels, total))
        self.samples.append((f"{self.name}_sum", labels, round(value.sum, 6)))
        return self


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one read of the endpoint gave; None: nobody answered."""

    ts: float  # epoch seconds
    families: list[Family] | None


def _number(value: float) -> str:
    return repr(float(value))


def as_text(scrapes: Sequence[Scrape]) -> bytes:
    """Scrapes one after the other, each behind its time; what a loop around curl saves."""
    out: list[str] = []
    for scrape in scrapes:
        out.append(f"# scrape_ts {scrape.ts:.3f}")
        if scrape.families is None:
            out.append("# scrape_failed curl_rc=7")
            continue
        for family in scrape.families:
            out.append(f"# TYPE {family.name} {family.type}")
            for name, labels, value in family.samples:
                inside = ",".join(f'{k}="{labels[k]}"' for k in sorted(labels))
                out.append(f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}")
    return packed("".join(line + "\n" for line in out))


def as_query_range(scrapes: Sequence[Scrape], job: Labels) -> bytes:
    """One answer of the query_range API with all series; an empty label is no label there."""
    series: dict[tuple[tuple[str, str], ...], list[tuple[float, str]]] = {}
    for scrape in scrapes:
        for family in scrape.families or ():
            for name, labels, value in family.samples:
                metric = {"__name__": name, **{k: v for k, v in labels.items() if v}, **job}
                series.setdefault(tuple(sorted(metric.items())), []).append((scrape.ts, f"{value:.15g}"))
    result = [{"metric": dict(metric), "values": values} for metric, values in series.items()]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return packed(json.dumps(answer, separators=(",", ":")) + "\n")


def as_long_csv(scrapes: Sequence[Scrape], job: Labels) -> bytes:
    """One row per sample: time, name, value, one column per label."""
    rows = [(s.ts, name, value, labels) for s in scrapes for f in s.families or () for name, labels, value in f.samples]
    columns = sorted({k for *_, labels in rows for k in labels} | set(job))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["timestamp", "metric", "value", *columns])
    for ts, name, value, labels in rows:
        table.writerow([f"{ts:.3f}", name, f"{value:.15g}", *({**labels, **job}.get(c, "") for c in columns)])
    return packed(text.getvalue())


def packed(text: str) -> bytes:
    """gzip without a time stamp: the same text gives the same bytes."""
    return gzip.compress(text.encode(), 9, mtime=0)


def scrape_times(start: float, end: float, every: float) -> list[float]:
    """The moments a scraper reads at."""
    return [round(start + k * every, 3) for k in range(int((end - start) // every) + 1)]


Event = tuple[float, Callable[[], None]]


class Clock:
    """Runs events in time order, up to the moment a scrape looks."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = sorted(events, key=lambda e: e[0])  # stable: equal times keep their order
        self._next = 0

    def advance(self, t: float) -> None:
        """Everything up to and with t has happened."""
        while self._next < len(self._events) and self._events[self._next][0] <= t:
            self._events[self._next][1]()
            self._next += 1
