"""Prometheus text, scrape after scrape."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from benchmarks.contest import Contest, Reader
from benchmarks.inputs.scrapes import scrapes
from benchmarks.inputs.writing import write
from benchmarks.suites.logs import PEAK
from benchmarks.workshop import Workshop, kvpm, peer, rows_in, sum_of_lines

PART = 10


def contests(work: Workshop) -> Iterator[Contest]:
    """One file of scrapes of a server with 800 series."""
    if work.wants("scrapes"):
        folder = work.made("scrapes")
        whole, part, trace = folder / "metrics.prom", folder / "part.prom", folder / "metrics.kvtrace"
        size = write(whole, scrapes(work.seed), work.bytes_of(200))
        less = write(part, scrapes(work.seed), work.part_of(size, PART))
        ours = Reader("kvpm ingest", kvpm("ingest", whole, "-o", trace, "--force"), size, rows_in(trace, ("samples",)))
        client = Reader("prometheus_client", peer("prometheus_parser", part), less, sum_of_lines, at_least=20)
        yield Contest("scrapes", ours, [client], PEAK)
        shutil.rmtree(folder)
