"""Question 10: was prefill compute the bottleneck?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["prefill_bottleneck"]
    nothing = no_reports(case, "prefill_bottleneck")
    if nothing:
        return nothing
    if not case.broke:
        return q.answer(case.instance, "no", "No queue broke, so prefill kept up.")
    r = case.row("prefill_bottleneck")
    shares = case.queue_shares()
    busy = shares.get("prefill", 0.0)
    tps = r["counted_prompt_tps"] if r["counted_prompt_tps"] is not None else r["prompt_tps_mean"]
    evidence = (
        Evidence("waiting time with prefill saturated", rounded(r["prefill_s"] or 0.0), "s"),
        Evidence("prompt throughput while waiting, mean", rounded(tps), "tokens/s"),
        Evidence("its variation", rounded(r["prompt_tps_variation"]), "share"),
        Evidence("generation throughput while waiting, mean", rounded(r["gen_tps_mean"]), "tokens/s"),
        Evidence("prompt tokens pending, highest", r["pending_tokens_max"], "tokens"),
        Evidence("step budget", whole(r["max_num_batched_tokens"] or r["chunk_tokens"]), "tokens"),
        Evidence("KV usage while waiting, highest", rounded(r["usage_max"]), "share"),
    )
    if not shares:
        return q.answer(
            case.instance,
            "cannot_tell",
            "Too few reports tell what held the queue.",
            evidence,
            q.missing(case.engine),
        )
    if busy >= case.limits["dominant_share"]:
        return q.answer(
            case.instance, "yes",
            f"Prefill was saturated for {say.share(busy)} of the time in which the queue was held: about {say.count(tps)} prompt tokens/s, "
            f"with the pool used to at most {say.share(r['usage_max'])}.", evidence,
        )  # fmt: skip
    if busy >= case.limits["dominant_share"] / 2:
        return q.answer(case.instance, "partly", f"Prefill was saturated for {say.share(busy)} of the time.", evidence)
    return q.answer(
        case.instance,
        "no",
        f"Prefill was saturated for {say.share(busy)} of the time in which the queue was held.",
        evidence,
    )
