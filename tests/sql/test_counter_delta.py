"""`counter_delta`: what counters rose by, over resets, restarts, several inputs and windows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_case import Series, at, database, metrics, rows_of, series

SQL = "SELECT ts, delta FROM counter_delta ORDER BY ts, series_id"
NAME = "preemptions_total"


def counter(points: list[tuple[float, float | None]], **columns: Any) -> Series:
    return series(NAME, points, **columns)


def rises(*given: Series, **window: Any) -> list[tuple[Any, ...]]:
    return rows_of(database(**metrics(*given), **window), SQL)


def total(*given: Series, **window: Any) -> Any:
    return rows_of(database(**metrics(*given), **window), f"SELECT sum(delta) FROM counter_delta WHERE name = '{NAME}'")[0][0]


def test_before_the_first_sample_nothing_is_known() -> None:
    assert rises(counter([(0, 7), (10, 9), (20, 9)])) == [(0, None), (10, 2), (20, 0)]


def test_a_counter_that_falls_began_again_at_zero() -> None:
    con = database(**metrics(counter([(0, 100), (10, 110), (20, 4), (30, 6)])))
    assert rows_of(con, "SELECT ts, delta, began_again FROM counter_delta ORDER BY ts") == [
        (0, None, False),
        (10, 10, False),
        (20, 4, True),
        (30, 2, False),
    ]


def test_a_later_run_counts_from_zero_even_where_it_is_higher() -> None:
    """Runs are told by their time, not by their name: r10 comes after r9."""
    runs = [counter([(100 * n, 5 + n), (100 * n + 10, 8 + n)], run_id=f"r{n}") for n in range(1, 13)]
    assert rises(*runs) == [(t, delta) for n in range(1, 13) for t, delta in ((100 * n, None if n == 1 else 5 + n), (100 * n + 10, 3))]
    con = database(**metrics(*runs))
    assert rows_of(con, "SELECT prev_ts FROM counter_delta WHERE run_id = 'r10' ORDER BY ts") == [(910,), (1000,)]


def test_what_is_unknown_in_between_is_bridged() -> None:
    assert rises(counter([(0, 5), (10, None), (20, 9)])) == [(0, None), (20, 4)]


def test_ranks_and_label_values_are_counters_of_their_own() -> None:
    given = [
        counter([(0, 1), (10, 3)], labels={"engine": "0", "reason": "a"}),
        counter([(0, 100), (10, 101)], labels={"engine": "0", "reason": "b"}),
        counter([(0, 50), (10, 57)], labels={"engine": "1", "reason": "a"}),
    ]
    assert total(*given) == 10
    assert rows_of(database(**metrics(*given)), "SELECT dp, sum(delta) FROM counter_delta GROUP BY dp ORDER BY dp") == [(0, 3), (1, 7)]


def test_a_series_that_appears_later_began_at_zero() -> None:
    """Many counters are exported from their first event on: SGLang's of retracted requests is."""
    always = series("prompt_tokens_total", [(0, 5), (10, 6), (20, 7), (30, 8)])
    con = database(**metrics(always, counter([(20, 3), (30, 4)])))
    assert rows_of(con, f"SELECT prev_ts, ts, delta FROM counter_delta WHERE name = '{NAME}' ORDER BY ts") == [(10, 20, 3), (20, 30, 1)]


def test_what_the_first_scrape_alone_lacks_is_unknown() -> None:
    """It may have been cut."""
    always = series("prompt_tokens_total", [(0, 5), (10, 6), (20, 7)])
    assert total(always, counter([(10, 3), (20, 4)])) == 1


def test_series_that_all_change_their_labels_do_not_begin_again() -> None:
    old = [series(n, [(0, v), (10, v), (20, v)], labels={}) for n, v in ((NAME, 100), ("prompt_tokens_total", 900))]
    new = [series(n, [(30, v), (40, v + 1)], labels={"env": "prod"}) for n, v in ((NAME, 100), ("prompt_tokens_total", 900))]
    assert total(*old, *new) == 1


def test_a_new_series_of_another_input_is_unknown() -> None:
    always = series("prompt_tokens_total", [(t, 5) for t in range(0, 50, 10)])
    assert total(always, counter([(20, 300), (30, 301)], source_id="other")) == 1


STEPS = {"a": 1.0, "b": 15.0, "c": 5.0}


def reading(source: str, first: float, last: float, shift: float = 0.0, **columns: Any) -> Series:
    """An input that reads a counter which rises by 3 each second."""
    step = STEPS[source]
    times = [first + step * n for n in range(int((last - first) / step) + 1)]
    return counter([(t, 1000 + 3 * (t - shift)) for t in times], source_id=source, **columns)


@pytest.mark.parametrize("shift", [-4.0, -0.4, 0.0, 0.4, 4.0])
@pytest.mark.parametrize("span", [(0, 300), (0, 120), (150, 300), (95, 105)], ids=str)
def test_two_inputs_of_one_counter_count_once(span: tuple[float, float], shift: float) -> None:
    """A fine one beside, within, or at an edge of a coarse one; their clocks are not quite the same."""
    fine = reading("a", 100, 200, shift)
    coarse = reading("b", *span)
    first, last = min(100, span[0]), max(200, fine["last_ts"].timestamp() - at(0).timestamp(), (coarse["last_ts"] - at(0)).total_seconds())
    assert total(fine, coarse) == pytest.approx(3 * (last - first), abs=3 * abs(shift) + 1e-6)


def test_three_inputs_count_once() -> None:
    assert total(reading("a", 100, 200), reading("c", 50, 260), reading("b", 0, 300)) == 900
    assert total(reading("a", 0, 60), reading("c", 50, 160), reading("b", 150, 300)) == 900


def test_many_files_of_one_scrape_are_one_counter() -> None:
    files = [counter([(10 * n, 100 + 2 * n)], source_id=f"s{n}") for n in range(12)]
    assert total(*files) == 22
    assert total(*files, files[3] | {"source_id": "copy"}) == 22


def test_files_of_one_scrape_beside_a_long_one() -> None:
    files = [counter([(t, 1000 + 3 * t)], source_id=f"s{t}") for t in (-20, 47, 130, 320)]
    assert total(reading("b", 0, 300), *files) == 3 * 340


def test_labels_of_scrapers_make_no_second_counter() -> None:
    ours = reading("a", 0, 100, labels={"model_name": "m", "engine": "0"})
    theirs = {"model_name": "m", "engine": "0", "instance": "h:1", "job": "vllm", "pod": "p", "env": "prod", "team": "x"}
    assert total(ours, reading("b", 60, 210, labels=theirs)) == 630


def test_one_target_scraped_by_two_jobs_counts_once() -> None:
    jobs = [reading("b", 0, 300, labels={"job": job}) for job in ("a", "b")]
    assert total(*jobs) == 900


def test_a_label_that_one_input_lacks_may_tell_series_apart() -> None:
    before = [counter([(0, 500), (10, 510)], source_id="old")]
    after = [counter([(20, v), (30, v + 1)], labels={"pool": pool}, source_id="new") for pool, v in (("full", 5), ("swa", 700))]
    assert total(*before, *after) == 12


def test_a_rank_that_one_input_does_not_name_is_the_only_one() -> None:
    assert total(reading("a", 0, 100, labels={"engine": "0"}), reading("b", 0, 100)) == 300


def test_a_coarse_input_stands_in_where_the_fine_one_is_silent() -> None:
    times = [*range(0, 60), *range(600, 660)]
    fine = counter([(t, 1000 + 3 * t) for t in times], source_id="a")
    found = rises(fine, reading("b", 0, 650))
    assert sum(d for _, d in found if d is not None) == 3 * 659
    assert len([t for t, _ in found if 60 < t < 600]) == 35


def test_a_restart_that_nothing_else_tells_of_is_seen_between_inputs() -> None:
    old = counter([(0, 1000), (10, 1100)], source_id="a")
    assert total(old, counter([(60, 5), (70, 9), (80, 12)], source_id="b")) == 112


def test_a_late_second_input_is_no_restart() -> None:
    old = counter([(0, 0), (10, 10)], source_id="a")
    assert total(old, counter([(11, 4), (26, 12), (41, 14)], source_id="b")) == 14


@pytest.mark.parametrize("since", [0, 1, 9, 10])
def test_the_first_difference_of_a_window_is_that_of_the_whole(since: float) -> None:
    given = counter([(0, 5), (10, 12), (20, 13)])
    assert [d for t, d in rises(given, since=at(since)) if t > 0] == [7, 1]
    assert rises(given, since=at(11)) == [(20, 1)]
    assert rises(given, until=at(19)) == [(0, None), (10, 7)]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=3, max_size=30),
    st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True),
    st.floats(0, 0.9),
)
def test_the_sum_is_the_rise_whoever_reads_it(steps: list[int], every: list[int], shift: float) -> None:
    """Inputs that read each, each second, ... second, from the first on: last value less first value."""
    level = [100 + sum(steps[:n]) for n in range(len(steps) + 1)]
    given = [counter([(t + shift * i, level[t]) for t in range(0, len(level), n)], source_id=f"s{i}") for i, n in enumerate(every)]
    highest = max(level[t] for n in every for t in range(0, len(level), n))
    found = total(*given)
    # one sample alone tells of no rise
    assert (0.0 if found is None else found) == pytest.approx(highest - level[0])
