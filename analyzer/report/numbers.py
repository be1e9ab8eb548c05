"""The three numbers that matter: P99 TTFT before and during, the longest queue, and the state of L1."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from analyzer.diagnosis.model import Answered, Peaks, Window
from analyzer.language import _
from analyzer.report import fmt
from analyzer.report.felt import PROCESS, held_in, source_words
from analyzer.report.model import KeyNumber
from analyzer.report.severity import Severity, never


def key_numbers(
    con: duckdb.DuckDBPyConnection,
    instance: str,
    cause: str,
    window: Window,
    checklist: Sequence[Answered],
    severity: Severity,
    peaks: Peaks,
) -> tuple[KeyNumber, ...]:
    """In the order of the page, of the incident where there is one; a number that is not known says why."""
    held = held_in(con, instance, window)
    where = _("in the incident") if window.start else _("in the whole capture")
    return (_ttft(cause, severity), _waiting(held, where, peaks), _l1(con, instance, cause, window, checklist, held, where))


def _ttft(cause: str, s: Severity) -> KeyNumber:
    label = _("P99 TTFT")
    if s.ttft_p99_peak_s is not None:
        peak = fmt.duration(s.ttft_p99_peak_s)
        value = _("over {duration}", duration=peak) if s.ttft_open else peak
        before = "" if s.ttft_p99_before_s is None else fmt.duration(s.ttft_p99_before_s)
        return KeyNumber("ttft", label, value, fmt.clauses((source_words(s), never(s))), before)
    if s.ttft_never:
        rest = _("TTFT of those that were served says nothing about them") if cause in PROCESS else ""
        return KeyNumber("ttft", label, "", fmt.clauses((never(s), rest)))
    if s.wait_est_peak_s is not None:
        wait = fmt.duration(s.wait_est_peak_s)
        return KeyNumber("ttft", label, "", _("not recorded; the wait in the queue was an estimated {wait} at worst", wait=wait))
    if cause in PROCESS:
        return KeyNumber("ttft", label, "", _("no record tells of requests that were lost"))
    return KeyNumber("ttft", label, "", _("not recorded"))


def _waiting(held: dict[str, float | None], where: str, peaks: Peaks) -> KeyNumber:
    label = _("Peak waiting")
    waiting, running = held["waiting"], held["running"]
    if waiting is None:
        return KeyNumber("waiting", label, "", fmt.clean(peaks.notes.get("waiting"), 200) or _("not reported"))
    # Nothing running under a queue is what a report of prefill alone shows: it tells nothing.
    said = _("up to {n} running", n=fmt.number(running)) if running else ""
    return KeyNumber("waiting", label, fmt.number(waiting), fmt.clauses((where, said)))


def _l1(
    con: duckdb.DuckDBPyConnection,
    instance: str,
    cause: str,
    window: Window,
    checklist: Sequence[Answered],
    held: dict[str, float | None],
    where: str,
) -> KeyNumber:
    label = _("L1, the KV pool")
    answer = next((a.answer for a in checklist if a.id == "l1_full"), "cannot_tell")
    usage = held["kv_usage"]
    if usage is None or answer == "cannot_tell":
        return KeyNumber("l1", label, "", _("cannot tell"))
    states = _states(con, instance, window)
    said = states or _("KV usage up to {share}", share=fmt.share(min(1.0, usage)))
    if cause == "insufficient_data":
        # A few reports that show room are no proof that there was room.
        return KeyNumber("l1", label, "", fmt.clauses((_("cannot tell"), said, where)))
    full = usage >= (_limit(con) or 0.0)
    word = _("not full") if not full else _("full") if answer == "yes" and cause not in PROCESS else _("full at times")
    return KeyNumber("l1", label, word, fmt.clauses((said, where)))


def _limit(con: duckdb.DuckDBPyConnection) -> float | None:
    """From which usage on a pool counts as full: the trace's own threshold."""
    found = con.execute("SELECT getvariable('full_usage')").fetchone()
    return None if found is None else found[0]


def _states(con: duckdb.DuckDBPyConnection, instance: str, window: Window) -> str:
    """The three states of the pool in the window's bucket in which it was fullest; empty where they are not known."""
    row = con.execute(
        """
        SELECT l1_used_tokens, l1_evictable_tokens, l1_available_tokens
        FROM timeline
        WHERE instance IS NOT DISTINCT FROM $instance AND l1_used_tokens + l1_evictable_tokens + l1_available_tokens > 0
          AND ($start IS NULL OR bucket_ts + to_seconds(bucket_s) > $start) AND ($end IS NULL OR bucket_ts <= $end)
        ORDER BY l1_used_tokens / (l1_used_tokens + l1_evictable_tokens + l1_available_tokens) DESC, bucket_ts
        LIMIT 1
        """,
        {"instance": instance or None, "start": window.start, "end": window.end},
    ).fetchone()
    if row is None:
        return ""
    used, evictable, available = (fmt.share(part / sum(row)) for part in row)
    return _("at its fullest {used} used, {evictable} evictable, {available} empty", used=used, evictable=evictable, available=available)
