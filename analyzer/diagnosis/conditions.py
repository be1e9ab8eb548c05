"""Conditions and sentences over what is known of a case, as `advice.toml` and `settings.toml` write them.

A condition is `NAME OP VALUE`, for example `arg.page_size > 64`, `cap < 0.5 * ceiling_requests` or
`arg.kv_cache_dtype in auto bfloat16`; or `known NAME`, `unknown NAME`. A name that is unknown fails the
condition, unless that ends with `or unknown`. A sentence has named placeholders, `{cap}`, `{usage_max:share}`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analyzer.diagnosis import say
from analyzer.language import _

Value = float | str
Known = Mapping[str, Value]

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_NAME = r"[a-z_][\w.]*"
_CONDITION = re.compile(rf"(?P<name>{_NAME}) (?P<op><=|>=|==|!=|<|>|in) (?P<value>.+?)(?P<lenient> or unknown)?")
_TOLD = re.compile(rf"(?P<op>known|unknown) (?P<name>{_NAME})")
_SCALED = re.compile(rf"(?P<factor>[\d.]+) \* (?P<name>{_NAME})")
_PLACEHOLDER = re.compile(rf"\{{(?P<name>{_NAME})(?::(?P<form>\w+))?\}}")
_FORMS: dict[str, Callable[[float], str]] = {"share": say.share, "seconds": say.seconds}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition in parts; `factor` scales the number that `value` names, `lenient` lets what is unknown pass."""

    name: str
    op: str
    value: str = ""
    factor: float = 1.0
    lenient: bool = False

    def holds(self, known: Known) -> bool:
        """True when what is known fulfils it."""
        told = known.get(self.name)
        if self.op in ("known", "unknown"):
            return (told is None) == (self.op == "unknown")
        if told is None:
            return self.lenient
        if self.op == "in":
            return _text(told) in self.value.split()
        if isinstance(told, str):
            return (told == self.value) == (self.op == "==") if self.op in ("==", "!=") else False
        other = _number(self.value)
        if other is None:
            named = known.get(self.value)
            if not isinstance(named, int | float):
                return self.lenient
            other = self.factor * named
        return _COMPARE[self.op](told, other)


def parse(text: str) -> Condition:
    """One condition; ValueError for what is none."""
    told = _TOLD.fullmatch(text)
    if told:
        return Condition(told["name"], told["op"])
    found = _CONDITION.fullmatch(text)
    if not found:
        raise ValueError(f"not a condition: {text!r}")
    scaled = _SCALED.fullmatch(found["value"])
    if scaled:
        return Condition(found["name"], found["op"], scaled["name"], float(scaled["factor"]), bool(found["lenient"]))
    return Condition(found["name"], found["op"], found["value"], 1.0, bool(found["lenient"]))


def all_hold(conditions: Sequence[Condition], known: Known) -> bool:
    """True when every condition holds; also without any."""
    return all(c.holds(known) for c in conditions)


def placeholders(sentence: str) -> set[str]:
    """The names that a sentence says."""
    return {m["name"] for m in _PLACEHOLDER.finditer(sentence)}


def said(sentences: Sequence[str], known: Known) -> str:
    """The first sentence whose names are all known, in the language of the moment and with their values; empty when none is."""
    for sentence in sentences:
        if placeholders(sentence) <= known.keys():
            return _PLACEHOLDER.sub(lambda m: _shown(known[m["name"]], m["form"]), _(sentence))
    return ""


def shown(value: Value) -> str:
    """A value as a sentence says it."""
    return _shown(value, None)


def _shown(value: Value, form: str | None) -> str:
    if isinstance(value, str):
        return value
    if form:
        return _FORMS[form](value)
    return say.count(value) if float(value).is_integer() or abs(value) >= 100 else f"{value:.3g}"


def _text(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?\d+(?:\.\d+)?", text) else None
