"""The three numbers that matter: P99 TTFT before and during, the longest queue, and the state of L1."""

from __future__ import annotations

import duckdb

from analyzer.diagnosis.model import Answered, Peaks
from analyzer.language import N_, _, ngettext
from analyzer.report import fmt
from analyzer.report.model import KeyNumber
from analyzer.report.severity import Severity

# What the answer to "was L1 full?" is called when it is a number among numbers.
_L1 = {"yes": N_("full"), "partly": N_("full at times"), "no": N_("not full"), "cannot_tell": ""}


def key_numbers(
    con: duckdb.DuckDBPyConnection, instance: str, checklist: tuple[Answered, ...], severity: Severity, peaks: Peaks
) -> tuple[KeyNumber, ...]:
    """In the order of the page; a number that is not known says why."""
    return (_ttft(con, instance, severity), _waiting(peaks), _l1(con, instance, checklist, peaks))


def _ttft(con: duckdb.DuckDBPyConnection, instance: str, s: Severity) -> KeyNumber:
    label = _("P99 TTFT")
    if s.ttft_p99_peak_s is not None:
        peak = fmt.duration(s.ttft_p99_peak_s)
        value = _("over {duration}", duration=peak) if s.ttft_open else peak
        before = "" if s.ttft_p99_before_s is None else fmt.duration(s.ttft_p99_before_s)
        what = _("before, and at its worst") if before else _("at its worst; what it was before is not known")
        source = _("per bucket, from {source}", source=s.ttft_source) if s.ttft_source else _("per bucket")
        return KeyNumber("ttft", label, value, fmt.clauses((what, source, _never(s))), before)
    if s.ttft_pending:
        return KeyNumber("ttft", label, "", _never(s))
    if s.wait_est_peak_s is not None:
        wait = fmt.duration(s.wait_est_peak_s)
        return KeyNumber("ttft", label, "", _("not recorded; the wait in the queue was an estimated {wait} at worst", wait=wait))
    # No incident to look into: the whole capture tells what is usual.
    found = con.execute("SELECT max(ttft_p99_s) FROM timeline WHERE instance IS NOT DISTINCT FROM ?", [instance or None]).fetchall()[0][0]
    if found is not None and s == Severity():
        return KeyNumber("ttft", label, fmt.duration(found), _("at its highest in the capture, per bucket"))
    return KeyNumber("ttft", label, "", _("not recorded"))


def _never(s: Severity) -> str:
    """Who is not in the percentiles."""
    if not s.ttft_pending:
        return ""
    n = fmt.number(s.ttft_pending)
    return ngettext("{n} request never got a first token", "{n} requests never got a first token", s.ttft_pending, n=n)


def _waiting(peaks: Peaks) -> KeyNumber:
    label = _("Peak waiting")
    if peaks.waiting is None:
        return KeyNumber("waiting", label, "", fmt.clean(peaks.notes.get("waiting"), 200) or _("not reported"))
    running = "" if peaks.running is None else _("up to {n} running", n=fmt.number(peaks.running))
    return KeyNumber("waiting", label, fmt.number(peaks.waiting), running)


def _l1(con: duckdb.DuckDBPyConnection, instance: str, checklist: tuple[Answered, ...], peaks: Peaks) -> KeyNumber:
    answer = next((a.answer for a in checklist if a.id == "l1_full"), "cannot_tell")
    word = _L1[answer]
    usage = None if peaks.kv_usage is None else _("KV usage up to {share}", share=fmt.share(min(1.0, peaks.kv_usage)))
    states = _states(con, instance)
    said = [states or usage or "", "" if word else _("cannot tell")]
    return KeyNumber("l1", _("L1, the KV pool"), _(word) if word else "", fmt.clauses(said))


def _states(con: duckdb.DuckDBPyConnection, instance: str) -> str:
    """The three states of the pool in the bucket in which it was fullest; empty where they are not known."""
    row = con.execute(
        """
        SELECT l1_used_tokens, l1_evictable_tokens, l1_available_tokens
        FROM timeline
        WHERE instance IS NOT DISTINCT FROM ? AND l1_used_tokens + l1_evictable_tokens + l1_available_tokens > 0
        ORDER BY l1_used_tokens / (l1_used_tokens + l1_evictable_tokens + l1_available_tokens) DESC, bucket_ts
        LIMIT 1
        """,
        [instance or None],
    ).fetchone()
    if row is None:
        return ""
    used, evictable, available = (fmt.share(part / sum(row)) for part in row)
    return _("at its fullest {used} used, {evictable} evictable, {available} empty", used=used, evictable=evictable, available=available)
