"""`q13_outside`: crashes, silences and restarts."""

from __future__ import annotations

from sql_case import database, event, report, row_of, rows_of, stats

SILENT = "SELECT start_ts, silent_s, no_token FROM _silence"


def test_a_crash_that_no_shutdown_explains() -> None:
    busy = [report(t, running=4, waiting=0) for t in range(3)]
    row = row_of(database(scheduler=busy, events=[event(3, "crash"), event(3, "watchdog"), event(4, "warning")]), "q13_outside")
    assert (row["runs"], row["crashes"], row["crash_ts"], row["crash_text"], row["watchdogs"], row["warnings"]) == (1, 1, 3, "crash", 1, 1)
    assert row["crash_source"] == "server.log:1"
    told = database(scheduler=busy, events=[event(3, "shutdown"), event(5, "crash"), event(100, "crash")])
    assert row_of(told, "q13_outside")["crashes"] == 0


def test_a_process_that_dies_before_its_first_report() -> None:
    con = database(events=[event(0, "start"), event(5, "crash"), event(60, "start", run_id="r2"), event(65, "crash", run_id="r2")])
    row = row_of(con, "q13_outside")
    assert (row["runs"], row["crashes"], row["crash_ts"]) == (2, 2, 5)
    assert rows_of(con, "SELECT run_id, next_start_ts, running_last FROM _run_end ORDER BY 1") == [("r1", 60, None), ("r2", None, None)]


def test_silence_with_requests_waiting() -> None:
    lines = [report(t, running=4, waiting=2) for t in range(10)] + [report(300, running=4, waiting=0)]
    assert rows_of(database(scheduler=lines), SILENT) == [(9, 291, False)]
    idle = [report(t, running=4, waiting=0) for t in range(10)] + [report(300, running=4, waiting=0)]
    assert rows_of(database(scheduler=idle), SILENT) == []


def test_silence_of_vllm_after_not_one_token() -> None:
    def line(t: float, prompt: float, gen: float) -> dict[str, object]:
        return stats(t, running=1, waiting=0, prompt_tps=prompt, gen_tps=gen)

    start = [line(t, 50, 100) for t in range(0, 60, 10)]
    assert rows_of(database(scheduler=[*start, line(60, 0, 0), line(300, 5, 100)]), SILENT) == [(60, 240, True)]
    # the whole prompt at once: that was a long prefill
    assert rows_of(database(scheduler=[*start, line(60, 0, 0), line(300, 12000, 1)]), SILENT) == []
    assert rows_of(database(scheduler=[*start, line(60, 0, 0)], events=[event(400, "shutdown", engine="vllm")]),
                   "SELECT no_token, silent_s FROM _run_end") == [(True, 340)]  # fmt: skip


def test_a_quiet_capture() -> None:
    row = row_of(database(scheduler=[report(0, running=1)]), "q13_outside")
    assert {k: row[k] for k in ("crashes", "watchdogs", "rejections", "stats_off")} == dict.fromkeys(
        ("crashes", "watchdogs", "rejections", "stats_off"), 0
    )
    assert (row["crash_ts"], row["silence_max_s"]) == (None, None)
