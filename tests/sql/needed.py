"""Of the SQL library no more than what a query reads: to make all its views costs a second, and most tests ask one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import duckdb

from analyzer.trace.reader import create_views, sql_files

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


def names_in(query: str) -> set[str]:
    """What a query reads: tables, views and macros, and more that are none of these."""
    code = re.sub(r"'(?:[^']|'')*'", "''", re.sub(r"--.*", "", query))
    return {name for found in _READ.findall(code) for name in found if name}


@cache
def statements(text: str) -> tuple[Statement, ...]:
    """The statements of one file of the library."""
    with duckdb.connect(":memory:") as con:
        queries = [statement.query for statement in con.extract_statements(text)]
    return tuple(Statement(made[1], query) for query in queries if (made := _MADE.search(query)))


@cache
def library() -> dict[str, Statement]:
    """All statements by what they make, in the order in which they build on each other."""
    return {statement.name: statement for file in sql_files() for statement in statements(file.text)}


@cache
def closure(name: str) -> frozenset[str]:
    """A view or macro and all that it is made of; nothing for another name."""
    if name not in library():
        return frozenset()
    return frozenset({name}).union(*(closure(other) for other in library()[name].reads - {name}))


class Part:
    """Stands for a connection before `create_views`, and shows it only some statements of the library."""

    def __init__(self, con: duckdb.DuckDBPyConnection, names: set[str]) -> None:
        self.con, self.names = con, names

    def extract_statements(self, text: str) -> Iterator[Statement]:
        """Those statements of a file that are asked for."""
        return (s for s in statements(text) if s.name in self.names)

    def execute(self, query: str | Statement) -> None:
        """Run one on the connection itself."""
        self.con.execute(query.query if isinstance(query, Statement) else query)


class Database:
    """Tables, and over them the views of the library: each is made, as `create_views` makes it, when it is first asked for."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        self.made: set[str] = set()

    def execute(self, query: str, parameters: Any = None) -> duckdb.DuckDBPyConnection:
        """The query's result."""
        missing = frozenset().union(*map(closure, names_in(query))) - self.made
        if missing:
            create_views(cast(duckdb.DuckDBPyConnection, Part(self.con, missing)))
            self.made |= missing
        return self.con.execute(query, parameters)
