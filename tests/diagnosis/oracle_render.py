"""Renders what the engines' own schedulers did (tests/data/diagnosis/) as the logs of many versions.

The extracts hold one row per line that SGLang would print (prefill, decode, retraction), and vLLM's gauges and
running totals once a second, so that a stats line of any interval can be made of them. Nothing here is taken
from the generator of sample_traces: two independent renderings are worth more than one.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data" / "diagnosis"
START = datetime(2026, 3, 10, 9, 0, 0)
STARTUP_S = 70.0

Line = tuple[float, str]

SGLANG_VERSIONS = ("0.3.6", "0.4.1", "0.4.6", "0.4.9", "0.5.3", "0.5.5", "0.5.7", "0.5.9", "0.5.12", "0.5.18", "0.5.21", "0.5.23")
VLLM_VERSIONS = ("0.5.5", "0.6.6", "0.8.5", "0.11.2", "0.19.1", "0.32.0", "0.33.0")


@cache
def extract(name: str) -> dict[str, Any]:
    """One extract, for example `sglang_l1_bound`."""
    return json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))


@dataclass(frozen=True, slots=True)
class Options:
    """How the log was written and what of it was kept."""

    version: str
    start_up: bool = True
    scale: float = 1.0  # seconds of log per second of the run: slower hardware
    tp: int = 1
    dp: int | None = None  # this rank's number among several
    ranks: int = 1
    ms: bool = False
    usage: bool = True
    port: int = 30000
    at: datetime = START

    def key(self) -> tuple[int, ...]:
        return tuple(int(p) for p in self.version.split("."))


def text(*streams: list[Line]) -> str:
    """The lines of all streams in the order of time, as one file."""
    merged = sorted((t, n, s) for n, lines in enumerate(streams) for t, s in lines)
    return "".join(s + "\n" for _, _, s in merged)


def render(name: str, options: Options) -> list[Line]:
    """The log of one extract."""
    return render_rows(extract(name), name.partition("_")[0], options)


def render_rows(doc: dict[str, Any], engine: str, options: Options) -> list[Line]:
    """The log of an extract that has `config` and `rows`, of "sglang" or "vllm"."""
    return (_sglang if engine == "sglang" else _vllm)(doc, options)


# -- SGLang


def _sglang(doc: dict[str, Any], o: Options) -> list[Line]:
    version, config = o.key(), doc["config"]
    ranked = o.tp > 1 or version < (0, 4, 6)
    dp = "" if o.dp is None else f" DP{o.dp}"
    out: list[Line] = []

    def line(t: float, message: str, tp: int | None = 0, order: float = 0.0) -> None:
        tag = "" if tp is None else dp + (f" TP{tp}" if ranked else "")
        moment = o.at + timedelta(seconds=t)
        stamp = f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{moment.microsecond // 1000:03d}" if o.ms else "")
        out.append((t + order, f"[{stamp}{tag}] {message}"))

    if o.start_up:
        _sglang_start(config, o, line)
    mark = ", " if version >= (0, 5, 5) else ". "
    tail = ", " if (0, 4, 9) <= version < (0, 5, 9) else ""
    previous = 0
    for r in doc["rows"]:
        t = r["t"] * o.scale
        if r["k"] == "retract":
            said = "KV cache pool is full. Retract requests. " if version >= (0, 4, 9) else "Decode out of memory happened. "
            gained = f"#new_tokens_gained: {r['in'] + r['out'] if 'in' in r else r['n'] * 160}, " if version >= (0, 5, 7) else ""
            aborted = "#aborted_retracted_reqs: 0, " if version[:3] == (0, 5, 3) else ""
            for tp in range(o.tp):
                line(t, f"{said}#retracted_reqs: {r['n']}, {aborted}{gained}#new_token_ratio: {r['a']:.4f} -> {r['b']:.4f}", tp, tp * 1e-3)
        elif r["k"] == "prefill":
            before = version < (0, 5, 9)  # printed when scheduled, without its own batch
            usage = f"token usage: {r['before'] if before else r['after']:.2f}, " if o.usage else ""
            hit = "cache hit rate: 0.00%, " if version < (0, 4, 6) else ""
            head = f"Prefill batch{mark}#new-seq: {r['new']}, #new-token: {r['tok']}, #cached-token: {r['cached']}, {hit}{usage}"
            head += f"#running-req: {r['run']}, #queue-req: {r.get('q_before', r['q']) if before else r['q']}"
            rate = (r["tok"] if version >= (0, 5, 12) else previous) / max(r["d"] * o.scale, 1e-3)
            if version >= (0, 5, 12):
                head += f", #pending-token: {r.get('pending', r['q'] * 90)}, cuda graph: False, input throughput (token/s): {rate:.2f}"
            elif version >= (0, 5, 9):
                head += f", input throughput (token/s): {rate:.2f}, cuda graph: False"
            previous = r["tok"]
            line((r["s"] if before else r["t"]) * o.scale, head + tail)
        else:
            usage = f"#token: {r['used']}, token usage: {r['after']:.2f}, " if o.usage else ""
            graph = "cuda graph: True, " if version >= (0, 4, 6) else ""
            rest = f"{graph}gen throughput (token/s): {r['gen'] / o.scale:.2f}, #queue-req: {r['q']}"
            line(t, f"Decode batch{mark}#running-req: {r['run']}, {usage}{rest}{tail}")
    return out


def _sglang_start(config: dict[str, Any], o: Options, line: Any) -> None:
    version = o.key()
    args = {
        "model_path": "m/x", "host": "0.0.0.0", "port": o.port, "max_running_requests": config["max_running_requests"],
        "chunked_prefill_size": config["chunked_prefill_size"], "max_prefill_tokens": config["max_prefill_tokens"],
        "schedule_policy": "fcfs", "schedule_conservativeness": config["schedule_conservativeness"],
        "page_size": config["page_size"], "tp_size": o.tp, "dp_size": o.ranks, "disable_radix_cache": config["disable_radix_cache"],
    }  # fmt: skip
    shown = repr(args) if version >= (0, 5, 21) else "ServerArgs(" + ", ".join(f"{k}={v!r}" for k, v in args.items()) + ")"
    if not o.dp:
        line(-STARTUP_S, f"server_args={shown}", None)
    line(-STARTUP_S + 5, "Load weight begin. avail mem=78.10 GB")
    chunk = f"chunked_prefill_size={config['chunked_prefill_size']}, " if version >= (0, 4, 6) else ""
    memory = ", available_gpu_mem=9.10 GB" if version >= (0, 4, 9) else ""
    line(
        -8.0,
        f"max_total_num_tokens={config['max_total_num_tokens']}, {chunk}max_prefill_tokens={config['max_prefill_tokens']}, "
        f"max_running_requests={config['max_running_requests']}, context_len={config['context_length']}{memory}",
    )
    if not o.dp:
        line(-2.0, "The server is fired up and ready to roll!", None)


# -- vLLM


def _vllm(doc: dict[str, Any], o: Options) -> list[Line]:
    version, config = o.key(), doc["config"]
    v0 = version < (0, 8)
    out: list[Line] = []
    engine = o.dp or 0
    tag = "" if version < (0, 11) else "(APIServer pid=77) "
    core = {True: "", False: f"(EngineCore_DP{engine} pid=204) "}[version < (0, 11)]
    if version >= (0, 32) and o.dp is None:
        core = "(EngineCore pid=204) "

    def line(t: float, file: str, message: str, process: str = tag, level: str = "INFO") -> None:
        where = f"{file}:123]" if v0 else f"[{file}:123]"
        out.append((t, f"{process}{level} {o.at + timedelta(seconds=t):%m-%d %H:%M:%S} {where} {message}"))

    if o.start_up:
        _vllm_start(config, o, line, core)
    rows = doc["rows"]
    interval = 5.0 if v0 else 10.0
    last = rows[0]
    printed = 0
    was_idle = True
    t = interval
    while t / o.scale <= rows[-1][0]:
        row = rows[min(len(rows) - 1, max(0, round(t / o.scale) - 1))]
        counted = 10 if len(row) > 10 and version >= (0, 19) else 4  # newer ones leave out what the prefix cache had
        prompt, generated = (row[counted] - last[counted]) / interval, (row[5] - last[5]) / interval
        idle = prompt == 0 and generated == 0
        kv = f"GPU KV cache usage: {row[3] * 100:.1f}%"
        if v0:
            while printed * 50 + 1 <= row[6]:
                line(
                    t - 0.5, "scheduler.py",
                    "Sequence group cmpl-7-0 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. "
                    "This can affect the end-to-end performance. Increase "
                    "gpu_memory_utilization or tensor_parallel_size to provide more KV cache "
                    f"memory. total_num_cumulative_preemption={printed * 50 + 1}", level="WARNING",
                )  # fmt: skip
                printed += 1
            usage = f", {kv}, CPU KV cache usage: 0.0%" if o.usage else ""
            state = f"Running: {row[1]} reqs, Swapped: 0 reqs, Pending: {row[2]} reqs{usage}."
        else:
            usage = f", {kv}" if o.usage else ""
            state = f"Running: {row[1]} reqs, Waiting: {row[2]} reqs{usage}, Prefix cache hit rate: {row[7] * 100:.1f}%"
        if not (idle and was_idle):
            who = "" if v0 else f"Engine {engine:03d}: "
            rates = f"Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {generated:.1f} tokens/s, "
            line(t, "metrics.py" if v0 else "loggers.py", who + rates + state)
        was_idle = idle
        last = row
        t += interval
    return out


def _vllm_start(config: dict[str, Any], o: Options, line: Any, core: str) -> None:
    version = o.key()
    blocks, size, length = config["num_blocks"], config["block_size"], config["max_model_len"]
    args = {
        "host": "0.0.0.0", "port": o.port, "model": "m/x", "max_model_len": length, "block_size": size,
        "max_num_seqs": config["max_num_seqs"], "max_num_batched_tokens": config["max_num_batched_tokens"],
    }  # fmt: skip
    if config.get("watermark"):
        args["watermark"] = config["watermark"]
    t = -STARTUP_S
    if version < (0, 11):
        if not o.dp:
            line(t, "api_server.py", f"vLLM API server version {o.version}")
            line(t, "api_server.py", "args: Namespace(" + ", ".join(f"{k}={v!r}" for k, v in args.items()) + ")")
    elif not o.dp:
        line(t, "utils.py", f"non-default args: {args!r}")
    kind = "an LLM" if version < (0, 8) else "a V1 LLM"
    line(t + 10, "core.py", f"Initializing {kind} engine (v{o.version}) with config: model='m/x', max_seq_len={length}", core)
    if version < (0, 8):
        line(t + 50, "gpu_executor.py", f"# GPU blocks: {blocks - 1}, # CPU blocks: 2048")
    else:
        tokens = f"GPU KV cache size: {blocks * size:,} tokens"
        most = f"Maximum concurrency for {length:,} tokens per request: {blocks * size / length:.2f}x"
        if version >= (0, 32):
            line(t + 50, "kv_cache_utils.py", f"{tokens}, {most}", core)
        else:
            line(t + 50, "kv_cache_utils.py", tokens, core)
            line(t + 50, "kv_cache_utils.py", most, core)
    out_of = "launcher.py"
    line(t + 60, out_of, "Available routes are:")


def interleaved(name: str, options: Options, ranks: int) -> str:
    """The same run on several data-parallel ranks, each a little later than the one before, in one file."""
    streams = []
    for dp in range(ranks):
        lines = render(name, replace(options, dp=dp, ranks=ranks))
        streams.append([(t if t < 0 else t + 0.37 * dp, _moved(s, t, 0.37 * dp, options)) for t, s in lines])
    return text(*streams)


def _moved(line: str, t: float, by: float, o: Options) -> str:
    """The line with its stamp moved by some seconds."""
    if t < 0 or by == 0:
        return line
    for form in ("%Y-%m-%d %H:%M:%S", "%m-%d %H:%M:%S"):
        old, new = (f"{o.at + timedelta(seconds=s):{form}}" for s in (t, t + by))
        if old in line:
            return line.replace(old, new, 1)
    raise AssertionError(line)
