"""Opens a stored trace as a DuckDB database with all views in place.

Only the stored trace is read. Any other Parquet reader can read it too.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from analyzer.errors import ExitCode, KvpmError
from analyzer.resources import sql_dir
from analyzer.trace.manifest import Manifest, read_manifest
from analyzer.trace.schema import TABLES, Table

LAYERS = ("base", "signals", "checklist")


@dataclass(frozen=True, slots=True)
class SqlFile:
    """One file of the SQL library; each makes the views it is named after."""

    layer: str
    path: Path

    @property
    def name(self) -> str:
        """The file's name without its ordering number and ending."""
        return self.path.stem

    @property
    def text(self) -> str:
        """The statements."""
        return self.path.read_text(encoding="utf-8")


def sql_files(layers: Sequence[str] = LAYERS) -> Iterator[SqlFile]:
    """All files of the SQL library in the order in which they build on each other."""
    for layer in layers:
        folder = sql_dir() / layer
        order = [line.strip() for line in (folder / "ORDER").read_text(encoding="utf-8").splitlines()]
        for name in order:
            if name and not name.startswith("#"):
                yield SqlFile(layer, folder / f"{name}.sql")


class Trace:
    """An opened trace: `con` is a DuckDB connection in which tables and views have their names.

    The connection is in memory; no view or table of it writes to the stored files.
    """

    def __init__(
        self,
        path: Path,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        variables: Mapping[str, float] | None = None,
        memory_limit: str = "1500MB",
    ) -> None:
        """Open `path`; `since` and `until` bound what the views show, `variables` are their thresholds."""
        self.path = path
        self.manifest: Manifest = read_manifest(path)
        self.con = duckdb.connect(":memory:")
        self.con.execute("SET TimeZone = 'UTC'")
        self.con.execute(f"SET memory_limit = '{memory_limit}'")
        # what does not fit goes there, and not into the folder one happens to work in
        spill = f"{tempfile.gettempdir()}/kvpm-{os.getpid()}-{id(self)}".replace("'", "''")
        self.con.execute(f"SET temp_directory = '{spill}'")
        stored = [f for table in TABLES for f in self.manifest.files_of(table)]
        # of a small trace planning is most of the work: a second thread only waits, and what is computed once is planned once
        self._small = small = sum(f.rows for f in stored) <= SMALL_ROWS
        if small:
            self.con.execute("SET threads = 1")
        else:
            # what is thought to be a few rows may be millions: joins to the row before are not made by comparing all with all
            self.con.execute("SET asof_loop_join_threshold = 0")
        for name, moment in (("since", since), ("until", until)):
            text = "NULL" if moment is None else f"TIMESTAMPTZ '{moment.isoformat()}'"
            self.con.execute(f"SET VARIABLE {name} = {text}")
        for name, value in (variables or {}).items():
            self.con.execute(f"SET VARIABLE {name} = {value!r}::DOUBLE")
        try:
            self._tables(in_memory=small)
            create_views(self.con, keep_all=small)
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            why = (str(error).splitlines() or [""])[0]
            raise KvpmError(
                f"the stored trace {path} is damaged: {why}", hint="ingest the logs again", exit_code=ExitCode.INPUT_CUT
            ) from error

    def _tables(self, in_memory: bool) -> None:
        for table in TABLES.values():
            if table.name == "sources":
                files = [self.path / self.manifest.sources_file]
            else:
                files = [self.path / f.path for f in self.manifest.files_of(table.name)]
            make_table(self.con, table, files, in_memory)

    def keep(self, views: Collection[str]) -> None:
        """Compute these views now, once: each is going to be asked for every instance."""
        made = {found[1]: s for s in _library(self.con, keep_all=True) if (found := _MADE.search(s.query))}
        for (view,) in self.con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall():
            if view in views:
                self.con.execute(f"DROP VIEW {view}")
                self.con.execute(made[view])

    def use_buckets(self, bucket_s: int) -> None:
        """From now on `timeline`, and what it is made from, has buckets of that many seconds, however long the trace is."""
        self.con.execute(f"SET VARIABLE bucket_s = {bucket_s}::INTEGER")
        for statement in _bucketed(self.con, self._small):
            self.con.execute(statement)

    def close(self) -> None:
        """Release the connection."""
        self.con.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_table(con: duckdb.DuckDBPyConnection, table: Table, files: list[Path], in_memory: bool = False) -> None:
    """A view over the Parquet files, or a table of their rows; an empty one with the same columns when there are none."""
    if files:
        names = ", ".join("'" + str(f).replace("'", "''") + "'" for f in files)
        con.execute(f"CREATE {'TABLE' if in_memory else 'VIEW'} {table.name} AS SELECT * FROM read_parquet([{names}])")
        return
    empty = pa.table({f.name: pa.array([], f.type) for f in table.arrow})
    con.register(f"_empty_{table.name}", empty)
    con.execute(f"CREATE TABLE {table.name} AS SELECT * FROM _empty_{table.name}")
    con.unregister(f"_empty_{table.name}")


SMALL_ROWS = 300_000

# Views that many others read: computed once per opened trace, also of a large one.
_KEPT = (
    "_series_used", "_hidden", "_counter_step", "_scrape", "scheduler_clean", "event", "request_best", "fact", "_limits", "run",
    "_report", "_load", "_wait", "_bucket", "signal_load", "_latency_rise", "signal_latency", "_instance", "incident", "reservation",
    "queue_state", "timeline", "_run_end", "_l2_moved", "l2_wait",
)  # fmt: skip
# Rows of these are as many as those of the tables behind them, and few questions read them.
_NEVER_KEPT = ("metrics", "counter_delta", "_sample")


_MADE = re.compile(r"^CREATE OR REPLACE (?:VIEW|TABLE) (\w+) AS$", re.MULTILINE)
_CREATE = re.compile(r"^CREATE OR REPLACE VIEW (\w+) AS$", re.MULTILINE)


_LIBRARY: dict[bool, tuple[duckdb.Statement, ...]] = {}


def _library(con: duckdb.DuckDBPyConnection, keep_all: bool) -> tuple[duckdb.Statement, ...]:
    """The SQL library in its order, parsed once in a process, however many traces it opens: that is a sixth of the work for a small one."""
    if keep_all not in _LIBRARY:
        _LIBRARY[keep_all] = tuple(_statements(con, keep_all))
    return _LIBRARY[keep_all]


def _statements(con: duckdb.DuckDBPyConnection, keep_all: bool) -> Iterator[duckdb.Statement]:
    def made(view: re.Match[str]) -> str:
        kept = view[1] in _KEPT or (keep_all and view[1] not in _NEVER_KEPT)
        return f"CREATE OR REPLACE TABLE {view[1]} AS" if kept else view[0]

    for file in sql_files():
        yield from con.extract_statements(_CREATE.sub(made, file.text))


def _bucketed(con: duckdb.DuckDBPyConnection, keep_all: bool) -> tuple[duckdb.Statement, ...]:
    """The part of the library that goes from the width of a bucket to the timeline, in its order."""
    made = {found[1]: s for s in _library(con, keep_all) if (found := _MADE.search(s.query))}
    reads = {name: {w for w in re.findall(r"\w+", s.query) if w in made and w != name} for name, s in made.items()}
    below, above = {"timeline"}, {"_bucket"}
    for name in reversed(made):
        if name in below:
            below |= reads[name]
    for name in made:
        if reads[name] & above:
            above.add(name)
    return tuple(s for name, s in made.items() if name in above & below)


def create_views(con: duckdb.DuckDBPyConnection, keep_all: bool = False) -> None:
    """Make every view of the SQL library on a connection that has the tables; `keep_all` computes each once, now."""
    for statement in _library(con, keep_all):
        con.execute(statement)
