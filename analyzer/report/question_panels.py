"""What single questions draw beyond the timeline: hit rate, tokens to be computed, PD queues, ranks, demand, the admission ratio."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import duckdb

from analyzer.language import N_, _
from analyzer.report import fmt
from analyzer.report.charts import Level, Panel, Segment, Series, TimeAxis, Unit, segments

_HEIGHT = 84
# As long as this a gauge is taken to hold its value (seconds); the views say the same.
_HOLD_S = 30.0
# A drawn time range has at most this many bins.
_MAX_BINS = 600

_GAUGES = {
    "hit": "coalesce(sum(coalesce(cached_tokens, hit_tokens)) / nullif(sum(coalesce(cached_tokens, hit_tokens) "
    "+ coalesce(new_tokens, query_tokens - hit_tokens)), 0), max(prefix_hit_share))",
    "pending": "max(pending_tokens)",
    "ratio": "max(new_token_ratio)",
    "demand": "max(running + waiting)",
    "bootstrap": "max(bootstrap_reqs)",
    "inflight": "max(inflight_reqs)",
    "prealloc": "max(prealloc_reqs)",
    "transfer": "max(transfer_reqs)",
}
_PD = (
    ("bootstrap", N_("bootstrap (prefill side)"), "waiting"),
    ("inflight", N_("in flight (prefill side)"), "p95"),
    ("prealloc", N_("prealloc (decode side)"), "running"),
    ("transfer", N_("transfer (decode side)"), "gen"),
)


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the reports of one instance say in each bin of a time range; None where nothing was said."""

    starts: tuple[float, ...]
    width: float
    columns: dict[str, tuple[float | None, ...]]

    def curve(self, name: str) -> tuple[Segment, ...]:
        """One column as curves that end where it was not told for longer than a gauge holds."""
        return _curve(list(zip(self.starts, self.columns[name], strict=True)), self.width)


def read_gauges(con: duckdb.DuckDBPyConnection, instance: str, axis: TimeAxis, bucket_s: float | None) -> Gauges:
    """The gauges that single questions draw, over the drawn time range."""
    width = _width(axis, bucket_s)
    rows = con.execute(
        f"""
        SELECT floor(epoch_us(ts) / 1e6 / $width) * $width AS start, {", ".join(f"({sql})::DOUBLE" for sql in _GAUGES.values())}
        FROM _report
        WHERE instance IS NOT DISTINCT FROM $instance AND epoch_us(ts) BETWEEN $start * 1e6 AND $end * 1e6
        GROUP BY start ORDER BY start
        """,
        {"width": width, "instance": instance or None, "start": axis.start, "end": axis.end},
    ).fetchall()
    columns = {name: tuple(row[n] for row in rows) for n, name in enumerate(_GAUGES, 1)}
    return Gauges(tuple(row[0] for row in rows), width, columns)


def _width(axis: TimeAxis, bucket_s: float | None) -> float:
    """Whole buckets, so that the bins lie where those of the timeline do."""
    bucket = bucket_s or 1.0
    return bucket * max(1, math.ceil((axis.end - axis.start) / bucket / _MAX_BINS))


def _curve(points: Sequence[tuple[float, float | None]], width: float) -> tuple[Segment, ...]:
    known = [(start, value) for start, value in points if value is not None]
    hold = max(_HOLD_S, 3 * width)
    starts = [start for start, _value in known]
    ends = [min(following, start + hold) for start, following in zip(starts, [*starts[1:], float("inf")], strict=False)]
    if ends:
        # The last report is not drawn beyond its own bin.
        ends[-1] = starts[-1] + width
    stops = [n for n in range(1, len(known)) if starts[n] > ends[n - 1]]
    return segments(list(zip(starts, ends, strict=True)), [value for _start, value in known], stops)


def _panel(
    key: str, title: str, unit: Unit, series: Sequence[Series], top: float | None = None, levels: tuple[Level, ...] = ()
) -> list[Panel]:
    drawn = tuple(s for s in series if s.segments)
    return [Panel(key, title, unit, drawn, top, _HEIGHT, levels=levels)] if drawn else []


def hit_rate(gauges: Gauges) -> list[Panel]:
    """Prefix hits as a share of prompt tokens."""
    return _panel(
        "hit", _("Prefix cache hits, share of prompt tokens"), "share", [Series(_("hit rate"), "evictable", gauges.curve("hit"))], 1.0
    )


def pending_tokens(gauges: Gauges) -> list[Panel]:
    """Prompt tokens that were still to be computed."""
    return _panel(
        "pending-tokens", _("Prompt tokens waiting to be computed"), "tokens", [Series(_("pending"), "waiting", gauges.curve("pending"))]
    )


def admission_ratio(gauges: Gauges) -> list[Panel]:
    """SGLang's new_token_ratio: the part of what may still be generated that is set aside."""
    return _panel("ratio", "new_token_ratio", "ratio", [Series("new_token_ratio", "gen", gauges.curve("ratio"))], 1.0)


def demand(gauges: Gauges, ceiling: float | None) -> list[Panel]:
    """Running and waiting together, against what the pool takes."""
    levels = () if ceiling is None else (Level(ceiling, _("the pool takes about {n}", n=fmt.measure(round(ceiling), "requests"))),)
    series = [Series(_("running and waiting"), "waiting", gauges.curve("demand"), filled=True)]
    return _panel("demand", _("Requests running and waiting together"), "requests", series, levels=levels)


def pd_queues(gauges: Gauges) -> list[Panel]:
    """The queues of prefill/decode disaggregation; nothing where none of them ever held a request."""
    if not any(v for name, _label, _style in _PD for v in gauges.columns[name]):
        return []
    return _panel(
        "pd",
        _("Queues between prefill and decode"),
        "requests",
        [Series(_(label), style, gauges.curve(name)) for name, label, style in _PD],
    )


def ranks(con: duckdb.DuckDBPyConnection, instance: str, axis: TimeAxis, bucket_s: float | None) -> list[Panel]:
    """The fullest and the emptiest data-parallel rank, and the longest queue against the other ranks'."""
    found = con.execute(
        """
        SELECT fullest_rank, emptiest_rank, queue_rank
        FROM q11_skew WHERE instance IS NOT DISTINCT FROM ? AND incident = 1 AND ranks > 1
        """,
        [instance or None],
    ).fetchone()
    if found is None or found[0] is None:
        return []
    fullest, emptiest, longest = found
    width = _width(axis, bucket_s)
    rows = con.execute(
        """
        SELECT dp, floor(epoch_us(ts) / 1e6 / $width) * $width AS start, max(pool_usage)::DOUBLE, max(waiting)::DOUBLE
        FROM scheduler_clean
        WHERE instance IS NOT DISTINCT FROM $instance AND preferred AND epoch_us(ts) BETWEEN $start * 1e6 AND $end * 1e6
        GROUP BY dp, start ORDER BY dp, start
        """,
        {"width": width, "instance": instance or None, "start": axis.start, "end": axis.end},
    ).fetchall()

    def of(wanted: Callable[[int], bool], column: int) -> tuple[Segment, ...]:
        by_start: dict[float, float | None] = {}
        for row in rows:
            if row[0] is not None and wanted(row[0]) and row[column] is not None:
                by_start[row[1]] = max(row[column], by_start.get(row[1]) or 0.0)
        return _curve(sorted(by_start.items()), width)

    usage = [
        Series(_("fullest rank: dp{rank}", rank=fullest), "waiting", of(lambda dp: dp == fullest, 2)),
        Series(_("emptiest rank: dp{rank}", rank=emptiest), "running", of(lambda dp: dp == emptiest, 2)),
    ]
    panels = _panel("rank-usage", _("KV usage by rank"), "share", usage, 1.0)
    if longest is not None:
        waiting = [
            Series(_("longest queue: dp{rank}", rank=longest), "waiting", of(lambda dp: dp == longest, 3)),
            Series(_("longest of the other ranks"), "running", of(lambda dp: dp != longest, 3)),
        ]
        panels += _panel("rank-waiting", _("Requests waiting by rank"), "requests", waiting)
    return panels


def cap(con: duckdb.DuckDBPyConnection, instance: str) -> float | None:
    """The cap on running requests that the incident was judged by."""
    return _one(con, "SELECT cap FROM q05_cap WHERE instance IS NOT DISTINCT FROM ? AND incident = 1", instance)


def ceiling(con: duckdb.DuckDBPyConnection, instance: str) -> float | None:
    """How many requests of the mean size the pool takes."""
    return _one(con, "SELECT ceiling_requests FROM q07_demand WHERE instance IS NOT DISTINCT FROM ? AND incident = 1", instance)


def _one(con: duckdb.DuckDBPyConnection, sql: str, instance: str) -> float | None:
    found = con.execute(sql, [instance or None]).fetchone()
    return None if found is None else found[0]
