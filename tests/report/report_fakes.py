"""Made-up but plausible incidents for the report's tests: a DuckDB connection and a diagnosis each.

The incidents are cached, so tests must not change what they return.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import duckdb

from analyzer.diagnosis.model import (
    Advice,
    Answer,
    Answered,
    Cause,
    Confidence,
    Diagnosis,
    Evidence,
    Finding,
    InstanceDiagnosis,
    MissingSignal,
    Peaks,
    Window,
)
from analyzer.diagnosis.thresholds import thresholds
from analyzer.trace.reader import create_views, make_table
from analyzer.trace.schema import TABLES

T0 = datetime(2026, 11, 30, 7, 0, tzinfo=UTC)
HOSTILE = "</script><img src=x onerror=1>\x1b[31m\u202e'\"&{{ 7*7 }}"

# Wider than the views', so that what cannot be (an infinite gauge, a name where a count belongs) can be shown too.
MADE_UP_TYPES = {"reported_by": "VARCHAR"} | dict.fromkeys(("running", "waiting", "prompt_tps", "gen_tps"), "DOUBLE")


@cache
def _empty_views() -> tuple[str, ...]:
    """Statements that make an empty table of each table and view of the real thing, with its columns."""
    con = duckdb.connect()
    for table in TABLES.values():
        make_table(con, table, [])
    for name, value in thresholds().items():
        con.execute(f"SET VARIABLE {name} = {value!r}::DOUBLE")
    con.execute("SET VARIABLE since = NULL; SET VARIABLE until = NULL")
    create_views(con)
    found = con.execute("SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY ordinal_position").fetchall()
    columns: dict[str, list[str]] = {}
    for table_name, column, kind in found:
        columns.setdefault(table_name, []).append(f'"{column}" {MADE_UP_TYPES.get(column, kind)}')
    return tuple(f'CREATE TABLE "{name}" ({", ".join(parts)})' for name, parts in columns.items())


def at(seconds: float) -> datetime:
    """A time `seconds` after the capture's start."""
    return T0 + timedelta(seconds=seconds)


def connection() -> duckdb.DuckDBPyConnection:
    """An in-memory database with the views that the report reads, empty."""
    con = duckdb.connect()
    con.execute("; ".join(_empty_views()))
    return con


def bucket(second: float, **values: Any) -> dict[str, Any]:
    """One timeline row; what is not given is NULL."""
    return {"instance": "pod-a", "run_id": "r1", "bucket_s": 10, **values, "bucket_ts": at(second)}


def event(second: float | None, kind: str, **values: Any) -> dict[str, Any]:
    """One event row; `second` None is an event without a time."""
    when = None if second is None else at(second)
    return {"instance": "pod-a", "run_id": "r1", **values, "kind": kind, "ts": when}


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> None:
    """Rows into a table in one statement: row by row takes seconds."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    marks = ", ".join("(" + ", ".join("?" for _ in names) + ")" for _ in rows)
    con.execute(
        f"INSERT INTO {table} ({', '.join(names)}) VALUES {marks}",
        [row.get(name) for row in rows for name in names],
    )


def add_bucket(con: duckdb.DuckDBPyConnection, second: float, **values: Any) -> None:
    """One timeline row."""
    insert(con, "timeline", [bucket(second, **values)])


def add_question_1(con: duckdb.DuckDBPyConnection, **values: Any) -> None:
    """What question 1's view says of the worst incident."""
    insert(con, "q01_ttft", [{"instance": "pod-a", "incident": 1, **values}])


def add_event(con: duckdb.DuckDBPyConnection, second: float | None, kind: str, **values: Any) -> None:
    """One event row."""
    insert(con, "event", [event(second, kind, **values)])


def answered(number: int, answer: Answer = "no", **values: Any) -> Answered:
    """One checklist answer with short texts."""
    return Answered(
        **{
            "id": f"q{number}",
            "number": number,
            "title": f"Question {number}?",
            "answer": answer,
            "sentence": f"Answer {number}.",
            **values,
        }
    )


def finding(cause: Cause = "l1_bound", confidence: Confidence = "high", **values: Any) -> Finding:
    """One finding."""
    return Finding(**{"cause": cause, "confidence": confidence, "sentence": f"It was {cause}.", **values})


def instance(name: str = "pod-a", cause: Cause = "l1_bound", **values: Any) -> InstanceDiagnosis:
    """One instance's diagnosis."""
    verdict = values.pop("verdict", finding(cause, instance=name))
    return InstanceDiagnosis(
        **{
            "instance": name,
            "engine": "sglang",
            "versions": "0.5.6",
            "runs": 1,
            "verdict": verdict,
            "findings": (verdict,),
            "window": Window(None, None),
            "peaks": Peaks(),
            "checklist": (answered(1),),
            **values,
        }
    )


def diagnosis(*instances: InstanceDiagnosis, **values: Any) -> Diagnosis:
    """A diagnosis whose top level repeats the first instance."""
    lead = instances[0] if instances else instance()
    return Diagnosis(
        **{
            "tool_version": "0.1.0",
            "trace": "incident.kvtrace",
            "verdict": lead.verdict,
            "findings": lead.findings,
            "window": lead.window,
            "peaks": lead.peaks,
            "checklist": lead.checklist,
            "instances": instances,
            "facts": (),
            "sources": (),
            **values,
        }
    )


def source(path: str = "logs/pod-a/server.log", **values: Any) -> dict[str, Any]:
    """One input as the diagnosis carries it."""
    return {
        "source_id": "s1",
        "path": path,
        "instance": "pod-a",
        "format": "engine_log",
        "engines": "sglang",
        "wrapper": "kubectl",
        "version_min": "0.5.4",
        "version_max": "0.5.9",
        "version_from": "inferred",
        "bytes": 4_812_331,
        "lines": 20_412,
        "matched_lines": 18_214,
        "ignored_lines": 2_004,
        "unmatched_lines": 12,
        "other_lines": 182,
        "records": 18_214,
        "first_ts": at(-180),
        "last_ts": at(1200),
        "clock": "inner",
        "utc_offset_s": 7200.0,
        "offset_s": None,
        "offset_from": None,
        "offset_estimate_s": None,
        "offset_basis": None,
        "nothing": None,
        "cut": False,
        "notes": "The container's clock was 2 h ahead of the collector's: taken as UTC+02:00.",
        **values,
    }


# --- whole incidents --------------------------------------------------------------------------------


def fill_l1(con: duckdb.DuckDBPyConnection, name: str = "pod-a", *, load: float = 1.0) -> None:
    """Twenty minutes of SGLang; between 300 s and 800 s the pool is full and requests are retracted."""
    pool = 196_608
    buckets, events = [], []
    for i in range(120):
        t = i * 10.0
        wave = math.sin(i / 5) * 0.04 + math.sin(i * 1.7) * 0.02
        rush = max(0.0, min(1.0, (t - 280) / 80, (860 - t) / 120)) * load
        usage = min(1.0, 0.45 + wave + 0.6 * rush)
        if 560 <= t < 590:  # nothing was printed for half a minute
            buckets.append(bucket(t, instance=name))
            continue
        used = usage * pool
        evictable = (pool - used) * max(0.1, 0.7 - 0.6 * rush)
        row = bucket(
            t,
            instance=name,
            running=round(12 + 30 * usage + 3 * wave * 20),
            waiting=max(0, round(128 * rush**2 + wave * 40)) if rush > 0 else 0,
            kv_usage=usage,
            prompt_tps=9_500 * (0.6 + wave + 0.3 * rush),
            gen_tps=640 * (0.5 + wave + 0.35 * rush),
            retracted=round(2.4 * rush + wave * 20) if rush > 0.7 else 0,
            wait_est_s=38 * rush**2 if rush else 0.1,
            ttft_p50_s=0.8 + 14 * rush**2,
            ttft_p95_s=1.6 + 30 * rush**2,
            ttft_p99_s=2.0 + 38 * rush**2 + wave * 5,
            ttft_n=30,
            ttft_source="client",
            l1_used_tokens=used,
            l1_evictable_tokens=evictable,
            l1_available_tokens=pool - used - evictable,
            l2_used_share=0.41 + wave,
        )
        buckets.append(row)
    events.append(event(-120, "start", instance=name, source="server.log:3", text="server_args=…"))
    events.append(event(-2, "ready", instance=name, source="server.log:212", text="The server is fired up"))
    if load >= 1:
        for i in range(43):
            retraction = event(
                330 + i * 11,
                "retraction",
                instance=name,
                requests=1 + i % 4,
                tokens=2048 * (1 + i % 4),
                ratio_before=0.31,
                ratio_after=0.52,
                reported_by="TP0",
                source=f"server.log:{4000 + i * 37}",
                text="KV cache pool is full. Retract requests.",
            )
            events.append(retraction)
        events.append(event(610, "watchdog", instance=name, source="server.log:6120", text="Scheduler watchdog slow"))
        events.append(event(640, "abort", instance=name, requests=3, source="server.log:6391", text="client gone"))
    insert(con, "timeline", buckets)
    insert(con, "event", events)


TITLES = (
    "Did time to first token break?",
    "Where did time to first token go?",
    "Was L1 full?",
    "Was the queue waiting on L1?",
    "Or on a cap?",
    "Did the engine retract or preempt?",
    "Was demand beyond the ceiling?",
    "Was L2 the bottleneck?",
    "Did the cache stop helping?",
    "Was prefill compute the bottleneck?",
    "Was load skewed?",
    "Prefill/decode disaggregation: which side held requests?",
    "Was it outside the scheduler?",
    "Was the configuration asking for it?",
)
IDS = (
    "ttft_broke",
    "ttft_where",
    "l1_full",
    "queue_on_l1",
    "on_a_cap",
    "retracted",
    "demand",
    "l2_bottleneck",
    "cache_helping",
    "prefill_bound",
    "skew",
    "pd",
    "outside",
    "config",
)


def l1_checklist() -> tuple[Answered, ...]:
    """Fourteen answers of an L1-bound incident."""
    window = {"start": at(300), "end": at(800)}
    answers: tuple[Answer, ...] = (
        "yes",
        "partly",
        "yes",
        "yes",
        "no",
        "yes",
        "yes",
        "no",
        "yes",
        "no",
        "no",
        "cannot_tell",
        "no",
        "partly",
    )
    sentences = {
        0: "P99 rose from 2.0 s to 40.2 s within two minutes (exact, measured by the client).",
        2: "Usage stayed above 97 % for 6 m 40 s while at most 3 % of the pool was evictable.",
        3: "The head of the queue did not fit into available + evictable in 41 of 44 samples.",
        5: "43 retractions threw out 106 requests; 18 % of all prefill was recompute.",
        7: "L2 was 45 % full at most and its hit rate steady: it had room, but admission does not read it.",
        11: "No prefill/decode role was seen in the log.",
        13: "schedule_conservativeness 0.3 admits early and retracts later.",
    }
    evidence = {
        0: (
            Evidence("P99 before", 2.03, "s", at(0), at(300), "client.jsonl:1"),
            Evidence("P99 during", 40.2, "s", **window, source="client.jsonl:812"),
            Evidence("requests over 10 s", 312, "requests", **window, source="client.jsonl:640"),
        ),
        2: (
            Evidence("highest usage", 0.9987, "share", **window, source="server.log:4012"),
            Evidence("pool size", 196608, "tokens", source="server.log:118"),
            Evidence("evictable at that time", 412, "tokens", **window, source="server.log:4012"),
        ),
        3: (Evidence("samples with waiting and no room", 0.932, "share", **window, source="server.log:3990"),),
        5: (
            Evidence("retraction events", 43, "events", **window, source="server.log:4000,server.log:4037"),
            Evidence("recompute share of prefill", 0.181, "share", **window, source="server.log:4000"),
            Evidence("requests thrown out once", 1, "requests"),
        ),
        7: (Evidence("L2 used", 0.452, "share", **window, source="metrics.prom:20113"),),
    }
    missing = {
        1: (MissingSignal("queue time per request", "--enable-metrics --log-requests-level 1"),),
        11: (MissingSignal("queues of the PD roles", "--disaggregation-mode on each server's command line"),),
    }
    return tuple(
        Answered(
            id=IDS[i],
            number=i + 1,
            title=TITLES[i],
            answer=answers[i],
            sentence=sentences.get(i, "The evidence in the capture supports this answer."),
            evidence=evidence.get(i, ()),
            missing=missing.get(i, ()),
            sql=f"SELECT\n  *\nFROM q{i + 1:02d}\nWHERE instance = 'pod-a'\n  AND kv_usage < 1",
            why="Every request needs room in the KV pool before its first token. What does not fit waits.",
            advice="Lower the mean length or raise the pool: --mem-fraction-static 0.92, fp8 KV, or more TP.",
        )
        for i in range(14)
    )


@cache
def l1_incident() -> tuple[duckdb.DuckDBPyConnection, Diagnosis]:
    """The title case: SGLang, L1 full, retractions, L2 with room."""
    con = connection()
    con.execute("SET VARIABLE full_usage = 0.9")
    fill_l1(con)
    add_question_1(con, start_ts=at(300), end_ts=at(800), observer="client", inside_n=1200, ttft_p99_inside_s=40.3, ttft_p99_outside_s=2.0)
    verdict = finding(
        "l1_bound",
        instance="pod-a",
        sentence="From 07:05 to 07:13 the KV pool of pod-a was full: up to 128 requests queued, 106 were "
        "thrown out and recomputed, and P99 time to first token rose from 2 s to 40 s while L2 had room.",
        rests_on=("ttft_broke", "l1_full", "queue_on_l1", "retracted"),
        reasons=(
            "Usage was at least 97 % in 41 of 44 samples with a queue.",
            "43 retractions, each with the pool at 100 %.",
            "Running stayed at 42, well below max_running_requests = 256.",
        ),
        advice=(
            Advice("mem", "Raise it by 0.05.", "--mem-fraction-static", "0.88", "0.05 more adds about 9,000 tokens.", "Less is left."),
            Advice("fp8", "Set it to fp8_e5m2.", "--kv-cache-dtype", None, "", "", "0.4.1 or later"),
            Advice("replica", "Add a replica.", "--dp-size"),
            Advice("short", "Ask for shorter outputs."),
            Advice("page", "Lower it.", "--page-size"),
        ),
        leave_alone=("A bigger L2 would not have admitted one more request.",),
    )
    second = finding(
        "reservation_bound",
        "low",
        instance="pod-a",
        sentence="Before 07:05 the reservation was tight twice, for less than 20 s.",
        window=Window(at(120), at(140)),
        rests_on=("queue_on_l1",),
        reasons=("Usage was 82 % while the head of the queue was refused.",),
    )
    one = instance(
        verdict=verdict,
        findings=(verdict, second),
        window=Window(at(300), at(800)),
        peaks=Peaks(
            running=42,
            waiting=128,
            kv_usage=0.9987,
            retraction_events=43,
            retracted_requests=106,
        ),
        checklist=l1_checklist(),
    )
    facts: list[dict[str, Any]] = [
        {
            "key": "max_total_num_tokens",
            "number": 196608.0,
            "value": "196608",
            "unit": "tokens",
            "record": 118,
        },
        {
            "key": "kv_pool_bytes",
            "number": 64424509440.0,
            "value": "64424509440",
            "unit": "bytes",
            "record": 117,
        },
        {"key": "engine_version", "value": "0.5.6", "number": None, "unit": "", "record": 2},
        {"key": "arg.port", "value": "30000", "number": 30000.0, "unit": "", "record": 3},
        {"key": "arg.schedule_conservativeness", "value": "0.3", "number": 0.3, "unit": "", "record": 3},
    ]
    return con, diagnosis(
        one,
        facts=tuple({"instance": "pod-a", "run_id": "r1", "source_id": "s1", **f} for f in facts),
        sources=(
            source(),
            source(
                "bench/client.jsonl",
                source_id="s2",
                format="client",
                engines=None,
                wrapper=None,
                version_min=None,
                version_max=None,
                version_from=None,
                lines=1_812,
                records=1_812,
                matched_lines=1_812,
                ignored_lines=0,
                unmatched_lines=0,
                other_lines=0,
                clock="inner",
                utc_offset_s=0.0,
                notes="",
            ),
        ),
        notes=("pod-a and 10.0.3.7:30000 were taken for the same instance (equal host:port).",),
    )


@cache
def insufficient() -> tuple[duckdb.DuckDBPyConnection, Diagnosis]:
    """A cut vLLM log that tells running and waiting, but not why."""
    con = connection()
    for i in range(40):
        if 15 <= i < 19:
            continue  # the rows themselves are missing
        add_bucket(con, i * 10.0, running=8 + i % 3, waiting=max(0, i - 10), wait_est_s=max(0, i - 10) * 0.8)
    verdict = finding(
        "insufficient_data",
        "low",
        instance="pod-a",
        sentence="A queue grew to 29 requests, but KV usage was not recorded, so L1 and a cap look the same.",
        rests_on=("l1_full", "queue_on_l1"),
    )
    missing = (MissingSignal("KV usage", "vllm serve without --disable-log-stats"),)
    checklist = tuple(
        Answered(
            id=IDS[i],
            number=i + 1,
            title=TITLES[i],
            answer="cannot_tell" if i in (0, 2, 3, 6, 7) else "no",
            sentence="A signal is missing." if i in (0, 2, 3, 6, 7) else "Nothing of the kind was seen.",
            missing=missing if i in (2, 3, 6) else (MissingSignal("client latencies", "vllm bench --save-detailed"),) if i == 0 else (),
            sql="SELECT 1",
            why="Because.",
        )
        for i in range(14)
    )
    one = instance(
        engine="vllm",
        versions="0.8 to 0.9",
        verdict=verdict,
        findings=(verdict,),
        window=Window(at(110), None),
        checklist=checklist,
        peaks=Peaks(running=10, waiting=29, notes={"kv_usage": "the log's statistics lines were switched off"}),
    )
    return con, diagnosis(
        one,
        sources=(source("vllm.log.gz", cut=True, engines="vllm", notes="The gzip stream ends in mid-block."),),
        cut=True,
    )


@cache
def fleet(count: int = 3) -> tuple[duckdb.DuckDBPyConnection, Diagnosis]:
    """Several instances: one L1-bound, one healthy, one that restarted; then more healthy ones."""
    con = connection()
    names = [f"10.0.3.{i + 1}:30000" for i in range(count)]
    ones = []
    for i, name in enumerate(names):
        if i == 1:
            fill_l1(con, name)
            verdict = finding("l1_bound", instance=name, rests_on=("l1_full",), advice=(Advice("replica", "Add a replica."),))
            window, peaks = Window(at(300), at(800)), Peaks(42, 128, 0.9987, 43, 106)
            checklist = l1_checklist()
        elif i == 2:
            fill_l1(con, name, load=0.2)
            con.execute("UPDATE timeline SET run_id = 'r2' WHERE instance = ? AND bucket_ts >= ?", [name, at(600)])
            con.execute(
                "DELETE FROM timeline WHERE instance = ? AND bucket_ts BETWEEN ? AND ?",
                [name, at(500), at(600)],
            )
            add_event(con, 497, "crash", instance=name, source="c.log:9", text="Scheduler hit an exception")
            add_event(con, 520, "start", instance=name, run_id="r2", source="c.log:12", text="server_args=…")
            verdict = finding("crash", "medium", instance=name, sentence="The scheduler died at 07:08:17.")
            window, peaks = Window(at(497), at(600)), Peaks(30, 4, 0.61)
            checklist = l1_checklist()
        else:
            fill_l1(con, name, load=0.1)
            verdict = finding("none", "high", instance=name, sentence="Nothing broke.")
            window, peaks = Window(None, None), Peaks(29, 0, 0.52, 0, 0)
            checklist = (answered(1, sql="SELECT 1"), answered(12, "cannot_tell"))
        ones.append(instance(name, verdict=verdict, findings=(verdict,), window=window, peaks=peaks, checklist=checklist))
    skew = finding("skew", "medium", sentence="10.0.3.2 held 81 % of all waiting requests while 10.0.3.1 was half empty.")
    lead = ones[1]
    return con, diagnosis(
        *ones,
        verdict=lead.verdict,
        findings=(lead.verdict, skew),
        window=lead.window,
        peaks=lead.peaks,
        checklist=lead.checklist,
        sources=tuple(source(f"logs/{n}.log", instance=n) for n in names),
    )


@cache
def hostile() -> tuple[duckdb.DuckDBPyConnection, Diagnosis]:
    """Every text that can come from a log is an attack."""
    con = connection()
    add_bucket(
        con,
        0,
        instance=HOSTILE,
        run_id=HOSTILE,
        running=1,
        waiting=math.inf,
        kv_usage=1.7,
        ttft_p99_s=math.nan,
        ttft_p50_s=0.0,
        ttft_source=HOSTILE,
    )
    add_bucket(con, 10, instance=HOSTILE, run_id="r2", running=2, waiting=3, kv_usage=0.2, ttft_p99_s=1.0)
    for kind in (HOSTILE, "crash", "start"):
        add_event(con, 5, kind, instance=HOSTILE, run_id=HOSTILE, reported_by=HOSTILE, source=HOSTILE, text=HOSTILE)
    add_event(con, None, "warning", instance=HOSTILE, text="x" * 5000)
    verdict = finding(
        "l1_bound",
        instance=HOSTILE,
        sentence=HOSTILE,
        rests_on=("ttft_broke", HOSTILE),
        reasons=(HOSTILE,),
        advice=(Advice(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        leave_alone=(HOSTILE,),
    )
    question = Answered(
        "ttft_broke",
        1,
        HOSTILE,
        "yes",
        HOSTILE,
        (Evidence(HOSTILE, HOSTILE, HOSTILE, source=HOSTILE),),
        (MissingSignal(HOSTILE, HOSTILE),),
        f"SELECT '{HOSTILE}'\n  -- two lines",
        HOSTILE,
        HOSTILE,
    )
    one = instance(
        HOSTILE,
        engine=HOSTILE,
        versions=HOSTILE,
        verdict=verdict,
        findings=(verdict,),
        checklist=(question,),
        peaks=Peaks(notes={"waiting": HOSTILE}),
        window=Window(at(3), at(4)),
    )
    text = {"key": HOSTILE, "value": HOSTILE, "unit": HOSTILE, "source": HOSTILE, "run_id": HOSTILE, "read_from": f"sglang:{HOSTILE}"}
    return con, diagnosis(
        one,
        trace=HOSTILE,
        tool_version=HOSTILE,
        facts=({"instance": HOSTILE, **text},),
        sources=(
            dict.fromkeys(source(), HOSTILE)
            | {
                "bytes": None,
                "lines": 3,
                "matched_lines": 1,
                "ignored_lines": 1,
                "unmatched_lines": 1,
                "other_lines": 1,
                "records": 3,
                "utc_offset_s": None,
                "offset_s": 5.0,
                "offset_estimate_s": 5.0,
                "cut": True,
            },
        ),
        notes=(HOSTILE,),
        cut=True,
    )
