"""Request records with prompts and outputs in them, which are not stored."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from benchmarks.contest import Contest, Reader
from benchmarks.inputs.requests import records
from benchmarks.inputs.writing import write
from benchmarks.suites.logs import PEAK
from benchmarks.workshop import Workshop, kvpm, peer, rows_in, sum_of_lines


def contests(work: Workshop) -> Iterator[Contest]:
    """JSON lines of a client."""
    if work.wants("requests with prompts"):
        folder = work.made("requests")
        lines, trace = folder / "client.jsonl", folder / "client.kvtrace"
        size = write(lines, records(work.seed), work.bytes_of(200))
        ours = Reader("kvpm ingest", kvpm("ingest", lines, "-o", trace, "--force"), size, rows_in(trace, ("requests",)))
        parsed = Reader("orjson, merely parsing", peer("orjson_lines", lines), size, sum_of_lines, at_least=1 / 4)
        yield Contest("requests with prompts", ours, [parsed], PEAK)
        shutil.rmtree(folder)
