"""SGLang's log and endpoint for what the small engine did, as the releases from 0.4.6 on have them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from special_engine import Engine, Report, Sample, Settings
from special_text import EPOCH, Growing, Lines, clock, name_of

from sample_traces.generator.exposition import Family, Labels, Scrape

TOKEN_GB = 131072 / 1e9  # KV of one token, for what is said in GB/s
TTFT = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
E2E = (*TTFT, 600, 1200, 1800, 2400)
ITL = tuple(n / 1000 for n in (2, 4, 6, 8, 10, 15, 20, 25, 30, 35, 40, 60, 80, 100, 200, 400, 600, 800, 1000, 2000, 4000, 6000, 8000))
QUEUE = (0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200, 300, 400, 500)
LOAD_BACK = (*(n / 1000 for n in (*range(1, 11), 20, 30, 40, 50, 100, 200, 500)), 1.0)
TRANSFER_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)


@dataclass(slots=True)
class SGLang:
    """One SGLang process. `role` is unified, prefill or decode; `pools` names the pools beside the full one: swa, mamba."""

    version: str
    settings: Settings
    role: str = "unified"
    rank: int | None = None
    ranks: int = 1
    port: int = 30000
    context: int = 131072
    pools: tuple[str, ...] = ()
    host_tokens: int = 0
    host_share: float = 0.0  # of the host pool in use, all the time
    storage: bool = False
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> tuple[int, ...]:
        """The version to compare with."""
        return tuple(int(p) for p in self.version.split("."))

    def line(self, log: Lines, t: float, message: str, *, rank: bool = True) -> None:
        """One line of the scheduler, or of the main process."""
        tag = f" DP{self.rank}" if rank and self.rank is not None else ""
        if rank and (self.at < (0, 4, 6) or self.rank is not None):
            tag += " TP0"
        log.add(t, f"[{clock(t, '%Y-%m-%d %H:%M:%S')}{tag}] {message}")

    def access(self, log: Lines, t: float, port: int, status: str = "200 OK", path: str = "POST /v1/chat/completions") -> None:
        """One line of the HTTP server."""
        text = f'INFO:     10.0.3.7:{port} - "{path} HTTP/1.1" {status}'
        log.add(t, f"[{clock(t, '%Y-%m-%d %H:%M:%S')}] {text}" if self.at >= (0, 5, 3) else text)

    def start(self, log: Lines, t: float = -70.0) -> None:
        """The start-up lines."""
        s, at = self.settings, self.at
        args = {
            "model_path": "m/x", "host": "0.0.0.0", "port": self.port, "mem_fraction_static": 0.85, "max_running_requests": s.cap,
            "chunked_prefill_size": s.chunk, "max_prefill_tokens": 16384, "schedule_policy": "fcfs",
            "schedule_conservativeness": 1.0, "page_size": s.page, "tp_size": 1, "dp_size": self.ranks,
            "enable_hierarchical_cache": bool(self.host_tokens),
            "disaggregation_mode": "null" if self.role == "unified" else self.role, **self.args,
        }  # fmt: skip
        if not self.rank:
            shown = repr(args) if at >= (0, 5, 21) else "ServerArgs(" + ", ".join(f"{k}={v!r}" for k, v in args.items()) + ")"
            self.line(log, t, f"server_args={shown}", rank=False)
        self.line(log, t + 6, "Load weight begin. avail mem=78.41 GB")
        self.line(log, t + 40, "Memory pool end. avail mem=9.12 GB")
        size = s.pool * TOKEN_GB / 2 * 1e9 / 2**30
        dtype = "dtype: torch.bfloat16, " if at >= (0, 5, 15) else ""
        self.line(log, t + 39, f"KV Cache is allocated. {dtype}#tokens: {s.pool}, K size: {size:.2f} GB, V size: {size:.2f} GB")
        if "swa" in self.pools:
            self.line(log, t + 39, f"SWAKVPool mem usage: {2 * size:.2f} GB, swa size: {s.window_pool}, full size: {s.pool}")
        if "mamba" in self.pools:
            self.line(
                log,
                t + 38,
                f"Mamba Cache is allocated. max_mamba_cache_size: {s.states}, conv_state size: 0.52GB, ssm_state size: 10.21GB ",
            )
        if self.host_tokens:
            gb = self.host_tokens * TOKEN_GB
            new = f"Allocating kv hierarchical KV host pool: {self.host_tokens} tokens, {gb:.2f} GB host memory."
            self.line(log, t + 40, new if at >= (0, 5, 18) else f"Allocating {gb:.2f} GB host memory for hierarchical KV cache.")
        memory = ", available_gpu_mem=9.05 GB" if at >= (0, 4, 9) else ""
        chunk = f"chunked_prefill_size={s.chunk}, " if at >= (0, 4, 6) else ""
        self.line(
            log, t + 62,
            f"max_total_num_tokens={s.pool}, {chunk}max_prefill_tokens=16384, max_running_requests={s.cap}, "
            f"context_len={self.context}{memory}",
        )  # fmt: skip
        if not self.rank:
            self.line(log, t + 66, "The server is fired up and ready to roll!", rank=False)

    # -- the log

    def log(self, engine: Engine, *, start: bool = True, access: float = 0.3) -> Lines:
        """Everything the schedulers and the HTTP server print in a run. `access` is the part of requests with an access line."""
        log = Lines()
        if start:
            self.start(log)
        for r in engine.reports:
            self._report(log, r)
        rng = random.Random(len(engine.requests))
        for request in engine.requests:
            if request.first is not None and rng.random() < access and request.first <= engine.t:
                self.access(log, request.first, rng.randint(32000, 60000), path="POST /generate" if request.number % 7 == 0 else
                            "POST /v1/chat/completions")  # fmt: skip
        return log

    def _usage(self, v: Mapping[str, Any], used: float, counts: bool) -> str:
        s = self.settings
        usage = used / s.pool
        if not self.pools:
            return (f"#token: {used:.0f}, " if counts else "") + f"token usage: {usage:.2f}, "
        text = (f"#full token: {used:.0f}, " if counts else "") + f"full token usage: {usage:.2f}, "
        if "swa" in self.pools:
            text += (f"#swa token: {v['now_window']:.0f}, " if counts else "") + f"swa token usage: {v['now_window_usage']:.2f}, "
        if "mamba" in self.pools:
            text += (f"mamba num: {v['now_states']:.0f}, " if counts else "") + f"mamba usage: {v['now_states_usage']:.2f}, "
        return text

    def _report(self, log: Lines, r: Report) -> None:
        v, at = r.values, self.at
        mark = ", " if at >= (0, 5, 5) else ". "
        tail = ", " if (0, 4, 9) <= at < (0, 5, 9) else ""
        if r.kind == "abort":
            self.line(log, r.t, f"retract_decode: aborted last request {name_of(v['number'])} due to OOM")
        elif r.kind == "retract":
            said = "KV cache pool is full. Retract requests. " if at >= (0, 4, 9) else "Decode out of memory happened. "
            aborted = "#aborted_retracted_reqs: 0, " if at[:3] == (0, 5, 3) else ""
            gained = f"#new_tokens_gained: {v['gained']}, " if at >= (0, 5, 7) else ""
            states = f"#mamba_num_gained: {v['count']}, " if at >= (0, 5, 12) and "mamba" in self.pools else ""
            ratio = f"#new_token_ratio: {v['before']:.4f} -> {v['after']:.4f}"
            self.line(log, r.t, f"{said}#retracted_reqs: {v['count']}, {aborted}{gained}{states}{ratio}")
        elif r.kind == "prefill":
            early = at < (0, 5, 9)  # printed when it is scheduled, without its own tokens
            text = f"Prefill batch{mark}#new-seq: {v['new']}, #new-token: {v['tokens']}, #cached-token: {v['cached']}, "
            text += self._usage(v, v["before"] if early else v["used"], False)
            text += f"#running-req: {v['rows']}, #queue-req: {v['queue']}"
            if at >= (0, 5, 12):
                text += f", #pending-token: {v['pending']}"
            if self.role == "prefill":
                name = "bootstrap" if at >= (0, 5, 12) else "prealloc"
                text += f", #{name}-req: {v['queue'] // 9}, #inflight-req: {v['now_sending']:.0f}"
                text += ", #optimistic-req: 0" if at >= (0, 5, 18) else ""
            rate = f"input throughput (token/s): {v['tokens'] / v['since']:.2f}"
            if at >= (0, 5, 12):
                text += f", cuda graph: False, {rate}"
            elif at >= (0, 5, 9):
                text += f", {rate}, cuda graph: False"
            self.line(log, r.t - (v["since"] if early and v["since"] < 1 else 0), text + tail)
        else:
            text = f"Decode batch{mark}#running-req: {v['rows']}, " + self._usage(v, v["used"], True)
            queue = v["queue"]
            if self.role == "decode":
                text += f"pre-allocated usage: {v['now_held_usage']:.2f}, "
                if at >= (0, 5, 3):
                    moving = v["now_loading"] + v["now_to_load"]
                    text += f"#prealloc-req: {queue}, #transfer-req: {moving:.0f}, #retracted-req: 0, "
                queue = int(v["now_ready"])
            text += f"cuda graph: True, gen throughput (token/s): {v['tps']:.2f}, #queue-req: {queue}"
            self.line(log, r.t, text + tail)

    # -- the endpoint

    def scrapes(self, engine: Engine, others: Mapping[int, Engine] | None = None) -> list[Scrape]:
        """The reads of the endpoint. `others`: engines of further data-parallel ranks in the same process."""
        ranks = {self.rank or 0: engine, **(others or {})}
        views = {rank: _Endpoint(self, rank, len(ranks) > 1) for rank in ranks}
        scrapes = []
        for n, sample in enumerate(engine.samples):
            found: dict[str, Family] = {}
            for rank, e in ranks.items():
                if n < len(e.samples):
                    views[rank].add(found, e.samples[n])
            scrapes.append(Scrape(EPOCH + sample.t, list(found.values())))
        return scrapes


class _Endpoint:
    """One scheduler's part of what is exported."""

    def __init__(self, server: SGLang, rank: int, several: bool) -> None:
        self._server = server
        at = server.at
        model: Labels = {"model_name": "x"}
        if at >= (0, 5, 5):
            model["engine_type"] = server.role
        self._tokenizer = dict(model)
        if at >= (0, 5, 5):
            model |= {"tp_rank": "0", "pp_rank": "0"} | ({"dp_rank": str(rank)} if several else {})
        if at >= (0, 5, 9):
            model["moe_ep_rank"] = "0"
        self._labels = model
        self._first = rank == 0
        self._ttft, self._itl, self._e2e = Growing(TTFT, "ttft_s"), Growing(ITL, "itl_s"), Growing(E2E, "e2e_s")
        self._queue = Growing(QUEUE, "queue_s")
        self._load, self._transfer = Growing(LOAD_BACK, "load_s"), Growing(TRANSFER_MS, "load_s", 1000.0)
        self._loaded_before = 0.0

    def add(self, found: dict[str, Family], sample: Sample) -> None:
        """This scheduler's series at one time."""
        server, at, v = self._server, self._server.at, sample.state
        s = server.settings

        def put(name: str, kind: str, value: Any, labels: Labels | None = None, **more: str) -> None:
            own = {**(self._labels if labels is None else labels), **more}
            found.setdefault(name, Family(f"sglang:{name}", kind)).add(own, value)

        top = max(v["usage"], v["window_usage"], v["states_usage"] if at >= (0, 5, 12) else 0.0)
        put("num_running_reqs", "gauge", v["running"])
        put("num_queue_reqs", "gauge", 0 if server.role == "decode" else v["waiting"])
        put("num_grammar_queue_reqs", "gauge", v["grammar"])
        put("token_usage", "gauge", round(top, 2) if at >= (0, 5, 12) else top)
        put("num_used_tokens", "gauge", max(v["used"], v["window"]))
        put("gen_throughput", "gauge", round(v.get("tps", 0.0), 4))
        put("cache_hit_rate", "gauge", 0.0)
        if at >= (0, 5, 3):
            put("queue_time_seconds", "histogram", self._queue.at(sample))
            put("num_retracted_reqs", "gauge", v.get("retracted_now", 0))
        if "swa" in server.pools:
            put("swa_token_usage", "gauge", v["window_usage"])
        if "mamba" in server.pools:
            put("mamba_usage", "gauge", v["states_usage"])
        if at >= (0, 5, 7):
            put("max_total_num_tokens", "gauge", s.pool)
            put("num_retracted_requests_total", "counter", v.get("retracted", 0))
            for mode, total in (("prefill_compute", "prefilled"), ("prefill_cache", "hit"), ("decode", "generated")):
                put("realtime_tokens_total", "counter", v.get(total, 0), mode=mode)
            if s.adapters is not None:
                put("lora_pool_slots_used", "gauge", v["adapters"])
                put("lora_pool_slots_total", "gauge", s.adapters)
                put("lora_pool_utilization", "gauge", v["adapters"] / s.adapters)
        if at >= (0, 5, 12):
            put("kv_used_tokens", "gauge", v["used"])
            put("kv_evictable_tokens", "gauge", min(s.pool - v["used"], v.get("prefilled", 0) // 2))
            put("kv_available_tokens", "gauge", s.pool - v["used"] - min(s.pool - v["used"], v.get("prefilled", 0) // 2))
        self._tiers(put, sample)
        self._disaggregated(put, sample)
        if self._first:
            self._requests(put, sample)

    def _tiers(self, put: Any, sample: Sample) -> None:
        server, at, v = self._server, self._server.at, sample.state
        if not server.host_tokens:
            return
        loaded = v.get("loaded", 0)
        if at >= (0, 5, 12):
            put("hicache_host_used_tokens", "gauge", round(server.host_tokens * server.host_share))
            put("hicache_host_total_tokens", "gauge", server.host_tokens)
        if server.storage:
            put("prefetched_tokens_total", "counter", loaded)
            put("prefetch_pgs", "histogram", Growing((1, 5, 10, 50, 100, 200, 500, 1000), "none").at(sample))
        elif at >= (0, 5, 7):
            pool = {"pool": "kv"} if at >= (0, 5, 18) else {}
            put("load_back_tokens_total", "counter", loaded, **pool)
            put("load_back_duration_seconds", "histogram", self._load.at(sample))

    def _disaggregated(self, put: Any, sample: Sample) -> None:
        server, at, v = self._server, self._server.at, sample.state
        if server.role == "decode":
            put("num_decode_prealloc_queue_reqs", "gauge", v["waiting"])
            put("num_decode_transfer_queue_reqs", "gauge", v["loading"] + v["to_load"])
        elif server.role == "prefill":
            put("num_prefill_inflight_queue_reqs", "gauge", v["sending"])
            if at >= (0, 5, 12):
                put("num_prefill_bootstrap_queue_reqs", "gauge", v["waiting"] // 9)
                put("kv_transfer_latency_ms", "histogram", self._transfer.at(sample))

    def _requests(self, put: Any, sample: Sample) -> None:
        at, v = self._server.at, sample.state
        ending = {**self._tokenizer, **({"is_streaming": "true"} if at >= (0, 5, 23) else {})}
        put("prompt_tokens_total", "counter", v.get("prompted", 0), ending)
        put("generation_tokens_total", "counter", v.get("generated", 0), ending)
        put("num_requests_total", "counter", v.get("finished", 0), ending)
        put("time_to_first_token_seconds", "histogram", self._ttft.at(sample), ending)
        put("inter_token_latency_seconds", "histogram", self._itl.at(sample), self._tokenizer)
        put("e2e_request_latency_seconds", "histogram", self._e2e.at(sample), ending)
