"""Offsets between the clocks of two sources: found where the load tells them, and never claimed where it does not."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import pytest

from analyzer.trace.alignment import Array, Estimate, Signal, estimate_offset, load_from_requests, should_apply

T0 = 1_700_000_000.0


class Server:
    """A made-up server: Poisson arrivals at a rate that wanders, a cap on running requests, a queue before it."""

    def __init__(self, seed: int, seconds: float = 900.0, *, rate: float = 1.2, cap: int = 8, life_s: float = 6.0) -> None:
        rng = np.random.default_rng(seed)
        rates = np.exp(np.cumsum(rng.normal(0, 0.2, int(seconds / 10))))
        rates *= rate / rates.mean()
        self.serve(
            np.sort(np.concatenate([10 * i + rng.uniform(0, 10, rng.poisson(10 * r)) for i, r in enumerate(rates)])), cap, life_s, rng
        )

    def serve(self, arrival: Array, cap: int, life_s: float, rng: np.random.Generator) -> None:
        free = [0.0] * cap
        start, end = [], []
        for at, life in zip(arrival, rng.exponential(life_s, len(arrival)), strict=True):
            start.append(max(at, heapq.heappop(free)))
            end.append(start[-1] + life)
            heapq.heappush(free, end[-1])
        self.arrival, self.start, self.end = arrival, np.array(start), np.array(end)

    def seen(self, ts: Array, hold_s: float) -> list[Signal]:
        """The state at `ts`, seconds since the start."""

        def before(times: Array) -> Array:
            return np.searchsorted(np.sort(times), ts, "right").astype(np.float64)

        running, waiting = before(self.start) - before(self.end), before(self.arrival) - before(self.start)
        return [Signal("running", ts + T0, running, hold_s), Signal("waiting", ts + T0, waiting, hold_s)]

    def scraped(self, interval_s: float = 1.0, first: float = 0.3, until: float = 900.0) -> list[Signal]:
        ts = np.arange(first, until, interval_s)
        return self.seen(ts + np.random.default_rng(7).normal(0, 0.004, len(ts)), max(30.0, 3 * interval_s))

    def logged(self, first: float = 3.6, until: float = 900.0) -> list[Signal]:
        """A line every 10 s, printed in whole seconds."""
        return [replace(s, ts=np.floor(s.ts)) for s in self.seen(np.arange(first, until, 10.0), 30.0)]


def moved(signals: list[Signal], by: float) -> list[Signal]:
    return [replace(s, ts=s.ts + by) for s in signals]


def found(reference: list[Signal], other: list[Signal]) -> Estimate:
    estimate = estimate_offset(reference, other)
    assert estimate is not None
    return estimate


@pytest.mark.parametrize("by", [0.0, 7.0, -41.5, 300.0, -7 * 3600.0, 5.75 * 3600, 12 * 3600.0, -14 * 3600.0, 3600 - 23.0])
def test_a_moved_log_is_found_again(by: float) -> None:
    server = Server(1)
    estimate = found(server.scraped(), moved(server.logged(), by))
    assert estimate.sure
    assert abs(estimate.offset_s + by) <= estimate.resolution_s <= 2
    assert estimate.agreement > 0.9
    assert estimate.signals == ("running", "waiting")


@pytest.mark.parametrize("seed", range(2, 8))
def test_the_offset_changes_its_sign_with_the_roles(seed: int) -> None:
    server = Server(seed)
    scraped, logged = server.scraped(), moved(server.logged(), 1234.0)
    there, back = found(scraped, logged), found(logged, scraped)
    assert there.sure
    assert back.sure
    assert there.offset_s == pytest.approx(-back.offset_s, abs=0.3)
    assert there.offset_s == pytest.approx(-1234.0, abs=there.resolution_s)


@pytest.mark.parametrize("interval_s", [1.0, 5.0, 15.0])
def test_two_sets_of_scrapes_are_brought_together(interval_s: float) -> None:
    server = Server(11, 3600.0, life_s=20.0, rate=0.4)
    estimate = found(server.scraped(5.0, until=3600), moved(server.scraped(interval_s, 2.1, until=3600), -86.0))
    assert estimate.sure
    assert abs(estimate.offset_s - 86.0) <= estimate.resolution_s


def test_client_records_are_compared_by_requests_in_flight() -> None:
    server = Server(12)
    running, waiting = server.scraped()
    load = Signal("load", running.ts, running.value + waiting.value, running.hold_s)
    client = load_from_requests(server.arrival + T0 + 33.0, server.end + T0 + 33.0, T0 + 33.0 + 900)
    estimate = found([running, waiting, load], [client])
    assert estimate.sure
    assert estimate.signals == ("load",)
    assert abs(estimate.offset_s + 33.0) <= estimate.resolution_s


def test_a_short_recording_within_a_long_one_is_placed() -> None:
    server = Server(13, 7200.0)
    part = server.logged(first=3003.0, until=3600.0)
    estimate = found(server.scraped(until=7200.0), moved(part, -2 * 3600.0))
    assert estimate.sure
    assert estimate.offset_s == pytest.approx(7200.0, abs=estimate.resolution_s)
    assert estimate.overlap_s == pytest.approx(600.0)


def test_gaps_and_unknown_values_are_left_out() -> None:
    server = Server(14)
    holed = []
    for signal in server.scraped():
        since = signal.ts - T0
        value = np.where((since > 200) & (since < 260), np.nan, signal.value)
        keep = (since < 400) | (since > 520)
        holed.append(replace(signal, ts=signal.ts[keep], value=value[keep]))
    estimate = found(holed, moved(server.logged(), 61.0))
    assert estimate.sure
    assert estimate.offset_s == pytest.approx(-61.0, abs=estimate.resolution_s)
    assert estimate.overlap_s < 740


def test_lines_of_the_same_second_are_one_state() -> None:
    server = Server(15)
    twice = [replace(s, ts=np.repeat(s.ts, 2), value=np.repeat(s.value, 2)) for s in server.logged()]
    once = found(server.scraped(), server.logged())
    assert found(server.scraped(), twice) == once


@pytest.mark.parametrize("seed", range(20, 28))
def test_another_servers_load_is_never_sure(seed: int) -> None:
    one, two = Server(seed), Server(seed + 100)
    for other in (two.logged(), two.scraped(5.0), two.logged(until=120.0)):
        estimate = estimate_offset(one.scraped(), moved(other, 3600.0))
        assert estimate is None or not estimate.sure


@pytest.mark.parametrize("seed", range(40, 46))
def test_two_runs_of_the_same_overload_are_not_taken_for_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs = []
    for _ in range(2):
        run = Server(seed)
        run.serve(np.sort(rng.uniform(0, 300, rng.poisson(900))), 8, 4.0, rng)
        runs.append(run)
    estimate = estimate_offset(runs[0].scraped(), runs[1].logged())
    assert estimate is None or not estimate.sure


@pytest.mark.parametrize("period_s", [60.0, 300.0])
def test_the_same_burst_again_and_again_is_not_sure(period_s: float) -> None:
    ts = np.arange(0.0, 3600.0)
    value = np.maximum(0.0, 40 - np.abs(ts % period_s - 30) * 2)
    scraped = [Signal("running", T0 + ts + 0.2, value, 30.0)]
    logged = [Signal("running", T0 + ts[::10], value[::10], 30.0)]
    for by in (0.0, 130.0, 3600.0):
        assert not found(scraped, moved(logged, by)).sure


@pytest.mark.parametrize(("seed", "period_s"), [(50, 120.0), (51, 60.0), (52, 300.0), (89, 300.0)])
def test_bursts_of_two_different_times_are_not_sure(seed: int, period_s: float) -> None:
    rng = np.random.default_rng(seed)
    server = Server(seed)
    bursts = [start + rng.uniform(0, 25, rng.poisson(period_s / 2)) for start in np.arange(20.0, 1800.0, period_s)]
    server.serve(np.sort(np.concatenate(bursts)), 16, 5.0, rng)
    estimate = estimate_offset(server.scraped(until=900.0), server.logged(first=900.6, until=1800.0))
    assert estimate is None or not estimate.sure


@pytest.mark.parametrize(("seed", "interval_s"), [(112, 15.0), (128, 5.0), (216, 15.0)])
def test_two_servers_with_the_same_schedule_of_bursts_are_not_sure(seed: int, interval_s: float) -> None:
    rng = np.random.default_rng(seed)
    one, two = Server(seed, 20.0), Server(seed, 20.0)
    for server in (one, two):
        server.serve(
            np.sort(np.concatenate([start + rng.uniform(0, 25, rng.poisson(60)) for start in np.arange(20.0, 400.0, 120.0)])), 4, 1.5, rng
        )
    assert not found(one.scraped(interval_s, until=400.0), two.scraped(15.0, first=1.0, until=400.0)).sure


def test_a_plateau_at_the_cap_is_not_sure() -> None:
    ts = np.arange(0.0, 600.0)
    value = np.where((ts > 20) & (ts < 580), 2.0, 0.0)
    estimate = estimate_offset([Signal("running", T0 + ts, value, 30.0)], [Signal("running", T0 + ts[::10] + 50, value[::10], 30.0)])
    assert estimate is not None
    assert not estimate.sure


def test_a_load_of_nothing_or_one_request_is_not_sure_elsewhere() -> None:
    one, two = (Server(seed, rate=0.03, cap=1, life_s=4.0) for seed in (60, 61))
    estimate = estimate_offset(one.scraped(), two.logged())
    assert estimate is None or not estimate.sure


def test_an_overlap_at_the_edges_only_is_not_sure() -> None:
    server = Server(50, 1800.0)
    assert not found(server.scraped(), server.logged(first=700.6, until=1800.0)).sure
    assert found(server.scraped(), server.logged(first=400.6, until=1300.0)).sure


def flat(n: int = 60, value: float = 2.0) -> list[Signal]:
    return [Signal("running", T0 + 10.0 * np.arange(n), np.full(n, value), 30.0)]


@pytest.mark.parametrize(
    "other",
    [
        [],
        flat(),
        flat(0),
        flat(1),
        flat(value=np.nan),
        [Signal("queue", T0 + np.arange(60.0), np.arange(60.0), 30.0)],
        [Signal("running", T0 + 1e6 + np.arange(60.0), np.arange(60.0), 30.0)],
        [Signal("running", T0 + np.arange(3.0), np.arange(3.0), 30.0)],
    ],
    ids=["no signal", "flat", "empty", "one sample", "unknown", "another name", "out of reach", "three samples"],
)
def test_what_tells_nothing_gives_no_estimate(other: list[Signal]) -> None:
    scraped = Server(63).scraped()
    assert estimate_offset(scraped, other) is None
    assert estimate_offset(other, scraped) is None


def test_requests_in_flight_are_counted_between_arrival_and_end() -> None:
    load = load_from_requests(np.array([10.0, 12.0, 12.0, 40.0]), np.array([15.0, np.nan, 13.0, 41.0]), 20.0)
    assert load.ts.tolist() == [10.0, 12.0, 13.0, 15.0, 20.0]
    assert load.value[:-1].tolist() == [1.0, 3.0, 2.0, 1.0]
    assert np.isnan(load.value[-1])
    assert load.name == "load"


def test_no_requests_are_an_empty_load() -> None:
    assert len(load_from_requests(np.array([]), np.array([]), 20.0).ts) == 0
    assert len(load_from_requests(np.array([np.nan]), np.array([5.0]), 20.0).ts) == 0


SURE = Estimate(-7200.4, 1.0, 0.98, None, 900.0, ("running",), True, 0.4)


@pytest.mark.parametrize(
    ("estimate", "zone_was_assumed", "applied"),
    [
        (SURE, False, -7200.4),
        (SURE, True, -7200.4),
        (replace(SURE, resolution_s=8.0, offset_s=-7205.0), True, -7200.0),
        (replace(SURE, resolution_s=8.0, offset_s=-7205.0), False, -7205.0),
        (replace(SURE, resolution_s=8.0, offset_s=-7260.0), True, -7260.0),
        (replace(SURE, sure=False), True, None),
        (replace(SURE, offset_s=2.5), False, None),
        (replace(SURE, offset_s=31.0, agreement_at_zero=0.97), False, None),
        (replace(SURE, offset_s=31.0, agreement_at_zero=0.6), False, 31.0),
    ],
)
def test_only_a_sure_and_needed_offset_is_applied(estimate: Estimate, zone_was_assumed: bool, applied: float | None) -> None:
    assert should_apply(estimate, zone_was_assumed=zone_was_assumed) == applied
