"""Collects what a replay is set to, each value with where it is from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analyzer.language import _
from analyzer.replay.case.facts import Fact, Facts
from analyzer.replay.model import Origin, SettingRow


class Chosen:
    """Takes one setting after the other from facts, or the engine's default; `rows` says what was taken from where."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.rows: list[SettingRow] = []

    def whole(self, name: str, keys: tuple[str, ...], default: int, why: str = "", fits: Callable[[int], bool] = bool) -> int:
        """A count: the first of `keys` with a number that `fits`, else `default`, which `why` explains."""
        for key in keys:
            fact = self.facts.get(key)
            if fact is not None and fact.number is not None and fits(int(fact.number)):
                return int(self.told(name, fact, int(fact.number)))
        return int(self.assume(name, default, why))

    def share(self, name: str, keys: tuple[str, ...], default: float, why: str = "") -> float:
        """A real number."""
        fact = self.facts.get(*keys)
        if fact is not None and fact.number is not None:
            return float(self.told(name, fact, fact.number))
        return float(self.assume(name, default, why))

    def flag(self, name: str, on: tuple[str, ...], off: tuple[str, ...], default: bool, why: str = "") -> bool:
        """A switch: set by a flag of `on` as it says, by one of `off` the other way round."""
        fact = self.facts.get(*on)
        if fact is not None:
            return bool(self.told(name, fact, fact.is_true))
        fact = self.facts.get(*off)
        if fact is not None:
            return bool(self.told(name, fact, not fact.is_true))
        return bool(self.assume(name, default, why))

    def word(self, name: str, keys: tuple[str, ...], known: tuple[str, ...], default: str, why: str = "") -> str:
        """One of `known` words."""
        fact = self.facts.get(*keys)
        if fact is not None and fact.value in known:
            return str(self.told(name, fact, fact.value))
        return str(self.assume(name, default, why))

    def read(self, name: str, value: Any, source: str) -> Any:
        """A value that a line or a metric tells."""
        return self._put(name, value, "read", source)

    def measure(self, name: str, value: Any, source: str) -> Any:
        """A value that follows from the data."""
        return self._put(name, value, "measured", source)

    def assume(self, name: str, value: Any, why: str = "") -> Any:
        """A value that nothing in the capture tells."""
        return self._put(name, value, "assumed", why or _("the engine's default"))

    def told(self, name: str, fact: Fact, value: Any) -> Any:
        """A value that follows from a fact: read, or assumed where the fact is another run's."""
        if fact.other_run:
            return self.assume(name, value, _("{source}, from another run of this server", source=fact.source))
        return self.read(name, value, fact.source)

    def _put(self, name: str, value: Any, origin: Origin, source: str) -> Any:
        self.rows.append(SettingRow(name, shown(value), origin, source))
        return value


def shown(value: Any) -> str:
    """A setting as text, as flags are written."""
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
