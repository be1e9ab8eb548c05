"""The TTFT panel: percentiles over time, how far a histogram leaves the P99 open, and who never got a first token."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from analyzer.language import _, ngettext
from analyzer.report import fmt, words
from analyzer.report.buckets import HISTOGRAM, Bucket, breaks
from analyzer.report.charts import MAX_POINTS, Panel, Segment, Series, segments
from analyzer.report.told import Told

_PERCENTILES = (("ttft_p99_s", "P99", "p99"), ("ttft_p95_s", "P95", "p95"), ("ttft_p50_s", "P50", "p50"))
# A first bound this long or longer hides what is fast from what is not.
_COARSE_LE_S = 0.05


def ttft_panel(buckets: Sequence[Bucket], told: Told, *, limit: int = MAX_POINTS) -> Panel:
    """TTFT where it was recorded, and the estimated wait in the queue in any case; at most `limit` points a curve."""
    spans = _spans(buckets, told)
    stops = breaks(buckets)

    def column(name: str) -> list[float | None]:
        return [b.get(name) for b in buckets]

    band: tuple[Segment, ...] = ()
    if any(b.ttft_source == HISTOGRAM for b in buckets):
        band = _curve(column("ttft_p99_high_s"), spans, stops, low=column("ttft_p99_low_s"), limit=limit)
    curves = [Series(label, style, _curve(column(name), spans, stops, limit=limit)) for name, label, style in _PERCENTILES]
    waits = held(buckets, [b.get("wait_est_s") for b in buckets])
    if any(b.ttft_source not in ("", HISTOGRAM) for b in buckets) and not pending_in(buckets, told):
        # What every request waited was recorded: an estimate beside it would only contradict it.
        waits = [None] * len(buckets)
    estimate = segments([(b.start, b.end) for b in buckets], waits, stops, limit=limit)
    series = (
        Series(_("bounds between which the P99 lies"), "bounds", band, band=True, under=True),
        *curves,
        Series(_("queue wait, estimated from waiting / admission rate (not TTFT)"), "estimate", estimate, under=True),
    )
    has_ttft = any(c.segments for c in curves)
    peak = max((s.peak for s in series if s.peak is not None), default=None)
    return Panel(
        "ttft",
        _("Time to first token") if has_ttft else _("Queue wait (estimate)"),
        "s",
        series,
        # Room above the last finite bound: else a band without an upper end would have no height.
        top=peak * 1.15 if band and peak and any(b.ttft_open for b in buckets) else None,
        note=_note(buckets, told) if has_ttft else _without(buckets, told),
    )


def ttft_sources(buckets: Sequence[Bucket]) -> str:
    """Where the TTFT of these buckets was read, in words."""
    found = sorted({words.ttft_source(b.ttft_source) for b in buckets if b.ttft_source})
    named = fmt.listed(found[:3])
    return _("{sources} and others", sources=named) if len(found) > 3 else named


def pending_in(buckets: Sequence[Bucket], told: Told) -> int:
    """Requests that arrived in these buckets and had no first token at the end; none where a histogram tells TTFT."""
    if not buckets or any(b.ttft_source == HISTOGRAM for b in buckets):
        return 0
    return told.pending_in(buckets[0].start, buckets[-1].end)


def is_open(buckets: Sequence[Bucket], told: Told) -> bool:
    """True when the P99 of some bucket is longer than anything that can be given for it."""
    return any(b.ttft_open or (b.get("ttft_p99_s") is None and pending_in([b], told)) for b in buckets)


def _spans(buckets: Sequence[Bucket], told: Told) -> list[tuple[float, float]]:
    """What each bucket's TTFT tells of: the bucket itself; of a histogram, the time since the scrape before."""
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
        if bucket.ttft_source == HISTOGRAM:
            start = min(start, max(since.get(start, start), drawn_to))
            drawn_to = bucket.end
        spans.append((start, bucket.end))
    return spans


def _curve(
    values: Sequence[float | None],
    spans: Sequence[tuple[float, float]],
    stops: Sequence[int],
    *,
    low: Sequence[float | None] | None = None,
    limit: int,
) -> tuple[Segment, ...]:
    """A curve over spans of unequal length, broken where two do not touch or a process ended between them."""
    known = [i for i, v in enumerate(values) if v is not None]
    times = [spans[i] for i in known]
    ends = [n for n in range(1, len(known)) if times[n][0] > times[n - 1][1] + 1e-6 or _stops_between(stops, known[n - 1], known[n])]
    return segments(times, [values[i] for i in known], ends, low=None if low is None else [low[i] for i in known], limit=limit)


def _stops_between(stops: Sequence[int], before: int, index: int) -> bool:
    """True when a curve must end behind `before` and up to `index`; `stops` are sorted."""
    at = bisect_right(stops, before)
    return at < len(stops) and stops[at] <= index


def held(buckets: Sequence[Bucket], told: Sequence[float | None]) -> list[float | None]:
    """Values told at each report only, held until the next one of the same process while its load is known."""
    values = list(told)
    last: int | None = None
    for i, value in enumerate(values):
        if buckets[i].get("waiting") is None or (last is not None and buckets[i].run != buckets[last].run):
            last = None
        if value is not None:
            if last is not None:
                values[last + 1 : i] = [values[last]] * (i - last - 1)
            last = i
    return values


def _note(buckets: Sequence[Bucket], told: Told) -> str:
    notes = []
    exact = [b for b in buckets if b.ttft_source and b.ttft_source != HISTOGRAM]
    if exact:
        n = sum(round(b.get("ttft_n") or 0) - told.pending_in(b.start, b.end) for b in exact)
        notes.append(
            _(
                "Exact, of {requests} by the time of their arrival, from {sources}.",
                requests=fmt.plural(n, "request"),
                sources=ttft_sources(exact),
            )
        )
    read = [b for b in buckets if b.ttft_source == HISTOGRAM]
    if read:
        notes += _histogram_notes(read, told)
    notes.append(_pending_note(buckets, told))
    return fmt.sentences(notes)


def _histogram_notes(read: Sequence[Bucket], told: Told) -> list[str]:
    """What a reader must know of percentiles that were read from histograms."""
    n = sum(round(b.get("ttft_n") or 0) for b in read)
    notes = [
        _(
            "From histograms of {first_tokens}, interpolated inside a bucket: a value tells of the time since the scrape before, and "
            "the band holds the true P99.",
            first_tokens=fmt.plural(n, "first token"),
        )
    ]
    beyond = [low for b in read if b.ttft_open and (low := b.get("ttft_p99_low_s")) is not None]
    if beyond:
        notes.append(
            _(
                "Where the band goes on to the top, the P99 lies beyond the last bound, {bound}: it is longer than the curve.",
                bound=fmt.duration(max(beyond)),
            )
        )
    if told.lowest_le_s is not None and told.lowest_le_s >= _COARSE_LE_S:
        notes.append(_("The lowest bound is {bound}: what is shorter cannot be told apart.", bound=fmt.duration(told.lowest_le_s)))
    return notes


def _pending_note(buckets: Sequence[Bucket], told: Told) -> str:
    pending = pending_in(buckets, told)
    if not pending:
        return ""
    text = ngettext(
        "{n} request that arrived here had no first token when the capture ended.",
        "{n} requests that arrived here had no first token when the capture ended.",
        pending,
        n=fmt.number(pending),
    )
    open_ended = [b for b in buckets if b.get("ttft_p99_s") is None and told.pending_in(b.start, b.end)]
    if not open_ended:
        return text
    gaps = fmt.clock_span(fmt.from_epoch(open_ended[0].start), fmt.from_epoch(open_ended[-1].end))
    gap = _(
        "In {buckets} ({span}) the P99 falls on one of them: it is longer than anything that was measured, and the curve has a gap.",
        buckets=fmt.plural(len(open_ended), "bucket"),
        span=gaps,
    )
    return fmt.sentences((text, gap))


def _without(buckets: Sequence[Bucket], told: Told) -> str:
    pending = pending_in(buckets, told)
    if not pending:
        return _("TTFT was not recorded. The curve is an estimate of the wait in the queue only.")
    return _(
        "No request got a first token: all {n} were still pending when the capture ended. The curve is an estimate of the wait in the "
        "queue only.",
        n=fmt.number(pending),
    )
