"""`q10_prefill`: how busy prefill was while requests waited."""

from __future__ import annotations

from sql_case import database, fact, report, row_of, stats


def test_full_chunks_while_the_pool_has_room() -> None:
    lines = [
        report(t, kind="prefill", running=1, waiting=9, new_seqs=1, new_tokens=500, kv_usage=0.1, pending_tokens=4000 + t)
        for t in range(0, 50, 10)
    ]
    con = database(scheduler=lines, facts=[fact("chunked_prefill_size", 500)])
    row = row_of(con, "q10_prefill")
    assert (row["prefill_s"], row["judged_s"], row["usage_max"]) == (40, 40, 0.1)
    assert (row["counted_prompt_tps"], row["pending_tokens_max"], row["chunk_tokens"]) == (62.5, 4040, 500)


def test_rates_of_vllm() -> None:
    lines = [stats(t, running=1, waiting=9, kv_usage=0.1, prompt_tps=10000, gen_tps=5) for t in range(0, 50, 10)]
    con = database(scheduler=lines, facts=[fact("arg.max_num_batched_tokens", 2048, engine="vllm")])
    row = row_of(con, "q10_prefill")
    assert (row["prompt_tps_mean"], row["prompt_tps_variation"], row["gen_tps_mean"], row["max_num_batched_tokens"]) == (10000, 0, 5, 2048)
    assert (row["prefill_s"], row["counted_prompt_tps"]) == (40, None)
    assert (row["step_tokens_p50"], row["budget_tokens"], row["flat_share"]) == (2001, 2048, 1)


def test_a_top_that_is_not_flat() -> None:
    quiet = [stats(t, running=1, waiting=0, kv_usage=0.1, prompt_tps=10000, gen_tps=5) for t in range(-500, 0, 10)]
    lines = [stats(t, running=1, waiting=9, kv_usage=0.1, prompt_tps=1000, gen_tps=5) for t in range(0, 50, 10)]
    row = row_of(database(scheduler=[*quiet, *lines]), "q10_prefill")
    assert (row["flat_share"], row["prefill_s"]) == (0, None)


def test_batches_that_use_up_the_chunk_and_tokens_that_pile_up() -> None:
    lines = [
        report(
            t, kind="prefill", running=1, waiting=9, new_seqs=1, new_tokens=500 if t < 30 else 100, kv_usage=0.1, pending_tokens=1000 + t
        )
        for t in range(0, 40, 10)
    ]
    row = row_of(database(scheduler=lines, facts=[fact("chunked_prefill_size", 500)]), "q10_prefill")
    assert (row["full_batch_share"], row["pending_tokens_first"], row["pending_tokens_max"]) == (0.75, 1000, 1030)
