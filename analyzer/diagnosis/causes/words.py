"""What several causes say of the same rows."""

from __future__ import annotations

import math
from datetime import timedelta

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row

# A counter shows a preemption one scrape late.
_AROUND = timedelta(seconds=60)


def thrown_out(case: Case) -> str:
    r = case.row("retracted")
    if r["retracted_requests"]:
        return f", and {say.count(r['retracted_requests'], 'request')} had to be retracted{_when_thrown(case)}"
    if r["preemptions"]:
        least = "" if r["visible"] == "counter" else "at least "
        return f", and {least}{say.count(r['preemptions'], 'preemption')} happened{_when_thrown(case)}"
    return ""


def _when_thrown(case: Case) -> str:
    """Said only where the count is of more than the incident."""
    r, q = case.row("retracted"), case.row("ttft_broke")
    within = None in (r["first_ts"], r["last_ts"], q["start_ts"], q["end_ts"]) or (
        r["first_ts"] >= q["start_ts"] - _AROUND and r["last_ts"] <= q["end_ts"] + _AROUND
    )
    return "" if within or not case.broke else " over the whole capture"


def worst_ttft(q: Row) -> tuple[float, str] | None:
    """P99 TTFT in seconds and in words; of requests pending at the end only the least is known. None without any TTFT."""
    if not q["ttft_n"]:
        return None
    known = q["ttft_p99_s"]
    if known is not None and math.isfinite(known):
        return known, say.seconds(known)
    least = q["ttft_p99_at_least_s"]
    return None if least is None else (least, f"at least {say.seconds(least)}")
