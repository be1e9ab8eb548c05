"""What L2 and L3 lines mean: units, which tokens are which, what failed, and what must not be kept."""

from __future__ import annotations

import pytest

from analyzer.formats.match import match_line
from analyzer.formats.model import Parsed
from analyzer.formats.values import READERS, read_sum_of_parts

L = "[2026-11-30 05:55:58,123] LMCache INFO: "
V = "(EngineCore pid=123) INFO 11-30 05:55:58 [manager.py:198] "
S = "[2026-01-02 03:04:05 TP0] "
GIB = 1 << 30


def parsed(line: str) -> Parsed:
    result = match_line(line).parsed
    assert result is not None, line
    assert not result.damaged
    return result


def values(line: str) -> dict[str, object]:
    return dict(parsed(line).values)


def told(line: str) -> str:
    """All that is stored of a line."""
    result = parsed(line)
    return " ".join(map(str, [*result.values.values(), *result.extra.values(), result.argument_text, result.format.text]))


@pytest.mark.parametrize(
    ("computed", "tail", "hit", "load", "text"),
    [
        ("", ", need to load: 1024", 2048, 1024, None),
        ("Inference Engine computed tokens: 1024, ", ", need to load: 1024", 2048, 1024, None),
        ("Inference Engine computed tokens: 2048, ", ", need to load: 0", 2048, 0, None),
        (
            "Inference Engine computed tokens: 1024, ",
            ", but need to load: 76 < min_retrieve 256, skip retrieve but record for save skip",
            1100,
            76,
            "< min_retrieve 256, skip retrieve",
        ),
    ],
)
def test_hit_tokens_are_not_loaded_tokens(computed: str, tail: str, hit: int, load: int, text: str | None) -> None:
    row = values(f"{L}Reqid: r-1, Total tokens 4096, {computed}LMCache hit tokens: {hit}{tail}")
    assert (row["op"], row["total_tokens"], row["hit_tokens"], row["tokens"], row.get("text")) == ("lookup", 4096, hit, load, text)


def test_a_lookup_without_an_answer_is_no_lookup() -> None:
    for computed in ("", "Inference Engine computed tokens: 0, "):
        assert parsed(f"{L}Reqid: r-1, Total tokens 4096, {computed}LMCache hit tokens: None.").format.table == "ignored"


@pytest.mark.parametrize("unit", ["gb", "GB"])
def test_lmcache_sizes_are_binary_and_its_times_milliseconds(unit: str) -> None:
    size = f"size: 0.2500 {unit}, cost 12.5000 ms, throughput: 20.0000 GB/s;"
    stored = values(f"{L}Stored 2048 out of total 4096 tokens. {size} offload_time: 10.0000 ms, put_time: 2.5000 ms")
    assert (stored["bytes"], stored["duration_s"]) == (GIB // 4, 0.0125)
    assert (stored["op"], stored["tokens"], stored["total_tokens"], "hit_tokens" in stored) == ("store", 2048, 4096, False)
    loaded = values(f"{L}[req_id=r-1] Retrieved 512 out of 1024 required tokens (from 2048 total tokens). {size}")
    assert (loaded["bytes"], loaded["duration_s"]) == (GIB // 4, 0.0125)
    assert (loaded["op"], loaded["tokens"], loaded["hit_tokens"], loaded["total_tokens"]) == ("load", 512, 1024, 2048)


@pytest.mark.parametrize("rid", ["", "[req_id=r-1] "])
def test_layerwise_loads_give_the_same_three_counts(rid: str) -> None:
    row = values(f"{L}{rid}Retrieved 512 out of 1024 out of total 2048 tokens")
    assert (row["op"], row["tokens"], row["hit_tokens"], row["total_tokens"]) == ("load", 512, 1024, 2048)
    assert row.get("rid") == ("r-1" if rid else None)


def test_the_adapters_count_is_no_more_than_a_count() -> None:
    assert values(f"{L}Retrieved 1024 tokens") == {"tier": "host", "op": "load", "ok": True, "tokens": 1024}
    assert values(f"{L}Retrieved 1024 tokens in 0.012 seconds")["duration_s"] == 0.012
    assert match_line("Retrieved 1024 tokens").attested is False


def test_the_servers_totals_are_decimal() -> None:
    totals = "store ops=120 tokens=245760 size=32.21GB avg_copy=21.40GB/s | retrieve ops=40 tokens=40960 size=5.37GB avg_copy=n/a"
    row = values(f"{L}L0<->L1 stats [cuda:0] cumulative: {totals}")
    assert (row["l2_stored_bytes"], row["l2_store_bytes_per_s"]) == (32_210_000_000, 21_400_000_000)
    assert (row["l2_loaded_bytes"], "l2_load_bytes_per_s" in row) == (5_370_000_000, False)
    assert (row["l2_stored_tokens"], row["l2_loaded_tokens"]) == (245760, 40960)
    assert parsed(f"{L}L0<->L1 stats [cuda:0] last 10.0s: {totals}").format.table == "ignored"


def test_the_servers_own_memory_is_l2() -> None:
    assert values(f"{L}L1 memory usage: 45.50/100.00 GiB (45.5%)") == {"l2_used_bytes": 45.5 * GIB, "l2_bytes": 100 * GIB}


def test_a_prefetch_counts_keys_and_so_has_no_tokens() -> None:
    row = values(f"{L}Prefetch request completed (L1+L2): 6/8 retained keys (4 L1, 2 L2) in 12.5 ms (prefetch_request_id=7)")
    assert (row["op"], row["duration_s"], row["text"]) == ("prefetch", 0.0125, "6/8 retained keys (4 L1, 2 L2)")
    assert not {"tokens", "hit_tokens", "total_tokens"} & set(row)


@pytest.mark.parametrize(
    ("message", "op", "tier"),
    [
        ("Request r-1 failed to load 512 tokens across 32 blocks", "load", "host"),
        ("Num retrieved tokens: 512, num expected tokens: 1024", "load", "host"),
        ("The cache block is in the storage, but it can't be retrieved", "load", "host"),
        ("Some keys not found during retrieve!", "load", "host"),
        ("LMCache is unhealthy, skipping store operation", "store", "host"),
        ("LMCache is unhealthy, skipping retrieve operation", "load", "host"),
        ("LMCache is unhealthy, skipping lookup operation", "lookup", "host"),
        ("Insufficient evictable disk cache space for k: need 8388608 bytes, have 4 bytes.", "alloc_fail", "disk"),
        ("No eviction candidates found. Disk space under pressure.", "alloc_fail", "disk"),
        ("Failed to allocate memory block of size 8388608 because no memory is available", "alloc_fail", "host"),
        ("get blocking timeout, trigger cancel the future task", "load", "remote"),
        ("Connection is None in get_blocking, returning None", "load", "remote"),
        ("Connection is None in batched_contains, returning 0", "lookup", "remote"),
        ("Connection is None in submit_put_task, returning None", "store", "remote"),
        ("Remote connection failed in contains: why", "lookup", "remote"),
    ],
)
def test_what_lmcache_says_of_a_failure(message: str, op: str, tier: str) -> None:
    row = values(L.replace("INFO", "WARNING") + message)
    assert (row["op"], row["tier"], row["ok"]) == (op, tier, False)


def test_tokens_that_failed_to_load_are_not_loaded() -> None:
    asked = values(f"{L}Request r-1 failed to load 512 tokens across 32 blocks")
    assert (asked.get("tokens"), asked["total_tokens"]) == (None, 512)
    short = values(f"{L}Num retrieved tokens: 512, num expected tokens: 1024")
    assert (short["tokens"], short["hit_tokens"], short.get("total_tokens")) == (512, 1024, None)


def test_an_eviction_names_chunks() -> None:
    row = values(f"{L}Evicting 8 chunks from cpu memory")
    assert (row["op"], row["ok"], row["text"], row.get("tokens")) == ("evict", True, "8 chunks", None)


CONFIG = "Creating LMCacheEngine with config: "


@pytest.mark.parametrize(
    "config",
    [
        "{'chunk_size': 256, 'local_cpu': True, 'max_local_cpu_size': 12.5, 'max_local_disk_size': 200.0}",
        "{'max_local_disk_size': 200.0, 'local_cpu': True, 'max_local_cpu_size': 12.5, 'remote_url': None, 'chunk_size': 256}",
        "LMCacheEngineConfig(chunk_size=256, local_cpu=True, max_local_cpu_size=12.5, local_disk=None, max_local_disk_size=200.0)",
    ],
)
def test_the_configured_sizes_are_read_in_any_order(config: str) -> None:
    row = values(f"{L}{CONFIG}{config}")
    assert (row["l2_chunk_tokens"], row["l2_asked_bytes"], row["l2_disk_bytes"]) == (256, 12.5 * GIB, 200 * GIB)


def test_a_configuration_without_a_size_says_nothing() -> None:
    assert values(f"{L}{CONFIG}{{'use_layerwise': True}}") == {"l2_layerwise": True}


@pytest.mark.parametrize(
    ("message", "want"),
    [
        ("Adjusted CPU memory size from 64.00 GB to 48.00 GB (system available: 50.00 GB, reserve: 2.00 GB)", 48 * GIB),
        ("Auto align cpu size bytes, origin: 5368709120, aligned: 5368000512, chunk size: 33554432", 5368000512),
    ],
)
def test_what_lmcache_got_is_the_pool(message: str, want: int) -> None:
    assert values(L + message)["l2_bytes"] == want


@pytest.mark.parametrize(
    ("message", "want"),
    [
        ("SimpleCPUOffloadScheduler: Allocating 4096 CPU blocks (8.00 GB, mode=lazy)", {"l2_blocks": 4096, "l2_bytes": 8 * GIB}),
        ("SimpleCPUOffloadScheduler: Allocating 4096 offload blocks (8.00 GB, mode=eager, backend=cpu)", {"l2_bytes": 8 * GIB}),
        (
            "SimpleCPUOffloadScheduler: Allocating 9 offload blocks (8.00 GB, mode=eager, backend=disk)",
            {"l2_disk_blocks": 9, "l2_disk_bytes": 8 * GIB, "l2_bytes": None, "l2_blocks": None},
        ),
        ("SimpleCPUOffloadWorker [CPU]: 64 tensors, 4096 CPU blocks (8.00 GB)", {"l2_blocks": 4096, "l2_bytes": 8 * GIB}),
        ("SimpleCPUOffloadWorker [DISK]: 64 tensors, 9 disk slots (8.00 GB)", {"l2_disk_blocks": 9, "l2_bytes": None}),
        (
            "SimpleCPUOffloadConnector: role=WORKER, per_rank=8.00 GB, world_size=4, mode=eager, backend=cpu, disk=None",
            {"l2_asked_bytes": 8 * GIB, "l2_ranks": 4, "l2_backend": "cpu", "l2_bytes": None},
        ),
        ("Created mmap file /dev/shm/x.mmap (64.00 GB)", {"l2_bytes": 64_000_000_000}),
        ("Created mmap file /dev/shm/x.mmap (logical 64.00 GB, mapped 65.00 GB)", {"l2_bytes": 64_000_000_000}),
        (
            "Created TieringOffloadingManager with primary tier (lru, 4096 chunks) and 1 secondary tier(s)",
            {"l2_chunks": 4096, "l3_tiers": 1, "l2_blocks": None},
        ),
    ],
)
def test_what_vllm_says_of_its_pools(message: str, want: dict[str, object]) -> None:
    row = values(V + message)
    assert {k: row.get(k) for k in want} == want


@pytest.mark.parametrize(
    ("message", "op", "tier"),
    [
        ("Request r-1: cannot store chunks", "alloc_fail", "host"),
        ("Job 17 block I/O failed: [Errno 28] No space left on device: '/x'", "alloc_fail", "disk"),
        ("batch_put failed: 4/16 keys failed (codes={-200}, batch_bytes=33554432), first_key=k", "store", "storage"),
        ("Remote connection failed in lookup: why", "lookup", "storage"),
        ("Tier #1 (fs) back-pressure activated (stats={})", "store", "storage"),
    ],
)
def test_what_vllm_says_of_a_failure(message: str, op: str, tier: str) -> None:
    row = values(V + message)
    assert (row["op"], row["tier"], row["ok"], row.get("bytes")) == (op, tier, False, None)


def test_the_end_of_back_pressure_is_no_failure() -> None:
    assert parsed(f"{V}Tier #1 (fs) back-pressure cleared (stats={{}})").format.table == "ignored"


def test_a_failed_read_or_write_is_not_called_either() -> None:
    assert values(f"{V}Job 17 block I/O failed: [Errno 5] Input/output error: '/x'") == {"kind": "warning"}


@pytest.mark.parametrize(("failed", "ok"), [(0, True), (1, False), (10, False)])
def test_a_mooncake_load_failed_if_any_key_did(failed: int, ok: bool) -> None:
    keys = f"batch_keys=16 memory_keys=12 disk_keys=4 unknown_keys=0 success_keys={16 - failed} failed_keys={failed}"
    row = values(f"{V}Mooncake load tier summary: req_id=r-1 {keys} bytes_by_tier={{'memory': 256, 'disk': 64, 'unknown': 0}}")
    assert (row["op"], row["ok"], row["bytes"], row["rid"]) == ("load", ok, 320, "r-1")
    assert values(f"{V}Mooncake load tier summary: {keys} bytes_by_tier={{}}").get("bytes") is None


@pytest.mark.parametrize("text", ["", "{}", "{'a': 1", "{'a': x}", "{'a': -1}", "{'a': 1.5}", "{'a': 1,}", "{'a': 9223372036854775808}"])
def test_a_damaged_sum_is_no_sum(text: str) -> None:
    assert read_sum_of_parts(text) is None
    assert READERS["sum_of_parts"]("{'a': 1, 'b': 2}") == 3


@pytest.mark.parametrize(
    "line",
    [
        f"{V}Sending to 192.0.2.7:15295 failed (ret=-1) after 4.0 (1024 descriptors, 100663296 bytes)",
        f"{V}Request r-1 timed out after 480 seconds without being sent. Freeing its blocks on the producer side.",
        f"{V}pulling kv_caches for ['r-1'] failed: why",
        f"{V}Releasing expired KV blocks for request r-1 which were retrieved by 0 remote worker(s) before lease expired.",
        f"{S}Prefill transfer failed for request rank=0 req.rid='r-1' req.bootstrap_room=4073 with exception why",
        f"{S}Decode transfer failed for request rank=0 rid=r-1 bootstrap_room=4073",
    ],
)
def test_a_transfer_between_servers_is_an_event_not_l2(line: str) -> None:
    assert (parsed(line).format.table, values(line)["kind"]) == ("events", "kv_load_failure")


@pytest.mark.parametrize("completed", ["completed=2048", "completed_local=2304 completed_synced=2048"])
def test_an_l3_prefetch_tells_what_l2_had_from_what_l3_brought(completed: str) -> None:
    row = values(f"{S}HiCache prefetch success req=r-1 {completed} matched=512 loaded=1536 occupied=0")
    assert (row["total_tokens"], row["hit_tokens"], row["tokens"], row["ok"]) == (2048, 512, 1536, True)


@pytest.mark.parametrize(
    ("message", "op", "tier"),
    [
        ("HiCache prefetch dropped req=r-1 completed=2048 matched=0 loaded=0 occupied=0", "prefetch", "storage"),
        ("HiCache prefetch declined req=r-1 reason=unservable_prefix device_prefix=512 hit=1024", "prefetch", "storage"),
        ("HiCache hybrid prefetch discarded req=r-1 reason=pool completed=1024 requested=2048", "prefetch", "storage"),
        ("HiCache hybrid prefetch discarded req=r-1 completed=1024 requested=2048 kv_beliefs_kept_pages=0", "prefetch", "storage"),
        ("Prefetch operation r-1 failed to retrieve page 1f3a.", "prefetch", "storage"),
        ("Write page to storage: 4 pages failed.", "store", "storage"),
        ("write_back: KV subtree dropped without backup due to host memory pressure, root node 8", "alloc_fail", "host"),
    ],
)
def test_what_sglang_says_of_a_failure(message: str, op: str, tier: str) -> None:
    row = values(S + message)
    assert (row["op"], row["tier"], row["ok"]) == (op, tier, False)


def test_a_discarded_prefetch_loaded_nothing() -> None:
    row = values(f"{S}HiCache hybrid prefetch discarded req=r-1 reason=pool completed=1024 requested=2048")
    assert (row.get("tokens"), row["total_tokens"]) == (None, 2048)


def test_a_load_back_is_a_load_from_l2() -> None:
    assert values(f"{S}init_load_back success: loaded 4096 tokens for node 8") == {"tier": "host", "op": "load", "ok": True, "tokens": 4096}


@pytest.mark.parametrize(
    ("message", "want"),
    [
        ("Allocating kv hierarchical KV host pool: 889000 tokens, 1.00 GB host memory.", {"l2_capacity_tokens": 889000}),
        (
            "Allocating full hierarchical KV host pool: 889000 tokens, 1.00 GB host memory, packed MTP KV layers: target_layers=1.",
            {"l2_capacity_tokens": 889000},
        ),
        (
            "Allocating swa hierarchical KV host pool: 1000 tokens, 1.50 GB host memory.",
            {"l2_capacity_tokens": None, "l2_bytes": None, "l2_side_tokens": 1000, "l2_side_bytes": 1_500_000_000},
        ),
        (
            "Allocating 1.36 GB host memory for hierarchical Mamba cache (512 state slots, layout=layer_first).",
            {"l2_bytes": None, "l2_mamba_bytes": 1_360_000_000, "l2_mamba_slots": 512},
        ),
        ("Allocating 1.36 GB host memory for DSA indexer (layout=page_first).", {"l2_bytes": None, "l2_indexer_bytes": 1_360_000_000}),
        ("Allocating 1.36 GB host memory for compressed KV pool.", {"l2_bytes": None, "l2_side_bytes": 1_360_000_000}),
        ("HiCache host KV pool (4000 tokens) is smaller than the device pool (5000 tokens);why", {"l2_capacity_tokens": 4000}),
        ("HiCache swa host pool (4000 tokens) is smaller than the device pool (5000 tokens);why", {"l2_capacity_tokens": None}),
    ],
)
def test_only_the_main_host_pool_is_the_capacity_of_l2(message: str, want: dict[str, object]) -> None:
    row = values(S + message)
    assert {k: row.get(k) for k in want} == want


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "line",
    [
        f"{L}{CONFIG}{{'max_local_cpu_size': 5.0, 'local_disk': '/{SECRET}', 'remote_url': 'redis://u:{SECRET}@h', 'api_key': '{SECRET}'}}",
        f"{L}LMCache initialized for role R.W with version 0.5.6, vllm version 0.33.0, lmcache cache_engine metadata: M(model='{SECRET}')",
        f"{L}Connected to remote storage at redis://u:{SECRET}@h:6379, remote_mla_worker_id_as_0 mode: False",
        f"{L}Connected to remote storage at {SECRET}@h",
        f"{L}Connection initialized/re-established at redis://u:{SECRET}@h:6379",
        f"{L}Failed to initialize/re-establish remote connection: redis://u:{SECRET}@h",
        f"{L}Remote connection failed in contains: {SECRET}",
        f"{L}Insufficient evictable disk cache space for {SECRET}: need 8 bytes, have 4 bytes.",
        f"{V}Created mmap file /dev/shm/{SECRET}.mmap (64.00 GB)",
        f"{V}Job 17 block I/O failed: [Errno 28] No space left on device: '/{SECRET}'",
        f"{V}Job 17 block I/O failed: [Errno 5] Input/output error: '/{SECRET}'",
        f"{V}batch_put failed: 4/16 keys failed (codes={{-200}}, batch_bytes=1), first_key={SECRET}",
        f"{V}Sending to {SECRET}:15295 failed (ret=-1) after 4.0 (1 descriptors, 1 bytes)",
        f"{V}pulling kv_caches for ['r-1'] failed: {SECRET}",
        f"{V}SimpleCPUOffloadConnector: role=WORKER, per_rank=8.00 GB, world_size=1, mode=eager, backend=disk, disk=/{SECRET}",
        f"{S}Prefill transfer failed for request rank=0 req.rid='r-1' req.bootstrap_room=4073 with exception {SECRET}",
        f"{S}Prefetch operation r-1 failed to retrieve page {SECRET}.",
        f"{S}Attached HiCache storage backend: {SECRET}",
    ],
)
def test_addresses_paths_keys_and_errors_are_not_kept(line: str) -> None:
    assert SECRET in line
    assert SECRET not in told(line)
