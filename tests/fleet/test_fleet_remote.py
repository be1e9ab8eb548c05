"""Batches of captures in a real S3 store, read by processes here and on a real cluster: nothing twice, whatever dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from dask_cluster import Cluster, dask_cluster, wait_until
from object_store import BUCKET, Store, s3_store

from analyzer.errors import ExitCode, KvpmError
from analyzer.fleet.batch import BatchResult, Options, run_batch
from analyzer.fleet.captures import find_captures
from analyzer.fleet.dataset.reader import Dataset
from analyzer.fleet.model import Reading
from analyzer.ingestion import IngestOptions, ingest
from analyzer.sources.remote import RemoteFile
from analyzer.trace.reader import Trace

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_traces"
FLEET = f"s3://{BUCKET}/fleet"
# Of each sample so many lines: enough for a verdict, and soon read.
LOGS = {"pod-0": ("l1_bound_sglang", 400), "pod-1": ("cap_bound_vllm", 200), "pod-2": ("healthy_vllm", 120)}


def log(name: str, count: int) -> str:
    return "".join((SAMPLES / name / "server.log").read_text(encoding="utf-8").splitlines(keepends=True)[:count])


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_store() as made:
        for pod, (name, count) in LOGS.items():
            made.put(f"fleet/{pod}/server.log", log(name, count))
        made.put("fleet/README.md", "Dear reader,\n")
        yield made


@pytest.fixture(scope="module")
def cluster(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with dask_cluster(tmp_path_factory.mktemp("cluster"), 2) as made:
        yield made


def run(out: Path, *given: str, **options: Any) -> BatchResult:
    return run_batch(given or (FLEET,), out, Options(Reading(year=2026), jobs=1, keep_traces=True, dataset=True, **options))


def files(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def here(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A batch made by processes on this machine."""
    out = tmp_path_factory.mktemp("here") / "out"
    result = run(out)
    assert (result.made, [f.name for f in result.fleet.failures]) == (3, [])
    return out


def test_what_a_url_finds_are_captures_as_of_a_folder(store: Store) -> None:
    def told(*given: str) -> list[tuple[str, tuple[str, ...], bool]]:
        return [(c.name, tuple(s.path.removeprefix(FLEET) for s in c.listed), c.loose) for c in find_captures(given).captures]

    pods = [(p, (f"/{p}/server.log",), False) for p in LOGS]
    assert told(FLEET) == told(f"{FLEET}/") == told(f"{FLEET}/pod-*") == pods
    assert find_captures([FLEET]).skipped[0].what == "README.md"
    assert told(f"{FLEET}/pod-0/server.log") == [("server.log", ("/pod-0/server.log",), False)]
    assert told(f"{FLEET}/pod-0") == [("server.log", ("/pod-0/server.log",), True)]
    assert told(f"{FLEET}/pod-0", f"{FLEET}/pod-1") == pods[:2]
    assert [n for n, _, _ in told(f"{FLEET}/**/server.log")] == [f"{p}/server.log" for p in LOGS]


def test_the_dataset_says_what_the_traces_say(here: Path) -> None:
    with Dataset(here / "dataset") as dataset:
        rows = {
            name: dataset.con.execute(f"SELECT capture, count(*) FROM {name} GROUP BY capture").fetchall()
            for name in ("scheduler", "events")
        }
        causes = dict(dataset.con.execute("SELECT capture, cause FROM captures").fetchall())
        peaks = dict(dataset.con.execute("SELECT capture, max(running) FROM minutes GROUP BY capture").fetchall())
        days = dataset.con.execute("SELECT bool_and(day = ts::DATE), count(DISTINCT instance) FROM scheduler").fetchall()
    for pod in LOGS:
        with Trace(here / "traces" / f"{pod}.kvtrace") as trace:
            for name, found in rows.items():
                ((stored,),) = trace.con.execute(f"SELECT count(*) FROM {name}").fetchall()
                assert dict(found).get(pod, 0) == stored
            assert trace.con.execute("SELECT max(running) FROM timeline").fetchall() == [(peaks[pod],)]
    assert set(causes) == set(LOGS)
    assert days == [(True, 3)]


def test_a_question_opens_the_files_of_its_day_and_server_only(here: Path) -> None:
    with Dataset(here / "dataset") as dataset:
        instance, day = dataset.con.execute("SELECT instance, day FROM minutes WHERE capture = 'pod-1' LIMIT 1").fetchall()[0]
        for condition in (f"instance = '{instance}'", f"day = '{day}'"):
            ((_, plan),) = dataset.con.execute(f"EXPLAIN ANALYZE SELECT max(running) FROM minutes WHERE {condition}").fetchall()
            assert re.search(r"Scanning Files: 1/3", plan), plan


def test_the_next_run_reads_nothing_and_a_changed_object_only_is_made_again(
    here: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(here)
    with monkeypatch.context() as patched:
        patched.setattr(RemoteFile, "open", lambda *_: pytest.fail("an object was read"))
        assert run(here).kept == 3
    assert files(here) == before
    assert not [name for name, content in before.items() if b"test-secret" in content or str(here).encode() in content]
    try:
        store.put("fleet/pod-2/server.log", log("healthy_vllm", 130))
        result = run(here)
        assert (result.made, result.kept) == (1, 2)
    finally:
        store.put("fleet/pod-2/server.log", log("healthy_vllm", 120))
    # as it was, it gives what it gave
    assert run(here).made == 1
    assert {n: c for n, c in files(here).items() if n != "batch.json"} == {n: c for n, c in before.items() if n != "batch.json"}


def test_a_cluster_gives_the_same_bytes_also_when_a_worker_is_killed(cluster: Cluster, here: Path, tmp_path: Path) -> None:
    spare, out = cluster.add(), tmp_path / "out"
    cluster.ready()
    asked = Options(Reading(year=2026), keep_traces=True, dataset=True, cluster=cluster.address)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(run_batch, [FLEET], out, asked)
        # three captures and three workers: this one has one of them by now
        wait_until(lambda: any(p.name.startswith("kvpm-") for p in (cluster.folder / "worker-2").rglob("*")))
        spare.kill()
        made = result.result()
    assert (made.made, made.fleet.failures) == (3, ())
    assert files(out) == files(here)


def test_a_batch_that_is_killed_goes_on_where_it_was(here: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "analyzer", "batch", FLEET, "-o", str(out), "--year", "2026", "--jobs", "1", "--traces", "--dataset"]
    batch = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list((out / "dataset" / ".captures").glob("*.json"))) >= 2 or batch.poll() is not None)
    assert batch.poll() is None
    os.kill(batch.pid, signal.SIGKILL)
    batch.wait()
    result = run(out)
    assert result.made + result.kept == 3
    assert files(out) == files(here)


def test_a_trace_read_on_a_cluster_is_the_one_read_here(cluster: Cluster, store: Store, tmp_path: Path) -> None:
    mine = tmp_path / "server.log"
    mine.write_text(log("crash_vllm", 100))
    table = pa.table({"timestamp": [1_773_144_000.0], "metric": ["vllm:num_requests_waiting"], "value": [3.0], "instance": ["pod-9"]})
    pq.write_table(table, tmp_path / "m.parquet")
    store.put("more/m.parquet", (tmp_path / "m.parquet").read_bytes())
    store.put("more/notes.txt", "Dear reader,\n")
    given = [f"{FLEET}/pod-0", f"{FLEET}/pod-1/server.log", f"s3://{BUCKET}/more", str(mine)]
    options = IngestOptions(UTC, 2026)
    here = ingest(given, tmp_path / "here.kvtrace", options)
    there = ingest(given, tmp_path / "there.kvtrace", replace(options, cluster=cluster.address))
    assert here.problems == there.problems
    assert here.manifest.totals == there.manifest.totals
    assert here.manifest.totals["samples"] == 1
    assert files(here.trace) == files(there.trace)
    # what is there already costs no cluster
    assert ingest(given[:2], there.trace, replace(options, cluster="tcp://127.0.0.1:9")).problems == []


def test_what_cannot_be_read_there_is_told_of_that_input(
    cluster: Cluster, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def died(_address: str, tasks: Any, **_more: Any) -> Iterator[tuple[str, Any]]:
        yield from ((key, {"died": -9}) for key, _ in tasks)

    monkeypatch.setattr("analyzer.fleet.cluster_reading.run_all_on", died)
    with pytest.raises(KvpmError, match="cannot be read: its process was ended by SIGKILL") as error:
        ingest([f"{FLEET}/pod-0"], tmp_path / "t.kvtrace", IngestOptions(UTC, 2026, cluster=cluster.address))
    assert error.value.exit_code == ExitCode.INPUT_CUT
