"""A study for a terminal: what settles it first, then how far it can be leaned on, what would have helped, and what it ran with."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analyzer.language import N_, _
from analyzer.replay import words
from analyzer.replay.model import Calibration, Case, GoalAnswer, NoReplay, SettingRow, Study
from analyzer.report import fmt

TRUST = {
    "good": N_("The replay fits what was recorded: good."),
    "fair": N_("The replay fits what was recorded fairly."),
    "low": N_("The replay does not fit what was recorded: do not rely on what follows."),
    "lucky": N_("The replay fits what was recorded, and still do not rely on what follows."),
    "none": N_("Nothing was recorded to hold the replay against: do not rely on what follows."),
}
_TRUST_STYLE = {"good": "bold green", "fair": "bold", "low": "bold yellow", "none": "bold yellow"}
MEASURES = {
    "running": N_("running, mean"),
    "waiting": N_("waiting, mean"),
    "kv_usage": N_("KV usage, mean"),
    "retractions": N_("retractions"),
    "ttft_p50": N_("P50 TTFT"),
    "ttft_p99": N_("P99 TTFT"),
}
ORIGINS = {"read": N_("read"), "measured": N_("measured"), "assumed": N_("assumed"), "changed": N_("changed")}


def text(studies: Sequence[Study | NoReplay], *, to_file: bool) -> str:
    """All servers, one after the other; coloured for a terminal only."""
    console = Console(highlight=False, no_color=True, width=130) if to_file or not sys.stdout.isatty() else Console(highlight=False)
    with console.capture() as capture:
        for at, told in enumerate(studies):
            if at:
                console.print()
            if isinstance(told, NoReplay):
                _print_none(console, told)
            else:
                _print(console, told)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _print_none(console: Console, told: NoReplay) -> None:
    console.print(Text(_("{instance}: no replay: {reason}", instance=fmt.name_of(told.instance), reason=told.reason), style="bold yellow"))
    if told.hint:
        console.print(Text("  " + _("What it takes: {hint}", hint=told.hint)))


def _print(console: Console, study: Study) -> None:
    case, calibration = study.case, study.calibration
    engine = fmt.clauses([fmt.name_of(case.instance), f"{case.engine} {fmt.clean(case.engine_version, 80)}".strip(), _what(case)])
    console.print(Text(engine, style="bold"))
    fitting = "lucky" if calibration.trust == "low" and not calibration.misses else calibration.trust
    console.print(Text(_(TRUST[fitting]), style=_TRUST_STYLE[calibration.trust]))
    if sentence := words.sentence(study):
        console.print(Text(sentence))
    _print_list(console, _("What weakens it:"), (*calibration.reasons, *case.workload.notes))
    if calibration.measures:
        console.print(Text("\n" + _("The replay with nothing changed, against what was recorded:"), style="bold"))
        console.print(_fit(calibration))
        _print_aside(console, words.errors_explained(calibration.measures))
    console.print(Text("\n" + _("What would have changed, the best first:"), style="bold"))
    console.print(_what_ifs(study))
    untrusted = {w.why_not: None for w in study.what_ifs if not w.trusted}
    for number, why in enumerate(untrusted, 1):
        console.print(Padding(Text(_("({n}) not to be relied on: {why}", n=number, why=why), style="dim"), (0, 0, 0, 2)))
    if not study.what_ifs:
        _print_aside(console, _("No change was asked for: --set l1_tokens=x1.25 tries one, and without --no-grid each setting is tried."))
    for aside in (words.two_ends(study), *words.all_unserved(study)):
        _print_aside(console, aside)
    for answer in study.goals:
        _print_goal(console, answer)
    if study.skipped:
        console.print(Text("\n" + _("Not tried:"), style="bold"))
        for why in study.skipped:
            console.print(Padding(Text(f"- {why}"), (0, 0, 0, 2)))
    console.print(Text("\n" + _("It ran with:"), style="bold"))
    console.print(_settings(case.setting_rows))
    _print_aside(console, words.step_time(case.fitted.step_time), style="")
    _print_aside(console, _step_time(case), style="")


def _print_aside(console: Console, sentence: str, style: str = "dim") -> None:
    if sentence:
        console.print(Padding(Text(sentence, style=style), (0, 0, 0, 2)))


def _what(case: Case) -> str:
    n = len(case.workload.requests)
    return _("{requests} over {span}", requests=fmt.plural(n, "request"), span=fmt.duration(case.workload.duration_s))


def _print_list(console: Console, title: str, sentences: Sequence[str]) -> None:
    if sentences:
        console.print(Text("\n" + title, style="bold"))
    for sentence in sentences:
        console.print(Padding(Text(f"- {sentence}"), (0, 0, 0, 2)))


def _fit(calibration: Calibration) -> Table:
    table = _table("", _("Recorded"), _("Replayed"), _("Error"), _("Bias"), _("Bound"), "", left=(0, 6))
    for m in calibration.measures:
        style = "" if m.fits is None else "green" if m.fits else "yellow"
        word = _("nothing recorded") if m.fits is None else _("fits") if m.fits else _("does not fit")
        table.add_row(
            _(MEASURES[m.key]),
            words.recorded(m),
            words.value(m, m.replayed),
            words.error(m),
            "" if m.bias is None else signed_share(m.bias),
            fmt.share(m.bound),
            Text(word, style=style),
        )
    return table


def signed_share(value: float) -> str:
    """A share with its sign: `+3 %`."""
    return ("+" if value > 0 else "-" if value < 0 else "±") + fmt.share(abs(value))


def _what_ifs(study: Study) -> Table:
    table = _table(
        "", _("P99 TTFT"), _("may be"), "", _("P50 TTFT"), _("Waiting"), _("Retracted"), _("No token"), "", left=(0,), no_wrap=(0, 1, 2, 3)
    )
    now = study.unchanged
    table.add_row(
        Text(_("nothing changed"), style="bold"),
        words.seconds(now.ttft_p99_s),
        "",
        "",
        words.seconds(now.ttft_p50_s),
        fmt.number(now.max_waiting),
        fmt.number(now.retractions),
        fmt.number(now.open + now.never),
        "",
    )
    reasons = list({w.why_not: None for w in study.what_ifs if not w.trusted})
    for w in words.ranked(study.what_ifs):
        table.add_row(
            Text(words.setting(w.changes, study.case)),
            words.seconds(w.outcome.ttft_p99_s),
            words.band(w),
            words.against(w.outcome, now),
            words.seconds(w.outcome.ttft_p50_s),
            fmt.number(w.outcome.max_waiting),
            fmt.number(w.outcome.retractions),
            fmt.number(w.outcome.open + w.outcome.never),
            "" if w.trusted else f"({reasons.index(w.why_not) + 1})",
            style="" if w.trusted else "dim",
        )
    return table


def _print_goal(console: Console, answer: GoalAnswer) -> None:
    console.print(Text("\n" + _("Goal {goal} by {knob}:", goal=answer.goal, knob=answer.knob), style="bold"))
    console.print(Padding(Text(answer.said), (0, 0, 0, 2)))
    if answer.change is not None:
        console.print(Padding(Text(f"--set {answer.change.text}", style="dim"), (0, 0, 0, 2)))


def _settings(rows: Sequence[SettingRow]) -> Table:
    table = _table("", "", "", "", left=(0, 1, 2, 3))
    table.show_header = False
    for row in rows:
        assumed = row.origin == "assumed"
        style = "yellow" if assumed else ""
        table.add_row(
            fmt.clean(row.name, 60),
            fmt.clean(row.value, 60),
            Text(_(ORIGINS[row.origin]), style=style),
            Text(fmt.clean(row.source, 200), style="dim"),
        )
    return table


def _step_time(case: Case) -> str:
    fitted = case.fitted
    told = [_("Step time: {basis}", basis=fmt.clean(fitted.basis, 600))]
    if fitted.residual_share is not None:
        error = fmt.share(fitted.residual_share)
        told.append(_("It is off by {share} in the median of {n}.", share=error, n=fmt.plural(fitted.samples, "sample")))
    return fmt.sentences(told)


def _table(*titles: str, left: Sequence[int], no_wrap: Sequence[int] = (0,)) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for at, title in enumerate(titles):
        table.add_column(title, justify="left" if at in left else "right", overflow="fold", no_wrap=at in no_wrap)
    return table
