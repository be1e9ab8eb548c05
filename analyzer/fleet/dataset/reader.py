"""Opens a dataset as a DuckDB database with the fleet's views in place.

    with Dataset(Path("out/dataset")) as dataset:
        print(dataset.con.execute("FROM cause_by_hour").fetchall())

A question that names `day` or `instance` opens the files of those only.
"""

from __future__ import annotations

import glob
from pathlib import Path

import duckdb
import pyarrow as pa

from analyzer.diagnosis.thresholds import thresholds
from analyzer.fleet.dataset.schema import PARTITIONED, TABLES
from analyzer.fleet.dataset.store import is_dataset, parts_of, refuse_newer
from analyzer.fleet.state import DATASET
from analyzer.trace.reader import sql_files

LAYER = "fleet"


def dataset_in(path: Path) -> Path | None:
    """The dataset that `path` is, or that the batch in `path` has; None where there is none."""
    return next((p for p in (path, path / DATASET) if is_dataset(p)), None)


class Dataset:
    """An opened dataset: `con` is a DuckDB connection, in memory, in which tables and views have their names."""

    def __init__(self, folder: Path, *, memory_limit: str = "4GB") -> None:
        """Raises KvpmError for a dataset of a later release."""
        refuse_newer(folder)
        self.con = duckdb.connect(":memory:")
        self.con.execute("SET TimeZone = 'UTC'")
        self.con.execute(f"SET memory_limit = '{memory_limit}'")
        for variable, value in thresholds({}).items():
            self.con.execute(f"SET VARIABLE {variable} = {value!r}::DOUBLE")
        for name in TABLES:
            make_table(self.con, folder, name)
        create_fleet_views(self.con)

    def close(self) -> None:
        """Release the connection."""
        self.con.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_table(con: duckdb.DuckDBPyConnection, folder: Path, name: str) -> None:
    """A view over the files of a table; a table without rows where there are none."""
    base = glob.escape(str(folder)).replace("'", "''")
    if name in PARTITIONED and parts_of(folder, name):
        con.execute(
            f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{base}/{name}/*/*/*.parquet', hive_partitioning = true, "
            "hive_types = {'day': DATE, 'instance': VARCHAR})"
        )
    elif name not in PARTITIONED and (folder / f"{name}.parquet").is_file():
        con.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{base}/{name}.parquet')")
    else:
        empty_table(con, name)


def empty_table(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """A table of the dataset without a row."""
    con.register("_empty", pa.Table.from_pylist([], schema=TABLES[name].arrow))
    con.execute(f"CREATE TABLE {name} AS SELECT * FROM _empty")
    con.unregister("_empty")


def create_fleet_views(con: duckdb.DuckDBPyConnection) -> None:
    """Make the fleet's views on a connection that has the tables."""
    for file in sql_files((LAYER,)):
        con.execute(file.text)
