"""Of the SQL library no more than what a query reads: to make all its views costs a second, and most tests ask one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb

from analyzer.trace.reader import _KEPT, sql_files

VIEW, KEEP = "CREATE OR REPLACE VIEW ", "CREATE TABLE "
_MADE = re.compile(r"^CREATE OR REPLACE (?:VIEW|MACRO) (\w+)", re.MULTILINE)
_READ = re.compile(r"\b(?:FROM|JOIN|DESCRIBE)\s+(\w+)|\b(\w+)\(", re.IGNORECASE)


@dataclass(frozen=True)
class Statement:
    """One statement of the library: the view or macro it makes, and the names it may read."""

    name: str
    query: str

    @property
    def reads(self) -> set[str]:
        """Names behind FROM and JOIN, and of functions."""
        return names_in(self.query)

    @property
    def parsed(self) -> duckdb.Statement:
        """What makes it, a table where `create_views` keeps one."""
        return _parsed(KEEP + self.query[len(VIEW) :] if self.name in _KEPT else self.query)


@cache
def _parsed(query: str) -> duckdb.Statement:
    """To parse a long query takes longer than to make a view of it: each is parsed once for all tests of a process."""
    with duckdb.connect(":memory:") as con:
        (statement,) = con.extract_statements(query)
    return statement


def names_in(query: str) -> set[str]:
    """What a query reads: tables, views and macros, and more that are none of these."""
    code = re.sub(r"'(?:[^']|'')*'", "''", re.sub(r"--.*", "", query))
    return {name for found in _READ.findall(code) for name in found if name}


@cache
def library() -> dict[str, Statement]:
    """All statements by what they make, in the order in which they build on each other."""
    with duckdb.connect(":memory:") as con:
        queries = [statement.query for file in sql_files() for statement in con.extract_statements(file.text)]
    found = [(made, query) for query in queries if (made := _MADE.search(query))]
    return {made[1]: Statement(made[1], query[made.start() :]) for made, query in found}


@cache
def closure(name: str) -> frozenset[str]:
    """A view or macro and all that it is made of; nothing for another name."""
    if name not in library():
        return frozenset()
    return frozenset({name}).union(*(closure(other) for other in library()[name].reads - {name}))


class Database:
    """Tables, and over them the views of the library: each is made when it is first asked for, a table where `create_views` keeps one."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        self.made: set[str] = set()

    def execute(self, query: str, parameters: Any = None) -> duckdb.DuckDBPyConnection:
        """The query's result."""
        missing = frozenset().union(*map(closure, names_in(query))) - self.made
        for statement in library().values():
            if statement.name in missing:
                self.con.execute(statement.parsed)
        self.made |= missing
        return self.con.execute(query, parameters)
