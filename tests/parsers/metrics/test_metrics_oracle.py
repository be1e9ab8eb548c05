"""The text reader against prometheus_client's parser: the same series and values from the same text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from metric_reading import Dump, Labels, read_dump
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

NASTY = st.text(st.one_of(st.sampled_from('"\\\n{},= #\tnrte+'), st.characters(exclude_categories=("Cs",))), max_size=12)
LABEL_NAMES = st.sampled_from(("engine", "model_name", "reason", "le_", "x", "a_b", "_z"))
LABELS = st.dictionaries(LABEL_NAMES, NASTY, max_size=4)
FLOATS = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.integers(-5, 5).map(float))
KINDS = st.sampled_from(("gauge", "counter", "histogram"))
FAMILIES = st.lists(
    st.tuples(st.sampled_from("abcdef"), KINDS, NASTY, st.lists(st.tuples(LABELS, FLOATS), min_size=1, max_size=4)), min_size=1, max_size=4
)
Families = list[tuple[str, str, str, list[tuple[dict[str, str], float]]]]


class Made(Collector):
    """The families of one example."""

    def __init__(self, families: Families) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        seen = set()
        for letter, kind, text, samples in self._families:
            name = f"vllm:{kind}_{letter}"
            if name in seen:
                continue
            seen.add(name)
            unique = {tuple(sorted(labels.items())): value for labels, value in samples}
            if kind == "histogram":
                histogram = HistogramMetricFamily(name, text)
                for own, value in unique.items():
                    for bound in ("0.5", "+Inf"):
                        histogram.add_sample(f"{name}_bucket", {**dict(own), "le": bound}, value)
                    histogram.add_sample(f"{name}_count", dict(own), value)
                    histogram.add_sample(f"{name}_sum", dict(own), value)
                yield histogram
                continue
            family: Metric = GaugeMetricFamily(name, text) if kind == "gauge" else CounterMetricFamily(name, text)
            for own, value in unique.items():
                family.add_sample(name + ("_total" if kind == "counter" else ""), dict(own), value)
            yield family


def stored(dump: Dump) -> dict[tuple[str, Labels], float | None]:
    """The one value of each series."""
    assert all(len(samples) == 1 for samples in dump.samples.values())
    return {key: samples[0][1] for key, samples in dump.samples.items()}


def oracle(text: str) -> dict[tuple[str, Labels], float | None]:
    """What the other parser reads; NaN is stored as no value."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): None if math.isnan(sample.value) else sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def registry(families: Families) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(Made(families))
    return made


@settings(max_examples=200, deadline=None)
@given(FAMILIES)
def test_what_the_client_library_writes_is_read_alike(families: Families) -> None:
    text = generate_latest(registry(families)).decode()
    dump = read_dump(text, "prometheus_text")
    assert stored(dump) == oracle(text)
    assert dump.read.counts.unmatched == 0


@settings(max_examples=100, deadline=None)
@given(FAMILIES)
def test_openmetrics_gives_the_same_series_as_the_older_format(families: Families) -> None:
    classic = generate_latest(registry(families)).decode()
    openmetrics = generate_openmetrics(registry(families), escaping="allow-utf-8").decode()
    assert openmetrics.endswith("# EOF\n")
    assert stored(read_dump(openmetrics, "prometheus_text")) == oracle(classic)


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), LABELS, FLOATS), min_size=1, max_size=5),
    st.lists(st.sampled_from(("", " ", "\t", "  ")), min_size=6, max_size=6),
    st.booleans(),
    st.sampled_from(("outside", "quoted", "label")),
    st.sampled_from(("\n", "\r\n")),
)
def test_odd_forms_are_read_as_the_plain_ones(
    samples: list[tuple[str, dict[str, str], float]], blanks: list[str], comma: bool, where: str, end: str
) -> None:
    unique = {(f"vllm:{letter}", tuple(sorted(labels.items()))): value for letter, labels, value in samples}
    text = ""
    for (name, labels), value in unique.items():
        pairs = [f'{k}{blanks[0]}={blanks[1]}"{escaped(v)}"' for k, v in reversed(labels)]
        if where == "quoted":
            pairs.insert(0, f'"{name}"')
        elif where == "label":
            pairs.append(f'__name__="{name}"')
        inside = f"{blanks[2]},{blanks[3]}".join(pairs) + ("," if comma and pairs else "")
        outside = name + blanks[5].strip("\t") if where == "outside" else ""
        text += f"{outside}{{{blanks[4]}{inside}{blanks[0]}}} {value!r}{end}"
    dump = read_dump(text, "prometheus_text")
    assert stored(dump) == {key: None if math.isnan(value) else value for key, value in unique.items()}
    assert dump.read.counts.unmatched == 0
