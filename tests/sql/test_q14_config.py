"""`q14_config`: the settings of the last process, each with the line it was read from."""

from __future__ import annotations

from sql_case import at, database, fact, report, row_of, stats


def test_settings_of_the_last_process() -> None:
    con = database(
        scheduler=[report(0, running=1), report(100, run_id="r2", running=1)],
        facts=[
            fact("kv_capacity_tokens", 1000),
            fact("kv_capacity_tokens", 2000, run_id="r2", ts=at(90)),
            fact("arg.schedule_conservativeness", 1.3, run_id="r2", ts=at(80)),
            fact("arg.disable_radix_cache", True, number=1.0, run_id="r2", ts=at(80)),
            fact("context_len", 4096, run_id="r2", ts=at(90)),
        ],
    )
    row = row_of(con, "q14_config")
    assert (row["run_id"], row["capacity_tokens"], row["schedule_conservativeness"], row["disable_radix_cache"]) == ("r2", 2000, 1.3, 1)
    assert (row["max_len_tokens"], row["cap"], row["capacity_source"]) == (4096, None, "server.log:2")
    assert row["args_source"].startswith("server.log:")


def test_the_block_that_vllm_keeps_for_itself() -> None:
    facts = [fact("kv_capacity_tokens", 1600, engine="vllm"), fact("arg.block_size", 32, engine="vllm")]
    assert row_of(database(scheduler=[stats(0, running=1)], facts=facts), "q14_config")["capacity_tokens"] == 1568
    facts = [fact("num_gpu_blocks", 100, engine="vllm")]
    assert row_of(database(scheduler=[stats(0, running=1)], facts=facts), "q14_config")["capacity_tokens"] == 1600


def test_nothing_is_known_without_start_up_lines() -> None:
    row = row_of(database(scheduler=[report(0, running=1)]), "q14_config")
    assert (row["capacity_tokens"], row["cap"], row["args_source"]) == (None, None, None)
