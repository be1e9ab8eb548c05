"""Metric names: what an exported series measures, in which unit, and how to read its value.

The data is in `metrics_*.toml` beside this module, one file per exporter. One canonical name has one
meaning and one unit over engines, versions and spellings; where two spellings of it are exported side by
side, the one that stands first in the files is preferred.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from analyzer.formats.versions import version_key

ENGINES = ("sglang", "vllm", "lmcache", "process")
TYPES = ("gauge", "counter", "histogram", "summary", "info", "gaugehistogram")

_KEYS = {"raw", "name", "type", "unit", "scale", "since", "until", "meaning", "trap", "fact", "labels"}
_NEEDED = ("raw", "name", "type", "unit", "meaning")

# What the type adds to a name, and the types that add it.
_PARTS = {
    "bucket": {"histogram", "gaugehistogram"},
    "sum": {"histogram", "gaugehistogram", "summary"},
    "count": {"histogram", "gaugehistogram", "summary"},
    "created": {"counter", "histogram", "summary"},
}
# An OpenTelemetry exporter writes the unit behind the name: (unit, scale) to what it writes. Units that are words stand as they are.
_UNIT_WORDS = {
    ("s", 1.0): "seconds",
    ("s", 0.001): "milliseconds",
    ("bytes", 1.0): "bytes",
    ("bytes/s", 1e9): "GB_per_second",
    ("share", 1.0): "ratio",
}
# How the names of a unit end, before _total: a reader of SQL sees the unit in the name.
_ENDINGS = {
    "s": ("_s", "_seconds"),
    "bytes": ("_bytes",),
    "share": ("_share", "_usage"),
    "tokens/s": ("_tps",),
    "bytes/s": ("_bytes_per_s",),
}

_HEAD = re.compile(r"(?:ray_)?(sglang|vllm|lmcache)[:._]")
_PLACEHOLDER = re.compile(r"\\\{\w+\\\}")


class MetricDataError(ValueError):
    """The metric data is wrong; the message names the file and the entry."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry: exported names, and what they become.

    `raws` are spellings without what the type adds (`_total`, `_bucket`, `_sum`, `_count`, `_created`), preferred
    first; a `{word}` in one stands for any name. `type` has several where it changed over versions.
    exported value x `scale` = value in `unit`. `since` and `until` are the first and last version read that has
    it; empty is not known, or still there. With `labels` it is only for series that carry them. `fact` names the
    fact of the run that the value is. `order` is the place in all data: the smaller one is preferred.
    """

    name: str
    engine: str
    type: tuple[str, ...]
    unit: str
    scale: float
    since: str
    until: str
    meaning: str
    trap: str
    fact: str
    labels: Mapping[str, str] = field(hash=False)
    raws: tuple[str, ...]
    order: int

    @property
    def exported(self) -> tuple[str, ...]:
        """The spellings, with the labels it is bound to: `name{label="value"}`."""
        labels = ",".join(f'{label}="{value}"' for label, value in self.labels.items())
        return tuple(f"{raw}{{{labels}}}" if labels else raw for raw in self.raws)

    @property
    def versions(self) -> str:
        """`0.5.3..0.5.9`, or `0.5.3..` where the newest version read still has it; empty when not known."""
        return f"{self.since}..{self.until}" if self.since else ""


@dataclass(frozen=True, slots=True)
class Known:
    """What a series is: its metric, which part of a histogram or summary, and how far down the spelling is (0 is preferred)."""

    metric: Metric
    part: str | None
    spelling: int


@dataclass(frozen=True, slots=True)
class _Reading:
    """One way to read a name as exported: its base, and what was taken off its end."""

    base: str
    part: str | None = None
    total: bool = False
    unit_word: str = ""


@dataclass(frozen=True, slots=True)
class _Index:
    """Spellings as they are looked up; those with labels stand before the one that has none."""

    names: Mapping[str, Sequence[Known]]
    families: Sequence[tuple[re.Pattern[str], Known]]
    unit_words: Sequence[str]

    def named(self, base: str) -> Iterable[Known]:
        return self.names.get(base, ())

    def in_family(self, base: str) -> Iterable[Known]:
        return [known for pattern, known in self.families if pattern.fullmatch(base)]


@lru_cache(maxsize=1)
def catalogue() -> tuple[Metric, ...]:
    """All entries, in the order of the files."""
    return load_metrics(resources.files("analyzer.formats"))


def lookup(raw_name: str, labels: Mapping[str, str]) -> Known | None:
    """What the series of this name and these labels is; None when the name is not known.

    Takes a name as any exporter writes it: with a colon, or with underscores for it (Ray, OpenTelemetry), with
    or without `_total`, with the part of a histogram, with OpenTelemetry's unit.
    """
    for known in _named(raw_name):
        if all(labels.get(label) == value for label, value in known.metric.labels.items()):
            return known
    return None


def engine_of(raw_name: str) -> str | None:
    """sglang, vllm, lmcache or process, for names that are not known too; None for another exporter's."""
    head = _HEAD.match(raw_name)
    if head:
        return head[1]
    if _named(raw_name) or raw_name.startswith(("process_", "python_")):
        return "process"
    return None


# once per series, but a dump has thousands of series of a hundred names
@lru_cache(maxsize=1 << 14)
def _named(raw_name: str) -> tuple[Known, ...]:
    """The entries of a name, whatever their labels."""
    index = _index()
    readings = _readings(_key(raw_name), index.unit_words)
    for find in (index.named, index.in_family):
        for reading in readings:
            found = tuple(replace(known, part=reading.part) for known in find(reading.base) if _fits(known.metric, reading))
            if found:
                return found
    return ()


def _key(name: str) -> str:
    """A name as Ray and OpenTelemetry write it. Colons behind the first are a recording rule's: they stay."""
    head = _HEAD.match(name)
    if head:
        name = f"{head[1]}_{name[head.end() :]}"
    return name.replace(".", "_")


def _readings(key: str, unit_words: Iterable[str]) -> list[_Reading]:
    """The ways to read a name; the one that takes less off its end comes first."""
    readings = [_Reading(key)]
    readings += [_Reading(key.removesuffix(f"_{part}"), part) for part in _PARTS if key.endswith(f"_{part}")]
    readings += [replace(r, base=r.base.removesuffix("_total"), total=True) for r in readings if r.base.endswith("_total")]
    return readings + [
        replace(r, base=r.base.removesuffix(f"_{word}"), unit_word=word)
        for r in readings
        for word in unit_words
        if r.base.endswith(f"_{word}")
    ]


def _fits(metric: Metric, reading: _Reading) -> bool:
    """Whether the metric's type and unit add what the reading took off."""
    return (
        (reading.part is None or not _PARTS[reading.part].isdisjoint(metric.type))
        and (not reading.total or "counter" in metric.type)
        and (not reading.unit_word or reading.unit_word == _unit_word(metric))
    )


def _unit_word(metric: Metric) -> str:
    word = _UNIT_WORDS.get((metric.unit, metric.scale), "")
    return word or (metric.unit if metric.scale == 1.0 and metric.unit.isalpha() and metric.unit not in _ENDINGS else "")


@lru_cache(maxsize=1)
def _index() -> _Index:
    names: dict[str, list[Known]] = {}
    families: list[tuple[re.Pattern[str], Known]] = []
    spellings: Counter[str] = Counter()
    for metric in catalogue():
        for raw in metric.raws:
            known = Known(metric, None, spellings[metric.name])
            spellings[metric.name] += 1
            if "{" in raw:
                families.append((re.compile(_PLACEHOLDER.sub("[a-z0-9_]+", re.escape(_key(raw)))), known))
            else:
                names.setdefault(_key(raw), []).append(known)
    for entries in names.values():
        entries.sort(key=lambda known: not known.metric.labels)
    words = {_unit_word(metric) for metric in catalogue()} - {""}
    return _Index(names, families, sorted(words, key=lambda word: (-len(word), word)))


def load_metrics(folder: Traversable) -> tuple[Metric, ...]:
    """Read `metrics_ENGINE.toml` of all engines in `folder`. Raises MetricDataError for data that cannot be trusted."""
    metrics: list[Metric] = []
    for engine in ENGINES:
        name = f"metrics_{engine}.toml"
        try:
            document = tomllib.loads(folder.joinpath(name).read_text(encoding="utf-8"))
            for entry in document["metric"]:
                metrics.append(_metric(engine, entry, len(metrics)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MetricDataError(f"{name}: {error}") from error
    _check_together(metrics)
    return tuple(metrics)


def _several(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _metric(engine: str, entry: dict[str, Any], order: int) -> Metric:
    what = f"{entry.get('raw', '?')}"
    unknown, missing = set(entry) - _KEYS, set(_NEEDED) - set(entry)
    if unknown or missing:
        raise ValueError(f"{what}: unknown or missing attribute {', '.join(sorted(unknown | missing))}")
    metric = Metric(
        name=entry["name"],
        engine=engine,
        type=_several(entry["type"]),
        unit=entry["unit"],
        scale=float(entry.get("scale", 1.0)),
        since=entry.get("since", ""),
        until=entry.get("until", ""),
        meaning=entry["meaning"],
        trap=entry.get("trap", ""),
        fact=entry.get("fact", ""),
        labels=dict(entry.get("labels", {})),
        raws=_several(entry["raw"]),
        order=order,
    )
    for problem in _problems(metric):
        raise ValueError(f"{what}: {problem}")
    return metric


def _problems(metric: Metric) -> Iterator[str]:
    """What is wrong with one entry."""
    if not metric.raws or not metric.type or not set(metric.type) <= set(TYPES):
        yield "it has no name, or its type is none"
    for raw in metric.raws:
        head = _HEAD.match(raw)
        if (head[1] if head else "process") != metric.engine:
            yield f"{raw} is not a name of {metric.engine}"
        if metric.type == ("counter",) and raw.endswith("_total"):
            yield f"{raw} ends in what a counter adds"
    if not re.fullmatch(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*", metric.name):
        yield f"{metric.name} is no canonical name"
    if ("counter" in metric.type) != metric.name.endswith("_total"):
        yield f"{metric.name}: counters end in _total, and nothing else does"
    endings = _ENDINGS.get(metric.unit)
    if endings and not metric.name.removesuffix("_total").endswith(endings):
        yield f"{metric.name} has the unit {metric.unit} and does not end in {' or '.join(endings)}"
    if not metric.scale > 0:
        yield "the scale is not positive"
    if metric.since and metric.until and version_key(metric.since) > version_key(metric.until):
        yield f"it ends ({metric.until}) before it begins ({metric.since})"
    for text in (metric.meaning, metric.trap):
        if text and not text.endswith("."):
            yield "meaning and trap are sentences"
    if not metric.meaning:
        yield "it has no meaning"
    if metric.fact and "gauge" not in metric.type:
        yield "only a gauge is a fact"


def _check_together(metrics: Sequence[Metric]) -> None:
    """One name, one unit and type; one spelling, one entry per set of labels, of which one takes what the others leave."""
    first: dict[str, Metric] = {}
    seen: dict[str, list[Mapping[str, str]]] = {}
    for metric in metrics:
        other = first.setdefault(metric.name, metric)
        if metric.unit != other.unit or set(metric.type).isdisjoint(other.type):
            raise MetricDataError(f"{metric.name}: {metric.raws[0]} and {other.raws[0]} differ in unit or type")
        for raw in metric.raws:
            labels = seen.setdefault(_key(raw), [])
            if metric.labels in labels:
                raise MetricDataError(f"{raw}: two entries for the same series")
            labels.append(metric.labels)
    for key, sets in seen.items():
        if {} not in sets:
            raise MetricDataError(f"{key}: no entry for series with other labels")
