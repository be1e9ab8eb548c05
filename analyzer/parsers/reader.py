"""What every reader of an input gets and gives: a log, a metric dump and a request record are read through this.

A reader takes the text of one source, puts rows into the spool, and says what it learned of the servers
behind it. Which reader takes a source is decided by its beginning, in `analyzer.parsers.kinds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Protocol

from analyzer.formats.versions import VersionRange
from analyzer.parsers.resume import Resume
from analyzer.sources.pieces import LineCounts
from analyzer.sources.text import texts
from analyzer.trace.spool import Spool
from analyzer.trace.streams import Stream

# The first characters of a text, enough to tell what it is.
HEAD_CHARACTERS = 1 << 16


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the command line says about reading, and the newest time the source can hold (its file's time).

    `at` is the time of samples that have none; `columns` maps canonical names to those of a table (`--map`);
    `keep_text` stores prompts and outputs, which otherwise leave only lengths and hashes. A large source may be read by `jobs`
    processes.
    """

    zone: tzinfo | None
    year: int | None
    newest: datetime
    at: datetime | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    keep_text: bool = False
    jobs: int = 1


@dataclass(slots=True)
class Given:
    """One source as a reader gets it: `head` is the beginning of the text (up to HEAD_CHARACTERS), `chunks` the whole of it in UTF-8.

    `path` is None for standard input and for what came over the network; only readers of binary files use it.
    `resumable` asks for the place at which reading may go on once the source has grown; rows from there on then go to `spool.tail`.
    With `resume`, such a place of an earlier reading, `chunks` is what stands behind it.
    """

    source_id: str
    name: str
    path: Path | None
    head: str
    chunks: Iterator[bytes]
    spool: Spool
    options: ReadOptions
    resumable: bool = False
    resume: Resume | None = None

    @property
    def blocks(self) -> Iterator[str]:
        """The whole of it as text; it can be gone through once."""
        return texts(self.chunks)


@dataclass(slots=True)
class SourceRead:
    """What reading one source gave besides its rows.

    `format` is the reader's name; `usable` is False when nothing in it belongs to a model server, and
    `nothing` then says in a few words what it holds instead. `clock` is the stamp the times were taken from
    (inner, outer, samples, file, given or None), `utc_offset_s` what was subtracted from stamps without a zone;
    `clock_assumed` and `year_assumed` say that nothing told the zone or the year. `resume` is where reading may go on; None
    when it may not.
    """

    format: str
    counts: LineCounts = field(default_factory=LineCounts)
    streams: dict[str, Stream] = field(default_factory=dict)
    versions: VersionRange = field(default_factory=VersionRange)
    engines: set[str] = field(default_factory=set)
    first_ts: datetime | None = None
    last_ts: datetime | None = None
    clock: str | None = None
    utc_offset_s: float | None = None
    clock_assumed: bool = False
    year_assumed: bool = False
    notes: list[str] = field(default_factory=list)
    usable: bool = True
    nothing: str = ""
    resume: Resume | None = None


class Reader(Protocol):
    """One kind of input."""

    name: str

    def claims(self, head: str, name: str) -> bool:
        """True when a source with this beginning and this file name is of this kind."""

    def read(self, given: Given) -> SourceRead:
        """Read the whole source into its spool. Raises KvpmError for what only the user can mend."""
