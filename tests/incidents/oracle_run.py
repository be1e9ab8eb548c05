"""Runs a folder of workloads through one engine's own scheduler, in one process: `oracle_run.py DRIVER.py FOLDER`.

DRIVER has `run(workload, out_prefix)` and writes `.requests.jsonl`, `.steps.jsonl` and `.summary.json`. It needs that engine installed,
so it runs in an environment of its own and imports nothing of this repository. Runs that are there already are left alone.
"""

import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType


def load(driver: Path) -> ModuleType:
    """The driver, imported from its file."""
    sys.path.insert(0, str(driver.parent))
    spec = importlib.util.spec_from_file_location(driver.stem, driver)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _slow(case: Path) -> bool:
    """Whether there is anything that a knob could remove."""
    p99: float = json.loads((case / "base.summary.json").read_text())["ttft_p99"]
    return p99 >= 1.0


def run_all(driver: Path, folder: Path) -> None:
    """The base of every case first, then, where requests were slow, the same with each knob turned."""
    module = load(driver)
    workloads = [p for p in folder.glob("*/*.json") if not p.name.endswith(".summary.json")]
    for workload in sorted(workloads, key=lambda p: (p.name != "base.json", p)):
        prefix = workload.with_suffix("")
        if prefix.with_suffix(".summary.json").exists() or (prefix.name != "base" and not _slow(workload.parent)):
            continue
        started = time.monotonic()
        module.run(json.loads(workload.read_text()), str(prefix))
        print(f"{workload.parent.name} {workload.stem}: {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    run_all(Path(sys.argv[1]), Path(sys.argv[2]))
