"""What captures do to a log must not change what is read from it: wrapping, cutting, mixing, other clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from log_reading import SGLANG_DECODE, VLLM_STATS, read

SGLANG = [
    "[2026-01-02 03:04:01] server_args=ServerArgs(model_path='m/x', tp_size=2, dp_size=4, schedule_policy='fcfs', port=30007, "
    "host='10.0.0.9', max_running_requests=1024, chunked_prefill_size=8192, api_key='sk-secret', context_length=131072)",
    "[2026-01-02 03:04:02 DP0 TP0] max_total_num_tokens=444500, chunked_prefill_size=8192, max_prefill_tokens=16384, "
    "max_running_requests=2048, context_len=131072, available_gpu_mem=6.43 GB",
    "[2026-01-02 03:04:03] The server is fired up and ready to roll!",
    'INFO:     127.0.0.1:5555 - "POST /generate HTTP/1.1" 200 OK',
    "[2026-01-02 03:04:05 DP0 TP0] Prefill batch, #new-seq: 2, #new-token: 4096, #cached-token: 512, token usage: 0.35, "
    "#running-req: 12, #queue-req: 7, #pending-token: 30000, cuda graph: False, input throughput (token/s): 51200.00",
    SGLANG_DECODE,
    "[2026-01-02 03:04:06 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 31, #new_tokens_gained: 6144, "
    "#new_token_ratio: 0.1824 -> 0.4310",
    "[2026-01-02 03:04:06 TP1] KV cache pool is full. Retract requests. #retracted_reqs: 31, #new_tokens_gained: 6144, "
    "#new_token_ratio: 0.1824 -> 0.4310",
    "[2026-01-02 03:04:07] Finish: obj=GenerateReqInput(rid='6f1c2a', text='Once upon a time [2026-01-02 03:04:06 TP0] Decode batch, "
    "#running-req: 9, #queue-req: 9 there was', stream=False), out={'meta_info': {'id': '6f1c2a', 'finish_reason': {'type': 'stop', "
    "'matched': 2}, 'prompt_tokens': 512, 'completion_tokens': 128, 'cached_tokens': 0, 'e2e_latency': 1.234}}",
    "[2026-01-02 03:04:08 TP0] ReqTimeStats(rid=6f1c2a, input_len=512, cached_input_len=0, output_len=128, attempts=1, type=unified): "
    "queue_duration=1.20ms, forward_duration=840.11ms, entry_time=1767323045.123",
    "[2026-01-02 03:04:09 TP0] Decode batch, #running-req: 4, #full token: 81234, full token usage: 0.62, #swa token: 20480, "
    "swa token usage: 0.40, mamba num: 26, mamba usage: 0.20, accept len: 2.75, accept rate: 0.69, cuda graph: True, "
    "gen throughput (token/s): 1534.21, #queue-req: 3, ",
]
VLLM = [
    VLLM_STATS,
    "(EngineCore_DP0 pid=123) INFO 01-02 03:04:05 [v1/core/kv_cache_utils.py:1147] GPU KV cache size: 446,736 tokens, "
    "Maximum concurrency for 8,192 tokens per request: 54.53x",
    "(APIServer pid=77) INFO 01-02 03:04:06 [startup.py:96] non-default args: {'model': 'm', 'gpu_memory_utilization': 0.9, "
    "'max_num_seqs': 256, 'port': 8113, 'enable_prefix_caching': True}",
    "(EngineCore_DP1 pid=124) INFO 01-02 03:04:07 [loggers.py:211] Engine 001: Iteration(1041): 2 context requests, 4096 context tokens, "
    "24 generation requests, 24 generation tokens, iteration elapsed time: 41.22 ms, GPU KV cache usage: 96.8%",
    "(APIServer pid=77) INFO 01-02 03:04:08 [metrics.py:113] KV Transfer metrics: Num successful transfers=12, Avg xfer time (ms)=8.412, "
    "P90 xfer time (ms)=11.9, Throughput (MB/s)=11412.313, Num KV expired reqs=0",
    "[2026-01-02 03:04:08,123] LMCache INFO: Reqid: cmpl-9f31-0, Total tokens 4096, Inference Engine computed tokens: 1024, "
    "LMCache hit tokens: 2048, need to load: 1024 (vllm_v1_adapter.py:1476:lmcache)",
    VLLM_STATS,
]
LOGS = {
    "sglang": SGLANG,
    "vllm": VLLM,
    "mixed": VLLM + SGLANG,
    "docker": [f"2026-01-02T03:04:0{i % 10}.123456789Z {line}" for i, line in enumerate(SGLANG)],
}


def joined(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


def wrapped(lines: list[str], width: int, *, trimmed: bool) -> str:
    """As a terminal of this width shows it, copied with or without the blanks at the ends of lines."""
    pieces = [line[at : at + width] for line in lines for at in range(0, len(line), width)]
    return joined([p.rstrip() if trimmed and len(p) == width else p for p in pieces])


@pytest.mark.parametrize("trimmed", [False, True], ids=["as it is", "trimmed"])
@pytest.mark.parametrize("log", LOGS)
def test_wrapped_by_a_terminal_of_any_width(log: str, trimmed: bool) -> None:
    want = read(joined(LOGS[log])).without("record")
    # each width meets the ends of other fields; every third meets them all over the logs
    for width in range(40, 201, 3):
        got = read(wrapped(LOGS[log], width, trimmed=trimmed)).without("record")
        assert got == want, f"width {width}"


# Of each engine the start, a report, and what is unlike it; the others are cut as these are.
EVERY_DAY = ("sglang1", "sglang5", "sglang8", "sglang9", "vllm0", "vllm2", "vllm5")
LINES = {f"{engine}{n}": line for engine, lines in (("sglang", SGLANG), ("vllm", VLLM)) for n, line in enumerate(lines)}


@pytest.mark.parametrize("line", [pytest.param(s, id=n, marks=[] if n in EVERY_DAY else pytest.mark.thorough) for n, s in LINES.items()])
def test_cut_at_every_byte(line: str) -> None:
    """A column of a cut last line holds what the whole line's holds, or nothing."""
    before = joined([SGLANG_DECODE, VLLM_STATS])
    whole = read(before + line + "\n").without("record")
    for end in range(len(line)):
        cut = read(before + line[:end]).without("record")
        for table, rows in cut.items():
            for row in rows:
                assert any(_part_of(row, wanted) for wanted in whole[table]), (end, row)


def _part_of(row: dict, whole: dict) -> bool:
    for key, value in row.items():
        if key == "extra":
            if any((whole.get("extra") or {}).get(k) != v for k, v in value.items()):
                return False
        elif key == "text":
            continue  # a sentence made of the numbers, `?` where one is missing
        elif whole.get(key) != value:
            return False
    return True


def test_a_cut_last_line_is_said() -> None:
    assert "the last line is cut off and was left out" in read(SGLANG_DECODE + "\n" + SGLANG_DECODE[:70]).log.notes
    assert read(SGLANG_DECODE).only("scheduler").get("waiting") is None
    assert read(SGLANG_DECODE).only("scheduler")["gen_tps"] == 1534.21


def test_the_shape_of_a_cut_line_tells_no_version() -> None:
    old = "[2026-01-02 03:04:05 TP0] Decode batch, #running-req: 24, token usage: 0.62, cuda graph: True, "
    old += "gen throughput (token/s): 1.0, #queue-req: 3, "
    assert read(old + "\n" + old[:-2]).log.versions.bounds() == ("0.5.5", "0.5.7", "inferred")


def test_interleaved_ranks() -> None:
    lines = [
        f"[2026-01-02 03:04:0{second} DP{dp} TP{tp}] Decode batch, #running-req: {dp}, token usage: 0.5, #queue-req: {tp}"
        for second in range(3)
        for tp in range(2)
        for dp in range(4)
    ]
    rows = read(joined(lines)).rows["scheduler"]
    assert len(rows) == 24
    assert all((r["dp"], r["tp"]) == (r["running"], r["waiting"]) for r in rows)


def test_two_engines_in_one_file() -> None:
    got = read(joined([line for pair in zip(SGLANG, VLLM, strict=False) for line in pair]))
    assert got.log.engines == {"sglang", "vllm", "lmcache"}
    assert {r["engine"] for r in got.rows["scheduler"]} == {"sglang", "vllm"}
    assert got.rows["cache_ops"][0]["engine"] == "lmcache"


def test_clocks_eight_hours_apart() -> None:
    start = datetime(2026, 1, 1, 19, 4, 5, tzinfo=UTC)
    lines = []
    for second in range(30):
        outer = start + timedelta(seconds=second)
        inner = outer + timedelta(hours=8)
        lines.append(
            f"{outer:%Y-%m-%dT%H:%M:%S}.5Z [{inner:%Y-%m-%d %H:%M:%S} TP0] Decode batch, #running-req: 1, token usage: 0.5, #queue-req: 0"
        )
    got = read(joined(lines))
    row = got.rows["scheduler"][0]
    assert (row["ts"], row["outer_ts"]) == (start, start + timedelta(seconds=0.5))
    assert (got.log.clock, got.log.utc_offset_s) == ("inner", 28800)
    assert "+08:00" in got.log.notes[0]


def test_a_zone_and_a_year_that_were_given() -> None:
    row = read(VLLM_STATS + "\n", zone=ZoneInfo("Asia/Shanghai"), year=2025).only("scheduler")
    assert row["ts"] == datetime(2025, 1, 1, 19, 4, 5, tzinfo=UTC)


def test_lines_with_the_collectors_time_only() -> None:
    stats = VLLM_STATS.partition("] ")[2]
    got = read(f"2026-01-02T03:04:05Z {stats}\n")
    assert got.only("scheduler")["ts"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert got.log.clock == "outer"
    assert read(stats + "\n").rows["scheduler"] == []
    assert "no time stamp" in read(stats + "\n").log.notes[0]


RECORDED = sorted((Path(__file__).parents[2] / "sample_traces").glob("recorded_*/server.log"))


@pytest.mark.parametrize("path", RECORDED, ids=[p.parent.name for p in RECORDED])
def test_recorded_logs_survive_a_terminal(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    want = read(text)
    assert want.log.counts.unmatched < 0.15 * want.log.counts.lines
    for width in (80, 132):
        got = read(wrapped(text.splitlines(), width, trimmed=False))
        assert got.without("record")["scheduler"] == want.without("record")["scheduler"]
        assert got.facts == want.facts
