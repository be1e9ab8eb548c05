"""Question 9: did the prefix cache stop helping?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded
from analyzer.diagnosis.questions import questions
from analyzer.language import N_, _


def answer(case: Case) -> Answered:
    q = questions()["cache_stopped_helping"]
    r = case.row("cache_stopped_helping")
    before = r["counted_outside"] if r["counted_outside"] is not None else r["reported_before"]
    inside = r["counted_inside"] if r["counted_inside"] is not None else r["reported_inside"]
    if before is None or inside is None:
        known = inside if inside is not None else before if before is not None else r["reported_last"]
        if known is not None and not case.queue_broke:
            return q.answer(
                case.instance, "no", _("Hit rate {share}; there is no incident to compare with.", share=say.share(known)),
                (Evidence(_("hit rate"), rounded(known), "share"),),
            )  # fmt: skip
        return no_reports(case, "cache_stopped_helping") or q.answer(
            case.instance,
            "cannot_tell",
            _("There is no hit rate on both sides of the incident to compare."),
            missing=q.missing(case.engine),
        )
    evidence = (
        Evidence(_("hit rate outside the incident"), rounded(before), "share"),
        Evidence(_("hit rate inside"), rounded(inside), "share"),
        Evidence(_("tokens evicted in the incident"), r["evicted_tokens_inside"], "tokens"),
        Evidence(_("tokens evicted outside it"), r["evicted_tokens_outside"], "tokens"),
    )
    hits = _(
        "Prefix hits were {before} of prompt tokens outside the incident and {inside} inside.",
        before=say.share(before), inside=say.share(inside),
    )  # fmt: skip
    fell = before >= 0.1 and inside < 0.5 * before
    return q.answer(
        case.instance,
        "yes" if fell else "no",
        say.sentences((hits, _order(r) if fell else "")),
        evidence,
    )


def _order(r: Row) -> str:
    """Which came first: the fall, or the full pool that evicts what is cached."""
    fell, full = r["fell_from_ts"], r["full_from_ts"]
    if fell is None:
        return ""
    if full is None:
        template = N_("It fell from {fell} UTC on, and the pool was never full: other prompts came, or the cache was lost.")
    elif full <= fell:
        template = N_("It fell from {fell} UTC on, after the pool had filled up (from {full}): a consequence of L1.")
    else:
        template = N_("It fell from {fell} UTC on, before the pool was full (from {full}): more prefill came first.")
    return _(template, fell=say.clock(fell), full=say.clock(full))
