"""Which numbers of a report can be a server's, and which are damage."""

from __future__ import annotations

from analyzer.formats.values import Value

# No server has more of anything; usage is rounded, and may overdraw a little.
_MOST = 1e12
_MOST_USAGE = 1.05


def most_of(column: str) -> float:
    """The largest value of a column that is believed; the smallest is 0."""
    return _MOST_USAGE if column.endswith("_usage") else _MOST


def is_plausible(column: str, value: Value) -> bool:
    """False for a count below zero or beyond any server, and a share beyond the whole: damage, not a report."""
    return isinstance(value, (str, bool)) or 0 <= value <= most_of(column)
