"""What happened around a retraction, a preemption or a crash: the scheduler just before and after, the requests in flight,
and the lines of the log.

Moments come from the log's events, and from counters where no line tells of what they count; these happened at some time
between two scrapes. Everything is prepared here, as text, for a bounded number of moments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from analyzer.language import _, ngettext
from analyzer.report import fmt, words
from analyzer.report.explore.model import ExploreInstance

# Moments of one instance, of all together, and the least that each instance may have.
MAX_MOMENTS = 40
MAX_ON_PAGE = 160
MIN_MOMENTS = 8
MAX_REQUESTS = 12
MAX_LINES = 12
# Scheduler reports on either side.
MAX_REPORTS = 4
# Lines this close are told of, or those of two usual report intervals.
NEAR_S = 5.0
# Most telling first; `start` is that of a later process: a restart.
KINDS = ("crash", "oom", "watchdog", "retraction", "preemption", "kv_load_failure", "start", "rejection", "abort")
# Each line of these stands for itself; lines of the others that follow each other this closely are one moment.
COUNTED = ("retraction", "preemption")
TOGETHER_S = 5.0
# A line is stamped to the second; the scrape whose counter rose by it may seem to come after the gap before it.
SLACK_S = 1

Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment; `start` and `end` in epoch ms (equal for one line, else the spell or the time between two scrapes).

    `reports` are rows of REPORT_COLUMNS; `requests` are (index into the instance's requests, age, phase), `flight` says how
    many there were; `lines` index the instance's lines, `more` says how many others are near.
    """

    start: float
    end: float
    kind: str
    title: str
    detail: str
    reports: tuple[Cells, ...] = ()
    requests: tuple[tuple[int, str, str], ...] = ()
    flight: str = ""
    lines: tuple[int, ...] = ()
    more: str = ""


@dataclass(frozen=True, slots=True)
class Around:
    """The moments of one instance in the order of time, out of `total`; what several moments show is held once."""

    anchor: str
    moments: tuple[Moment, ...]
    total: int
    requests: tuple[Cells, ...]
    lines: tuple[Cells, ...]

    @property
    def note(self) -> str:
        """What was left out."""
        if len(self.moments) >= self.total:
            return ""
        return _(
            "Showing {shown} of {n} moments: of each kind in turn the largest.",
            shown=fmt.number(len(self.moments)), n=fmt.number(self.total),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Moments:
    """The moments of all instances that have any."""

    around: tuple[Around, ...]

    def document(self) -> dict[str, Any]:
        """What the page's script needs, as JSON values: the headings, and by anchor what it shows."""
        return {
            "columns": {"reports": list(report_columns()), "requests": list(request_columns()), "lines": list(line_columns())},
            "say": {
                "reports": _("Scheduler reports before and after"),
                "requests": _("Requests in flight"),
                "lines": _("Lines around it"),
                "none": _("No scheduler report near it."),
                "unrecorded": _("No recorded request was in flight."),
                "unwritten": _("No line of the log near it."),
            },
            "instances": {
                one.anchor: {
                    "moments": [_plain(m) for m in one.moments],
                    "requests": [list(r) for r in one.requests],
                    "lines": [list(line) for line in one.lines],
                    "note": one.note,
                }
                for one in self.around
            },
        }


def _plain(moment: Moment) -> dict[str, Any]:
    return {
        "from": moment.start,
        "to": moment.end,
        "kind": moment.kind,
        "title": moment.title,
        "detail": moment.detail,
        "reports": [list(r) for r in moment.reports],
        "requests": [list(r) for r in moment.requests],
        "flight": moment.flight,
        "lines": list(moment.lines),
        "more": moment.more,
    }


def report_columns() -> Cells:
    """Headings of a moment's scheduler reports."""
    return (_("Offset"), _("Rank"), _("Running"), _("Waiting"), _("KV usage"), _("KV used, tokens"), "new_token_ratio", _("Read from"))


def request_columns() -> Cells:
    """Headings of a moment's requests: age and phase at that moment, then what is known of them in the end."""
    return (
        _("Request"), _("Arrival"), _("Age"), _("Phase"), _("Prompt tokens"), _("Output tokens"), "TTFT", _("Longest gap"),
        _("Retractions"), _("Status"),
    )  # fmt: skip


def line_columns() -> Cells:
    """Headings of the lines around a moment."""
    return (_("Time"), _("Event"), _("Said"), _("Read from"))


def build_moments(con: duckdb.DuckDBPyConnection, instances: Sequence[ExploreInstance]) -> Moments | None:
    """The most telling moments of these instances; None when nothing happened."""
    limit = min(MAX_MOMENTS, max(MIN_MOMENTS, MAX_ON_PAGE // max(1, len(instances))))
    found = con.execute(
        _MOMENTS, {"kinds": list(KINDS), "counted": list(COUNTED), "together": TOGETHER_S, "slack_us": SLACK_S * 1_000_000, "limit": limit}
    ).fetchall()
    asked = {one.name: one.anchor for one in instances}
    rows = [_Row(*row) for row in found if (row[0] or "") in asked]
    if not rows:
        return None
    near = _Near(con, rows)
    by_instance: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        by_instance.setdefault(row.instance or "", []).append(index)
    return Moments(
        tuple(_around(anchor, [rows[i] for i in mine], mine, near) for name, anchor in asked.items() if (mine := by_instance.get(name)))
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of _MOMENTS; times in epoch microseconds."""

    instance: str | None
    kind: str
    start_us: int
    end_us: int
    dp: int | None
    requests: float | None
    tokens: int | None
    ratio_before: float | None
    ratio_after: float | None
    rid: str | None
    source_id: str | None
    record: int | None
    lines: int
    source: str
    total: int


_MOMENTS = """
WITH firsts AS (
  SELECT instance, arg_min(run_id, coalesce(start_ts, first_ts)) AS run_id FROM run GROUP BY instance
),
told AS (
  SELECT e.*, coalesce(e.preempted, e.requests) AS thrown
  FROM event AS e
  LEFT JOIN firsts AS f ON f.instance IS NOT DISTINCT FROM e.instance
  WHERE e.ts IS NOT NULL AND list_contains($kinds, e.kind) AND (e.kind <> 'start' OR e.run_id IS DISTINCT FROM f.run_id)
),
gaps AS (
  SELECT *, list_contains($counted, kind) OR coalesce(epoch(ts - lag(ts) OVER own) > $together, true) AS opens
  FROM told
  WINDOW own AS (PARTITION BY instance, run_id, kind ORDER BY ts, source_id, record)
),
numbered AS (
  SELECT *, sum(opens::INTEGER) OVER (PARTITION BY instance, run_id, kind ORDER BY ts, source_id, record) AS spell
  FROM gaps
),
spells AS (
  SELECT instance, kind, epoch_us(min(ts)) AS start_us, epoch_us(max(ts)) AS end_us,
         if(count(DISTINCT coalesce(dp, -1)) = 1, any_value(dp), NULL) AS dp,
         sum(thrown)::DOUBLE AS requests, sum(tokens)::BIGINT AS tokens, max(ratio_before) AS ratio_before,
         max(ratio_after) AS ratio_after, min(rid) AS rid, arg_min(source_id, (ts, source_id, record)) AS source_id,
         arg_min(record, (ts, source_id, record)) AS record, count(*) AS lines, 'log' AS source
  FROM numbered
  GROUP BY instance, run_id, kind, spell
),
rises AS (
  SELECT r.instance, r.kind, epoch_us(coalesce(r.prev_ts, r.ts)) AS start_us, epoch_us(r.ts) AS end_us, sum(r.requests)::DOUBLE AS requests
  FROM _retracted AS r
  WHERE r.source = 'counter' AND r.requests > 0 AND r.ts IS NOT NULL AND list_contains($kinds, r.kind)
  GROUP BY ALL
),
found AS (
  FROM spells
  UNION ALL BY NAME
  SELECT r.*, 0 AS lines, 'counter' AS source
  FROM rises AS r
  WHERE NOT EXISTS (
    SELECT 1 FROM spells AS s
    WHERE s.instance IS NOT DISTINCT FROM r.instance AND s.kind = r.kind AND s.end_us >= r.start_us - $slack_us AND s.start_us <= r.end_us
  )
),
ranked AS (
  SELECT *, count(*) OVER (PARTITION BY instance) AS total,
         row_number() OVER (PARTITION BY instance, kind ORDER BY coalesce(requests, lines) DESC, start_us, source_id, record) AS nth
  FROM found
)
SELECT instance, kind, start_us, end_us, dp, requests, tokens, ratio_before, ratio_after, rid, source_id, record, lines, source, total
FROM ranked
QUALIFY row_number() OVER (PARTITION BY instance ORDER BY nth, list_position($kinds, kind), start_us) <= $limit
ORDER BY instance, start_us, end_us, kind, source_id, record
"""

# The moments as rows of every query below.
_ASKED = """
asked AS (
  SELECT unnest($id) AS id, unnest($instance) AS instance, unnest($start) AS start_us, unnest($end) AS end_us, unnest($dp) AS dp,
         unnest($rid) AS rid, unnest($source) AS source_id, unnest($record) AS record
)
"""

# Of a report with the event's own time stamp the place in the file says whether it came before.
_REPORTS = f"""
WITH {_ASKED},
sided AS (
  SELECT a.id, epoch_us(r.ts) AS ts_us, r.dp, r.running, r.waiting, r.pool_usage, r.kv_used_tokens, r.new_token_ratio,
         r.source_id, r.record, a.start_us,
         epoch_us(r.ts) < a.start_us
           OR (epoch_us(r.ts) = a.start_us AND NOT coalesce(r.source_id = a.source_id AND r.record > a.record, false)) AS before
  FROM _report AS r
  JOIN asked AS a ON r.instance IS NOT DISTINCT FROM a.instance AND coalesce(r.dp = a.dp, true)
    AND epoch_us(r.ts) BETWEEN a.start_us - r.hold_s * 1e6 AND a.end_us + r.hold_s * 1e6
),
nearest AS (
  SELECT *
  FROM sided
  QUALIFY row_number() OVER (
    PARTITION BY id, before ORDER BY if(before, -ts_us, ts_us), if(before, -record, record), source_id
  ) <= $limit
)
SELECT n.id, n.ts_us, n.dp, n.running, n.waiting, n.pool_usage, n.kv_used_tokens, n.new_token_ratio, s.path || ':' || n.record,
       n.start_us
FROM nearest AS n
LEFT JOIN sources AS s USING (source_id)
ORDER BY n.id, n.ts_us, n.source_id, n.record
"""

# Whom the line names and who was thrown out come first; then in turn those that still wait, the oldest first, and those
# that run, the one with the longest gap between two tokens first.
_REQUESTS = f"""
WITH {_ASKED},
spans AS (
  SELECT *, epoch_us(coalesce(arrival_ts, ts)) AS begin_us,
         epoch_us(coalesce(first_token_ts, coalesce(arrival_ts, ts) + to_microseconds((ttft_s * 1e6)::BIGINT))) AS first_us,
         CASE
           WHEN censored THEN 9223372036854775807
           ELSE epoch_us(coalesce(finish_ts, coalesce(arrival_ts, ts) + to_microseconds((e2e_s * 1e6)::BIGINT)))
         END AS done_us
  FROM request_best
),
flying AS (
  SELECT a.id, a.rid AS named, a.end_us, s.*, coalesce(s.first_us <= a.end_us, false) AS running,
         CASE WHEN s.first_us <= a.end_us THEN 'decode' WHEN s.first_us > a.end_us OR s.censored THEN 'waiting' ELSE 'unknown' END AS phase
  FROM spans AS s
  JOIN asked AS a ON s.instance IS NOT DISTINCT FROM a.instance AND s.begin_us <= a.end_us AND s.done_us >= a.start_us
),
turned AS (
  SELECT *, count(*) OVER (PARTITION BY id) AS flying_n, count(*) FILTER (WHERE running) OVER (PARTITION BY id) AS running_n,
         coalesce(rid = named, false) AS own, coalesce(retractions, 0) > 0 AS thrown,
         row_number() OVER (
           PARTITION BY id, running ORDER BY if(running, itl_max_s, NULL) DESC NULLS LAST, begin_us, source_id, record
         ) AS turn
  FROM flying
)
SELECT id, source_id, record, rid, begin_us, end_us - begin_us, phase, prompt_tokens, output_tokens, ttft_s, itl_max_s, retractions,
       status, censored, flying_n, running_n
FROM turned
QUALIFY row_number() OVER (PARTITION BY id ORDER BY own DESC, thrown DESC, turn, running, begin_us, source_id, record) <= $limit
ORDER BY id, own DESC, running, begin_us, source_id, record
"""

_LINES = f"""
WITH {_ASKED},
usual AS (
  SELECT instance, greatest($near, 2 * median(span_s) FILTER (WHERE span_s > 0)) AS near_s FROM _report GROUP BY instance
),
close_by AS (
  SELECT a.id, a.start_us, e.source_id, e.record, e.ts, e.kind, e.text, e.source,
         count(*) OVER (PARTITION BY a.id) AS lines_n
  FROM event AS e
  JOIN asked AS a ON e.instance IS NOT DISTINCT FROM a.instance
  LEFT JOIN usual AS u ON u.instance IS NOT DISTINCT FROM a.instance
  WHERE epoch_us(e.ts) BETWEEN a.start_us - coalesce(u.near_s, $near) * 1e6 AND a.end_us + coalesce(u.near_s, $near) * 1e6
)
SELECT id, source_id, record, epoch_us(ts), kind, text, source, lines_n
FROM close_by
QUALIFY row_number() OVER (PARTITION BY id ORDER BY abs(epoch_us(ts) - start_us), ts, source_id, record) <= $limit
ORDER BY id, ts, source_id, record
"""


class _Near:
    """What is near each moment, by the moment's index, as rows of the three queries."""

    def __init__(self, con: duckdb.DuckDBPyConnection, rows: Sequence[_Row]) -> None:
        asked = {
            "id": list(range(len(rows))),
            "instance": [r.instance for r in rows],
            "start": [r.start_us for r in rows],
            "end": [r.end_us for r in rows],
            "dp": [r.dp for r in rows],
            "rid": [r.rid for r in rows],
            "source": [r.source_id for r in rows],
            "record": [r.record for r in rows],
        }
        self.reports = _grouped(con.execute(_REPORTS, asked | {"limit": MAX_REPORTS}).fetchall())
        self.requests = _grouped(con.execute(_REQUESTS, asked | {"limit": MAX_REQUESTS}).fetchall())
        self.lines = _grouped(con.execute(_LINES, asked | {"limit": MAX_LINES, "near": NEAR_S}).fetchall())


def _grouped(rows: Sequence[tuple[Any, ...]]) -> Mapping[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for index, *row in rows:
        found.setdefault(index, []).append(tuple(row))
    return found


def _around(anchor: str, rows: Sequence[_Row], indices: Sequence[int], near: _Near) -> Around:
    requests: dict[tuple[Any, ...], tuple[int, Cells]] = {}
    lines: dict[tuple[Any, ...], tuple[int, Cells]] = {}
    moments = []
    for row, index in zip(rows, indices, strict=True):
        flying = near.requests.get(index, ())
        told = near.lines.get(index, ())
        moment = Moment(row.start_us / 1e3, row.end_us / 1e3, row.kind, _title(row), _detail(row))
        moments.append(
            replace(
                moment,
                reports=tuple(_report(r, several=row.dp is not None or _several(near.reports[index])) for r in near.reports.get(index, ())),
                requests=tuple((_held(requests, r[:2], _request(r)), fmt.duration(r[4] / 1e6), _phase(r[5])) for r in flying),
                flight=_flight(flying),
                lines=tuple(_held(lines, line[:2], _line(line)) for line in told),
                more=_more(told),
            )
        )
    return Around(anchor, tuple(moments), rows[0].total, _values(requests), _values(lines))


def _held(known: dict[tuple[Any, ...], tuple[int, Cells]], key: tuple[Any, ...], cells: Cells) -> int:
    return known.setdefault(key, (len(known), cells))[0]


def _values(known: Mapping[tuple[Any, ...], tuple[int, Cells]]) -> tuple[Cells, ...]:
    return tuple(cells for _index, cells in known.values())


def _title(row: _Row) -> str:
    """When and what, as the list of moments says it."""
    word = _("Restart") if row.kind == "start" else words.event_word(row.kind)
    when = _clock(row.start_us)
    if row.requests:
        return _("{time} {event}: {amount}", time=when, event=word, amount=fmt.measure(round(row.requests), "requests"))
    return _("{time} {event}", time=when, event=word)


def _detail(row: _Row) -> str:
    """What the line or the counter tells besides."""
    parts = []
    if row.source == "counter":
        since = _clock(row.start_us)
        parts.append(_("By a counter that rose between the scrapes at {start} and {end}.", start=since, end=_clock(row.end_us)))
    elif row.lines > 1:
        span = fmt.clock_span(fmt.from_epoch(row.start_us / 1e6), fmt.from_epoch(row.end_us / 1e6))
        parts.append(_("{lines}, {span}.", lines=fmt.plural(row.lines, "line"), span=span))
    if row.tokens is not None:
        parts.append(_("Tokens concerned: {n}.", n=fmt.number(row.tokens)))
    if row.ratio_before is not None or row.ratio_after is not None:
        before, after = (_("unknown") if v is None else fmt.number(v) for v in (row.ratio_before, row.ratio_after))
        parts.append(_("new_token_ratio went from {before} to {after}.", before=before, after=after))
    if row.dp is not None:
        parts.append(_("On data-parallel rank {rank}.", rank=row.dp))
    return fmt.sentences(parts)


def _several(reports: Sequence[tuple[Any, ...]]) -> bool:
    return len({r[1] for r in reports}) > 1


def _report(row: tuple[Any, ...], *, several: bool) -> Cells:
    ts_us, dp, running, waiting, usage, tokens, ratio, source, origin_us = row
    return (
        fmt.signed_duration((ts_us - origin_us) / 1e6),
        str(dp) if several else _DASH,
        _number(running),
        _number(waiting),
        _DASH if usage is None else fmt.share(usage),
        _number(tokens),
        _number(ratio),
        fmt.clean(source, 200) or _DASH,
    )


def _request(row: tuple[Any, ...]) -> Cells:
    """A request without its age and phase, which belong to the moment."""
    _source, _record, rid, begin_us, _age, _phase_then, prompt, output, ttft, gap, retractions, status, censored, *_counts = row
    ended = _("unfinished at the end") if censored else fmt.clean(status, 24) or _DASH
    return (
        fmt.clean(rid, 24) or _DASH,
        _clock(begin_us),
        _number(prompt),
        _number(output),
        _DASH if ttft is None else fmt.duration(ttft),
        _DASH if gap is None else fmt.duration(gap),
        _number(retractions),
        ended,
    )


def _phase(phase: str) -> str:
    return {"decode": _("decode"), "waiting": _("no first token yet")}.get(phase, _DASH)


def _flight(flying: Sequence[tuple[Any, ...]]) -> str:
    if not flying:
        return ""
    total, running = flying[0][-2:]
    counts = ngettext(
        "{n} recorded request was in flight; {running} had a first token.",
        "{n} recorded requests were in flight; {running} had a first token.",
        total,
        n=fmt.number(total), running=fmt.number(running),
    )  # fmt: skip
    return fmt.sentences((counts, _("Showing {shown}.", shown=fmt.number(len(flying))) if total > len(flying) else ""))


def _line(row: tuple[Any, ...]) -> Cells:
    _source, _record, ts_us, kind, text, source, _n = row
    return (_clock(ts_us), words.event_word(kind), fmt.clean(text, 240), fmt.clean(source, 200))


def _more(lines: Sequence[tuple[Any, ...]]) -> str:
    hidden = lines[0][-1] - len(lines) if lines else 0
    return ngettext("{n} more line is near.", "{n} more lines are near.", hidden, n=fmt.number(hidden)) if hidden else ""


_DASH = "–"


def _number(value: float | int | None) -> str:
    return _DASH if value is None else fmt.number(value)


def _clock(us: int) -> str:
    return fmt.clock(fmt.from_epoch(us / 1e6), fraction=True)
