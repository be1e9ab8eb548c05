"""Builders of small logs for the hard cases: a few lines, as an engine would print them."""

from __future__ import annotations

from datetime import datetime, timedelta

BASE = datetime(2026, 3, 10, 12, 0, 0)


def sg(t: float, message: str, tag: str = "") -> str:
    """One SGLang line at t seconds."""
    return f"[{BASE + timedelta(seconds=t):%Y-%m-%d %H:%M:%S}{' ' + tag if tag else ''}] {message}\n"


def sg_start(t: float, capacity: int = 100_000, cap: int = 64, *, tag: str = "", chunk: int = 8192, **args: object) -> str:
    """The start-up lines of SGLang that hold facts."""
    shown = ", ".join(f"{k}={v!r}" for k, v in {"model_path": "m/x", "host": "0.0.0.0", "port": 30000, **args}.items())
    return (
        sg(t, f"server_args=ServerArgs({shown})")
        + sg(
            t + 50,
            f"max_total_num_tokens={capacity}, chunked_prefill_size={chunk}, max_prefill_tokens=16384, max_running_requests={cap}, "
            "context_len=32768, available_gpu_mem=9.10 GB",
            tag,
        )
        + sg(t + 60, "The server is fired up and ready to roll!")
    )


def decode(t: float, running: int, usage: float, queue: int, gen: float = 1000.0, *, capacity: int = 100_000, tag: str = "") -> str:
    """A decode line of 0.5.9 and later."""
    used = round(usage * capacity)
    return sg(
        t,
        f"Decode batch, #running-req: {running}, #token: {used}, token usage: {usage:.2f}, cuda graph: True, "
        f"gen throughput (token/s): {gen:.2f}, #queue-req: {queue}",
        tag,
    )


def prefill(
    t: float, new: int, tokens: int, usage: float, running: int, queue: int, *, cached: int = 0, tps: float = 5000.0, tag: str = ""
) -> str:
    """A prefill line of 0.5.12 and later."""
    return sg(
        t,
        f"Prefill batch, #new-seq: {new}, #new-token: {tokens}, #cached-token: {cached}, token usage: {usage:.2f}, "
        f"#running-req: {running}, #queue-req: {queue}, #pending-token: 0, cuda graph: False, input throughput (token/s): {tps:.2f}",
        tag,
    )


def retract(t: float, requests: int = 1, before: float = 0.1, after: float = 0.5, *, tag: str = "") -> str:
    """A retraction line."""
    return sg(
        t,
        f"KV cache pool is full. Retract requests. #retracted_reqs: {requests}, #new_tokens_gained: 900, "
        f"#new_token_ratio: {before:.4f} -> {after:.4f}",
        tag,
    )


def vl(t: float, message: str, *, file: str = "loggers.py", process: str = "APIServer pid=77", level: str = "INFO") -> str:
    """One vLLM V1 line."""
    return f"({process}) {level} {BASE + timedelta(seconds=t):%m-%d %H:%M:%S} [{file}:123] {message}\n"


def vl_start(t: float, tokens: int = 100_000, cap: int = 64, budget: int = 2048, *, version: str = "0.32.0", pid: int = 77) -> str:
    """The start-up lines of vLLM that hold facts."""
    args = {
        "host": "0.0.0.0", "port": 8000, "model": "m/x", "max_model_len": 32768, "block_size": 16, "max_num_seqs": cap,
        "max_num_batched_tokens": budget,
    }  # fmt: skip
    api, core = f"APIServer pid={pid}", f"EngineCore pid={pid + 1}"
    return (
        vl(t, f"non-default args: {args!r}", file="utils.py", process=api)
        + vl(t + 10, f"Initializing a V1 LLM engine (v{version}) with config: model='m/x', max_seq_len=32768", file="core.py", process=core)
        + vl(t + 50, f"GPU KV cache size: {tokens:,} tokens", file="kv_cache_utils.py", process=core)
        + vl(t + 60, "Available routes are:", file="launcher.py", process=api)
    )


def stats(
    t: float, running: int, waiting: int, usage: float | None, prompt: float = 500.0, gen: float = 1000.0, *, engine: int = 0, who: str = ""
) -> str:
    """A V1 stats line; `usage` is a share, None leaves the field out."""
    kv = "" if usage is None else f", GPU KV cache usage: {usage * 100:.1f}%"
    return vl(
        t,
        f"{who or f'Engine {engine:03d}: '}Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {gen:.1f} tokens/s, "
        f"Running: {running} reqs, Waiting: {waiting} reqs{kv}, Prefix cache hit rate: 0.0%",
    )


def v0(t: float, running: int, pending: int, usage: float, prompt: float = 500.0, gen: float = 1000.0) -> str:
    """A V0 stats line."""
    return (
        f"INFO {BASE + timedelta(seconds=t):%m-%d %H:%M:%S} metrics.py:467] Avg prompt throughput: {prompt:.1f} tokens/s, "
        f"Avg generation throughput: {gen:.1f} tokens/s, Running: {running} reqs, Swapped: 0 reqs, Pending: {pending} reqs, "
        f"GPU KV cache usage: {usage * 100:.1f}%, CPU KV cache usage: 0.0%.\n"
    )


def v0_preemption(t: float, total: int) -> str:
    """V0's warning at every fiftieth preemption."""
    return (
        f"WARNING {BASE + timedelta(seconds=t):%m-%d %H:%M:%S} scheduler.py:1555] Sequence group cmpl-1-0 is preempted by "
        "PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. This can affect the end-to-end performance. Increase "
        f"gpu_memory_utilization or tensor_parallel_size to provide more KV cache memory. total_num_cumulative_preemption={total}\n"
    )
