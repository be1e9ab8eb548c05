"""Question 8: was L2 the bottleneck?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["l2_bottleneck"]
    r = case.row("l2_bottleneck")
    shares = case.queue_shares()
    l1 = case.broke and shares.get("l1", 0) + shares.get("gap", 0) >= case.limits["dominant_share"]
    capacity = r["l2_capacity_tokens"]
    moved = "by its counters" if r["l2_moved_by"] == "counter" else "in the log"
    evidence = (
        Evidence("L2 capacity", whole(capacity), "tokens", source=r["l2_source"] or ""),
        Evidence("L2 used, highest", rounded(r["used_share_max"]), "share"),
        Evidence("L2 used in the incident, highest", rounded(r["used_share_inside"]), "share"),
        Evidence("L2 operations in the log", r["operations"], ""),
        Evidence("tokens found in L2", r["hit_tokens"], "tokens"),
        Evidence("tokens loaded from L2", r["loaded_tokens"], "tokens"),
        Evidence("bytes loaded from L2", r["loaded_bytes"], "bytes"),
        Evidence("time spent loading", rounded(r["load_s"]), "s"),
        Evidence("slowest load", rounded(r["load_max_s"]), "s"),
        Evidence("failures", r["failures"], ""),
    )
    room = f" At its fullest it was used to {say.share(r['used_share_max'])}." if r["used_share_max"] is not None else ""
    load_s = max(r["load_max_s"] or 0.0, case.row("ttft_split")["l2_load_mean_s"] or 0.0)
    if not r["failures"] and load_s >= 1.0:
        return q.answer(
            case.instance, "partly",
            f"A load from L2 took {say.seconds(load_s)}: requests that needed one waited for it; how many that were is not recorded.{room}",
            evidence, q.missing(case.engine),
        )  # fmt: skip
    if (r["operations"] or r["l2_moved_by"]) and not r["failures"]:
        loads = f"{say.count(r['loaded_tokens'])} tokens were loaded {moved}" if r["loaded_tokens"] is not None else ""
        what = loads or (f"{say.count(r['operations'], 'operation')} in the log" if r["operations"] else "It was used")
        slow = f", the slowest load took {say.seconds(r['load_max_s'])}" if r["load_max_s"] is not None else ""
        return q.answer(case.instance, "no", f"{what}, and no failure was recorded{slow}.{room}", evidence)
    if r["failures"]:
        return q.answer(
            case.instance, "partly",
            f"{say.count(r['failures'], 'operation')} on L2 or L3 failed or was dropped; "
            f"how long requests waited for L2 is not recorded.{room}",
            evidence, q.missing(case.engine),
        )  # fmt: skip
    text = f"No L2 traffic was recorded, so its part cannot be told.{room}"
    if l1:
        known = f" (of {say.count(capacity)} tokens)" if capacity else ""
        text += (
            f" What can be told: the queue was held by L1, and no admission test reads L2{known}, "
            "so more L2 would not have admitted these requests."
        )
    return q.answer(case.instance, "cannot_tell", text, evidence if capacity else (), q.missing(case.engine))
