"""Thresholds: data beside this module, variables of every opened trace (`getvariable` in SQL), and a user's own over them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb

from analyzer.errors import ExitCode, KvpmError

# Beyond any threshold; also keeps out what is not finite.
_MOST = 1e15
_TABLE_KEYS = frozenset(("value", "unit", "doc"))


@lru_cache(maxsize=1)
def _shipped() -> dict[str, dict[str, Any]]:
    text = resources.files("analyzer.diagnosis").joinpath("thresholds.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def thresholds(own: Mapping[str, float] | None = None) -> dict[str, float]:
    """Name to value: as shipped, with `own` over them. Raises KvpmError for a name or a value that cannot be."""
    found = {name: float(entry["value"]) for name, entry in _shipped().items()}
    for name, value in (own or {}).items():
        found[name] = _checked("thresholds", name, value)
    return found


def load_thresholds(path: Path) -> dict[str, float]:
    """Name to value of a TOML file that has `name = value`, or tables as the shipped file does; those it does not name are left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise KvpmError(f"{path}: {error.strerror or error}", hint="--thresholds names a TOML file", exit_code=ExitCode.USAGE) from None
    except UnicodeDecodeError:
        raise KvpmError(f"{path} is no text in UTF-8", hint="--thresholds names a TOML file") from None
    try:
        entries = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise KvpmError(f"{path} is no TOML: {error}", hint="one threshold a line, for example: full_usage = 0.85") from None
    found = {}
    for name, entry in entries.items():
        value = entry
        if isinstance(entry, dict):
            if "value" not in entry or not set(entry) <= _TABLE_KEYS:
                raise KvpmError(f"{path}: [{name}] is no table with `value`", hint="for example: full_usage = 0.85")
            value = entry["value"]
        found[name] = _checked(str(path), name, value)
    return found


def in_force(con: duckdb.DuckDBPyConnection) -> dict[str, float]:
    """Name to value of an opened trace, so that answers and SQL never differ."""
    names = list(_shipped())
    row = con.execute("SELECT " + ", ".join(f"getvariable('{name}')" for name in names)).fetchone() or ()
    return {
        name: float(entry["value"]) if now is None else float(now)
        for (name, entry), now in zip(_shipped().items(), row, strict=True)
    }  # fmt: skip


def changed(values: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Name to (value, value as shipped) of those that differ."""
    shipped = thresholds()
    return {name: (value, shipped[name]) for name, value in values.items() if value != shipped[name]}


def _checked(where: str, name: str, value: object) -> float:
    entry = _shipped().get(name)
    if entry is None:
        near = get_close_matches(name, _shipped(), n=3, cutoff=0.5)
        hint = f"near to it: {', '.join(near)}" if near else f"there are {', '.join(_shipped())}"
        raise KvpmError(f"{where}: there is no threshold {name!r}", hint=hint)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_MOST < value < _MOST:
        raise KvpmError(f"{where}: {name} is not a number", hint=f"for example: {name} = {entry['value']:g}")
    share = entry["unit"] == "share"
    if value < 0 or (share and value > 1):
        allowed = "a share from 0 to 1" if share else "0 or more"
        raise KvpmError(f"{where}: {name} = {value:g} is out of range, it is {allowed}", hint=f"as shipped: {name} = {entry['value']:g}")
    return float(value)
