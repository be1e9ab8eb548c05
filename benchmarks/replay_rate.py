"""How fast an hour of an incident is replayed, beside the engine's own scheduler driven with the same requests.

    python benchmarks/replay_rate.py [--engine vllm] [--minutes 60] [--rate 2] [--seed 1] [--synchronous]
                                     [--engine-python PATH [--engine-path PATH] [--engine-minutes 2]]

Made up is a server with room for 64 requests: prompts of 1,000 to 2,000 tokens, outputs of 500 to 1,500, two requests a second, decode
steps of about 25 ms, and a KV pool in which requests queue and are preempted. `--engine-python` is an interpreter that has the engine,
`--engine-path` where its code lies if it is not installed there (tools/ensure_vllm.sh and tools/ensure_sglang.sh make both). Its scheduler
is driven with the first minutes of the same requests, and so is the model once more. The engine's start is taken off. CPU seconds depend
on the machine; the ratio does less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from analyzer.replay.oracle_files import parse
from analyzer.replay.result import Replayed
from analyzer.replay.run import replay
from analyzer.replay.workload import Distinct

ORACLES = Path(__file__).resolve().parents[1] / "tests" / "replay" / "oracle"
POOL_TOKENS = 96_000
CONFIG: dict[str, dict[str, Any]] = {
    "vllm": {
        "num_blocks": POOL_TOKENS // 16 + 1,
        "block_size": 16,
        "max_num_seqs": 64,
        "max_num_batched_tokens": 2048,
        "max_model_len": 8192,
    },
    "sglang": {
        "max_total_num_tokens": POOL_TOKENS,
        "page_size": 1,
        "max_running_requests": 64,
        "chunked_prefill_size": 2048,
        "max_prefill_tokens": 16384,
        "schedule_conservativeness": 0.3,
        "schedule_policy": "fcfs",
        "disable_radix_cache": False,
        "context_length": 8192,
    },
}
# seconds of a step: of its own, per token, per request
COST = {"a": 0.012, "b": 0.00008, "c": 0.0001}


def workload(options: argparse.Namespace, minutes: float) -> dict[str, Any]:
    """Poisson arrivals, as the oracles read them; of one seed, the shorter workload is the beginning of the longer one."""
    dice, at = random.Random(options.seed), 0.0
    rows: list[dict[str, Any]] = []
    while (at := at + dice.expovariate(options.rate)) < minutes * 60:
        prompt, output = dice.randint(1000, 2000), dice.randint(500, 1500)
        rows.append({"id": len(rows), "arrival": round(at, 4), "prompt_len": prompt, "output_len": output})
    ahead = {"vllm": "async", "sglang": "overlap"}[options.engine]
    return {"config": CONFIG[options.engine] | {ahead: not options.synchronous}, "cost": COST, "requests": rows}


def model(document: dict[str, Any]) -> tuple[float, Replayed]:
    """CPU seconds of one replay, and what it gave."""
    read = parse(document)
    # no two of the texts are equal anywhere, so none has to be made up
    requests = read.workload.requests
    distinct = replace(read.workload, contents=Distinct(requests))
    begun = time.process_time()
    replayed = replay(distinct, read.settings, read.step_time)
    return time.process_time() - begun, replayed


def engine(options: argparse.Namespace, document: dict[str, Any]) -> tuple[float, int]:
    """CPU seconds of the engine's scheduler over the same, and its steps."""
    oracle = ORACLES / options.engine / f"oracle_{options.engine}.py"
    environment = os.environ | {"VLLM_TARGET_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    if options.engine_path:
        environment["PYTHONPATH"] = options.engine_path
    took = []
    with tempfile.TemporaryDirectory() as folder:
        for requests in (document["requests"][:1], document["requests"]):
            given, out = Path(folder, "workload.json"), Path(folder, "out")
            given.write_text(json.dumps(document | {"requests": requests}))
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([options.engine_python, oracle, given, out], env=environment, check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        steps = Path(f"{out}.steps.jsonl").read_bytes().count(b"\n")
    return took[1] - took[0], steps


def main() -> None:
    """Print both, per step and as a ratio."""
    options = arguments()
    document = workload(options, options.minutes)
    seconds, replayed = model(document)
    curves = replayed.curves
    steps = sum(curves.steps)
    mean = sum(n * running for n, running in zip(curves.steps, curves.running, strict=True)) / steps
    print(f"{options.engine}: {len(document['requests'])} requests in {options.minutes:g} min, served in {replayed.end_s / 60:.1f} min")
    print(f"{steps} steps, running {mean:.0f} on average and {max(curves.running)} at most, waiting {max(curves.waiting)} at most")
    print(f"{replayed.retractions} retractions or preemptions")
    print(f"model: {seconds:.2f} CPU s, {seconds / steps * 1e6:.1f} us a step")
    if options.engine_python:
        document = workload(options, options.engine_minutes)
        seconds, replayed = model(document)
        took, driven = engine(options, document)
        print(
            f"the first {options.engine_minutes:g} min: {sum(replayed.curves.steps)} steps of the model, {driven} of the engine's scheduler"
        )
        print(f"model {seconds:.2f} CPU s, engine's scheduler {took:.1f} CPU s: {took / seconds:.0f} times as long")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=sorted(CONFIG), default="vllm")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--synchronous", action="store_true", help="without async scheduling (vLLM) or the overlap schedule (SGLang)")
    parser.add_argument("--engine-python")
    parser.add_argument("--engine-path")
    parser.add_argument("--engine-minutes", type=float, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
