"""The tables of a dataset: column names, types, units and meaning, as `analyzer.trace.schema` has those of a trace.

Large tables lie in one file for each capture, day and instance, TABLE/day=YYYY-MM-DD/instance=NAME/CAPTURE.0.parquet: day
and instance are in the path and not in the file. Small ones are one file each.
"""

from __future__ import annotations

import pyarrow as pa

from analyzer.trace.schema import EVENTS, INT, REAL, REQUESTS, SCHEDULER, TEXT, TS, Column, Table

_CAPTURE = Column("capture", TEXT, "", "The capture it was read from (`captures.capture`).")
_DAY = Column("day", pa.date32(), "", "UTC day of the row's time, from the path; NULL for a row without a time.")
_INSTANCE = Column("instance", TEXT, "", "The server, from the path.")
_WHO = Column("instance", TEXT, "", "The server.")
_CAUSE = Column("cause", TEXT, "", "What the verdict names, as in [verdict.md](verdict.md).")
_CONFIDENCE = Column("confidence", TEXT, "", "high, medium or low.")


def _stored(table: Table) -> Table:
    """A table of the trace as a dataset has it."""
    rest = tuple(c for c in table.columns if c.name != "instance")
    return Table(table.name, f"{table.doc} All columns of a trace's table of that name.", (_CAPTURE, *rest, _DAY, _INSTANCE))


MINUTES = Table(
    "minutes",
    "One minute of one server, as the view `timeline` of a trace has it in buckets of 60 s.",
    (
        _CAPTURE,
        Column("run_id", TEXT, "", "One process lifetime of the instance."),
        Column("ts", TS, "", "Beginning of the minute, UTC."),
        Column("running", INT, "requests", "Most running requests, summed over data-parallel ranks."),
        Column("waiting", INT, "requests", "Most waiting requests, summed over data-parallel ranks."),
        Column("kv_usage", REAL, "share", "Highest used part of the KV pool, of the fullest rank."),
        Column("l1_used_tokens", INT, "tokens", "Used tokens of the KV pool at the end of the minute, of all ranks."),
        Column("l1_evictable_tokens", INT, "tokens", "Of those not used, cached prefixes that nobody holds; NULL where no source tells."),
        Column("l1_capacity_tokens", REAL, "tokens", "Size of the KV pool, of all ranks."),
        Column("l1_free_tokens", REAL, "tokens", "Room in the fullest moment: the size times what `kv_usage` leaves."),
        Column("cap", REAL, "requests", "Most requests that may run, of all ranks; NULL where the capture does not tell."),
        Column("cap_free", REAL, "requests", "What the cap leaves when most run."),
        Column("prompt_tps", REAL, "tokens/s", "Prefill throughput."),
        Column("gen_tps", REAL, "tokens/s", "Decode throughput."),
        Column("retracted", INT, "requests", "Requests retracted (SGLang)."),
        Column("preempted", INT, "requests", "Requests preempted (vLLM)."),
        Column("wait_est_s", REAL, "s", "Longest estimated wait in the queue."),
        Column("ttft_p50_s", REAL, "s", "Median TTFT."),
        Column("ttft_p95_s", REAL, "s", "95th percentile of TTFT."),
        Column("ttft_p99_s", REAL, "s", "99th percentile of TTFT."),
        Column("ttft_n", REAL, "requests", "Requests that the percentiles are of."),
        Column("ttft_source", TEXT, "", "client, frontend, engine or histogram."),
        Column("l2_used_share", REAL, "share", "Used part of L2."),
        _DAY,
        _INSTANCE,
    ),
)

CAPTURES = Table(
    "captures",
    "One capture, with the verdict of its report.",
    (
        Column("capture", TEXT, "", "Its name in the batch."),
        Column("report", TEXT, "", "Its report, below the folder of the batch."),
        Column("instances", INT, "", "Servers in it."),
        _CAUSE,
        _CONFIDENCE,
        Column("sentence", TEXT, "", "The verdict in words."),
        Column("instance", TEXT, "", "The worst server, which the verdict is of."),
        Column("engine", TEXT, "", "Its engine and versions."),
        Column("start_ts", TS, "", "First time read."),
        Column("end_ts", TS, "", "Last time read."),
        Column("bytes", INT, "bytes", "Size of its inputs."),
        Column("cut", pa.bool_(), "", "An input could not be read to its end."),
    ),
)

INSTANCES = Table(
    "instances",
    "One server of one capture, with its own verdict.",
    (
        _CAPTURE,
        _WHO,
        Column("engine", TEXT, "", "sglang or vllm."),
        Column("versions", TEXT, "", "Versions of its engine, as far as they are told."),
        Column("runs", INT, "", "Process lifetimes."),
        _CAUSE,
        _CONFIDENCE,
        Column("running_peak", INT, "requests", "Most running requests."),
        Column("waiting_peak", INT, "requests", "Most waiting requests."),
        Column("kv_usage_peak", REAL, "share", "Highest used part of the KV pool."),
        Column("retracted", INT, "requests", "Requests retracted (SGLang)."),
        Column("preempted", INT, "requests", "Requests preempted (vLLM)."),
        Column("start_ts", TS, "", "First report or sample."),
        Column("end_ts", TS, "", "Last report or sample."),
    ),
)

INCIDENTS = Table(
    "incidents",
    "One incident of one server.",
    (
        _CAPTURE,
        _WHO,
        _CAUSE,
        _CONFIDENCE,
        Column("start_ts", TS, "", "When it began; NULL where only its end is known."),
        Column("end_ts", TS, "", "When it ended; NULL where only its beginning is known."),
        Column("duration_s", REAL, "s", "How long it lasted."),
        Column("waiting_peak", INT, "requests", "Most waiting requests of its minutes."),
        Column("kv_usage_peak", REAL, "share", "Highest used part of the KV pool of its minutes."),
        Column("ttft_p99_peak_s", REAL, "s", "Highest P99 of TTFT of its minutes."),
    ),
)

# Large: partitioned. Small: one file each, made from what each capture's own file says.
PARTITIONED: dict[str, Table] = {t.name: t for t in (MINUTES, _stored(SCHEDULER), _stored(EVENTS), _stored(REQUESTS))}
SMALL: dict[str, Table] = {t.name: t for t in (CAPTURES, INSTANCES, INCIDENTS)}
TABLES: dict[str, Table] = {**SMALL, **PARTITIONED}
