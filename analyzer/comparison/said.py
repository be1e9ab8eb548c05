"""How measurements, differences and directions are written, on the page and in the terminal alike."""

from __future__ import annotations

from analyzer.comparison.model import Delta, Measurement, Outcome, Unit
from analyzer.language import N_, _, ngettext
from analyzer.report import fmt, words
from analyzer.report.words import Tone

DIRECTIONS: dict[str, tuple[str, Tone]] = {
    "better": (N_("better"), "good"),
    "worse": (N_("worse"), "bad"),
    "neither": (N_("neither"), "grey"),
    "cannot_tell": (N_("cannot tell"), "grey"),
}
OUTCOMES: dict[Outcome, tuple[str, Tone]] = {
    "better": (N_("B is better than A"), "good"),
    "worse": (N_("B is worse than A"), "bad"),
    "no_clear_change": (N_("No clear change from A to B"), "grey"),
    "cannot_tell": (N_("Cannot tell whether the change helped"), "grey"),
}
SOURCES = {
    "client": N_("client records"),
    "frontend": N_("records of the front end"),
    "engine": N_("records of the engine"),
    "histogram": N_("histograms"),
    "counter": N_("the engine's counters"),
    "log": N_("the log"),
    "metrics": N_("the metrics"),
    "estimate": N_("an estimate from admissions and throughput"),
    "reported": N_("the rate of the last thousand requests, as vLLM logs it"),
    "incident": N_("the incidents found"),
    "fact": N_("what the engine reported at its start"),
}
_EXACT = ("client", "frontend", "engine")


def value(measured: Measurement, unit: Unit) -> str:
    """A value with its unit; what is not known is said, never shown as 0."""
    if measured.value is None:
        return measured.note or fmt.not_reported()
    text = amount(measured.value, unit)
    return _("over {value}", value=text) if measured.at_least else text


def amount(number: float, unit: Unit) -> str:
    """A number with its unit, rounded to what a reader can use."""
    if unit == "s":
        return fmt.duration(number)
    if unit == "share":
        return fmt.share(number)
    if unit == "events":
        return fmt.plural(round(number), "request")
    if unit == "incidents":
        return fmt.number(round(number))
    short = fmt.number(round(number, 1) if abs(number) >= 10 else float(f"{number:.3g}"))
    if unit == "requests/s":
        return _("{n}/s", n=short)
    if unit == "per hour":
        return _("{n} per hour", n=short)
    if unit == "per 1000 requests":
        return _("{n} per 1,000", n=short)
    return fmt.measure(float(short.replace(",", "")), unit)


def difference(delta: Delta) -> str:
    """B less A, always with its sign; shares in percentage points. Empty where a value is missing."""
    if delta.difference is None:
        return ""
    if delta.difference == 0:
        return "0"
    sign = "+" if delta.difference > 0 else "\u2212"
    size = abs(delta.difference)
    if delta.unit == "share":
        return _("{sign}{n} points", sign=sign, n=fmt.number(round(size * 100, 1)))
    return sign + amount(size, delta.unit)


def ratio(delta: Delta) -> str:
    """B over A: `×0.02`; empty where A is 0 or a value is missing."""
    if delta.ratio is None:
        return ""
    return f"×{fmt.number(float(f'{delta.ratio:.3g}'))}"


def basis(delta: Delta) -> str:
    """Who told the two values: one source, or one of each side."""
    told = [m for m in (delta.a, delta.b) if m.value is not None and m.source]
    names = [_(SOURCES.get(m.source, m.source)) for m in told]
    if not names:
        return ""
    if len(set(names)) == 1:
        return names[0]
    return _("A: {a}; B: {b}", a=names[0], b=names[1])


def bounds(measured: Measurement, unit: Unit) -> str:
    """Between what the true value lies, and of how many requests: `3 s to 5 s, 283 requests`."""
    said = []
    if measured.low is not None and measured.high is not None:
        said.append(_("{low} to {high}", low=amount(measured.low, unit), high=amount(measured.high, unit)))
    elif measured.low is not None:
        said.append(_("{low} or more", low=amount(measured.low, unit)))
    elif measured.high is not None:
        said.append(_("{high} or less", high=amount(measured.high, unit)))
    if said and measured.n is not None:
        said.append(ngettext("{n} request", "{n} requests", measured.n, n=fmt.number(measured.n)))
    return fmt.clauses(said)


def fact(text: str, unit: str) -> str:
    """A fact's value. Only what has a unit is written as a number: grouping digits would spoil ports and seeds."""
    try:
        return fmt.measure(float(text), unit) if unit else text
    except ValueError:
        return text


def answer(name: str) -> str:
    """A checklist answer."""
    return words.answer_words(name)[0]


def direction(name: str) -> tuple[str, Tone]:
    """A direction and its colour."""
    word, tone = DIRECTIONS[name]
    return _(word), tone


def outcome(name: Outcome) -> tuple[str, Tone]:
    """The headline and its colour."""
    word, tone = OUTCOMES[name]
    return _(word), tone
