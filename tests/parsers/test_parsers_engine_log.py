"""Start-up lines become typed facts, request lines become requests, and odd values break nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_reading import SGLANG_DECODE, VLLM_STATS, read

from analyzer.parsers.requests_text import RequestLines, meta_values

S = "[2026-01-02 03:04:05] "
V = "(APIServer pid=77) INFO 01-02 03:04:05 [x.py:47] "
T = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_server_arguments_are_typed_facts() -> None:
    got = read(
        f"{S}server_args=ServerArgs(model_path='m/x', tp_size=8, mem_fraction_static=0.88, disable_radix_cache=False, "
        "schedule_policy='fcfs', max_running_requests=None, port=30007, host='10.0.0.9', served_model_name=['a', 'b'], "
        "weird=<object at 0x1>)\n"
    )
    facts = {r["key"]: (r["type"], r.get("value"), r.get("number")) for r in got.rows["facts"]}
    assert facts == {
        "arg.model_path": ("str", "m/x", None),
        "arg.tp_size": ("int", "8", 8.0),
        "arg.mem_fraction_static": ("float", "0.88", 0.88),
        "arg.disable_radix_cache": ("bool", "false", 0.0),
        "arg.schedule_policy": ("str", "fcfs", None),
        "arg.max_running_requests": ("null", None, None),
        "arg.port": ("int", "30007", 30007.0),
        "arg.host": ("str", "10.0.0.9", None),
        "arg.served_model_name": ("list", "a,b", None),
    }
    assert got.log.streams[""].addresses == [("10.0.0.9", 30007)]


def test_capacity_with_its_units() -> None:
    got = read(
        "[2026-01-02 03:04:05 DP2 TP0] max_total_num_tokens=444500, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=2048, context_len=131072, available_gpu_mem=6.43 GB\n"
    )
    facts = {r["key"]: (r["number"], r["unit"], r["dp"]) for r in got.rows["facts"]}
    assert facts["kv_capacity_tokens"] == (444500.0, "tokens", 2)
    assert facts["mem_left_bytes"] == (float(round(6.43 * 2**30)), "bytes", 2)
    assert {r["read_from"] for r in got.rows["facts"]} == {"sglang.capacity"}


def test_the_version_that_a_line_states() -> None:
    got = read(f"{V}Initializing a V1 LLM engine (v0.33.0) with config: model='m', ...\n{VLLM_STATS}\n")
    assert got.log.versions.bounds() == ("0.33.0", "0.33.0", "stated")
    assert got.facts["engine_version"] == "0.33.0"


@pytest.mark.parametrize("port", ["True", "inf", "1e400", "None", "'x'", "99999999", "-1", "9" * 400, "[1]"])
def test_odd_ports(port: str) -> None:
    read(f"{S}server_args=ServerArgs(host='h', port={port}, tp_size={port})\n")


@pytest.mark.parametrize(
    "message",
    [
        "Decode batch, #running-req: 99999999999999999999999, #token: 9223372036854775808, token usage: 1e999, #queue-req: 1",
        "Decode batch, #running-req: 1, #queue-req: 1, new \udcff key: 5, other: \udcff",
        "ReqTimeStats(rid=a, input_len=5, output_len=1, type=unified): queue_duration=1.2.3ms, forward_duration=4.4.4ms, entry_time=1.2.3",
        "ReqTimeStats(rid=a, input_len=5, output_len=1, type=unified): queue_duration=1.2ms, entry_time=99999999999999999",
        "Subprocess x (pid=99999999999999999999999) crashed with exit code -9. Bye",
        "Load weight end. type=é, dtype=x, avail mem=99999999999999999999999999.10 GB",
        "HiCache prefetch success req=a completed=99999999999999999999 matched=0 loaded=0 occupied=0",
        'Finish: obj=GenerateReqInput(rid=\'a\'), out={"meta_info": {"id": "\\ud800", "prompt_tokens": 1e999, "e2e_latency": -5}}',
        "Finish: obj=GenerateReqInput(rid='a'), out={'meta_info': {'id': 5, 'prompt_tokens': " + "9" * 5000 + ", 'queue_time': 1e308}}",
        "Finish: obj=GenerateReqInput(rid='a'), out={'meta_info': {'request_received_ts': 1e300, 'finish_reason': None}}",
        "Finish: obj=GenerateReqInput(rid='a'), out={" + "[" * 5000 + "}",
        '{"event": "request.finished", "out": ' + "[" * 100_000 + "}",
        '{"event": "request.finished", "rid": 5, "out": {"meta_info": {"prompt_tokens": true, "num_retractions": 1e5}}}',
    ],
)
def test_values_that_no_column_holds(message: str) -> None:
    read(f"[2026-01-02 03:04:05 TP40000] {message}\n")


def test_bad_bytes_in_names_are_kept_as_escapes() -> None:
    got = read(f'{{"MESSAGE": "{SGLANG_DECODE}", "_HOSTNAME": "h\\ud800"}}\n')
    assert got.only("scheduler")["stream"] == "h\\ud800"
    got = read(f"{S}server_args=ServerArgs(model_path='/m/\udcff')\n")
    assert got.facts["arg.model_path"] == "/m/\\udcff"


def test_a_request_from_its_lines() -> None:
    got = read(
        f"{V}Received request cmpl-1: params: SamplingParams(n=1)\n"
        "(APIServer pid=77) INFO 01-02 03:04:07 [x.py:1] Aborted request(s) cmpl-1,cmpl-2.\n"
        f"{VLLM_STATS}\n"
    )
    one, two = sorted(got.rows["requests"], key=lambda r: r["rid"])
    assert (one["rid"], one["status"], one["arrival_ts"], one["e2e_s"]) == ("cmpl-1", "aborted", T, 2.0)
    assert (two["rid"], two["status"], two.get("arrival_ts")) == ("cmpl-2", "aborted", None)


def test_requests_still_open_at_the_end() -> None:
    received = f"{S}Receive: obj=GenerateReqInput(rid='{{}}', stream=False)\n"
    finished = f"{S}Finish: obj=GenerateReqInput(rid='a'), out={{'meta_info': {{'id': 'a', 'finish_reason': {{'type': 'stop'}}}}}}\n"
    both = read(SGLANG_DECODE + "\n" + received.format("a") + received.format("b") + finished)
    assert {r["rid"]: r["status"] for r in both.rows["requests"]} == {"a": "finished", "b": "unfinished"}
    silent = read(SGLANG_DECODE + "\n" + received.format("b"))
    assert silent.only("requests").get("status") is None, "an engine that never logs the end does not tell"


def test_what_meta_info_tells() -> None:
    got = meta_values(
        "{'meta_info': {'id': 'r-1', 'finish_reason': {'type': 'abort'}, 'prompt_tokens': 10, 'completion_tokens': 3, 'cached_tokens': 4, "
        "'cached_tokens_details': {'device': 3, 'host': 1}, 'num_retractions': 2, 'queue_time': 0.5, 'request_received_ts': 1767323045.0}}"
    )
    assert got == {
        "rid": "r-1", "status": "aborted", "prompt_tokens": 10, "output_tokens": 3, "cached_tokens": 4, "cached_device_tokens": 3,
        "cached_host_tokens": 1, "retractions": 2, "queue_s": 0.5, "arrival_ts": T,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "5", "{}", "[]", "{'meta_info': 5}", "{'out': 5}", "{'event': 5}", "{'meta_info': {'id': 'two words'}}"]
)
def test_what_tells_nothing(text: str) -> None:
    assert "rid" not in meta_values(text)
    assert RequestLines().rest() == []


def test_an_oom_over_three_lines_is_one_event() -> None:
    got = read(
        "[2026-01-02 03:04:05 TP0] Prefill out of memory. Try to lower your batch size.\nTry to allocate 8192 tokens.\n"
        "Available tokens: 4096 (available_size=1024 + evictable_size=3072)\n" + SGLANG_DECODE + "\n"
    )
    event = got.only("events")
    assert (event["kind"], event["tokens"], event["total"]) == ("oom", 8192, 4096)


def test_logs_of_no_engine_are_other() -> None:
    got = read("[2026-01-02 03:04:05] hello\n[2026-01-02 03:04:06] world\n")
    assert (got.log.counts.other, got.log.counts.unmatched, got.log.engines) == (2, 0, set())


LINES = st.sampled_from(
    [SGLANG_DECODE, VLLM_STATS, f"{S}server_args=ServerArgs(a=1)", f"{S}Receive: obj=GenerateReqInput(rid='a', x=1)", ""]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(LINES, st.integers(0, 240), st.integers(0, 240), st.text(max_size=12)), max_size=8))
def test_damaged_lines_raise_nothing_and_are_counted(edits: list[tuple[str, int, int, str]]) -> None:
    """The middle of each line is eaten or replaced by any text."""
    read("\n".join(line[:a] + text + line[a + b :] for line, a, b, text in edits) + "\n")


@settings(max_examples=100, deadline=None)
@given(st.integers(20, 140), st.integers(1, 100))
def test_an_eaten_middle_invents_no_column(start: int, length: int) -> None:
    whole = read(SGLANG_DECODE + "\n").only("scheduler")
    for row in read(SGLANG_DECODE[:start] + SGLANG_DECODE[start + length :] + "\n").rows["scheduler"]:
        assert set(row) - {"extra"} <= set(whole)


TIMES = "[2026-01-02 03:04:{second:02} TP{rank}] ReqTimeStats(rid={rid}, input_len=512, cached_input_len=0, output_len=8, type=unified): "
TIMES += "queue_duration=1.20ms, forward_duration=840.11ms, entry_time=1767323043.12{rank}\n"


@pytest.mark.parametrize(
    ("printed", "requests"),
    [
        ([(5, 0, "a"), (5, 1, "a"), (6, 2, "a"), (7, 3, "a")], ["a"]),
        ([(5, 0, "a"), (5, 0, "a")], ["a", "a"]),
        ([(5, 0, "a"), (8, 1, "a")], ["a", "a"]),
        ([(5, 0, "a"), (5, 0, "b"), (5, 1, "a"), (5, 1, "b")], ["a", "b"]),
    ],
    ids=["by all ranks", "twice by one rank", "seconds later", "two requests"],
)
def test_a_request_that_several_ranks_print_is_one(printed: list[tuple[int, int, str]], requests: list[str]) -> None:
    got = read("".join(TIMES.format(second=second, rank=rank, rid=rid) for second, rank, rid in printed))
    assert [row["rid"] for row in got.rows["requests"]] == requests


def test_a_finished_request_whose_prompt_comes_before_its_id() -> None:
    """Up to 0.5.2 the id was a field in the middle: it is read from the answer, where no prompt can write one."""
    got = read(
        f"{SGLANG_DECODE}\n{S}Finish: obj=GenerateReqInput(text='say rid=\\'x\\'', rid='6f1c2a', stream=False), "
        "out={'text': 'yes', 'meta_info': {'id': '6f1c2a', 'finish_reason': {'type': 'stop'}, 'prompt_tokens': 5, 'e2e_latency': 1.5}}\n"
        f"{S}Finish: obj=GenerateReqInput(text='cut in the mid\n"
    )
    row = got.only("requests")
    assert (row["rid"], row["status"], row["prompt_tokens"], row["e2e_s"]) == ("6f1c2a", "finished", 5, 1.5)
    assert got.log.counts.unmatched == 0
