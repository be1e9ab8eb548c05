"""Settings known to be bad (`settings.toml`), and which of them a case has."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal, cast

from analyzer.diagnosis.advice import Applies, applies
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.conditions import said
from analyzer.diagnosis.known import known
from analyzer.diagnosis.model import Evidence


@dataclass(frozen=True, slots=True)
class Setting:
    """One bad setting: where it applies, the facts it is read from, what to say, why it is bad, and the answer it gives."""

    id: str
    applies: Applies
    reads: tuple[str, ...]
    unit: str
    sentence: str
    why: str
    answer: Literal["yes", "partly"]


@dataclass(frozen=True, slots=True)
class Found:
    """A bad setting of a case, in words, with the line that tells it."""

    setting: Setting
    sentence: str
    evidence: Evidence


@lru_cache(maxsize=1)
def settings() -> tuple[Setting, ...]:
    """All of them, as in the file."""
    text = resources.files("analyzer.diagnosis").joinpath("settings.toml").read_text(encoding="utf-8")
    return tuple(
        Setting(
            id=s["id"],
            applies=applies(s),
            reads=tuple(s["reads"]),
            unit=s.get("unit", ""),
            sentence=s["sentence"],
            why=s["why"],
            answer=cast(Literal["yes", "partly"], s.get("answer", "yes")),
        )
        for s in tomllib.loads(text)["setting"]
    )


def bad_settings(case: Case) -> list[Found]:
    """The bad settings of a case, those that make a `yes` first."""
    names = known(case)
    fitting = [s for s in settings() if s.applies.to(case.engine, case.versions, names)]
    fitting.sort(key=lambda s: s.answer != "yes")
    return [Found(s, sentence, _evidence(case, s)) for s in fitting if (sentence := said((s.sentence,), names))]


def _evidence(case: Case, setting: Setting) -> Evidence:
    """The first fact it is read from that is in the capture."""
    key = next((k for k in setting.reads if k in case.facts and case.facts[k]["value"] is not None), setting.reads[0])
    fact = case.facts.get(key)
    name = key.removeprefix("arg.")
    if fact is None:
        return Evidence(name, None, setting.unit)
    number = fact["number"]
    value = fact["value"] if number is None or fact["type"] == "bool" else int(number) if float(number).is_integer() else float(number)
    return Evidence(name, value, setting.unit, source=fact["source"] or "")
