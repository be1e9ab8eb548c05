"""One rank in trouble while the others idle."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.model import Confidence, Finding
from analyzer.language import _


def is_skewed(case: Case) -> bool:
    """True when one rank held the queue, and sharing alike would have left each with clearly less than it had."""
    r = case.row("load_skewed")
    if (r["ranks"] or 0) < 2 or (r["queue_share"] or 0.0) < case.limits["dominant_share"] or (r["waiting_longest"] or 0.0) <= 1:
        return False
    factor = case.limits["skew_even"]
    usage = r["usage_even"] is not None and r["queue_usage"] is not None and r["usage_even"] <= factor * r["queue_usage"]
    running = r["running_even"] is not None and r["queue_running"] is not None and r["running_even"] <= factor * r["queue_running"]
    # a rank at its cap may hold little of its pool, but one with a full pool is judged by that alone
    return usage if (r["queue_usage"] or 0.0) >= case.limits["reserved_usage"] else usage and running


def one_rank_alone(case: Case) -> bool:
    """True when nearly all of the queue stood at one rank while another was clearly emptier, whatever sharing alike would have done."""
    r = case.row("load_skewed")
    if (r["ranks"] or 0) < 2 or (r["queue_share"] or 0.0) < case.limits["high_share"] or r["usage_emptiest"] is None:
        return False
    return bool(r["usage_emptiest"] <= case.limits["skew_even"] * (r["queue_usage"] or 0.0))


def skewed(case: Case) -> list[Finding]:
    """The queue of one rank, that the room of the others would have taken."""
    if not case.queue_broke or not is_skewed(case):
        return []
    r, q = case.row("load_skewed"), case.row("ttft_broke")
    clearly = r["queue_share"] >= case.limits["high_share"] and r["usage_even"] <= 0.5 * r["queue_usage"] and r["ranks"] > 2
    confidence: Confidence = "high" if clearly else "medium"
    sentence = _(
        "Load was skewed {when}: {share} of the queue (up to {waiting}) stood at data-parallel rank {rank}, used to {hot} on average, "
        "while rank {cold} was used to {idle}. Shared alike, each of the {ranks} ranks would have been used to about {even}.",
        when=case.when(), share=say.share(r["queue_share"]), waiting=say.count(q["waiting_peak"], "request"), rank=r["queue_rank"],
        hot=say.share(r["queue_usage"]), cold=r["emptiest_rank"], idle=say.share(r["usage_emptiest"]), ranks=r["ranks"],
        even=say.share(r["usage_even"]),
    )  # fmt: skip
    return [finding(case, "skew", confidence, sentence, case.window, ("ttft_broke", "load_skewed", "l1_full"))]


def replicas_beside(case: Case) -> str:
    """One sentence on other instances that idled meanwhile; empty without any."""
    r, full = case.row("load_skewed"), case.row("l1_full")
    if not r["replicas"] or r["replica_usage_min"] is None or full["usage_max"] is None:
        return ""
    if r["replica_usage_min"] > case.limits["skew_even"] * full["usage_max"]:
        return ""
    return _(
        "Instance {instance} was used to {share} on average meanwhile.", instance=r["replica"], share=say.share(r["replica_usage_min"])
    )
