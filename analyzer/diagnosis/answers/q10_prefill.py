"""Question 10: was prefill compute the bottleneck?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions
from analyzer.language import N_, _

_NO_QUEUE = N_("No queue broke, so prefill kept up.")
_TOO_FEW = N_("Too few reports tell what held the queue.")
_YES = N_(
    "Prefill was saturated for {share} of the time in which the queue was held: about {tps} prompt tokens/s, with the pool used to at most "
    "{usage}."
)
_PARTLY = N_("Prefill was saturated for {share} of the time in which the queue was held.")
_FLAT = N_("Prompt throughput had a flat top: {share} of the reports with requests waiting show at least eight tenths of its highest.")
_BATCHES = N_("{share} of the prefill batches used up the chunk.")
_PENDING = N_("Pending prompt tokens grew from {first} to {most}.")


def answer(case: Case) -> Answered:
    q = questions()["prefill_bottleneck"]
    nothing = no_reports(case, "prefill_bottleneck")
    if nothing:
        return nothing
    if not case.queue_broke:
        return q.answer(case.instance, "no", _(_NO_QUEUE))
    r = case.row("prefill_bottleneck")
    shares = case.queue_shares()
    if not shares:
        return q.answer(case.instance, "cannot_tell", _(_TOO_FEW), _evidence(case), q.missing(case.engine))
    busy, dominant = shares["prefill"], case.limits["dominant_share"]
    if busy >= dominant:
        sentence = _(_YES, share=say.share(busy), tps=say.count(_tps(r)), usage=say.share(r["usage_max"]))
        return q.answer(case.instance, "yes", say.sentences([sentence, *_signs(r)]), _evidence(case))
    return q.answer(
        case.instance, "partly" if busy >= dominant / 2 else "no", _(_PARTLY, share=say.share(busy)), _evidence(case)
    )  # fmt: skip


def _tps(r: Row) -> float | None:
    tps: float | None = r["counted_prompt_tps"] if r["counted_prompt_tps"] is not None else r["prompt_tps_mean"]
    return tps


def _signs(r: Row) -> list[str]:
    """What shows the saturation, as far as this engine's reports have it."""
    said = []
    if r["full_batch_share"] is not None:
        said.append(_(_BATCHES, share=say.share(r["full_batch_share"])))
    elif (r["flat_share"] or 0) >= 0.5:
        said.append(_(_FLAT, share=say.share(r["flat_share"])))
    first, most = r["pending_tokens_first"], r["pending_tokens_max"]
    if first is not None and most > first:
        said.append(_(_PENDING, first=say.count(first), most=say.count(most)))
    return said


def _evidence(case: Case) -> tuple[Evidence, ...]:
    r = case.row("prefill_bottleneck")
    window = (case.window.start, case.window.end)
    return (
        Evidence(_("waiting time with prefill saturated"), rounded(r["prefill_s"] or 0.0), "s", *window),
        Evidence(_("prompt throughput while waiting, mean"), rounded(_tps(r)), "tokens/s", *window),
        Evidence(_("its variation"), rounded(r["prompt_tps_variation"]), "share", *window),
        Evidence(_("highest prompt throughput of the capture"), rounded(r["prompt_tps_top"]), "tokens/s"),
        Evidence(_("waiting reports near the highest"), rounded(r["flat_share"]), "share", *window),
        Evidence(_("prefill batches that used up the chunk"), rounded(r["full_batch_share"]), "share", *window),
        Evidence(_("generation throughput while waiting, mean"), rounded(r["gen_tps_mean"]), "tokens/s", *window),
        Evidence(_("prompt tokens pending, highest"), r["pending_tokens_max"], "tokens", *window),
        Evidence(_("tokens of a step by throughputs, median"), whole(r["step_tokens_p50"]), "tokens", *window),
        Evidence(_("step budget"), whole(r["max_num_batched_tokens"] or r["chunk_tokens"]), "tokens"),
        Evidence(_("KV usage while waiting, highest"), rounded(r["usage_max"]), "share", *window),
    )
