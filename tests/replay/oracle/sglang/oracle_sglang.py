"""oracle_sglang.py WORKLOAD.json OUT_PREFIX [WORKLOAD.json OUT_PREFIX ...]: SGLang's own scheduler serves each workload.

Writes OUT_PREFIX.steps.jsonl, .requests.jsonl and .summary.json; what goes wrong with one goes to OUT_PREFIX.error, and the exit
code is 1. See the README beside this.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from pathlib import Path

import sgstubs


def main(arguments: list[str]) -> int:
    """Serve the workloads, one after the other."""
    warnings.filterwarnings("ignore")
    sgstubs.install()
    # not before the stubs are in place
    import sglang_driver

    failed = 0
    for workload, out in zip(arguments[::2], arguments[1::2], strict=True):
        try:
            summary = sglang_driver.run(json.loads(Path(workload).read_text()), out)
            print(Path(out).name, json.dumps(summary), flush=True)
        except Exception:
            Path(out + ".error").write_text(traceback.format_exc())
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
