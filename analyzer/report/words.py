"""The words of the report: causes, answers, events and peaks as a person would say them."""

from __future__ import annotations

from typing import Literal

# How a verdict, an answer or an event is coloured. Grey means "not known", and is never used for "fine".
Tone = Literal["bad", "warn", "good", "grey"]

# Cause: headline, short name for tables, what it means, tone.
CAUSES: dict[str, tuple[str, str, str, Tone]] = {
    "crash": (
        "Crash: a server process died",
        "Crash",
        "Requests were lost or waited because the process was gone.",
        "bad",
    ),
    "restart": (
        "Restart: the server went away and came back",
        "Restart",
        "Requests waited or failed while the process started again, with empty caches.",
        "bad",
    ),
    "hang": (
        "Hang: work in hand, no progress",
        "Hang",
        "The process was up and had requests, but its counters stood still.",
        "bad",
    ),
    "unschedulable": (
        "Unschedulable: a request larger than the whole KV pool",
        "Unschedulable",
        "At least one waiting request needs more than the pool can ever give.",
        "bad",
    ),
    "l1_bound": (
        "L1-bound: the KV pool in HBM was full",
        "L1-bound",
        "Requests waited, or were thrown out and recomputed, because the KV pool on the GPU had no room "
        "left. Room in L2 does not help: no admission formula reads it.",
        "bad",
    ),
    "reservation_bound": (
        "Reservation-bound: the pool had room, the admission budget had none",
        "Reservation-bound",
        "The next request fitted physically, but what is set aside for tokens not yet generated kept it out.",
        "bad",
    ),
    "cap_bound": (
        "Cap-bound: running requests were at the configured limit",
        "Cap-bound",
        "There was room in the KV pool; the limit on running requests kept the queue waiting.",
        "bad",
    ),
    "prefill_bound": (
        "Prefill-bound: prompt processing was saturated",
        "Prefill-bound",
        "Memory and limits had room; the prompts came faster than they could be computed.",
        "bad",
    ),
    "l2_bound": (
        "L2-bound: requests waited for the second-level cache",
        "L2-bound",
        "Loading, prefetching or storing KV blocks outside HBM held requests up.",
        "bad",
    ),
    "transfer_bound": (
        "Transfer-bound: requests waited for KV transfer",
        "Transfer-bound",
        "Prefill was done, but the KV cache had not reached the decode side.",
        "bad",
    ),
    "decode_bound": (
        "Decode-bound: nothing waited, every token was slow",
        "Decode-bound",
        "The queue was empty and the pool had room; each decode step took long.",
        "bad",
    ),
    "skew": (
        "Skew: one part was overloaded while others idled",
        "Skew",
        "The fleet had room, but not on the rank or instance the requests were sent to.",
        "bad",
    ),
    "none": (
        "No incident found",
        "No incident",
        "Neither time to first token nor the queue broke in this capture.",
        "good",
    ),
    "insufficient_data": (
        "Cannot tell from this capture",
        "Cannot tell",
        "A signal that would be needed is missing. This is not an all-clear.",
        "grey",
    ),
}

ANSWERS: dict[str, tuple[str, Tone]] = {
    "yes": ("Yes", "bad"),
    "partly": ("Partly", "warn"),
    "no": ("No", "good"),
    "cannot_tell": ("Cannot tell", "grey"),
}

# Most telling first: this order decides what is listed when not every event is.
EVENTS: dict[str, str] = {
    "crash": "Crash",
    "oom": "Out of memory",
    "watchdog": "Watchdog",
    "shutdown": "Shutdown",
    "start": "Start",
    "ready": "Ready",
    "kv_load_failure": "KV load failure",
    "rejection": "Rejection",
    "abort": "Abort",
    "stats_off": "Statistics off",
    "flush": "Cache flush",
    "retraction": "Retraction",
    "preemption": "Preemption",
    "warning": "Warning",
}

# Which events share a lane, and how they are drawn.
LANES: tuple[tuple[str, str, Literal["cross", "triangle", "dot"], tuple[str, ...]], ...] = (
    (
        "failure",
        "Failures",
        "cross",
        ("crash", "oom", "watchdog", "rejection", "abort", "kv_load_failure"),
    ),
    ("process", "Process", "triangle", ("start", "ready", "shutdown")),
    ("other", "Other events", "dot", ()),
)

# Where TTFT was read.
TTFT_SOURCES = {
    "client": "client records",
    "frontend": "records of the front end",
    "engine": "records of the engine",
    "histogram": "histograms",
}

# Where scheduler reports were read.
BASES = {"log": "the log", "metrics": "the metrics"}

# Who counted retractions, preemptions and what L2 moved.
COUNTED_BY = {"counter": "by counters in the metrics", "log": "from lines of the log"}
COUNTER_LAGS = {
    "retracted": " A bar stands at the scrape that shows it.",
    "preempted": " A counter lags: it moves when the victim goes on, not when it is thrown out.",
}

# Which metric tells cached tokens from empty ones, by engine.
KV_STATES = {
    "sglang": "SGLang tells it from 0.5.12 on: sglang:kv_evictable_tokens.",
    "vllm": "vLLM tells it nowhere.",
}

# Format of an input: what it is, and what it is made of.
FORMATS: dict[str, tuple[str, str]] = {
    "engine_log": ("engine log", "lines"),
    "prometheus_text": ("Prometheus text scrapes", "samples"),
    "prometheus_json": ("answers of the Prometheus API", "samples"),
    "tsdb_dump": ("Prometheus TSDB dump", "samples"),
    "victoriametrics_json": ("VictoriaMetrics export", "samples"),
    "long_table": ("table of samples", "samples"),
    "client": ("client records", "requests"),
    "vllm_bench": ("client records of vllm bench", "requests"),
    "sglang_bench": ("client records of sglang.bench_serving", "requests"),
    "guidellm": ("client records of GuideLLM", "requests"),
    "aiperf": ("client records of AIPerf", "requests"),
    "generic_records": ("request records by --map", "requests"),
    "sglang_metrics_file": ("SGLang's exported request metrics", "requests"),
    "sglang_request_log": ("SGLang request log", "requests"),
    "otlp_traces": ("OTLP traces", "requests"),
    "mooncake_trace": ("Mooncake workload trace", "requests"),
    "azure_trace": ("Azure workload trace", "requests"),
    "burstgpt_trace": ("BurstGPT workload trace", "requests"),
    "none": ("not known", "lines"),
}

# Peak: label, unit, the only engine it is expected from ("" for all).
PEAKS: tuple[tuple[str, str, str, str], ...] = (
    ("waiting", "Peak waiting", "requests", ""),
    ("running", "Peak running", "requests", ""),
    ("kv_usage", "Peak KV usage", "share", ""),
    ("retraction_events", "Retraction events", "", "sglang"),
    ("retracted_requests", "Retracted requests", "", "sglang"),
    ("preemptions", "Preemptions", "", "vllm"),
)


def cause_words(cause: str) -> tuple[str, str, str, Tone]:
    """The words for a cause; one this version does not know is shown under its own name, in grey."""
    return CAUSES.get(cause, (cause, cause, "", "grey"))


def answer_words(answer: str) -> tuple[str, Tone]:
    """The words for an answer; an unknown one counts as "cannot tell"."""
    return ANSWERS.get(answer, ANSWERS["cannot_tell"])
