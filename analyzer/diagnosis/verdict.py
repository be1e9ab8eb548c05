"""From answers to causes: the findings of one instance, ranked, each with what it rests on."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from importlib import resources
from typing import Any, get_args

from analyzer.diagnosis import say
from analyzer.diagnosis.answers import Case, Row
from analyzer.diagnosis.model import Cause, Confidence, Finding, Window
from analyzer.formats.versions import version_key

PRECEDENCE: tuple[Cause, ...] = get_args(Cause)
_LEVELS: tuple[Confidence, ...] = ("low", "medium", "high")
# A counter shows a preemption one scrape late.
_AROUND = timedelta(seconds=60)
# What happened to the process comes before what its queue did, and in the order of time.
_PROCESS: tuple[Cause, ...] = ("crash", "restart", "hang")


@lru_cache(maxsize=1)
def _causes() -> dict[str, Any]:
    return tomllib.loads(resources.files("analyzer.diagnosis").joinpath("causes.toml").read_text(encoding="utf-8"))


def advice(cause: Cause) -> str:
    """What to do about a cause."""
    return str(_causes()["advice"].get(cause, ""))


def is_covered(engine: str | None, version_min: str | None) -> bool:
    """True when a recording or an engine's own scheduler confirms the behaviour of this version."""
    covered = _causes()["covered"].get(engine or "", [])
    if not version_min:
        return False
    key = version_key(version_min)
    return any(key[: len(version_key(c))] == version_key(c) for c in covered)


def findings(case: Case, ends: list[Row], silences: list[Row], slow: Row | None, covered: bool) -> tuple[Finding, ...]:
    """All findings of one instance, the verdict first. Never empty."""
    process = sorted(
        [*_crashes(case, ends), *_hangs(case, ends, silences), *_restarts(case, ends)],
        key=lambda f: (
            f.window.start or datetime.max.replace(tzinfo=None).astimezone(),
            PRECEDENCE.index(f.cause),
        ),
    )
    enough = case.waiting_reports >= case.limits["min_reports"]
    queue = _queue(case) if case.broke and enough else _no_queue(case, slow, ends) if enough else []
    if any(f.cause == "hang" for f in process):
        queue = [f for f in queue if f.cause != "hang"]
    found = [*process, *queue]
    if not enough:
        # a planned restart proves itself, but not that it was the incident
        nothing = _nothing_known(case, [f.cause for f in process])
        found = [
            *[f for f in process if f.cause != "restart"],
            nothing,
            *[f for f in process if f.cause == "restart"],
        ]
        if any(f.cause in ("crash", "hang") for f in found):
            found = [f for f in found if f.cause != "insufficient_data"]
    elif process:
        found = [f for f in found if f.cause != "none"]
    if not covered:
        found = [replace(f, confidence=_at_most(f.confidence, "medium")) for f in found]
    return tuple(found)


def _at_most(level: Confidence, most: Confidence) -> Confidence:
    return _LEVELS[min(_LEVELS.index(level), _LEVELS.index(most))]


def _finding(
    case: Case,
    cause: Cause,
    confidence: Confidence,
    sentence: str,
    window: Window,
    rests_on: tuple[str, ...],
    reasons: tuple[str, ...] = (),
) -> Finding:
    return Finding(cause, confidence, sentence, case.instance, window, rests_on, reasons, advice(cause))


def _in_hand(row: Row) -> str:
    running, waiting = row["running_last"], row["waiting_last"]
    if running is None and waiting is None:
        return "what it had in hand is not in the capture"
    return f"{say.count(running, 'request')} running and {say.count(waiting)} waiting at its last report"


def _crashes(case: Case, ends: list[Row]) -> list[Finding]:
    return [
        _finding(
            case, "crash", "high",
            f"The process died at {say.clock(e['crash_ts'])} UTC ({e['crash_text']}): {_in_hand(e)}"
            + (f"; it was back at {say.clock(e['next_start_ts'])}." if e["next_start_ts"] else "."),
            Window(e["crash_ts"], e["next_start_ts"] or e["last_ts"]), ("outside_scheduler",), (e["crash_source"] or "",),
        )
        for e in ends
        if e["crash_ts"] is not None
    ]  # fmt: skip


def _hangs(case: Case, ends: list[Row], silences: list[Row]) -> list[Finding]:
    found = []
    for e in ends:
        work = (e["waiting_last"] or 0) > 0
        limit = max(case.limits["hang_silence_s"], 3 * (e["hold_s"] or 0))
        silent = (work or e["no_token"]) and (e["silent_s"] or 0) > limit
        # an idle engine has no watchdog alarm: one is proof of work in hand
        if e["watchdog_ts"] is None and not silent:
            continue
        start = e["last_report_ts"] or e["watchdog_ts"]
        proof = (
            f"the watchdog fired at {say.clock(e['watchdog_ts'])}"
            if e["watchdog_ts"] is not None
            else f"nothing was reported for {say.seconds(e['silent_s'])} though the process went on"
        )
        found.append(
            _finding(
                case, "hang", "high" if e["watchdog_ts"] is not None else "medium",
                f"The scheduler made no progress from {say.clock(start)} UTC on: {_in_hand(e)}, and {proof}.",
                Window(start, e["last_ts"]), ("outside_scheduler",), (e["watchdog_source"] or "",),
            )
        )  # fmt: skip
    for s in silences:
        token = " and not one token made" if s["no_token"] else ""
        found.append(
            _finding(
                case, "hang", "medium",
                f"The scheduler was silent for {say.seconds(s['silent_s'])} from {say.clock(s['start_ts'])} UTC on, with "
                f"{say.count(s['waiting'], 'request')} waiting, {say.count(s['running'])} running{token}; then it went on.",
                Window(s["start_ts"], s["end_ts"]), ("outside_scheduler",),
            )
        )  # fmt: skip
    return found


def _restarts(case: Case, ends: list[Row]) -> list[Finding]:
    found = []
    for e in ends:
        if e["next_start_ts"] is None:
            continue
        gap = (e["next_start_ts"] - (e["shutdown_ts"] or e["last_ts"])).total_seconds()
        if gap > case.limits["restart_gap_s"]:
            continue
        told = (
            f"was told to stop at {say.clock(e['shutdown_ts'])} UTC"
            if e["shutdown_ts"] is not None
            else f"ended without a word after {say.clock(e['last_ts'])} UTC"
        )
        lost = f", {say.count(e['aborted_at_shutdown'], 'request')} in flight were aborted" if e["aborted_at_shutdown"] else ""
        found.append(
            _finding(
                case, "restart", "high",
                f"The process {told} and a new one started at {say.clock(e['next_start_ts'])}: {_in_hand(e)}{lost}.",
                Window(e["shutdown_ts"] or e["last_ts"], e["next_start_ts"]), ("outside_scheduler",),
            )
        )  # fmt: skip
    return found


def _queue(case: Case) -> list[Finding]:
    """Why the queue was held, in the incident that the queue shows."""
    shares = case.queue_shares()
    q, cap, retracted = case.row("ttft_broke"), case.row("queue_on_cap"), case.row("retracted")
    window = Window(q["start_ts"], q["end_ts"])
    if not shares:
        return [
            _finding(
                case, "insufficient_data", "low",
                f"Requests queued {case.when()}, but too few reports tell what for.", window, ("queue_on_l1",),
            )
        ]  # fmt: skip
    dominant = case.limits["dominant_share"]
    stalled_s = case.row("queue_on_l1")["stalled_s"] or 0.0
    if shares["stalled"] >= dominant and stalled_s > case.limits["hang_silence_s"]:
        return [
            _finding(
                case, "hang", "medium",
                f"The scheduler made not one token for {say.seconds(stalled_s)} {case.when()}, though it reported, with "
                f"{say.count(cap['running_max'])} running and up to {say.count(q['waiting_peak'])} waiting.",
                window, ("outside_scheduler", "queue_on_l1"),
            )
        ]  # fmt: skip
    l1, reserved = shares["l1"] + shares["gap"], shares["reservation"]
    thrown_out = (retracted["events_in_incident"] or 0) > 0
    weights: dict[Cause, float] = {
        "l1_bound": l1,
        "reservation_bound": reserved,
        "cap_bound": shares["cap"],
        "prefill_bound": shares["prefill"],
    }
    if _looks_capped(case, shares):
        weights["cap_bound"] = max(weights["cap_bound"], reserved + shares["unexplained"])
        weights["reservation_bound"] = 0.0
    elif thrown_out and l1 + reserved >= dominant / 2:
        # a pool that had to throw requests out was full, whatever its usage was while they waited
        weights["l1_bound"], weights["reservation_bound"] = l1 + reserved, 0.0
    elif l1 + reserved >= dominant:
        # a pool that fills up again and again was reserved for what really came
        main: Cause = "l1_bound" if l1 > reserved or l1 >= case.limits["grown_share"] else "reservation_bound"
        weights["l1_bound"], weights["reservation_bound"] = 0.0, 0.0
        weights[main] = l1 + reserved
    if not case.running_reports:
        # below the cap or at it? Only what the pool itself shows is left
        weights = {c: w if c == "l1_bound" else 0.0 for c, w in weights.items()}
    ranked = sorted(weights.items(), key=lambda kv: (-kv[1], PRECEDENCE.index(kv[0])))
    found = [_queue_finding(case, c, w, window, thrown_out) for c, w in ranked if w >= dominant / 2]
    if not found and not case.running_reports:
        return [
            _finding(
                case, "insufficient_data", "low",
                f"Requests queued {case.when()} (up to {say.count(q['waiting_peak'])}), but no report tells how many were running, "
                "so a cap cannot be ruled out.", window, ("queue_on_cap", "queue_on_l1"),
            )
        ]  # fmt: skip
    if not found or found[0].cause != ranked[0][0]:
        unknown = shares["unexplained"] + shares["stalled"]
        found.insert(
            0,
            _finding(
                case, "insufficient_data", "low",
                f"Requests queued {case.when()} (up to {say.count(q['waiting_peak'])}), and for {say.share(unknown)} of the time the "
                "capture shows neither a full pool, nor a cap, nor saturated prefill"
                + (": the cap is not in it." if cap["cap"] is None else "."),
                window, ("queue_on_l1", "queue_on_cap", "prefill_bottleneck"),
            ),
        )  # fmt: skip
    return found


def _looks_capped(case: Case, shares: dict[str, float]) -> bool:
    """Without a cap in the capture: running stands still while requests wait and the pool has room."""
    cap = case.row("queue_on_cap")
    return (
        cap["cap"] is None
        and (cap["plateau_share"] or 0) >= case.limits["plateau_share"]
        and (cap["running_max"] or 0) >= 2
        and not _below_any_default(case)
        and cap["reports"] >= 5
        and cap["usage_max"] is not None
        and shares["prefill"] < case.limits["dominant_share"]
        and shares["l1"] + shares["gap"] < case.limits["dominant_share"] / 2
    )


def _below_any_default(case: Case) -> bool:
    """The arguments are known and set no cap, and running stayed below what the engine takes by default."""
    arguments = case.row("config_asked_for_it")["args_source"]
    running = case.row("queue_on_cap")["running_max"]
    return case.engine == "vllm" and arguments is not None and (running or 0) < case.limits["default_cap"]


# What `weight` says of each cause that the queue can have.
_HELD = {
    "l1_bound": "the pool had no room for the next request, or had to throw requests out",
    "reservation_bound": "the next request would have fitted, but the admission budget was spent",
    "cap_bound": "running stood at the cap",
    "prefill_bound": "prefill had no budget left",
}


def _queue_finding(case: Case, cause: Cause, weight: float, window: Window, thrown_out: bool) -> Finding:
    q, cap = case.row("ttft_broke"), case.row("queue_on_cap")
    queue, full, prefill = case.row("queue_on_l1"), case.row("l1_full"), case.row("prefill_bottleneck")
    confidence: Confidence = (
        "high" if weight >= case.limits["high_share"] else "medium" if weight >= case.limits["dominant_share"] else "low"
    )
    if (queue["reports"] or 0) < case.limits["few_reports"] and not thrown_out:
        confidence = "low"
    if cap["cap"] is None and not (cause == "l1_bound" and thrown_out):
        # most reports at the maximum are enough for doubt: SGLang's gauge is one short while a prefill fills the last place
        still = (cap["plateau_share"] or 0) >= case.limits["plateau_share"] or cap["running_p50"] == cap["running_max"]
        plateau = still and (cap["running_max"] or 0) >= 2
        # without the cap, running that stands still may be at it, whatever else shows
        if cause == "cap_bound" or (plateau and cause != "l1_bound"):
            confidence = "low"
        elif not _below_any_default(case):
            confidence = _at_most(confidence, "medium")
    shares = case.queue_shares()
    if cause == "l1_bound" and not thrown_out and shares["l1"] + shares["gap"] < shares["reservation"]:
        confidence = _at_most(confidence, "medium")
    if cause == "reservation_bound" and (queue["usage_reservation_p50"] or 0) > case.limits["reserved_usage"]:
        confidence = "low"
    if not case.has_log and cause == "reservation_bound":
        # by elimination only: neither batches nor the settings that reserve are in metrics
        confidence = "low"
    if not case.has_log and cap["cap"] is None and cause == "prefill_bound":
        # at a cap that nothing tells, running stays close to its maximum while prefill of the admitted goes on
        running, most = cap["running_p50"] or 0, cap["running_max"] or 0
        if most >= 2 and running >= case.limits["plateau_share"] * most:
            confidence = "low"
    if case.open_ended and cause in ("prefill_bound", "reservation_bound"):
        # a pool may still be filling: what it looked like so far may be only how it began
        confidence = _LEVELS[max(0, _LEVELS.index(confidence) - 1)]
    wait = _wait_words(q)
    start = f"{case.when()} up to {say.count(q['waiting_peak'], 'request')} waited{wait}, because "
    rests: tuple[str, ...]
    if cause == "l1_bound":
        why = f"the KV pool in HBM (L1) was full: usage while they waited was {say.share(full['usage_waiting_p50'])} at the median"
        why += _thrown_out_words(case)
        rests = ("ttft_broke", "l1_full", "queue_on_l1", "retracted", "demand_over_ceiling")
        if case.row("l2_bottleneck")["l2_capacity_tokens"] or case.row("l2_bottleneck")["l2_bytes"]:
            why += ". No admission test reads L2: more of it would not have admitted them"
    elif cause == "reservation_bound":
        why = "the admission budget was reserved for what running requests might still generate: the pool itself was used to "
        if (queue["usage_reservation_p50"] or 0) > case.limits["reserved_usage"]:
            why += f"{say.share(queue['usage_p50'])} at the median, so that requests growing into it may be what binds"
        else:
            why += f"only {say.share(queue['usage_p50'])} at the median"
        rests = ("ttft_broke", "l1_full", "queue_on_l1", "config_asked_for_it")
    elif cause == "cap_bound":
        why = (
            f"running stood at the cap of {say.count(cap['cap'])} while the pool was used to at most {say.share(cap['usage_max'])}"
            if cap["cap"] is not None
            else f"running stood still at {say.count(cap['running_max'])}, as at a cap, while the pool was used to at most "
            f"{say.share(cap['usage_max'])}; the cap itself is not in the capture"
        )
        rests = ("ttft_broke", "queue_on_cap", "l1_full", "config_asked_for_it")
    else:
        tps = prefill["counted_prompt_tps"] if prefill["counted_prompt_tps"] is not None else prefill["prompt_tps_mean"]
        why = f"prefill was saturated at about {say.count(tps)} prompt tokens/s" + (
            f" while the pool was used to at most {say.share(prefill['usage_max'])}"
            if (prefill["usage_max"] or 0) < case.limits["full_usage"]
            else f"; the pool was full too, for {say.share(case.queue_shares()['l1'])} of the time"
        )
        rests = ("ttft_broke", "prefill_bottleneck", "l1_full", "queue_on_cap")
    sentence = start + why + (". The capture ends inside the incident." if case.open_ended else ".")
    reasons = (f"For {say.share(min(weight, 1.0))} of the time in which the queue was held, {_HELD[cause]}.",)
    return _finding(case, cause, confidence, sentence[0].upper() + sentence[1:], window, rests, reasons)


def _wait_words(q: Row) -> str:
    median, worst = q["wait_est_p50_s"], q["wait_est_peak_s"]
    if not worst:
        return ""
    if median is None or say.seconds(median) == say.seconds(worst):
        return f", for an estimated {say.seconds(worst)}"
    return f", for an estimated {say.seconds(median)} at the median and {say.seconds(worst)} at worst"


def _thrown_out_words(case: Case) -> str:
    r = case.row("retracted")
    if r["retracted_requests"]:
        return f", and {say.count(r['retracted_requests'], 'request')} had to be retracted{_when_thrown(case)}"
    if r["preemptions"]:
        least = "" if r["visible"] == "counter" else "at least "
        return f", and {least}{say.count(r['preemptions'], 'preemption')} happened{_when_thrown(case)}"
    return ""


def _when_thrown(case: Case) -> str:
    """Said only where the count is of more than the incident."""
    r, q = case.row("retracted"), case.row("ttft_broke")
    within = None in (r["first_ts"], r["last_ts"], q["start_ts"], q["end_ts"]) or (
        r["first_ts"] >= q["start_ts"] - _AROUND and r["last_ts"] <= q["end_ts"] + _AROUND
    )
    return "" if within or not case.broke else " over the whole capture"


def _no_queue(case: Case, slow: Row | None, ends: list[Row]) -> list[Finding]:
    """No queue broke: retractions, slow decode, or nothing."""
    if case.idle and not case.row("ttft_broke")["ttft_n"]:
        return [
            _finding(
                case, "insufficient_data", "low",
                "This capture cannot tell what happened: nothing was running or waiting in any of its "
                f"{say.count(case.reports, 'report')}, so the load was over, or had not begun.",
                Window(None, None), ("ttft_broke", "queue_on_l1"),
            )
        ]  # fmt: skip
    found = []
    r = case.row("retracted")
    if r["retraction_events"] or r["retracted_requests"] or r["preemptions"]:
        found.append(
            _finding(
                case, "l1_bound", "medium",
                f"The KV pool in HBM (L1) overflowed{_thrown_out_words(case)}, though no queue to speak of formed.",
                Window(r["first_ts"], r["last_ts"]), ("retracted", "l1_full"),
            )
        )  # fmt: skip
    if slow is not None and (slow["slow_s"] or 0) >= case.limits["decode_min_s"]:
        found.append(
            _finding(
                case, "decode_bound", "medium",
                f"Nothing waited and the pool had room, but {say.span(slow['start_ts'], slow['end_ts'])} each token took "
                f"{slow['token_slow_s'] * 1000:.0f} ms against {slow['token_base_s'] * 1000:.0f} ms at best, with "
                f"{say.count(slow['running_slow'], 'request')} running.",
                Window(slow["start_ts"], slow["end_ts"]), ("queue_on_l1", "l1_full"),
            )
        )  # fmt: skip
    found += _pd_queues(case)
    ttft = case.row("ttft_broke")
    skew = case.row("load_skewed")
    worst = _worst_ttft(ttft)
    if not found and worst is not None and worst[0] > case.limits["ttft_s"]:
        return [
            _finding(
                case, "insufficient_data", "low",
                f"P99 TTFT was {worst[1]} although no queue broke: the capture does not tell where the time went.",
                Window(None, None), ("ttft_broke", "ttft_split"),
            )
        ]  # fmt: skip
    left = ends[-1]["waiting_last"] if ends else None
    if not found and (left or 0) >= case.limits["open_queue"]:
        return [
            _finding(
                case, "insufficient_data", "low",
                f"The capture ends with {say.count(left, 'request')} waiting; whether that queue broke is not in it.",
                Window(ttft["start_ts"], None), ("ttft_broke", "queue_on_l1"),
            )
        ]  # fmt: skip
    failed = ttft["errors_n"]
    if not found and failed >= 3 and failed >= case.limits["failed_share"] * ttft["requests_n"]:
        return [
            _finding(
                case, "insufficient_data", "low",
                f"No queue broke, but {say.count(failed)} of {say.count(ttft['requests_n'], 'request')} failed, and the capture does not "
                "tell why" + ("." if case.has_log else ": the server's log would."),
                Window(None, None), ("ttft_broke", "outside_scheduler"),
            )
        ]  # fmt: skip
    if not found:
        known = "TTFT was not recorded" if not ttft["ttft_n"] else "TTFT did not break either"
        peak = case.row("l1_full")["usage_max"]
        running = (ends[-1]["running_last"] or 0) if ends and not case.has_log else 0
        confidence: Confidence = "low" if running or peak is None or not case.running_reports else "high" if ttft["ttft_n"] else "medium"
        found.append(
            _finding(
                case, "none", confidence,
                f"No queue broke: {_at_most_waited(ttft['waiting_peak'])}, KV usage peaked at "
                f"{say.share(peak)}; {known}."
                + (f" {skew['ranks']} ranks reported." if (skew["ranks"] or 0) > 1 else "")
                + (f" The capture ends with {say.count(running)} running: only a log would show a crash then." if running else ""),
                Window(None, None), ("ttft_broke", "l1_full", "outside_scheduler"),
            )
        )  # fmt: skip
    return found


def _at_most_waited(peak: int | None) -> str:
    return f"at most {say.count(peak, 'request')} waited" if peak else "no request waited"


def _pd_queues(case: Case) -> list[Finding]:
    """Queues that only a disaggregated server has, and that its ordinary one does not show."""
    r = case.row("pd_queues")
    full = (r["usage_prealloc_p50"] or 0) >= case.limits["full_usage"]
    known: tuple[tuple[str, Cause, Confidence, str], ...] = (
        ("prealloc", "l1_bound", "medium", "waited on the decode side for room in its KV pool (L1), which was used to "
         f"{say.share(r['usage_prealloc_p50'])} at the median")
        if full
        else ("prealloc", "insufficient_data", "low", "waited on the decode side for KV space, though its pool was not full"),
        ("transfer", "transfer_bound", "low", "had their KV in transfer to the decode side"),
        ("inflight", "transfer_bound", "low", "were done with prefill, and their KV was still being sent"),
        ("kv_fetch", "transfer_bound", "low", "waited for their KV to be fetched"),
        ("bootstrap", "insufficient_data", "low", "waited for the two sides' handshake; the other side's log is needed"),
    )  # fmt: skip
    found = [
        _finding(
            case, cause, confidence, f"No ordinary queue broke, but up to {say.count(r[f'{name}_max'], 'request')} {why}.",
            Window(None, None), ("pd_queues", "l1_full"),
        )
        for name, cause, confidence, why in known
        if (r[f"{name}_max"] or 0) >= case.limits["pd_queue"] and (r[f"{name}_request_s"] or 0) >= 2 * case.limits["queue_request_s"]
    ]  # fmt: skip
    return sorted(found, key=lambda f: PRECEDENCE.index(f.cause))


def _worst_ttft(q: Row) -> tuple[float, str] | None:
    """P99 TTFT in seconds and in words; of requests pending at the end only the least is known. None without any TTFT."""
    if not q["ttft_n"]:
        return None
    known = q["ttft_p99_s"]
    if known is not None and math.isfinite(known):
        return known, say.seconds(known)
    least = q["ttft_p99_at_least_s"]
    return None if least is None else (least, f"at least {say.seconds(least)}")


def _nothing_known(case: Case, process: list[Cause]) -> Finding:
    q = case.row("outside_scheduler")
    if q["stats_off"]:
        why = "the server's stats lines were switched off (more than one API server)"
    elif case.reports and not case.waiting_reports:
        why = "none of its scheduler reports tells how many requests were waiting"
    elif case.reports:
        why = f"it holds only {say.count(case.reports, 'scheduler report')}"
    else:
        why = "it holds no scheduler reports: neither running, waiting nor KV usage"
    more = " It does show a restart." if "restart" in process else ""
    worst = _worst_ttft(case.row("ttft_broke"))
    if worst is not None:
        more += f" What is known: P99 TTFT was {worst[1]}."
    return _finding(
        case, "insufficient_data", "low", f"This capture cannot tell what happened: {why}.{more}",
        Window(None, None), ("ttft_broke", "l1_full", "queue_on_l1", "outside_scheduler"),
    )  # fmt: skip
