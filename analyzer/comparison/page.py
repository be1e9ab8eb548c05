"""The comparison as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.comparison import curves, said
from analyzer.comparison.curves import Align, Figure, figure
from analyzer.comparison.deltas import GROUPS
from analyzer.comparison.model import Comparison, Delta, FactPair, SideSummary
from analyzer.comparison.side import Side
from analyzer.language import _
from analyzer.report import fmt, words
from analyzer.report.assets import report_assets
from analyzer.report.capped import Capped, cap
from analyzer.report.render import render_template
from analyzer.report.words import Tone

MAX_FACTS = 150


@dataclass(frozen=True, slots=True)
class Group:
    """One table of measurements, and the titles of those that neither side reported."""

    key: str
    title: str
    rows: tuple[Delta, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SideView:
    """One side as the page's head shows it."""

    letter: str
    summary: SideSummary
    cause: str
    tone: Tone
    confidence: str
    sentence: str
    more: str


@dataclass(frozen=True, slots=True)
class ComparePage:
    """What the page shows beside the comparison itself."""

    comparison: Comparison
    headline: str
    tone: Tone
    sides: tuple[SideView, SideView]
    groups: tuple[Group, ...]
    changed: Capped[FactPair]
    only: tuple[tuple[str, Capped[FactPair]], ...]
    figure: Figure | None


def build_page(a: Side, b: Side, comparison: Comparison, align: Align = "start") -> ComparePage:
    """The page's data, from the opened sides and their comparison."""
    headline, tone = said.outcome(comparison.change.outcome)
    settings = comparison.configuration
    return ComparePage(
        comparison=comparison,
        headline=headline,
        tone=tone,
        sides=(_view("A", comparison.a), _view("B", comparison.b)),
        groups=groups(comparison.deltas),
        changed=cap(settings.changed, MAX_FACTS),
        only=tuple((letter, cap(facts, MAX_FACTS)) for letter, facts in (("A", settings.only_a), ("B", settings.only_b)) if facts),
        figure=figure(a, b, align),
    )


def _view(letter: str, summary: SideSummary) -> SideView:
    _title, short, _meaning, tone = words.cause_words(summary.cause)
    first, rest = fmt.headline(summary.sentence)
    return SideView(letter, summary, short, tone, words.confidence_word(summary.confidence), first, rest)


def groups(deltas: Sequence[Delta]) -> tuple[Group, ...]:
    """The rows by group; what neither side reported is named, and has no row."""

    def silent(d: Delta) -> bool:
        return d.a.value is None and d.b.value is None

    return tuple(
        Group(
            key,
            _(title),
            tuple(d for d in deltas if d.group == key and not silent(d)),
            tuple(d.title for d in deltas if d.group == key and silent(d)),
        )
        for key, title in GROUPS.items()
    )


def render_page(page: ComparePage) -> str:
    """The page in the language of the moment."""
    names = page.comparison.a.name, page.comparison.b.name
    title = _("{headline}: {a} and {b} (kvpm)", headline=page.headline, a=fmt.clean(names[0], 40), b=fmt.clean(names[1], 40))
    return render_template(
        "compare/compare.html.j2",
        p=page,
        c=page.comparison,
        said=said,
        curves=curves,
        title=fmt.clean(title, 160),
        assets=report_assets(explore=False),
    )
