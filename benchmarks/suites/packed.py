"""Logs as they are found: packed, as many files, and with a line that is larger than any buffer."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import islice

from benchmarks.contest import Contest, Reader
from benchmarks.inputs import logs
from benchmarks.inputs.writing import MB, gzipped, write, write_one_line, write_split, zstandard_packed
from benchmarks.peers.line_kinds import KINDS
from benchmarks.suites.logs import PEAK, grep, ingest
from benchmarks.workshop import Workshop, peer, sum_of_lines

ENGINE = "sglang"
WORDS = [kind.words for kind in KINDS[ENGINE].values()]


def contests(work: Workshop) -> Iterator[Contest]:
    """A dense log packed in two ways, a sparse one in files of 1 MB, and one line of 100 MB before some lines of a scheduler."""
    for name, pack in (("dense, .gz", gzipped), ("dense, .zst", zstandard_packed)):
        if work.wants(name):
            folder = work.made("packed")
            log = folder / "server.log"
            size = write(log, logs.dense(ENGINE, work.seed), work.bytes_of(100))
            packed = pack(log)
            log.unlink()
            unpack = Reader("unpack and count", peer("unpack", packed, *WORDS), size, sum_of_lines)
            yield Contest(name, ingest(folder, packed, size), [unpack], PEAK)
            shutil.rmtree(folder)
    if work.wants("sparse, files of 1 MB"):
        folder = work.made("many")
        files = folder / "logs"
        size = write_split(files, logs.sparse(ENGINE, work.seed), work.bytes_of(100), MB)
        yield Contest("sparse, files of 1 MB", ingest(folder, files, size), [grep(ENGINE, files, size)], PEAK)
        shutil.rmtree(folder)
    if work.wants("one long line"):
        folder = work.made("one-line")
        log = folder / "server.log"
        end = b"".join(islice(logs.dense(ENGINE, work.seed), 1))
        size = write_one_line(log, work.part_of(work.bytes_of(100), 100), end[: end.rfind(b"\n", 0, MB) + 1])
        yield Contest("one long line", ingest(folder, log, size), [grep(ENGINE, log, size)], PEAK)
        shutil.rmtree(folder)
