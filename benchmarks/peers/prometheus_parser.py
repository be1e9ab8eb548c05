"""Scrapes read by prometheus_client's parser, which makes an object of each sample and stores nothing.

python -m benchmarks.peers.prometheus_parser SCRAPES
"""

from __future__ import annotations

import sys
from pathlib import Path

from prometheus_client.parser import text_fd_to_metric_families


def count(scrapes: Path) -> int:
    """The samples in a file."""
    with scrapes.open(encoding="utf-8") as handle:
        return sum(len(family.samples) for family in text_fd_to_metric_families(handle))


if __name__ == "__main__":
    print(count(Path(sys.argv[1])))
