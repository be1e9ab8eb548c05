"""Question 14: was the configuration asking for it?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import whole
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["config_asked_for_it"]
    r = case.row("config_asked_for_it")
    if r["args_source"] is None and r["capacity_tokens"] is None and r["cap"] is None:
        return q.answer(
            case.instance, "cannot_tell", "No start-up lines are in the capture: the server's arguments are unknown.",
            missing=q.missing(case.engine),
        )  # fmt: skip
    demand = case.row("demand_over_ceiling")
    bad = []
    if r["cap"] and demand["ceiling_requests"] and r["cap"] < 0.5 * demand["ceiling_requests"] and case.broke:
        bad.append(
            f"the cap of {say.count(r['cap'])} running requests is far below the {say.count(demand['ceiling_requests'])} "
            "the pool would take"
        )
    if r["schedule_conservativeness"] is not None and r["schedule_conservativeness"] > 1.0:
        bad.append(f"schedule_conservativeness is {r['schedule_conservativeness']:g} (1 is the default)")
    if r["schedule_conservativeness"] is not None and r["schedule_conservativeness"] < 0.3 and case.row("retracted")["retraction_events"]:
        bad.append(f"schedule_conservativeness is {r['schedule_conservativeness']:g}, which invites retractions")
    if r["disable_radix_cache"]:
        bad.append("the radix cache is disabled")
    if r["enable_prefix_caching"] == 0:
        bad.append("prefix caching is disabled")
    if r["max_num_batched_tokens"] and r["max_num_batched_tokens"] < 1024:
        bad.append(f"max_num_batched_tokens is {say.count(r['max_num_batched_tokens'])}, which starves prefill")
    if r["max_len_tokens"] and r["capacity_tokens"] and r["max_len_tokens"] > r["capacity_tokens"]:
        bad.append(
            f"one request may be {say.count(r['max_len_tokens'])} tokens long, more than the pool's {say.count(r['capacity_tokens'])}"
        )
    evidence = (
        Evidence("capacity", whole(r["capacity_tokens"]), "tokens", source=r["capacity_source"] or ""),
        Evidence("cap on running requests", whole(r["cap"]), "requests", source=r["cap_source"] or ""),
        Evidence("step budget", whole(r["max_num_batched_tokens"] or r["chunk_tokens"]), "tokens"),
        Evidence("longest request allowed", whole(r["max_len_tokens"]), "tokens"),
        Evidence("schedule_conservativeness", r["schedule_conservativeness"], "", source=r["args_source"] or ""),
    )
    if bad:
        text = "; ".join(bad)
        return q.answer(case.instance, "yes", text[0].upper() + text[1:] + ".", evidence)
    if r["args_source"] is None and r["cap"] is None:
        return q.answer(
            case.instance, "cannot_tell", "Nothing bad in what is known of the pool, but the server's arguments are not in the capture.",
            evidence, q.missing(case.engine),
        )  # fmt: skip
    return q.answer(case.instance, "no", "None of the known bad settings is in the start-up lines.", evidence)
