"""The checklist's answers: each reads one row of its view and says what it means, or what is missing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from analyzer.diagnosis import say
from analyzer.diagnosis.model import Answered, Evidence, MissingSignal
from analyzer.diagnosis.questions import questions

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """What the answers of one instance are made from: a row per view, and the thresholds.

    `open_ended`: requests were still waiting in the incident at the last report of the capture. `idle`: every report
    shows no running and no waiting request, and not one token was made. `has_log`: an engine's log is in the capture.
    """

    instance: str
    engine: str | None
    reports: int
    waiting_reports: int
    running_reports: int
    open_ended: bool
    idle: bool
    has_log: bool
    rows: dict[str, Row]
    limits: dict[str, float]

    def row(self, question: str) -> Row:
        """The row of the view behind a question."""
        return self.rows[questions()[question].view]

    @property
    def broke(self) -> bool:
        """True when the queue broke (see the view `incident`)."""
        return bool(self.row("ttft_broke")["queue_broke"])

    def when(self) -> str:
        """The incident in words."""
        q = self.row("ttft_broke")
        return say.span(q["start_ts"], q["end_ts"])

    def queue_shares(self) -> dict[str, float]:
        """Part of the judged waiting time of the incident in each queue state; empty without any."""
        q = self.row("queue_on_l1")
        judged = q["judged_s"] or 0.0
        if judged <= 0:
            # reports within one second of each other: count them as they are
            return {}
        return {
            name: float(q[f"{name}_s"] or 0.0) / judged for name in ("l1", "gap", "reservation", "cap", "prefill", "stalled", "unexplained")
        }


def answer_all(case: Case) -> tuple[Answered, ...]:
    """All fourteen questions in order."""
    return tuple(_ANSWERS[name](case) for name in questions())


# Without the number of waiting requests these would answer "no" to a question nobody could have answered.
_ABOUT_WAITING = ("queue_on_l1", "queue_on_cap", "demand_over_ceiling", "prefill_bottleneck")


def _no_reports(case: Case, question: str) -> Answered | None:
    q = questions()[question]
    if case.reports and not case.waiting_reports and question in _ABOUT_WAITING:
        return q.answer(
            case.instance, "cannot_tell", "No report tells how many requests were waiting.",
            missing=(MissingSignal("waiting requests", "`kvpm formats explain LINE` shows what was read of a scheduler line"),),
        )  # fmt: skip
    if 0 < case.reports < case.limits["min_reports"] and not case.broke:
        return q.answer(
            case.instance, "cannot_tell", f"The capture holds only {say.count(case.reports, 'scheduler report')} of this instance: "
            "a moment does not show whether a queue broke.", missing=q.missing(case.engine),
        )  # fmt: skip
    if case.reports:
        return None
    return q.answer(
        case.instance, "cannot_tell", "The capture holds no scheduler reports of this instance.",
        missing=q.missing(case.engine),
    )  # fmt: skip


def _ttft_broke(case: Case) -> Answered:
    q = questions()["ttft_broke"]
    r = case.row("ttft_broke")
    if r["ttft_n"]:
        return _ttft_known(case, r)
    evidence: tuple[Evidence, ...] = ()
    if not case.reports:
        return q.answer(
            case.instance,
            "cannot_tell",
            "Neither TTFT nor a queue was recorded.",
            missing=q.missing(case.engine),
        )
    if r["waiting_peak"]:
        evidence = (
            Evidence(
                "waiting, highest",
                r["waiting_peak"],
                "requests",
                r["start_ts"],
                r["end_ts"],
                r["waiting_peak_source"] or "",
            ),
            Evidence("estimated queue wait, highest", _round(r["wait_est_peak_s"]), "s", r["start_ts"], r["end_ts"]),
            Evidence("estimated queue wait, median", _round(r["wait_est_p50_s"]), "s", r["start_ts"], r["end_ts"]),
        )
    if case.broke:
        wait = r["wait_est_peak_s"]
        estimate = (
            f"a request that joined the queue waited an estimated {say.seconds(r['wait_est_p50_s'])} at the median and "
            f"{say.seconds(wait)} at worst"
            if wait is not None
            else "how long a request waited in it cannot be estimated"
        )
        text = (
            f"TTFT was not recorded. The queue broke {case.when()}: up to {say.count(r['waiting_peak'], 'request')} waited; "
            f"{estimate} (an estimate of queueing, not TTFT)."
        )
    elif r["waiting_peak"] and case.reports < case.limits["min_reports"]:
        text = (
            f"TTFT was not recorded. {say.count(r['waiting_peak'], 'request')} waited, and with {say.count(case.reports, 'report')} "
            "nothing tells for how long."
        )
    elif r["waiting_peak"]:
        text = (
            f"TTFT was not recorded. The queue did not break: at most {say.count(r['waiting_peak'], 'request')} waited, "
            "and only for moments."
        )
    elif not case.waiting_reports:
        text = "TTFT was not recorded, and no report tells how many requests were waiting."
    else:
        text = "TTFT was not recorded. No report shows a waiting request, so no wait in the queue is in it."
    return q.answer(case.instance, "cannot_tell", text, evidence, q.missing(case.engine))


def _ttft_known(case: Case, r: Row) -> Answered:
    q = questions()["ttft_broke"]
    inside, outside = _finite(r["ttft_p99_inside_s"]), _finite(r["ttft_p99_outside_s"])
    worst = inside if inside is not None else _finite(r["ttft_p99_s"])
    by_histogram = r["observer"] == "histogram"
    evidence = (
        Evidence("TTFT P99 in the incident", _round(inside), "s", r["start_ts"], r["end_ts"]),
        Evidence("TTFT P99 outside it", _round(outside), "s"),
        *(
            (
                Evidence("bucket of the P99, from", _round(r["ttft_p99_low_s"]), "s"),
                Evidence("bucket of the P99, to", _round(_finite(r["ttft_p99_high_s"])), "s"),
            )
            if by_histogram
            else (
                Evidence("TTFT P50, finished requests only", _round(r["ttft_p50_finished_s"]), "s"),
                Evidence("TTFT P99, finished requests only", _round(r["ttft_p99_finished_s"]), "s"),
                Evidence("requests still pending", r["censored_n"], "requests"),
            )
        ),
        Evidence("requests with TTFT", r["ttft_n"], "requests"),
    )
    limit, factor = case.limits["ttft_s"], case.limits["ttft_factor"]
    against = f", against {say.seconds(outside)} before and after" if outside and inside is not None else ""
    if by_histogram:
        source = f"from histograms of {say.count(r['ttft_n'], 'request')}; it lies {_band(r)}"
    else:
        source = f"exact, from {say.count(r['ttft_n'], 'request')} as the {r['observer']} saw them"
        if r["censored_n"]:
            source += f", and {say.count(r['censored_n'])} still pending"
    at_least = _finite(r["ttft_p99_at_least_s"])
    if worst is None:
        if not r["censored_n"]:
            text = "The histograms rose by too little to read a percentile from."
            return q.answer(case.instance, "cannot_tell", text, evidence, q.missing(case.engine))
        if at_least is None or at_least <= limit:
            return q.answer(
                case.instance, "cannot_tell",
                f"The P99 falls among the {say.count(r['censored_n'], 'request')} that were still pending at the end.", evidence,
                q.missing(case.engine),
            )  # fmt: skip
        text = (
            f"P99 TTFT was at least {say.seconds(at_least)}{against}: it falls among the {say.count(r['censored_n'], 'request')} that were "
            f"still pending at the end. Of the {say.count(r['ttft_n'])} that got a first token, as the {r['observer']} saw them, the "
            f"median took {say.seconds(r['ttft_p50_finished_s'])} and the P99 {say.seconds(r['ttft_p99_finished_s'])}."
        )
        return q.answer(case.instance, "yes", text, evidence)
    # a P99 that was bad before and after as well was bad all the time
    broke = worst > limit and (outside is None or outside > limit or worst > factor * outside)
    return q.answer(case.instance, "yes" if broke else "no", f"P99 TTFT was {say.seconds(worst)}{against} ({source}).", evidence)


def _band(r: Row) -> str:
    low, high = r["ttft_p99_low_s"], _finite(r["ttft_p99_high_s"])
    return f"above {say.seconds(low)}" if high is None else f"between {say.seconds(low)} and {say.seconds(high)}"


def _ttft_split(case: Case) -> Answered:
    q = questions()["ttft_split"]
    r = case.row("ttft_split")
    if r["requests_with_queue"]:
        prefill = f", in prefill {say.seconds(r['prefill_p50_s'])} at the median" if r["prefill_p50_s"] is not None else ""
        return q.answer(
            case.instance,
            "partly",
            f"In the queue {say.seconds(r['queue_p50_s'])} at the median and {say.seconds(r['queue_p99_s'])} at P99{prefill}, by "
            f"{say.count(r['requests_with_queue'], 'request')}; recompute and loads are not told apart.",
            (
                Evidence("queue wait, median", _round(r["queue_p50_s"]), "s"),
                Evidence("queue wait, P99", _round(r["queue_p99_s"]), "s"),
                Evidence("prefill, median", _round(r["prefill_p50_s"]), "s"),
                Evidence("requests", r["requests_with_queue"], "requests"),
            ),
            q.missing(case.engine),
        )
    if r["queue_mean_s"] is not None:
        return _stages(case, r)
    estimate = r["queue_est_p50_s"]
    text = "The capture has no per-request times, so TTFT cannot be taken apart."
    evidence: tuple[Evidence, ...] = ()
    if case.broke and estimate is not None:
        text += f" The queue's part alone is estimated at {say.seconds(estimate)} (median in the incident)."
        evidence = (Evidence("estimated queue wait, median", _round(estimate), "s"),)
    return q.answer(case.instance, "cannot_tell", text, evidence, q.missing(case.engine))


def _stages(case: Case, r: Row) -> Answered:
    """Means by stage, from the sums and counts of histograms."""
    q = questions()["ttft_split"]
    parts = [f"in the queue {say.seconds(r['queue_mean_s'])}"]
    if r["prefill_mean_s"] is not None:
        parts.append(f"in prefill {say.seconds(r['prefill_mean_s'])}")
    if r["l2_load_mean_s"] is not None:
        parts.append(f"an L2 load {say.seconds(r['l2_load_mean_s'])}")
    whole = f" of a mean TTFT of {say.seconds(r['ttft_mean_s'])}" if r["ttft_mean_s"] is not None else ""
    return q.answer(
        case.instance, "partly",
        f"On average {', '.join(parts)}{whole}, by histograms of {say.count(r['histogram_n'], 'request')} that ended or got their first "
        "token in the incident; what a retraction or preemption added to the wait is in prefill.",
        (
            Evidence("queue wait, mean", _round(r["queue_mean_s"]), "s"),
            Evidence("prefill, mean", _round(r["prefill_mean_s"]), "s"),
            Evidence("TTFT, mean", _round(r["ttft_mean_s"]), "s"),
            Evidence("L2 load, mean", _round(r["l2_load_mean_s"]), "s"),
            Evidence("requests", _whole(r["histogram_n"]), "requests"),
        ),
    )  # fmt: skip


def _l1_full(case: Case) -> Answered:
    q = questions()["l1_full"]
    r = case.row("l1_full")
    if r["usage_max"] is None:
        return _no_reports(case, "l1_full") or q.answer(
            case.instance, "cannot_tell", "No report carries KV usage.", missing=q.missing(case.engine)
        )
    full = case.limits["full_usage"]
    evidence = (
        Evidence(
            "KV usage, highest",
            _round(r["usage_max"]),
            "share",
            r["usage_max_ts"],
            r["usage_max_ts"],
            r["usage_max_source"] or "",
        ),
        Evidence("KV usage while requests waited, median", _round(r["usage_waiting_p50"]), "share"),
        Evidence("KV usage while requests waited, 10th percentile", _round(r["usage_waiting_p10"]), "share"),
        Evidence("time at or above the full mark", _round(r["full_s"] or 0.0), "s"),
        Evidence("capacity", _whole(r["capacity_tokens"]), "tokens", source=r["capacity_source"] or ""),
        Evidence("evictable when used most", _whole(r["evictable_at_max_tokens"]), "tokens"),
        Evidence("available when used most", _whole(r["available_at_max_tokens"]), "tokens"),
    )
    pool = f" of {say.count(r['capacity_tokens'])} tokens" if r["capacity_tokens"] else ""
    top = f"The pool{pool} was used to {say.share(r['usage_max'])} at {say.clock(r['usage_max_ts'])}"
    states = _rest_of_the_pool(r)
    if r["usage_max"] < full:
        return q.answer(case.instance, "no", f"{top}: never full.{states}", evidence)
    if not case.broke or not r["full_waiting_s"]:
        return q.answer(
            case.instance,
            "partly",
            f"{top}, but no queue to speak of formed: full without an incident.{states}",
            evidence,
        )
    return q.answer(
        case.instance,
        "yes",
        f"{top}; while requests waited, usage was {say.share(r['usage_waiting_p50'])} at the median, and full for "
        f"{say.seconds(r['full_waiting_s'])} of {say.seconds(r['waiting_s'])}.{states}",
        evidence,
    )


def _rest_of_the_pool(r: Row) -> str:
    """What the unused part of the pool held, where metrics tell."""
    evictable, available = r["evictable_at_max_tokens"], r["available_at_max_tokens"]
    if evictable is None or available is None:
        return " Nothing in this capture tells cached from empty tokens, so how much of the rest was cache is unknown."
    return f" Of the rest, {say.count(evictable)} tokens were cache that goes on demand and {say.count(available)} were empty at that time."


def _queue_on_l1(case: Case) -> Answered:
    q = questions()["queue_on_l1"]
    nothing = _no_reports(case, "queue_on_l1")
    if nothing:
        return nothing
    r = case.row("queue_on_l1")
    if not case.broke:
        return q.answer(case.instance, "no", "No queue broke, so nothing waited on L1.")
    shares = case.queue_shares()
    parts = (
        ("l1", "with L1 full"),
        ("gap", "with room, but the next request did not fit"),
        ("reservation", "on the reservation, with room in the pool"),
        ("cap", "at the cap"),
        ("prefill", "with prefill saturated"),
        ("unexplained", "unexplained"),
    )
    evidence = (
        *(Evidence(f"waiting time {said}", _round(r[f"{name}_s"]), "s", r["start_ts"], r["end_ts"]) for name, said in parts),
        Evidence("usual prompt", _whole(r["usual_prompt_tokens"]), "tokens"),
        Evidence("free or evictable tokens while waiting, median", _whole(r["free_tokens_p50"]), "tokens"),
    )
    if not shares:
        return q.answer(
            case.instance,
            "cannot_tell",
            "Requests waited, but too few reports tell what for.",
            evidence,
            q.missing(case.engine),
        )
    on_l1, reserved = shares["l1"] + shares["gap"], shares["reservation"]
    dominant = case.limits["dominant_share"]
    if on_l1 >= dominant:
        return q.answer(
            case.instance, "yes",
            f"For {say.share(on_l1)} of the time in which the queue was held, the pool had no room for the next request.", evidence,
        )  # fmt: skip
    if on_l1 + reserved >= dominant and reserved > 0:
        return q.answer(
            case.instance, "yes",
            f"The reservation held it: for {say.share(reserved)} of the time the next request would have fitted (usage "
            f"{say.share(r['usage_reservation_p50'])} at the median), but the admission budget was spent."
            + (f" For another {say.share(on_l1)} the pool itself was full." if on_l1 >= 0.05 else ""), evidence,
        )  # fmt: skip
    if on_l1 + reserved >= dominant / 2:
        return q.answer(
            case.instance,
            "partly",
            f"For {say.share(on_l1 + reserved)} of the time; the rest had other reasons.",
            evidence,
        )
    if shares["unexplained"] + shares["stalled"] >= dominant:
        return q.answer(
            case.instance, "cannot_tell", "The pool had room by the reports, and no other reason shows either.", evidence,
            q.missing(case.engine),
        )  # fmt: skip
    return q.answer(case.instance, "no", "The pool had room for the next request while the queue was held.", evidence)


def _queue_on_cap(case: Case) -> Answered:
    q = questions()["queue_on_cap"]
    nothing = _no_reports(case, "queue_on_cap")
    if nothing:
        return nothing
    r = case.row("queue_on_cap")
    if not case.broke:
        return q.answer(case.instance, "no", "No queue broke, so no cap held anything back.")
    shares = case.queue_shares()
    evidence = (
        Evidence("cap", _whole(r["cap"]), "requests", source=r["cap_source"] or ""),
        Evidence("running while requests waited, highest", _whole(r["running_max"]), "requests"),
        Evidence("waiting time at the cap with room in the pool", _round(r["cap_s"] or 0.0), "s"),
    )
    if r["cap"] is None:
        if (r["plateau_share"] or 0) >= case.limits["plateau_share"] and (r["running_max"] or 0) >= 2 and r["reports"] >= 5:
            return q.answer(
                case.instance, "cannot_tell",
                f"The cap is not in the capture, but running stood at exactly {r['running_max']} in "
                f"{say.share(r['plateau_share'])} of the waiting reports, as it does at a cap.", evidence, q.missing(case.engine),
            )  # fmt: skip
        return q.answer(
            case.instance,
            "cannot_tell",
            "The capture does not tell the cap on running requests.",
            evidence,
            q.missing(case.engine),
        )
    at_cap = shares.get("cap", 0.0)
    if at_cap >= case.limits["dominant_share"]:
        return q.answer(
            case.instance, "yes",
            f"Running stood at the cap of {say.count(r['cap'])} for {say.share(at_cap)} of the time in which the queue was held, "
            f"with the pool used to at most {say.share(r['usage_max'])}.", evidence,
        )  # fmt: skip
    if at_cap >= case.limits["dominant_share"] / 2:
        text = f"Running was at the cap of {say.count(r['cap'])} for {say.share(at_cap)} of the time."
        return q.answer(case.instance, "partly", text, evidence)
    return q.answer(
        case.instance, "no", f"Running reached {say.count(r['running_max'])} while requests waited; the cap is {say.count(r['cap'])}.",
        evidence,
    )  # fmt: skip


def _retracted(case: Case) -> Answered:
    q = questions()["retracted"]
    nothing = _no_reports(case, "retracted")
    r = case.row("retracted")
    if nothing and not (r["retraction_events"] or r["preemptions"]):
        return nothing
    evidence = (
        Evidence(
            "retraction events",
            r["retraction_events"],
            "events",
            r["first_ts"],
            r["last_ts"],
            r["source"] or "",
        ),
        Evidence("retracted requests", r["retracted_requests"], "requests"),
        Evidence("preemptions", r["preemptions"], "", r["first_ts"], r["last_ts"]),
        Evidence("new_token_ratio, lowest before", _round(r["ratio_min"]), ""),
        Evidence("new_token_ratio, highest after", _round(r["ratio_max"]), ""),
    )
    if r["retraction_events"]:
        return q.answer(
            case.instance, "yes",
            f"{say.count(r['retraction_events'], 'retraction')} threw {say.count(r['retracted_requests'], 'request')} out "
            f"{say.span(r['first_ts'], r['last_ts'])}; their tokens were computed again.", evidence,
        )  # fmt: skip
    if r["visible"] == "counter" and r["retracted_requests"]:
        return q.answer(
            case.instance, "yes",
            f"{say.count(r['retracted_requests'], 'request')} were retracted {say.span(r['first_ts'], r['last_ts'])}, by the engine's "
            "counter; their tokens were computed again.", evidence,
        )  # fmt: skip
    if r["visible"] == "counter" and r["preemptions"]:
        return q.answer(
            case.instance, "yes",
            f"{say.count(r['preemptions'], 'preemption')} {say.span(r['first_ts'], r['last_ts'])}, by the engine's counter; it moves when "
            "the request goes on, not when it is thrown out.", evidence,
        )  # fmt: skip
    if r["preemptions"]:
        return q.answer(
            case.instance, "yes",
            f"At least {say.count(r['preemptions'], 'preemption')} by the engine's own running count, which it prints at every fiftieth.",
            evidence,
        )  # fmt: skip
    if r["gauge_max"]:
        return q.answer(
            case.instance, "yes",
            f"At least {say.count(r['gauge_max'], 'request')} in one go: the gauge is overwritten by each retraction and reset by each "
            "report, so it proves some and counts none.", (*evidence, Evidence("gauge, highest", _whole(r["gauge_max"]), "requests")),
            q.missing(case.engine),
        )  # fmt: skip
    if r["visible"] == "counter":
        return q.answer(case.instance, "no", "None: the engine's counter did not move.", evidence)
    if r["visible"] == "each":
        return q.answer(case.instance, "no", "None: this engine prints every retraction, and there is none.", evidence)
    if case.engine == "sglang" or r["visible"] == "gauge":
        why = "Neither a counter of retractions nor the log's own lines are in the capture; the gauge between two scrapes proves nothing."
        return q.answer(case.instance, "cannot_tell", why, (), q.missing(case.engine))
    why = (
        "vLLM V1 prints no preemption, so the log's silence proves nothing."
        if r["visible"] == "never"
        else "vLLM V0 prints only every fiftieth preemption, and none of those is in the log: there may have been up to 49."
    )
    return q.answer(case.instance, "cannot_tell", why, (), q.missing(case.engine))


def _demand(case: Case) -> Answered:
    q = questions()["demand_over_ceiling"]
    nothing = _no_reports(case, "demand_over_ceiling")
    if nothing:
        return nothing
    r = case.row("demand_over_ceiling")
    if r["ceiling_requests"] is None:
        return q.answer(
            case.instance, "cannot_tell", "The pool's size, or what a request holds of it, is not in the capture.",
            missing=q.missing(case.engine),
        )  # fmt: skip
    evidence = (
        Evidence("tokens held by a running request, mean", _whole(r["tokens_per_request"]), "tokens"),
        Evidence("capacity", _whole(r["capacity_tokens"]), "tokens"),
        Evidence("ceiling", _round(r["ceiling_requests"]), "requests"),
        Evidence("running and waiting, highest", r["demand_max"], "requests", r["demand_ts"], r["demand_ts"]),
    )
    if r["demand_share"] is None:
        return q.answer(
            case.instance, "cannot_tell", "Running and waiting requests are not both in the capture.", evidence, q.missing(case.engine)
        )
    over = r["demand_share"] > 1
    return q.answer(
        case.instance,
        "yes" if over else "no",
        f"The pool takes about {say.count(r['ceiling_requests'], 'request')} of {say.count(r['tokens_per_request'])} tokens; "
        f"up to {say.count(r['demand_max'])} were running and waiting at {say.clock(r['demand_ts'])}.",
        evidence,
    )


def _l2(case: Case) -> Answered:
    q = questions()["l2_bottleneck"]
    r = case.row("l2_bottleneck")
    shares = case.queue_shares()
    l1 = case.broke and shares.get("l1", 0) + shares.get("gap", 0) >= case.limits["dominant_share"]
    capacity = r["l2_capacity_tokens"]
    moved = "by its counters" if r["l2_moved_by"] == "counter" else "in the log"
    evidence = (
        Evidence("L2 capacity", _whole(capacity), "tokens", source=r["l2_source"] or ""),
        Evidence("L2 used, highest", _round(r["used_share_max"]), "share"),
        Evidence("L2 used in the incident, highest", _round(r["used_share_inside"]), "share"),
        Evidence("L2 operations in the log", r["operations"], ""),
        Evidence("tokens found in L2", r["hit_tokens"], "tokens"),
        Evidence("tokens loaded from L2", r["loaded_tokens"], "tokens"),
        Evidence("bytes loaded from L2", r["loaded_bytes"], "bytes"),
        Evidence("time spent loading", _round(r["load_s"]), "s"),
        Evidence("slowest load", _round(r["load_max_s"]), "s"),
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


def _cache(case: Case) -> Answered:
    q = questions()["cache_stopped_helping"]
    r = case.row("cache_stopped_helping")
    before = r["counted_outside"] if r["counted_outside"] is not None else r["reported_before"]
    inside = r["counted_inside"] if r["counted_inside"] is not None else r["reported_inside"]
    if before is None or inside is None:
        known = inside if inside is not None else before if before is not None else r["reported_last"]
        if known is not None and not case.broke:
            return q.answer(
                case.instance, "no", f"Hit rate {say.share(known)}; there is no incident to compare with.",
                (Evidence("hit rate", _round(known), "share"),),
            )  # fmt: skip
        return _no_reports(case, "cache_stopped_helping") or q.answer(
            case.instance,
            "cannot_tell",
            "There is no hit rate on both sides of the incident to compare.",
            missing=q.missing(case.engine),
        )
    evidence = (
        Evidence("hit rate outside the incident", _round(before), "share"),
        Evidence("hit rate inside", _round(inside), "share"),
    )
    fell = before >= 0.1 and inside < 0.5 * before
    return q.answer(
        case.instance,
        "yes" if fell else "no",
        f"Prefix hits were {say.share(before)} of prompt tokens outside the incident and {say.share(inside)} inside.",
        evidence,
    )


def _prefill(case: Case) -> Answered:
    q = questions()["prefill_bottleneck"]
    nothing = _no_reports(case, "prefill_bottleneck")
    if nothing:
        return nothing
    if not case.broke:
        return q.answer(case.instance, "no", "No queue broke, so prefill kept up.")
    r = case.row("prefill_bottleneck")
    shares = case.queue_shares()
    busy = shares.get("prefill", 0.0)
    tps = r["counted_prompt_tps"] if r["counted_prompt_tps"] is not None else r["prompt_tps_mean"]
    evidence = (
        Evidence("waiting time with prefill saturated", _round(r["prefill_s"] or 0.0), "s"),
        Evidence("prompt throughput while waiting, mean", _round(tps), "tokens/s"),
        Evidence("its variation", _round(r["prompt_tps_variation"]), "share"),
        Evidence("generation throughput while waiting, mean", _round(r["gen_tps_mean"]), "tokens/s"),
        Evidence("prompt tokens pending, highest", r["pending_tokens_max"], "tokens"),
        Evidence("step budget", _whole(r["max_num_batched_tokens"] or r["chunk_tokens"]), "tokens"),
        Evidence("KV usage while waiting, highest", _round(r["usage_max"]), "share"),
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


def _skew(case: Case) -> Answered:
    q = questions()["load_skewed"]
    r = case.row("load_skewed")
    ranks = r["ranks"] or 0
    if ranks == 0:
        return q.answer(
            case.instance,
            "cannot_tell",
            "The capture holds no scheduler reports.",
            missing=q.missing(case.engine),
        )
    if ranks == 1:
        return q.answer(
            case.instance,
            "no",
            "Only one data-parallel rank reports: there is nothing to compare within this instance.",
        )
    evidence = (
        Evidence("fullest rank, mean usage", _round(r["usage_fullest"]), "share"),
        Evidence("emptiest rank, mean usage", _round(r["usage_emptiest"]), "share"),
        Evidence("longest mean queue", _round(r["waiting_longest"]), "requests"),
        Evidence("shortest mean queue", _round(r["waiting_shortest"]), "requests"),
    )
    if r["usage_fullest"] is None or r["usage_emptiest"] is None:
        return q.answer(case.instance, "no", f"{ranks} ranks, and no incident in which they could differ.", evidence)
    apart = r["usage_fullest"] - r["usage_emptiest"]
    skewed = apart > case.limits["skew_usage"] and (r["waiting_longest"] or 0) > 1
    return q.answer(
        case.instance,
        "yes" if skewed else "no",
        f"Over the incident rank {r['fullest_rank']} was used to {say.share(r['usage_fullest'])} and rank {r['emptiest_rank']} to "
        f"{say.share(r['usage_emptiest'])} on average.",
        evidence,
    )


def _pd(case: Case) -> Answered:
    q = questions()["pd_queues"]
    nothing = _no_reports(case, "pd_queues")
    if nothing:
        return nothing
    r = case.row("pd_queues")
    queues = {
        "bootstrap": r["bootstrap_max"],
        "in flight": r["inflight_max"],
        "preallocation": r["prealloc_max"],
        "transfer": r["transfer_max"],
        "KV fetch": r["kv_fetch_max"],
    }
    seen = {k: v for k, v in queues.items() if v is not None}
    if not r["pd_reports"] and not seen:
        return q.answer(
            case.instance,
            "no",
            "No report carries a queue of prefill/decode disaggregation: it was not in use.",
        )
    longest = max(seen, key=lambda k: seen[k]) if seen else None
    evidence = tuple(Evidence(f"{k} queue, highest", v, "requests") for k, v in seen.items())
    if longest is None or not seen[longest]:
        return q.answer(case.instance, "no", "Disaggregated, and none of its queues held a request.", evidence)
    return q.answer(
        case.instance, "partly",
        f"The {r['role'] or 'reporting'} side's longest queue was {longest}, with up to {say.count(seen[longest], 'request')}.", evidence,
        q.missing(case.engine),
    )  # fmt: skip


def _outside(case: Case) -> Answered:
    q = questions()["outside_scheduler"]
    r = case.row("outside_scheduler")
    parts = []
    if r["crashes"]:
        parts.append(f"a crash at {say.clock(r['crash_ts'])} ({r['crash_text']})")
    if r["watchdogs"]:
        parts.append(f"{say.count(r['watchdogs'], 'watchdog alarm')}")
    if r["silence_max_s"]:
        parts.append(f"silence for {say.seconds(r['silence_max_s'])} with requests waiting")
    if r["runs"] > 1:
        parts.append(f"{say.count(r['runs'] - 1, 'restart')}")
    evidence = (
        Evidence("process lifetimes", r["runs"], ""),
        Evidence("crashes", r["crashes"], "", r["crash_ts"], r["crash_ts"], r["crash_source"] or ""),
        Evidence("watchdog alarms", r["watchdogs"], ""),
        Evidence("longest silence with requests waiting", _round(r["silence_max_s"]), "s"),
        Evidence("rejections", r["rejections"], ""),
        Evidence("warnings", r["warnings"], ""),
    )
    if parts:
        return q.answer(case.instance, "yes", "The capture shows " + ", ".join(parts) + ".", evidence)
    if not case.reports:
        return q.answer(
            case.instance, "cannot_tell", "No crash, watchdog or restart in the capture; without reports a hang cannot be seen.", evidence,
            q.missing(case.engine),
        )  # fmt: skip
    if not case.has_log:
        return q.answer(
            case.instance, "cannot_tell", "No restart by the metrics; a crash or a watchdog alarm would be in a log, and none is in the "
            "capture.", evidence, q.missing(case.engine),
        )  # fmt: skip
    return q.answer(case.instance, "no", "No crash, watchdog, hang or restart in the log.", evidence)


def _config(case: Case) -> Answered:
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
        Evidence("capacity", _whole(r["capacity_tokens"]), "tokens", source=r["capacity_source"] or ""),
        Evidence("cap on running requests", _whole(r["cap"]), "requests", source=r["cap_source"] or ""),
        Evidence("step budget", _whole(r["max_num_batched_tokens"] or r["chunk_tokens"]), "tokens"),
        Evidence("longest request allowed", _whole(r["max_len_tokens"]), "tokens"),
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


def _round(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


_ANSWERS: dict[str, Callable[[Case], Answered]] = {
    "ttft_broke": _ttft_broke,
    "ttft_split": _ttft_split,
    "l1_full": _l1_full,
    "queue_on_l1": _queue_on_l1,
    "queue_on_cap": _queue_on_cap,
    "retracted": _retracted,
    "demand_over_ceiling": _demand,
    "l2_bottleneck": _l2,
    "cache_stopped_helping": _cache,
    "prefill_bottleneck": _prefill,
    "load_skewed": _skew,
    "pd_queues": _pd,
    "outside_scheduler": _outside,
    "config_asked_for_it": _config,
}
