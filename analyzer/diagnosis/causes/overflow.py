"""A pool that was full, with harm, although no queue formed."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.causes.words import thrown_out
from analyzer.diagnosis.model import Finding, Window
from analyzer.language import N_, _

_OVERFLOWED = N_("The KV pool in HBM (L1) overflowed, though no queue to speak of formed.")
_HELD_OUTSIDE = N_(
    "First tokens were slow {when} and the KV pool in HBM (L1) was full for {share} of that time, though no queue to speak of formed in "
    "the engine: requests may have been held before they reached it."
)
_SLOW = N_(
    "The KV pool in HBM (L1) was full with nothing waiting for {seconds}, and each token took {full} ms meanwhile, against {base} ms at "
    "best with room in the pool."
)


def overflowed(case: Case) -> list[Finding]:
    """Retractions or preemptions, first tokens or tokens that were slow, at a full pool without a queue. Usage of 1 alone is no harm."""
    thrown, full = case.row("retracted"), case.row("l1_full")
    if (
        thrown["events_in_incident"]
        if case.ttft_broke
        else thrown["retracted_requests"] or thrown["preemptions"] or thrown["retraction_events"]
    ):
        window = case.window if case.ttft_broke else Window(thrown["first_ts"], thrown["last_ts"])
        sentence = say.sentences([_(_OVERFLOWED), *thrown_out(case)])
        return [finding(case, "l1_bound", "medium", sentence, window, ("retracted", "l1_full"))]
    if case.ttft_broke and full["full_inside_share"] >= case.limits["dominant_share"]:
        sentence = _(_HELD_OUTSIDE, when=case.when(), share=say.share(full["full_inside_share"]))
        return [finding(case, "l1_bound", "low", sentence, case.window, ("ttft_broke", "l1_full"))]
    slow, base = full["token_full_s"], full["token_base_s"]
    if (
        None not in (slow, base)
        and slow >= max(case.limits["decode_token_s"], case.limits["decode_factor"] * base)
        and full["token_full_for_s"] >= case.limits["decode_min_s"]
    ):
        sentence = _(
            _SLOW, seconds=say.seconds(full["token_full_for_s"]), full=say.count(slow * 1000), base=say.count(base * 1000)
        )  # fmt: skip
        return [finding(case, "l1_bound", "low", sentence, Window(None, None), ("l1_full",))]
    return []
