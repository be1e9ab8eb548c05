"""Reads the format data (`*.toml` beside this module) and refuses what could not be trusted.

A pattern without a sample, an unknown column, reader or attribute stops the load with the place
named. `check_all` runs every format against every sample, its own and all others'.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, cast

import pyarrow as pa

from analyzer.formats.model import (
    Feature,
    GroupField,
    LineFormat,
    Meaning,
    PairKey,
    PairKeys,
    Prefix,
    Sample,
    TableName,
    parse,
    reader,
    words_of,
)
from analyzer.formats.values import Reader
from analyzer.trace.schema import TABLES

_FORMAT_KEYS = {
    "id", "engine", "table", "literal", "head", "pairs", "required", "set", "fields", "arguments", "opaque",
    "continues", "role", "text", "meaning", "feature", "sample", "notes",
}  # fmt: skip
_PREFIX_KEYS = {"id", "engine", "pattern", "inline", "suffix", "sample"}


class FormatDataError(ValueError):
    """The format data is wrong; the message names the entry."""


@dataclass(frozen=True, slots=True)
class Registry:
    """All prefixes and formats, in the order in which they are tried."""

    prefixes: tuple[Prefix, ...]
    formats: tuple[LineFormat, ...]

    def for_engine(self, engine: str | None) -> tuple[LineFormat, ...]:
        """Formats that a line with this engine's prefix can be; all of them when it is unknown."""
        if engine is None:
            return self.formats
        return tuple(f for f in self.formats if f.engine in (engine, "any"))


@lru_cache(maxsize=1)
def registry() -> Registry:
    """The shipped formats, loaded once."""
    folder = resources.files("analyzer.formats")
    prefixes: list[Prefix] = []
    formats: list[LineFormat] = []
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if not entry.name.endswith(".toml"):
            continue
        document = tomllib.loads(entry.read_text(encoding="utf-8"))
        try:
            pairs = _pairs(document.get("pairs", {}))
            prefixes += [_prefix(p) for p in document.get("prefix", [])]
            formats += [_format(f, pairs) for f in document.get("format", [])]
        except (KeyError, re.error, TypeError, ValueError) as error:
            raise FormatDataError(f"{entry.name}: {error}") from error
    ids = [f.id for f in formats] + [p.id for p in prefixes]
    twice = {i for i in ids if ids.count(i) > 1}
    if twice:
        raise FormatDataError(f"ids used twice: {', '.join(sorted(twice))}")
    return Registry(tuple(prefixes), tuple(formats))


def _known(entry: dict[str, Any], allowed: set[str]) -> None:
    unknown = set(entry) - allowed
    if unknown:
        raise ValueError(f"{entry.get('id', '?')}: unknown attribute {', '.join(sorted(unknown))}")


def _samples(entry: dict[str, Any]) -> tuple[Sample, ...]:
    samples = tuple(Sample(s["versions"], s["line"], s.get("expect", {}), s.get("kind", "")) for s in entry.get("sample", []))
    if not samples:
        raise ValueError(f"{entry['id']}: a pattern without a sample is not accepted")
    return samples


def _prefix(entry: dict[str, Any]) -> Prefix:
    _known(entry, _PREFIX_KEYS)
    return Prefix(
        id=entry["id"],
        engine=entry.get("engine"),
        pattern=re.compile(entry["pattern"]),
        inline=entry.get("inline", False),
        suffix=re.compile(entry["suffix"]) if "suffix" in entry else None,
        samples=_samples(entry),
    )


def _pairs(document: dict[str, Any]) -> dict[str, PairKeys]:
    result: dict[str, PairKeys] = {}
    for name, entry in document.items():
        keys: dict[str, PairKey] = {}
        patterns: list[tuple[re.Pattern[str], PairKey]] = []
        names: list[str] = []
        for parent in entry.get("inherits", []):
            keys |= result[parent].keys
            patterns += result[parent].patterns
        for key, (to, how, *split) in entry.get("keys", {}).items():
            columns = tuple([to] if isinstance(to, str) else to)
            keys[key] = PairKey(columns, reader(how), split[0] if split else "")
        for key, (to, how) in entry.get("key_patterns", {}).items():
            patterns.append((re.compile(key), PairKey((to,), reader(how))))
            names += entry.get("words", [])
        names += list(keys)
        result[name] = PairKeys(
            name,
            entry.get("separator", ":"),
            keys,
            tuple(patterns),
            words_of(names),
            entry.get("terminator", ""),
        )
    return result


def _default_reader(table: str, column: str) -> Reader:
    if column.startswith("extra.") or table in ("facts", "ignored"):
        return reader("text")
    kind = TABLES[table].arrow.field(column).type
    if pa.types.is_integer(kind):
        return reader("int")
    return reader("float") if pa.types.is_floating(kind) else reader("text")


def _fields(entry: dict[str, Any], head: re.Pattern[str], table: str) -> tuple[GroupField, ...]:
    """Groups are columns of the same name unless `fields` says otherwise: `column = "group:reader:unit"`."""
    fields: list[GroupField] = []
    named = entry.get("fields", {})
    taken = set()
    for column, spec in named.items():
        group, how, unit = (*spec.split(":"), "", "")[:3]
        group = group or column
        if group not in head.groupindex:
            raise ValueError(f"{entry['id']}: field {column} names no group {group!r}")
        fields.append(GroupField(column, group, reader(how) if how else _default_reader(table, column), unit))
        taken.add(group)
    skip = taken | {entry.get("arguments", "")}
    fields += [GroupField(group, group, _default_reader(table, group)) for group in head.groupindex if group not in skip]
    return tuple(fields)


def _format(entry: dict[str, Any], pairs: dict[str, PairKeys]) -> LineFormat:
    _known(entry, _FORMAT_KEYS)
    head = re.compile(entry["head"], re.DOTALL)
    table = entry["table"]
    fields = _fields(entry, head, table)
    dictionary = pairs[entry["pairs"]] if "pairs" in entry else None
    if table in TABLES and table != "facts":
        columns = [f.column for f in fields] + list(entry.get("set", {}))
        if dictionary:
            columns += [c for k in dictionary.keys.values() for c in k.to]
        for column in columns:
            if not column.startswith("extra.") and column not in TABLES[table].arrow.names:
                raise ValueError(f"{entry['id']}: table {table} has no column {column!r}")
    return LineFormat(
        id=entry["id"],
        engine=entry["engine"],
        table=cast(TableName, table),
        literal=entry["literal"],
        head=head,
        pairs=dictionary,
        required=tuple(entry.get("required", [])),
        set=dict(entry.get("set", {})),
        fields=fields,
        arguments=entry.get("arguments", ""),
        opaque=entry.get("opaque", False),
        continues=entry.get("continues", ""),
        role=entry.get("role", ""),
        text=entry.get("text", ""),
        meanings=tuple(Meaning(re.compile(m["when"]), m["set"]) for m in entry.get("meaning", [])),
        features=tuple(Feature(re.compile(f["when"]), f.get("since", ""), f.get("until", "")) for f in entry.get("feature", [])),
        samples=_samples(entry),
        notes=entry.get("notes", ""),
    )


def claimants(reg: Registry, engine: str | None, message: str) -> list[LineFormat]:
    """Every format that reads this message; more than one is a fault in the data."""
    return [f for f in reg.for_engine(engine) if parse(f, message) is not None]
