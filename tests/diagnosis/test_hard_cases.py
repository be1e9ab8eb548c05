"""Cases that are easily told wrong, each as the few lines an engine would print."""

from __future__ import annotations

import pytest
from diagnosing import answer, causes, diagnosis_of
from hard_cases import decode, prefill, retract, sg, sg_start, stats, v0, v0_preemption, vl, vl_start

SGLANG = sg_start(-80)
VLLM = vl_start(-80)
STOP = vl(660, "[shutdown] API server: shutdown triggered", file="launcher.py")
AGGREGATED = "4 Engines Aggregated: "


def busy(start: int, end: int, step: int = 3, running: int = 8, usage: float = 0.3, queue: int = 0, gen: float = 400) -> str:
    return "".join(decode(t, running, usage, queue, gen) for t in range(start, end, step))


def steady(start: int, end: int, running: int = 4, waiting: int = 0, usage: float | None = 0.1) -> str:
    return "".join(stats(t, running, waiting, usage) for t in range(start, end, 10))


# -- silence


def test_an_idle_gap_is_no_hang() -> None:
    assert causes(diagnosis_of(SGLANG + busy(0, 60) + busy(900, 960))) == ["none"]


def test_an_idle_server_that_is_stopped_later_did_not_hang() -> None:
    assert causes(diagnosis_of(VLLM + steady(0, 60) + stats(60, 0, 0, 0.0, 0, 0) + STOP)) == ["none"]


def test_sparse_requests_after_a_busy_time_are_no_slow_decode() -> None:
    """Their throughput counts the idle time before them."""
    sparse = "".join(prefill(t, 1, 500, 0.01, 0, 0) + decode(t + 3, 1, 0.01, 0, 2) for t in range(200, 1200, 20))
    assert causes(diagnosis_of(SGLANG + busy(0, 120) + sparse)) == ["none"]


def test_the_first_decode_line_after_idle_time_is_no_slow_decode() -> None:
    later = prefill(900, 1, 500, 0.1, 0, 0) + decode(903, 8, 0.3, 0, 0.4) + busy(906, 1020)
    assert causes(diagnosis_of(SGLANG + busy(0, 60) + later)) == ["none"]


def test_a_full_batch_that_slows_down_is_slow_decode() -> None:
    log = SGLANG + busy(0, 300) + busy(300, 600, step=6, running=60, usage=0.5)
    assert causes(diagnosis_of(log)) == ["decode_bound"]


@pytest.mark.parametrize("silent_s", [10, 150])
def test_a_long_prefill_of_vllm_is_no_hang(silent_s: int) -> None:
    """Not one token, then nothing at all, then the whole prompt at once."""
    after = stats(60 + silent_s, 1, 0, 0.9, 12800, 1) + steady(70 + silent_s, 130 + silent_s)
    assert causes(diagnosis_of(VLLM + steady(0, 60) + stats(60, 1, 0, 0.9, 0, 0) + after)) == ["none"]


@pytest.mark.parametrize("waiting", [0, 3])
def test_a_stuck_vllm_that_is_stopped_much_later_hung(waiting: int) -> None:
    found = diagnosis_of(VLLM + steady(0, 60) + stats(60, 4, waiting, 0.1, 0, 0) + STOP)
    assert found.verdict.cause == "hang"
    assert "crash" not in causes(found)


def test_a_stuck_vllm_that_dies_much_later_hung_first() -> None:
    died = vl(660, "EngineCore encountered a fatal error.", file="core.py", process="EngineCore pid=78", level="ERROR")
    assert causes(diagnosis_of(VLLM + steady(0, 60) + stats(60, 4, 0, 0.1, 0, 0) + died)) == ["hang", "crash"]


def test_a_watchdog_is_a_hang() -> None:
    alarm = sg(360, "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", "TP0")
    assert causes(diagnosis_of(SGLANG + busy(0, 60, queue=2) + alarm))[0] == "hang"


# -- ends and beginnings


def test_what_a_planned_shutdown_tears_down_is_no_crash() -> None:
    end = (
        vl(61, "[shutdown] API server: shutdown triggered", file="launcher.py")
        + vl(62, "AsyncLLM output_handler failed.", file="async_llm.py", level="ERROR")
        + vl(62, "Engine core proc EngineCore died unexpectedly, shutting down client.", file="core_client.py", level="ERROR")
    )
    assert causes(diagnosis_of(VLLM + steady(0, 60) + end)) == ["none"]


def test_the_same_line_without_a_shutdown_is_a_crash() -> None:
    end = vl(62, "AsyncLLM output_handler failed.", file="async_llm.py", level="ERROR")
    assert causes(diagnosis_of(VLLM + steady(0, 60) + end)) == ["crash"]


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_a_crash_loop_at_start_up(engine: str) -> None:
    log = ""
    for k in range(4):
        t = 120 * k
        if engine == "sglang":
            log += sg_start(t) + sg(t + 65, "Scheduler hit an exception: Traceback (most recent call last):")
        else:
            core = f"EngineCore pid={101 + 10 * k}"
            log += vl_start(t, pid=100 + 10 * k) + vl(t + 65, "EngineCore failed to start.", file="core.py", process=core, level="ERROR")
    found = diagnosis_of(log)
    assert found.verdict.cause == "crash"
    assert found.instances[0].runs == 4
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


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        ("".join(retract(50, tag=f"TP{r}") for r in range(8)), 1),
        ("".join(retract(50, tag=f"DP{d} TP{r}") for d in range(2) for r in range(4)), 2),
    ],
    ids=["eight tp ranks", "two dp ranks"],  # tests/sql/test_event.py has the rest
)
def test_one_retraction_is_counted_once(lines: str, events: int) -> None:
    found = diagnosis_of(SGLANG + full(0, 50) + lines + full(60, 150))
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


def test_a_full_pool_without_a_queue_is_an_incident_only_with_retractions() -> None:
    assert causes(diagnosis_of(VLLM + steady(0, 200, running=20, usage=1.0))) == ["none"]
    assert causes(diagnosis_of(SGLANG + full(0, 150, queue=0))) == ["none"]
    found = diagnosis_of(SGLANG + full(0, 100, queue=0) + retract(100) + full(101, 150, queue=0))
    assert causes(found) == ["l1_bound"]
    assert answer(found, "retracted") == "yes"
    assert answer(found, "l1_full") == "partly"


# -- what is missing


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_a_plateau_without_a_known_cap_is_no_certain_cap(engine: str) -> None:
    if engine == "sglang":
        log = "".join(decode(t, 8, 0.03, 30, 400) for t in range(0, 120, 3))
    else:
        log = "".join(stats(t, 8, 30, 0.03, 300, 900) for t in range(0, 200, 10))
    found = diagnosis_of(log)
    assert (found.verdict.cause, found.verdict.confidence) == ("cap_bound", "low")
    assert answer(found, "queue_on_cap") == "cannot_tell"


def test_waiting_at_an_empty_pool_without_a_known_cap() -> None:
    log = "".join(stats(t, 8 + t // 10 % 5, 30, 0.03, 300, 900) for t in range(0, 200, 10))
    assert causes(diagnosis_of(log)) == ["insufficient_data"]


def test_long_prompts_at_an_unknown_cap_are_not_surely_prefill() -> None:
    log = "".join(stats(t, 8, 30, 0.03, 9000, 300) for t in range(0, 200, 10))
    assert diagnosis_of(log).verdict.confidence == "low"


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_without_kv_usage_nothing_holds_the_queue_for_sure(engine: str) -> None:
    if engine == "vllm":
        log = VLLM + steady(0, 120, running=8, waiting=30, usage=None)
    else:
        line = "Decode batch, #running-req: 8, cuda graph: True, gen throughput (token/s): 400.00, #queue-req: 30"
        log = "".join(sg(t, line) for t in range(0, 120, 3))
    found = diagnosis_of(log)
    assert causes(found) == ["insufficient_data"]
    assert found.peaks.kv_usage is None
    assert answer(found, "l1_full") == "cannot_tell"


def test_a_queue_of_one_for_a_second_is_no_incident() -> None:
    assert causes(diagnosis_of(SGLANG + busy(0, 60) + prefill(60, 1, 300, 0.3, 8, 1) + busy(61, 120))) == ["none"]


def test_a_capture_that_ends_as_the_queue_grows_does_not_say_none() -> None:
    log = VLLM + steady(0, 100) + stats(100, 20, 12, 0.84)
    assert causes(diagnosis_of(log)) == ["insufficient_data"]


@pytest.mark.parametrize("reports", [1, 2])
def test_a_very_short_capture_proves_nothing(reports: int) -> None:
    assert causes(diagnosis_of("".join(stats(10 * k, 4, 90, 0.99) for k in range(reports)))) == ["insufficient_data"]


def test_stats_that_are_switched_off() -> None:
    text = "AsyncLLM created with api_server_count more than 1; disabling stats logging to avoid incomplete stats."
    found = diagnosis_of(VLLM + vl(-75, text, file="async_llm.py", level="WARNING"))
    assert causes(found) == ["insufficient_data"]
    assert "switched off" in found.verdict.sentence


# -- other shapes


@pytest.mark.parametrize(("whole", "window"), [(1.0, 0.06), (0.06, 1.0)])
def test_the_fuller_of_two_pools_counts(whole: float, window: float) -> None:
    def line(t: float) -> str:
        return sg(
            t, f"Decode batch, #running-req: 20, #full token: {round(whole * 1e5)}, full token usage: {whole:.2f}, #swa token: 5000, "
            f"swa token usage: {window:.2f}, cuda graph: True, gen throughput (token/s): 400.00, #queue-req: 20",
        )  # fmt: skip

    found = diagnosis_of(SGLANG + "".join(line(t) for t in range(0, 120, 3)))
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


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (pd, "none"),
        (pd_decode, "none"),
        (lambda t: pd(t, bootstrap=40), "insufficient_data"),
        (lambda t: pd(t, inflight=40), "transfer_bound"),
        (lambda t: pd_decode(t, transfer=40), "transfer_bound"),
        (lambda t: pd_decode(t, prealloc=40, usage=0.97), "l1_bound"),
        (lambda t: pd_decode(t, prealloc=40, usage=0.3), "insufficient_data"),
    ],
)
def test_queues_of_disaggregation_are_not_overlooked(line: object, cause: str) -> None:
    assert callable(line)
    found = diagnosis_of(sg_start(-80) + "".join(line(t) for t in range(0, 120, 3)))
    assert causes(found) == [cause]
    assert answer(found, "pd_queues") == ("no" if cause == "none" else "partly")


def test_requests_of_128k_tokens_fill_a_latent_pool() -> None:
    log = sg_start(-80, 1_000_000)
    for t in range(0, 900, 90):
        log += "".join(prefill(t + k / 2, 1, 8192, 0.87, 6, 5) for k in range(16))
        log += "".join(decode(t + 10 + 4 * j, 7, 0.93 + 0.01 * (j % 5), 5, 300, capacity=1_000_000) for j in range(20))
    assert causes(diagnosis_of(log)) == ["l1_bound"]
