"""`kvpm metrics`: what it lists, and that a pipe gets whole lines."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from analyzer.cli.metrics import metrics
from analyzer.errors import KvpmError
from analyzer.formats.metrics import catalogue


def run(*arguments: str) -> str:
    done = CliRunner().invoke(metrics, arguments, catch_exceptions=False, standalone_mode=False)
    return done.stdout


def names(*arguments: str) -> list[str]:
    return [m["name"] for m in json.loads(run("--json", *arguments))]


def test_all_are_listed_one_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    head, *rows = run().splitlines()
    assert head.split() == ["name", "exported", "as", "engine", "type", "unit", "versions", "meaning"]
    assert len(rows) == len(catalogue())
    for row, metric in zip(rows, catalogue(), strict=True):
        assert row.split()[0] == metric.name
        assert metric.meaning in row
        assert all(raw in row for raw in metric.raws)
        assert metric.versions in row


def test_a_filter_fits_part_of_either_name() -> None:
    assert names("num_preemptions") == ["preemptions_total", "request_preemptions"]
    assert names("preemptions_total") == ["preemptions_total"]
    assert names("NUM_QUEUE") == ["waiting_requests"]


def test_of_several_filters_one_has_to_fit() -> None:
    assert set(names("num_queue_reqs", "num_requests_swapped")) == {"waiting_requests", "swapped_requests"}


@pytest.mark.parametrize(
    ("series", "name"),
    [
        ("vllm_num_requests_swapped", "swapped_requests"),
        ("ray_vllm_request_queue_time_seconds_bucket", "queue_s"),
        ("lmcache_mp_l1_evicted_chunks_total", "l2_evictions_total"),
        ("lmcache_blend_scatter_duration_milliseconds_sum", "lmcache_blend_phase_s"),
    ],
)
def test_a_series_name_is_a_filter_too(series: str, name: str) -> None:
    assert names(series) == [name]


def test_labels_are_shown() -> None:
    assert 'vllm:kv_offload_total_bytes{transfer_type="CPU_to_GPU"}' in run("l2_load_bytes")


def test_one_exporter() -> None:
    found = json.loads(run("--engine", "process", "--json"))
    assert {m["engine"] for m in found} == {"process"}
    assert "process_start_s" in [m["name"] for m in found]


def test_json_holds_all_fields() -> None:
    (found,) = json.loads(run("--json", "kv_transfer_total_mb"))
    assert found == {
        "name": "transfer_bytes",
        "engine": "sglang",
        "type": ["gauge", "histogram"],
        "unit": "bytes",
        "scale": 1048576.0,
        "since": "0.5.7",
        "until": "",
        "meaning": found["meaning"],
        "trap": found["trap"],
        "fact": "",
        "labels": {},
        "raws": ["sglang:kv_transfer_total_mb"],
        "order": found["order"],
    }
    assert "MiB" in found["trap"]


def test_a_filter_that_fits_nothing_is_told() -> None:
    with pytest.raises(KvpmError, match="no metric is called like nothing_of_this or that_neither"):
        run("nothing_of_this", "that_neither")
