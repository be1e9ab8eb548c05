"""What one capture adds to a dataset: rows of its trace by day and instance, and what its diagnosis says."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb

from analyzer.diagnosis.model import Diagnosis, plain
from analyzer.fleet.dataset.schema import PARTITIONED
from analyzer.fleet.model import Incident, Summary
from analyzer.fleet.summarise import incidents_of
from analyzer.report import fmt
from analyzer.trace.reader import Trace

ROWS = "rows.json"
_MINUTE_S = 60
# A folder's name has 255 bytes, `instance=` and escapes included.
_LONGEST = 200

_MINUTES = """
CREATE TABLE _minute AS
WITH ranks AS (
    SELECT instance, run_id, greatest(1, count(DISTINCT dp), max(engines)) AS ranks FROM scheduler_clean GROUP BY ALL
)
SELECT
    t.instance, t.run_id, t.bucket_ts AS ts, t.running, t.waiting, t.kv_usage, t.l1_used_tokens, t.l1_evictable_tokens,
    t.l1_capacity_tokens, t.l1_capacity_tokens * (1.0 - t.kv_usage) AS l1_free_tokens,
    l.cap * coalesce(r.ranks, 1) AS cap, l.cap * coalesce(r.ranks, 1) - t.running AS cap_free,
    t.prompt_tps, t.gen_tps, t.retracted, t.preempted, t.wait_est_s, t.ttft_p50_s, t.ttft_p95_s, t.ttft_p99_s, t.ttft_n, t.ttft_source,
    t.l2_used_share
FROM timeline AS t
LEFT JOIN _limits AS l USING (instance, run_id)
LEFT JOIN ranks AS r USING (instance, run_id)
"""
_TIME = {"requests": "coalesce(arrival_ts, ts)"}
_PEAKS = """
SELECT max(waiting), max(kv_usage), max(ttft_p99_s) FILTER (WHERE NOT isinf(ttft_p99_s)) FROM _minute
WHERE instance = ? AND ts >= coalesce(?, ?)::TIMESTAMPTZ - INTERVAL 1 MINUTE AND ts <= coalesce(?, ?)::TIMESTAMPTZ
"""


@dataclass(frozen=True, slots=True)
class Extracted:
    """Of which capture it is: its name, its file stem, and its report below the batch's folder."""

    name: str
    stem: str
    report: str


def extract(trace: Trace, diagnosis: Diagnosis, summary: Summary, about: Extracted, folder: Path) -> None:
    """Write the capture's parts of the large tables below `folder`, and its rows of the small ones as ROWS beside them.

    Afterwards the trace has buckets of a minute.
    """
    folder.mkdir(parents=True, exist_ok=True)
    trace.use_buckets(_MINUTE_S)
    con = trace.con
    # the captures are what is done in parallel; and one thread writes one file of a partition
    con.execute("SET threads = 1")
    con.execute(_MINUTES)
    con.execute("CREATE TABLE _named (instance VARCHAR, named VARCHAR)")
    for name in PARTITIONED:
        _write(con, name, about, folder)
    rows = {
        "captures": [_capture(diagnosis, summary, about)],
        "instances": _instances(diagnosis, con, about.name),
        "incidents": [_incident(i, con, about.name) for i in incidents_of(diagnosis)],
    }
    (folder / ROWS).write_text(json.dumps(plain(rows), allow_nan=False), encoding="utf-8")


def partition_name(instance: str) -> str:
    """The name of a server as a path has it: one that a folder's name has no room for is cut, and told apart by its hash."""
    if len(quote(instance, safe="")) <= _LONGEST:
        return instance
    cut = instance
    while len(quote(cut, safe="", errors="replace")) > _LONGEST - 9:
        cut = cut[:-1]
    return f"{cut}-{hashlib.sha256(instance.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _write(con: duckdb.DuckDBPyConnection, name: str, about: Extracted, folder: Path) -> None:
    table, at = "_minute" if name == "minutes" else name, _TIME.get(name, "ts")
    inside = f"coalesce({at} >= getvariable('since'), true) AND coalesce({at} <= getvariable('until'), true)"
    found = con.execute(f"SELECT DISTINCT instance FROM {table} WHERE {inside}").fetchall()
    if not found:
        return
    con.execute("DELETE FROM _named")
    con.executemany("INSERT INTO _named VALUES (?, ?)", [(i, None if i is None else partition_name(i)) for (i,) in found])
    columns = ", ".join(f"t.{c.name}" for c in PARTITIONED[name].columns if c.name not in ("capture", "day", "instance"))
    con.execute("SET VARIABLE capture = ?", [about.name])
    target = str(folder / name).replace("'", "''")
    con.execute(
        f"COPY (SELECT getvariable('capture')::VARCHAR AS capture, {columns}, ({at})::DATE AS day, n.named AS instance "
        f"FROM {table} AS t JOIN _named AS n ON t.instance IS NOT DISTINCT FROM n.instance WHERE {inside} "
        f"ORDER BY n.named, {at}, {'t.record' if name != 'minutes' else 't.ts'}) "
        f"TO '{target}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (day, instance), FILENAME_PATTERN '{about.stem}.')"
    )


def _capture(diagnosis: Diagnosis, summary: Summary, about: Extracted) -> dict[str, Any]:
    return {
        "capture": about.name, "report": about.report, "instances": summary.instances, "cause": summary.cause,
        "confidence": summary.confidence, "sentence": summary.sentence, "instance": partition_name(summary.instance) or None,
        "engine": summary.engine or None, "start_ts": summary.covers.start, "end_ts": summary.covers.end,
        "bytes": sum(int(s.get("bytes") or 0) for s in diagnosis.sources), "cut": summary.cut,
    }  # fmt: skip


def _instances(diagnosis: Diagnosis, con: duckdb.DuckDBPyConnection, capture: str) -> list[dict[str, Any]]:
    spans: dict[str, tuple[datetime, datetime]] = {
        i: (first, last) for i, first, last in con.execute("SELECT instance, first_ts, last_ts FROM _instance").fetchall()
    }
    return [
        {
            "capture": capture, "instance": partition_name(i.instance), "engine": i.engine, "versions": fmt.clean(i.versions, 200) or None,
            "runs": i.runs, "cause": i.verdict.cause, "confidence": i.verdict.confidence, "running_peak": i.peaks.running,
            "waiting_peak": i.peaks.waiting, "kv_usage_peak": i.peaks.kv_usage, "retracted": i.peaks.retracted_requests,
            "preempted": i.peaks.preemptions, "start_ts": spans.get(i.instance, (None, None))[0],
            "end_ts": spans.get(i.instance, (None, None))[1],
        }
        for i in diagnosis.instances
    ]  # fmt: skip


def _incident(incident: Incident, con: duckdb.DuckDBPyConnection, capture: str) -> dict[str, Any]:
    start, end = incident.start, incident.end
    peaks = con.execute(_PEAKS, [incident.instance, start, end, end, start]).fetchone() or (None, None, None)
    return {
        "capture": capture, "instance": partition_name(incident.instance), "cause": incident.cause, "confidence": incident.confidence,
        "start_ts": start, "end_ts": end, "duration_s": (end - start).total_seconds() if start and end else None,
        "waiting_peak": peaks[0], "kv_usage_peak": peaks[1], "ttft_p99_peak_s": peaks[2],
    }  # fmt: skip
