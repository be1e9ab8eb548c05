"""Small logs and helpers for the tests of the stored trace."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from analyzer.ingestion import IngestOptions, IngestResult, ingest
from analyzer.trace.identity import InstanceRule
from analyzer.trace.manifest import read_manifest
from analyzer.trace.reader import make_table
from analyzer.trace.schema import TABLES

BASE = datetime(2026, 3, 10, 12, 0, 0)


def sglang(start: float, end: float, *, port: int | None = None, host: str = "0.0.0.0", running: int = 4, tag: str = "") -> str:
    """Decode lines, one a second; with a port, start-up lines before them."""
    lines = []
    if port is not None:
        at = BASE + timedelta(seconds=start - 30)
        lines.append(f"[{at:%Y-%m-%d %H:%M:%S}] server_args=ServerArgs(model_path='m/x', host='{host}', port={port})")
    for second in range(int(end - start)):
        at = BASE + timedelta(seconds=start + second)
        lines.append(
            f"[{at:%Y-%m-%d %H:%M:%S}{tag}] Decode batch, #running-req: {running}, #token: 900, token usage: 0.09, cuda graph: True, "
            "gen throughput (token/s): 99.00, #queue-req: 0"
        )
    return "".join(line + "\n" for line in lines)


def vllm(start: float, end: float) -> str:
    """Stats lines, one in 10 s."""
    return "".join(
        f"(APIServer pid=7) INFO {BASE + timedelta(seconds=start + s):%m-%d %H:%M:%S} [loggers.py:123] Engine 000: "
        "Avg prompt throughput: 9.0 tokens/s, Avg generation throughput: 9.0 tokens/s, Running: 1 reqs, "
        "Waiting: 0 reqs, GPU KV cache usage: 9.0%\n"
        for s in range(0, int(end - start), 10)
    )


def write(folder: Path, **logs: str) -> Path:
    """Log files (`a` becomes a.log, `pod__a` becomes pod/a.log) below `folder`."""
    for name, content in logs.items():
        path = folder / (name.replace("__", "/") + ".log")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


def read(given: Path, trace: Path, *rules: tuple[str, str]) -> IngestResult:
    """Ingest what lies below `given`."""
    return ingest([str(given)], trace, IngestOptions(UTC, 2026, tuple(InstanceRule(p, n) for p, n in rules)))


def content(trace: Path) -> dict[str, str]:
    """Every file below a trace with the hash of its bytes."""
    return {str(p.relative_to(trace)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(trace.rglob("*")) if p.is_file()}


def rows(trace: Path, sql: str) -> list[tuple[Any, ...]]:
    """The result of a query on the stored tables, without the views over them."""
    manifest = read_manifest(trace)
    with duckdb.connect(":memory:") as con:
        for table in TABLES.values():
            files = [trace / f.path for f in manifest.files_of(table.name)]
            make_table(con, table, [trace / manifest.sources_file] if table.name == "sources" else files)
        return con.execute(sql).fetchall()


def counts(trace: Path) -> dict[str, int]:
    """Scheduler rows by instance."""
    return dict(rows(trace, "SELECT instance, count(*) FROM scheduler GROUP BY 1 ORDER BY 1"))
