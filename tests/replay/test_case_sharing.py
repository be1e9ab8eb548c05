"""Which requests share which prefix, from how much of the pool they were seen to hold together."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from analyzer.replay.case.cached_counts import split_cached
from analyzer.replay.case.first_admissions import Admission, first_ones
from analyzer.replay.case.pool_seen import PoolSeen, Report, Shared
from analyzer.replay.case.prefixes import by_cached_tokens, by_hit_share_and_pool
from analyzer.replay.case.told import Told
from analyzer.replay.workload import Request

PREFIX = 1000


def _told(name: int, arrival_s: float, cached: int | None, *, lasts_s: float = 10.0, prompt: int = 1200) -> Told:
    return Told(Request(f"r{name}", arrival_s, prompt, 100, 100), arrival_s, arrival_s + lasts_s, cached)


def _load(prefixes: int, *, seed: int, n: int = 300) -> tuple[list[Told], list[int]]:
    """Requests with one of so many prefixes each, the first of each of which computed it; and which."""
    rng = random.Random(seed)
    told, which, at, seen = [], [], 0.0, set()
    for k in range(n):
        at += rng.expovariate(1.0)
        chosen = rng.randrange(prefixes)
        told.append(_told(k, at, PREFIX if chosen in seen else 0, lasts_s=rng.uniform(5.0, 15.0)))
        which.append(chosen)
        seen.add(chosen)
    return told, which


def _running(told: Sequence[Told], at_s: float) -> list[int]:
    return [i for i, t in enumerate(told) if t.request.arrival_s <= at_s < (t.finish_s or 0.0)]


def _pool(told: Sequence[Told], which: Sequence[int], *, off: float = 0.0, capacity: int = 500_000) -> PoolSeen:
    """What a pool would have reported every second; `off` is by how many requests the reports differ from the records."""
    reports = []
    for second in range(int(told[-1].request.arrival_s)):
        at = second + 0.25
        runs = _running(told, at)
        own = sum(200 + 100 * (at - told[i].request.arrival_s) / ((told[i].finish_s or 0.0) - told[i].request.arrival_s) for i in runs)
        reports.append(Report(at, len(runs) + off, own + PREFIX * len({which[i] for i in runs})))
    return PoolSeen(capacity, 1, tuple(reports))


def _in_use(told: Sequence[Told], requests: Sequence[Request], which: Sequence[int], pool: PoolSeen) -> float:
    """By how many the prefixes in use at a time are off, on average."""
    runs = [_running(told, r.at_s) for r in pool.reports]
    off = [len({requests[i].prefix for i in now}) - len({which[i] for i in now}) for now in runs]
    return sum(abs(o) for o in off) / len(off)


@pytest.mark.parametrize("prefixes", [1, 5, 40])
def test_as_many_prefixes_are_in_use_as_the_pool_held(prefixes: int) -> None:
    told, which = _load(prefixes, seed=prefixes)
    pool = _pool(told, which)
    requests = by_cached_tokens(told, pool)
    assert _in_use(told, requests, which, pool) < 0.5
    assert len({r.prefix for r in requests}) == prefixes


def test_the_order_of_misses_alone_takes_late_ones_for_requests_without_a_prefix() -> None:
    told, which = _load(40, seed=40)
    late = [t if k % 3 else Told(t.request, t.first_token_s, t.finish_s, 0) for k, t in enumerate(told)]
    pool = _pool(told, which)
    assert _in_use(late, by_cached_tokens(late, pool), which, pool) < 1.0
    assert len({r.prefix for r in by_cached_tokens(late) if r.prefix}) == 1


def test_a_share_of_hits_is_spread_over_as_many_prefixes_as_the_pool_held() -> None:
    told, which = _load(5, seed=3)
    pool = _pool(told, which)
    requests = by_hit_share_and_pool(told, PREFIX / 1200, pool)
    assert len({r.prefix for r in requests}) <= 6
    assert {sum(n for _, n in r.prefix) for r in requests} == {PREFIX}
    assert _in_use(told, requests, which, pool) < 0.7


def test_a_miss_takes_a_prefix_that_can_have_been_thrown_out() -> None:
    quiet = [_told(k, 20.0 * k, 0 if k < 4 else PREFIX, lasts_s=5.0) for k in range(12)]
    late = [*quiet, _told(12, 300.0, 0), _told(13, 320.0, PREFIX)]
    which = [*range(4), *([3] * 8), 0, 0]
    roomy, narrow = (by_cached_tokens(late, _pool(late, which, capacity=c)) for c in (500_000, 3000))
    assert len({r.prefix for r in roomy}) == 5, "nothing was ever thrown out"
    assert len({r.prefix for r in narrow}) == 4
    assert narrow[12].prefix == narrow[0].prefix, "the one used longest ago"


def test_a_longer_prefix_was_brought_by_one_that_found_its_beginning() -> None:
    short = [_told(k, 10.0 * k, 0 if k == 0 else 400, lasts_s=5.0) for k in range(4)]
    # two at a time, and the pool holds them whole: they have nothing in common, and nobody came that found nothing
    pairs = [_told(4 + k, 100.0 + 20 * (k // 2) + k % 2, PREFIX) for k in range(8)]
    told = [*short, *pairs]
    pool = PoolSeen(50_000, 1, tuple(Report(t.request.arrival_s + 2.5, 2, 2 * 1225) for t in pairs[::2]))
    requests = by_cached_tokens(told, pool)
    assert {sum(n for _, n in r.prefix) for r in requests[4:]} == {PREFIX}
    brought = [r for r in requests[:4] if len(r.prefix) == 2]
    assert brought
    assert brought[0].prefix in {r.prefix for r in requests[4:]}
    assert brought[0].prefix[0] == requests[0].prefix[0], "the beginning is shared still"


def test_reports_that_do_not_agree_with_the_records_tell_nothing() -> None:
    told, which = _load(5, seed=1, n=50)
    pool = _pool(told, which, off=5.0)
    assert Shared(told, pool).next(0.0, 1e9) is None
    at_s, tokens = Shared(told, _pool(told, which)).next(10.0, 1e9) or (0.0, 0.0)
    runs = _running(told, at_s)
    assert tokens == pytest.approx(PREFIX * (len(runs) - len({which[i] for i in runs})), abs=len(runs))


def test_stamps_of_whole_seconds_are_of_any_moment_in_them() -> None:
    told = [Told(Request("a", 0.6, 100, 10, 10), 0.6, 9.0), Told(Request("b", 0.6, 100, 10, 10), 0.6, 9.0)]
    report = Report(0.0, 2, 150.0)
    assert Shared(told, PoolSeen(1000, 1, (report,))).next(0.0, 9.0) is None
    assert Shared(told, PoolSeen(1000, 1, (report,), whole_seconds=True)).next(0.0, 9.0) == (0.0, 52.0)


def test_a_few_tokens_more_than_a_prefix_are_chance() -> None:
    told = [Told(_told(k, float(k), 0).request, k + 0.1, k + 0.5, 0 if k == 0 else 257 if k % 9 == 0 else 256) for k in range(40)]
    assert {n for r in by_cached_tokens(told) for _, n in r.prefix} == {256}
    one_token = [Told(t.request, t.first_token_s, t.finish_s, k % 2) for k, t in enumerate(told)]
    assert not any(r.prefix for r in by_cached_tokens(one_token))


@pytest.mark.parametrize(
    ("total", "n", "near", "expected"),
    [
        (2600, 2, {2600: 5, 1200: 9}, [0, 2600]),
        (2400, 3, {2600: 5, 1200: 9}, [0, 1200, 1200]),
        (3800, 2, {2600: 5, 1200: 9}, [1200, 2600]),
        # 2,400 is three of 800 or two of 1,200: what is usual at the time
        (2400, 3, {800: 9, 1200: 1}, [800, 800, 800]),
        (2400, 3, {800: 1, 1200: 9}, [0, 1200, 1200]),
        (1300, 2, {2600: 5}, []),
        (0, 3, {2600: 5}, [0, 0, 0]),
    ],
)
def test_cached_tokens_of_a_line_are_split_into_usual_counts(total: int, n: int, near: dict[int, int], expected: list[int]) -> None:
    assert split_cached(total, n, Counter(near)) == expected


def test_prompts_tell_which_admission_was_a_second_one() -> None:
    lengths = [300, 310, 320, 330, 340, 350, 360, 370]

    def admission(prompt: int, *, again: bool = False) -> Admission:
        return Admission(0.0, 0, 1, 0.0, float(prompt), again=again)

    # a retracted request of 555 came back after the fourth; the order of the queue says after the sixth
    seen = [*(admission(p) for p in lengths[:4]), admission(555), admission(340), admission(350, again=True), *map(admission, lengths[6:])]
    assert [round(a.prompt_tokens) for a in first_ones(seen, lengths)] == lengths
    # where prompts tell nothing it is the queue's word
    alike = [Admission(0.0, 0, 1, float(k), 300.0, sharing=2, again=k == 6) for k in range(9)]
    assert [a.cached_tokens for a in first_ones(alike, lengths)] == [0, 1, 2, 3, 4, 5, 7, 8]
