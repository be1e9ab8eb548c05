"""Answers of the Prometheus API, and VictoriaMetrics' export."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_reading import EPOCH, claimed_by, read_dump

from analyzer.parsers.metrics.json_documents import json_pieces

NAME = "vllm:num_preemptions_total"
METRIC = {"__name__": NAME, "engine": "0", "instance": "h:8000"}
OWN = {"engine": "0", "instance": "h:8000"}


def answer(*series: dict[str, Any], kind: str = "matrix", **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": list(series)}, **more}


def matrix(count: int = 3, first: int = 0, metric: dict[str, str] = METRIC) -> dict[str, Any]:
    return {"metric": metric, "values": [[EPOCH + first + n, str(first + n)] for n in range(count)]}


def tight(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


@pytest.mark.parametrize(
    "text",
    [
        tight(answer(matrix(6))),
        tight(answer(matrix(6))) + "\n",
        "\ufeff" + json.dumps(answer(matrix(6)), indent=2) + "\r\n",
        json.dumps(answer(matrix(6)), sort_keys=True, indent=1),
        tight(answer(matrix())) + "\n" + tight(answer(matrix(first=3))) + "\n",
        tight(answer(matrix())) + tight(answer(matrix(first=3))),
        json.dumps(answer(matrix()), indent=2) + "\n" + json.dumps(answer(matrix(first=3)), indent=2),
        json.dumps([answer(matrix()), answer(matrix(first=3))], indent=2),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + tight(answer(matrix(6))),
        tight(answer(matrix(6))["data"]),
        json.dumps([matrix(), matrix(first=3)], indent=2),
        tight(matrix()) + "\n" + tight(matrix(first=3)) + "\n",
    ],
)
def test_answers_are_read_however_they_stand_in_the_file(text: str) -> None:
    assert claimed_by(text) == ["prometheus_json"]
    for size in (1 << 20, 50, 3):
        dump = read_dump(text, block=size)
        assert dump.of(NAME, **OWN) == [((EPOCH + n) * 1_000_000, n) for n in range(6)]
        assert dump.read.counts.unmatched == 0
        assert not dump.read.counts.last_line_cut


def test_an_instant_answer_holds_one_value_of_each_series() -> None:
    text = tight(answer({"metric": METRIC, "value": [EPOCH + 0.061, "1e3"]}, kind="vector"))
    assert claimed_by(text) == ["prometheus_json"]
    assert read_dump(text).of(NAME, **OWN) == [(EPOCH * 1_000_000 + 61_000, 1000.0)]


def test_special_values_are_read() -> None:
    values = ["NaN", "+Inf", "-Inf", "0.1"]
    dump = read_dump(tight(answer({"metric": METRIC, "values": [[EPOCH + n, v] for n, v in enumerate(values)]})))
    assert dump.values(NAME, **OWN) == [None, None, None, 0.1]  # no server runs infinitely many requests


def test_results_of_expressions_have_no_name_and_are_left() -> None:
    read = read_dump(tight(answer(matrix(metric={"engine": "0"}), matrix(metric={})))).read
    assert (read.usable, read.counts.other, read.nothing) == (False, 2, "holds no sample")
    assert read.notes == ["2 series are results of expressions: they have no metric name and are left"]


@pytest.mark.parametrize("kind", ["scalar", "string"])
def test_a_scalar_is_no_series(kind: str) -> None:
    text = tight({"status": "success", "data": {"resultType": kind, "result": [EPOCH, "1"]}})
    assert claimed_by(text) == ["prometheus_json"]
    assert read_dump(text).read.notes == ["1 answers are scalars or strings, which are of no series"]


def test_an_error_is_told_by_its_kind_only() -> None:
    text = tight({"status": "error", "errorType": "bad_data", "error": "secret query"})
    assert claimed_by(text) == ["prometheus_json"]
    read = read_dump(text + "\n" + text.replace("bad_data", "odd <kind>") + "\n" + tight(answer(matrix()))).read
    assert read.notes == ["1 answers are errors (bad_data)", "1 answers are errors (unknown)"]
    assert (read.usable, read.counts.matched, read.counts.ignored) == (True, 1, 2)


def test_warnings_and_gaps_are_told_without_their_text() -> None:
    text = tight(answer(matrix(), warnings=["secret"], infos=["secret"], isPartial=True)) + tight(answer())
    notes = read_dump(text).read.notes
    assert notes == [
        "1 answers are empty",
        "1 answers are partial, the server says",
        "1 answers came with warnings",
        "1 answers came with remarks",
    ]


def test_native_histograms_are_left() -> None:
    series = {"metric": METRIC, "histograms": [[EPOCH, {"count": "3", "sum": "1"}]]}
    read = read_dump(tight(answer(series, matrix(metric={**METRIC, "engine": "1"})))).read
    assert (read.counts.matched, read.counts.ignored) == (1, 1)
    assert read.notes == ["1 series are native histograms, which are not read"]


@pytest.mark.parametrize(
    "series",
    [
        {"metric": METRIC},
        {"metric": METRIC, "values": 5},
        {"metric": METRIC, "values": [[EPOCH]]},
        {"metric": METRIC, "values": [[EPOCH, "x"]]},
        {"metric": METRIC, "values": [[EPOCH, 5]]},
        {"metric": METRIC, "values": [["now", "5"]]},
        {"metric": METRIC, "values": [[5, "5"]]},
        {"metric": {"__name__": NAME, "engine": 0}, "values": [[EPOCH, "5"]]},
        {"values": [[EPOCH, "5"]]},
        None,
    ],
)
def test_a_damaged_series_is_unmatched_and_the_rest_is_read(series: Any) -> None:
    dump = read_dump(tight(answer(series, matrix(metric={**METRIC, "engine": "1"}))), "prometheus_json")
    assert (dump.read.counts.unmatched, dump.read.counts.matched) == (1, 1)


def test_answers_of_other_calls_hold_no_samples() -> None:
    text = (
        tight(answer(matrix())) + "\n" + tight({"status": "success", "data": ["a", "b"]}) + "\n" + tight({"status": "success", "data": {}})
    )
    assert read_dump(text).read.notes == ["2 answers are of other calls of the API, which hold no samples"]


@pytest.mark.parametrize("size", [1 << 20, 11, 1])
def test_a_broken_answer_does_not_take_the_next_one_with_it(size: int) -> None:
    whole = tight(answer(matrix()))
    for cut in range(2, len(whole) - 1, 7):
        dump = read_dump(whole[:cut] + "\n" + whole + "\n", "prometheus_json", block=size)
        assert dump.values(NAME, **OWN) == [0, 1, 2]
        assert dump.read.counts.unmatched == 1


def test_a_cut_end_is_told() -> None:
    whole = tight(answer(matrix()))
    dump = read_dump(whole + "\n" + whole[:100])
    assert dump.values(NAME, **OWN) == [0, 1, 2]
    assert dump.read.counts.last_line_cut
    assert dump.read.notes == ["1 answers are cut or damaged: only their whole series are read"]


JSON = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=5), st.text('{}"\\[]\n', max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text('{}"\\ab', max_size=3), inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.dictionaries(st.text('{}"\\ab', max_size=3), JSON, max_size=3), max_size=4),
    st.integers(1, 20),
    st.sampled_from(("", "\n", " ,\n")),
)
def test_documents_are_found_whole_in_blocks_of_any_size(documents: list[Any], size: int, between: str) -> None:
    text = between.join(json.dumps(d, indent=i % 3 or None, ensure_ascii=bool(i % 2)) for i, d in enumerate(documents))
    found = list(json_pieces(text[at : at + size] for at in range(0, len(text), size)))
    assert [(json.loads(p.text), p.whole, p.series) for p in found] == [(d, True, False) for d in documents]


@pytest.mark.parametrize("size", [1 << 20, 1000, 37, 1])
@pytest.mark.parametrize("indent", [None, 1])
def test_the_series_of_an_answer_are_given_one_by_one(size: int, indent: int | None) -> None:
    series = [matrix(4, metric={**METRIC, "engine": str(n), "odd": 'a "} ],{\\ {"metric":'}) for n in range(5)]
    documents = [answer(*series, warnings=["w"]), answer(*series)["data"], {"other": series}, answer(*series[:1])]
    text = "\n".join(json.dumps(d, indent=indent) for d in documents)
    pieces = list(json_pieces(text[at : at + size] for at in range(0, len(text), size)))
    whole = [json.loads(p.text) for p in pieces if not p.series]
    without = {"resultType": "matrix", "result": [None]}
    assert whole == [answer(warnings=["w"]) | {"data": without}, without, {"other": series}, answer() | {"data": without}]
    assert [json.loads(p.text) for p in pieces if p.series] == [*series, *series, *series[:1]]
    assert all(p.whole for p in pieces)


@pytest.mark.parametrize("size", [1 << 20, 64])
def test_what_is_no_series_among_series_is_damage_and_costs_nothing_else(size: int) -> None:
    others = [matrix(metric={**METRIC, "engine": str(n)}) for n in range(4)]
    result = [others[0], others[1], None, others[2], {"metric": 5}, others[3]]
    dump = read_dump(tight(answer(*result, warnings=["w"])), "prometheus_json", block=size)  # type: ignore[arg-type]
    for n in range(4):
        assert dump.values(NAME, engine=str(n), instance="h:8000") == [0, 1, 2]
    assert (dump.read.counts.matched, dump.read.counts.unmatched) == (4, 2)
    assert dump.read.notes == ["1 answers came with warnings"]


def test_an_error_and_a_scalar_hold_no_series_whatever_stands_in_them() -> None:
    data = answer(matrix())["data"]
    read = read_dump(
        tight({"status": "error", "errorType": "timeout", "data": data}) + tight({"data": {**data, "resultType": "scalar"}}),
        "prometheus_json",
    ).read
    assert (read.usable, read.counts.ignored, read.counts.other) == (False, 1, 1)


@pytest.mark.parametrize("size", [1 << 20, 5])
def test_of_a_cut_answer_the_whole_series_are_read(size: int) -> None:
    second = matrix(metric={**METRIC, "engine": "1"})
    for behind in (1, 3, 40):
        dump = read_dump(tight(answer(matrix(), second))[:-behind], "prometheus_json", block=size)
        assert dump.values(NAME, **OWN) == [0, 1, 2]
        assert dump.values(NAME, engine="1", instance="h:8000") == ([0, 1, 2] if behind < 4 else [])
        assert dump.read.counts.last_line_cut
        assert (dump.read.counts.unmatched, dump.read.notes) == (1, ["1 answers are cut or damaged: only their whole series are read"])


LONG = 1500
ODD_VALUES = (
    "5",
    "NaN",
    "+Inf",
    "-Inf",
    "1e3",
    "-0",
    "1_0",
    "x",
    "",
    " 5",
    "0x10",
    "1e400",
    "5,5",
    "infinity",
    "4.9e-324",
    "0.1000000000000000055",
)


@pytest.mark.parametrize("value", ODD_VALUES)
@pytest.mark.parametrize("time", [EPOCH + LONG, EPOCH + LONG + 0.0625, 5, 1e300])
def test_a_long_series_reads_as_its_parts_do(value: str, time: float) -> None:
    """Long ones are read by column; cut into short ones they are not."""
    pairs: list[Any] = [[EPOCH + n + n % 4 / 4, str(n / 7)] for n in range(LONG)] + [[time, value]]
    long = read_dump(tight(answer({"metric": METRIC, "values": pairs})), "prometheus_json")
    short = read_dump(
        "".join(tight(answer({"metric": METRIC, "values": pairs[at : at + 500]})) for at in (0, 500, 1000, 1500)), "prometheus_json"
    )
    damaged = short.read.counts.unmatched
    assert long.read.counts.unmatched == damaged
    assert long.of(NAME, **OWN) == ([] if damaged else short.of(NAME, **OWN))
    assert len(short.of(NAME, **OWN)) == LONG + 1 - damaged


def export(values: list[Any], first: int = 0, metric: dict[str, str] = METRIC) -> str:
    return tight({"metric": metric, "values": values, "timestamps": [(EPOCH + first + n) * 1000 for n in range(len(values))]}) + "\n"


def test_an_export_is_read_line_by_line() -> None:
    text = export([1, None, "Infinity", "-Infinity", 2.5]) + "\n" + export([7], 60) + export([1], metric={"__name__": "node_load1"})
    text += export([1], metric={"__name__": "vllm:x_created"}) + export([1], metric={"engine": "0"})
    assert claimed_by(text) == ["victoriametrics_json"]
    for size in (1 << 20, 9):
        dump = read_dump(text, block=size)
        assert dump.values(NAME, **OWN) == [1, None, None, None, 2.5, 7]
        assert dump.times(NAME, **OWN)[-1] == EPOCH + 60
        counts = dump.read.counts
        assert (counts.matched, counts.ignored, counts.other, counts.unmatched) == (2, 2, 2, 0)


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "5",
        "{",
        '{"metric":{},"values":[1],"timestamps":[]}',
        '{"metric":{"__name__":"vllm:x"},"values":["x"],"timestamps":[1]}',
        '{"metric":{"__name__":"vllm:x"},"values":[1],"timestamps":[1.5]}',
    ],
)
def test_a_damaged_line_of_an_export_is_unmatched(line: str) -> None:
    counts = read_dump(export([1]) + line + "\n" + export([2], 9)).read.counts
    assert (counts.matched, counts.unmatched) == (2, 1)


def test_the_last_line_of_an_export_may_lack_its_newline_but_not_its_end() -> None:
    assert not read_dump(export([1]) + export([2], 9).rstrip("\n")).read.counts.last_line_cut
    cut = read_dump(export([1]) + export([2], 9)[:-5]).read
    assert (cut.counts.last_line_cut, cut.counts.matched, cut.notes) == (True, 1, ["the last line is cut"])
