"""vLLM's log and endpoint for what the small engine did, as the releases from 0.6.6 on have them, and LMCache's lines beside it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from special_engine import Engine, Sample, Settings
from special_text import EPOCH, Growing, Lines, clock, name_of

from sample_traces.generator.exposition import Family, Labels, Scrape

TOKEN_BYTES = 131072
LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
RETRIEVE = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


@dataclass(slots=True)
class VLLM:
    """One vLLM engine core and its API server. `connector` is lmcache, offload or nixl."""

    version: str
    settings: Settings
    rank: int | None = None
    ranks: int = 1
    port: int = 8000
    model_len: int = 65536
    connector: str = ""
    l2_gb: float = 0.0
    l2_share: float = 0.0  # of it in use, all the time
    stuck_reason: str = "capacity"  # what the endpoint says that waiting requests wait for
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> tuple[int, ...]:
        """The version to compare with."""
        return tuple(int(p) for p in self.version.split("."))

    def line(self, log: Lines, t: float, file: str, message: str, *, core: bool = False, level: str = "INFO") -> None:
        """One line of the API server or the engine core."""
        at = self.at
        number = 100 + sum(map(ord, file)) % 900
        tag = ""
        if at >= (0, 11):
            plain = at >= (0, 33) and self.rank is None
            tag = ("(EngineCore pid=204) " if plain else f"(EngineCore_DP{self.rank or 0} pid=204) ") if core else "(APIServer pid=77) "
            if at < (0, 19):
                tag = f"\x1b[1;36m{tag.strip()}\x1b[0;0m "
        where = f"{file}:{number}]" if at < (0, 8) else f"[{file}:{number}]"
        log.add(t, f"{tag}{level} {clock(t, '%m-%d %H:%M:%S')} {where} {message}")

    def access(self, log: Lines, t: float, port: int, status: str = "200 OK", path: str = "POST /v1/completions") -> None:
        """One line of the HTTP server, which has no time."""
        log.add(t, f'INFO:     10.0.3.7:{port} - "{path} HTTP/1.1" {status}')

    def start(self, log: Lines, t: float = -70.0) -> None:
        """The start-up lines."""
        s, at = self.settings, self.at
        args = {
            "host": "0.0.0.0", "port": self.port, "model": "m/x", "max_model_len": self.model_len, "max_num_seqs": s.cap,
            "max_num_batched_tokens": s.chunk, **self.args,
        }  # fmt: skip
        if at < (0, 11):
            self.line(log, t, "api_server.py", f"vLLM API server version {self.version}")
            self.line(log, t, "api_server.py", "args: Namespace(" + ", ".join(f"{k}={v!r}" for k, v in args.items()) + ")")
        else:
            self.line(log, t, "startup.py" if at >= (0, 33) else "utils.py", f"non-default args: {args!r}")
            self.line(log, t + 3, "model.py", f"Using max model len {self.model_len}")
        kind = "an LLM" if at < (0, 8) else "a V1 LLM"
        config = f"model='m/x', max_seq_len={self.model_len}, tensor_parallel_size=1, enable_prefix_caching=True"
        self.line(log, t + 8, "core.py", f"Initializing {kind} engine (v{self.version}) with config: {config}", core=True)
        if at < (0, 8):
            self.line(log, t + 50, "gpu_executor.py", f"# GPU blocks: {s.pool // 16}, # CPU blocks: 2048")
        else:
            size = f"GPU KV cache size: {s.pool:,} tokens"
            most = f"Maximum concurrency for {self.model_len:,} tokens per request: {s.pool / self.model_len:.2f}x"
            for text in [f"{size}, {most}"] if at >= (0, 33) else [size, most]:
                self.line(log, t + 50, "kv_cache_utils.py", text, core=True)
        if self.connector == "offload":
            self.line(log, t + 52, "factory.py", "Creating v1 connector with name: OffloadingConnector and engine_id: 9a41", core=True)
            self.line(log, t + 52, "factory.py", "Creating offloading spec with name: CPUOffloadingSpec", core=True)
        if self.connector == "nixl":
            self.line(log, t + 52, "factory.py", "Creating v1 connector with name: NixlConnector and engine_id: 77c0", core=True)
        if self.connector == "lmcache":
            text = f"Adjusted CPU memory size from {self.l2_gb * 1.5:.2f} GB to {self.l2_gb:.2f} GB"
            lmcache(log, t + 53, f"{text} (system available: {self.l2_gb + 2:.2f} GB, reserve: 2.00 GB)", "local_cpu_backend.py:357")
        log.add(t + 66, "INFO:     Application startup complete.")

    # -- the log

    def log(self, engine: Engine, *, start: bool = True, access: float = 0.3, until: float | None = None) -> Lines:
        """Everything that is printed in a run. After two intervals without a token the stats line is silent."""
        log = Lines()
        if start:
            self.start(log)
        last: dict[str, float] = {}
        was_idle = True
        for sample in engine.stats:
            v = sample.state
            prompt = (v.get("prompted", 0) - last.get("prompted", 0)) / engine.stats_s
            generated = (v.get("generated", 0) - last.get("generated", 0)) / engine.stats_s
            idle = prompt == 0 and generated == 0
            if not (idle and was_idle):
                self._stats(log, sample, prompt, generated)
                if self.connector in ("offload", "nixl") and self.at >= (0, 33):
                    self._transfers(log, sample, last)
            was_idle, last = idle, v
        if self.at < (0, 8):
            self._preemptions(log, engine)
        rng = random.Random(len(engine.requests))
        for r in engine.requests:
            if r.first is not None and rng.random() < access:
                self.access(log, r.first, rng.randint(32000, 60000))
        if self.connector == "lmcache":
            self._lmcache(log, engine)
        return log

    def _stats(self, log: Lines, sample: Sample, prompt: float, generated: float) -> None:
        v = sample.state
        rates = f"Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {generated:.1f} tokens/s, "
        kv = f"GPU KV cache usage: {v['usage'] * 100:.1f}%"
        deferred = v["grammar"] + v["loading"] + v["to_load"] + v["ready"]
        waiting = v["waiting"] + deferred
        hit = v.get("found", 0) / v["asked"] * 100 if v.get("asked") else 0.0
        if self.at < (0, 8):
            text = f"{rates}Running: {v['running']:.0f} reqs, Swapped: 0 reqs, Pending: {waiting:.0f} reqs, {kv}, CPU KV cache usage: 0.0%."
            self.line(log, sample.t, "metrics.py", text)
            return
        text = f"Engine {self.rank or 0:03d}: {rates}Running: {v['running']:.0f} reqs, Waiting: {waiting:.0f} reqs, "
        if self.at >= (0, 33):
            held = waiting if self.stuck_reason == "deferred" else deferred
            text += f"Deferred: {held:.0f} reqs, " if held else ""
            if self.connector and deferred:
                text += (
                    f"KV fetch: {v['to_load']:.0f} waiting to start, {v['loading']:.0f} in progress, {v['ready']:.0f} completed waiting, "
                )
        text += f"{kv}, Prefix cache hit rate: {hit:.1f}%"
        if self.connector and self.at >= (0, 11) and v.get("remote_asked"):
            text += f", External prefix cache hit rate: {v['remote_found'] / v['remote_asked'] * 100:.1f}%"
        self.line(log, sample.t, "loggers.py", text)

    def _transfers(self, log: Lines, sample: Sample, last: Mapping[str, float]) -> None:
        times = sample.seen.get("load_s", [])
        size = (sample.state.get("loaded", 0) - last.get("loaded", 0)) * TOKEN_BYTES
        if not times or not size:
            return
        if self.connector == "offload":
            text = f"vllm:kv_offload_load_bytes={size:.0f}, vllm:kv_offload_load_time={sum(times):.4f}, "
            text += f"vllm:kv_offload_load_size_count={len(times)}, vllm:kv_offload_load_size_sum={size:.0f}"
        else:
            ms = sorted(t * 1000 for t in times)
            text = f"Num successful transfers={len(ms)}, Avg xfer time (ms)={sum(ms) / len(ms):.3f}, "
            text += f"P90 xfer time (ms)={ms[int(0.9 * (len(ms) - 1))]:.3f}, Avg post time (ms)=0.512, P90 post time (ms)=0.731, "
            text += f"Avg MB per transfer={size / len(ms) / 2**20:.1f}, Throughput (MB/s)={size / 2**20 / (sum(ms) / 1000):.3f}, "
            text += "Avg number of descriptors=1024.0, Num failed transfers=0, Num KV expired reqs=0, Num notifs after expiry=0"
        self.line(log, sample.t, "metrics.py", f"KV Transfer metrics: {text}")

    def _preemptions(self, log: Lines, engine: Engine) -> None:
        told = 0
        for sample in engine.stats:
            while told * 50 + 1 <= sample.state.get("thrown", 0):
                self.line(
                    log, sample.t - 1, "scheduler.py",
                    f"Sequence group cmpl-{name_of(told)}-0 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV "
                    "cache space. This can affect the end-to-end performance. Increase gpu_memory_utilization or tensor_parallel_size to "
                    f"provide more KV cache memory. total_num_cumulative_preemption={told * 50 + 1}", level="WARNING",
                )  # fmt: skip
                told += 1

    def _lmcache(self, log: Lines, engine: Engine) -> None:
        new = self.at >= (0, 19)
        for r in engine.requests:
            if r.admitted is None and r.loads is None:
                continue
            name = f"cmpl-{name_of(r.number)}-0"
            hit = r.cached + r.remote
            has = f"Inference Engine computed tokens: {r.cached}, " if new else ""
            asked = r.loads[0] if r.loads else r.admitted
            text = f"Reqid: {name}, Total tokens {r.prompt}, {has}LMCache hit tokens: {hit}, need to load: {r.remote}"
            lmcache(log, asked or r.at, text, "vllm_v1_adapter.py:1330")
            if not r.loads or r.loads[2] > engine.t:
                continue
            took = r.loads[2] - r.loads[1]
            gb = r.remote * TOKEN_BYTES / 2**30
            of = f"[req_id={name}] " if new else ""
            text = f"{of}Retrieved {r.remote} out of {r.remote} required tokens (from {hit} total tokens). "
            text += f"size: {gb:.4f} gb, cost {took * 1000:.4f} ms, throughput: {gb / took:.4f} GB/s;"
            lmcache(log, r.loads[2], text, "cache_engine.py:531")

    # -- the endpoint

    def scrapes(self, engine: Engine, others: Mapping[int, Engine] | None = None) -> list[Scrape]:
        """The reads of the endpoint. `others`: further data-parallel engines behind the same API server."""
        ranks = {self.rank or 0: engine, **(others or {})}
        views = {rank: _Endpoint(self, rank) for rank in ranks}
        scrapes = []
        for n, sample in enumerate(engine.samples):
            found: dict[str, Family] = {}
            for rank, e in ranks.items():
                if n < len(e.samples):
                    views[rank].add(found, e.samples[n])
            scrapes.append(Scrape(EPOCH + sample.t, list(found.values())))
        return scrapes


def lmcache(log: Lines, t: float, message: str, place: str, level: str = "INFO") -> None:
    """One line of LMCache, which always has colours and its place at the end."""
    colour = {"INFO": "32;20", "WARNING": "33;20", "ERROR": "31;20"}[level]
    stamp = f"{clock(t, '%Y-%m-%d %H:%M:%S')},{int(t * 1000) % 1000:03d}"
    log.add(t, f"\x1b[{colour}m[{stamp}] LMCache {level}:\x1b[0m {message} \x1b[3m({place}:lmcache)\x1b[0m")


class _Endpoint:
    """One engine's part of what is exported."""

    def __init__(self, server: VLLM, rank: int) -> None:
        self._server = server
        self._labels: Labels = {"model_name": "m/x"}
        if server.at >= (0, 11):
            self._labels = {"engine": str(rank), "model_name": "m/x"}
        self._ttft, self._itl = Growing(TTFT, "ttft_s"), Growing(ITL, "itl_s")
        self._e2e, self._queue = Growing(LATENCY, "e2e_s"), Growing(LATENCY, "queue_s")
        self._retrieve = Growing(RETRIEVE, "load_s")
        self._load_s = 0.0

    def add(self, found: dict[str, Family], sample: Sample) -> None:
        """This engine's series at one time."""
        server, at, v = self._server, self._server.at, sample.state
        s = server.settings

        def put(name: str, kind: str, value: Any, **more: str) -> None:
            found.setdefault(name, Family(name, kind)).add({**self._labels, **more}, value)

        deferred = v["grammar"] + v["loading"] + v["to_load"] + v["ready"]
        waiting = v["waiting"] + deferred
        put("vllm:num_requests_running", "gauge", v["running"])
        put("vllm:num_requests_waiting", "gauge", waiting)
        if at >= (0, 33):
            held = waiting if server.stuck_reason == "deferred" else deferred
            put("vllm:num_requests_waiting_by_reason", "gauge", waiting - held, reason="capacity")
            put("vllm:num_requests_waiting_by_reason", "gauge", held, reason="deferred")
            if server.connector:
                for stage, name in (("waiting_to_start", "to_load"), ("in_progress", "loading"), ("completed_waiting", "ready")):
                    put("vllm:num_requests_kv_fetch_by_stage", "gauge", v[name], stage=stage)
        put("vllm:kv_cache_usage_perc" if at >= (0, 11) else "vllm:gpu_cache_usage_perc", "gauge", v["usage"])
        for name, total in (
            ("prefix_cache_queries" if at >= (0, 11) else "gpu_prefix_cache_queries", "asked"),
            ("prefix_cache_hits" if at >= (0, 11) else "gpu_prefix_cache_hits", "found"),
            ("num_preemptions", "thrown"),
            ("prompt_tokens", "prompted"),
            ("generation_tokens", "generated"),
        ):
            if at >= (0, 8) or "cache" not in name:
                put(f"vllm:{name}_total", "counter", v.get(total, 0))
        put("vllm:request_success_total", "counter", v.get("finished", 0), finished_reason="stop")
        put("vllm:time_to_first_token_seconds", "histogram", self._ttft.at(sample))
        put(
            "vllm:inter_token_latency_seconds" if at >= (0, 11) else "vllm:time_per_output_token_seconds", "histogram", self._itl.at(sample)
        )
        put("vllm:e2e_request_latency_seconds", "histogram", self._e2e.at(sample))
        put("vllm:request_queue_time_seconds", "histogram", self._queue.at(sample))
        if server.connector:
            put("vllm:external_prefix_cache_queries_total", "counter", v.get("remote_asked", 0))
            put("vllm:external_prefix_cache_hits_total", "counter", v.get("remote_found", 0))
        self._load_s += sum(sample.seen.get("load_s", ()))
        if server.connector == "offload" and at >= (0, 33):
            put("vllm:kv_offload_load_bytes_total", "counter", v.get("loaded", 0) * TOKEN_BYTES)
            put("vllm:kv_offload_load_time_total", "counter", round(self._load_s, 4))
        if server.connector == "lmcache":
            role = {"role": "worker", "worker_id": "0"}
            self._labels, labels = {"model_name": "m/x"}, self._labels
            put("lmcache:local_cache_usage", "gauge", server.l2_gb * server.l2_share * 2**30, **role)
            put("lmcache:num_hit_tokens_total", "counter", v.get("remote_found", 0) + v.get("found", 0), **role)
            put("lmcache:time_to_retrieve", "histogram", self._retrieve.at(sample), **role)
            self._labels = labels
        blocks = {"block_size": "16", "num_gpu_blocks": str(s.pool // 16 + 1), "cache_dtype": "auto"}
        if at >= (0, 33):
            blocks["kv_cache_size_tokens"] = str(s.pool)
        put("vllm:cache_config_info", "gauge", 1, **blocks)
