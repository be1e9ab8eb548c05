"""What-ifs in words: a change, what it comes to, and the sentence that settles whether L1 or L2 was the reason."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

from analyzer.language import N_, _, ngettext
from analyzer.replay import knobs
from analyzer.replay.model import Case, Change, Measure, Outcome, Study, WhatIf
from analyzer.replay.step_time import StepTime
from analyzer.report import fmt

# A P99 below this share of the unchanged one is a help, above it not worth a sentence.
_HELPS = 0.7
# Of the most that a knob buys, what is worth buying: the least change that gives this share of it is named.
_WORTH = 0.8
# One knob outdoes another when its P99 is below this share of the other's.
_OUTDOES = 0.5

_SPOKEN = {
    "l1_tokens": {
        "twice": N_("twice the L1"), "half": N_("half the L1"), "more": N_("{share} more L1"), "less": N_("{share} less L1"),
        "times": N_("{times} times the L1"), "of": N_("an L1 of {value}"),
    },
    "l2_tokens": {
        "twice": N_("twice the L2"), "half": N_("half the L2"), "more": N_("{share} more L2"), "less": N_("{share} less L2"),
        "times": N_("{times} times the L2"), "of": N_("an L2 of {value}"), "none": N_("no L2"), "same": N_("the same L2"),
    },
    "arrival_rate": {
        "twice": N_("twice the load"), "half": N_("half the load"), "more": N_("{share} more load"), "less": N_("{share} less load"),
        "times": N_("{times} times the load"), "of": N_("a load of {value}"),
    },
}  # fmt: skip


def setting(changes: Sequence[Change], case: Case) -> str:
    """Changes for a table: `L1 × 1.25 (10,240 tokens)`; one after the other, each on top of those before."""
    workload, settings = case.workload, case.settings
    told = []
    for change in changes:
        what, value = knobs.title(change.knob), knobs.target(change, workload, settings)
        factor = knobs.factor(change, workload, settings)
        if change.knob == "prefix_sharing":
            told.append(_("{knob} on", knob=what) if value else _("{knob} off", knob=what))
        elif value == 0:
            told.append(_("{knob} off", knob=what))
        elif factor is None:
            told.append(_("{knob} {value}", knob=what, value=amount(change.knob, value)))
        else:
            times = f"{factor:.3g}"
            told.append(_("{knob} × {factor} ({value})", knob=what, factor=times, value=amount(change.knob, value)))
        workload, settings = knobs.applied((change,), workload, settings)
    return fmt.listed(told)


def amount(knob: str, value: float) -> str:
    """A knob's value with its unit."""
    unit = knobs.named(knob).unit
    if unit == "requests/s":
        return _("{n} requests/s", n=fmt.number(value))
    return fmt.measure(round(value) if knobs.named(knob).whole else value, unit)


def spoken(changes: Sequence[Change], case: Case) -> str:
    """The same within a sentence: `25 % more L1`, `twice the L2`."""
    if len(changes) != 1 or changes[0].knob == "prefix_sharing":
        return setting(changes, case)
    change = changes[0]
    value = knobs.target(change, case.workload, case.settings)
    factor = knobs.factor(change, case.workload, case.settings)
    forms = _SPOKEN.get(change.knob)
    if forms is None:
        return _("{knob} at {value}", knob=knobs.title(change.knob), value=amount(change.knob, value))
    form, share = _form(factor if value else 0.0)
    times = f"{factor or 0:.3g}"
    return _(forms.get(form, forms["of"]), share=fmt.share(share), times=times, value=amount(change.knob, value))


def _form(factor: float | None) -> tuple[str, float]:
    if factor is None:
        return "of", 0.0
    exact = {0.0: "none", 0.5: "half", 1.0: "same", 2.0: "twice"}.get(factor)
    return exact or ("times" if factor > 2 else "more" if factor > 1 else "less"), abs(factor - 1)


def seconds(value: float | None) -> str:
    """A TTFT; one that never came is told so."""
    if value is not None and not isfinite(value):
        return _("never")
    return fmt.duration(value)


def band(what_if: WhatIf) -> str:
    """The range that the P99 may lie in; empty where the replay's own error is not known."""
    low, high = what_if.low_s, what_if.high_s
    if low is None or high is None or not isfinite(low):
        return ""
    return span(low, high)


def span(low: float, high: float) -> str:
    """A range of times, `20 to 40 s`; without an end, `over 20 s`."""
    if not isfinite(high):
        return _("over {low}", low=fmt.duration(low))
    from_, to = fmt.duration(low), fmt.duration(high)
    # a unit that both have is written once
    number, _blank, unit = to.rpartition(fmt.NBSP)
    if from_.endswith(fmt.NBSP + unit) and fmt.NBSP not in number:
        from_ = from_.removesuffix(fmt.NBSP + unit)
    return _("{low} to {high}", low=from_, high=to)


def recorded(measure: Measure) -> str:
    """What was recorded of a measure; of a percentile of a histogram the bucket that it lies in."""
    return value(measure, measure.observed) if measure.bucket is None else span(*measure.bucket)


def value(measure: Measure, number: float | None) -> str:
    """One of the values of a measure, with its unit."""
    if number is None or measure.unit == "s":
        return fmt.not_reported() if number is None else seconds(number)
    return fmt.measure(_rounded(number), measure.unit)


def error(measure: Measure) -> str:
    """How far the replay is off as a share, or that it is inside of the bucket; empty without a record."""
    if measure.bucket is not None and measure.error == 0:
        return _("inside the bucket")
    return "" if measure.error is None else fmt.share(_rounded(measure.error))


def _rounded(number: float) -> float:
    """Three digits: a mean of a gauge has no more."""
    return float(f"{number:.3g}")


def errors_explained(measures: Sequence[Measure]) -> str:
    """What the errors are shares of."""
    told = [_("An error is a share of what was recorded; of a curve it is the mean distance as a share of the range recorded.")]
    if any(m.bucket is not None for m in measures):
        told.append(_("TTFT was read off a histogram: it lies in the bucket shown, and inside of it no value is more likely than another."))
    return fmt.sentences(told)


def two_ends(study: Study) -> str:
    """Why P99 TTFT with nothing changed is one number beside what was recorded and another beside the what-ifs; empty where not."""
    held = next((m.replayed for m in study.calibration.measures if m.key == "ttft_p99"), None)
    whole = study.unchanged.ttft_p99_s
    if held is None or whole is None or seconds(held) == seconds(whole):
        return ""
    return _(
        "P99 TTFT with nothing changed is {held} where it is held against the capture, for it ends with the capture, and {whole} among the "
        "what-ifs, for those go on until all are served.",
        held=seconds(held),
        whole=seconds(whole),
    )


def unserved(name: str, outcome: Outcome) -> str:
    """Requests that nothing serves under one setting, called `name`, and those that stand behind them; empty where there are none."""
    if not outcome.never:
        return ""
    fields = {"name": name, "n": fmt.number(outcome.never), "behind": fmt.number(outcome.open)}
    if not outcome.open:
        return ngettext(
            "{name}: {n} request can never be served; it needs more than the server has or allows.",
            "{name}: {n} requests can never be served; they need more than the server has or allows.",
            outcome.never,
            **fields,
        )
    return ngettext(
        "{name}: {n} request can never be served; it needs more than the server has or allows. {behind} more get no first token, behind "
        "it.",
        "{name}: {n} requests can never be served; they need more than the server has or allows. {behind} more get no first token, behind "
        "them.",
        outcome.never,
        **fields,
    )


_TERMS = (
    ("base_s", "{time}"),
    ("token_s", N_("{time} per new token (prefill or decode)")),
    ("request_s", N_("{time} per request in the batch")),
    ("prefill_s", N_("{time} more where it prefills")),
    ("attended_s", N_("{time} per pair of a prefill token and a token before it")),
    ("kv_token_s", N_("{time} per KV token that decoding requests read")),
)


def ranked(what_ifs: Sequence[WhatIf]) -> list[WhatIf]:
    """By what they buy: the lowest P99 first, then the lowest P50."""

    def of(value: float | None) -> float:
        return inf if value is None else value

    return sorted(what_ifs, key=lambda w: (of(w.outcome.ttft_p99_s), of(w.outcome.ttft_p50_s)))


def all_unserved(study: Study) -> list[str]:
    """What is never served under which setting, in the order of the table."""
    named = [(_("nothing changed"), study.unchanged), *((setting(w.changes, study.case), w.outcome) for w in ranked(study.what_ifs))]
    return [told for name, outcome in named if (told := unserved(name, outcome))]


def step_time(model: StepTime) -> str:
    """What a step takes, term by term: `7 ms per step + 20 µs per new token`."""
    told = [_(term, time=_tiny(getattr(model, name))) for name, term in _TERMS if getattr(model, name)]
    return _("A step takes {terms}.", terms=" + ".join(told))


def _tiny(value: float) -> str:
    """A time that may be far below what durations are written in."""
    return fmt.duration(value) if value >= 1e-6 else f"{value * 1e9:.3g}{fmt.NBSP}ns"


def sentence(study: Study) -> str:
    """What more L2 would have changed, what more L1, and what else where that is far better; empty where nothing was tried."""
    now = study.unchanged.ttft_p99_s
    if now is None:
        return ""
    trusted = study.calibration.trust in ("good", "fair")
    rows = [w for w in study.what_ifs if len(w.changes) == 1 and w.outcome.ttft_p99_s is not None and (w.trusted or not trusted)]
    l1, l2 = _of(rows, "l1_tokens", study), _of(study.what_ifs, "l2_tokens", study)
    parts: list[str] = []
    if l2:
        told = _says(l2[-1], study, first=True)
        parts.append(_("{told} ({why})", told=told, why=fmt.prose(l2[-1].why_not, 300)) if trusted and l2[-1].why_not else told)
    best = _least_worth(l1, now)
    if best is not None:
        parts.append(_says(best, study, first=not parts))
    others = [w for w in rows if w.changes[0].knob not in ("l1_tokens", "l2_tokens") and _same_load(w.changes[0], study.case)]
    other = min(others, key=_p99, default=None)
    least = min([now, *map(_p99, l1)])
    doubtful = _doubtful(study, rows, min(least, now)) if trusted else None
    if other is not None and _p99(other) < min(_HELPS * now, _OUTDOES * least if l1 else now):
        parts.append(_says(other, study, first=not parts))
    elif doubtful is not None:
        parts.append(_("{told} ({why})", told=_says(doubtful, study, first=not parts), why=fmt.prose(doubtful.why_not, 300)))
    elif parts and not min([least, *map(_p99, l2), *map(_p99, others)]) < _HELPS * now:
        parts.append(_("no setting that was tried helps"))
    if not parts:
        return ""
    told = _("; ").join(parts) + _(".")
    return told if trusted else fmt.sentences([told, _("The replay is not to be relied on here.")])


def _doubtful(study: Study, trusted: Sequence[WhatIf], least: float) -> WhatIf | None:
    """What would help far more than anything that can be relied on; to leave it out would be to say that it does not."""
    others = [
        w
        for w in study.what_ifs
        if w not in trusted
        and len(w.changes) == 1
        and w.changes[0].knob != "l2_tokens"
        and w.outcome.ttft_p99_s is not None
        and w.why_not
        and _same_load(w.changes[0], study.case)
    ]
    best = min(others, key=_p99, default=None)
    return best if best is not None and _p99(best) < _OUTDOES * least else None


def _same_load(change: Change, case: Case) -> bool:
    """Whether the same requests came and none was cut shorter."""
    if change.knob == "max_new_tokens":
        return knobs.target(change, case.workload, case.settings) >= max(r.output_tokens for r in case.workload.requests)
    return change.knob != "arrival_rate"


def _of(rows: Sequence[WhatIf], knob: str, study: Study) -> list[WhatIf]:
    """What adds to a knob, the least first."""
    state = study.case.workload, study.case.settings
    up = [w for w in rows if len(w.changes) == 1 and w.changes[0].knob == knob and (knobs.factor(w.changes[0], *state) or 2) > 1]
    return sorted((w for w in up if w.outcome.ttft_p99_s is not None), key=lambda w: knobs.target(w.changes[0], *state))


def _least_worth(rows: Sequence[WhatIf], now: float) -> WhatIf | None:
    """The least change that gives most of what the knob can give; the largest where it gives nothing worth saying."""
    if not rows:
        return None
    best = min(map(_p99, rows))
    if not best < _HELPS * now:
        return rows[-1]
    enough = now - _WORTH * (now - best) if isfinite(now) else best / _HELPS
    return next(w for w in rows if _p99(w) <= enough)


def _says(what_if: WhatIf, study: Study, *, first: bool) -> str:
    then, now = _p99(what_if), study.unchanged.ttft_p99_s
    assert now is not None
    fields = {"change": spoken(what_if.changes, study.case), "then": seconds(then), "now": seconds(now)}
    if not isfinite(then):
        told = _("with {change} not every first token comes", **fields)
    elif not first:
        told = _("{change} brings it to {then}", **fields) if then < _HELPS * now else _("{change} leaves it at {then}", **fields)
    elif not isfinite(now):
        told = _("{change} brings P99 TTFT to {then}", **fields)
    elif fields["then"] == fields["now"]:
        told = _("{change} leaves P99 TTFT at {then}", **fields)
    else:
        told = _("{change} takes P99 TTFT from {now} to {then}", **fields)
    return told[0].upper() + told[1:] if first else told


def _p99(what_if: WhatIf) -> float:
    assert what_if.outcome.ttft_p99_s is not None
    return what_if.outcome.ttft_p99_s


def against(outcome: Outcome, unchanged: Outcome) -> str:
    """The P99 against that of the unchanged replay: `-92 %`, `× 3.1`; empty where there is nothing to say."""
    then, now = outcome.ttft_p99_s, unchanged.ttft_p99_s
    if then is None or now is None or not isfinite(then) or not isfinite(now) or now <= 0:
        return ""
    ratio = then / now
    if ratio > 2:
        times = f"{ratio:.3g}"
        return _("× {factor}", factor=times)
    return f"{'+' if ratio > 1 else '-' if ratio < 1 else '±'}{fmt.share(abs(ratio - 1))}"
