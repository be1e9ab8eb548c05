"""The TTFT panel: percentiles over time, how far a histogram leaves the P99 open, and who never got a first token."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analyzer.report import fmt, words
from analyzer.report.buckets import HISTOGRAM, Bucket, breaks
from analyzer.report.charts import Panel, Segment, Series, segments
from analyzer.report.told import Told

_PERCENTILES = (("ttft_p99_s", "P99", "p99"), ("ttft_p95_s", "P95", "p95"), ("ttft_p50_s", "P50", "p50"))
# From here on a first bound hides what users would still call fast.
_COARSE_LE_S = 0.05


def ttft_panel(buckets: Sequence[Bucket], told: Told) -> Panel:
    """TTFT where it was recorded, and always the estimated wait in the queue."""
    spans = _spans(buckets, told)
    ends = breaks(buckets)
    known = [s.segments for s in _curves(buckets, spans, ends)]
    band = _band(buckets, spans, ends)
    estimate = segments([(b.start, b.end) for b in buckets], _held(buckets, "wait_est_s"), ends)
    series = (
        Series("bounds the P99 lies between", "p99", band, band=True),
        *(Series(label, style, found) for (_, label, style), found in zip(_PERCENTILES, known, strict=True)),
        Series("queue wait, estimated from waiting / admission rate (not TTFT)", "estimate", estimate),
    )
    has_ttft = any(known)
    peak = max((s.peak for s in series if s.peak is not None), default=None)
    return Panel(
        "ttft",
        "Time to first token" if has_ttft else "Queue wait (estimate)",
        "s",
        series,
        # room above the last finite bound, so that a band without an upper end is seen
        top=peak * 1.15 if peak and any(b.ttft_open for b in buckets) and band else None,
        note=_note(buckets, told) if has_ttft else _without(buckets, told),
    )


def ttft_sources(buckets: Sequence[Bucket]) -> str:
    """Where the TTFT of these buckets was read, in words."""
    found = sorted({words.TTFT_SOURCES.get(b.ttft_source, b.ttft_source) for b in buckets if b.ttft_source})
    return ", ".join(found[:3]) + (" and others" if len(found) > 3 else "")


def _spans(buckets: Sequence[Bucket], told: Told) -> list[tuple[float, float]]:
    """What each bucket's TTFT tells of: the bucket itself, or all the time since the scrape before."""
    since: dict[float, float] = {}
    at = 0
    for begin, end in told.rises:
        while at < len(buckets) and buckets[at].end <= end:
            at += 1
        if at < len(buckets) and buckets[at].start <= end:
            since[buckets[at].start] = min(begin, since.get(buckets[at].start, begin))
    spans: list[tuple[float, float]] = []
    drawn_to = -math.inf
    for bucket in buckets:
        start = bucket.start
        if bucket.ttft_source == HISTOGRAM and bucket.get("ttft_n"):
            start = min(start, max(since.get(start, start), drawn_to))
            drawn_to = bucket.end
        spans.append((start, bucket.end))
    return spans


def _curves(buckets: Sequence[Bucket], spans: Sequence[tuple[float, float]], ends: Sequence[int]) -> list[Series]:
    return [
        Series(label, style, _with_gaps(buckets, spans, ends, [b.get(name) for b in buckets], None)) for name, label, style in _PERCENTILES
    ]


def _band(buckets: Sequence[Bucket], spans: Sequence[tuple[float, float]], ends: Sequence[int]) -> tuple[Segment, ...]:
    of_histogram = [b.ttft_source == HISTOGRAM for b in buckets]
    high = [b.get("ttft_p99_high_s") if own else None for b, own in zip(buckets, of_histogram, strict=True)]
    low = [b.get("ttft_p99_low_s") if own else None for b, own in zip(buckets, of_histogram, strict=True)]
    return _with_gaps(buckets, spans, ends, high, low)


def _with_gaps(
    buckets: Sequence[Bucket],
    spans: Sequence[tuple[float, float]],
    ends: Sequence[int],
    values: Sequence[float | None],
    low: Sequence[float | None] | None,
) -> tuple[Segment, ...]:
    """Curves over spans of their own: buckets between two scrapes say nothing and end no curve."""
    kept = [i for i, v in enumerate(values) if v is not None or buckets[i].ttft_source != HISTOGRAM and i and not _bridged(spans, i)]
    times = [spans[i] for i in kept]
    stops = set(ends)
    own = [
        n
        for n in range(1, len(kept))
        if times[n][0] > times[n - 1][1] + 1e-6 or any(k in stops for k in range(kept[n - 1] + 1, kept[n] + 1))
    ]
    return segments(times, [values[i] for i in kept], own, low=None if low is None else [low[i] for i in kept])


def _bridged(spans: Sequence[tuple[float, float]], index: int) -> bool:
    return False
