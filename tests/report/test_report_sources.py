"""What was read, in words: each kind of input counted in what it is made of, its clock, its offset, and why nothing."""

from __future__ import annotations

from typing import Any

import pytest
from report_fakes import HOSTILE, connection, diagnosis, insert, instance, l1_incident, source

from analyzer.cli.summary import summary
from analyzer.parsers.metrics import READERS as METRIC_READERS
from analyzer.parsers.request_records import READERS as REQUEST_READERS
from analyzer.report import source_words, words
from analyzer.report.data import build_report
from analyzer.report.model import ReportData
from analyzer.report.render import render_html

NBSP = "\u00a0"


def metrics(path: str = "metrics.prom", **values: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "source_id": "m1", "format": "prometheus_text", "wrapper": None, "records": 41_294, "clock": "samples", "utc_offset_s": None,
        "notes": None, "unmatched_lines": 0, "other_lines": 0,
    }  # fmt: skip
    return source(path, **{**plain, **values})


def report(*sources: dict[str, Any]) -> ReportData:
    return build_report(connection(), diagnosis(instance(), sources=sources))


@pytest.mark.parametrize("reader", [r.name for r in (*METRIC_READERS, *REQUEST_READERS)] + ["engine_log", "generic_records", "none"])
def test_every_format_has_words(reader: str) -> None:
    kind, unit = words.FORMATS[reader]
    assert kind
    assert unit in ("lines", "samples", "requests")


def test_each_kind_is_counted_in_what_it_is_made_of() -> None:
    log = source()
    assert source_words.gave(log) == "20,412 lines = 18,214 matched + 2,004 known + 12 unmatched + 182 other"
    assert source_words.gave(metrics()) == "41,294 samples"
    assert source_words.gave(source(format="client", records=1, unmatched_lines=0, other_lines=0)) == "1 request"
    assert source_words.gave(metrics(unmatched_lines=3, other_lines=70)) == "41,294 samples, 3 not understood, 70 of no model server"
    assert source_words.gave({"path": "d.log"}) == ""


def test_totals_keep_the_kinds_apart() -> None:
    totals = report(source(), metrics(), metrics("b.prom"), source(format="client", records=283)).totals
    assert (totals.lines, totals.samples, totals.requests) == (20_412, 82_588, 283)
    html = render_html(report(source(), metrics()))
    assert "20,412 lines = 18,214 matched + 2,004 known + 12 unmatched + 182 other; 41,294 samples" in html


def test_series_are_counted_for_metrics() -> None:
    con = connection()
    insert(con, "series", [{"source_id": "m1", "instance": "pod-a"} for _ in range(3)])
    html = render_html(build_report(con, diagnosis(instance(), sources=(metrics(),))))
    assert "41,294 samples in 3 series" in html


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"clock": "inner", "utc_offset_s": 0.0}, "the log's own stamps, taken as UTC"),
        ({"clock": "inner", "utc_offset_s": None, "format": "client"}, "the records' own times"),
        ({"clock": "samples", "utc_offset_s": None, "format": "tsdb_dump"}, "the samples' times"),
        ({"clock": "file", "utc_offset_s": None, "format": "prometheus_text"}, "the file's time, since its scrapes carry none"),
        ({"clock": "given", "utc_offset_s": None, "format": "prometheus_text"}, "the time given with --at"),
        ({"clock": "outer", "utc_offset_s": 0.0}, "the collector's stamps"),
    ],
)
def test_the_clock_is_named(values: dict[str, Any], said: str) -> None:
    assert source_words.clock(source(**values)) == said


ALIKE = {"offset_basis": "load against a/b c/m.prom, agreement 0.98 over 104 s"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, ""),
        (
            {"offset_s": 25200.0, "offset_from": "estimated", "offset_estimate_s": 25200.0, **ALIKE},
            f"+7{NBSP}h added, estimated by load against m.prom, agreement 0.98 over 104 s",
        ),
        ({"offset_s": -90.0, "offset_from": "given"}, f"-1{NBSP}min{NBSP}30{NBSP}s added, as given with --offset"),
        (
            {"offset_s": 60.0, "offset_from": "given", "offset_estimate_s": 62.0, **ALIKE},
            f"+1{NBSP}min added, as given with --offset; "
            f"signals tell +1{NBSP}min{NBSP}2{NBSP}s (load against m.prom, agreement 0.98 over 104 s)",
        ),
        ({"offset_estimate_s": 0.0, **ALIKE}, f"no offset added (0{NBSP}s by load against m.prom, agreement 0.98 over 104 s)"),
        ({"offset_basis": "cannot be told from load against m.prom"}, "offset cannot be told from load against m.prom"),
    ],
)
def test_an_offset_is_said_with_what_it_rests_on(values: dict[str, Any], said: str) -> None:
    assert source_words.offset(source(**values)) == said


def test_an_input_that_gave_nothing_says_why() -> None:
    foreign = metrics(records=0, nothing="holds samples of other programs only (node_)", first_ts=None, last_ts=None, clock=None)
    html = render_html(report(foreign))
    assert "Nothing</span> holds samples of other programs only (node_)" in html
    text = summary(diagnosis(instance(), sources=(foreign,)), to_file=True)
    assert "metrics.prom: nothing (holds samples of other programs only (node_))" in text


def test_a_fact_read_from_a_metric_names_it() -> None:
    fact = {
        "instance": "pod-a", "key": "kv_capacity_tokens", "number": 2080.0, "unit": "tokens", "source": "m.prom:550",
        "read_from": "vllm:cache_config_info",
    }  # fmt: skip
    line = {**fact, "key": "max_num_seqs", "source": "s.log:3", "read_from": "vllm.args"}
    r = build_report(connection(), diagnosis(instance(), facts=(fact, line)))
    assert [f.metric for f in r.facts.rows[0].facts.rows] == ["vllm:cache_config_info", ""]
    assert "m.prom:550<br>metric <code>vllm:cache_config_info</code>" in render_html(r)


def test_the_terminal_needs_one_or_two_lines_an_input() -> None:
    notes = "\n".join(f"note {n}" for n in range(9))
    d = diagnosis(instance(), sources=(source(notes=None, offset_s=60.0, offset_from="given"), metrics(notes=notes)))
    block = summary(d, to_file=True).split("Read:\n")[1].replace(NBSP, " ")
    lines = block.splitlines()
    assert lines[0].startswith(
        "  logs/pod-a/server.log: engine log, sglang, in kubectl, version 0.5.4 to 0.5.9 (inferred); 20,412 lines = "
    )
    assert "2026-11-30 06:57:00 to 07:20:00 UTC, the log's own stamps, taken as UTC+02:00, +1 min added, as given with" in block
    assert "  metrics.prom: Prometheus text scrapes, sglang, version 0.5.4 to 0.5.9 (inferred); 41,294 samples" in lines
    assert "    and 6 more notes; --json has them all" in lines


def test_the_terminal_lists_no_more_inputs_than_can_be_read() -> None:
    text = summary(diagnosis(instance(), sources=tuple(source(f"{i}.log", notes=None) for i in range(45))), to_file=True)
    assert "  and 5 more inputs; --json has them all" in text
    assert "44.log" not in text


def test_control_characters_of_a_path_do_not_reach_the_terminal() -> None:
    text = summary(diagnosis(instance(), sources=(source(HOSTILE, notes=HOSTILE),)), to_file=True)
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_title_case_reads_well() -> None:
    rows = build_report(*l1_incident()).sources.rows
    assert [r.read_as for r in rows] == ["engine log, sglang, in kubectl", "client records"]
    assert rows[1].gave == "1,812 requests"
