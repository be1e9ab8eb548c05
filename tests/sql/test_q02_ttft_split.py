"""`q02_ttft_split`: the parts of TTFT, from requests, from histograms, or as an estimate."""

from __future__ import annotations

import pytest
from sql_case import Series, database, event, metrics, operation, report, request, row_of, series, stats

# One is admitted every two seconds while ten wait.
QUEUE = [report(t, kind="prefill", new_seqs=1, new_tokens=100, running=4, waiting=10, kv_usage=0.95) for t in range(0, 60, 2)]
CALM = [report(t, running=4, waiting=0, kv_usage=0.5) for t in range(60, 400, 2)]


def test_requests_with_stages_come_first() -> None:
    requests = [request(t, ttft_s=6.0, queue_s=float(t), prefill_s=1.0) for t in (2, 4, 6)]
    later = [request(900, ttft_s=90.0, queue_s=90.0)]
    row = row_of(database(scheduler=QUEUE + CALM, requests=requests + later), "q02_ttft_split")
    assert (row["scope"], row["split_source"], row["prefill_source"], row["requests_n"]) == ("incident", "requests", "requests", 3)
    assert (row["ttft_mean_s"], row["queue_s"], row["prefill_s"], row["rest_s"], row["over_s"]) == (6, 4, 1, 1, 0)
    assert (row["queue_share"], row["rest_share"]) == (pytest.approx(4 / 6, abs=1e-3), pytest.approx(1 / 6, abs=1e-3))
    assert (row["l2_load_s"], row["transfer_s"], row["recompute_s"]) == (None, None, None)


def test_the_engine_tells_the_stages_where_clients_tell_ttft_alone() -> None:
    clients = [request(t, ttft_s=7.0) for t in (2, 4, 6)]
    engine = [request(t, ttft_s=6.0, queue_s=5.0, observer="engine") for t in (2, 4, 6)]
    row = row_of(database(scheduler=QUEUE + CALM, requests=clients + engine), "q02_ttft_split")
    assert (row["split_source"], row["ttft_mean_s"], row["queue_s"], row["rest_s"]) == ("requests", 6, 5, 1)


def test_one_that_came_before_the_queue_and_waited_in_it_counts() -> None:
    """It arrived at -5 s and got its first token at 5 s."""
    early = [request(-5, ttft_s=10.0, queue_s=9.0)]
    assert row_of(database(scheduler=QUEUE + CALM, requests=early), "q02_ttft_split")["requests_n"] == 1


def grown(inside: float, outside: float, start: int = 40, end: int = 100) -> list[tuple[float, float]]:
    """A counter read every 20 s that rises by `inside` a second between start and end, else by `outside`."""
    return [(t, inside * max(0, min(t, end) - start) + outside * (min(t, start) + max(0, t - end))) for t in range(0, 200, 20)]


def told(name: str, total: tuple[float, float], n: tuple[float, float], **labels: object) -> list[Series]:
    """Sum and count of a histogram, each as (rise inside, outside)."""
    by = {k: str(v) for k, v in labels.items()}
    return [series(name, grown(*rates), part=part, labels=by) for part, rates in (("sum", total), ("count", n))]


BETWEEN = [report(t, running=4, waiting=10 * (40 <= t < 100), kv_usage=0.9) for t in range(0, 200, 2)]


def test_histograms_tell_means_of_the_incident() -> None:
    """What they rose by while requests waited, over all ranks; a load's seconds are spread over the requests."""
    given = [
        one
        for rank in (0, 1)
        for one in (
            *told("ttft_s", (30, 1), (1, 1), engine=rank), *told("queue_s", (28, 0), (1, 1), engine=rank),
            *told("prefill_s", (1.5, 1), (1, 1), engine=rank), *told("transfer_s", (0.25, 0), (1, 0), engine=rank),
            *told("l2_load_s", (1, 1), (4, 1), engine=rank),
        )
    ]  # fmt: skip
    row = row_of(database(scheduler=BETWEEN, **metrics(*given)), "q02_ttft_split")
    assert (row["split_source"], row["prefill_source"], row["requests_n"]) == ("histograms", "histograms", 120)
    assert (row["ttft_mean_s"], row["queue_s"], row["prefill_s"], row["transfer_s"], row["rest_s"]) == (30, 28, 1.5, 0.25, 0.25)
    assert (row["l2_load_mean_s"], row["l2_load_s"]) == (0.25, 1)


def test_stages_counted_at_the_end_are_held_against_the_ttft_of_requests_that_ended() -> None:
    """Those that got a first token meanwhile took 30 s; those that ended took 20 + 4 s, of which 4 s were decode."""
    given = [
        *told("ttft_s", (30, 1), (1, 1)), *told("queue_s", (18, 0), (1, 1)), *told("e2e_s", (24, 1), (1, 1)),
        *told("decode_s", (4, 1), (1, 1)),
    ]  # fmt: skip
    row = row_of(database(scheduler=BETWEEN, **metrics(*given)), "q02_ttft_split")
    assert (row["ttft_mean_s"], row["queue_s"], row["rest_s"]) == (20, 18, 2)


def test_the_chunks_of_a_prompt_are_one_prefill() -> None:
    """Two chunks of 0.5 s and a last one of 1 s for each request."""
    given = [
        *told("ttft_s", (10, 1), (1, 1)), *told("queue_s", (7, 0), (1, 1)),
        *told("stage_s", (1, 0), (2, 0), stage="chunked_prefill"), *told("stage_s", (1, 0), (1, 0), stage="prefill_forward"),
        *told("stage_s", (50, 0), (1, 0), stage="decode_loop"),
    ]  # fmt: skip
    row = row_of(database(scheduler=BETWEEN, **metrics(*given)), "q02_ttft_split")
    assert (row["prefill_s"], row["rest_s"]) == (2, 1)


def test_parts_beyond_ttft_are_told() -> None:
    given = [*told("ttft_s", (10, 1), (1, 1)), *told("queue_s", (12, 0), (1, 1))]
    row = row_of(database(scheduler=BETWEEN, **metrics(*given)), "q02_ttft_split")
    assert (row["over_s"], row["rest_s"], row["rest_share"]) == (2, 0, 0)


def test_waiting_over_admissions_is_the_estimate() -> None:
    """Ten wait for 60 s while 30 are admitted, and ten leave unserved: 600 / 40."""
    row = row_of(database(scheduler=QUEUE + CALM), "q02_ttft_split")
    assert (row["split_source"], row["queue_s"], row["ttft_mean_s"], row["rest_s"], row["queue_share"]) == (
        "estimate",
        15,
        None,
        None,
        None,
    )
    served = [*QUEUE, report(60, kind="prefill", new_seqs=10, new_tokens=100, running=4, waiting=0, kv_usage=0.95), *CALM[1:]]
    assert row_of(database(scheduler=served), "q02_ttft_split")["queue_s"] == 15


def test_prefill_is_estimated_by_prompt_and_throughput_where_it_fits() -> None:
    """100 tokens an admission at 200 tokens/s; of a TTFT of 15.2 s the queue leaves less than that."""
    busy = [{**row, "prompt_tps": 200.0} for row in QUEUE]
    row = row_of(database(scheduler=busy + CALM), "q02_ttft_split")
    assert (row["prefill_s"], row["prefill_source"]) == (0.5, "estimate")
    row = row_of(database(scheduler=busy + CALM, requests=[request(10, ttft_s=15.2)]), "q02_ttft_split")
    assert (row["prefill_s"], row["prefill_source"], row["rest_s"]) == (None, None, pytest.approx(0.2))


def test_recompute_is_spread_over_the_requests_of_the_incident() -> None:
    """3,000 tokens of retracted requests at 200 tokens/s, by a counter: 15 s over 30 admitted."""
    busy = [{**row, "prompt_tps": 200.0} for row in QUEUE]
    counter = series("retracted_output_tokens_total", [(t, 3000.0 * (t >= 30)) for t in range(0, 60, 10)])
    row = row_of(database(scheduler=busy + CALM, **metrics(counter)), "q02_ttft_split")
    assert (row["recomputed_tokens"], row["recompute_s"]) == (3000, 0.5)


def test_without_a_counter_each_request_thrown_out_held_what_running_ones_hold() -> None:
    """8 running hold half of 1,600 tokens: 100 each, three were retracted."""
    lines = [
        stats(t, running=8, waiting=10 * (t < 50), kv_usage=0.5, prompt_tps=50.0, gen_tps=100.0, engine="sglang") for t in range(0, 100, 10)
    ]
    facts = [
        {
            "source_id": "s",
            "instance": "i",
            "run_id": "r1",
            "engine": "sglang",
            "key": "kv_capacity_tokens",
            "value": "1600",
            "number": 1600.0,
        }
    ]
    row = row_of(database(scheduler=lines, facts=facts, events=[event(20, "retraction", requests=3)]), "q02_ttft_split")
    assert row["recomputed_tokens"] == 300


def test_loads_of_the_log_are_spread_over_the_requests() -> None:
    loads = [operation(t, "load", tokens=500, duration_s=3.0) for t in (10, 20)] + [operation(300, "load", tokens=500, duration_s=50.0)]
    row = row_of(database(scheduler=QUEUE + CALM, cache_ops=loads), "q02_ttft_split")
    assert row["l2_load_s"] == pytest.approx(6 / 30)


def test_without_an_incident_the_whole_capture_is_asked() -> None:
    row = row_of(database(scheduler=CALM, requests=[request(t, ttft_s=0.4, queue_s=0.1) for t in (70, 300)]), "q02_ttft_split")
    assert (row["scope"], row["requests_n"], row["queue_s"], row["recompute_s"]) == ("capture", 2, 0.1, None)
