"""The same in SQL: DuckDB reads lines as a column, `regexp_extract` takes the fields, Parquet out.

python -m benchmarks.peers.duckdb_regexp ENGINE LOG OUT
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import duckdb

from benchmarks.peers.line_kinds import KINDS

# A separator and a quote that no log has: a row is a line.
LINES = "read_csv(?, columns = {'line': 'VARCHAR'}, header = false, delim = '\x01', quote = '', escape = '', auto_detect = false)"


def parse(engine: str, log: Path, out: Path) -> int:
    """Write a Parquet file for each kind into `out`; returns the lines that were read."""
    found = 0
    with duckdb.connect() as con:
        for name, kind in KINDS[engine].items():
            groups = ", ".join(f"'{group}'" for group in re.compile(kind.pattern).groupindex)
            # RE2 wants the names given; DuckDB takes them apart from the groups
            bare = re.sub(r"\(\?P<\w+>", "(", kind.pattern)
            select = (
                f"SELECT unnest(fields) FROM (SELECT regexp_extract(line, '{bare}', [{groups}]) AS fields "
                f"FROM {LINES} WHERE contains(line, '{kind.words}')) WHERE fields.ts <> ''"
            )
            con.execute(f"COPY ({select}) TO '{out / f'{name}.parquet'}' (FORMAT parquet)", [str(log)])
            rows = con.fetchone()
            found += rows[0] if rows else 0
    return found


if __name__ == "__main__":
    print(parse(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
