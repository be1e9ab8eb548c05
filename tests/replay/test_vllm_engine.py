"""New workloads, served by vLLM's own scheduler here and now, come out of the model the same. `make engines` installs what this needs.

KVPM_VLLM_PYTHON names another interpreter, KVPM_ENGINE_SEED other workloads.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from vllm_expected import differences
from vllm_workloads import make

PYTHON = Path(os.environ.get("KVPM_VLLM_PYTHON", Path(__file__).parents[2] / ".engines" / "vllm" / "bin" / "python"))
ORACLE = Path(__file__).parent / "oracle" / "vllm" / "oracle_vllm.py"
WORKLOADS = 40


@pytest.mark.engines
def test_new_workloads_are_the_same_step_by_step(tmp_path: Path) -> None:
    if not PYTHON.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"no {PYTHON}: tools/ensure_vllm.sh installs it")
        pytest.skip("needs vLLM: tools/ensure_vllm.sh installs it")
    first = int(os.environ.get("KVPM_ENGINE_SEED", "1000"))
    workloads = {seed: make(seed) for seed in range(first, first + WORKLOADS)}
    given = []
    for seed, workload in workloads.items():
        (tmp_path / f"{seed}.json").write_text(json.dumps(workload))
        given += [str(tmp_path / f"{seed}.json"), str(tmp_path / str(seed))]
    # one process for all: most of the time goes into importing the engine
    ran = subprocess.run(
        [PYTHON, ORACLE, *given],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "VLLM_TARGET_DEVICE": "cpu", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        # a workload whose requests preempt each other for ever would never end
        timeout=1200,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    wrong = {}
    for seed, workload in workloads.items():
        steps, requests = (
            [json.loads(line) for line in (tmp_path / f"{seed}.{what}.jsonl").read_text().splitlines()] for what in ("steps", "requests")
        )
        if found := differences(workload, steps, requests):
            wrong[seed] = found
    assert not wrong
