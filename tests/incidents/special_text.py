"""What all the renderings share: lines with their times, client records, and histograms of what was seen."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from special_engine import Request, Sample

from sample_traces.generator.exposition import Histogram, packed

BASE = datetime(2026, 4, 14, 13, 20, 0, tzinfo=UTC)
EPOCH = BASE.timestamp()


class Lines:
    """Lines with times in seconds after BASE; the text has them in order."""

    def __init__(self) -> None:
        self._lines: list[tuple[float, int, str]] = []

    def add(self, t: float, text: str) -> None:
        """One line, or several that belong together."""
        self._lines.append((t, len(self._lines), text))

    def extend(self, other: Lines) -> None:
        """The lines of another process in the same file."""
        for t, _, text in sorted(other._lines):
            self.add(t, text)

    def cut(self, after: float) -> None:
        """Nothing is printed after this."""
        self._lines = [line for line in self._lines if line[0] <= after]

    def data(self) -> bytes:
        """The whole file."""
        return "".join(text + "\n" for _, _, text in sorted(self._lines)).encode()


def clock(t: float, form: str) -> str:
    """The time of day at t."""
    return (BASE + timedelta(seconds=t)).strftime(form)


def name_of(number: int) -> str:
    """A request's id: looks random, says nothing."""
    return f"{random.Random(number).getrandbits(80):020x}"


def client_lines(requests: Iterable[Request], until: float, url: str, lost_at: float | None = None) -> bytes:
    """One JSON line per request. `lost_at`: the server died then, and open connections with it."""
    rows = []
    for r in sorted(requests, key=lambda r: r.at):
        if r.at >= until:
            continue
        row = {
            "id": r.number, "send": round(EPOCH + r.at, 4), "ttft": None, "e2e": None, "prompt_tokens": r.prompt,
            "requested_output_tokens": r.limit, "output_tokens": None, "error": None, "pending": False, "server": url,
        }  # fmt: skip
        if r.first is not None:
            row["ttft"] = round(r.first - r.at, 4)
        if r.error is not None:
            row |= {"ttft": None if not r.out else row["ttft"], "e2e": round((r.done or until) - r.at, 4), "output_tokens": r.out}
            row["error"] = r.error
        elif r.done is not None:
            row |= {"e2e": round(r.done - r.at, 4), "output_tokens": r.out}
        elif lost_at is not None:
            gone = r.at >= lost_at
            row |= {"e2e": 0.002 if gone else round(lost_at - r.at, 4), "output_tokens": r.out}
            row["error"] = "connection refused" if gone else "connection lost"
        else:
            row["pending"] = True
        rows.append(row)
    return packed("".join(json.dumps(row) + "\n" for row in rows))


class Growing:
    """A histogram that grows from sample to sample; `at` gives it as it is now."""

    def __init__(self, bounds: Sequence[float], name: str, scale: float = 1.0) -> None:
        self._now, self._name, self._scale = Histogram(bounds), name, scale

    def at(self, sample: Sample) -> Histogram:
        """With what this sample saw."""
        for value in sample.seen.get(self._name, ()):
            self._now.observe(value * self._scale)
        copy = Histogram(self._now.bounds)
        copy.counts, copy.sum = list(self._now.counts), self._now.sum
        return copy
