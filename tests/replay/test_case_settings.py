"""Settings of a run: read from its lines and metrics, from another run, measured, or the engine's default; and what stops a replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from case_traces import LOG, METRICS, instance_of, kept, opened, set_as_run

from analyzer.replay.case.configured import Configured, configured
from analyzer.replay.case.facts import run_to_replay
from analyzer.replay.model import NoReplay
from analyzer.replay.settings import Sglang
from analyzer.trace.reader import Trace

Told = Callable[..., Configured | NoReplay]

_CASES = (
    "sglang_reserved-ratio_s1", "sglang_cap-small_s1", "sglang_l1-prompts_s1", "sglang_prefill-chunk_s1", "sglang_chunked_s1",
    "vllm_watermark_s1", "vllm_shared_s1", "vllm_l1-prefix_s1", "vllm_cap-small_s1", "vllm_chunked_s2",
)  # fmt: skip


def _settings(trace: Trace) -> Configured | NoReplay:
    name = instance_of(trace)
    run = run_to_replay(trace.con, name)
    assert run is not None
    return configured(trace.con, name, run)


@pytest.mark.thorough
@pytest.mark.parametrize("key", _CASES)
def test_a_rendered_servers_settings_are_those_it_ran_with(key: str, tmp_path: Path) -> None:
    with opened(tmp_path, dict(kept(key, LOG, METRICS))) as trace:
        told = _settings(trace)
    assert isinstance(told, Configured)
    # the everyday tests of rebuilt loads look at this too
    assert set_as_run(key, told.settings)
    pool = next(r for r in told.rows if r.name in ("l1_tokens", "num_blocks"))
    assert pool.origin == "read"
    assert ":" in pool.source
    assert told.uncovered == ()


_SGLANG = [
    "[2026-01-02 03:04:05] server_args={'model_path': 'm/x', 'port': 30000}",
    "[2026-01-02 03:04:20] max_total_num_tokens=40000, chunked_prefill_size=2048, max_prefill_tokens=16384, max_running_requests=64, "
    "context_len=8192, available_gpu_mem=6.43 GB",
    *(
        f"[2026-01-02 03:04:{30 + n}] Decode batch, #running-req: 4, #token: {8000 + 100 * n}, "
        f"token usage: {(8000 + 100 * n) / 40000:.2f}, "
        "cuda graph: True, gen throughput (token/s): 100.00, #queue-req: 0, "
        for n in range(8)
    ),
]
_VLLM = [
    "(APIServer pid=77) INFO 01-02 03:04:05 [api_utils.py:286] non-default args: {'model': 'm/x', 'port': 8000}",
    "(EngineCore pid=99) INFO 01-02 03:04:06 [core.py:139] Initializing a V1 LLM engine (v0.32.0) with config: model='m', ...",
    "(EngineCore pid=99) INFO 01-02 03:04:20 [kv_cache_utils.py:1147] GPU KV cache size: 65,600 tokens, Maximum concurrency for 8,192 "
    "tokens per request: 8.00x",
    *(
        f"(APIServer pid=77) INFO 01-02 03:05:{n}0 [loggers.py:335] Engine 000: Avg prompt throughput: 100.0 tokens/s, Avg generation "
        "throughput: 100.0 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 10.0%, Prefix cache hit rate: 0.0%"
        for n in range(5)
    ),
]


def _server(folder: Path, lines: list[str]) -> Iterator[Told]:
    """Asks for the settings of a server of which other facts are known: each given one replaces what was read, None takes it away."""
    with opened(folder, {"server.log": "\n".join(lines) + "\n"}) as trace:
        con, name = trace.con, instance_of(trace)

        def told(facts: dict[str, str | float | None] | None = None, run: str = "r1") -> Configured | NoReplay:
            con.execute("BEGIN")
            try:
                for key, value in (facts or {}).items():
                    con.execute("DELETE FROM fact WHERE key = ?", [key])
                    if value is not None:
                        number = None if isinstance(value, str) else float(value)
                        con.execute(
                            "INSERT INTO fact BY NAME SELECT ? AS instance, ? AS run_id, ? AS key, ? AS value, ? AS number, '' AS source",
                            [name, run, key, str(value), number],
                        )
                return _settings(trace)
            finally:
                con.execute("ROLLBACK")

        yield told


@pytest.fixture(scope="module")
def sglang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Of a pool of 40,000 tokens."""
    yield from _server(tmp_path_factory.mktemp("sglang"), _SGLANG)


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Of a pool of 4,100 blocks of 16 tokens."""
    yield from _server(tmp_path_factory.mktemp("vllm"), _VLLM)


def _row(told: Configured | NoReplay, name: str) -> tuple[str, str]:
    assert isinstance(told, Configured)
    row = next(r for r in told.rows if r.name == name)
    return row.value, row.origin


def test_what_no_line_tells_is_the_engines_default_and_said_so(vllm: Told) -> None:
    told = vllm()
    assert isinstance(told, Configured)
    assert told.version == "0.32.0"
    assert _row(told, "num_blocks") == ("4100", "read")
    assert _row(told, "block_tokens") == ("16", "assumed")
    assert _row(told, "max_running") == ("256", "assumed")
    assert _row(told, "step_tokens") == ("2048", "assumed")
    assert _row(told, "max_model_tokens") == ("8192", "read")
    assert _row(told, "async_scheduling") == ("true", "assumed")


def test_the_default_caps_follow_the_device(vllm: Told) -> None:
    assert _row(vllm({"device": "CPU"}), "max_running")[0] == "128"
    large = vllm({"kv_bytes": 80 * 2**30})
    assert (_row(large, "max_running")[0], _row(large, "step_tokens")[0]) == ("1024", "8192")


@pytest.mark.thorough
def test_whole_prompts_counted_in_an_iteration_are_no_step_of_that_size(tmp_path: Path) -> None:
    # vLLM counts a prompt at once, in the iteration that ends it, however many chunks it took
    scrapes = "".join(
        f"# scrape_ts {1767323105 + 5 * n}\n"
        f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="4100",engine="0"}} 1\n'
        f'vllm:num_requests_running{{engine="0"}} 4\nvllm:num_requests_waiting{{engine="0"}} 0\n'
        f'vllm:iteration_tokens_total_bucket{{engine="0",le="4096"}} {10 * n}\n'
        f'vllm:iteration_tokens_total_bucket{{engine="0",le="8192"}} {20 * n}\n'
        f'vllm:iteration_tokens_total_bucket{{engine="0",le="+Inf"}} {20 * n}\n'
        for n in range(12)
    )
    with opened(tmp_path, {"metrics.txt": scrapes}) as trace:
        assert _row(_settings(trace), "step_tokens") == ("2048", "assumed")


def test_an_older_version_has_its_own_rules(vllm: Told, sglang: Told) -> None:
    told = vllm({"engine_version": "0.11.2"})
    assert _row(told, "async_scheduling") == ("false", "assumed")
    assert _row(told, "reserve_full_isl") == ("false", "assumed")
    assert _row(sglang({"engine_version": "0.4.1"}), "policy") == ("lpm", "assumed")
    assert _row(sglang({"engine_version": "0.5.23"}), "policy") == ("fcfs", "assumed")


def test_pipeline_stages_turn_asynchronous_scheduling_off(vllm: Told) -> None:
    assert _row(vllm({"arg.pipeline_parallel_size": 2}), "async_scheduling") == ("false", "assumed")
    assert _row(vllm({"arg.pipeline_parallel_size": 2, "arg.async_scheduling": "true"}), "async_scheduling") == ("true", "read")


def test_the_pool_follows_from_tokens_and_their_share_where_the_start_is_lost(sglang: Told) -> None:
    value, origin = _row(sglang({"kv_capacity_tokens": None}), "l1_tokens")
    assert origin == "measured"
    assert int(value) == pytest.approx(40000, rel=0.02)


def test_without_the_pools_size_there_is_no_replay(vllm: Told) -> None:
    told = vllm({"kv_capacity_tokens": None})
    assert isinstance(told, NoReplay)
    assert "KV pool" in told.reason
    assert "KV cache size" in told.hint


def test_arguments_of_another_run_are_assumed_to_hold_and_its_pool_is_not(vllm: Told) -> None:
    told = vllm({"arg.max_num_seqs": 48}, run="r0")
    assert _row(told, "max_running") == ("48", "assumed")
    assert isinstance(told, Configured)
    assert "another run" in next(r for r in told.rows if r.name == "max_running").source
    assert isinstance(vllm({"kv_capacity_tokens": 65_600}, run="r0"), NoReplay)


def test_no_chunk_is_a_size_below_zero(sglang: Told) -> None:
    told = sglang({"chunked_prefill_size": -1})
    assert isinstance(told, Configured)
    assert isinstance(told.settings, Sglang)
    assert told.settings.chunked_prefill_tokens is None


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"arg.enable_mixed_chunk": "true"}, "mixed"),
        ({"arg.speculative_algorithm": "EAGLE"}, "speculative"),
        ({"arg.enable_priority_scheduling": "true"}, "priority"),
        ({"arg.schedule_policy": "lof"}, "lof"),
        ({"arg.enable_lora": "true"}, "LoRA"),
        ({"arg.pp_size": 2}, "pipeline"),
        ({"kv_swa_tokens": 9000}, "sliding-window"),
        ({"mamba_slots": 512}, "mamba"),
        ({"arg.hicache_storage_backend": "file"}, "L3"),
    ],
)
def test_what_the_model_lacks_is_named(facts: dict[str, str | float | None], said: str, sglang: Told) -> None:
    assert getattr(sglang(), "uncovered", None) == ()
    told = sglang(facts)
    assert isinstance(told, Configured)
    assert len(told.uncovered) == 1
    assert said in told.uncovered[0]


def test_a_host_pool_without_a_size_is_named(vllm: Told) -> None:
    told = vllm({"offloading_spec": "CPUOffloadingSpec"})
    assert isinstance(told, Configured)
    assert told.settings.l2 is None
    assert "L2" in told.uncovered[0]


@pytest.mark.parametrize(
    ("engine", "facts", "said"),
    [
        ("sglang", {"arg.disaggregation_mode": "prefill"}, "separate servers"),
        ("vllm", {"kv_connector": "NixlConnector"}, "separate servers"),
        ("sglang", {"arg.dp_size": 4}, "4 data-parallel ranks"),
        ("vllm", {"arg.data_parallel_size": 2}, "2 data-parallel ranks"),
        ("vllm", {"engine_core": "V0", "engine_version": "0.8.5"}, "V0"),
        ("vllm", {"engine_core": None, "engine_version": "0.6.6"}, "V0"),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_the_reason(
    engine: str, facts: dict[str, str | float | None], said: str, sglang: Told, vllm: Told
) -> None:
    told = (sglang if engine == "sglang" else vllm)(facts)
    assert isinstance(told, NoReplay)
    assert said in told.reason


def test_the_host_pool_is_sized_by_its_ratio_where_no_line_counts_it(sglang: Told) -> None:
    told = sglang({"arg.enable_hierarchical_cache": "true", "arg.hicache_ratio": 3.0, "arg.hicache_write_policy": "write_back"})
    assert isinstance(told, Configured)
    assert told.settings.l2 is not None
    assert (told.settings.l2.capacity_tokens, told.settings.l2.write) == (120_000, "write_back")
    assert _row(told, "l2.load_tokens_per_s")[1] == "assumed"


def test_the_host_pool_holds_its_bytes_by_the_bytes_of_a_token(sglang: Told) -> None:
    told = sglang({"kv_k_bytes": 2 * 2**30, "kv_v_bytes": 2 * 2**30, "kv_allocated_tokens": 40_000, "l2_bytes": 10e9})
    assert isinstance(told, Configured)
    assert told.settings.l2 is not None
    assert told.settings.l2.capacity_tokens == int(10e9 / (4 * 2**30 / 40_000))


def test_no_host_pool_is_none(sglang: Told, vllm: Told) -> None:
    for told in (sglang(), vllm()):
        assert isinstance(told, Configured)
        assert told.settings.l2 is None
