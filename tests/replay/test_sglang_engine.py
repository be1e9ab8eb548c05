"""New workloads, served by SGLang's own scheduler here and now, come out of the model the same. `make engines` installs what this needs.

KVPM_SGLANG_PYTHON names another interpreter, KVPM_SGLANG_PATH another folder with the unpacked wheel, KVPM_ENGINE_SEED other workloads.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from sglang_expected import differences, lines
from sglang_workloads import make

ROOT = Path(__file__).parents[2]
ENV = ROOT / ".engines" / "sglang"
PYTHON = Path(os.environ.get("KVPM_SGLANG_PYTHON", ENV / "bin" / "python"))
WHEEL = Path(os.environ.get("KVPM_SGLANG_PATH", ENV / "unpacked"))
ORACLE = Path(__file__).parent / "oracle" / "sglang" / "oracle_sglang.py"
# three of each kind
WORKLOADS = 45


@pytest.mark.engines
def test_new_workloads_are_the_same_step_by_step(tmp_path: Path) -> None:
    if not (PYTHON.exists() and WHEEL.exists()):
        if os.environ.get("CI") == "true":
            pytest.fail(f"no SGLang in {WHEEL}: tools/ensure_sglang.sh installs it")
        pytest.skip("needs SGLang: tools/ensure_sglang.sh installs it")
    first = int(os.environ.get("KVPM_ENGINE_SEED", "1000"))
    names = {}
    for seed in range(first, first + WORKLOADS):
        names[seed], workload = make(seed)
        (tmp_path / f"{seed}.json").write_text(json.dumps(workload))
    # one process for all: most of the time goes into importing the engine
    given = [str(part) for seed in names for part in (tmp_path / f"{seed}.json", tmp_path / str(seed))]
    ran = subprocess.run(
        [PYTHON, ORACLE, *given],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(WHEEL), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    wrong = {}
    for seed, name in names.items():
        steps, requests = (lines(tmp_path / f"{seed}.{what}.jsonl") for what in ("steps", "requests"))
        if found := differences(tmp_path / f"{seed}.json", steps, requests):
            wrong[f"seed {seed}, {name}"] = found
    assert not wrong
