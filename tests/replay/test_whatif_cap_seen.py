"""The cap on running requests, read off gauges where no start-up line tells it; and what metrics alone cannot tell."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from analyzer import ingest, open_trace
from analyzer.replay.case.cap_seen import cap_seen
from analyzer.replay.case.configured import Configured, configured
from analyzer.replay.model import NoReplay
from analyzer.replay.study import Asked, study

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


def _ingested(name: str, folder: Path, *files: str) -> Path:
    """A trace of these files of a sample, without its log."""
    for file in files:
        shutil.copy(SAMPLES / name / file, folder)
    ingest([str(folder / file) for file in files], folder / "T.kvtrace")
    return folder / "T.kvtrace"


@pytest.mark.parametrize(
    ("name", "cap"),
    [
        ("cap_bound_sglang", 8),
        ("cap_bound_vllm", 8),
        ("recorded_cap_bound", 2),
        # busy with prefill, one request at a time or few
        ("recorded_prefill_bound", None),
        ("prefill_bound_vllm", None),
        # stands still because it hangs
        ("hang_sglang", None),
        ("recorded_l1_bound", None),
        ("healthy_vllm", None),
    ],
)
def test_a_cap_is_where_running_stands_still_while_others_wait(name: str, cap: int | None, tmp_path: Path) -> None:
    with open_trace(_ingested(name, tmp_path, "metrics.prom.gz")) as trace:
        found = trace.con.execute("SELECT DISTINCT instance, run_id FROM run").fetchall()
        assert [cap_seen(trace.con, *run) for run in found] == [cap] * len(found)
        if cap is not None:
            told = configured(trace.con, *found[0])
            assert isinstance(told, Configured)
            row = next(r for r in told.rows if r.name == "max_running")
            assert (told.settings.max_running, row.origin) == (cap, "measured")


def test_steps_that_vllm_does_not_count_are_named_and_what_tells_them(tmp_path: Path) -> None:
    with open_trace(_ingested("recorded_prefill_bound", tmp_path, "metrics.prom.gz", "client.jsonl.gz")) as trace:
        (told,) = study(trace, Asked(grid=False), jobs=1)
    assert isinstance(told, NoReplay)
    assert "no step that ends no prompt" in told.reason
    assert "max_num_batched_tokens" in told.hint
