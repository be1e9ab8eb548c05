"""Question 10: was prefill compute the bottleneck?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions

_NO_QUEUE = "No queue broke, so prefill kept up."
_TOO_FEW = "Too few reports tell what held the queue."
_YES = (
    "Prefill was saturated for {share} of the time in which the queue was held: about {tps} prompt tokens/s, with the pool used to at most "
    "{usage}."
)
_PARTLY = "Prefill was saturated for {share} of the time in which the queue was held."
_FLAT = "Prompt throughput had a flat top: {share} of the reports with requests waiting show at least eight tenths of its highest."
_BATCHES = "{share} of the prefill batches used up the chunk."
_PENDING = "Pending prompt tokens grew from {first} to {most}."


def answer(case: Case) -> Answered:
    q = questions()["prefill_bottleneck"]
    nothing = no_reports(case, "prefill_bottleneck")
    if nothing:
        return nothing
    if not case.queue_broke:
        return q.answer(case.instance, "no", _NO_QUEUE)
    r = case.row("prefill_bottleneck")
    shares = case.queue_shares()
    if not shares:
        return q.answer(case.instance, "cannot_tell", _TOO_FEW, _evidence(case), q.missing(case.engine))
    busy, dominant = shares["prefill"], case.limits["dominant_share"]
    if busy >= dominant:
        sentence = _YES.format(share=say.share(busy), tps=say.count(_tps(r)), usage=say.share(r["usage_max"]))
        return q.answer(case.instance, "yes", " ".join([sentence, *_signs(r)]), _evidence(case))
    return q.answer(
        case.instance, "partly" if busy >= dominant / 2 else "no", _PARTLY.format(share=say.share(busy)), _evidence(case)
    )  # fmt: skip


def _tps(r: Row) -> float | None:
    tps: float | None = r["counted_prompt_tps"] if r["counted_prompt_tps"] is not None else r["prompt_tps_mean"]
    return tps


def _signs(r: Row) -> list[str]:
    """What shows the saturation, as far as this engine's reports have it."""
    said = []
    if r["full_batch_share"] is not None:
        said.append(_BATCHES.format(share=say.share(r["full_batch_share"])))
    elif (r["flat_share"] or 0) >= 0.5:
        said.append(_FLAT.format(share=say.share(r["flat_share"])))
    first, most = r["pending_tokens_first"], r["pending_tokens_max"]
    if first is not None and most > first:
        said.append(_PENDING.format(first=say.count(first), most=say.count(most)))
    return said


def _evidence(case: Case) -> tuple[Evidence, ...]:
    r = case.row("prefill_bottleneck")
    window = (case.window.start, case.window.end)
    return (
        Evidence("waiting time with prefill saturated", rounded(r["prefill_s"] or 0.0), "s", *window),
        Evidence("prompt throughput while waiting, mean", rounded(_tps(r)), "tokens/s", *window),
        Evidence("its variation", rounded(r["prompt_tps_variation"]), "share", *window),
        Evidence("highest prompt throughput of the capture", rounded(r["prompt_tps_top"]), "tokens/s"),
        Evidence("waiting reports near the highest", rounded(r["flat_share"]), "share", *window),
        Evidence("prefill batches that used up the chunk", rounded(r["full_batch_share"]), "share", *window),
        Evidence("generation throughput while waiting, mean", rounded(r["gen_tps_mean"]), "tokens/s", *window),
        Evidence("prompt tokens pending, highest", r["pending_tokens_max"], "tokens", *window),
        Evidence("tokens of a step by throughputs, median", whole(r["step_tokens_p50"]), "tokens", *window),
        Evidence("step budget", whole(r["max_num_batched_tokens"] or r["chunk_tokens"]), "tokens"),
        Evidence("KV usage while waiting, highest", rounded(r["usage_max"]), "share", *window),
    )
