"""What several causes say of the same rows, each as a whole sentence."""

from __future__ import annotations

import math
from datetime import timedelta

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.language import N_, _, ngettext

# A counter shows a preemption one scrape late.
_AROUND = timedelta(seconds=60)

_RETRACTED = N_("{requests} had to be retracted.")
_RETRACTED_OVERALL = N_("{requests} had to be retracted over the whole capture.")
_PREEMPTED = N_("{preemptions} happened.")
_PREEMPTED_OVERALL = N_("{preemptions} happened over the whole capture.")
_PREEMPTED_AT_LEAST = N_("At least {preemptions} happened.")
# By what counted the tokens.
_RECOMPUTED = {
    "counter": N_(
        "At most {share} of the prompt tokens computed meanwhile were computed again because of that: so many were retracted by the "
        "engine's counters, and what is still cached is not computed again."
    ),
    "log": N_(
        "At least {share} of the prompt tokens computed meanwhile were computed again because of that (by the tokens that the log says "
        "were gained)."
    ),
    "estimate": N_("At most {share} of the prompt tokens computed meanwhile were computed again because of that (estimate)."),
}


def thrown_out(case: Case) -> list[str]:
    """How many requests were retracted or preempted, whether that went round in circles, and what it cost."""
    r = case.row("retracted")
    within = _within(case)
    said = []
    if r["retracted_requests"]:
        said.append(_(_RETRACTED if within else _RETRACTED_OVERALL, requests=say.count(r["retracted_requests"], "request")))
    elif r["preemptions"]:
        told = _PREEMPTED if within else _PREEMPTED_OVERALL
        if r["visible"] != "counter":
            told = _PREEMPTED_AT_LEAST
        said.append(_(told, preemptions=say.count(r["preemptions"], "preemption")))
    if (r["cycles"] or 0) >= case.limits["thrash_cycles"]:
        said.append(
            ngettext(
                "The engine threw requests out and took requests in by turns ({n} time with less than {seconds} between).",
                "The engine threw requests out and took requests in by turns ({n} times with less than {seconds} between).",
                r["cycles"], n=say.count(r["cycles"]), seconds=say.seconds(case.limits["thrash_s"]),
            )
        )  # fmt: skip
    if (r["recompute_share"] or 0) >= case.limits["recompute_share"]:
        said.append(_(_RECOMPUTED[r["recompute_by"]], share=say.share(r["recompute_share"])))
    return said


def _within(case: Case) -> bool:
    """False where the count is of more than the incident."""
    r, q = case.row("retracted"), case.row("ttft_broke")
    return not case.queue_broke or (
        None in (r["first_ts"], r["last_ts"], q["start_ts"], q["end_ts"])
        or (r["first_ts"] >= q["start_ts"] - _AROUND and r["last_ts"] <= q["end_ts"] + _AROUND)
    )


def worst_ttft(q: Row) -> tuple[float, str] | None:
    """P99 TTFT in seconds and in words; of requests pending at the end only the least is known. None without any TTFT."""
    if not q["ttft_n"]:
        return None
    known = q["ttft_p99_s"]
    if known is not None and math.isfinite(known):
        return known, say.seconds(known)
    least = q["ttft_p99_at_least_s"]
    return None if least is None else (least, _("at least {least}", least=say.seconds(least)))
