"""What users felt of an incident: TTFT as question 1 has it, who never got a first token, how long it lasted."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime

import duckdb

from analyzer.diagnosis.model import Window
from analyzer.language import _
from analyzer.report import fmt, words
from analyzer.report.severity import Severity

# In these the requests that were served say nothing about those that were lost.
PROCESS = frozenset(("crash", "restart", "hang"))
# From this share on, those without a first token are among the slowest hundredth.
_P99 = 0.01


def measure(con: duckdb.DuckDBPyConnection, instance: str, cause: str, window: Window, extent: tuple[float, float] | None) -> Severity:
    """How bad the verdict's incident was, in a capture of `extent` (epoch seconds)."""
    start, end = (None if at is None else fmt.epoch_ms(at) / 1e3 for at in (window.start, window.end))
    length = end - start if start is not None and end is not None else None
    whole = extent[1] - extent[0] if extent else None
    shown = Severity(
        duration_s=length,
        capture_share=min(1.0, length / whole) if length is not None and whole else None,
        ttft_never=_never(con, instance, window),
        token_times=_token_times(con, instance) if cause == "decode_bound" else None,
    )
    if cause in PROCESS:
        again = _served_again(con, instance, window)
        # Until somebody was served again, to the end of the capture where nobody was.
        until = Window(window.start, None if again is None else max(again, window.end or again))
        gone = None if again is None or start is None else fmt.epoch_ms(again) / 1e3 - start
        return replace(shown, ttft_never=_never(con, instance, until), served_again_s=gone)
    return _with_ttft(con, instance, shown)


def _with_ttft(con: duckdb.DuckDBPyConnection, instance: str, s: Severity) -> Severity:
    row = con.execute(
        """
        SELECT ttft_p99_inside_s, ttft_p99_outside_s, ttft_p99_s, ttft_p99_at_least_s, observer, inside_n, wait_est_peak_s, start_ts
        FROM q01_ttft WHERE instance IS NOT DISTINCT FROM ? AND incident = 1
        """,
        [instance or None],
    ).fetchone()
    if row is None:
        return s
    inside, outside, whole, at_least, observer, inside_n, wait, start = row
    is_inside = start is not None and bool(inside_n)
    worst = inside if is_inside else whole
    known = None if worst is None or not math.isfinite(worst) else worst
    # A P99 among requests without a first token is longer than anything that was measured.
    is_open = known is None and worst is not None
    lost = is_inside and s.ttft_never > _P99 * (inside_n + s.ttft_never) and observer != "histogram"
    return replace(
        s,
        ttft_p99_peak_s=_finite(at_least) if is_open else known,
        ttft_p99_before_s=_finite(outside) if is_inside else None,
        ttft_source=words.ttft_source(observer) if observer else "",
        ttft_open=is_open or lost,
        whole_capture=not is_inside,
        wait_est_peak_s=wait,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _never(con: duckdb.DuckDBPyConnection, instance: str, window: Window) -> int:
    """Requests in flight in the window that failed or were still pending at the end, without a first token."""
    if window.start is None:
        return 0
    found: int = con.execute(
        """
        SELECT count(*)
        FROM request_best
        WHERE instance IS NOT DISTINCT FROM ? AND ttft_s IS NULL AND (censored OR status IN ('error', 'aborted'))
          AND (? IS NULL OR coalesce(arrival_ts, ts) <= ?) AND (censored OR coalesce(finish_ts, ts, arrival_ts) >= ?)
        """,
        [instance or None, window.end, window.end, window.start],
    ).fetchall()[0][0]
    return found


def _served_again(con: duckdb.DuckDBPyConnection, instance: str, window: Window) -> datetime | None:
    """The first token of the first request that arrived after a process was lost and got one; without records of
    requests, when the next process was ready. None where nothing of it is in the capture.
    """
    if window.start is None:
        return None
    found = con.execute(
        """
        SELECT coalesce(
          (SELECT min(coalesce(first_token_ts, arrival_ts + to_seconds(ttft_s))) FROM request_best
           WHERE instance IS NOT DISTINCT FROM $instance AND ttft_s IS NOT NULL AND arrival_ts > $lost),
          (SELECT min(ts) FROM event WHERE instance IS NOT DISTINCT FROM $instance AND kind = 'ready' AND ts > $lost)
        )
        """,
        {"instance": instance or None, "lost": window.end if window.end and window.end > window.start else window.start},
    ).fetchone()
    return None if found is None else fmt.to_utc(found[0])


def _token_times(con: duckdb.DuckDBPyConnection, instance: str) -> float | None:
    row = con.execute(
        "SELECT token_slow_s / nullif(token_base_s, 0) FROM slow_decode WHERE instance IS NOT DISTINCT FROM ?", [instance or None]
    ).fetchone()
    return None if row is None else row[0]


def held_in(con: duckdb.DuckDBPyConnection, instance: str, window: Window) -> dict[str, float | None]:
    """The highest running, waiting and KV usage of the window's buckets, of the capture without a window."""
    row = con.execute(
        """
        SELECT max(running)::DOUBLE, max(waiting)::DOUBLE, max(kv_usage)
        FROM timeline
        WHERE instance IS NOT DISTINCT FROM $instance
          AND ($start IS NULL OR bucket_ts + to_seconds(bucket_s) > $start) AND ($end IS NULL OR bucket_ts <= $end)
        """,
        {"instance": instance or None, "start": window.start, "end": window.end},
    ).fetchone() or (None, None, None)
    return dict(zip(("running", "waiting", "kv_usage"), row, strict=True))


def source_words(s: Severity) -> str:
    """Where the P99 was read, and over what."""
    if s.whole_capture:
        return _("over the whole capture, from {source}", source=s.ttft_source)
    if s.ttft_p99_before_s is None:
        return _("in the incident, from {source}; of other times it is not known", source=s.ttft_source)
    return _("at other times, and in the incident; from {source}", source=s.ttft_source)
