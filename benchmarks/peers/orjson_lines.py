"""JSON lines merely parsed by orjson, nothing done with what is in them.

python -m benchmarks.peers.orjson_lines FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

import orjson


def count(lines: Path) -> int:
    """The objects in a file."""
    with lines.open("rb") as handle:
        return sum(isinstance(orjson.loads(line), dict) for line in handle)


if __name__ == "__main__":
    print(count(Path(sys.argv[1])))
