"""The report's data as JSON: everything the page shows, so that its charts and tables can be made again elsewhere.

`kvpm diagnose --json` is the one for programs that decide something: numbers with units. This one is what people read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

from analyzer.report.model import ReportData

# Raised when a field is removed or means something else; a new field does not raise it.
SCHEMA_VERSION = 1
# The chart library's own document: the plain charts of each instance have the same numbers.
_LEFT_OUT = frozenset({"explore"})
# The version of the diagnosis stands beside the version of this form.
_RENAMED = {"schema_version": "diagnosis_schema_version"}


def render_json(report: ReportData) -> str:
    """One object, a line for each of its fields; keys in the order of `ReportData`, ASCII only.

    JSON has no infinity: such a value is null, and `not_finite` says at which place which one it was.
    """
    not_finite: list[dict[str, str]] = []
    parts: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    for name, value in _fields(report):
        key = _RENAMED.get(name, name)
        parts[key] = _plain(value, f"/{key}", not_finite)
    parts["not_finite"] = not_finite
    lines = (f"{json.dumps(name)}: {json.dumps(part, separators=(',', ':'), allow_nan=False)}" for name, part in parts.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(value):
        if field.name not in _LEFT_OUT:
            yield field.name, getattr(value, field.name)


def _plain(value: Any, at: str, not_finite: list[dict[str, str]]) -> Any:
    """`value` as JSON has it; `at` is its place as a JSON Pointer."""
    if isinstance(value, float) and not math.isfinite(value):
        word = "not a number" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
        not_finite.append({"at": at, "was": word})
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return _instant(value)
    if isinstance(value, tuple | list):
        return [_plain(part, f"{at}/{index}", not_finite) for index, part in enumerate(value)]
    if isinstance(value, dict):
        return {str(key): _plain(part, f"{at}/{_pointer(str(key))}", not_finite) for key, part in value.items()}
    if is_dataclass(value):
        return {name: _plain(part, f"{at}/{name}", not_finite) for name, part in _fields(value)}
    raise TypeError(f"the report holds a {type(value).__name__} at {at}")


def _instant(moment: datetime) -> str:
    known = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return known.isoformat().replace("+00:00", "Z")


def _pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
