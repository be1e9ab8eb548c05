"""Every line of the reference inventories is read by exactly one format, into the right fields."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analyzer.formats.load import claimants, registry
from analyzer.formats.match import Match, match_line
from analyzer.formats.versions import VersionRange, version_key
from analyzer.sources.wrappers import unwrap

DATA = Path(__file__).parent.parent / "data"


def reference_lines() -> list[tuple[str, str, str, str]]:
    """(engine, versions, kind, line) of both inventories, escapes decoded."""
    rows = []
    for engine in ("sglang", "vllm"):
        for row in (DATA / f"{engine}_lines.tsv").read_text(encoding="utf-8").splitlines():
            versions, kind, line = row.split("\t", 2)
            rows.append((engine, versions, kind, line.replace("\\x1b", "\x1b").replace("\\n", "\n")))
    return rows


ALL = reference_lines()
LINES = [r for r in ALL if r[2] != "prom"]


def name(row: tuple[str, str, str, str]) -> str:
    return f"{row[0]}-{row[2]}-{row[1]}"


def take(line: str) -> Match:
    return match_line(unwrap(line).text)


def fields(line: str) -> dict[str, object]:
    parsed = take(line).parsed
    assert parsed is not None, line
    return parsed.values | {f"extra.{k}": v for k, v in parsed.extra.items()}


def test_the_inventories_are_whole() -> None:
    assert len(LINES) > 230
    assert {r[0] for r in LINES} == {"sglang", "vllm"}


@pytest.mark.parametrize("row", LINES, ids=map(name, LINES))
def test_one_format_claims_the_line(row: tuple[str, str, str, str]) -> None:
    match = take(row[3])
    assert match.parsed is not None
    assert match.parsed.complete
    assert not match.parsed.damaged
    fmt = match.parsed.format
    message = match.message if fmt.pairs else match.message.rstrip()
    assert [f.id for f in claimants(registry(), match.head.engine, message)] == [fmt.id]


@pytest.mark.parametrize("row", LINES, ids=map(name, LINES))
def test_the_line_is_a_sample_with_its_fields(row: tuple[str, str, str, str]) -> None:
    """What the line must hold stands in the format data; that it does hold it is tested there."""
    wanted = unwrap(row[3]).text
    assert any(unwrap(s.line).text == wanted for f in registry().formats for s in f.samples)


@pytest.mark.parametrize("row", [r for r in ALL if r[2] == "prom"], ids=map(name, [r for r in ALL if r[2] == "prom"]))
def test_metric_lines_are_no_log_lines(row: tuple[str, str, str, str]) -> None:
    assert take(row[3]).parsed is None
    assert not take(row[3]).of_engine


# Column of each key, written down a second time, independent of the format data.
KEYS = {
    "running": r"#running-req: (\d+)",
    "waiting": r"#queue-req: (\d+)",
    "kv_usage": r"(?:, |\. )(?:full |gpu )?token usage: ([\d.]+)",
    "swa_usage": r"swa token usage: ([\d.]+)",
    "mamba_usage": r"mamba usage: ([\d.]+)",
    "host_kv_usage": r"cpu token usage: ([\d.]+)",
    "kv_used_tokens": r"#(?:full |gpu )?token: (\d+)",
    "swa_used_tokens": r"#swa token: (\d+)",
    "new_seqs": r"#new-seq: (\d+)",
    "new_tokens": r"#new-token: (\d+)",
    "cached_tokens": r"#cached-token: (\d+)",
    "pending_tokens": r"#pending-token: (\d+)",
    "prompt_tps": r"input throughput \(token/s\): ([\d.]+)",
    "gen_tps": r"gen throughput \(token/s\): ([\d.]+)",
    "preallocated_usage": r"pre-allocated usage: ([\d.]+)",
    "transfer_reqs": r"#transfer-req: (\d+)",
    "retracted_reqs": r"#retracted-req: (\d+)",
    "inflight_reqs": r"#(?:inflight|transferring)-req: (\d+)",
}
SGLANG_BATCHES = [r for r in LINES if r[0] == "sglang" and r[2].startswith(("prefill", "decode")) and "oom" not in r[2]]


@pytest.mark.parametrize("row", SGLANG_BATCHES, ids=map(name, SGLANG_BATCHES))
def test_batch_lines_give_exactly_the_columns_they_print(row: tuple[str, str, str, str]) -> None:
    line = row[3]
    want: dict[str, object] = {"kind": row[2].split("_")[0]}
    for column, pattern in KEYS.items():
        found = re.search(pattern, line)
        if found:
            want[column] = float(found[1]) if "." in found[1] else int(found[1])
    bootstrap = re.search(r"#(?:unbootstrapped|bootstrap|prealloc)-req: (\d+)", line)
    if bootstrap:
        want["bootstrap_reqs" if want["kind"] == "prefill" else "prealloc_reqs"] = int(bootstrap[1])
    if "_pd_" in row[2]:
        want["role"] = want["kind"]
    hit = re.search(r"cache hit rate: ([\d.]+)%", line)
    if hit:
        want["prefix_hit_share"] = pytest.approx(float(hit[1]) / 100)
    assert {k: v for k, v in fields(line).items() if not k.startswith("extra.")} == want


V1 = {"kind": "stats", "prompt_tps": 812.4, "gen_tps": 153.0, "running": 24, "waiting": 7, "kv_usage": 0.968}
FEW = [
    ("stats", r"Swapped", {**V1, "swapped": 0, "host_kv_usage": 0.0}),
    ("stats", r"KV fetch", {"kv_fetch_waiting": 1, "kv_fetch_loading": 2, "kv_fetch_done": 0, "deferred": 2, "mm_hit_share": 0.5}),
    ("stats", r"External", {**V1, "external_hit_share": 0.189, "prefix_hit_share": 0.413, "dp": 0}),
    ("stats", r"CPU KV cache usage: 6", {"kv_usage": 0.068, "running": 1}),
    ("stats_agg", r"4 Engines", {"engines": 4, "running": 96, "waiting": 28, "extra.kv_usage_basis": "mean_of_engines"}),
    ("spec", r"SpecDecoding", {"kind": "companion", "extra.accepted_tps": "120.4", "extra.drafted_tps": "199.8"}),
    ("preempt", r"preemption=101$", {"kind": "preemption", "total": 101, "rid": "cmpl-9f31-0"}),
    ("retract", r"gained: 6144", {"kind": "retraction", "requests": 3, "tokens": 6144, "ratio_before": 0.1824, "ratio_after": 0.431}),
    ("retract", r"Decode out of memory happened", {"kind": "retraction", "requests": 3}),
    ("decode_oom (multi-line)", r"Decode out of memory\. Try", {"kind": "oom", "tokens": 64, "total": 12}),
    ("capacity", r"max_total", {"kv_capacity_tokens": 444500, "max_prefill_tokens": 16384, "context_len": 131072}),
    ("capacity", r"446,736 tokens, Max", {"kv_capacity_tokens": 446736, "max_concurrency_len_tokens": 8192, "max_concurrency": 54.53}),
    ("capacity", r"# GPU blocks", {"num_gpu_blocks": 27921, "num_cpu_blocks": 2048, "device": "GPU"}),
    ("hicache_alloc", r"889000", {"l2_capacity_tokens": 889000, "l2_bytes": 108_520_000_000}),
    ("l2_lookup", r"need to load: 1024", {"total_tokens": 4096, "hit_tokens": 2048, "tokens": 1024}),
    ("l2_store", r"offload_time", {"tokens": 2048, "bytes": 2**28, "duration_s": 0.0123456}),
    ("iteration", r"Engine 000", {"step_s": 0.04122, "ctx_reqs": 2, "ctx_tokens": 4096, "gen_reqs": 24, "kv_usage": 0.968}),
    ("req_time_stats", r"entry_time", {"clock": "wall", "queue_s": 0.0012, "prompt_tokens": 512, "output_tokens": 128}),
    ("req_time_stats", r"start_time", {"clock": "monotonic", "arrival_rel_s": 12345.678}),
]


@pytest.mark.parametrize(("kind", "pattern", "want"), FEW, ids=[f"{k}-{p}" for k, p, _ in FEW])
def test_other_lines_hold_what_they_print(kind: str, pattern: str, want: dict[str, object]) -> None:
    lines = [r[3] for r in LINES if r[2] == kind and re.search(pattern, r[3])]
    assert lines
    for line in lines:
        got = fields(line)
        assert {k: got.get(k) for k in want} == want


def test_a_field_that_no_release_prints_is_known_as_such() -> None:
    (line,) = [r[3] for r in LINES if "DEADCODE" in r[2]]
    assert fields(line)["extra.preemptions_dead_field"] == "3"


def bounds(versions: str) -> tuple[str, str]:
    text = versions.split(" ")[0].replace("?", "").replace(".x", "")
    first, _, last = text.partition("-")
    return first, last or first


VERSIONED = [r for r in LINES if re.match(r"\d", r[1])]


@pytest.mark.parametrize("row", VERSIONED, ids=map(name, VERSIONED))
def test_the_true_versions_lie_in_the_inferred_range(row: tuple[str, str, str, str]) -> None:
    match = take(row[3])
    assert match.parsed is not None
    known = VersionRange()
    for feature in match.parsed.format.features:
        if feature.when.search(match.message):
            known.narrow(feature.since, feature.until)
    since, until, _ = known.bounds()
    assert not known.conflict
    for version in bounds(row[1]):
        if (row[2], version) == ("decode_cpu", "0.5.3"):
            continue  # the label is that old; the line as a whole, without its last comma, is one of 0.5.9
        # a bound such as 0.4.1 means every 0.4.1.postN
        assert since is None or version_key(since) <= version_key(version)
        assert until is None or version_key(version)[: len(version_key(until))] <= version_key(until)
