"""The catalogue of metric names: all names of the inventories and recordings are known, and bad data is refused."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pytest

from analyzer.formats import metrics
from analyzer.formats.metrics import Known, Metric, MetricDataError, catalogue, engine_of, load_metrics, lookup
from analyzer.formats.versions import version_key

DATA = Path(__file__).parent.parent / "data" / "metric_names.tsv"
READ = {
    "sglang": ("0.5.23",),
    "vllm": ("0.5.5", "0.6.6", "0.8.5", "0.11.2", "0.19.1", "0.33.0"),
    "lmcache": ("0.3.9", "0.4.4", "0.5.6"),
}
BY_LABELS = {
    "vllm:kv_offload_total_bytes": ("transfer_type", {"CPU_to_GPU": "l2_load_bytes_total", "GPU_to_CPU": "l2_store_bytes_total"}),
    "vllm:kv_offload_total_time": ("transfer_type", {"CPU_to_GPU": "l2_load_seconds_total", "GPU_to_CPU": "l2_store_seconds_total"}),
    "vllm:kv_offload_size": ("transfer_type", {"CPU_to_GPU": "l2_load_size_bytes", "GPU_to_CPU": "l2_store_size_bytes"}),
    "sglang:realtime_tokens_total": (
        "mode",
        {
            "prefill_compute": "prefill_computed_tokens_total",
            "prefill_cache": "prefill_cached_tokens_total",
            "decode": "decode_tokens_total",
        },
    ),
    "lmcache_mp_l1_read_failure_total": ("during", {"l1_retrieve": "l2_load_failures_total"}),
}


@dataclass(frozen=True)
class Name:
    """One row of the list: a `{word}` in a family's name is filled in."""

    source: str
    engine: str
    name: str
    types: tuple[str, ...]
    presence: str

    @property
    def wire(self) -> str:
        return re.sub(r"\{\w+\}", "high_9", self.name)

    @property
    def versions(self) -> tuple[str, ...]:
        """First and last; empty when the row does not tell."""
        if ".." in self.presence and "x" not in self.presence:
            first, last = self.presence.split("..")
            return first, last
        if set(self.presence) <= {"x", "."}:
            read = [v for v, there in zip(READ[self.engine], self.presence, strict=True) if there == "x"] if self.presence else []
            return (read[0], read[-1]) if read else ()
        return self.presence, self.presence


def names() -> list[Name]:
    rows = [line.split("\t") for line in DATA.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [Name(source, engine, name, tuple(types.split("/")), presence) for source, engine, name, types, presence in rows]


NAMES = names()


def known(raw_name: str, **labels: str) -> Known:
    found = lookup(raw_name, labels)
    assert found is not None, f"{raw_name} is not known"
    return found


def test_the_list_holds_the_whole_inventory() -> None:
    counts = {(source, engine): sum(1 for n in NAMES if (n.source, n.engine) == (source, engine)) for source, engine in
              [("table", "sglang"), ("table", "vllm"), ("table", "lmcache"), ("prose", "lmcache"), ("recording", "vllm")]}  # fmt: skip
    assert list(counts.values()) == [188, 157, 198, 6, 104]


@pytest.mark.parametrize("name", NAMES, ids=lambda n: f"{n.source}-{n.name}")
def test_a_name_is_known(name: Name) -> None:
    found = known(name.wire)
    metric = found.metric
    assert metric.engine == name.engine == engine_of(name.wire)
    assert isinstance(metric.unit, str)
    assert len(metric.meaning.split()) >= 2
    assert metric.labels == {}
    if found.part == "created" or "untyped" in name.types:
        return
    wire_types = {"gauge" if t == "info" else t for t in metric.type}
    assert set(name.types) <= wire_types, f"{name.name} is a {metric.type}"


def test_recorded_parts_are_told() -> None:
    for name in NAMES:
        if name.source == "recording" and name.types == ("histogram",):
            part = known(name.wire).part
            assert part is not None
            assert name.name.endswith(f"_{part}")


def test_version_ranges_are_those_of_the_inventory() -> None:
    seen: dict[int, tuple[Metric, list[Name]]] = {}
    for name in NAMES:
        if name.versions:
            metric = known(name.wire).metric
            seen.setdefault(metric.order, (metric, []))[1].append(name)
    for metric, found in seen.values():
        first = min((n.versions[0] for n in found), key=version_key)
        last = max((n.versions[-1] for n in found), key=version_key)
        assert metric.since == first, metric.raws
        assert metric.until == ("" if last == READ[metric.engine][-1] else last), metric.raws
    for metric in catalogue():
        if metric.order not in seen and not metric.labels:
            assert (metric.since, metric.until) == ("", ""), f"{metric.raws}: versions from nowhere"


def test_every_entry_is_in_the_list() -> None:
    listed = {raw for n in NAMES for raw in known(n.wire).metric.raws}
    assert {raw for m in catalogue() for raw in m.raws} == listed


@pytest.mark.parametrize(("raw", "label", "to"), [(raw, *spec) for raw, spec in BY_LABELS.items()], ids=list(BY_LABELS))
def test_labels_tell_what_a_series_is(raw: str, label: str, to: dict[str, str]) -> None:
    for value, name in to.items():
        assert known(raw, **{label: value}, model_name="m").metric.name == name
    rest = known(raw, **{label: "something new"}).metric
    assert rest.name not in to.values()
    assert rest == known(raw).metric


def test_labels_are_told_for_all_that_need_them() -> None:
    rests = {known(raw).metric.name for m in catalogue() if m.labels for raw in m.raws}
    assert rests == {known(raw).metric.name for raw in BY_LABELS}


@pytest.mark.parametrize(
    ("spelling", "name", "part"),
    [
        ("vllm:num_preemptions", "preemptions_total", None),
        ("vllm:num_preemptions_total", "preemptions_total", None),
        ("vllm:num_preemptions_created", "preemptions_total", "created"),
        ("vllm_num_preemptions_total", "preemptions_total", None),
        ("ray_vllm_num_preemptions_total", "preemptions_total", None),
        ("ray_vllm:num_requests_running", "running_requests", None),
        ("vllm:iteration_tokens_total", "iteration_tokens", None),
        ("vllm:iteration_tokens_total_bucket", "iteration_tokens", "bucket"),
        ("vllm_iteration_tokens_total_sum", "iteration_tokens", "sum"),
        ("vllm:iteration_tokens_total_created", "iteration_tokens", "created"),
        ("sglang_time_to_first_token_seconds_count", "ttft_s", "count"),
        ("sglang:num_aborted_requests", "aborted_requests_total", None),
        ("sglang:num_aborted_requests_total", "aborted_requests_total", None),
        ("sglang:lora_pool_slots_total", "sglang_lora_capacity_slots", None),
        ("sglang:kv_transfer_latency_ms", "transfer_s", None),
        ("sglang:kv_transfer_latency_ms_bucket", "transfer_s", "bucket"),
        ("sglang:process_cpu_seconds_total", "sglang_process_cpu_seconds_total", None),
        ("process_cpu_seconds_total", "process_cpu_seconds_total", None),
        ("lmcache:local_cpu_evict_keys_count", "l2_evictions_total", None),
        ("lmcache:local_cpu_evict_keys_count_total", "l2_evictions_total", None),
        ("lmcache_time_to_retrieve_bucket", "l2_load_s", "bucket"),
        ("lmcache_mp.l1_evicted", "l2_evictions_total", None),
        ("lmcache_mp_l1_evicted_chunks_total", "l2_evictions_total", None),
        ("lmcache_mp_lookup_hit_l1_tokens_total", "lmcache_mp_cpu_hit_tokens_total", None),
        ("lmcache_mp_lookup_hit_l1_keys_total", "lmcache_mp_cpu_hit_keys_total", None),
        ("lmcache_mp_l2_store_completed_objects_chunks_total", "lmcache_mp_storage_stored_chunks_total", None),
        ("lmcache_mp_l0_l1_load_throughput_GB_per_second_bucket", "l2_load_bytes_per_s", "bucket"),
        ("lmcache_mp_l0_block_lifetime_seconds_sum", "kv_block_lifetime_s", "sum"),
        ("lmcache_mp_event_bus_dropped_events_total", "lmcache_mp_dropped_events_total", None),
        ("lmcache_blend_lookup_duration_milliseconds_count", "lmcache_blend_phase_s", "count"),
        ("lmcache:periodic_threads_high_total", "lmcache_level_threads", None),
        ("lmcache:periodic_threads_total_count", "lmcache_threads", None),
    ],
)
def test_spellings(spelling: str, name: str, part: str | None) -> None:
    found = known(spelling)
    assert (found.metric.name, found.part) == (name, part)


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("vllm:something_new", "vllm"),
        ("ray_vllm_something_new_total", "vllm"),
        ("sglang:something_new_bucket", "sglang"),
        ("lmcache_mp.something_new", "lmcache"),
        ("lmcache_coordinator_something_new", "lmcache"),
        ("process_something_new", "process"),
        # what is taken off the end has to fit the metric
        ("vllm:prompt_tokens_bytes", "vllm"),
        ("vllm:num_requests_running_total", "vllm"),
        ("vllm:num_requests_running_bucket", "vllm"),
        ("vllm:num_preemptions_sum", "vllm"),
        ("vllm:kv_cache_usage_perc_seconds", "vllm"),
        ("lmcache_mp_l1_evicted_tokens_total", "lmcache"),
        ("lmcache:periodic_threads_high_9-8_total", "lmcache"),
        # recording rules
        ("vllm:num_requests_running:avg", "vllm"),
        ("vllm:prompt:tokens", "vllm"),
        ("job:vllm_num_requests_running:sum", None),
        ("node_cpu_seconds_total", None),
        ("go_goroutines", None),
        ("vllmx:num_requests_running", None),
        ("", None),
    ],
)
def test_other_names_are_not_known(name: str, engine: str | None) -> None:
    assert lookup(name, {}) is None
    assert engine_of(name) == engine


def test_the_preferred_spelling_comes_first() -> None:
    assert [known(f"vllm:{raw}").spelling for raw in ("kv_offload_load_bytes_total", "kv_offload_lookup_sync_delay_seconds_sum")] == [1, 0]
    ranks = {raw: known(raw).spelling for raw in ("sglang:full_token_usage", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")}
    assert list(ranks.values()) == [0, 1, 2]
    old = known("vllm:kv_offload_total_bytes_total", transfer_type="CPU_to_GPU")
    assert old.spelling == known("vllm:kv_offload_load_bytes_total").spelling + 1
    right, misspelt = (known(f"sglang:num_prefill_{word}_queue_reqs") for word in ("inflight", "infight"))
    assert (right.metric, right.spelling, misspelt.spelling) == (misspelt.metric, 0, 1)


def test_spellings_of_a_name_have_places_of_their_own() -> None:
    index = metrics._index()
    entries = [k for ks in index.names.values() for k in ks] + [k for _, k in index.families]
    by_name: dict[str, list[int]] = {}
    for entry in entries:
        by_name.setdefault(entry.metric.name, []).append(entry.spelling)
    for name, places in by_name.items():
        assert sorted(places) == list(range(len(places))), name


def test_units_are_those_the_exported_names_tell() -> None:
    told = {
        r"_(ms|milliseconds)$": ("s", 0.001),
        r"_seconds(_max)?$": ("s", 1.0),
        r"_gb$": ("bytes", 1024.0**3),
        r"_mb$": ("bytes", 1024.0**2),
        r"_gb_s$": ("bytes/s", 1024.0**3),
        r"throughput$": ("bytes/s", 1e9),
        r"_bytes$": ("bytes", 1.0),
        r"_toks_per_s$|_throughput_toks|:gen_throughput$": ("tokens/s", 1.0),
        r"_perc$|_(hit|reuse|fill)_rate$|token_usage$": ("share", 1.0),
        r"(?<!mamba_used)(?<!mamba_available)(?<!mamba_evictable)_tokens$": ("tokens", 1.0),
    }
    for pattern, unit in told.items():
        found = [m for m in catalogue() if any(re.search(pattern, raw) for raw in m.raws)]
        assert found, pattern
        for metric in found:
            if metric.unit == "tokens/s" and pattern == r"throughput$":
                continue
            assert (metric.unit, metric.scale) == unit, metric.raws


@pytest.mark.parametrize(
    ("raw", "unit", "scale"),
    [
        ("lmcache:remote_time_to_get", "s", 0.001),
        ("lmcache:remote_time_to_put", "s", 0.001),
        ("lmcache:remote_ping_latency", "s", 0.001),
        ("lmcache:time_to_retrieve", "s", 1.0),
        ("lmcache:retrieve_speed", "tokens/s", 1.0),
        ("lmcache:request_cache_lifespan", "s", 60.0),
        ("lmcache:local_cache_usage", "bytes", 1.0),
        ("lmcache_blend.scatter_duration", "s", 0.001),
        ("lmcache_mp.l1_chunk_lifetime", "s", 1.0),
        ("sglang:fwd_occupancy", "share", 0.01),
        ("sglang:prefetch_bandwidth", "bytes/s", 1024.0**3),
        ("vllm:kv_offload_total_time", "s", 1.0),
        ("vllm:time_in_queue_requests", "s", 1.0),
    ],
)
def test_units_the_name_does_not_tell(raw: str, unit: str, scale: float) -> None:
    metric = known(raw).metric
    assert (metric.unit, metric.scale) == (unit, scale)


def test_capacities_are_facts() -> None:
    facts = {m.raws[0]: m.fact for m in catalogue() if m.fact}
    assert facts == {
        "sglang:max_total_num_tokens": "kv_capacity_tokens",
        "sglang:max_total_num_tokens_swa": "swa_capacity_tokens",
        "sglang:page_size": "page_size",
        "sglang:context_len": "context_len",
        "sglang:hicache_host_total_tokens": "l2_capacity_tokens",
    }


GOOD = 'raw = "vllm:a"\nname = "a_s"\ntype = "gauge"\nunit = "s"\nmeaning = "It is a."\n'


def data_folder(folder: Path, text: str) -> Path:
    """The shipped data, with that of vLLM replaced."""
    for engine in metrics.ENGINES:
        name = f"metrics_{engine}.toml"
        shutil.copy(str(resources.files("analyzer.formats") / name), folder / name)
    (folder / "metrics_vllm.toml").write_text(text, encoding="utf-8")
    return folder


def test_an_entry_is_read_with_its_defaults(tmp_path: Path) -> None:
    loaded = load_metrics(data_folder(tmp_path, f"[[metric]]\n{GOOD}"))
    (metric,) = (m for m in loaded if m.engine == "vllm")
    assert (metric.scale, metric.since, metric.trap, metric.fact, metric.labels, metric.raws) == (1.0, "", "", "", {}, ("vllm:a",))
    assert [m.order for m in loaded] == list(range(len(loaded)))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('unit = "s"\n', "", "unknown or missing attribute unit"),
        ('unit = "s"\n', 'unit = "s"\nunits = "s"\n', "unknown or missing attribute units"),
        ('"vllm:a"', '"sglang:a"', "is not a name of vllm"),
        ('"vllm:a"', "[]", "has no name"),
        ('"gauge"', '"guage"', "its type is none"),
        ('"a_s"', '"A_s"', "is no canonical name"),
        ('"a_s"', '"a"', "does not end in _s"),
        ('"a_s"', '"a_seconds_total"', "counters end in _total"),
        ('"gauge"', '"counter"', "counters end in _total"),
        (GOOD, GOOD.replace('"vllm:a"', '"vllm:a_total"').replace("a_s", "a_total").replace("gauge", "counter"), "ends in what"),
        ('unit = "s"\n', 'unit = "s"\nscale = 0\n', "scale is not positive"),
        ('unit = "s"\n', 'unit = "s"\nsince = "0.10.0"\nuntil = "0.9.2"\n', "it ends"),
        ('"It is a."', '""', "has no meaning"),
        ('"It is a."', '"It is a"', "sentences"),
        ('unit = "s"\n', 'unit = "s"\nlabels = { x = "y" }\n', "no entry for series with other labels"),
        ("[[metric]]", "[[metrics]]", "metric"),
        ("[[metric]]", "[[metric]", "metrics_vllm.toml"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_trusted_is_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    text = f"[[metric]]\n{GOOD}"
    assert old in text
    folder = data_folder(tmp_path, text.replace(old, new))
    with pytest.raises(MetricDataError, match=re.escape(problem)):
        load_metrics(folder)


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (GOOD, "two entries for the same series"),
        (GOOD.replace('"vllm:a"', '"vllm:b"').replace('unit = "s"', 'unit = ""'), "differ in unit or type"),
        (GOOD.replace('"vllm:a"', '"vllm:b"').replace("gauge", "histogram"), "differ in unit or type"),
        (GOOD.replace('"vllm:a"', '"vllm_a"').replace("a_s", "b_s"), "two entries for the same series"),
    ],
)
def test_entries_that_contradict_are_refused(tmp_path: Path, second: str, problem: str) -> None:
    folder = data_folder(tmp_path, f"[[metric]]\n{GOOD}\n[[metric]]\n{second}")
    with pytest.raises(MetricDataError, match=problem):
        load_metrics(folder)
