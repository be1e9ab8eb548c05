"""Metric dumps in a trace: which series count, which server and process they are of, and what they tell of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from trace_logs import BASE, read, rows, sglang

from analyzer import open_trace
from analyzer.ingestion import IngestOptions, ingest
from analyzer.trace.manifest import read_manifest
from analyzer.trace.offset_rules import OffsetRule

START = int(BASE.replace(tzinfo=UTC).timestamp())


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "t.kvtrace"


def scrapes(values: Mapping[str, Sequence[float | None]], *, first: float = 0, step: float = 5) -> str:
    """A dump with one scrape every `step` seconds; a series is left out of a scrape where its value is None."""
    zero = START + first
    text = []
    for n in range(max(len(v) for v in values.values())):
        text.append(f"# scrape_ts {zero + n * step:.3f}")
        text += [f"{name} {v[n]}" for name, v in values.items() if n < len(v) and v[n] is not None]
    return "\n".join(text) + "\n"


def write(folder: Path, **files: str) -> Path:
    """Files below `folder`: `a__prom` is a.prom, `pod__a__prom` is pod/a.prom."""
    for name, text in files.items():
        *parents, stem, ending = name.split("__")
        path = folder.joinpath(*parents, f"{stem}.{ending}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def counted(trace: Path, name: str) -> list[tuple[Any, ...]]:
    return rows(trace, f"SELECT raw_name, counted, why_not FROM series WHERE name = '{name}' ORDER BY raw_name, labels::VARCHAR")


def instances(trace: Path, table: str = "series") -> list[str]:
    return [r[0] for r in rows(trace, f"SELECT DISTINCT instance FROM {table} ORDER BY 1")]


def test_old_and_new_spelling_side_by_side_are_counted_once(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "s", m__prom=scrapes({"vllm:gpu_cache_usage_perc": [0.5, 0.5], "vllm:kv_cache_usage_perc": [0.5, 0.5]})), trace)
    assert counted(trace, "kv_usage") == [
        ("vllm:gpu_cache_usage_perc", False, "another spelling of vllm:kv_cache_usage_perc"),
        ("vllm:kv_cache_usage_perc", True, None),
    ]


def test_one_spelling_alone_counts(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "s", m__prom=scrapes({"vllm:gpu_cache_usage_perc": [0.5, 0.5]})), trace)
    assert counted(trace, "kv_usage") == [("vllm:gpu_cache_usage_perc", True, None)]


def test_priorities_are_parts_of_their_sum(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({f'sglang:num_queue_reqs{{priority="{p}"}}': [n, n] for p, n in (("", 7), ("1", 4), ("2", 3))})
    read(write(tmp_path / "s", m__prom=dump), trace)
    assert [c for _, c, _ in counted(trace, "waiting_requests")] == [True, False, False]


def test_priorities_without_a_sum_count_each(tmp_path: Path, trace: Path) -> None:
    read(
        write(tmp_path / "s", m__prom=scrapes({f'sglang:num_queue_reqs{{priority="{p}"}}': [n, n] for p, n in (("1", 4), ("2", 3))})), trace
    )
    assert [c for _, c, _ in counted(trace, "waiting_requests")] == [True, True]


def test_further_ranks_of_one_scheduler_repeat_it_and_data_parallel_ones_do_not(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({f'sglang:num_running_reqs{{dp_rank="{dp}",tp_rank="{tp}"}}': [5, 5] for dp in (0, 1) for tp in (0, 1)})
    read(write(tmp_path / "s", m__prom=dump), trace)
    assert rows(trace, "SELECT dp, tp, counted FROM series ORDER BY 1, 2") == [(0, 0, True), (0, 1, False), (1, 0, True), (1, 1, False)]


def test_percentages_become_shares(tmp_path: Path, trace: Path) -> None:
    result = read(
        write(tmp_path / "s", m__prom=scrapes({"vllm:kv_cache_usage_perc": [0.5, 97.0], "vllm:num_requests_running": [97, 97]})), trace
    )
    assert rows(trace, "SELECT value FROM samples JOIN series USING (series_id) WHERE name = 'kv_usage' ORDER BY ts") == [(0.005,), (0.97,)]
    assert rows(trace, "SELECT max(value) FROM samples JOIN series USING (series_id) WHERE name = 'running_requests'") == [(97.0,)]
    assert "in percent" in result.manifest.sources[0].row["notes"]


def test_other_units_become_seconds_and_bytes(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({
        'lmcache:remote_time_to_get_bucket{le="250"}': [1, 2], 'lmcache:remote_time_to_get_bucket{le="+Inf"}': [1, 2],
        "lmcache:remote_time_to_get_sum": [250.0, 500.0], "lmcache:remote_time_to_get_count": [1, 2],
    })  # fmt: skip
    read(write(tmp_path / "s", m__prom=dump), trace)
    found = rows(trace, "SELECT part, le, unit, max(value) FROM samples JOIN series USING (series_id) GROUP BY ALL ORDER BY part, le")
    assert found == [("bucket", 0.25, "", 2.0), ("bucket", float("inf"), "", 2.0), ("count", None, "", 2.0), ("sum", None, "s", 0.5)]


def test_labels_become_columns(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({'sglang:num_running_reqs{engine_type="prefill",model_name="m",dp_rank="3",pp_rank="1",instance="h:30000"}': [1, 2]})
    read(write(tmp_path / "s", m__prom=dump), trace)
    assert rows(trace, "SELECT instance, dp, pp, role, model, labels['instance'] FROM series") == [
        ("h:30000", 3, 1, "prefill", "m", "h:30000")
    ]


def test_a_new_process_splits_its_series(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({
        "process_start_time_seconds": [START - 100] * 3 + [START + 13] * 3,
        "vllm:num_preemptions_total": [5, 6, 7, 1, 1, 2],
    })  # fmt: skip
    read(write(tmp_path / "s", m__prom=dump), trace)
    found = rows(trace, "SELECT run_id, samples, epoch(first_ts)::BIGINT FROM series WHERE name = 'preemptions_total' ORDER BY 1")
    assert found == [("r1", 3, START), ("r2", 3, START + 15)]
    assert rows(trace, "SELECT epoch(ts)::BIGINT FROM events WHERE kind = 'start' ORDER BY 1") == [(START - 100,), (START + 13,)]


def test_counters_that_fall_back_tell_of_a_new_process(tmp_path: Path, trace: Path) -> None:
    read(
        write(tmp_path / "s", m__prom=scrapes({"vllm:prompt_tokens_total": [50, 60, 3, 9], "vllm:num_requests_running": [1, 1, 1, 1]})),
        trace,
    )
    assert rows(trace, "SELECT DISTINCT run_id FROM series ORDER BY 1") == [("r1",), ("r2",)]


def test_a_start_in_the_log_is_the_one_the_counters_show_later(tmp_path: Path, trace: Path) -> None:
    """The model loads for minutes: between the start and the first scrape of the new process."""
    log = sglang(0, 20, port=30000) + sglang(150, 400, port=30000)
    dump = scrapes(
        {"sglang:prompt_tokens_total": [100, 200] + [None] * 28 + [1, 2], "sglang:num_running_reqs": [1, 1] + [None] * 28 + [1, 1]}, step=10
    )
    read(write(tmp_path / "s", server__log=log, m__prom=dump), trace)
    assert len(read_manifest(trace).runs["s"]) == 2


def test_scrapes_that_alternate_between_processes_are_left_out(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({"process_start_time_seconds": [START - 100, START - 50] * 3, "vllm:prompt_tokens_total": [50, 7, 51, 8, 52, 9]})
    result = read(write(tmp_path / "s", m__prom=dump), trace)
    assert "several servers" in result.manifest.sources[0].row["nothing"]
    assert rows(trace, "SELECT count(*) FROM series") == [(0,)]


@pytest.mark.parametrize("label", ["namespace", "cluster", "job", "rack"])
def test_one_target_name_of_two_servers_is_told_apart(tmp_path: Path, trace: Path, label: str) -> None:
    dump = scrapes({
        f'{name}{{pod="vllm-0",{label}="{where}"}}': [value + n, value + n]
        for n, where in enumerate(("a", "b"))
        for name, value in (("process_start_time_seconds", START - 100 * n), ("vllm:num_requests_running", 3))
    })  # fmt: skip
    read(write(tmp_path / "s", m__prom=dump), trace)
    assert instances(trace) == ["a/vllm-0", "b/vllm-0"]


@pytest.mark.parametrize("label", ["prometheus_replica", "replica", "monitor"])
def test_two_scrapers_of_one_server_are_one_server_counted_once(tmp_path: Path, trace: Path, label: str) -> None:
    values = {"process_start_time_seconds": [START - 9] * 20, "vllm:num_preemptions_total": [10 * n for n in range(20)]}
    dump = "".join(
        scrapes({f'{name}{{pod="vllm-0",{label}="{who}"}}': v for name, v in values.items()}, first=lag)
        for who, lag in (("a", 0.0), ("b", 1.2))
    )
    read(write(tmp_path / "s", m__prom=dump), trace)
    assert instances(trace) == ["vllm-0"]
    with open_trace(trace) as opened:
        assert opened.con.execute("SELECT sum(delta) FROM counter_delta WHERE name = 'preemptions_total'").fetchone() == (190.0,)


def test_what_a_federated_server_said_names_it(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({f'vllm:num_requests_running{{instance="federate:9090",exported_instance="10.0.0.{n}:8000"}}': [1, 1] for n in (5, 6)})
    read(write(tmp_path / "s", m__prom=dump), trace)
    assert instances(trace) == ["10.0.0.5:8000", "10.0.0.6:8000"]


def test_two_servers_that_started_together_are_two(tmp_path: Path, trace: Path) -> None:
    dumps = {
        f"{name}__prom": scrapes({"process_start_time_seconds": [START - 50 + 0.02 * n] * 9, "vllm:num_requests_running": [n] * 9})
        for n, name in enumerate(("a", "b"))
    }
    read(write(tmp_path / "s", **dumps), trace)
    assert instances(trace) == ["s/a", "s/b"]


def test_values_beyond_any_server_are_left_out(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({"vllm:kv_cache_usage_perc": [0.5, 1e6, 0.7], "vllm:num_requests_waiting": [1, "+Inf", 1e308]})  # type: ignore[dict-item]
    result = read(write(tmp_path / "s", m__prom=dump), trace)
    assert rows(trace, "SELECT value FROM samples JOIN series USING (series_id) ORDER BY name, ts") == [
        (0.5,),
        (None,),
        (0.7,),
        (1.0,),
        (None,),
        (None,),
    ]
    assert "3 values are beyond any server's" in result.manifest.sources[0].row["notes"]


def test_the_pool_is_read_from_its_configuration(tmp_path: Path, trace: Path) -> None:
    """vLLM V1 counts its null block; the label `engine` tells V1 from V0."""
    v1 = scrapes({'vllm:cache_config_info{block_size="32",num_gpu_blocks="65",engine="0",enable_prefix_caching="True"}': [1, 1]})
    v0 = scrapes({'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"}': [1, 1]})
    read(write(tmp_path / "s", one__m__prom=v1, two__m__prom=v0), trace)
    found = rows(trace, "SELECT instance, key, number FROM facts WHERE key LIKE '%capacity%' OR key LIKE 'num_gpu%' ORDER BY 1, 2")
    assert found == [("one", "kv_capacity_tokens", 2080.0), ("one", "num_gpu_blocks", 65.0), ("two", "num_gpu_blocks", 100.0)]


def test_gauges_that_are_facts(tmp_path: Path, trace: Path) -> None:
    read(
        write(
            tmp_path / "s", m__prom=scrapes({"sglang:max_total_num_tokens": [1000, 1000], "sglang:hicache_host_total_tokens": [5000, 5000]})
        ),
        trace,
    )
    assert rows(trace, "SELECT key, number, unit FROM facts ORDER BY 1") == [
        ("kv_capacity_tokens", 1000.0, "tokens"),
        ("l2_capacity_tokens", 5000.0, "tokens"),
    ]


def test_the_address_in_the_log_is_the_scrape_target(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({'sglang:num_running_reqs{instance="10.0.0.5:30000"}': [1, 2]})
    read(write(tmp_path / "s", logs__server__log=sglang(0, 20, host="10.0.0.5", port=30000), prom__m__prom=dump), trace)
    assert instances(trace) == instances(trace, "scheduler") == ["10.0.0.5:30000"]


def test_one_target_and_one_log_of_any_host_in_a_folder_are_one_server(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({'sglang:num_running_reqs{instance="10.0.0.5:30000"}': [1, 2]})
    read(write(tmp_path / "s", server__log=sglang(0, 20, port=30000), m__prom=dump), trace)
    assert instances(trace) == instances(trace, "scheduler") == ["10.0.0.5:30000"]


def test_another_port_is_another_server(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({'sglang:num_running_reqs{instance="10.0.0.5:30001"}': [1, 2]})
    read(write(tmp_path / "s", server__log=sglang(0, 20, port=30000), m__prom=dump), trace)
    assert instances(trace) != instances(trace, "scheduler")


def test_two_targets_of_one_dump_are_two_servers(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({f'vllm:num_requests_running{{instance="10.0.0.{n}:8000"}}': [1, 2] for n in (5, 6)})
    read(write(tmp_path / "s", m__prom=dump), trace)
    assert instances(trace) == ["10.0.0.5:8000", "10.0.0.6:8000"]


def test_the_pod_goes_before_the_address(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "s", m__prom=scrapes({'vllm:num_requests_running{instance="10.0.0.5:8000",pod="vllm-0"}': [1, 2]})), trace)
    assert instances(trace) == ["vllm-0"]


def test_the_loopback_of_two_folders_is_two_servers(tmp_path: Path, trace: Path) -> None:
    log = sglang(0, 20, host="127.0.0.1", port=30000)
    read(write(tmp_path / "s", a__server__log=log, b__server__log=log + "\n"), trace)
    assert instances(trace, "scheduler") == ["a/127.0.0.1:30000", "b/127.0.0.1:30000"]


def test_two_dumps_of_two_processes_at_one_time_are_two_servers(tmp_path: Path, trace: Path) -> None:
    dumps = {
        f"node{n}__prom": scrapes({"process_start_time_seconds": [START - n] * 9, "vllm:num_requests_running": [n] * 9}) for n in (100, 900)
    }
    read(write(tmp_path / "s", **dumps), trace)
    assert instances(trace) == ["s/node100", "s/node900"]


def test_a_file_for_each_scrape_is_one_server(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "s", **{f"m{n}__prom": scrapes({"vllm:num_requests_running": [n]}, first=5 * n) for n in range(6)}), trace)
    assert instances(trace) == ["s"]
    assert rows(trace, "SELECT count(*) FROM samples") == [(6,)]


def test_processes_of_other_programs_are_no_servers(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({
        'process_start_time_seconds{instance="10.0.0.9:9100"}': [START, START],
        'process_start_time_seconds{instance="10.0.0.5:8000"}': [START, START],
        'vllm:num_requests_running{instance="10.0.0.5:8000"}': [1, 1],
    })  # fmt: skip
    read(write(tmp_path / "s", m__prom=dump), trace)
    assert instances(trace) == ["10.0.0.5:8000"]


def test_reading_the_same_dump_again_changes_nothing(tmp_path: Path, trace: Path) -> None:
    folder = write(tmp_path / "s", m__prom=scrapes({"vllm:num_requests_running": [1, 2, 3]}))
    read(folder, trace)
    before = (trace / "manifest.json").read_bytes()
    read(folder, trace)
    assert (trace / "manifest.json").read_bytes() == before


def test_a_log_read_later_splits_what_was_stored(tmp_path: Path, trace: Path) -> None:
    """The dump has no start time; the restart in the log is learned afterwards, and its series are split at it."""
    values = {"sglang:num_running_reqs": [1.0] * 40}
    read(write(tmp_path / "s", m__prom=scrapes(values)), trace)
    assert rows(trace, "SELECT run_id, samples FROM series") == [("r1", 40)]
    write(tmp_path / "s", server__log=sglang(0, 60, port=30000) + sglang(130, 200, port=30000))
    read(tmp_path / "s", trace)
    assert rows(trace, "SELECT run_id, samples FROM series ORDER BY 1") == [("r1", 20), ("r2", 20)]
    assert rows(trace, "SELECT count(*), count(DISTINCT ts) FROM samples") == [(40, 40)]


def test_a_moment_read_twice_is_one_sample(tmp_path: Path, trace: Path) -> None:
    dump = scrapes({"vllm:num_requests_running": [1, 2]})
    read(write(tmp_path / "s", m__prom=dump + dump), trace)
    assert rows(trace, "SELECT count(*) FROM samples") == [(2,)]


def test_given_offset_moves_samples_and_facts(tmp_path: Path, trace: Path) -> None:
    folder = write(tmp_path / "s", m__prom=scrapes({"sglang:max_total_num_tokens": [7, 7], "sglang:num_running_reqs": [1, 2]}))
    read(folder, trace)
    ingest([str(folder)], trace, IngestOptions(offsets=(OffsetRule("m.prom", 3600.0),)))
    assert rows(trace, "SELECT min(epoch(ts))::BIGINT FROM samples") == [(START + 3600,)]
    assert rows(trace, "SELECT min(epoch(ts))::BIGINT FROM facts") == [(START + 3600,)]
    assert rows(trace, "SELECT offset_s, offset_from, epoch(first_ts)::BIGINT FROM sources") == [(3600.0, "given", START + 3600)]
    # it holds on, and is not added twice
    ingest([str(folder)], trace, IngestOptions())
    assert rows(trace, "SELECT min(epoch(ts))::BIGINT FROM samples") == [(START + 3600,)]


def test_a_moment_read_twice_is_one_sample_and_is_counted_once(tmp_path: Path, trace: Path) -> None:
    text = scrapes({"vllm:num_requests_running": [1, 2, 3], "vllm:num_requests_waiting": [4, 5, 6]})
    read(write(tmp_path / "s", m__prom=text + text), trace)
    assert rows(trace, "SELECT value FROM samples ORDER BY series_id, ts") == [(float(n),) for n in (1, 2, 3, 4, 5, 6)]
    assert rows(trace, "SELECT samples, last_ts - first_ts = INTERVAL 10 SECOND FROM series") == [(3, True), (3, True)]
