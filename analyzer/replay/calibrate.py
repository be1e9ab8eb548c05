"""The replay with nothing changed, held against what the capture says the server did: how far it can be leaned on, and why no further."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.language import _, ngettext
from analyzer.replay.compared import curve_measure, retraction_measure, ttft_measures, ttft_spread, waits
from analyzer.replay.fit.pace import slowed_share
from analyzer.replay.model import Calibration, Case, Measure, Trust
from analyzer.replay.outcome import outcome, thrashes
from analyzer.replay.result import Replayed
from analyzer.replay.run import replay
from analyzer.replay.settings import Vllm
from analyzer.report import fmt

__all__ = ["calibrate", "outcome"]

_TRUST: tuple[Trust, Trust, Trust] = ("good", "fair", "low")
# An error of so many times the bound is still of some use.
_FAIR = 2.0
# Retractions feed on themselves, too, where so much of the prefill is done again.
_THRASH_SHARE = 0.3
# Slower than this is told.
_SLOW = 1.5
_SLOW_SHARE = 0.05
# A P99 of fewer requests is the longest of them.
_LEAST_REQUESTS = 100
_NEAR = 0.9


def calibrate(case: Case) -> Calibration:
    """Replay `case` as it was, up to the end of its capture, and compare.

    `trust` is good where all that was observed fits within its bound, fair within twice that, else low. It is at most fair where the
    workload or a setting that mattered is not the recorded one, or no TTFT was observed; low where retractions feed on themselves or a
    feature is not in the model; none where nothing was observed.
    """
    unchanged = replay(case.workload, case.settings, case.fitted.step_time, pace=case.fitted.pace, until_s=case.end_s)
    measures = (
        curve_measure("running", case.observed.running, unchanged),
        curve_measure("waiting", case.observed.waiting, unchanged),
        curve_measure("kv_usage", case.observed.kv_usage, unchanged),
        retraction_measure(case.observed.retractions, unchanged),
        *ttft_measures(case, unchanged),
    )
    thrash = _thrashes(case, unchanged)
    trust, reasons = _judged(case, unchanged, measures, thrash)
    return Calibration(measures, trust, tuple(reasons), thrash, unchanged, ttft_spread(case, unchanged))


def _judged(case: Case, unchanged: Replayed, measures: Sequence[Measure], thrash: bool) -> tuple[Trust, list[str]]:
    told = [m for m in measures if m.error is not None]
    if not told:
        return "none", [_("nothing was recorded that the replay could be held against")]
    rank, reasons = 0, []
    beyond = [m for m in told if m.fits is False]
    if beyond:
        rank = 1 if all((m.error or 0.0) <= _FAIR * m.bound for m in beyond) else 2
        listed = fmt.listed([_("{what} by {error}", what=_title(m), error=fmt.share(m.error)) for m in beyond])
        reasons.append(_("the replay misses what was recorded: {listed}", listed=listed))
    if not any(m.key.startswith("ttft") for m in told):
        rank = max(rank, 1)
        reasons.append(_("no TTFT was recorded to hold the replay against"))
    for cap, reason in (*_caps(case, unchanged), *_thrash_said(case, unchanged, thrash)):
        rank = max(rank, cap)
        reasons.append(reason)
    reasons += _inputs(case, unchanged)
    return _TRUST[rank], reasons


def _caps(case: Case, unchanged: Replayed) -> list[tuple[int, str]]:
    """What keeps the trust down whatever the errors are, as (1 for fair, 2 for low; why)."""
    found = []
    if case.workload.approximate:
        found.append((1, _("the requests are not all as they were recorded")))
    if assumed := _assumed(case, unchanged):
        found.append((1, _("not in the capture and assumed, though it may have bound: {names}", names=fmt.listed(assumed))))
    found += [(2, _("not in the model: {what}", what=what)) for what in case.uncovered]
    return found


def _assumed(case: Case, unchanged: Replayed) -> list[str]:
    """Assumed settings that the replay came up against."""
    curves, settings = unchanged.curves, case.settings
    chunk = settings.step_tokens if isinstance(settings, Vllm) else settings.chunked_prefill_tokens or settings.max_prefill_tokens
    largest = max((t / n for t, n in zip(curves.prefill_tokens, curves.steps, strict=True) if n), default=0.0)
    bound = {
        "l1_tokens": True,
        "num_blocks": True,
        "max_running": max(curves.running, default=0) >= _NEAR * settings.max_running,
        "step_tokens": largest >= _NEAR * chunk,
        "chunked_prefill_tokens": largest >= _NEAR * chunk,
    }
    return [row.name for row in case.setting_rows if row.origin == "assumed" and bound.get(row.name, False)]


def _thrashes(case: Case, unchanged: Replayed) -> bool:
    most = max(unchanged.retractions, case.observed.retractions or 0)
    return thrashes(most, len(unchanged.requests)) or _recomputed(case, unchanged) > _THRASH_SHARE


def _recomputed(case: Case, unchanged: Replayed) -> float:
    """Share of the prefilled tokens that were prefilled again after a retraction."""
    lengths = {r.id: r.prompt_tokens for r in case.workload.requests}
    once = sum(lengths.get(r.id, 0) - r.cached_tokens for r in unchanged.requests if r.first_scheduled_s is not None)
    whole = sum(unchanged.curves.prefill_tokens)
    return max(0.0, 1.0 - once / whole) if whole and unchanged.retractions else 0.0


def _thrash_said(case: Case, unchanged: Replayed, thrash: bool) -> list[tuple[int, str]]:
    if not thrash:
        return []
    each = max(unchanged.retractions, case.observed.retractions or 0) / max(1, len(unchanged.requests))
    share = _recomputed(case, unchanged)
    text = _(
        "retractions fed on themselves ({each:.1f} per request, {share} of the prefill done again): small errors grow with every round",
        each=each,
        share=fmt.share(round(share, 2)),
    )
    return [(2, text)]


def _inputs(case: Case, unchanged: Replayed) -> list[str]:
    """What of the fit is no prediction, and how far its numbers carry."""
    found = []
    pace, end = case.fitted.pace, case.end_s
    if (share := slowed_share(pace, end, _SLOW)) >= _SLOW_SHARE:
        times = f"{_SLOW:g}"
        found.append(
            _(
                "for {share} of the time the host was more than {times} times slower than the step time says, or stood still: "
                "when it did is taken over from the capture, so this part of the fit is no prediction",
                share=fmt.share(round(share, 2)),
                times=times,
            )
        )
    if stalls := case.fitted.stalls:
        found.append(
            ngettext(
                "{n} time no client got a first token with nothing in the way ({seconds:.1f} s): TTFTs in that time are no prediction",
                "{n} times no client got a first token with nothing in the way ({seconds:.1f} s): TTFTs in those times are no prediction",
                len(stalls),
                n=len(stalls),
                seconds=sum(length for _at, length in stalls),
            )
        )
    both = waits(case, unchanged)
    if both.open:
        found.append(
            ngettext(
                "{n} request had no first token at the end: it counts with its wait so far, recorded and replayed",
                "{n} requests had no first token at the end: they count with their wait so far, recorded and replayed",
                both.open,
                n=both.open,
            )
        )
    if 0 < len(both.observed) < _LEAST_REQUESTS:
        found.append(_("of {n} requests the P99 is the longest one", n=len(both.observed)))
    return found


def _title(measure: Measure) -> str:
    return {
        "running": _("requests running"),
        "waiting": _("requests waiting"),
        "kv_usage": _("KV usage"),
        "retractions": _("retractions"),
        "ttft_p50": _("TTFT P50"),
        "ttft_p99": _("TTFT P99"),
    }[measure.key]
