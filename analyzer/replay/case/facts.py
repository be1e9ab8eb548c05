"""What a capture tells of one process run of a server: facts with the lines they were read from, and what was measured beside them."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from analyzer.diagnosis.diagnose import rows
from analyzer.formats.versions import version_key
from analyzer.language import _

_TRUE = ("true", "1", "yes")


@dataclass(frozen=True, slots=True)
class Fact:
    """One value as text and, where it is one, as a number. `other_run`: it was read from another run of the same server."""

    key: str
    value: str | None
    number: float | None
    source: str
    other_run: bool = False

    @property
    def is_true(self) -> bool:
        """Of a flag."""
        return self.number == 1 or (self.value or "").strip().lower() in _TRUE


class Facts:
    """The facts of a run by key.

    Start arguments that this run does not show are those of the server's other runs: a restart rarely changes them.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, instance: str, run_id: str) -> None:
        self.instance, self.run_id = instance, run_id
        self._facts: dict[str, Fact] = {}
        found = rows(
            con,
            "SELECT key, value, number, source, run_id = $2 AS own FROM fact WHERE instance = $1 ORDER BY own DESC, run_id DESC, key",
            instance,
            run_id,
        )
        for f in found:
            if f["own"] or f["key"] not in _OF_A_PROCESS:
                self._facts.setdefault(f["key"], Fact(f["key"], f["value"], f["number"], f["source"] or "", not f["own"]))

    def get(self, *keys: str) -> Fact | None:
        """The first of `keys` that has a value."""
        return next((f for k in keys if (f := self._facts.get(k)) is not None and _told(f)), None)

    def number(self, *keys: str) -> float | None:
        """The first number of `keys`."""
        return next((f.number for k in keys if (f := self._facts.get(k)) is not None and f.number is not None), None)

    def flag(self, *keys: str) -> bool:
        """Whether any of `keys` is set to true."""
        return any(f.is_true for k in keys if (f := self._facts.get(k)) is not None)


# What is measured at each start anew: another run's is no evidence for this one.
_OF_A_PROCESS = frozenset(
    ("kv_capacity_tokens", "kv_allocated_tokens", "kv_full_tokens", "num_gpu_blocks", "l2_capacity_tokens", "l2_bytes")
)


def _told(fact: Fact) -> bool:
    return fact.value is not None and fact.value.strip().lower() not in ("", "none", "null", "[]", "{}")


def version_of(con: duckdb.DuckDBPyConnection, facts: Facts) -> tuple[str, tuple[int, ...] | None]:
    """(version in words, its numbers) of the engine: stated by a line, else the newest that prints such lines.

    The numbers are None where nothing bounds it from above: then it may be as new as any.
    """
    stated = facts.get("engine_version")
    if stated is not None and stated.value:
        return stated.value, version_key(stated.value)
    told = rows(
        con,
        "SELECT max(version_min) AS low, min(version_max) AS high FROM sources "
        "WHERE version_from = 'inferred' AND list_contains(string_split(instance, ','), ?)",
        facts.instance,
    )[0]
    low, high = told["low"], told["high"]
    if high is not None:
        return _("{version} or older (inferred from its lines)", version=high), version_key(high)
    return _("{version} or newer (inferred from its lines)", version=low) if low else "", None


def engine_of(con: duckdb.DuckDBPyConnection, instance: str) -> str | None:
    """The engine of an instance; None where the capture holds no server by that name."""
    told = rows(con, "SELECT any_value(engine) AS engine FROM run WHERE instance = ? AND engine IN ('sglang', 'vllm')", instance)
    return told[0]["engine"] if told else None


def run_to_replay(con: duckdb.DuckDBPyConnection, instance: str) -> str | None:
    """The run in which most requests waited, the busiest of equals."""
    found = rows(
        con,
        """
        SELECT r.run_id
        FROM run AS r
        LEFT JOIN scheduler_clean AS s ON s.instance = r.instance AND s.run_id = r.run_id
        WHERE r.instance = ?
        GROUP BY r.run_id
        ORDER BY coalesce(max(s.waiting), 0) DESC, coalesce(sum(s.running), 0) DESC, count(s.ts) DESC, r.run_id
        LIMIT 1
        """,
        instance,
    )
    return found[0]["run_id"] if found else None


def runs_of(con: duckdb.DuckDBPyConnection, instance: str) -> list[str]:
    """All process runs, in the order of their names."""
    return [r["run_id"] for r in rows(con, "SELECT DISTINCT run_id FROM run WHERE instance = ? ORDER BY run_id", instance)]
