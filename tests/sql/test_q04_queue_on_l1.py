"""`q04_queue_on_l1`: the time of the incident in each state of the queue (see `queue_state`)."""

from __future__ import annotations

from sql_case import database, fact, report, request, row_of, rows_of, stats

CAP = [fact("max_running_requests", 8), fact("kv_capacity_tokens", 1000), fact("chunked_prefill_size", 500)]


def states(*cases: tuple[str, dict[str, object], int]) -> list[str]:
    """What is expected where it differs from what is found; each case is an instance of its own.

    Before its report each has enough prefills of a usual prompt, of as many tokens as the case says.
    """
    lines, facts = [], []
    for n, (_, line, usual) in enumerate(cases):
        mine = {"instance": str(n)}
        lines += [
            report(t, kind="prefill", new_seqs=1, new_tokens=usual, running=1, waiting=0, kv_usage=0.1, **mine) for t in range(-30, 0)
        ]
        lines.append({**line, **mine})
        known = CAP if line["engine"] == "sglang" else [fact("arg.max_num_seqs", 8, engine="vllm")]
        facts += [{**f, **mine} for f in known]
    found = dict(rows_of(database(scheduler=lines, facts=facts), "SELECT instance, state FROM queue_state"))
    return [f"{n}: {found[str(n)]}, not {expected}" for n, (expected, _, _) in enumerate(cases) if found[str(n)] != expected]


def decode(**columns: object) -> dict[str, object]:
    return report(0, waiting=5, **columns)


def prefill(**columns: object) -> dict[str, object]:
    return report(0, kind="prefill", waiting=5, new_seqs=1, **columns)


def line(prompt: float, gen: float, **columns: object) -> dict[str, object]:
    return stats(0, waiting=5, prompt_tps=prompt, gen_tps=gen, **columns)


def test_states() -> None:
    cases = (
        ("l1", decode(running=4, kv_usage=0.95), 100),
        ("l1", decode(running=4, kv_usage=0.1, swa_usage=0.95), 100),
        ("l1", decode(running=4, kv_usage=0.89), 200),  # 110 tokens are left, and a prompt has 200
        ("reservation", decode(running=4, kv_usage=0.5), 100),
        ("cap", decode(running=8, kv_usage=0.5), 100),
        ("l1", decode(running=8, kv_usage=0.95), 100),
        ("unexplained", decode(running=4, kv_usage=None), 100),
        ("prefill", prefill(running=4, kv_usage=0.5, new_tokens=500), 100),
        ("admitting", prefill(running=4, kv_usage=0.5, new_tokens=100), 100),
        ("cap", prefill(running=7, kv_usage=0.5, new_tokens=500), 100),
        # printed before its own 100 tokens are in the usage (SGLang up to 0.5.7), and after
        ("l1", prefill(running=4, kv_usage=0.82, new_tokens=100, extra=[("kv_usage_basis", "before_batch")]), 100),
        ("admitting", prefill(running=4, kv_usage=0.82, new_tokens=100, extra=[("kv_usage_basis", "after_batch")]), 100),
        ("l1", line(10, 900, running=4, kv_usage=0.95), 100),
        ("cap", line(10, 900, running=8, kv_usage=0.3), 100),
        ("gap", line(10, 900, running=4, kv_usage=0.7), 100),
        # 9,000 prompt tokens for each token of the one that runs: no step takes more
        ("prefill", line(9000, 1, running=1, kv_usage=0.05), 100),
        # and 90: steps have room, so it was not prefill that held the queue
        ("unexplained", line(900, 10, running=1, kv_usage=0.05), 100),
        ("unexplained", line(10, 900, running=4, kv_usage=0.05), 100),
        ("stalled", line(0, 0, running=4, kv_usage=0.05), 100),
        # two run and hold 0.4 each, nearly all of it prompt: a third does not fit, though nobody said how large the pool is
        ("l1", line(9000, 10, running=2, kv_usage=0.8), 100),
        ("cap", line(10, 900, running=32, kv_usage=0.3, engines=4), 100),
        ("prefill", line(9000, 10, running=8, kv_usage=0.03, engines=4), 100),
        # at the cap and nine tenths used: one more of the mean size does not fit, or does
        ("l1", decode(running=8, kv_usage=0.91), 20),
        ("cap", {**decode(running=64, kv_usage=0.91), "engines": 8}, 20),
    )
    assert states(*cases) == []


def test_a_watermark_is_a_reservation_only_where_the_prompt_would_have_fitted_beside_it() -> None:
    marked = [
        fact("arg.watermark", 0.3, engine="vllm"),
        fact("arg.max_num_seqs", 8, engine="vllm"),
        fact("num_gpu_blocks", 100, engine="vllm"),
    ]
    for usage, state in ((0.65, "reservation"), (0.05, "unexplained"), (0.95, "l1")):
        con = database(scheduler=[line(900, 10, running=4, kv_usage=usage)], facts=marked)
        assert rows_of(con, "SELECT state FROM queue_state") == [(state,)]


def test_running_that_stands_still_without_a_known_cap_is_a_plateau() -> None:
    still = [report(3 * n, running=7 + n % 2, waiting=5, kv_usage=0.3) for n in range(10)]
    assert rows_of(database(scheduler=still), "SELECT DISTINCT state FROM queue_state") == [("plateau",)]
    # with arguments that set no cap, eight are below any default
    unset = [fact("arg.context_length", 100), fact("kv_capacity_tokens", 100_000)]
    assert rows_of(database(scheduler=still, facts=unset), "SELECT DISTINCT state FROM queue_state") == [("reservation",)]
    moving = [{**one, "running": 4 + n % 5} for n, one in enumerate(still)]
    assert rows_of(database(scheduler=moving), "SELECT DISTINCT state FROM queue_state") == [("reservation",)]


def test_a_few_requests_that_fill_the_pool_stand_still_as_well() -> None:
    few = [report(3 * n, running=3, waiting=5, kv_usage=0.75) for n in range(10)]
    assert rows_of(database(scheduler=few), "SELECT DISTINCT state FROM queue_state") == [("reservation",)]


def test_one_below_the_cap_is_the_cap_where_running_stays_there() -> None:
    stuck = [report(3 * n, running=7, waiting=5, kv_usage=0.3) for n in range(10)]
    assert rows_of(database(scheduler=stuck, facts=CAP), "SELECT DISTINCT state FROM queue_state") == [("cap",)]
    passing = [{**one, "running": 3 + n % 5} for n, one in enumerate(stuck)]
    assert rows_of(database(scheduler=passing, facts=CAP), "SELECT DISTINCT state FROM queue_state") == [("reservation",)]


def test_a_long_prompt_that_does_not_fit_is_a_gap() -> None:
    lines = [report(3 * n, running=4, waiting=5, kv_usage=0.7) for n in range(3)]
    asked = [request(n, prompt_tokens=tokens, ttft_s=1.0) for n, tokens in enumerate([50] * 9 + [600])]
    assert rows_of(database(scheduler=lines, facts=CAP, requests=asked), "SELECT DISTINCT state FROM queue_state") == [("gap",)]
    assert rows_of(database(scheduler=lines, facts=CAP, requests=asked[:9]), "SELECT DISTINCT state FROM queue_state") == [("reservation",)]


def test_a_flat_top_of_batches_stands_for_an_unknown_chunk() -> None:
    same = [report(t, kind="prefill", new_seqs=1, new_tokens=512, running=1, waiting=5, kv_usage=0.1) for t in range(30)]
    assert rows_of(database(scheduler=same), "SELECT DISTINCT state FROM queue_state") == [("prefill",)]
    mixed = [{**line, "new_tokens": 100 + 10 * n} for n, line in enumerate(same)]
    assert rows_of(database(scheduler=mixed), "SELECT DISTINCT state FROM queue_state") == [("admitting",)]


def test_seconds_of_each_state() -> None:
    lines = [report(t, running=4, waiting=5, kv_usage=0.95 if t <= 20 else 0.5) for t in range(0, 31, 10)]
    row = row_of(database(scheduler=lines, facts=CAP), "q04_queue_on_l1")
    assert (row["judged_s"], row["l1_s"], row["reservation_s"], row["cap_s"]) == (30, 20, 10, 0)
    assert (row["usage_p50"], row["usage_max"], row["reports"]) == (0.95, 0.95, 4)
