"""`q06_retraction`: retractions and preemptions, and whether this engine would print them."""

from __future__ import annotations

from sql_case import database, event, fact, metrics, report, request, row_of, series, stats


def test_events_are_merged_over_ranks() -> None:
    lost = [event(5, "retraction", tp=tp, requests=2, tokens=90, ratio_before=0.1, ratio_after=0.4) for tp in range(8)]
    con = database(scheduler=[report(t, running=4, waiting=5, kv_usage=0.95) for t in range(10)], events=lost)
    row = row_of(con, "q06_retraction")
    assert (row["visible"], row["retraction_events"], row["retracted_requests"], row["tokens_gained"]) == ("each", 1, 2, 90)
    assert (row["first_ts"], row["ratio_min"], row["ratio_max"], row["events_in_incident"]) == (5, 0.1, 0.4, 1)
    assert row["source"] == "server.log:1"


def test_v0_prints_some_and_v1_none() -> None:
    con = database(
        scheduler=[stats(0, running=4, waiting=0, swapped=0)],
        events=[event(n, "preemption", engine="vllm", total=50 * n + 1) for n in range(3)],
    )
    row = row_of(con, "q06_retraction")
    assert (row["visible"], row["preemptions"], row["retraction_events"]) == ("every fiftieth", 101, 0)
    row = row_of(database(scheduler=[stats(0, running=4, waiting=0)]), "q06_retraction")
    assert (row["visible"], row["preemptions"]) == ("never", None)


def test_the_source_is_the_first_line() -> None:
    lost = [event(t, "retraction", requests=1, record=record) for t, record in ((5, 90), (9, 100))]
    assert row_of(database(scheduler=[report(0, running=1)], events=lost), "q06_retraction")["source"] == "server.log:90"


def thrash(admitted: bool) -> dict[str, object]:
    """Five retractions, ten seconds apart, at a pool that is full again at once; with or without admissions in between."""
    full = [report(t, running=4, waiting=5, kv_usage=0.95, kv_used_tokens=950) for t in range(60)]
    taken = [report(t + 4.5, kind="prefill", running=3, waiting=5, new_seqs=1, new_tokens=200, kv_usage=0.9) for t in range(0, 60, 10)]
    lost = [event(t, "retraction", requests=1, tokens=100, ratio_before=0.1, ratio_after=0.2 + t / 1000) for t in range(10, 60, 10)]
    return row_of(database(scheduler=[*full, *(taken if admitted else [])], events=lost), "q06_retraction")


def test_throwing_out_and_taking_in_by_turns_is_a_cycle() -> None:
    row = thrash(admitted=True)
    assert (row["cycles"], row["moments"], row["refilled"]) == (4, 5, 5)
    assert thrash(admitted=False)["cycles"] == 0


def test_what_recompute_cost_by_the_log() -> None:
    row = thrash(admitted=True)
    # six prefills of 200 tokens, of which 500 had been there before
    assert (row["recomputed_tokens"], row["recompute_by"], row["recompute_share"]) == (500, "log", round(500 / 1200, 4))


def test_of_vllm_it_is_an_estimate() -> None:
    lines = [stats(t, running=4, waiting=5, kv_usage=0.8, prompt_tps=100, gen_tps=50) for t in range(0, 50, 10)]
    counted = metrics(series("preemptions_total", [(0, 0), (20, 3), (40, 3)], engine="vllm"))
    row = row_of(database(scheduler=lines, facts=[fact("num_gpu_blocks", 100, engine="vllm")], **counted), "q06_retraction")
    # three of 320 tokens each, beside 4,000 that the throughput counts
    assert (row["thrown_in_incident"], row["recomputed_tokens"], row["recompute_by"]) == (3, 960, "estimate")
    assert row["recompute_share"] == round(960 / 4960, 4)


def test_without_a_retraction_nothing_was_computed_again() -> None:
    row = row_of(database(scheduler=[report(t, running=4, waiting=5, kv_usage=0.5) for t in range(9)]), "q06_retraction")
    assert (row["recomputed_tokens"], row["recompute_share"], row["cycles"]) == (None, None, None)


def test_requests_that_were_thrown_out_more_than_once() -> None:
    told = [request(n, retractions=n) for n in range(4)]
    assert row_of(database(scheduler=[report(0, running=1)], requests=told), "q06_retraction")["thrown_again"] == 2
