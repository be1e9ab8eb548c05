"""What people paste into bug reports: a few lines, cut anywhere. Made up, in that manner.

`accept` are the causes that may be named. With `weak`, the evidence is too thin for more than `insufficient_data` or low confidence.
"""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.diagnosis.model import Cause


@dataclass(frozen=True)
class Snippet:
    """One paste. `file` is the name it was saved under."""

    name: str
    text: str
    accept: tuple[Cause, ...] = ()
    weak: bool = True
    file: str = "server.log"


ESC = "\x1b"

SGLANG = (
    Snippet(
        "one-decode-line-free-pool-long-queue",
        "[2026-05-04 11:02:09 TP0] Decode batch, #running-req: 7, #token: 9120, token usage: 0.03, cuda graph: True, "
        "gen throughput (token/s): 211.40, #queue-req: 100\n",
        ("cap_bound", "reservation_bound", "prefill_bound", "unschedulable"),
    ),
    Snippet(
        "one-decode-line-nothing-waits",
        "[2026-05-04 11:02:09] Decode batch. #running-req: 3, #token: 1840, token usage: 0.01, cuda graph: True, "
        "gen throughput (token/s): 144.02, #queue-req: 0, \n",
        ("none",),
    ),
    Snippet(
        "three-decode-lines-full",
        "[2026-05-04 11:02:09] Decode batch, #running-req: 41, #token: 98310, token usage: 0.98, cuda graph: True, "
        "gen throughput (token/s): 902.11, #queue-req: 33\n"
        "[2026-05-04 11:02:12] Decode batch, #running-req: 41, #token: 99002, token usage: 0.99, cuda graph: True, "
        "gen throughput (token/s): 897.40, #queue-req: 34\n"
        "[2026-05-04 11:02:15] Decode batch, #running-req: 40, #token: 98120, token usage: 0.98, cuda graph: True, "
        "gen throughput (token/s): 899.05, #queue-req: 37\n",
        ("l1_bound",),
    ),
    Snippet(
        "only-retractions",
        "".join(
            f"[2026-05-04 11:0{n}:1{n} TP0] KV cache pool is full. Retract requests. #retracted_reqs: {n + 1}, "
            f"#new_tokens_gained: {(n + 1) * 1730}, #new_token_ratio: 0.{2100 + 130 * n} -> 0.{5200 + 91 * n}\n"
            for n in range(6)
        ),
        ("l1_bound",), weak=False,
    ),
    Snippet(
        "one-retraction-old",
        "[2026-05-04 11:00:10 TP0] Decode out of memory happened. #retracted_reqs: 2, #new_token_ratio: 0.1101 -> 0.4420\n",
        ("l1_bound",),
    ),
    Snippet(
        "prefill-cut-in-the-middle",
        "new-token: 8192, #cached-token: 0, token usage: 0.61, #running-req: 20, #queue-req: 12, \n"
        "[2026-05-04 11:02:10 TP0] Prefill batch, #new-seq: 2, #new-token: 8192, #cached-token: 640, token usage: 0.66, #running-r\n",
        ("prefill_bound",),
    ),
    Snippet(
        "compose-prefix",
        "".join(
            f"sglang-1  | [2026-05-04 11:02:{10 + 4 * n}] Decode batch, #running-req: 12, #token: {40000 + 311 * n}, token usage: 0.4{n}, "
            f"cuda graph: True, gen throughput (token/s): {430 - n}.00, #queue-req: {5 + 6 * n}\n"
            for n in range(4)
        ),
        ("cap_bound", "reservation_bound"),
    ),
    Snippet(
        "kubernetes-prefix",
        "2026-05-04T11:02:10.118240117Z stderr F [2026-05-04 11:02:10] Decode batch, #running-req: 2, #token: 820, token usage: 0.00, "
        "cuda graph: True, gen throughput (token/s): 60.10, #queue-req: 0\n"
        "2026-05-04T11:02:13.402215901Z stderr F [2026-05-04 11:02:13] Decode batch, #running-req: 2, #token: 900, token usage: 0.00, "
        "cuda graph: True, gen throughput (token/s): 61.42, #queue-req: 0\n",
        ("none",),
    ),
    Snippet(
        "watchdog-only", "[2026-05-04 13:40:51 TP2] Scheduler watchdog timeout (self.watchdog_timeout=300, "
        "self.soft=False)\n", ("hang",), weak=False
    ),
    Snippet(
        "watchdog-old-with-stack",
        "[2026-05-04 13:40:51 TP0] Watchdog timeout (self.watchdog_timeout=300)\n"
        "Process 4410: sglang::scheduler\nThread 4410 (active): \"MainThread\"\n"
        "    wait (torch/cuda/streams.py:231)\n    event_loop_overlap (sglang/srt/managers/scheduler.py:812)\n",
        ("hang",), weak=False,
    ),
    Snippet(
        "health-check-only",
        "".join(
            f"[2026-05-04 13:4{n}:20] Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. "
            f"tic start time: 13:4{n}:00. last_heartbeat time: 13:38:12\n"
            for n in range(3)
        ),
        ("hang", "unschedulable"),
    ),
    Snippet(
        "scheduler-exception",
        "[2026-05-04 09:11:00 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/sgl/python/sglang/srt/managers/scheduler.py", line 2410, in run_scheduler_process\n'
        "    scheduler.event_loop_overlap()\n"
        "RuntimeError: CUDA error: an illegal memory access was encountered\n",
        ("crash",), weak=False,
    ),
    Snippet(
        "prefill-out-of-memory",
        "[2026-05-04 09:11:00 TP0] Prefill out of memory. Try to lower your batch size.\nTry to allocate 16384 tokens.\n"
        "Available tokens: 9010 (available_size=412 + evictable_size=8598)\n",
        ("crash", "l1_bound"), weak=False,
    ),
    Snippet(
        "exit-code-only",
        "[2026-05-04 09:11:02] Subprocess scheduler_0 (pid=880) crashed with exit code -9. Triggering SIGQUIT for cleanup...\n",
        ("crash",), weak=False,
    ),
    Snippet(
        "startup-only",
        "[2026-05-04 08:00:01] server_args=ServerArgs(model_path='m/y', port=30000, mem_fraction_static=0.9, max_running_requests=48)\n"
        "[2026-05-04 08:00:40] max_total_num_tokens=201344, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=48, "
        "context_len=32768, available_gpu_mem=4.10 GB\n"
        "[2026-05-04 08:00:52] The server is fired up and ready to roll!\n",
    ),
    Snippet(
        "length-refused",
        "[2026-05-04 08:10:41] Input length (140201 tokens) exceeds the maximum allowed length (131066 tokens). "
        "Use a shorter input or enable --allow-auto-truncate.\n",
        ("unschedulable",),
    ),
    Snippet(
        "aborted-alone",
        "[2026-05-04 08:10:41 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 20480, "
        "#new_token_ratio: 0.0980 -> 1.0000\n"
        "[2026-05-04 08:10:58 TP0] retract_decode: aborted last request 51c0de77aa91 due to OOM\n",
        ("unschedulable", "l1_bound"), weak=False,
    ),
    Snippet(
        "pd-decode-prealloc",
        "[2026-05-04 08:10:41 TP0] Decode batch, #running-req: 60, #token: 298100, token usage: 0.97, pre-allocated usage: 0.02, "
        "#prealloc-req: 14, #transfer-req: 0, #retracted-req: 0, cuda graph: True, gen throughput (token/s): 1410.00, #queue-req: 0\n",
        ("l1_bound",),
    ),
    Snippet(
        "pd-decode-transfer",
        "[2026-05-04 08:10:41 TP0] Decode batch, #running-req: 2, #token: 5100, token usage: 0.02, pre-allocated usage: 0.31, "
        "#prealloc-req: 0, #transfer-req: 52, #retracted-req: 0, cuda graph: True, gen throughput (token/s): 40.00, #queue-req: 0\n",
        ("transfer_bound",),
    ),
    Snippet(
        "pd-prefill-inflight",
        "[2026-05-04 08:10:41 TP0] Prefill batch, #new-seq: 1, #new-token: 4096, #cached-token: 0, token usage: 0.50, #running-req: 0, "
        "#queue-req: 0, #prealloc-req: 0, #inflight-req: 40, input throughput (token/s): 8000.00, cuda graph: False\n",
        ("transfer_bound",),
    ),
    Snippet(
        "dp-ranks-one-second",
        "".join(
            f"[2026-05-04 08:10:41 DP{n} TP0] Decode batch, #running-req: {30 if n == 0 else 3}, #token: "
            f"{96000 if n == 0 else 5000}, token usage: "
            f"{0.96 if n == 0 else 0.05:.2f}, cuda graph: True, gen throughput (token/s): 200.00, #queue-req: {28 if n == 0 else 0}\n"
            for n in range(4)
        ),
        ("skew", "l1_bound"),
    ),
    Snippet(
        "mamba-full",
        "[2026-05-04 08:10:41 TP0] Decode batch, #running-req: 48, #full token: 20110, full token usage: 0.11, "
        "mamba num: 96, mamba usage: 1.00, "
        "cuda graph: True, gen throughput (token/s): 800.00, #queue-req: 17\n",
        ("l1_bound",),
    ),
    Snippet(
        "two-times-of-day",
        "[2026-05-04 08:10:41 TP0] Decode batch, #running-req: 10, #token: 20110, token usage: 0.11, cuda graph: True, "
        "gen throughput (token/s): 800.00, #queue-req: 0\n... (hours later)\n"
        "[2026-05-04 14:55:02 TP0] Decode batch, #running-req: 64, #token: 176000, token usage: 0.97, cuda graph: True, "
        "gen throughput (token/s): 61.00, #queue-req: 211\n",
        ("l1_bound", "cap_bound"),
    ),
    Snippet(
        "quoted-markdown",
        "> ```\n> [2026-05-04 08:10:41 TP0] Prefill batch. #new-seq: 1, #new-token: 100, #cached-token: 0, cache hit rate: 4.10%, "
        "token usage: 0.93, #running-req: 99, #queue-req: 5\n> ```\nIs this normal?\n",
        ("l1_bound",),
    ),
    Snippet(
        "prefix-removed",
        "Decode batch. #running-req: 31, #token: 52110, token usage: 0.88, gen throughput (token/s): 700.10, #queue-req: 9\n"
        "Decode batch. #running-req: 31, #token: 53350, token usage: 0.90, gen throughput (token/s): 699.20, #queue-req: 11\n",
        ("l1_bound",),
    ),
    Snippet(
        "windows-line-ends",
        "[2026-05-04 08:10:41] Decode batch, #running-req: 1, #token: 400, token usage: 0.00, cuda graph: True, "
        "gen throughput (token/s): 31.00, #queue-req: 0\r\n"
        "[2026-05-04 08:10:43] Decode batch, #running-req: 1, #token: 440, token usage: 0.00, cuda graph: True, "
        "gen throughput (token/s): 31.10, #queue-req: 0\r\n",
        ("none",),
    ),
    Snippet(
        "sigterm-only",
        "[2026-05-04 17:00:00] SIGTERM received. signum=<Signals.SIGTERM: 15> frame=None. Draining requests and shutting down...\n",
        ("restart",),
    ),
)  # fmt: skip


def _v1(
    clock: str, running: int, waiting: int, usage: float, prompt: float = 0.0, generated: float = 0.0, tag: str = "(APIServer pid=1) "
) -> str:
    """One stats line of vLLM."""
    return (
        f"{tag}INFO 05-04 {clock} [loggers.py:236] Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: "
        f"{generated:.1f} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {usage:.1f}%, "
        "Prefix cache hit rate: 12.5%\n"
    )


def _v0(clock: str, running: int, pending: int, usage: float, generated: float) -> str:
    """One stats line of the engine before."""
    return (
        f"INFO 05-04 {clock} metrics.py:455] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {generated:.1f} tokens/s, "
        f"Running: {running} reqs, Swapped: 0 reqs, Pending: {pending} reqs, GPU KV cache usage: {usage:.1f}%, CPU KV cache usage: 0.0%.\n"
    )


def _preempted(clock: str, total: int) -> str:
    """One preemption warning of the engine before V1."""
    return (
        f"WARNING 05-04 {clock} scheduler.py:1242] Sequence group cmpl-77-0 is preempted by PreemptionMode.RECOMPUTE mode because there is "
        "not enough KV cache space. This can affect the end-to-end performance. Increase gpu_memory_utilization or tensor_parallel_size to "
        f"provide more KV cache memory. total_num_cumulative_preemption={total}\n"
    )


def _lmcache(message: str, seconds: int = 10) -> str:
    """One line of LMCache, colours and all."""
    return (
        f"{ESC}[32;20m[2026-05-04 12:00:{seconds:02d},481] LMCache INFO:{ESC}[0m {message} {ESC}[3m(cache_engine.py:531:lmcache){ESC}[0m\n"
    )


FATAL = "(EngineCore_DP0 pid=9) ERROR 05-04 12:00:00 [core.py:842] "

VLLM = (
    Snippet("one-stats-line-full-batch", _v1("12:00:10", 256, 512, 12.4, 900, 4100), ("cap_bound", "prefill_bound")),
    Snippet(
        "three-stats-lines-full",
        _v1("12:00:10", 40, 21, 99.4, 310, 900) + _v1("12:00:20", 39, 30, 98.9, 150, 910) + _v1("12:00:30", 39, 44, 99.7, 90, 905),
        ("l1_bound",),
    ),
    Snippet("all-zero", _v1("12:00:10", 0, 0, 0.0) + _v1("12:10:10", 0, 0, 0.0), ("none",)),
    Snippet("nothing-runs-some-wait", _v1("12:00:10", 0, 5, 0.0) + _v1("12:00:20", 0, 6, 0.0), ("hang", "unschedulable")),
    Snippet(
        "nothing-runs-for-a-minute",
        "".join(_v0(f"12:0{n // 12}:{n % 12 * 5:02d}", 0, 4 + n // 3, 0.0, 0.0) for n in range(14)),
        ("hang", "unschedulable"), weak=False,
    ),
    Snippet(
        "preemptions-only",
        _preempted("12:00:10", 1) + _preempted("12:03:44", 51) + _preempted("12:05:02", 101),
            ("l1_bound",), weak=False),
    Snippet("one-preemption", _preempted("12:00:10", 1), ("l1_bound",)),
    Snippet("one-idle-old-line", _v0("12:00:10", 1, 0, 0.3, 18.0), ("none",)),
    Snippet(
        "engine-dead-trace",
        "Traceback (most recent call last):\n"
        '  File "/app/vllm/entrypoints/openai/serving_chat.py", line 610, in chat_completion_stream_generator\n'
        "    async for res in result_generator:\n"
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n",
        ("crash",), weak=False,
    ),
    Snippet(
        "engine-core-fatal",
        f"{FATAL}EngineCore encountered a fatal error.\n{FATAL}Traceback (most recent call last):\n"
        f"{FATAL}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB.\n",
        ("crash",), weak=False,
    ),
    Snippet(
        "oom-trace-without-prefix",
        "    return F.linear(input, self.weight, self.bias)\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 23.64 GiB\n",
        ("crash",), weak=False,
    ),
    Snippet(
        "collective-timeout",
        "[rank1]:[E504 12:00:00.114 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=20014, "
        "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600040 milliseconds before timing out.\n",
        ("crash", "hang"), weak=False,
    ),
    Snippet(
        "startup-only-vllm",
        "INFO 05-04 12:00:00 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: model='m/z', max_seq_len=32768\n"
        "INFO 05-04 12:00:40 [kv_cache_utils.py:634] GPU KV cache size: 182,400 tokens\n"
        "INFO 05-04 12:00:40 [kv_cache_utils.py:637] Maximum concurrency for 32,768 tokens per request: 5.57x\n",
    ),
    Snippet(
        "too-little-memory-at-start",
        "ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache "
        "is needed, which is larger than "
        "the available KV cache memory (9.12 GiB).\n",
        ("crash", "unschedulable"), weak=False,
    ),
    Snippet(
        "lmcache-quick",
        _lmcache("Retrieved 2048 out of 2048 required tokens (from 2048 total tokens). size: 0.2500 gb, cost 14.1 ms, "
                 "throughput: 17.7 GB/s;")
        + _lmcache("Stored 1024 out of total 3072 tokens. size: 0.1250 gb, cost 9.9 ms, throughput: 12.6 GB/s; offload_time: 8.0 ms, "
                   "put_time: 1.5 ms", 14),
    ),
    Snippet(
        "lmcache-slow",
        "".join(
            _lmcache("Retrieved 9216 out of 9216 required tokens (from 9216 total tokens). size: 1.1250 gb, cost "
                     f"{7800 + 311 * n}.2210 ms, throughput: 0.1{n} GB/s;", 10 + 9 * n)
            for n in range(4)
        ),
        ("l2_bound",),
    ),
    Snippet(
        "lmcache-hits-nothing-to-load",
        _lmcache("Reqid: cmpl-1a-0, Total tokens 20480, LMCache hit tokens: 20224, need to load: 0")
        + _lmcache("Reqid: cmpl-1b-0, Total tokens 18432, LMCache hit tokens: 18176, need to load: 0", 11),
    ),
    Snippet(
        "lmcache-pressure",
        _lmcache("No eviction candidates found in local cpu backend. Local cpu memory is under pressure. "
                 "Waiting for 0.1 seconds before retrying."),
        ("l2_bound",),
    ),
    Snippet(
        "transfer-metrics-only",
        "(APIServer pid=1) INFO 05-04 12:00:10 [metrics.py:113] KV Transfer metrics: Num successful "
        "transfers=3, Avg xfer time (ms)=8120.4, "
        "P90 xfer time (ms)=9001.0, Avg post time (ms)=0.5, P90 post time (ms)=0.7, Avg MB per transfer=512.0, Throughput (MB/s)=63.1, "
        "Avg number of descriptors=2048.0, Num failed transfers=4, Num KV expired reqs=0\n",
        ("transfer_bound",),
    ),
    Snippet(
        "load-failure-recovered",
        "(EngineCore pid=9) WARNING 05-04 12:00:10 [scheduler.py:3773] Recovered from KV load failure: 3 request(s) rescheduled "
        "(6144 tokens affected).\n",
        ("l2_bound", "transfer_bound"),
    ),
    Snippet(
        "requests-only",
        "(APIServer pid=1) INFO 05-04 12:00:10 [logger.py:47] Received request cmpl-5-0: params: SamplingParams(n=1, max_tokens=512), "
        "lora_request: None.\n(APIServer pid=1) INFO 05-04 12:00:10 [async_llm.py:252] Added request cmpl-5-0.\n",
        ("none",),
    ),
    Snippet(
        "access-lines-only",
        "".join(f'INFO:     172.18.0.5:4{n}122 - "POST /v1/chat/completions HTTP/1.1" {200 if n < 4 else 503}\n' for n in range(6)),
    ),
    Snippet(
        "iteration-lines",
        "".join(
            f"(APIServer pid=1) INFO 05-04 12:00:1{n} [loggers.py:211] Engine 000: Iteration({700 + n}): 1 "
            f"context requests, 2048 context tokens, "
            "12 generation requests, 12 generation tokens, iteration elapsed time: 88.10 ms, GPU KV cache usage: 31.0%\n"
            for n in range(3)
        ),
        ("prefill_bound", "none"),
    ),
    Snippet(
        "coloured-tag",
        f"{ESC}[1;36m(APIServer pid=1){ESC}[0;0m " + _v1("12:00:10", 4, 0, 2.1, 50, 200, tag=""),
        ("none",),
    ),
    Snippet(
        "json-log",
        '{"asctime": "2026-05-04 12:00:10,118", "levelname": "INFO", "name": "vllm.v1.metrics.loggers", "processName": "MainProcess", '
        '"process": 1, "message": "Engine 000: Avg prompt throughput: 12.0 tokens/s, Avg generation throughput: 88.0 tokens/s, Running: 2 '
        'reqs, Waiting: 31 reqs, GPU KV cache usage: 3.0%"}\n',
        ("cap_bound", "unschedulable"),
    ),
    Snippet(
        "shutdown-aborts",
        "(EngineCore pid=9) INFO 05-04 12:00:10 [core.py:1490] [shutdown] EngineCore: aborting in-flight requests count=12\n",
        ("restart",),
    ),
)  # fmt: skip

OTHER = (
    Snippet(
        "metrics-vllm-full",
        'vllm:num_requests_running{engine="0",model_name="m"} 31.0\nvllm:num_requests_waiting{engine="0",model_name="m"} 58.0\n'
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.991\nvllm:num_preemptions_total{engine="0",model_name="m"} 412.0\n',
        ("l1_bound",), file="metrics.prom",
    ),
    Snippet(
        "metrics-vllm-livelock",
        'vllm:num_requests_running{engine="0",model_name="m"} 0.0\nvllm:num_requests_waiting{engine="0",model_name="m"} 6.0\n'
        'vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 6.0\n'
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.0\n',
        ("hang", "unschedulable"), file="metrics.prom",
    ),
    Snippet(
        "metrics-sglang-queue-free-pool",
        'sglang:num_running_reqs{model_name="m",tp_rank="0"} 16.0\nsglang:num_queue_reqs{model_name="m",tp_rank="0"} 204.0\n'
        'sglang:token_usage{model_name="m",tp_rank="0"} 0.07\n',
        ("cap_bound", "reservation_bound"), file="metrics.prom",
    ),
    Snippet(
        "metrics-counters-only",
        "# HELP vllm:generation_tokens_total tokens\n# TYPE vllm:generation_tokens_total counter\n"
        'vllm:generation_tokens_total{model_name="m"} 1.204418e+06\nvllm:prompt_tokens_total{model_name="m"} 8.8e+06\n',
        file="metrics.prom",
    ),
    Snippet(
        "benchmark-table",
        "============ Serving Benchmark Result ============\nSuccessful requests:                     1000\n"
        "Mean TTFT (ms):                          18211.40\nP99 TTFT (ms):                           44120.19\n"
        "Mean TPOT (ms):                          41.02\n",
    ),
    Snippet("prose-only", "It works for two hours and then every request takes a minute until the first token. Restart helps.\n"),
    Snippet(
        "gpu-table",
        "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |\n"
        "| N/A   41C    P0            121W /  700W |   74210MiB /  81559MiB |      0%      Default |\n",
    ),
    Snippet("wrong-flag", "vllm serve m/z --max-num-seq 64\nvllm: error: unrecognized arguments: --max-num-sek 64\n"),
    Snippet(
        "killed",
        "/start.sh: line 12:   711 Killed                  python3 -m sglang.launch_server --model-path m/z "
        "--tp 2\n", ("crash",), weak=False),
)  # fmt: skip


def _decode(second: int, running: int, usage: float, queue: int, gen: float = 700.0, more: str = "") -> str:
    """One decode line of SGLang, of a server whose start nobody pasted."""
    return (
        f"[2026-05-04 16:20:{second:02d}] Decode batch, #running-req: {running}, #token: {usage * 150_000:.0f}, "
        f"token usage: {usage:.2f}, {more}"
        f"cuda graph: True, gen throughput (token/s): {gen:.2f}, #queue-req: {queue}\n"
    )


def _prefill(second: int, tokens: int, usage: float, running: int, queue: int) -> str:
    """One prefill line of SGLang."""
    return (
        f"[2026-05-04 16:20:{second:02d}] Prefill batch, #new-seq: 2, #new-token: {tokens}, #cached-token: 0, token usage: {usage:.2f}, "
        f"#running-req: {running}, #queue-req: {queue}, #pending-token: {queue * 3000}, cuda graph: False, "
        f"input throughput (token/s): {tokens * 1.1:.2f}\n"
    )


RETRACTED = (
    "[2026-05-04 16:20:{:02d}] KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 5210, "
    "#new_token_ratio: 0.1900 -> 0.6120\n"
)
LONGER = (
    Snippet(
        "ten-lines-standing-still",
        "".join(_decode(2 * n, 32, 0.30 + 0.004 * n, 55 + n) for n in range(10)),
        ("cap_bound", "reservation_bound"),
    ),
    Snippet(
        "twelve-lines-full",
        "".join(_decode(3 * n, 60 + n % 3, 0.97 + 0.01 * (n % 3), 30 + 2 * n) for n in range(12)),
        ("l1_bound",), weak=False,
    ),
    Snippet(
        "eight-stats-lines-in-between",
        "".join(_v1(f"16:2{n}:10", 8 + n % 5, 3 + n % 6, 55.0 + 1.9 * n, 120, 260) for n in range(8)),
        ("l1_bound", "prefill_bound", "cap_bound"),
    ),
    Snippet("six-full-chunks", "".join(_prefill(n, 8192, 0.2 + 0.03 * n, 12 + 2 * n, 60 - 2 * n) for n in range(6)), ("prefill_bound",)),
    Snippet("a-queue-of-one", "".join(_decode(3 * n, 9, 0.5, 1) for n in range(10)), ("none", "reservation_bound", "cap_bound")),
    Snippet("half-a-minute-of-health", "".join(_decode(3 * n, 5 + n % 3, 0.1, 0) for n in range(12)), ("none",)),
    Snippet(
        "minutes-of-health",
        "".join(_v1(f"16:{20 + n // 6}:{n % 6}0", 4 + n % 3, 0, 7.0, 90, 210) for n in range(14)),
        ("none",), weak=False,
    ),
    Snippet("grepped-fields", "".join(f"#queue-req: {80 + n}\n" for n in range(9))),
    Snippet(
        "burst-after-start",
        "[2026-05-04 16:19:58] The server is fired up and ready to roll!\n"
        + "".join(_prefill(n, 8192, 0.02 + 0.06 * n, 3 * n, 200 - 3 * n) for n in range(5)),
        ("prefill_bound",),
    ),
    Snippet(
        "out-of-order",
        _decode(40, 20, 0.6, 14) + _decode(12, 9, 0.3, 0) + _decode(31, 18, 0.5, 9) + _decode(5, 3, 0.1, 0),
        ("reservation_bound", "cap_bound"),
    ),
    Snippet(
        "retractions-between-lines",
        "".join(_decode(4 * n, 40 - n, 0.99, 6 + 3 * n) + RETRACTED.format(4 * n + 2) for n in range(7)),
        ("l1_bound",), weak=False,
    ),
    Snippet(
        "one-runs-thirty-wait",
        "".join(_v1(f"16:20:{10 + 10 * n}", 1, 28 + n, 0.4, 20, 31) for n in range(5)),
        ("cap_bound", "prefill_bound", "unschedulable"),
    ),
    Snippet(
        "transfer-queue-grows",
        "".join(_decode(5 * n, 30 - n, 0.4, 0, 600, f"pre-allocated usage: 0.{20 + 4 * n}, #prealloc-req: 0, #transfer-req: {4 + 7 * n}, "
                        "#retracted-req: 0, ") for n in range(9)),
        ("transfer_bound",),
    ),
    Snippet(
        "loads-in-progress",
        "".join(_v1(f"16:20:{10 + 10 * n}", 6, 20 + 5 * n, 60.0 + 4 * n, 40, 200).replace(
            "GPU KV", f"Deferred: {20 + 5 * n} reqs, KV fetch: 2 waiting to start, {18 + 5 * n} in progress, 0 "
            "completed waiting, GPU KV") for n in range(5)),
        ("l2_bound", "transfer_bound"),
    ),
    Snippet(
        "swa-full-beside-empty",
        "".join(
            f"[2026-05-04 16:20:{3 * n:02d}] Decode batch, #running-req: 22, #full token: 59880, full token usage: 1.00, #swa token: 2816, "
            f"swa token usage: 0.06, cuda graph: True, gen throughput (token/s): 410.00, #queue-req: {11 + n}\n"
            for n in range(9)
        ),
        ("l1_bound",), weak=False,
    ),
)  # fmt: skip

SNIPPETS = (*SGLANG, *VLLM, *OTHER, *LONGER)
