"""Requests that wait although nothing runs, or that no room in the pool would ever be enough for."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.model import Finding, Window
from analyzer.language import N_, _, ngettext

# By whether adapters are switched on.
_HELD_BY = {
    False: N_("That leaves what the capture does not tell: LoRA slots, grammars that are compiled, or a load of remote KV."),
    True: N_(
        "That leaves what the capture does not tell: LoRA slots above all, since adapters are switched on; or grammars that are compiled, "
        "or a load of remote KV."
    ),
}


def never_fits(case: Case) -> list[Finding]:
    """A request that needs more than the whole pool: by its length, or by the engine's own lines."""
    r = case.row("outside_scheduler")
    still = _stood_still(case, r)
    if r["giants"] and still is not None:
        giant = _(
            "A request of {tokens} prompt tokens came at {at} UTC and can never fit: the pool that its whole prompt must fit into has "
            "{pool} tokens.",
            tokens=say.count(r["giant_tokens"]), at=say.clock(r["giant_ts"]), pool=say.count(r["pool_tokens"]),
        )  # fmt: skip
        sentence = say.sentences([giant, still[1]])
        return [finding(case, "unschedulable", "high", sentence, still[0], ("outside_scheduler", "l1_full", "queue_on_l1"))]
    # a queue behind one that has outgrown the whole pool waits for it; a refused one holds up nobody
    if r["refusals"] and (r["outgrown"] or not case.queue_broke):
        said = [
            ngettext(
                "{n} request could never fit into the KV pool, and the engine refused or aborted it {when}.",
                "{n} requests could never fit into the KV pool, and the engine refused or aborted them {when}.",
                r["refusals"], n=say.count(r["refusals"]), when=say.span(r["refused_from_ts"], r["refused_until_ts"]),
            ),
            "" if r["refused_tokens"] is None else _("The longest had {tokens}.", tokens=say.count(r["refused_tokens"], "token")),
            "" if r["pool_tokens"] is None else _("The pool has {tokens}.", tokens=say.count(r["pool_tokens"], "token")),
        ]  # fmt: skip
        sentence = say.sentences(said)
        window = Window(r["refused_from_ts"], r["refused_until_ts"])
        return [finding(case, "unschedulable", "high", sentence, window, ("outside_scheduler",), (r["refused_source"] or "",))]
    return []


def nothing_runs(case: Case) -> list[Finding]:
    """Requests waited, nothing ran and the pool was free, report after report, with a process that lives: which of two it was."""
    r = case.row("outside_scheduler")
    if r["stuck_s"] is None or r["stuck_reports"] < case.limits["min_reports"]:
        return []
    if (r["stuck_usage_max"] or 0.0) >= case.limits["reserved_usage"]:
        return []
    window = Window(r["stuck_from_ts"], r["stuck_until_ts"])
    seen = _seen(r)
    held_back = (r["stuck_deferred_share"] or 0.0) >= case.limits["dominant_share"]
    if held_back or r["stuck_fetching_max"]:
        why = _("The scheduler itself held them back, for a load of remote KV, a LoRA slot or a grammar: which, is not told.")
        return [finding(case, "insufficient_data", "low", say.sentences([seen, why]), window, ("outside_scheduler", "queue_on_l1"))]
    if all_fit(case):
        why = _("Each would have fitted into the pool ({pool}): the scheduler stood still.", pool=say.count(r["pool_tokens"], "token"))
        return [finding(case, "hang", "medium", say.sentences([seen, why]), window, ("outside_scheduler", "queue_on_l1"))]
    why = _("Either one of them needs more than the whole pool, or the scheduler stands still: the lengths of the prompts would tell.")
    return [finding(case, "insufficient_data", "low", say.sentences([seen, why]), window, ("outside_scheduler", "queue_on_l1"))]


def held_by_nothing_known(case: Case) -> list[Finding]:
    """A queue below the cap, with room in the pool even for the most that can be reserved, and prefill not busy."""
    r = case.row("l2_bottleneck")
    if not case.queue_broke or not r["spare_judged_s"]:
        return []
    share = (r["spare_s"] or 0.0) / r["spare_judged_s"]
    if share < case.limits["high_share"]:
        return []
    q, full = case.row("ttft_broke"), case.row("l1_full")
    by_scheduler = min(1.0, (r["deferred_request_s"] or 0.0) / r["waiting_request_s"]) if r["waiting_request_s"] else 0.0
    waited = _(
        "{requests} waited {when} although the pool was used to {usage} at the median, below the cap, with room even for the most that "
        "running requests can have reserved, and prefill was not busy.",
        requests=say.count(q["waiting_peak"], "request"), when=case.when(), usage=say.share(full["usage_waiting_p50"]),
    )  # fmt: skip
    told = _("The scheduler itself held back {share} of them.", share=say.share(by_scheduler)) if by_scheduler else ""
    sentence = say.sentences([waited, told, _(_HELD_BY[case.adapters])])
    return [finding(case, "insufficient_data", "low", sentence, case.window, ("queue_on_l1", "queue_on_cap", "prefill_bottleneck"))]


def all_fit(case: Case) -> bool:
    """True when no waiting request can be larger than the pool: by the model's length, or by the lengths of all of them."""
    r = case.row("outside_scheduler")
    pool = r["pool_tokens"]
    # the sizes of further pools (sliding window, mamba) are in SGLang's start-up lines alone
    if pool is None or (case.engine == "sglang" and case.row("config_asked_for_it")["args_source"] is None):
        return False
    if r["max_len_tokens"] is not None and r["max_len_tokens"] <= pool:
        return True
    return bool(r["requests"]) and not r["unsized"] and r["asked_max_tokens"] is not None and r["asked_max_tokens"] < pool / 2


def _seen(r: Row) -> str:
    return _(
        "{requests} waited for {seconds} {when} although nothing ran and the pool was {usage} used.",
        requests=say.count(r["stuck_waiting_max"], "request"), seconds=say.seconds(r["stuck_s"]),
        when=say.span(r["stuck_from_ts"], r["stuck_until_ts"]), usage=say.share(r["stuck_usage_max"]),
    )  # fmt: skip


def _stood_still(case: Case, r: Row) -> tuple[Window, str] | None:
    """When nothing was admitted after the request came: by reports, or by silence with requests waiting."""
    if r["stuck_s"] is not None and r["giant_ts"] is not None and r["stuck_until_ts"] >= r["giant_ts"]:
        return Window(r["stuck_from_ts"], r["stuck_until_ts"]), _seen(r)
    for e in case.ends:
        limit = max(case.limits["hang_silence_s"], 3 * (e["hold_s"] or 0))
        if (e["waiting_last"] or 0) > 0 and (e["silent_s"] or 0) > limit and r["giant_ts"] is not None and e["last_ts"] >= r["giant_ts"]:
            return Window(e["last_report_ts"], e["last_ts"]), _(
                "Nothing was reported for {seconds} after it, with {requests} waiting.",
                seconds=say.seconds(e["silent_s"]), requests=say.count(e["waiting_last"], "request"),
            )  # fmt: skip
    if case.queue_broke and case.open_ended:
        return case.window, _(
            "Up to {requests} waited behind it to the end of the capture.",
            requests=say.count(case.row("ttft_broke")["waiting_peak"], "request"),
        )  # fmt: skip
    return None
