"""From a replay of the worst server to the section's data."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from analyzer.diagnosis.model import Window
from analyzer.language import _, ngettext
from analyzer.replay.model import GoalAnswer, Measure, NoReplay, Study, WhatIf
from analyzer.replay.words import all_unserved, error, errors_explained, recorded, sentence, step_time, two_ends, value
from analyzer.report import fmt
from analyzer.report.capped import Capped, cap
from analyzer.report.replay import words
from analyzer.report.replay.gauges import gauges
from analyzer.report.replay.ladder import ladders
from analyzer.report.replay.model import (
    MAX_LINES,
    MAX_ROWS,
    MAX_SETTINGS,
    MAX_TRIED,
    Failed,
    FitRow,
    GoalView,
    LeftOut,
    ReplayView,
    SettingView,
    StudyView,
    WhatIfRow,
)
from analyzer.report.replay.rows import rows

Told = Study | NoReplay | LeftOut | Failed
# What the report was made of is not known to its data; the reader puts it there.
_INPUT = "INPUT"
# What an operator can set, and a goal can be sought by.
_SERVERS = ("l1_tokens", "max_running", "step_tokens", "conservativeness", "chunked_prefill_tokens")


def build_replay(told: Told, *, window: Window, inputs: Sequence[str] = (), several: bool = False) -> ReplayView:
    """The section. `window` is the incident; `inputs` are what the commands are to read, `several` names the server in them."""
    if isinstance(told, Study):
        return _studied(told, window, _commands(inputs, told.case.instance if several else "", "", _goal(told)))
    name = fmt.name_of(told.instance)
    own = told.instance if several else ""
    if isinstance(told, NoReplay):
        hint = _("To be able to next time: {hint}", hint=fmt.prose(told.hint, 600)) if told.hint else ""
        return ReplayView("not_possible", name, _("It cannot be replayed: {reason}.", reason=fmt.prose(told.reason, 600)), hint, ())
    if isinstance(told, Failed):
        sentence = _("The replay failed: {reason}", reason=fmt.clean(told.reason, 300))
        return ReplayView("failed", name, sentence, "", _commands(inputs, own, ""))
    hint = _("kvpm report --replay asks for it all the same.")
    return ReplayView("left_out", name, _left_out(told), hint, _commands(inputs, own, ""))


def _left_out(told: LeftOut) -> str:
    n = told.requests
    if not n:
        return _("Nothing was replayed: a capture of this length takes longer than a report should.")
    return ngettext(
        "Nothing was replayed: {n} request with {tokens} takes longer than a report should.",
        "Nothing was replayed: {n} requests with {tokens} take longer than a report should.",
        n,
        n=fmt.number(n),
        tokens=fmt.measure(told.output_tokens, "tokens"),
    )


def _commands(inputs: Sequence[str], instance: str, *more: str) -> tuple[str, ...]:
    """`kvpm replay` with each of `more`, as a shell takes it."""
    given = shlex.join(inputs) if inputs else _INPUT
    # a name that cannot be shown as it is cannot be copied either
    if instance and fmt.clean(instance, 120) == instance:
        given += f" --server {shlex.quote(instance)}"
    return tuple(fmt.clean(f"kvpm replay {given} {options}".strip(), 1000) for options in more)


def _goal(study: Study) -> str:
    """A goal worth asking for: half of what P99 TTFT is, as a number a person would type, by the setting that brought most."""
    of_server = [w for w in study.what_ifs if w.trusted and len(w.changes) == 1 and w.changes[0].knob in _SERVERS and w.outcome.ttft_p99_s]
    best = min(of_server, key=lambda w: w.outcome.ttft_p99_s or 0.0, default=None)
    knob = best.changes[0].knob if best else _SERVERS[0]
    p99 = study.unchanged.ttft_p99_s
    wanted = 2.0 if p99 is None or p99 > 4 else max(0.001, float(f"{p99 / 2:.1g}"))
    return f"--goal 'ttft_p99<{wanted:g}s' --by {knob}"


def _studied(study: Study, window: Window, commands: tuple[str, ...]) -> ReplayView:
    told = study.calibration
    word, tone = words.trust(told.trust)
    engine = study.case.engine
    everything = rows(study, study.what_ifs)
    doubt = _doubt_of_all(everything)
    return ReplayView(
        "studied",
        fmt.name_of(study.case.instance),
        _answer(study),
        "",
        commands,
        StudyView(
            trust=told.trust,
            trust_word=word,
            tone=tone,
            reasons=cap((fmt.prose(r, 400) for r in told.reasons), MAX_LINES),
            fits=tuple(_fit(m, engine) for m in told.measures),
            fit_notes=tuple(fmt.prose(t, 400) for t in (errors_explained(told.measures), two_ends(study)) if t),
            unserved=cap((fmt.prose(t, 300) for t in all_unserved(study)), MAX_LINES),
            step_time=_step_time(study),
            chart=gauges(study, window),
            ladders=ladders(study),
            thrown=words.thrown(engine),
            rows=cap(everything, MAX_ROWS),
            doubt=doubt,
            goals=tuple(_goal_view(g, study) for g in study.goals[:MAX_LINES]),
            settings=cap(
                (
                    SettingView(fmt.clean(s.name, 80), fmt.clean(s.value, 120), words.origin(s.origin), fmt.clean(s.source, 300))
                    for s in study.case.setting_rows
                ),
                MAX_SETTINGS,
            ),
            assumed=cap((fmt.prose(n, 400) for n in study.case.workload.notes), MAX_LINES),
            skipped=cap((fmt.prose(s, 300) for s in study.skipped), MAX_LINES),
        ),
    )


def _answer(study: Study) -> str:
    """The sentence that settles the argument; where the replay cannot be trusted, that."""
    if study.calibration.trust == "none":
        return _("There is nothing that the replay could be held against: what it says is only to be looked at.")
    if study.calibration.trust == "low":
        return _("The replay is not to be relied on: what it says is only to be looked at.")
    return sentence(study) or _("The replay gives no P99 TTFT of a changed server.")


def _doubt_of_all(everything: Sequence[WhatIfRow]) -> str:
    """The reason that all changed rows share, to be said once."""
    doubts = {r.doubt for r in everything[1:]}
    return doubts.pop() if len(doubts) == 1 else ""


def _fit(measure: Measure, engine: str) -> FitRow:
    # a tenth of a per cent is as fine as it is shown
    bias = None if measure.bias is None else round(measure.bias, 3)
    return FitRow(
        title=words.measure(measure.key, engine),
        observed=recorded(measure),
        replayed=value(measure, measure.replayed),
        error=error(measure),
        bias="" if bias is None else ("-" if bias < 0 else "+" if bias > 0 else "") + fmt.share(abs(bias)),
        bound=_("up to {share}", share=fmt.share(measure.bound)),
        fits=measure.fits,
    )


def _step_time(study: Study) -> str:
    """What a step takes, what that was fitted to, and how well."""
    fitted = study.case.fitted
    told = [step_time(fitted.step_time), fmt.prose(fitted.basis, 300)]
    if fitted.residual_share is not None:
        told.append(
            _("Half of {n} intervals lie within {share} of it.", n=fmt.number(fitted.samples), share=fmt.share(fitted.residual_share))
        )
    return fmt.sentences(told)


def _goal_view(goal: GoalAnswer, study: Study) -> GoalView:
    tried: list[WhatIf] = list(goal.tried)
    found = rows(study, tried) if tried else []
    shown = Capped(tuple(found[:MAX_TRIED]), len(found))
    return GoalView(fmt.clean(goal.goal, 80), fmt.prose(goal.said, 600), shown)
