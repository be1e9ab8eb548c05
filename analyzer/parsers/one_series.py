"""One metric series as a dump names it: its labels taken apart, its place in the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from analyzer.formats.metrics import Known, engine_of, lookup

# Ranks by the labels the exporters use; `engine` is vLLM's number of a data-parallel engine.
RANK_LABELS = {"dp_rank": "dp", "engine": "dp", "tp_rank": "tp", "pp_rank": "pp", "moe_ep_rank": "ep", "ep_rank": "ep", "worker_id": "tp"}
MODEL_LABELS = ("served_model_name", "model_name", "model")
ROLES = frozenset(("unified", "prefill", "decode"))
# Who scraped what: the pod tells a server better than its address, which changes with every restart. What a federated
# server said before it was scraped again is `exported`.
_TARGET_LABELS = ("exported_pod", "pod", "pod_name", "kubernetes_pod_name", "exported_instance", "instance")


@dataclass(slots=True)
class Series:
    """A series of one dump: name and labels as exported, where it was first seen, and what is known of it.

    `labels` are in the order of their names. `scale` brings its values to the catalogue's unit, `le` is in that unit;
    `stream` names the scrape target.
    """

    raw_name: str
    labels: Mapping[str, str]
    record: int
    known: Known | None
    engine: str
    declared: str
    stream: str
    scale: float
    le: float | None
    ranks: Mapping[str, int]
    counted: bool = True
    why_not: str | None = None

    @property
    def sorted_labels(self) -> tuple[tuple[str, str], ...]:
        """Its labels by name."""
        return tuple(self.labels.items())

    @property
    def name(self) -> str | None:
        """Canonical name; None for one that is not known."""
        return self.known.metric.name if self.known else None

    @property
    def part(self) -> str | None:
        """bucket, sum or count of a histogram."""
        return self.known.part if self.known else None


@dataclass(frozen=True, slots=True)
class Named:
    """What name and labels tell of a series, wherever it stands; as in `Series`. `engine` is None for another program's."""

    known: Known | None
    engine: str | None
    labels: Mapping[str, str]
    stream: str
    scale: float
    le: float | None
    ranks: Mapping[str, int]


# the scrapes of one server name the same series, each in a file of its own or not
@lru_cache(maxsize=1 << 12)
def named(raw_name: str, labels: tuple[tuple[str, str], ...]) -> Named:
    """What a name and labels, which are in the order of their names, tell."""
    own = dict(labels)
    known = lookup(raw_name, own)
    return Named(
        known,
        known.metric.engine if known else engine_of(raw_name),
        own,
        target_of(own),
        known.metric.scale if known and known.part in (None, "sum") else 1.0,
        bound_of(own, known.metric.scale if known else 1.0),
        ranks_of(own),
    )


def target_of(labels: Mapping[str, str]) -> str:
    """The scrape target as labels name it; empty without one."""
    return next((labels[name] for name in _TARGET_LABELS if labels.get(name)), "")


def bound_of(labels: Mapping[str, str], scale: float) -> float | None:
    """Upper bound of a bucket, in the histogram's unit."""
    text = labels.get("le")
    if text is None:
        return None
    try:
        return float(text) * scale
    except ValueError:
        return None


def ranks_of(labels: Mapping[str, str]) -> dict[str, int]:
    """dp, tp, pp and ep, as far as labels tell."""
    found: dict[str, int] = {}
    for label, rank in RANK_LABELS.items():
        text = labels.get(label, "")
        if text.isascii() and text.isdigit() and len(text) < 5:
            found.setdefault(rank, int(text))
    return found


def type_of(series: Series) -> str:
    """The type as declared, where the name can have it, else the catalogue's."""
    types = series.known.metric.type if series.known else ()
    return series.declared if series.declared in types or not types else types[0]
