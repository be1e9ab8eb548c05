"""Cases that are easily told wrong, each as the few lines an engine would print."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from diagnosing import Servers, answer, causes, diagnosis_of
from hard_cases import decode, prefill, retract, sg, sg_start, stats, v0, v0_preemption, vl, vl_start

from analyzer.diagnosis.model import InstanceDiagnosis

SGLANG = sg_start(-80)
VLLM = vl_start(-80)
STOP = vl(660, "[shutdown] API server: shutdown triggered", file="launcher.py")
AGGREGATED = "4 Engines Aggregated: "
# Most cases are servers of one trace; those that ask it with SQL, or of its end, have one of their own.
SERVERS = Servers()


def busy(start: int, end: int, step: int = 3, running: int = 8, usage: float = 0.3, queue: int = 0, gen: float = 400) -> str:
    return "".join(decode(t, running, usage, queue, gen) for t in range(start, end, step))


def steady(start: int, end: int, running: int = 4, waiting: int = 0, usage: float | None = 0.1) -> str:
    return "".join(stats(t, running, waiting, usage) for t in range(start, end, 10))


# -- silence


IDLE_GAP = SERVERS.add(SGLANG + busy(0, 60) + busy(900, 960))


def test_an_idle_gap_is_no_hang() -> None:
    assert causes(IDLE_GAP()) == ["none"]


STOPPED_IDLE = SERVERS.add(VLLM + steady(0, 60) + stats(60, 0, 0, 0.0, 0, 0) + STOP)


def test_an_idle_server_that_is_stopped_later_did_not_hang() -> None:
    assert causes(STOPPED_IDLE()) == ["none"]


SPARSE = SERVERS.add(
    SGLANG + busy(0, 120) + "".join(prefill(t, 1, 500, 0.01, 0, 0) + decode(t + 3, 1, 0.01, 0, 2) for t in range(200, 1200, 20))
)


def test_sparse_requests_after_a_busy_time_are_no_slow_decode() -> None:
    """Their throughput counts the idle time before them."""
    assert causes(SPARSE()) == ["none"]


AFTER_IDLE = SERVERS.add(SGLANG + busy(0, 60) + prefill(900, 1, 500, 0.1, 0, 0) + decode(903, 8, 0.3, 0, 0.4) + busy(906, 1020))


def test_the_first_decode_line_after_idle_time_is_no_slow_decode() -> None:
    assert causes(AFTER_IDLE()) == ["none"]


SLOWER = SERVERS.add(SGLANG + busy(0, 300) + busy(300, 600, step=6, running=60, usage=0.5))


def test_a_full_batch_that_slows_down_is_slow_decode() -> None:
    assert causes(SLOWER()) == ["decode_bound"]


LONG_PREFILL = {
    s: SERVERS.add(VLLM + steady(0, 60) + stats(60, 1, 0, 0.9, 0, 0) + stats(60 + s, 1, 0, 0.9, 12800, 1) + steady(70 + s, 130 + s))
    for s in (10, 150)
}


@pytest.mark.parametrize("silent_s", LONG_PREFILL)
def test_a_long_prefill_of_vllm_is_no_hang(silent_s: int) -> None:
    """Not one token, then nothing at all, then the whole prompt at once."""
    assert causes(LONG_PREFILL[silent_s]()) == ["none"]


STUCK = {n: SERVERS.add(VLLM + steady(0, 60) + stats(60, 4, n, 0.1, 0, 0) + STOP) for n in (0, 3)}


@pytest.mark.parametrize("waiting", STUCK)
def test_a_stuck_vllm_that_is_stopped_much_later_hung(waiting: int) -> None:
    found = STUCK[waiting]()
    assert found.verdict.cause == "hang"
    assert "crash" not in causes(found)


DIED_LATER = SERVERS.add(
    VLLM
    + steady(0, 60)
    + stats(60, 4, 0, 0.1, 0, 0)
    + vl(660, "EngineCore encountered a fatal error.", file="core.py", process="EngineCore pid=78", level="ERROR")
)


def test_a_stuck_vllm_that_dies_much_later_hung_first() -> None:
    assert causes(DIED_LATER()) == ["hang", "crash"]


WATCHDOG = SERVERS.add(
    SGLANG + busy(0, 60, queue=2) + sg(360, "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", "TP0")
)


def test_a_watchdog_is_a_hang() -> None:
    assert causes(WATCHDOG())[0] == "hang"


# -- ends and beginnings


HANDLER_FAILED = vl(62, "AsyncLLM output_handler failed.", file="async_llm.py", level="ERROR")
PLANNED = SERVERS.add(
    VLLM
    + steady(0, 60)
    + vl(61, "[shutdown] API server: shutdown triggered", file="launcher.py")
    + HANDLER_FAILED
    + vl(62, "Engine core proc EngineCore died unexpectedly, shutting down client.", file="core_client.py", level="ERROR")
)
UNPLANNED = SERVERS.add(VLLM + steady(0, 60) + HANDLER_FAILED)


def test_what_a_planned_shutdown_tears_down_is_no_crash() -> None:
    assert causes(PLANNED()) == ["none"]


def test_the_same_line_without_a_shutdown_is_a_crash() -> None:
    assert causes(UNPLANNED()) == ["crash"]


def crash_loop(engine: str) -> str:
    log = ""
    for k in range(4):
        t = 120 * k
        if engine == "sglang":
            log += sg_start(t) + sg(t + 65, "Scheduler hit an exception: Traceback (most recent call last):")
        else:
            core = f"EngineCore pid={101 + 10 * k}"
            log += vl_start(t, pid=100 + 10 * k) + vl(t + 65, "EngineCore failed to start.", file="core.py", process=core, level="ERROR")
    return log


CRASH_LOOP = {engine: SERVERS.add(crash_loop(engine)) for engine in ("sglang", "vllm")}


@pytest.mark.parametrize("engine", CRASH_LOOP)
def test_a_crash_loop_at_start_up(engine: str) -> None:
    found = CRASH_LOOP[engine]()
    assert found.verdict.cause == "crash"
    assert found.runs == 4
    assert causes(found).count("crash") == 4
    assert "none" not in causes(found)


def test_the_capacity_of_the_second_process_is_not_the_first_ones() -> None:
    later = "".join(decode(t, 8, 0.3, 0, 400, capacity=50_000) for t in range(280, 340, 3))
    sql = "SELECT run_id, max(l1_capacity_tokens) FROM timeline WHERE run_id IS NOT NULL GROUP BY 1 ORDER BY 1"
    rows: dict[str, list[tuple[str, int | None]] | str] = {"both": sql}
    found = diagnosis_of(sg_start(-80, 100_000) + busy(0, 60) + sg_start(200, 50_000) + later, queries=rows)
    assert rows["both"] == [("r1", 100_000), ("r2", 50_000)]
    assert causes(found) == ["restart"]
    rows = {"second": sql}
    diagnosis_of(busy(0, 60) + sg_start(200, 50_000) + later, queries=rows)
    assert rows["second"] == [("r1", None), ("r2", 50_000)]


# -- retractions and preemptions


def full(start: int, end: int, queue: int = 20, tag: str = "") -> str:
    return "".join(decode(t, 20, 0.97, queue, 400, tag=tag) for t in range(start, end, 3))


# tests/sql/test_event.py has the rest
RETRACTIONS = {
    name: SERVERS.add(SGLANG + full(0, 50) + "".join(retract(50, tag=tag) for tag in tags) + full(60, 150))
    for name, tags in (
        ("eight tp ranks", [f"TP{r}" for r in range(8)]),
        ("two dp ranks", [f"DP{d} TP{r}" for d in range(2) for r in range(4)]),
    )
}


@pytest.mark.parametrize(("name", "events"), [("eight tp ranks", 1), ("two dp ranks", 2)])
def test_one_retraction_is_counted_once(name: str, events: int) -> None:
    found = RETRACTIONS[name]()
    assert found.peaks.retraction_events == events
    assert found.verdict.cause == "l1_bound"
    assert found.verdict.confidence in ("high", "medium")


def test_v0_preemptions_of_a_log_that_begins_in_the_middle() -> None:
    def part(a: int, b: int) -> str:
        return "".join(v0(t, 20, 10, 0.98) for t in range(a, b, 5))

    found = diagnosis_of(part(0, 50) + v0_preemption(50, 401) + part(55, 100) + v0_preemption(100, 451) + part(105, 150))
    assert found.peaks.preemptions == 51  # the 401 before the capture are not its own
    assert "at least" in found.peaks.notes["preemptions"]
    assert found.verdict.cause == "l1_bound"


FULL_VLLM = SERVERS.add(VLLM + steady(0, 200, running=20, usage=1.0))
FULL_SGLANG = SERVERS.add(SGLANG + full(0, 150, queue=0))
FULL_RETRACTED = SERVERS.add(SGLANG + full(0, 100, queue=0) + retract(100) + full(101, 150, queue=0))


def test_a_full_pool_without_a_queue_is_an_incident_only_with_retractions() -> None:
    assert causes(FULL_VLLM()) == ["none"]
    assert causes(FULL_SGLANG()) == ["none"]
    found = FULL_RETRACTED()
    assert causes(found) == ["l1_bound"]
    assert answer(found, "retracted") == "yes"
    assert answer(found, "l1_full") == "partly"


# -- what is missing


PLATEAU = {
    "sglang": SERVERS.add("".join(decode(t, 8, 0.03, 30, 400) for t in range(0, 120, 3))),
    "vllm": SERVERS.add("".join(stats(t, 8, 30, 0.03, 300, 900) for t in range(0, 200, 10))),
}


@pytest.mark.parametrize("engine", PLATEAU)
def test_a_plateau_without_a_known_cap_is_no_certain_cap(engine: str) -> None:
    found = PLATEAU[engine]()
    assert (found.verdict.cause, found.verdict.confidence) == ("cap_bound", "low")
    assert answer(found, "queue_on_cap") == "cannot_tell"


EMPTY_POOL = SERVERS.add("".join(stats(t, 8 + t // 10 % 5, 30, 0.03, 300, 900) for t in range(0, 200, 10)))


def test_waiting_at_an_empty_pool_without_a_known_cap() -> None:
    assert causes(EMPTY_POOL()) == ["insufficient_data"]


LONG_PROMPTS = SERVERS.add("".join(stats(t, 8, 30, 0.03, 9000, 300) for t in range(0, 200, 10)))


def test_long_prompts_at_an_unknown_cap_are_not_surely_prefill() -> None:
    assert LONG_PROMPTS().verdict.confidence == "low"


NO_USAGE_LINE = "Decode batch, #running-req: 8, cuda graph: True, gen throughput (token/s): 400.00, #queue-req: 30"
NO_USAGE = {
    "sglang": SERVERS.add("".join(sg(t, NO_USAGE_LINE) for t in range(0, 120, 3))),
    "vllm": SERVERS.add(VLLM + steady(0, 120, running=8, waiting=30, usage=None)),
}


@pytest.mark.parametrize("engine", NO_USAGE)
def test_without_kv_usage_nothing_holds_the_queue_for_sure(engine: str) -> None:
    found = NO_USAGE[engine]()
    assert causes(found) == ["insufficient_data"]
    assert found.peaks.kv_usage is None
    assert answer(found, "l1_full") == "cannot_tell"


QUEUE_OF_ONE = SERVERS.add(SGLANG + busy(0, 60) + prefill(60, 1, 300, 0.3, 8, 1) + busy(61, 120))


def test_a_queue_of_one_for_a_second_is_no_incident() -> None:
    assert causes(QUEUE_OF_ONE()) == ["none"]


def test_a_capture_that_ends_as_the_queue_grows_does_not_say_none() -> None:
    log = VLLM + steady(0, 100) + stats(100, 20, 12, 0.84)
    assert causes(diagnosis_of(log)) == ["insufficient_data"]


VERY_SHORT = {n: SERVERS.add("".join(stats(10 * k, 4, 90, 0.99) for k in range(n))) for n in (1, 2)}


@pytest.mark.parametrize("reports", VERY_SHORT)
def test_a_very_short_capture_proves_nothing(reports: int) -> None:
    assert causes(VERY_SHORT[reports]()) == ["insufficient_data"]


def test_stats_that_are_switched_off() -> None:
    text = "AsyncLLM created with api_server_count more than 1; disabling stats logging to avoid incomplete stats."
    found = diagnosis_of(VLLM + vl(-75, text, file="async_llm.py", level="WARNING"))
    assert causes(found) == ["insufficient_data"]
    assert "switched off" in found.verdict.sentence


# -- other shapes


def two_pools(whole: float, window: float) -> str:
    line = (
        f"Decode batch, #running-req: 20, #full token: {round(whole * 1e5)}, full token usage: {whole:.2f}, #swa token: 5000, "
        f"swa token usage: {window:.2f}, cuda graph: True, gen throughput (token/s): 400.00, #queue-req: 20"
    )
    return SGLANG + "".join(sg(t, line) for t in range(0, 120, 3))


TWO_POOLS = {sizes: SERVERS.add(two_pools(*sizes)) for sizes in ((1.0, 0.06), (0.06, 1.0))}


@pytest.mark.parametrize(("whole", "window"), TWO_POOLS)
def test_the_fuller_of_two_pools_counts(whole: float, window: float) -> None:
    found = TWO_POOLS[whole, window]()
    assert found.verdict.cause == "l1_bound"
    assert found.peaks.kv_usage == whole
    assert ("kv_usage" in found.peaks.notes) == (window > whole)


def test_an_aggregated_line_has_the_caps_and_pools_of_all_its_engines() -> None:
    at_cap = "".join(stats(t, 64, 40, 0.3, 500, 2000, who=AGGREGATED) for t in range(0, 200, 10))
    assert causes(diagnosis_of(vl_start(-80, cap=16) + at_cap)) == ["cap_bound"]
    filled = "".join(stats(t, 100 + t // 10, 40, 0.97, 500, 2000, who=AGGREGATED) for t in range(0, 200, 10))
    rows = {"pool": "SELECT capacity_tokens FROM q07_demand"}
    assert causes(diagnosis_of(vl_start(-80, cap=64) + filled, queries=rows)) == ["l1_bound"]
    assert rows["pool"] == [(4 * (100_000 - 16),)]


def test_many_ranks_do_not_share_one_cap() -> None:
    """The capacity line tells each rank's own cap."""
    log = "".join(sg_start(-80, cap=64, tag=f"DP{d} TP0") for d in range(8))
    log += "".join(decode(t, 8, 0.97, 5, 400, tag=f"DP{d} TP0") for t in range(0, 120, 3) for d in range(8))
    assert causes(diagnosis_of(log)) == ["l1_bound"]


def pd(t: float, *, bootstrap: int = 0, inflight: int = 0) -> str:
    return sg(
        t, "Prefill batch, #new-seq: 1, #new-token: 4096, #cached-token: 0, token usage: 0.35, #running-req: 0, #queue-req: 0, "
        f"#pending-token: 0, #bootstrap-req: {bootstrap}, #inflight-req: {inflight}, cuda graph: False, input throughput (token/s): 512.00",
    )  # fmt: skip


def pd_decode(t: float, *, prealloc: int = 0, transfer: int = 0, usage: float = 0.4) -> str:
    return sg(
        t, f"Decode batch, #running-req: 24, #token: 81234, token usage: {usage:.2f}, pre-allocated usage: 0.05, "
        f"#prealloc-req: {prealloc}, #transfer-req: {transfer}, #retracted-req: 0, cuda graph: True, "
        "gen throughput (token/s): 1534.21, #queue-req: 0",
    )  # fmt: skip


Line = Callable[[float], str]
DISAGGREGATED: list[tuple[Line, str]] = [
    (pd, "none"),
    (pd_decode, "none"),
    (lambda t: pd(t, bootstrap=40), "insufficient_data"),
    (lambda t: pd(t, inflight=40), "transfer_bound"),
    (lambda t: pd_decode(t, transfer=40), "transfer_bound"),
    (lambda t: pd_decode(t, prealloc=40, usage=0.97), "l1_bound"),
    (lambda t: pd_decode(t, prealloc=40, usage=0.3), "insufficient_data"),
]
QUEUES = [(SERVERS.add(sg_start(-80) + "".join(line(t) for t in range(0, 120, 3))), cause) for line, cause in DISAGGREGATED]


@pytest.mark.parametrize(("server", "cause"), QUEUES, ids=[cause for _, cause in QUEUES])
def test_queues_of_disaggregation_are_not_overlooked(server: Callable[[], InstanceDiagnosis], cause: str) -> None:
    found = server()
    assert causes(found) == [cause]
    assert answer(found, "pd_queues") == ("no" if cause == "none" else "partly")


def test_requests_of_128k_tokens_fill_a_latent_pool() -> None:
    log = sg_start(-80, 1_000_000)
    for t in range(0, 900, 90):
        log += "".join(prefill(t + k / 2, 1, 8192, 0.87, 6, 5) for k in range(16))
        log += "".join(decode(t + 10 + 4 * j, 7, 0.93 + 0.01 * (j % 5), 5, 300, capacity=1_000_000) for j in range(20))
    assert causes(diagnosis_of(log)) == ["l1_bound"]
