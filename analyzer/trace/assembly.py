"""From what each source said to one stored trace: servers named, clocks lined up, rows written.

Works on all sources of the trace together, old and new: a source that is added later can tell the name, the
restart or the clock of one that was there before. Rows already stored are written again only when that changes them:
what a source that grew adds is a file of its own beside those that are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analyzer.trace.compaction import compact_new
from analyzer.trace.identity import Identity, InstanceRule, SourceStream, identify
from analyzer.trace.manifest import Manifest, StoredFile, StoredSource
from analyzer.trace.offset_rules import OffsetRule
from analyzer.trace.offsets import find_offsets
from analyzer.trace.placement import Placement, Start
from analyzer.trace.row_store import store_rows
from analyzer.trace.schema import TABLES
from analyzer.trace.source_rows import SourceRows
from analyzer.trace.spool import Spool
from analyzer.trace.store import METRIC_TABLES, ROW_TABLES, remove_unnamed, write_sources_table, write_state
from analyzer.trace.streams import Stream


@dataclass(frozen=True, slots=True)
class Rules:
    """What --instance and --offset said; without any, what they said before holds on."""

    instances: tuple[InstanceRule, ...] = ()
    offsets: tuple[OffsetRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Fresh:
    """What was read of a source just now: its rows, and what its reader needs to go on once it has grown, packed."""

    spool: Spool
    state: bytes | None = None


def assemble(trace: Path, manifest: Manifest, fresh: Mapping[str, Fresh], rules: Rules, scratch: Path) -> None:
    """Write the rows of `fresh` (by source id) and the manifest; afterwards the trace is whole.

    Files that a source of `fresh` has already stay: its rows come behind them.
    """
    trace.mkdir(parents=True, exist_ok=True)
    rules = _kept(rules, manifest)
    streams = _streams(manifest)
    identity = identify(streams, list(rules.instances))
    offsets = find_offsets([SourceRows(s, trace, _spool_of(s, fresh)) for s in manifest.sources], identity, rules.offsets)
    if any(o.applied_s for o in offsets.values()):
        identity = identify([_moved(s, offsets[s.source_id].applied_s) for s in streams], list(rules.instances))
    before = (manifest.aliases, manifest.runs)
    manifest.aliases = identity.aliases
    manifest.runs = {
        name: [{"run_id": r.run_id, "start": r.start.isoformat() if r.start else None, "source": r.source_id} for r in runs]
        for name, runs in identity.runs.items()
    }
    manifest.options = {
        "instance": [{"pattern": r.pattern, "name": r.name} for r in rules.instances],
        "offset": [{"pattern": r.pattern, "seconds": r.seconds} for r in rules.offsets],
    }
    changed = before != (manifest.aliases, manifest.runs)
    for source in manifest.sources:
        offset = offsets[source.source_id]
        spool = _spool_of(source, fresh)
        was = timedelta(seconds=0 if spool is not None else source.offset_s)
        shift = timedelta(seconds=offset.applied_s) - was
        placement = Placement.of(source, identity)
        stored = Placement.from_json(source.placed)
        stays = not changed if stored is None else stored.holds_in(placement, source, grows=spool is not None)
        stays = stays and offset.applied_s == source.offset_s
        writer = _Writer(trace, source, spool, identity, timedelta(seconds=offset.applied_s), scratch)
        if stays and spool is not None and source.files:
            writer.append(placement.starts, stored.whole_starts if stored is not None else [])
        elif spool is not None or not stays:
            writer.write(placement.starts)
        source.offset_s = offset.applied_s
        for column in ("first_ts", "last_ts"):
            if source.row[column] is not None:
                source.row[column] = _moment(source.row[column]) + shift
        source.placed = placement.to_json(source.row["last_ts"])
        source.row |= offset.columns()
        names = sorted({identity.instance[source.source_id, d["origin"]] for d in source.streams if d["engines"] or d["kind"] != "log"})
        source.row["instance"] = ",".join(names) or None
    manifest.totals = {name: sum(s.rows_of(name) for s in manifest.sources) for name in ROW_TABLES}
    _write_states(trace, manifest, fresh)
    write_sources_table(trace, manifest.sources)
    manifest.write(trace)
    remove_unnamed(trace, manifest)


def _spool_of(source: StoredSource, fresh: Mapping[str, Fresh]) -> Spool | None:
    return fresh[source.source_id].spool if source.source_id in fresh else None


def _write_states(trace: Path, manifest: Manifest, fresh: Mapping[str, Fresh]) -> None:
    for source in manifest.sources:
        state = fresh[source.source_id].state if source.source_id in fresh else None
        if source.resume is not None and state is not None:
            source.resume.state = write_state(trace, source.source_id, state)


def _kept(rules: Rules, manifest: Manifest) -> Rules:
    before = manifest.options
    if not rules.instances:
        rules = replace(rules, instances=tuple(InstanceRule(r["pattern"], r["name"]) for r in before.get("instance", [])))
    if not rules.offsets:
        rules = replace(rules, offsets=tuple(OffsetRule(r["pattern"], r["seconds"]) for r in before.get("offset", [])))
    return rules


def _streams(manifest: Manifest) -> list[SourceStream]:
    return [SourceStream(s.source_id, s.path, s.folder, Stream.from_json(d), s.descending) for s in manifest.sources for d in s.streams]


def _moved(s: SourceStream, seconds: float) -> SourceStream:
    return replace(s, stream=s.stream.moved(timedelta(seconds=seconds)))


def _moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(str(value))


class _Writer:
    """Writes the rows of one source, `shift` later than on its own clock."""

    def __init__(self, trace: Path, source: StoredSource, spool: Spool | None, identity: Identity, shift: timedelta, scratch: Path) -> None:
        self._trace = trace
        self._source = source
        self._spool = spool
        self._identity = identity
        self._shift = shift
        self._scratch = scratch
        self._rows = SourceRows(replace(source), trace, spool)

    def append(self, starts: Sequence[Start], known: Sequence[Start]) -> None:
        """Put what was read just now behind what is stored; `known` are the starts that are stored."""
        assert self._spool is not None
        for name in ROW_TABLES:
            if name in METRIC_TABLES:
                continue
            files = [f for f in self._source.files.pop(name, []) if not f.tail]
            more = [s for s in starts if s not in known and not self._is_of_tail(s)]
            new = self._store(name, self._spool.batches(name), self._spool.is_in_order(name), more)
            if new is not None:
                files = compact_new(self._trace, name, self._source.source_id, [*files, new], self._scratch)
            self._put(name, [*files, self._store_tail(name, starts)])

    def write(self, starts: Sequence[Start]) -> None:
        """Write all rows, those that are stored and those that were read just now, to files of their own."""
        old = self._rows.source.files
        self._source.files = {}
        for name in ROW_TABLES:
            if name in METRIC_TABLES:
                continue
            stored = [f for f in old.get(name, ()) if not f.tail]
            batches, in_order = self._rows.stored(name, tail=False), len(stored) < 2
            if self._spool is not None:
                batches = chain(batches, self._spool.batches(name))
                in_order = not stored and self._spool.is_in_order(name)
            whole = self._store(name, batches, in_order, [s for s in starts if not self._is_of_tail(s)])
            self._put(name, [whole, self._store_tail(name, starts)])
        if not self._rows.count("series"):
            return
        # its database takes as long to load as a short log to read
        from analyzer.trace.metric_store import store_metrics

        series, samples = self._rows.table("series"), self._rows.batches("samples")
        self._source.files |= store_metrics(self._trace, self._source, series, samples, self._identity, self._scratch, self._shift)

    def _put(self, name: str, files: Sequence[StoredFile | None]) -> None:
        there = [f for f in files if f is not None]
        if there:
            self._source.files[name] = there

    def _store_tail(self, name: str, starts: Sequence[Start]) -> StoredFile | None:
        of_tail = [s for s in starts if self._is_of_tail(s)]
        if self._spool is None:
            return self._store(name, self._rows.stored(name, tail=True), True, of_tail, tail=True)
        tail = self._spool.tail
        return None if tail is None else self._store(name, tail.batches(name), tail.is_in_order(name), of_tail, tail=True)

    def _is_of_tail(self, start: Start) -> bool:
        return self._source.resume is not None and start.record > self._source.resume.lines

    def _store(
        self, name: str, batches: Iterator[pa.RecordBatch], in_order: bool, starts: Sequence[Start], *, tail: bool = False
    ) -> StoredFile | None:
        if name == "events":
            # on the source's own clock, as its other rows are
            made = [s.row(self._source.source_id, self._shift) for s in starts]
            batches, in_order = _with_starts(batches, made), in_order and not made
        return store_rows(
            self._trace, name, self._source.source_id, batches,
            in_order=in_order, identity=self._identity, shift=self._shift, scratch=self._scratch, tail=tail,
        )  # fmt: skip


def _with_starts(batches: Iterator[pa.RecordBatch], starts: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """`batches` with `starts` in place of the `start` events that were there."""
    for batch in batches:
        yield batch.filter(pc.not_equal(batch.column("kind"), "start"))
    if starts:
        yield pa.RecordBatch.from_pylist(starts, schema=TABLES["events"].arrow)
