"""Tiny traces for the explore section's parts: the SQL tests' rows, asked for by instance."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import duckdb

sys.path.append(str(Path(__file__).resolve().parents[2] / "sql"))

from sql_case import T0, database, event, metrics, operation, report, request, series

from analyzer.diagnosis.model import Window
from analyzer.report.explore.model import ExploreInstance

__all__ = ["HOSTILE", "T0", "asked", "connection", "event", "metrics", "ms", "operation", "report", "request", "series"]

HOSTILE = "</script><img src=x onerror=1>\x1b[31m\u202e'\"&{{ 7*7 }}"


def connection(**tables: Any) -> duckdb.DuckDBPyConnection:
    """The views over some rows."""
    return cast(duckdb.DuckDBPyConnection, database(**tables))


def asked(*names: str) -> list[ExploreInstance]:
    """Instances as the page asks for them; without names the one of the rows' helpers."""
    return [ExploreInstance(f"i{n}", name, None, Window(None, None)) for n, name in enumerate(names or ("i",), 1)]


def ms(seconds: float) -> float:
    """Epoch milliseconds of a moment after the beginning."""
    return T0.timestamp() * 1e3 + seconds * 1e3
