"""What differs in the settings, capacities and versions of the two runs that are compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from analyzer.comparison.model import Configuration, FactPair
from analyzer.comparison.side import Side
from analyzer.diagnosis.diagnose import rows
from analyzer.report import fmt

Facts = Mapping[str, Mapping[str, Any]]
# What no one set: seeds, addresses, and what was measured while the process started.
_INCIDENTAL = re.compile(r"arg\.(?:random_)?seed|arg\.(?:\w*_)?(?:port|host|addr|address|ip)|mem_\w+|\w+_s|(?!l2_)\w+_bytes")


def compared_run(side: Side) -> str | None:
    """The run that the worst incident began in, without one the last: that of question 14."""
    found = rows(side.trace.con, "SELECT run_id FROM q14_config WHERE instance = ? AND incident = 1", side.instance.instance)
    return found[0]["run_id"] if found else None


def configuration(a: Side, b: Side) -> Configuration:
    """The facts of both runs, by key. Values are as they were printed; secrets are not among them, readers leave those out."""
    of_a, of_b = _facts(a), _facts(b)
    first, second = of_a.get(compared_run(a), {}), of_b.get(compared_run(b), {})
    shared = sorted(first.keys() & second.keys(), key=_order)
    differing = [k for k in shared if _value(first[k]) != _value(second[k])]
    return Configuration(
        changed=tuple(_pair(k, first[k], second[k]) for k in differing),
        only_a=tuple(_pair(k, first[k], None) for k in sorted(first.keys() - second.keys(), key=_order)),
        only_b=tuple(_pair(k, None, second[k]) for k in sorted(second.keys() - first.keys(), key=_order)),
        same=len(shared) - len(differing),
        within_a=_within(of_a),
        within_b=_within(of_b),
    )


def _facts(side: Side) -> dict[str | None, dict[str, Mapping[str, Any]]]:
    found: dict[str | None, dict[str, Mapping[str, Any]]] = {}
    for fact in rows(side.trace.con, "SELECT * FROM fact WHERE instance = ? ORDER BY run_id, key", side.instance.instance):
        found.setdefault(fact["run_id"], {})[str(fact["key"])] = fact
    return found


def incidental(key: str) -> bool:
    """True for facts that differ although nobody changed a setting."""
    return _INCIDENTAL.fullmatch(key) is not None


def _order(key: str) -> tuple[bool, bool, str]:
    # Reported capacity and versions before the long list of arguments.
    return incidental(key), key.startswith("arg."), key


def _value(fact: Mapping[str, Any]) -> object:
    """What makes two facts the same: the number where both are one, so that 0.9 is 0.90."""
    return fact["number"] if fact["number"] is not None else fact["value"]


def _pair(key: str, a: Mapping[str, Any] | None, b: Mapping[str, Any] | None) -> FactPair:
    def text(fact: Mapping[str, Any] | None) -> str | None:
        return None if fact is None else fmt.clean(fact["value"], 200) or "null"

    unit = (a or b or {}).get("unit")
    return FactPair(
        key=fmt.clean(key, 120),
        a=text(a),
        b=text(b),
        unit=fmt.clean(unit, 40),
        source_a=fmt.clean(a["source"], 240) if a else "",
        source_b=fmt.clean(b["source"], 240) if b else "",
        incidental=incidental(key),
    )


def _within(runs: Mapping[str | None, Facts]) -> tuple[str, ...]:
    """Keys whose value differs between the runs of one side."""
    seen: dict[str, set[str]] = {}
    for facts in runs.values():
        for key, fact in facts.items():
            seen.setdefault(key, set()).add(str(_value(fact)))
    return tuple(fmt.clean(k, 120) for k in sorted(seen, key=_order) if len(seen[k]) > 1 and not incidental(k))
