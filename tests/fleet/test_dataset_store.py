"""The files of a dataset: a capture's parts replace its own earlier ones, whatever ended the run before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from analyzer.cli.group import cli
from analyzer.errors import KvpmError
from analyzer.fleet.dataset import store
from analyzer.fleet.dataset.extract import ROWS, partition_name
from analyzer.fleet.dataset.reader import Dataset, dataset_in
from analyzer.fleet.dataset.schema import PARTITIONED


def made(folder: Path, stem: str, **instances: int) -> Path:
    """What a worker made of a capture: so many minutes of each of these servers."""
    at = folder / f"made-{stem}"
    schema = pa.schema([f for f in PARTITIONED["minutes"].arrow if f.name not in ("day", "instance")])
    for name, count in instances.items():
        part = at / "minutes" / "day=2026-11-30" / f"instance={name}" / f"{stem}.0.parquet"
        part.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist([{"capture": stem, "running": n} for n in range(count)], schema=schema), part)
    at.mkdir(exist_ok=True)
    incident = {
        "capture": stem, "instance": "a", "cause": "l1_bound", "confidence": "high", "start_ts": "2026-11-30T07:00:00Z", "end_ts": None,
        "duration_s": None, "waiting_peak": 3, "kv_usage_peak": 0.5, "ttft_p99_peak_s": None,
    }  # fmt: skip
    (at / ROWS).write_text(json.dumps({"captures": [], "instances": [], "incidents": [incident]}))
    return at


def counted(folder: Path) -> dict[str, int]:
    with Dataset(folder) as dataset:
        return dict(dataset.con.execute("SELECT instance, count(*) FROM minutes GROUP BY instance").fetchall())


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "dataset"
    store.begin(folder)
    return folder


def test_parts_replace_those_of_the_same_capture_and_no_others(dataset: Path, tmp_path: Path) -> None:
    store.replace(dataset, "one", made(tmp_path, "one", a=2, b=3))
    store.replace(dataset, "two", made(tmp_path, "two", a=10))
    assert counted(dataset) == {"a": 12, "b": 3}
    store.replace(dataset, "one", made(tmp_path / "again", "one", a=1, c=4))
    assert counted(dataset) == {"a": 11, "c": 4}
    assert not (dataset / "minutes/day=2026-11-30/instance=b").exists()
    assert store.holds(dataset, "one")
    next((dataset / "minutes/day=2026-11-30/instance=c").iterdir()).unlink()
    assert not store.holds(dataset, "one")


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_run_that_ended_between_two_steps_is_gone_on_with(
    step: int, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.replace(dataset, "one", made(tmp_path, "one", a=2, b=3))
    steps = 0

    def ended(function: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps > step:
                raise KeyboardInterrupt
            return function(*given, **more)

        return call

    again = made(tmp_path / "again", "one", c=5, d=7)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", ended(Path.replace))
        with pytest.raises(KeyboardInterrupt):
            store.replace(dataset, "one", again)
    assert not store.holds(dataset, "one")
    store.replace(dataset, "one", made(tmp_path / "third", "one", c=6))
    assert counted(dataset) == {"c": 6}


def test_what_is_no_capture_any_more_leaves_nothing(dataset: Path, tmp_path: Path) -> None:
    for stem in ("one", "two"):
        store.replace(dataset, stem, made(tmp_path, stem, a=2))
    store.finish(dataset, ["one"])
    assert counted(dataset) == {"a": 2}
    with Dataset(dataset) as opened:
        assert opened.con.execute("SELECT capture, start_ts::VARCHAR, end_ts FROM incidents").fetchall() == [
            ("one", "2026-11-30 07:00:00+00", None)
        ]
    store.finish(dataset, [])
    assert counted(dataset) == {}
    assert [p.name for p in sorted(dataset.rglob("*.parquet"))] == ["captures.parquet", "incidents.parquet", "instances.parquet"]


def test_nothing_but_parts_is_ever_removed(dataset: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.parquet"
    mine.write_text("mine")
    outside = ["../mine.parquet", str(mine), "minutes/../../mine.parquet", "other/day=1/instance=1/x.parquet", "captures.parquet"]
    (dataset / ".captures" / "one.json").write_text(json.dumps({"parts": outside, "rows": None}))
    store.remove(dataset, "one")
    assert mine.read_text() == "mine"


def test_a_dataset_is_known_in_its_own_folder_and_in_that_of_its_batch(dataset: Path, tmp_path: Path) -> None:
    assert dataset_in(dataset) == dataset_in(tmp_path) == dataset
    assert dataset_in(tmp_path / "nothing") is None
    said = dataset / store.FILE
    said.write_text(said.read_text().replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(KvpmError, match="has dataset format 2"):
        Dataset(dataset)


def test_a_name_without_room_in_a_path_is_cut_and_stays_apart() -> None:
    assert partition_name("10.0.0.1:30000") == "10.0.0.1:30000"
    a, b = (partition_name("服务器" * 60 + end) for end in "ab")
    assert a != b
    assert len(a.encode()) < 200


def test_of_a_thousand_captures_each_counts_once(dataset: Path, tmp_path: Path) -> None:
    for again in (0, 1):
        for n in range(0, 1000, 1 + 9 * again):
            store.replace(dataset, f"pod-{n}", made(tmp_path / str(again), f"pod-{n}", **{f"i{n % 7}": 2 + again}))
    store.finish(dataset, [f"pod-{n}" for n in range(1000)])
    with Dataset(dataset) as opened:
        ask = "SELECT count(DISTINCT capture), count(*) FROM minutes UNION ALL SELECT count(DISTINCT capture), count(*) FROM incidents"
        # a tenth of them were made again, with a row more
        assert opened.con.execute(ask).fetchall() == [(1000, 2100), (1000, 1000)]


def test_the_command_line_asks_a_dataset_as_it_asks_a_trace(dataset: Path, tmp_path: Path) -> None:
    store.replace(dataset, "one", made(tmp_path, "one", a=2))
    store.finish(dataset, ["one"])
    run = CliRunner().invoke
    told = run(cli, ["sql", str(tmp_path), "SELECT cause, incidents FROM cause_by_hour", "--csv"])
    assert (told.exit_code, told.output.split()) == (0, ["cause,incidents", "l1_bound,1"])
    listed = run(cli, ["sql", str(dataset)])
    assert all(name in listed.output for name in ("minutes", "wave_order", "fleet_headroom"))
    assert "_in_wave" not in listed.output
    refused = run(cli, ["sql", str(dataset), "FROM wave", "--since", "07:00"])
    assert (refused.exit_code, "WHERE day" in refused.output) == (2, True)
    wrong = run(cli, ["sql", str(dataset), "FROM nothing"])
    assert isinstance(wrong.exception, KvpmError)


@pytest.mark.parametrize("command", [["batch", "x", "-o", "out"], ["ingest", "x"]])
def test_a_cluster_has_no_processes_here(command: list[str]) -> None:
    refused = CliRunner().invoke(cli, [*command, "--cluster", "tcp://127.0.0.1:9", "--jobs", "2"])
    assert (refused.exit_code, "--jobs" in refused.output) == (2, True)
