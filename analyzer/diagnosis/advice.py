"""What to do about a cause, and what to leave alone: entries of `advice.toml` that fit the engine, its version and the case."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from analyzer.diagnosis.conditions import Condition, Known, all_hold, parse, said, shown
from analyzer.diagnosis.model import Advice, Cause
from analyzer.formats.versions import version_key
from analyzer.language import _

Versions = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class Applies:
    """Where an entry applies: an engine (None: any), the versions that have it (both ends belong to it), conditions."""

    engine: str | None
    since: str | None
    until: str | None
    when: tuple[Condition, ...]

    def to(self, engine: str | None, versions: Versions, known: Known) -> bool:
        """False where the engine differs, its version is known to lie outside, or a condition fails."""
        if self.engine is not None and engine != self.engine:
            return False
        oldest, newest = versions
        if self.since and newest and _before(newest, self.since):
            return False
        if self.until and oldest and _before(self.until, oldest):
            return False
        return all_hold(self.when, known)

    def surely(self, versions: Versions) -> bool:
        """True where the version is known to lie inside."""
        oldest, newest = versions
        return (not self.since or bool(oldest and not _before(oldest, self.since))) and (
            not self.until or bool(newest and not _before(self.until, newest))
        )

    @property
    def versions(self) -> str:
        """The versions in words; empty for all."""
        if self.since and self.until:
            return _("{since} to {until}", since=self.since, until=self.until)
        if self.since:
            return _("{since} or later", since=self.since)
        return _("up to {until}", until=self.until) if self.until else ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to change. `causes` ranks it: 1 is what to try first. Of its sentences, the first whose numbers are known is said."""

    id: str
    applies: Applies
    flag: str
    reads: tuple[str, ...]
    causes: dict[str, int]
    action: tuple[str, ...]
    moves: tuple[str, ...]
    cost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """One thing not to touch, and why."""

    id: str
    applies: Applies
    causes: tuple[str, ...]
    sentence: tuple[str, ...]


def advise(cause: Cause, engine: str | None, versions: Versions, known: Known) -> tuple[tuple[Advice, ...], tuple[str, ...]]:
    """What to do about `cause`, the most useful first, and what to leave alone.

    `versions` are the oldest and the newest version the engine may have; None where nothing bounds them.
    """
    fitting = [e for e in entries() if cause in e.causes and e.applies.to(engine, versions, known)]
    fitting.sort(key=lambda e: e.causes[cause])
    left = [e for e in leaves() if cause in e.causes and e.applies.to(engine, versions, known)]
    return tuple(_advice(e, versions, known) for e in fitting), tuple(s for s in (said(e.sentence, known) for e in left) if s)


def _advice(entry: Entry, versions: Versions, known: Known) -> Advice:
    current = next((shown(known[name]) for name in entry.reads if name in known), None)
    return Advice(
        id=entry.id,
        action=said(entry.action, known),
        flag=entry.flag,
        current=current,
        moves=said(entry.moves, known),
        cost=said(entry.cost, known),
        versions="" if entry.applies.surely(versions) else entry.applies.versions,
    )


def _before(one: str, other: str) -> bool:
    """True when `one` is older, as far as both say: 0.17.1 is not before 0.17, nor after it."""
    first, second = version_key(one), version_key(other)
    length = min(len(first), len(second))
    return first[:length] < second[:length]


def applies(entry: dict[str, Any]) -> Applies:
    """The part that every entry of the TOML files has."""
    return Applies(entry.get("engine"), entry.get("from"), entry.get("until"), tuple(parse(c) for c in entry.get("when", ())))


def sentences(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """One sentence, or several from the one with the most numbers on, as a tuple."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    return tomllib.loads(resources.files("analyzer.diagnosis").joinpath("advice.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def entries() -> tuple[Entry, ...]:
    """Everything there is to change, as in the file."""
    return tuple(
        Entry(
            id=e["id"],
            applies=applies(e),
            flag=e.get("flag", ""),
            reads=tuple(e.get("reads", ())),
            causes=e["causes"],
            action=sentences(e["action"]),
            moves=sentences(e.get("moves")),
            cost=sentences(e.get("cost")),
        )
        for e in _data()["advice"]
    )


@lru_cache(maxsize=1)
def leaves() -> tuple[Leave, ...]:
    """Everything not to touch, as in the file."""
    return tuple(Leave(e["id"], applies(e), tuple(e["causes"]), sentences(e["leave_alone"])) for e in _data()["leave"])
