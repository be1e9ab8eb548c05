"""What stands before a message: engines' own prefixes, users' logging formats, and ranks."""

from __future__ import annotations

import pytest

from analyzer.formats.match import match_line
from analyzer.formats.prefix import split_head, starts, strip_ansi

DECODE = "Decode batch, #running-req: 24, #token: 81234, token usage: 0.62, gen throughput (token/s): 1534.21, #queue-req: 3"
STATS = (
    "Engine 000: Avg prompt throughput: 812.4 tokens/s, Avg generation throughput: 153.0 tokens/s, Running: 24 reqs, "
    "Waiting: 3 reqs, GPU KV cache usage: 62.0%"
)
USERS = [
    "2024-12-09 11:05:00 - vllm.engine.metrics - INFO - ",
    "2024-12-09 11:05:00,123 - INFO - ",
    "2024-12-09T11:05:00.123Z - engine - WARNING - ",
    "2024-12-09 11:05:00.123 | INFO     | engine.metrics:log:455 - ",
    "2024-12-09 11:05:00,123 INFO engine.metrics: ",
    "2024-12-09 11:05:00 INFO ",
    "2024-12-09 11:05:00 [INFO] ",
    "[2024-12-09 11:05:00] INFO: ",
    "[2024-12-09 11:05:00] ",
    "INFO 2024-12-09 11:05:00,123 engine.metrics: ",
    "[INFO] 2024-12-09 11:05:00 ",
    "INFO:     ",
    "INFO:vllm.engine:",
    "INFO:sglang.srt:",
    "",
]


@pytest.mark.parametrize("prefix", USERS)
@pytest.mark.parametrize("message", [DECODE, STATS], ids=["sglang", "vllm"])
def test_lines_in_other_loggers_formats(prefix: str, message: str) -> None:
    match = match_line(prefix + message)
    assert match.parsed is not None
    assert (match.parsed.values["running"], match.parsed.values["waiting"], match.parsed.values["kv_usage"]) == (24, 3, 0.62)
    assert match.head.stamp[:10] == ("2024-12-09" if "2024" in prefix else "")


@pytest.mark.parametrize("prefix", [p for p in USERS if " - " in p or p.endswith(": ")][:6])
def test_an_engines_own_prefix_may_stand_behind_a_users(prefix: str) -> None:
    match = match_line(f"{prefix}[2024-12-09 11:05:00 DP1 TP0] {DECODE}")
    assert match.parsed is not None
    assert match.head.engine == "sglang"
    assert match.head.ranks == {"dp": 1, "tp": 0}


@pytest.mark.parametrize(
    ("line", "ranks", "pid"),
    [
        ("[2026-01-02 03:04:05 DP0 TP3 PP1] x", {"dp": 0, "tp": 3, "pp": 1}, None),
        ("[2026-01-02 03:04:05 DP0 PP1 ATTN_CP0 MOE_DP5 TP3 EP2] x", {"dp": 0, "pp": 1, "tp": 3, "ep": 2}, None),
        ("2026-01-02 03:04:05 TP0] x", {"tp": 0}, None),
        ("[2026-01-02 03:04:05 TP99999999999] x", {}, None),
        ("(EngineCore_DP2 pid=123) INFO 11-20 10:20:30 [v1/core.py:118] x", {"dp": 2}, 123),
        ("(EngineCore_3 pid=123) INFO 11-20 10:20:30 [v1/core.py:118] x", {"dp": 3}, 123),
        ("(Worker_DP1_TP4_EP4 pid=9) INFO 11-20 10:20:30 [x.py:1] x", {"dp": 1, "tp": 4, "ep": 4}, 9),
        ("(VllmWorker rank=1 pid=9) INFO 11-20 10:20:30 [x.py:1] x", {}, 9),
        ("(EngineCore_DP2 pid=123) Traceback (most recent call last):", {"dp": 2}, 123),
        ("(APIServer pid=99999999999999999999999) INFO 11-20 10:20:30 [x.py:1] x", {}, None),
        ("(RayWorkerWrapper pid=9, ip=10.0.0.1) INFO 11-20 10:20:30 [x.py:1] x", {}, 9),
    ],
)
def test_ranks_and_process(line: str, ranks: dict[str, int], pid: int | None) -> None:
    head, message = split_head(line)
    assert (head.ranks, head.pid) == (ranks, pid)
    assert message.startswith(("x", "Traceback"))


@pytest.mark.parametrize("line", ["", "hello", "   at x.y(z)", "vllm:foo 1", "2026-01-02 hello", "[info] x", "(a b) c", "INFO: x"])
def test_other_lines_have_no_prefix(line: str) -> None:
    assert split_head(line) == (split_head("")[0], line)


def test_a_bracketed_time_alone_is_not_surely_an_engines() -> None:
    assert match_line("[2026-01-02 03:04:05] hello").of_engine
    assert not match_line("[2026-01-02 03:04:05] hello").surely_of_engine
    assert match_line("[2026-01-02 03:04:05 TP0] hello").surely_of_engine


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[1;36m(A pid=1)\x1b[0;0m INFO", "(A pid=1) INFO"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07x\x1b[K", "x"),
        ("no colour", "no colour"),
        ("\x1b]" * 50_000, "\x1b]" * 50_000),
    ],
)
def test_terminal_codes_are_taken_off(text: str, plain: str) -> None:
    got = strip_ansi(text)
    assert got == plain or text.startswith("\x1b]\x1b]")


def test_records_inside_a_line() -> None:
    line = "100%[2026-01-02 03:04:05 TP0] a(EngineCore pid=1) INFO 11-20 10:20:30 [x.py:1] b"
    assert [line[o : o + 11] for o in starts(line)] == ["[2026-01-02", "(EngineCore"]
    assert starts("2026-01-02 03:04:05 TP0] in the middle: no bracket")[1:] == []
