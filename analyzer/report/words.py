"""The words of the report: causes, answers, events and peaks as a person would say them.

The tables hold English; the functions at the end say it in the language of the moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from analyzer.language import N_, _
from analyzer.report import fmt

# How a verdict, an answer or an event is coloured. Grey means "not known", and is never used for "fine".
Tone = Literal["bad", "warn", "good", "grey"]

# Cause: headline, short name for tables, what it means, tone.
CAUSES: dict[str, tuple[str, str, str, Tone]] = {
    "crash": (
        N_("Crash: a server process died"),
        N_("Crash"),
        N_("Requests were lost or waited because the process was gone."),
        "bad",
    ),
    "restart": (
        N_("Restart: the server went away and came back"),
        N_("Restart"),
        N_("Requests waited or failed while the process started again, with empty caches."),
        "bad",
    ),
    "hang": (
        N_("Hang: work in hand, no progress"),
        N_("Hang"),
        N_("The process was up and had requests, but its counters stood still."),
        "bad",
    ),
    "unschedulable": (
        N_("Unschedulable: a request larger than the whole KV pool"),
        N_("Unschedulable"),
        N_("At least one waiting request needs more than the pool can ever give."),
        "bad",
    ),
    "l1_bound": (
        N_("L1-bound: the KV pool in HBM was full"),
        N_("L1-bound"),
        N_(
            "Requests waited, or were thrown out and recomputed, because the KV pool on the GPU had no room "
            "left. Room in L2 does not help: no admission formula reads it."
        ),
        "bad",
    ),
    "reservation_bound": (
        N_("Reservation-bound: the pool had room, the admission budget had none"),
        N_("Reservation-bound"),
        N_("The next request fitted physically, but what is set aside for tokens not yet generated kept it out."),
        "bad",
    ),
    "cap_bound": (
        N_("Cap-bound: running requests were at the configured limit"),
        N_("Cap-bound"),
        N_("There was room in the KV pool; the limit on running requests kept the queue waiting."),
        "bad",
    ),
    "prefill_bound": (
        N_("Prefill-bound: prompt processing was saturated"),
        N_("Prefill-bound"),
        N_("Memory and limits had room; the prompts came faster than they could be computed."),
        "bad",
    ),
    "l2_bound": (
        N_("L2-bound: requests waited for the second-level cache"),
        N_("L2-bound"),
        N_("Loading, prefetching or storing KV blocks outside HBM held requests up."),
        "bad",
    ),
    "transfer_bound": (
        N_("Transfer-bound: requests waited for KV transfer"),
        N_("Transfer-bound"),
        N_("Prefill was done, but the KV cache had not reached the decode side."),
        "bad",
    ),
    "decode_bound": (
        N_("Decode-bound: nothing waited, every token was slow"),
        N_("Decode-bound"),
        N_("The queue was empty and the pool had room; each decode step took long."),
        "bad",
    ),
    "skew": (
        N_("Skew: one part was overloaded while others idled"),
        N_("Skew"),
        N_("The fleet had room, but not on the rank or instance the requests were sent to."),
        "bad",
    ),
    "none": (
        N_("No incident found"),
        N_("No incident"),
        N_("Neither time to first token nor the queue broke in this capture."),
        "good",
    ),
    "insufficient_data": (
        N_("Cannot tell from this capture"),
        N_("Cannot tell"),
        N_("A signal that would be needed is missing. This is not an all-clear."),
        "grey",
    ),
}

ANSWERS: dict[str, tuple[str, Tone]] = {
    "yes": (N_("Yes"), "bad"),
    "partly": (N_("Partly"), "warn"),
    "no": (N_("No"), "good"),
    "cannot_tell": (N_("Cannot tell"), "grey"),
}

# Most telling first: this order decides what is listed when not every event is.
EVENTS: dict[str, str] = {
    "crash": N_("Crash"),
    "oom": N_("Out of memory"),
    "watchdog": N_("Watchdog"),
    "shutdown": N_("Shutdown"),
    "start": N_("Start"),
    "ready": N_("Ready"),
    "kv_load_failure": N_("KV load failure"),
    "rejection": N_("Rejection"),
    "abort": N_("Abort"),
    "stats_off": N_("Statistics off"),
    "flush": N_("Cache flush"),
    "retraction": N_("Retraction"),
    "preemption": N_("Preemption"),
    "warning": N_("Warning"),
}

# Which events share a lane, and how they are drawn.
LANES: tuple[tuple[str, str, Literal["cross", "triangle", "dot"], tuple[str, ...]], ...] = (
    (
        "failure",
        N_("Failures"),
        "cross",
        ("crash", "oom", "watchdog", "rejection", "abort", "kv_load_failure"),
    ),
    ("process", N_("Process"), "triangle", ("start", "ready", "shutdown")),
    ("other", N_("Other events"), "dot", ()),
)

# Where TTFT was read.
TTFT_SOURCES = {
    "client": N_("client records"),
    "frontend": N_("records of the front end"),
    "engine": N_("records of the engine"),
    "histogram": N_("histograms"),
}

# Where scheduler reports were read.
BASES = {"log": N_("the log"), "metrics": N_("the metrics")}

# Who counted retractions, preemptions and what L2 moved; and what a counter is late with.
COUNTED_BY = {
    frozenset(("counter",)): N_("Counted by counters in the metrics."),
    frozenset(("log",)): N_("Counted from lines of the log."),
    frozenset(("counter", "log")): N_("Counted by counters in the metrics and from lines of the log."),
}
COUNTER_LAGS = {
    "retracted": N_("A bar stands at the scrape that shows it."),
    "preempted": N_("A counter lags: it moves when the victim goes on, not when it is thrown out."),
}

# Which metric tells cached tokens from empty ones, by engine.
KV_STATES = {
    "sglang": N_("SGLang tells it from 0.5.12 on: sglang:kv_evictable_tokens."),
    "vllm": N_("vLLM tells it nowhere."),
}

# Format of an input: what it is, and what it is made of.
FORMATS: dict[str, tuple[str, str]] = {
    "engine_log": (N_("engine log"), "lines"),
    "prometheus_text": (N_("Prometheus text scrapes"), "samples"),
    "prometheus_json": (N_("answers of the Prometheus API"), "samples"),
    "tsdb_dump": (N_("Prometheus TSDB dump"), "samples"),
    "victoriametrics_json": (N_("VictoriaMetrics export"), "samples"),
    "long_table": (N_("table of samples"), "samples"),
    "client": (N_("client records"), "requests"),
    "vllm_bench": (N_("client records of vllm bench"), "requests"),
    "sglang_bench": (N_("client records of sglang.bench_serving"), "requests"),
    "guidellm": (N_("client records of GuideLLM"), "requests"),
    "aiperf": (N_("client records of AIPerf"), "requests"),
    "generic_records": (N_("request records by --map"), "requests"),
    "sglang_metrics_file": (N_("SGLang's exported request metrics"), "requests"),
    "sglang_request_log": (N_("SGLang request log"), "requests"),
    "otlp_traces": (N_("OTLP traces"), "requests"),
    "mooncake_trace": (N_("Mooncake workload trace"), "requests"),
    "azure_trace": (N_("Azure workload trace"), "requests"),
    "burstgpt_trace": (N_("BurstGPT workload trace"), "requests"),
    "none": (N_("not known"), "lines"),
}

# Peak: label, unit, the only engine it is expected from ("" for all).
PEAKS: tuple[tuple[str, str, str, str], ...] = (
    ("waiting", N_("Peak waiting"), "requests", ""),
    ("running", N_("Peak running"), "requests", ""),
    ("kv_usage", N_("Peak KV usage"), "share", ""),
    ("retraction_events", N_("Retraction events"), "", "sglang"),
    ("retracted_requests", N_("Retracted requests"), "", "sglang"),
    ("preemptions", N_("Preemptions"), "", "vllm"),
)


CONFIDENCES = {"high": N_("high"), "medium": N_("medium"), "low": N_("low")}


def cause_words(cause: str) -> tuple[str, str, str, Tone]:
    """The words for a cause; one this version does not know is shown under its own name, in grey."""
    title, short, meaning, tone = CAUSES.get(cause, (cause, cause, "", "grey"))
    return _(title), _(short), _(meaning), tone


def answer_words(answer: str) -> tuple[str, Tone]:
    """The words for an answer; an unknown one counts as "cannot tell"."""
    chip, tone = ANSWERS.get(answer, ANSWERS["cannot_tell"])
    return _(chip), tone


def confidence_word(confidence: str) -> str:
    """The word for a confidence; one this version does not know is shown as it is."""
    return _(CONFIDENCES[confidence]) if confidence in CONFIDENCES else fmt.clean(confidence, 20)


def event_word(kind: object) -> str:
    """What an event is called; one this version does not know is shown under its own name."""
    return _(EVENTS[str(kind)]) if str(kind) in EVENTS else fmt.clean(kind, 40)


def ttft_source(source: str) -> str:
    """Where TTFT was read."""
    return _(TTFT_SOURCES.get(source, source))


def basis(name: str) -> str:
    """Where scheduler reports were read."""
    return _(BASES.get(name, name))


def counted_by(sources: Iterable[str]) -> str:
    """Who counted, as a sentence; empty where nobody is known to have."""
    return _(COUNTED_BY.get(frozenset(sources) & {"counter", "log"}, ""))
