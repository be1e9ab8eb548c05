"""The tables of a stored trace: column names, types, units and meaning.

This is the single description of the stored data. The writer, the views' lint, the generated
documentation and the tests read it. Durations end in `_s` (seconds), token counts in `_tokens`,
shares are 0..1 and end in `_share` or `_usage`; `ts` is UTC in microseconds. What was not reported
is NULL, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

TS = pa.timestamp("us", tz="UTC")
TEXT = pa.string()
INT = pa.int64()
REAL = pa.float64()
RANK = pa.int16()
EXTRA = pa.map_(pa.string(), pa.string())
HASHES = pa.list_(pa.int64())


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, Arrow type, unit (empty when it has none) and meaning."""

    name: str
    type: pa.DataType
    unit: str
    doc: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table: what a row is, and its columns in stored order."""

    name: str
    doc: str
    columns: tuple[Column, ...]

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema in stored column order."""
        return pa.schema([pa.field(c.name, c.type) for c in self.columns])


# Every number leads back to a line through these.
_ORIGIN = (
    Column("source_id", TEXT, "", "The input this row was read from (`sources.source_id`)."),
    Column("record", INT, "", "1-based line number in that input at which the record starts."),
    Column("instance", TEXT, "", "The server: one scheduler process group behind one address."),
    Column("run_id", TEXT, "", "One process lifetime of the instance: r1, r2, … in time order."),
    Column("engine", TEXT, "", "sglang, vllm or lmcache."),
    Column("stream", TEXT, "", "Pod, container or host as the log collector names it; empty without one."),
)
_CLOCK = (
    Column("ts", TS, "", "When it happened, UTC."),
    Column("outer_ts", TS, "", "What the log collector's own stamp said, where there was one."),
)
_RANKS = (
    Column("dp", RANK, "", "Data-parallel rank, or the vLLM engine number."),
    Column("tp", RANK, "", "Tensor-parallel rank."),
    Column("pp", RANK, "", "Pipeline-parallel rank."),
    Column("ep", RANK, "", "Expert-parallel rank."),
)

SCHEDULER = Table(
    "scheduler",
    "One scheduler report: a SGLang prefill or decode line, a vLLM stats or iteration line.",
    (
        *_ORIGIN,
        *_CLOCK,
        *_RANKS,
        Column("role", TEXT, "", "unified, prefill or decode; NULL when the line does not tell."),
        Column(
            "kind",
            TEXT,
            "",
            "prefill, decode, stats or iteration; companion for lines beside the stats line (speculation, MFU, transfers).",
        ),
        Column("running", INT, "requests", "Running requests."),
        Column("waiting", INT, "requests", "Waiting requests (queue, pending), deferred ones included."),
        Column("deferred", INT, "requests", "Of those waiting, held back by the scheduler itself."),
        Column("swapped", INT, "requests", "vLLM V0: requests swapped out to CPU."),
        Column(
            "kv_usage",
            REAL,
            "share",
            "Used part of the (full-attention) KV pool; evictable cache is not used.",
        ),
        Column("swa_usage", REAL, "share", "Used part of the sliding-window pool."),
        Column("mamba_usage", REAL, "share", "Used part of the mamba state slots."),
        Column(
            "host_kv_usage",
            REAL,
            "share",
            "Used part of a host-side KV pool the line names (V0 swap, hisparse).",
        ),
        Column("kv_used_tokens", INT, "tokens", "Used tokens of the (full-attention) KV pool."),
        Column("swa_used_tokens", INT, "tokens", "Used tokens of the sliding-window pool."),
        Column("new_seqs", INT, "requests", "Requests in this prefill batch."),
        Column("new_tokens", INT, "tokens", "Tokens computed by this prefill batch."),
        Column("cached_tokens", INT, "tokens", "Prefix tokens reused by requests admitted in this batch."),
        Column("pending_tokens", INT, "tokens", "Uncached prefill tokens still waiting."),
        Column("ctx_reqs", INT, "requests", "Requests in prefill in this iteration."),
        Column("ctx_tokens", INT, "tokens", "Prefill tokens of this iteration."),
        Column("gen_reqs", INT, "requests", "Requests in decode in this iteration."),
        Column("gen_tokens", INT, "tokens", "Tokens generated in this iteration."),
        Column("step_s", REAL, "s", "Duration of the iteration."),
        Column("prompt_tps", REAL, "tokens/s", "Prefill throughput as reported."),
        Column("gen_tps", REAL, "tokens/s", "Decode throughput as reported."),
        Column(
            "prefix_hit_share",
            REAL,
            "share",
            "Prefix-cache hit rate as reported (its window varies by engine).",
        ),
        Column("external_hit_share", REAL, "share", "Hit rate of the KV connector (L2) as reported."),
        Column("mm_hit_share", REAL, "share", "Multi-modal cache hit rate as reported."),
        Column("bootstrap_reqs", INT, "requests", "PD prefill: requests in bootstrap."),
        Column("inflight_reqs", INT, "requests", "PD prefill: done, KV still being sent."),
        Column("prealloc_reqs", INT, "requests", "PD decode: waiting for KV to be preallocated."),
        Column("transfer_reqs", INT, "requests", "PD decode: KV in transfer."),
        Column("retracted_reqs", INT, "requests", "PD decode: requests now in the retracted queue (a level)."),
        Column("preallocated_usage", REAL, "share", "PD decode: preallocated, not yet running, part of the pool."),
        Column("kv_fetch_waiting", INT, "requests", "vLLM: remote KV fetches waiting to start."),
        Column("kv_fetch_loading", INT, "requests", "vLLM: remote KV fetches in progress."),
        Column("kv_fetch_done", INT, "requests", "vLLM: remote KV fetches completed, not yet scheduled."),
        Column("engines", INT, "engines", "vLLM aggregated line: engines it sums over (usage is their mean)."),
        Column("extra", EXTRA, "", "Reported fields that have no column, and notes on meaning (`*_basis`)."),
    ),
)

EVENTS = Table(
    "events",
    "One line that reports an event; `event` merges what several ranks print of the same one.",
    (
        *_ORIGIN,
        *_CLOCK,
        *_RANKS,
        Column(
            "kind",
            TEXT,
            "",
            "retraction, preemption, oom, rejection, abort, watchdog, crash, start, ready, "
            "shutdown, flush, kv_load_failure, stats_off or warning.",
        ),
        Column("requests", INT, "requests", "Requests concerned."),
        Column("tokens", INT, "tokens", "Tokens concerned (gained by a retraction, asked for by an OOM)."),
        Column(
            "total",
            INT,
            "",
            "Another number the line carries: the cumulative preemptions of vLLM V0, the watchdog's seconds, an exit code, a length limit.",
        ),
        Column("ratio_before", REAL, "", "SGLang new_token_ratio before."),
        Column("ratio_after", REAL, "", "SGLang new_token_ratio after; it may be lower."),
        Column("rid", TEXT, "", "Request id, where the line names one."),
        Column("pid", INT, "", "Process id of the writer, where the line names one."),
        Column("reported_by", TEXT, "", "The rank tag of this line, as printed."),
        Column("text", TEXT, "", "The format's own words with its numbers; never text a request brought."),
    ),
)

CACHE_OPS = Table(
    "cache_ops",
    "One L2 or L3 cache operation.",
    (
        *_ORIGIN,
        *_CLOCK,
        *_RANKS,
        Column("tier", TEXT, "", "host, disk, remote or storage."),
        Column("op", TEXT, "", "lookup, load, store, prefetch, evict or alloc_fail."),
        Column("tokens", INT, "tokens", "Tokens moved; for a lookup, tokens to load."),
        Column("hit_tokens", INT, "tokens", "Lookup: tokens found, those the engine already has included."),
        Column("total_tokens", INT, "tokens", "Tokens asked about."),
        Column("bytes", INT, "bytes", "Bytes moved."),
        Column("duration_s", REAL, "s", "How long it took."),
        Column("rid", TEXT, "", "Request id, where the line names one."),
        Column("ok", pa.bool_(), "", "False when it failed, was dropped or declined."),
        Column("text", TEXT, "", "The format's own words for what has no column."),
    ),
)

REQUESTS = Table(
    "requests",
    "One request as one observer saw it.",
    (
        *_ORIGIN,
        *_CLOCK,
        Column("dp", RANK, "", "Data-parallel rank that served it."),
        Column("observer", TEXT, "", "client, frontend or engine."),
        Column("clock", TEXT, "", "wall, monotonic or order: what the times below are measured on."),
        Column("rid", TEXT, "", "Request id."),
        Column("arrival_ts", TS, "", "When it arrived; NULL unless on the wall clock."),
        Column("arrival_rel_s", REAL, "s", "When it arrived, on the observer's own clock."),
        Column("first_token_ts", TS, "", "When its first token was sent."),
        Column("finish_ts", TS, "", "When it ended."),
        Column("queue_s", REAL, "s", "Time in the scheduler's queue."),
        Column("prefill_s", REAL, "s", "Time in prefill."),
        Column("decode_s", REAL, "s", "Time from the first token to the last."),
        Column("ttft_s", REAL, "s", "Time to first token."),
        Column("itl_mean_s", REAL, "s", "Mean time between two tokens."),
        Column("itl_max_s", REAL, "s", "Longest time between two tokens."),
        Column("e2e_s", REAL, "s", "Arrival to end."),
        Column("prompt_tokens", INT, "tokens", "Prompt length."),
        Column("output_tokens", INT, "tokens", "Generated tokens."),
        Column("max_new_tokens", INT, "tokens", "Asked-for limit."),
        Column("cached_tokens", INT, "tokens", "Prompt tokens served from any cache."),
        Column("cached_device_tokens", INT, "tokens", "Of those, from L1."),
        Column("cached_host_tokens", INT, "tokens", "Of those, from L2."),
        Column("cached_storage_tokens", INT, "tokens", "Of those, from L3."),
        Column("retractions", INT, "", "Times it was retracted or preempted."),
        Column("status", TEXT, "", "finished, aborted, error or unfinished; NULL when not told."),
        Column("error", TEXT, "", "Kind of error; never its free text."),
        Column("prompt_sha256", TEXT, "", "Hash of the prompt, where it was there: equal prompts can be told, not read."),
        Column("block_hashes", HASHES, "", "Hashes of the prompt's blocks, where a workload trace has them: shared prefixes."),
        Column("prompt_text", TEXT, "", "The prompt; only with --keep-text."),
        Column("output_text", TEXT, "", "The output; only with --keep-text."),
        Column("extra", EXTRA, "", "Reported fields that have no column."),
    ),
)

SERIES = Table(
    "series",
    "One metric series of one process lifetime; `samples` holds its values, the view `metrics` joins both.",
    (
        Column("source_id", TEXT, "", "The input this series was read from (`sources.source_id`)."),
        Column("record", INT, "", "1-based line or record number at which the series was first seen."),
        Column("instance", TEXT, "", "The server, see `scheduler.instance`."),
        Column("run_id", TEXT, "", "One process lifetime of the instance."),
        Column("engine", TEXT, "", "sglang, vllm, lmcache, or `process` for what any process exports."),
        Column("stream", TEXT, "", "Scrape target as its labels name it (pod, else instance); empty without one."),
        Column("series_id", INT, "", "Identifies the series in `samples`."),
        Column("name", TEXT, "", "Canonical name (`kvpm metrics`); NULL for a name this release does not know."),
        Column("part", TEXT, "", "bucket, sum or count of a histogram or summary; NULL for a plain value."),
        Column("raw_name", TEXT, "", "Name as exported, part included."),
        Column("type", TEXT, "", "gauge, counter, histogram, summary or info."),
        Column("unit", TEXT, "", "Unit of the stored values, after conversion."),
        Column("scale", REAL, "", "What the exported values were multiplied with to get that unit."),
        Column("le", REAL, "", "Upper bound of a histogram bucket, in the unit of the histogram; infinity for +Inf."),
        *_RANKS,
        Column("role", TEXT, "", "unified, prefill or decode, where a label tells."),
        Column("model", TEXT, "", "Served model, where a label tells."),
        Column("priority", TEXT, "", "Priority class; empty for the sum over all classes."),
        Column("labels", EXTRA, "", "All labels as exported."),
        Column(
            "counted",
            pa.bool_(),
            "",
            "False for a series that repeats another (old spelling, per-priority part, further rank, second reading).",
        ),
        Column("why_not", TEXT, "", "Why it is not counted."),
        Column("samples", INT, "", "Number of samples."),
        Column("first_ts", TS, "", "Time of its first sample."),
        Column("last_ts", TS, "", "Time of its last sample."),
    ),
)

SAMPLES = Table(
    "samples",
    "One sample of one series, sorted by series and time.",
    (
        Column("series_id", INT, "", "Which series (`series.series_id`)."),
        Column("ts", TS, "", "When it was scraped, UTC."),
        Column("value", REAL, "", "Its value; NULL where the exporter said NaN."),
    ),
)

FACTS = Table(
    "facts",
    "One thing known about an instance's run.",
    (
        *_ORIGIN,
        *_CLOCK,
        Column("dp", RANK, "", "Data-parallel rank it holds for; NULL when it holds for all."),
        Column("key", TEXT, "", "Canonical name, or `arg.NAME` for a server argument."),
        Column("value", TEXT, "", "Its value as text."),
        Column("number", REAL, "", "Its value as a number, when it is one (true is 1)."),
        Column("type", TEXT, "", "int, float, bool, str, list or null."),
        Column("unit", TEXT, "", "Unit of `number`."),
        Column("read_from", TEXT, "", "The format of the line it was read from."),
    ),
)

SOURCES = Table(
    "sources",
    "One input, and what became of each of its lines.",
    (
        Column("source_id", TEXT, "", "Identifies the input by its content's beginning and its name."),
        Column("path", TEXT, "", "As it was given, or below the folder that was given."),
        Column("instance", TEXT, "", "The instance its rows were given to; NULL without any."),
        Column("format", TEXT, "", "What it was read as: engine_log, prometheus_text, …, or `none`."),
        Column("engines", TEXT, "", "Engines whose lines it holds, comma-separated."),
        Column("wrapper", TEXT, "", "Collector format around the lines (docker, kubectl, journald, …), or NULL."),
        Column("version_min", TEXT, "", "Oldest engine version that prints such lines."),
        Column("version_max", TEXT, "", "Newest engine version known to print such lines."),
        Column("version_from", TEXT, "", "`stated` by a line or `inferred` from the shape of lines."),
        Column("bytes", INT, "bytes", "Size on disk."),
        Column("sha256", TEXT, "", "Hash of the stored bytes; NULL for standard input, and for what was read in several goes as it grew."),
        Column("lines", INT, "lines", "Lines read; the next four add up to it."),
        Column("matched_lines", INT, "lines", "A format took them."),
        Column("ignored_lines", INT, "lines", "Known, and of no use here (access lines, banners)."),
        Column("unmatched_lines", INT, "lines", "An engine's prefix, but no format."),
        Column("other_lines", INT, "lines", "Not an engine's."),
        Column("records", INT, "", "Records the matched lines held; glued lines hold several."),
        Column("first_ts", TS, "", "First time stamp."),
        Column("last_ts", TS, "", "Last time stamp."),
        Column("clock", TEXT, "", "Which stamp `ts` was taken from: inner or outer."),
        Column("utc_offset_s", REAL, "s", "What was subtracted from the inner stamps to get UTC."),
        Column("offset_s", REAL, "s", "What was added to all its times to line it up with the other sources."),
        Column("offset_from", TEXT, "", "`given` by --offset, or `estimated`; NULL when nothing was added."),
        Column(
            "offset_estimate_s", REAL, "s", "The offset that signals shared with another source tell; NULL where they tell none for sure."
        ),
        Column("offset_basis", TEXT, "", "What the estimate rests on: the other source, the signals, how well they agree."),
        Column("nothing", TEXT, "", "What it holds instead of anything of a model server; NULL for what gave rows."),
        Column("cut", pa.bool_(), "", "The input could not be read to its end."),
        Column("notes", TEXT, "", "Decisions and oddities, one per line."),
    ),
)

TABLES: dict[str, Table] = {t.name: t for t in (SCHEDULER, EVENTS, CACHE_OPS, REQUESTS, SERIES, SAMPLES, FACTS, SOURCES)}
