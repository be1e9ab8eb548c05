"""What is left of a case when inputs, or parts of them, were not kept."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from incident import Incident

Files = dict[str, bytes]

WHOLE, BARE, MIDDLE = "whole", "start-up and access only", "middle third"
_STAMP = re.compile(r"(?:(\d{4})-)?(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)")
_STAMP_WITHIN = 90  # characters: a stamp stands at the front of a line, behind process tags
_REPORT = re.compile(r"(Prefill|Decode) batch|Avg prompt throughput|etract|preempted|[Ii]teration\(")
_QUIET_TTFT_S = 2.0
_QUIET_TOKEN_S = 0.05


def left_of(case: Incident, files: Files, variant: str) -> Files | None:
    """The files of a variant; None when nothing is left, or nothing was taken away."""
    left = VARIANTS[variant](case, files)
    return None if not left or (variant != WHOLE and left == files) else left


def _without(kind: str) -> Callable[[Incident, Files], Files]:
    def drop(case: Incident, files: Files) -> Files:
        return {name: data for name, data in files.items() if name not in getattr(case, kind)}

    return drop


def _bare(case: Incident, files: Files) -> Files:
    """Logs up to their first report, and access lines: nothing that tells of the scheduler."""
    found = {}
    for name in case.logs:
        lines = _text(name, files[name]).splitlines(keepends=True)
        first = next((n for n, s in enumerate(lines) if _REPORT.search(s)), None)
        if first is None:
            return {}
        found[name] = _packed(name, "".join(s for n, s in enumerate(lines) if n < first or ' HTTP/1.1" 200' in s))
    return found


def _middle(case: Incident, files: Files) -> Files:
    """Every input cut to the same middle third of the case's time."""
    third = middle_third(case, files)
    if third is None:
        return {}
    start, end = third
    found: Files = {}
    for name in case.logs:
        found[name] = _packed(name, _between(timed_lines(_text(name, files[name])), start, end))
    for name in case.metrics:
        found[name] = _packed(name, _between(timed_scrapes(_text(name, files[name])), start, end))
    for name in case.clients:
        rows = (s for s in _text(name, files[name]).splitlines(keepends=True) if start <= json.loads(s)["send"] < end)
        found[name] = _packed(name, "".join(rows))
    return {name: data for name, data in found.items() if _text(name, data)}


VARIANTS: dict[str, Callable[[Incident, Files], Files]] = {
    WHOLE: lambda case, files: files,
    "no metrics": _without("metrics"),
    "no log": _without("logs"),
    MIDDLE: _middle,
    BARE: _bare,
}


# -- time


def middle_third(case: Incident, files: Files) -> tuple[float, float] | None:
    """The middle third between the first and the last moment of any input, in epoch seconds; None where nothing is timed."""
    moments = [t for name in case.logs for t, _ in timed_lines(_text(name, files[name])) if t is not None]
    moments += [t for name in case.metrics for t, _ in timed_scrapes(_text(name, files[name])) if t is not None]
    moments += [row["send"] for row in client_rows(case, files)]
    if not moments:
        return None
    first, last = min(moments), max(moments)
    return first + (last - first) / 3, last - (last - first) / 3


def timed_lines(text: str) -> list[tuple[float | None, str]]:
    """Each line with its time in epoch seconds; one without a stamp has that of the line before."""
    found: list[tuple[float | None, str]] = []
    now: float | None = None
    for line in text.splitlines(keepends=True):
        stamp = _STAMP.search(line, 0, _STAMP_WITHIN)
        if stamp:
            year, *rest = stamp.groups()
            month, day, hour, minute, second = (int(part) for part in rest)
            now = datetime(int(year or 2026), month, day, hour, minute, second, tzinfo=UTC).timestamp()
        found.append((now, line))
    return found


def timed_scrapes(text: str) -> list[tuple[float | None, str]]:
    """Each line of saved scrapes with the time of its scrape."""
    found: list[tuple[float | None, str]] = []
    now: float | None = None
    for line in text.splitlines(keepends=True):
        if line.startswith("# scrape_ts "):
            now = float(line.split()[2])
        found.append((now, line))
    return found


def _between(lines: Iterable[tuple[float | None, str]], start: float, end: float) -> str:
    return "".join(line for t, line in lines if t is not None and start <= t < end)


def client_rows(case: Incident, files: Files) -> list[dict[str, Any]]:
    """All request records of the clients."""
    return [json.loads(s) for name in case.clients for s in _text(name, files[name]).splitlines()]


def quiet(case: Incident, files: Files, start: float, end: float) -> bool:
    """Whether clients saw no trouble in a time range: no failure, P99 TTFT and time per token as they should be.

    A request belongs to the range if it waited for its first token, or failed, inside. Without records nobody can say: False.
    """
    waits, tokens = [], []
    for row in client_rows(case, files):
        ttft = row["ttft"]
        first = end if ttft is None else row["send"] + ttft
        if row["send"] >= end or first < start:
            continue
        if row.get("error"):
            return False
        waits.append(min(first, end) - row["send"])
        if ttft is not None and row.get("e2e") and (row.get("output_tokens") or 0) > 1:
            tokens.append((row["e2e"] - ttft) / (row["output_tokens"] - 1))
    slow = bool(tokens) and sorted(tokens)[len(tokens) // 2] > _QUIET_TOKEN_S
    return bool(waits) and sorted(waits)[int(len(waits) * 0.99)] <= _QUIET_TTFT_S and not slow


def _text(name: str, data: bytes) -> str:
    return (gzip.decompress(data) if name.endswith(".gz") else data).decode()


def _packed(name: str, text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode()
