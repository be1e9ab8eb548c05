"""Log lines: one template per engine version, filled with what the models report.

Formats are reconstructed from the engines' source; nothing here is copied from anyone's log.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sample_traces.generator.sglang_model import DecodeReport, PrefillReport, Report, RetractReport
from sample_traces.generator.vllm_model import PreemptReport, StatsReport

Value = str | int | float | bool | None | list[str]


class Log:
    """Lines with times; printed in time order, equal times in order of arrival."""

    def __init__(self, base: datetime) -> None:
        self.base = base
        self._lines: list[tuple[float, int, str]] = []

    def add(self, t: float, text: str) -> None:
        """One line at t seconds after the base."""
        self._lines.append((t, len(self._lines), text))

    def stamp(self, t: float, fmt: str) -> str:
        """The clock at t, cut to whole seconds like the engines do."""
        return (self.base + timedelta(seconds=t)).strftime(fmt)

    def utc(self, t: float) -> str:
        """ISO time in UTC."""
        return self.stamp(t, "%Y-%m-%dT%H:%M:%SZ")

    def text(self) -> str:
        """The whole file."""
        return "".join(line + "\n" for _, _, line in sorted(self._lines))


@dataclass(frozen=True, slots=True)
class Model:
    """What the start-up lines say about the model and the memory of one GPU."""

    path: str
    architecture: str
    layers: int
    kv_heads: int
    head_dim: int
    weights_gb: float  # on one GPU
    gpu_gb: float
    quantization: str | None = None

    def kv_gb(self, tokens: int, tp: int) -> float:
        """Size of K (or V) of that many tokens on one GPU, bf16, in GiB."""
        return tokens * self.layers * max(1, self.kv_heads // tp) * self.head_dim * 2 / 2**30


# -- SGLang ---------------------------------------------------------------------------------

_HEAD = "#new-seq: {r.new_seqs}, #new-token: {r.new_tokens}, #cached-token: {r.cached_tokens}, "
_LOAD = "#running-req: {r.running}, #queue-req: {r.queue}"
_DECODE = "#running-req: {r.running}, #token: {r.tokens}, token usage: {r.usage:.2f}, cuda graph: {graph}, "
_GEN = "gen throughput (token/s): {r.throughput:.2f}, #queue-req: {r.queue}"
_FULL = "KV cache pool is full. Retract requests. #retracted_reqs: {r.requests}, "
_GAINED = "#new_tokens_gained: {r.tokens_gained}, "
_RATIO = "#new_token_ratio: {r.ratio_before:.4f} -> {r.ratio_after:.4f}"
_CAPACITY = (
    "max_total_num_tokens={capacity}, chunked_prefill_size={chunk}, max_prefill_tokens={prefill}, "
    "max_running_requests={running}, context_len={context}"
)


@dataclass(frozen=True, slots=True)
class SGLangFormat:
    """How one SGLang version prints."""

    prefill: str
    decode: str
    retract: str
    capacity: str
    kv_alloc: str
    weights_end: str
    watchdog: str
    args_as_dict: bool = False
    prefill_when_scheduled: bool = False  # up to 0.5.7
    access_stamp: bool = True
    graph_begin: str = "Capture cuda graph begin. This can take up to several minutes. avail mem={avail:.2f} GB"
    graph_end: str = "Capture cuda graph end. Time elapsed: {s:.2f} s. mem usage={mem:.2f} GB. avail mem={left:.2f} GB."


_WEIGHTS = "type={m.architecture}, dtype=torch.bfloat16, avail mem={avail:.2f} GB, mem usage={m.weights_gb:.2f} GB."
_KV = "#tokens: {tokens}, K size: {size:.2f} GB, V size: {size:.2f} GB"
_SOFT = "Scheduler watchdog timeout (self.watchdog_timeout={timeout}, self.soft=False)"

SGLANG: dict[str, SGLangFormat] = {
    "0.4.6": SGLangFormat(
        prefill="Prefill batch. " + _HEAD + "token usage: {r.usage_before:.2f}, " + _LOAD,
        decode="Decode batch. " + _DECODE + _GEN,
        retract="Decode out of memory happened. #retracted_reqs: {r.requests}, " + _RATIO,
        capacity=_CAPACITY,
        kv_alloc="KV Cache is allocated. " + _KV,
        weights_end="Load weight end. " + _WEIGHTS,
        watchdog="Watchdog timeout (self.watchdog_timeout={timeout})",
        prefill_when_scheduled=True,
        access_stamp=False,
    ),
    "0.5.5": SGLangFormat(
        prefill="Prefill batch, " + _HEAD + "token usage: {r.usage_before:.2f}, " + _LOAD + ", ",
        decode="Decode batch, " + _DECODE + _GEN + ", ",
        retract=_FULL + _RATIO,
        capacity=_CAPACITY + ", available_gpu_mem={avail:.2f} GB",
        kv_alloc="KV Cache is allocated. " + _KV,
        weights_end="Load weight end. " + _WEIGHTS,
        watchdog="Watchdog timeout (self.watchdog_timeout={timeout})",
        prefill_when_scheduled=True,
    ),
    "0.5.9": SGLangFormat(
        prefill="Prefill batch, "
        + _HEAD
        + "token usage: {r.usage:.2f}, "
        + _LOAD
        + ", input throughput (token/s): {r.throughput_previous:.2f}, cuda graph: False",
        decode="Decode batch, " + _DECODE + _GEN,
        retract=_FULL + _GAINED + _RATIO,
        capacity=_CAPACITY + ", available_gpu_mem={avail:.2f} GB",
        kv_alloc="KV Cache is allocated. " + _KV,
        weights_end="Load weight end. elapsed={s:.2f} s, " + _WEIGHTS,
        watchdog=_SOFT,
    ),
    "0.5.23": SGLangFormat(
        prefill="Prefill batch, "
        + _HEAD
        + "token usage: {r.usage:.2f}, "
        + _LOAD
        + ", #pending-token: {r.pending_tokens}, cuda graph: False, "
        "input throughput (token/s): {r.throughput:.2f}",
        decode="Decode batch, " + _DECODE + _GEN,
        retract=_FULL + _GAINED + _RATIO,
        capacity=_CAPACITY + ", available_gpu_mem={avail:.2f} GB",
        kv_alloc="KV Cache is allocated. dtype: torch.bfloat16, " + _KV,
        weights_end="Load weight end. elapsed={s:.2f} s, type={m.architecture}, {quant}"
        "avail mem={avail:.2f} GB, mem usage={m.weights_gb:.2f} GB.",
        watchdog=_SOFT,
        args_as_dict=True,
        graph_begin="Capture decode CUDA graph begin. avail mem={avail:.2f} GB",
        graph_end="Capture decode CUDA graph end. elapsed={s:.2f} s, mem usage={mem:.2f} GB, avail mem={left:.2f} GB.",
    ),
}

# Versions between those of the samples, for the labelled incidents of the tests: what is printed in a report, with a neighbour's start-up.
SGLANG["0.4.9"] = replace(
    SGLANG["0.4.6"],
    prefill=SGLANG["0.4.6"].prefill + ", ",
    decode=SGLANG["0.4.6"].decode + ", ",
    retract=_FULL + _RATIO,
    capacity=SGLANG["0.5.5"].capacity,
)
SGLANG["0.5.3"] = replace(SGLANG["0.4.9"], retract=_FULL + "#aborted_retracted_reqs: 0, " + _RATIO)
SGLANG["0.5.12"] = replace(SGLANG["0.5.9"], prefill=SGLANG["0.5.23"].prefill)
SGLANG["0.5.21"] = replace(SGLANG["0.5.23"])


@dataclass(frozen=True, slots=True)
class SGLangServer:
    """One SGLang server as its log shows it."""

    version: str
    model: Model
    capacity: int
    context_len: int
    max_running_requests: int | None = None
    conservativeness: float = 1.0
    chunked_prefill_size: int = 8192
    max_prefill_tokens: int = 16384
    tp: int = 1
    dp: int = 1
    port: int = 30000
    graph_max_bs: int = 160
    host_tokens: int = 0
    pid: int = 412
    watchdog_timeout: int = 300
    extra_args: Mapping[str, Value] = field(default_factory=dict)

    @property
    def format(self) -> SGLangFormat:
        """The version's templates."""
        return SGLANG[self.version]

    @property
    def running_limit(self) -> int:
        """max_running_requests as the engine derives it when it is not given."""
        if self.max_running_requests is not None:
            return self.max_running_requests
        derived = min(max(int(self.capacity / self.context_len * 512), 2048), 4096)
        return min(derived, self.capacity // 2)

    @property
    def mem_fraction(self) -> float:
        """The share of the GPU that weights and pool take."""
        taken = self.model.weights_gb + 2 * self.model.kv_gb(self.capacity, self.tp)
        return round(taken / self.model.gpu_gb, 2)

    def tag(self, dp: int = 0, tp: int = 0) -> str:
        """The ranks in the prefix; a server with one rank has none."""
        return (f" DP{dp}" if self.dp > 1 else "") + (f" TP{tp}" if self.tp > 1 else "")

    def line(self, log: Log, t: float, message: str, tag: str = "") -> None:
        """One line with SGLang's prefix."""
        log.add(t, f"[{log.stamp(t, '%Y-%m-%d %H:%M:%S')}{tag}] {message}")

    def access(self, log: Log, t: float, request: str, client: str, status: str = "200 OK") -> None:
        """One uvicorn access line."""
        self.uvicorn(log, t, f'{client} - "{request} HTTP/1.1" {status}')

    def uvicorn(self, log: Log, t: float, message: str) -> None:
        """One line of the HTTP server."""
        if self.format.access_stamp:
            self.line(log, t, f"INFO:     {message}")
        else:
            log.add(t, f"INFO:     {message}")

    def arguments(self) -> dict[str, Value]:
        """The server arguments that matter, in their order."""
        args: dict[str, Value] = {
            "model_path": self.model.path,
            "tokenizer_path": self.model.path,
            "tokenizer_mode": "auto",
            "skip_tokenizer_init": False,
            "load_format": "auto",
            "trust_remote_code": False,
            "dtype": "auto",
            "kv_cache_dtype": "auto",
            "quantization": self.model.quantization,
            "context_length": self.context_len,
            "device": "cuda",
            "served_model_name": self.model.path.rsplit("/", 1)[-1],
            "host": "0.0.0.0",
            "port": self.port,
            "mem_fraction_static": self.mem_fraction,
            "max_running_requests": self.max_running_requests,
            "max_total_tokens": None,
            "chunked_prefill_size": self.chunked_prefill_size,
            "max_prefill_tokens": self.max_prefill_tokens,
            "schedule_policy": "fcfs",
            "schedule_conservativeness": self.conservativeness,
            "page_size": 1,
            "tp_size": self.tp,
            "pp_size": 1,
            "stream_interval": 1,
            "random_seed": 390617283,
            "watchdog_timeout": self.watchdog_timeout,
            "log_level": "info",
            "log_requests": False,
            "enable_metrics": False,
            "decode_log_interval": 40,
            "dp_size": self.dp,
            "load_balance_method": "round_robin",
            "attention_backend": "flashinfer",
            "sampling_backend": "flashinfer",
            "speculative_algorithm": None,
            "enable_hierarchical_cache": bool(self.host_tokens),
            "hicache_ratio": 2.0,
            "hicache_size": 0,
            "hicache_write_policy": "write_through_selective",
            "disable_radix_cache": False,
            "cuda_graph_max_bs": self.graph_max_bs,
            "disable_cuda_graph": False,
            "disable_overlap_schedule": False,
            "enable_mixed_chunk": False,
            "enable_dp_attention": False,
            "disaggregation_mode": "null",
        }
        return {**args, **self.extra_args}

    def startup(self, log: Log, t: float, seconds: float = 70.0) -> None:
        """All lines from the arguments to readiness, ending at t + seconds."""
        f, m = self.format, self.model
        args = self.arguments()
        if f.args_as_dict:
            shown = repr(args)
        else:
            shown = "ServerArgs(" + ", ".join(f"{k}={v!r}" for k, v in args.items()) + ")"
        self.line(log, t, f"server_args={shown}")
        free = m.gpu_gb - 1.4
        loaded = free - m.weights_gb
        size = m.kv_gb(self.capacity, self.tp)
        pooled = loaded - 2 * size
        graphs = 1.62
        ranks = [(d, r) for d in range(self.dp) for r in range(self.tp)]
        load_s = seconds * 0.45
        quant = f"quant={m.quantization}, " if m.quantization else ""
        for d, r in ranks:
            tag, lag = self.tag(d, r), 0.013 * (d * self.tp + r)
            self.line(log, t + seconds * 0.13 + lag, "Init torch distributed begin.", tag)
            self.line(log, t + seconds * 0.16 + lag, f"Load weight begin. avail mem={free:.2f} GB", tag)
            end = f.weights_end.format(m=m, avail=loaded, s=load_s, quant=quant)
            self.line(log, t + seconds * 0.16 + load_s + lag, end, tag)
            kv = f.kv_alloc.format(tokens=self.capacity, size=size)
            self.line(log, t + seconds * 0.64 + lag, kv, tag)
            if self.host_tokens:
                text = (
                    f"Allocating kv hierarchical KV host pool: {self.host_tokens} tokens, "
                    f"{2 * m.kv_gb(self.host_tokens, self.tp):.2f} GB host memory."
                )
                self.line(log, t + seconds * 0.65 + lag, text, tag)
            self.line(log, t + seconds * 0.66 + lag, f"Memory pool end. avail mem={pooled:.2f} GB", tag)
            self.line(log, t + seconds * 0.68 + lag, f.graph_begin.format(avail=pooled), tag)
            end = f.graph_end.format(s=seconds * 0.18, mem=graphs, left=pooled - graphs)
            self.line(log, t + seconds * 0.86 + lag, end, tag)
        for d in range(self.dp):
            text = f.capacity.format(
                capacity=self.capacity,
                chunk=self.chunked_prefill_size,
                prefill=self.max_prefill_tokens,
                running=self.running_limit,
                context=self.context_len,
                avail=pooled - graphs,
            )
            self.line(log, t + seconds * 0.88 + 0.01 * d, text, self.tag(d))
        ready = t + seconds * 0.92
        self.uvicorn(log, ready, f"Started server process [{self.pid}]")
        self.uvicorn(log, ready, "Waiting for application startup.")
        self.uvicorn(log, ready, "Application startup complete.")
        self.uvicorn(log, ready, f"Uvicorn running on http://0.0.0.0:{self.port} (Press CTRL+C to quit)")
        self.access(log, ready + 0.9, "GET /model_info", "127.0.0.1:51022")
        for d in range(self.dp):
            warm = PrefillReport(ready + 1.4, ready + 1.3, 1, 6, 0, 0.0, 0.0, 0, 0, 0, 0.09, 0.0)
            self.report(log, warm, d)
        self.access(log, t + seconds, "POST /generate", "127.0.0.1:51034")
        self.line(log, t + seconds, "The server is fired up and ready to roll!")

    def report(self, log: Log, r: Report, dp: int = 0) -> None:
        """The line (or lines) of one report of the model."""
        f = self.format
        match r:
            case PrefillReport():
                t = r.sched_t if f.prefill_when_scheduled else r.t
                self.line(log, t, f.prefill.format(r=r), self.tag(dp))
            case DecodeReport():
                text = f.decode.format(r=r, graph=r.running <= self.graph_max_bs)
                self.line(log, r.t, text, self.tag(dp))
            case RetractReport():
                for tp in range(self.tp):  # every rank prints it
                    self.line(log, r.t + 0.002 * tp, f.retract.format(r=r), self.tag(dp, tp))


# -- vLLM -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VLLMFormat:
    """How one vLLM version prints. `api` and `core` are the process tags' templates."""

    full_version: str
    api: str
    core: str
    file: str  # around file:line
    stats: str
    lines: Mapping[str, int]  # line numbers shown by file name
    v0: bool = False
    one_capacity_line: bool = False


_THROUGHPUT = "Avg prompt throughput: {r.prompt_tps:.1f} tokens/s, Avg generation throughput: {r.generation_tps:.1f} tokens/s, "
_V1 = (
    "Engine 000: " + _THROUGHPUT + "Running: {r.running} reqs, Waiting: {r.waiting} reqs, "
    "GPU KV cache usage: {usage:.1f}%, Prefix cache hit rate: {hit:.1f}%"
)
_V0 = (
    _THROUGHPUT + "Running: {r.running} reqs, Swapped: 0 reqs, Pending: {r.waiting} reqs, "
    "GPU KV cache usage: {usage:.1f}%, CPU KV cache usage: 0.0%."
)

VLLM: dict[str, VLLMFormat] = {
    "0.6.6": VLLMFormat(
        full_version="0.6.6.post1",
        api="",
        core="",
        file="{name}:{line}]",
        stats=_V0,
        v0=True,
        lines={
            "api_server.py": 712,
            "llm_engine.py": 234,
            "gpu_executor.py": 76,
            "metrics.py": 467,
            "scheduler.py": 1555,
            "launcher.py": 19,
            "config.py": 1455,
            "model_runner.py": 1094,
        },
    ),
    "0.11.2": VLLMFormat(
        full_version="0.11.2",
        api="\x1b[1;36m(APIServer pid={pid})\x1b[0;0m ",
        core="\x1b[1;36m(EngineCore_DP0 pid={pid})\x1b[0;0m ",
        file="[{name}:{line}]",
        stats=_V1,
        lines={
            "api_server.py": 1977,
            "utils.py": 253,
            "model.py": 1745,
            "scheduler.py": 216,
            "core.py": 93,
            "gpu_worker.py": 349,
            "kv_cache_utils.py": 1229,
            "loggers.py": 236,
            "launcher.py": 38,
            "async_llm.py": 525,
            "core_client.py": 598,
            "gpu_model_runner.py": 3259,
        },
    ),
    "0.33": VLLMFormat(
        full_version="0.33.0",
        api="(APIServer pid={pid}) ",
        core="(EngineCore pid={pid}) ",
        file="[{name}:{line}]",
        stats=_V1,
        one_capacity_line=True,
        lines={
            "api_utils.py": 347,
            "startup.py": 96,
            "model.py": 2170,
            "scheduler.py": 241,
            "core.py": 139,
            "gpu_worker.py": 772,
            "kv_cache_utils.py": 1147,
            "loggers.py": 338,
            "launcher.py": 186,
            "async_llm.py": 943,
            "entry.py": 140,
            "core_client.py": 761,
            "gpu_model_runner.py": 4120,
            "dump_input.py": 79,
        },
    ),
}

VLLM["0.19.1"] = replace(VLLM["0.11.2"], full_version="0.19.1", api=VLLM["0.33"].api, core=VLLM["0.33"].core)
VLLM["0.32"] = replace(VLLM["0.33"], full_version="0.32.0")


@dataclass(frozen=True, slots=True)
class VLLMServer:
    """One vLLM server as its log shows it."""

    version: str
    model: Model
    blocks: int  # usable ones
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int = 16
    port: int = 8000
    pid: int = 77
    core_pid: int = 204
    args: Mapping[str, Value] = field(default_factory=dict)

    @property
    def format(self) -> VLLMFormat:
        """The version's templates."""
        return VLLM[self.version]

    def line(self, log: Log, t: float, file: str, message: str, *, core: bool = False, level: str = "INFO") -> None:
        """One line with vLLM's prefix, of the API server or the engine core."""
        f = self.format
        tag = (f.core if core else f.api).format(pid=self.core_pid if core else self.pid)
        where = f.file.format(name=file, line=f.lines[file])
        log.add(t, f"{tag}{level} {log.stamp(t, '%m-%d %H:%M:%S')} {where} {message}")

    def uvicorn(self, log: Log, t: float, message: str) -> None:
        """One line of the HTTP server, which has no time."""
        log.add(t, f"INFO:     {message}")

    def access(self, log: Log, t: float, request: str, client: str, status: str = "200 OK") -> None:
        """One uvicorn access line."""
        self.uvicorn(log, t, f'{client} - "{request} HTTP/1.1" {status}')

    def stats(self, log: Log, r: StatsReport) -> None:
        """The periodic line."""
        text = self.format.stats.format(r=r, usage=r.usage * 100, hit=r.hit_rate * 100)
        self.line(log, r.t, "metrics.py" if self.format.v0 else "loggers.py", text)

    def preempt(self, log: Log, r: PreemptReport) -> None:
        """V0 warns at every 50th preemption; V1 never says a word."""
        if not self.format.v0 or r.number % 50 != 1:
            return
        text = (
            f"Sequence group cmpl-{request_id(r.rid)}-0 is preempted by PreemptionMode.RECOMPUTE "
            "mode because there is not enough KV cache space. This can affect the end-to-end performance. "
            "Increase gpu_memory_utilization or tensor_parallel_size to provide more KV cache memory. "
            f"total_num_cumulative_preemption={r.number}"
        )
        self.line(log, r.t, "scheduler.py", text, level="WARNING")

    def crash(self, log: Log, t: float, running: Sequence[tuple[int, int, int]]) -> None:
        """The engine core's last words (0.33); `running` is (request, computed tokens, output tokens)."""
        ids = [f"cmpl-{request_id(rid)}-0" for rid, _, _ in running]
        computed, outputs = [c for _, c, _ in running], [o for _, _, o in running]
        error = "RuntimeError: CUDA error: an illegal memory access was encountered"

        def core(file: str, text: str) -> None:
            self.line(log, t + 0.05, file, text, core=True, level="ERROR")

        core(
            "dump_input.py",
            f"Dumping input data for V1 LLM engine (v{self.format.full_version}) with config: {self._config()}, ",
        )
        core(
            "dump_input.py",
            "Dumping scheduler output for model execution: SchedulerOutput(scheduled_new_reqs=[], "
            f"scheduled_cached_reqs=CachedRequestData(req_ids={ids!r},resumed_req_ids=[],new_token_ids_lens=[],"
            f"all_token_ids_lens={{}},new_block_ids={[None] * len(ids)!r},num_computed_tokens={computed!r},"
            f"num_output_tokens={outputs!r}), num_scheduled_tokens={{{', '.join(f'{i}: 1' for i in ids)}}}, "
            f"total_num_scheduled_tokens={len(ids)}, finished_req_ids=[], preempted_req_ids=[])",
        )
        core("core.py", "EngineCore encountered a fatal error.")
        core("core.py", "Traceback (most recent call last):")
        for place, code in (
            ('vllm/v1/engine/core.py", line 1577, in run_engine_core', "engine_core.run_busy_loop()"),
            ('vllm/v1/engine/core.py", line 1290, in run_busy_loop', "self._process_engine_step()"),
            ('vllm/v1/engine/core.py", line 512, in step', "model_output = future.result()"),
            (
                'vllm/v1/worker/gpu_model_runner.py", line 4098, in execute_model',
                "hidden = self._model_forward(batch)",
            ),
        ):
            core("core.py", f'  File "{place}')
            core("core.py", f"    {code}")
        core("core.py", error)

        def api(text: str) -> None:
            self.line(log, t + 0.2, "async_llm.py", text, level="ERROR")

        api("AsyncLLM output_handler failed.")
        api("Traceback (most recent call last):")
        api('  File "vllm/v1/engine/async_llm.py", line 901, in output_handler')
        api("    outputs = await engine_core.get_output_async()")
        api("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.")
        for rid in ids:
            self.line(log, t + 0.25, "async_llm.py", f"Request {rid} failed (engine dead).")

    def startup(self, log: Log, t: float, seconds: float = 60.0) -> None:
        """All lines from the banner to readiness, ending at t + seconds."""
        if self.format.v0:
            self._startup_v0(log, t, seconds)
        else:
            self._startup_v1(log, t, seconds)
        done = t + seconds
        self.uvicorn(log, done, f"Started server process [{self.pid}]")
        self.uvicorn(log, done, "Waiting for application startup.")
        self.uvicorn(log, done, "Application startup complete.")
        if self.format.v0:
            self.uvicorn(log, done, f"Uvicorn running on http://0.0.0.0:{self.port} (Press CTRL+C to quit)")

    def _given(self) -> dict[str, Value]:
        given: dict[str, Value] = {"host": "0.0.0.0", "port": self.port, "model": self.model.path}
        given |= {"max_model_len": self.max_model_len, "max_num_seqs": self.max_num_seqs}
        return {**given, "max_num_batched_tokens": self.max_num_batched_tokens, **self.args}

    def _config(self) -> str:
        m = self.model.path
        return (
            f"model='{m}', speculative_config=None, tokenizer='{m}', skip_tokenizer_init=False, "
            "tokenizer_mode=auto, revision=None, trust_remote_code=False, dtype=torch.bfloat16, "
            f"max_seq_len={self.max_model_len}, download_dir=None, load_format=auto, tensor_parallel_size=1, "
            "pipeline_parallel_size=1, data_parallel_size=1, quantization=None, enforce_eager=False, "
            f"kv_cache_dtype=auto, seed=0, served_model_name={m}, "
            f"enable_prefix_caching={not self.format.v0}, "
            "enable_chunked_prefill=" + str(not self.format.v0)
        )

    def _startup_v1(self, log: Log, t: float, seconds: float) -> None:
        f, m, tokens = self.format, self.model, self.blocks * self.block_size
        concurrency = f"{tokens / self.max_model_len:.2f}x"
        size = f"GPU KV cache size: {tokens:,} tokens"
        most = f"Maximum concurrency for {self.max_model_len:,} tokens per request: {concurrency}"
        if f.one_capacity_line:
            for text in ("", f" █ █ █  version {f.full_version}", f" ▀█▀ █  model   {m.path}", ""):
                self.line(log, t, "api_utils.py", text)
            self.line(log, t, "startup.py", f"non-default args: {self._given()!r}")
        else:
            self.line(log, t, "api_server.py", f"vLLM API server version {f.full_version}")
            self.line(log, t, "utils.py", f"non-default args: {self._given()!r}")
        self.line(log, t + 2, "model.py", f"Resolved architecture: {m.architecture}")
        self.line(log, t + 2, "model.py", f"Using max model len {self.max_model_len}")
        chunk = f"Chunked prefill is enabled with max_num_batched_tokens={self.max_num_batched_tokens}."
        self.line(log, t + 2, "scheduler.py", chunk)
        start = f"Initializing a V1 LLM engine (v{f.full_version}) with config: {self._config()}"
        self.line(log, t + seconds * 0.15, "core.py", start, core=True)
        loaded = f"Model loading took {m.weights_gb:.4f} GiB memory and {seconds * 0.4:.6f} seconds"
        self.line(log, t + seconds * 0.6, "gpu_model_runner.py", loaded, core=True)
        kv = f"Available KV cache memory: {2 * m.kv_gb(tokens, 1):.2f} GiB"
        self.line(log, t + seconds * 0.75, "gpu_worker.py", kv, core=True)
        if f.one_capacity_line:
            self.line(log, t + seconds * 0.76, "kv_cache_utils.py", f"{size}, {most}", core=True)
        else:
            self.line(log, t + seconds * 0.76, "kv_cache_utils.py", size, core=True)
            self.line(log, t + seconds * 0.76, "kv_cache_utils.py", most, core=True)
        took = f"{seconds * 0.33:.2f}"
        took = f"{took} s (compilation: {seconds * 0.2:.2f} s)" if f.one_capacity_line else f"{took} seconds"
        text = f"init engine (profile, create kv cache, warmup model) took {took}"
        self.line(log, t + seconds * 0.93, "core.py", text, core=True)
        starting = f"Starting vLLM server on http://0.0.0.0:{self.port}"
        if f.one_capacity_line:
            self.line(log, t + seconds * 0.97, "entry.py", starting)
        else:
            self.line(log, t + seconds * 0.97, "api_server.py", starting.replace("server on", "API server 0 on"))
        self.line(log, t + seconds * 0.97, "launcher.py", "Available routes are:")
        for route, method in (
            ("/health", "GET"),
            ("/metrics", "GET"),
            ("/v1/models", "GET"),
            ("/v1/chat/completions", "POST"),
            ("/v1/completions", "POST"),
        ):
            self.line(log, t + seconds * 0.97, "launcher.py", f"Route: {route}, Methods: {method}")

    def _startup_v0(self, log: Log, t: float, seconds: float) -> None:
        f, m, tokens = self.format, self.model, self.blocks * self.block_size
        self.line(log, t, "api_server.py", f"vLLM API server version {f.full_version}")
        shown = ", ".join(f"{k}={v!r}" for k, v in {**self._given(), "disable_log_requests": True}.items())
        self.line(log, t, "api_server.py", f"args: Namespace({shown})")
        start = f"Initializing an LLM engine (v{f.full_version}) with config: {self._config()}, "
        self.line(log, t + seconds * 0.15, "llm_engine.py", start)
        loaded = f"Loading model weights took {m.weights_gb:.4f} GB"
        self.line(log, t + seconds * 0.6, "model_runner.py", loaded)
        blocks = f"# GPU blocks: {self.blocks}, # CPU blocks: 2048"
        self.line(log, t + seconds * 0.75, "gpu_executor.py", blocks)
        concurrency = f"{tokens / self.max_model_len:.2f}x"
        most = f"Maximum concurrency for {self.max_model_len} tokens per request: {concurrency}"
        self.line(log, t + seconds * 0.75, "gpu_executor.py", most)
        text = f"init engine (profile, create kv cache, warmup model) took {seconds * 0.33:.2f} seconds"
        self.line(log, t + seconds * 0.93, "llm_engine.py", text)
        self.line(log, t + seconds * 0.97, "launcher.py", "Available routes are:")
        for route, method in (("/health", "GET"), ("/metrics", "GET"), ("/v1/completions", "POST")):
            self.line(log, t + seconds * 0.97, "launcher.py", f"Route: {route}, Methods: {method}")


# -- both -----------------------------------------------------------------------------------


def request_id(rid: int) -> str:
    """A stable made-up request id."""
    return f"{random.Random(rid).getrandbits(64):016x}"


def client(rid: int) -> str:
    """A stable made-up client address."""
    rng = random.Random(rid * 7919 + 1)
    return f"10.2.{rng.randrange(4)}.{rng.randrange(10, 60)}:{rng.randrange(32768, 60999)}"


def probes(server: SGLangServer | VLLMServer, log: Log, start: float, end: float, every: float) -> None:
    """The orchestrator's health checks."""
    count = int((end - start) // every)
    times: Iterable[float] = (start + k * every for k in range(count + 1))
    for number, t in enumerate(times):
        server.access(log, t, "GET /health", client(1_000_000 + number))
