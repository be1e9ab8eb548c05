"""Reads the format data (`*.toml` beside this module) and refuses what could not be trusted.

A pattern without a sample, an unknown column, reader or attribute stops the load with the place
named. `claimants` tells which formats read a message: more than one is a fault in the data (the tests look).
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
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
    is_self_ending,
    parse,
    reader,
    words_of,
)
from analyzer.formats.pattern import AnyOf, Pattern
from analyzer.formats.values import Reader
from analyzer.trace.schema import TABLES

_FORMAT_KEYS = {
    "id", "engine", "table", "literal", "head", "pairs", "required", "set", "fields", "arguments", "opaque", "weak",
    "continues", "role", "text", "meaning", "feature", "sample", "notes",
}  # fmt: skip
_ROLES = ("", "start", "ready", "serving", "end")
_PREFIX_KEYS = {"id", "engine", "pattern", "inline", "literal", "outer", "shared", "suffix", "sample"}


class FormatDataError(ValueError):
    """The format data is wrong; the message names the entry."""


def fewest(texts: set[str]) -> tuple[str, ...]:
    """The fewest of `texts` that are still found in every line that holds any: one that holds another is not needed."""
    return tuple(sorted(a for a in texts if not any(b in a for b in texts if b != a)))


@dataclass(frozen=True)
class Registry:
    """All prefixes and formats, in the order in which they are tried."""

    prefixes: tuple[Prefix, ...]
    formats: tuple[LineFormat, ...]
    _of_engine: dict[str | None, tuple[LineFormat, ...]] = field(default_factory=dict, init=False, compare=False, repr=False)
    _literals: dict[str | None, AnyOf] = field(default_factory=dict, init=False, compare=False, repr=False)

    def for_engine(self, engine: str | None) -> tuple[LineFormat, ...]:
        """Formats that a line with this engine's prefix can be; all of them when it is unknown."""
        formats = self._of_engine.get(engine)
        if formats is None:
            formats = self.formats if engine is None else tuple(f for f in self.formats if f.engine in (engine, "any"))
            self._of_engine[engine] = formats
        return formats

    @cached_property
    def by_id(self) -> dict[str, LineFormat]:
        """Formats by id."""
        return {f.id: f for f in self.formats}

    @cached_property
    def tell_tales(self) -> tuple[str, ...]:
        """A line without any of these has no engine's prefix and is read by no format."""
        return fewest({p.literal for p in self.prefixes if p.engine} | {f.literal for f in self.formats if f.literal})

    @cached_property
    def continued(self) -> frozenset[str]:
        """Ids of the formats whose rows lines of other formats complete."""
        return frozenset(f.continues for f in self.formats if f.continues)

    @cached_property
    def tells(self) -> AnyOf:
        """The tell-tales, to be looked for."""
        return AnyOf(self.tell_tales)

    def candidates(self, engine: str | None, message: str) -> list[LineFormat]:
        """Of those, the ones whose literal occurs in `message`, in the order in which they are tried."""
        literals = self._literals.get(engine)
        if literals is None:
            literals = self._literals[engine] = AnyOf(fewest({f.literal for f in self.for_engine(engine) if f.literal}))
        # most lines of most files are no engine's: tell that in one pass without a Python-level loop
        if not literals.is_in(message):
            return [f for f in self.for_engine(engine) if not f.literal]
        return [f for f in self.for_engine(engine) if f.literal in message]


@lru_cache(maxsize=1)
def registry() -> Registry:
    """The shipped formats, loaded once; the tests have compiled their patterns."""
    return load(resources.files("analyzer.formats"), compiled=False)


def load(folder: Traversable, *, compiled: bool = True) -> Registry:
    """Read all `*.toml` in `folder` but those of metric names.

    Raises FormatDataError, naming file and entry, for data that cannot be trusted. Unless `compiled`, patterns are left to be
    compiled, and found wrong, when they are asked.
    """
    prefixes: list[Prefix] = []
    formats: list[LineFormat] = []
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if not entry.name.endswith(".toml") or entry.name.startswith("metrics_"):
            continue
        try:
            document = tomllib.loads(entry.read_text(encoding="utf-8"))
            pairs = _pairs(document.get("pairs", {}))
            prefixes += [_prefix(p) for p in document.get("prefix", [])]
            formats += [_format(f, pairs) for f in document.get("format", [])]
            if compiled:
                _compile(formats)
        except (KeyError, re.error, TypeError, ValueError, AttributeError) as error:
            raise FormatDataError(f"{entry.name}: {error}") from error
    ids = [f.id for f in formats] + [p.id for p in prefixes]
    twice = {i for i in ids if ids.count(i) > 1}
    if twice:
        raise FormatDataError(f"ids used twice: {', '.join(sorted(twice))}")
    return Registry(tuple(prefixes), tuple(formats))


def _compile(formats: list[LineFormat]) -> None:
    for form in formats:
        for pattern in (form.head, *(m.when for m in form.meanings), *(f.when for f in form.features)):
            try:
                _ = pattern.compiled
            except re.error as error:
                raise ValueError(f"{form.id}: {error}") from error


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
    samples = _samples(entry)
    literal = entry.get("literal", "")
    if (entry.get("inline") or entry.get("engine")) and not (literal and all(literal in s.line for s in samples)):
        raise ValueError(f"{entry['id']}: an engine's prefix needs a literal that all its samples hold")
    return Prefix(
        id=entry["id"],
        engine=entry.get("engine"),
        pattern=re.compile(entry["pattern"]),
        inline=entry.get("inline", False),
        literal=literal,
        outer=entry.get("outer", False),
        shared=entry.get("shared", False),
        suffix=re.compile(entry["suffix"]) if "suffix" in entry else None,
        samples=samples,
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
            keys[key] = PairKey(columns, reader(how), split[0] if split else "", is_self_ending(how))
        for key, (to, how) in entry.get("key_patterns", {}).items():
            patterns.append((re.compile(key), PairKey((to,), reader(how), self_ending=is_self_ending(how))))
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
    if column not in TABLES[table].arrow.names:
        raise ValueError(f"table {table} has no column {column!r}")
    kind = TABLES[table].arrow.field(column).type
    if pa.types.is_int16(kind):
        return reader("rank")
    if pa.types.is_integer(kind):
        return reader("int")
    return reader("float") if pa.types.is_floating(kind) else reader("text")


def _fields(entry: dict[str, Any], head: Pattern, table: str) -> tuple[GroupField, ...]:
    """Groups are columns of the same name unless `fields` says otherwise: `column = "group:reader:unit"`."""
    fields: list[GroupField] = []
    named = entry.get("fields", {})
    taken = set()
    for column, spec in named.items():
        group, how, unit = (*spec.split(":"), "", "")[:3]
        group = group or column
        if group not in head.groups:
            raise ValueError(f"{entry['id']}: field {column} names no group {group!r}")
        fields.append(GroupField(column, group, reader(how) if how else _default_reader(table, column), unit))
        taken.add(group)
    skip = taken | {entry.get("arguments", "")}
    fields += [GroupField(group, group, _default_reader(table, group)) for group in head.groups if group not in skip]
    return tuple(fields)


def _format(entry: dict[str, Any], pairs: dict[str, PairKeys]) -> LineFormat:
    _known(entry, _FORMAT_KEYS)
    head = Pattern(entry["head"], re.DOTALL)
    table = entry["table"]
    if table != "ignored" and table not in TABLES:
        raise ValueError(f"{entry['id']}: there is no table {table!r}")
    if entry.get("role", "") not in _ROLES:
        raise ValueError(f"{entry['id']}: there is no role {entry['role']!r}")
    fields = _fields(entry, head, table)
    dictionary = pairs[entry["pairs"]] if "pairs" in entry else None
    if table in TABLES and table != "facts":
        columns = [f.column for f in fields] + list(entry.get("set", {}))
        columns += [c for m in entry.get("meaning", []) for c in m["set"]]
        columns += re.findall(r"\{(\w+)\}", entry.get("text", ""))
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
        weak=entry.get("weak", False),
        continues=entry.get("continues", ""),
        role=entry.get("role", ""),
        text=entry.get("text", ""),
        meanings=tuple(Meaning(Pattern(m["when"]), m["set"]) for m in entry.get("meaning", [])),
        features=tuple(Feature(Pattern(f["when"]), f.get("since", ""), f.get("until", "")) for f in entry.get("feature", [])),
        samples=_samples(entry),
        notes=entry.get("notes", ""),
    )


def claimants(reg: Registry, engine: str | None, message: str) -> list[LineFormat]:
    """Every format that reads this message; more than one is a fault in the data."""
    return [f for f in reg.for_engine(engine) if parse(f, message) is not None]
