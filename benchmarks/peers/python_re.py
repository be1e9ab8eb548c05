"""The script that gets written first: each line that has the words through `re`, its fields to CSV.

python -m benchmarks.peers.python_re ENGINE LOG OUT
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

from benchmarks.peers.line_kinds import KINDS


def parse(engine: str, log: Path, out: Path) -> int:
    """Write a CSV file for each kind into `out`; returns the lines that were read."""
    found = 0
    kinds = {}
    handles = []
    for name, kind in KINDS[engine].items():
        pattern = re.compile(kind.pattern)
        handles.append((out / f"{name}.csv").open("w", newline="", encoding="utf-8"))
        rows = csv.writer(handles[-1])
        rows.writerow(pattern.groupindex)
        kinds[kind.words] = pattern.search, rows.writerow
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            for words, (search, write) in kinds.items():
                if words in line and (match := search(line)):
                    write(match.groups())
                    found += 1
                    break
    for handle in handles:
        handle.close()
    return found


if __name__ == "__main__":
    print(parse(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
