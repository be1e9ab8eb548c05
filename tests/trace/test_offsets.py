"""Clocks of sources that tell of one server: given offsets, and what shared signals tell."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from trace_logs import rows

import analyzer.trace.clock_signals
from analyzer.errors import KvpmError
from analyzer.ingestion import IngestOptions, ingest
from analyzer.trace.offset_rules import parse_offset_rules

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
BASE = datetime(2026, 3, 10, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("a=+7h", 25200), ("a=7h", 25200), ("a=-90s", -90), ("a=+1h30m", 5400), ("a=2d", 172800), ("a=0.5", 0.5), ("a=-1m2.5s", -62.5)],
)
def test_offsets_are_durations(text: str, seconds: float) -> None:
    assert [(r.pattern, r.seconds) for r in parse_offset_rules([text])] == [("a", seconds)]


def test_a_path_may_hold_an_equals_sign() -> None:
    assert parse_offset_rules(["dt=2026/a.log=+1h"])[0].pattern == "dt=2026/a.log"


@pytest.mark.parametrize("text", ["a", "a=", "=1h", "a=+", "a=1y", "a=h", "a=1h-", "a=--1h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(KvpmError):
        parse_offset_rules([text])


def load(seed: int, length: int) -> list[tuple[int, int]]:
    """Running and waiting, second by second, of a server whose load comes and goes."""
    dice = random.Random(seed)
    states, running, waiting = [], 0, 0
    for second in range(length):
        rush = 3 if (second // 97) % 3 == 1 else 0.6
        waiting += sum(dice.random() < rush / 4 for _ in range(4))
        running -= sum(dice.random() < 0.12 for _ in range(running))
        take = min(waiting, 10 - running)
        running, waiting = running + take, waiting - take
        states.append((running, waiting))
    return states


def log_of(states: list[tuple[int, int]], start: datetime, every: int = 10) -> str:
    lines = []
    for n in range(0, len(states), every):
        running, waiting = states[n]
        lines.append(
            f"(APIServer pid=7) INFO {start + timedelta(seconds=n):%m-%d %H:%M:%S} [loggers.py:123] Engine 000: "
            "Avg prompt throughput: 9.0 tokens/s, Avg generation throughput: 9.0 tokens/s, "
            f"Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: 9.0%\n"
        )
    return "".join(lines)


def scrapes_of(states: list[tuple[int, int]], start: datetime) -> str:
    return "".join(
        f"# scrape_ts {(start + timedelta(seconds=n)).timestamp()}\nvllm:num_requests_running {r}\nvllm:num_requests_waiting {w}\n"
        for n, (r, w) in enumerate(states)
    )


def told(tmp_path: Path, log: str, metrics: str, **options: object) -> list[tuple[object, ...]]:
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "server.log").write_text(log)
    (folder / "m.prom").write_text(metrics)
    ingest([str(folder)], tmp_path / "t.kvtrace", IngestOptions(**({"year": 2026} | options)))  # type: ignore[arg-type]
    return rows(tmp_path / "t.kvtrace", "SELECT offset_s, offset_from FROM sources ORDER BY path")


@pytest.mark.parametrize("hours", [-8, -0.5, 5.5, 7])
def test_a_log_in_another_zone_moves_to_its_signals(tmp_path: Path, hours: float) -> None:
    states = load(1, 900)
    metrics, log = told(tmp_path, log_of(states, BASE + timedelta(hours=hours)), scrapes_of(states, BASE))
    assert metrics == (None, None)
    assert log == (pytest.approx(-hours * 3600, abs=3), "estimated")
    low, high = rows(tmp_path / "t.kvtrace", "SELECT epoch(min(ts)), epoch(max(ts)) FROM scheduler")[0]
    assert (low, high) == pytest.approx((BASE.timestamp(), BASE.timestamp() + 890), abs=3)


@pytest.mark.parametrize("most", [100, 170])
def test_of_many_reports_a_part_tells_the_same(tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    states = load(1, 1800)
    log = log_of(states, BASE + timedelta(hours=5), every=1)
    monkeypatch.setattr(analyzer.trace.clock_signals, "_MOST_REPORTS", most)
    assert told(tmp_path, log, scrapes_of(states, BASE)) == [(None, None), (pytest.approx(-18000, abs=3), "estimated")]


def test_clocks_that_agree_are_left_alone(tmp_path: Path) -> None:
    states = load(2, 900)
    assert told(tmp_path, log_of(states, BASE), scrapes_of(states, BASE)) == [(None, None), (None, None)]


def test_another_load_moves_nothing(tmp_path: Path) -> None:
    found = told(tmp_path, log_of(load(3, 900), BASE + timedelta(hours=7)), scrapes_of(load(4, 900), BASE))
    assert found == [(None, None), (None, None)]


def test_what_was_given_goes_before_the_estimate(tmp_path: Path) -> None:
    states = load(1, 900)
    rules = parse_offset_rules(["server.log=-1h"])
    _, log = told(tmp_path, log_of(states, BASE + timedelta(hours=7)), scrapes_of(states, BASE), offsets=rules)
    assert log == (-3600.0, "given")
    assert rows(tmp_path / "t.kvtrace", "SELECT round(offset_estimate_s / 3600) FROM sources WHERE offset_s IS NOT NULL") == [(-7.0,)]


def test_a_year_that_was_guessed_wrong_is_mended(tmp_path: Path) -> None:
    """vLLM prints no year: the file's date says 2025 at the latest, the scrapes of the same load say 2026."""
    folder = tmp_path / "s"
    folder.mkdir()
    for name in ("server.log", "metrics.prom.gz"):
        shutil.copy(SAMPLES / "recorded_cap_bound" / name, folder / name)
    old = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
    os.utime(folder / "server.log", (old, old))
    ingest([str(folder)], tmp_path / "t.kvtrace")
    found = rows(tmp_path / "t.kvtrace", "SELECT offset_s / 86400 FROM sources WHERE path LIKE '%server.log'")
    assert found == [(pytest.approx(365, abs=0.001),)]
    assert rows(tmp_path / "t.kvtrace", "SELECT DISTINCT year(ts) FROM scheduler") == [(2026,)]


def test_a_source_that_is_added_later_moves_what_is_stored(tmp_path: Path) -> None:
    states = load(1, 900)
    (tmp_path / "s").mkdir()
    trace = tmp_path / "t.kvtrace"
    (tmp_path / "s" / "server.log").write_text(log_of(states, BASE + timedelta(hours=7)))
    ingest([str(tmp_path / "s")], trace, IngestOptions(year=2026))
    assert rows(trace, "SELECT offset_s FROM sources") == [(None,)]
    (tmp_path / "s" / "m.prom").write_text(scrapes_of(states, BASE))
    for _ in range(2):
        ingest([str(tmp_path / "s")], trace, IngestOptions(year=2026))
        low = rows(trace, "SELECT epoch(min(ts)) FROM scheduler")[0][0]
        assert low == pytest.approx(BASE.timestamp(), abs=3)


@pytest.mark.parametrize("skew", [180, 90, -90, 30])
def test_a_client_on_a_clock_of_its_own_moves_alone(tmp_path: Path, skew: int) -> None:
    """The log is compared with the metrics, not with a client whose clock is off."""
    folder = tmp_path / "s"
    folder.mkdir()
    for name in ("server.log", "metrics.prom.gz"):
        shutil.copy(SAMPLES / "recorded_l1_bound" / name, folder / name)
    with gzip.open(SAMPLES / "recorded_l1_bound" / "client.jsonl.gz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    (folder / "client.jsonl").write_text("".join(json.dumps(r | {"send": r["send"] + skew}) + "\n" for r in records))
    ingest([str(folder)], tmp_path / "t.kvtrace", IngestOptions(year=2026))
    client, metrics, log = rows(tmp_path / "t.kvtrace", "SELECT offset_s FROM sources ORDER BY path")
    assert client == (pytest.approx(-skew, abs=2),)
    assert metrics == (None,)
    assert log == (None,)
