"""`compare`: two sides in, a `Comparison` out."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer import __version__
from analyzer.comparison.configuration import compared_run, configuration
from analyzer.comparison.deltas import deltas
from analyzer.comparison.judge import judge
from analyzer.comparison.measure import length, measure
from analyzer.comparison.model import AnswerPair, Comparison, SideSummary
from analyzer.comparison.side import Side
from analyzer.diagnosis.model import Window
from analyzer.language import _
from analyzer.report import fmt


def compare(a: Side, b: Side) -> Comparison:
    """What is different in B, whether it is better, and what that rests on. Sentences are in the language of the moment."""
    measured_a, window_a = measure(a)
    measured_b, window_b = measure(b)
    first, second = _summary(a, window_a), _summary(b, window_b)
    told = deltas(
        measured_a,
        measured_b,
        lengths=(first.seconds, second.seconds),
        incident=(bool(first.incidents), bool(second.incidents)),
    )
    settings = configuration(a, b)
    return Comparison(
        tool_version=__version__,
        change=judge(first, second, told, settings),
        a=first,
        b=second,
        deltas=told,
        answers=tuple(_answers(a, b)),
        configuration=settings,
        notes=tuple(_notes(a, b)),
    )


def _summary(side: Side, window: Window) -> SideSummary:
    instance = side.instance
    return SideSummary(
        name=fmt.clean(side.name, 120),
        trace=fmt.clean(side.diagnosis.trace, 120),
        instance=fmt.clean(instance.instance, 120),
        engine=instance.engine,
        versions=fmt.clean(instance.versions, 120),
        runs=instance.runs,
        run_id=compared_run(side),
        window=window,
        seconds=length(window),
        cause=instance.verdict.cause,
        confidence=instance.verdict.confidence,
        sentence=fmt.clean(instance.verdict.sentence, 1000),
        incident=instance.incidents[0].window if instance.incidents else Window(None, None),
        incidents=len(instance.incidents),
        cut=side.diagnosis.cut,
    )


def _answers(a: Side, b: Side) -> Iterator[AnswerPair]:
    of_b = {answered.id: answered for answered in b.instance.checklist}
    for one in a.instance.checklist:
        other = of_b[one.id]
        yield AnswerPair(
            id=one.id,
            number=one.number,
            title=one.title,
            a=one.answer,
            b=other.answer,
            sentence_a=fmt.clean(one.sentence, 600),
            sentence_b=fmt.clean(other.sentence, 600),
        )


def _notes(a: Side, b: Side) -> Iterator[str]:
    for letter, side in (("A", a), ("B", b)):
        several = len(side.diagnosis.instances)
        if several > 1:
            yield _(
                "{side} holds {n} instances; compared is {name}.",
                side=letter,
                n=fmt.number(several),
                name=fmt.clean(side.instance.instance, 120),
            )
        for warning in side.instance.warnings:
            yield _("{side}: {warning}", side=letter, warning=fmt.clean(warning, 400))
        for name, now in side.diagnosis.thresholds.items():
            yield _("{side}: threshold {name} is {now}, not as shipped.", side=letter, name=name, now=format(now, "g"))
