"""From what each source said to one stored trace: servers named, clocks lined up, rows written.

Works on all sources of the trace together, old and new: a source that is added later can tell the name, the
restart or the clock of one that was there before. Rows already stored are written again only when that changes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analyzer.trace.identity import Identity, InstanceRule, SourceStream, identify
from analyzer.trace.manifest import Manifest, StoredFile, StoredSource
from analyzer.trace.offset_rules import OffsetRule
from analyzer.trace.offsets import find_offsets
from analyzer.trace.row_store import store_rows
from analyzer.trace.schema import TABLES
from analyzer.trace.source_rows import SourceRows
from analyzer.trace.spool import Spool
from analyzer.trace.store import METRIC_TABLES, ROW_TABLES, read_batches, read_rows, remove_unnamed, write_sources_table
from analyzer.trace.streams import Stream


@dataclass(frozen=True, slots=True)
class Rules:
    """What --instance and --offset said; without any, what they said before holds on."""

    instances: tuple[InstanceRule, ...] = ()
    offsets: tuple[OffsetRule, ...] = ()


def assemble(trace: Path, manifest: Manifest, fresh: Mapping[str, Spool], rules: Rules, scratch: Path) -> None:
    """Write the rows of `fresh` (by source id) and the manifest; afterwards the trace is whole."""
    trace.mkdir(parents=True, exist_ok=True)
    rules = _kept(rules, manifest)
    streams = _streams(manifest)
    identity = identify(streams, list(rules.instances))
    offsets = find_offsets([SourceRows(s, trace, fresh.get(s.source_id)) for s in manifest.sources], identity, rules.offsets)
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
        new = source.source_id in fresh
        was = timedelta(seconds=0 if new else source.offset_s)
        shift = timedelta(seconds=offset.applied_s) - was
        if new or changed or shift:
            _write(trace, source, fresh.get(source.source_id), identity, shift, scratch)
        source.offset_s = offset.applied_s
        for column in ("first_ts", "last_ts"):
            if source.row[column] is not None:
                source.row[column] = _moment(source.row[column]) + shift
        source.row |= offset.columns()
        names = sorted({identity.instance[source.source_id, d["origin"]] for d in source.streams if d["engines"] or d["kind"] != "log"})
        source.row["instance"] = ",".join(names) or None
    manifest.totals = {name: sum(s.files[name].rows for s in manifest.sources if name in s.files) for name in ROW_TABLES}
    write_sources_table(trace, manifest.sources)
    manifest.write(trace)
    remove_unnamed(trace, manifest)


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


def _write(trace: Path, source: StoredSource, spool: Spool | None, identity: Identity, shift: timedelta, scratch: Path) -> None:
    old = source.files
    source.files = {}
    for name in ROW_TABLES:
        if name in METRIC_TABLES:
            continue
        batches, in_order = _rows(trace, old, spool, name)
        if name == "events":
            starts = list(_starts_of(source, identity, shift))
            batches, in_order = _with_starts(batches, starts), in_order and not starts
        stored = store_rows(trace, name, source.source_id, batches, in_order=in_order, identity=identity, shift=shift, scratch=scratch)
        if stored is not None:
            source.files[name] = stored
    if spool is not None and spool.counts.get("series"):
        series = pa.Table.from_batches(spool.batches("series"), TABLES["series"].arrow)
        samples = spool.batches("samples")
    elif spool is None and "series" in old:
        series = read_rows(trace, old["series"])
        samples = read_batches(trace, old["samples"])
    else:
        return
    # its database takes as long to load as a short log to read
    from analyzer.trace.metric_store import store_metrics

    source.files |= store_metrics(trace, source, series, samples, identity, scratch, shift)


def _rows(trace: Path, old: Mapping[str, StoredFile], spool: Spool | None, name: str) -> tuple[Iterator[pa.RecordBatch], bool]:
    """The rows of one table, and whether they are in order: from the spool when the source was read just now, else as they are stored."""
    if spool is not None:
        return spool.batches(name), spool.is_in_order(name)
    return (read_batches(trace, old[name]) if name in old else iter(())), True


def _with_starts(batches: Iterator[pa.RecordBatch], starts: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """`batches` with `starts` in place of the `start` events that were there."""
    for batch in batches:
        yield batch.filter(pc.not_equal(batch.column("kind"), "start"))
    if starts:
        yield pa.RecordBatch.from_pylist(starts, schema=TABLES["events"].arrow)


def _starts_of(source: StoredSource, identity: Identity, shift: timedelta) -> Iterator[dict[str, Any]]:
    """One `start` event for each process lifetime whose beginning this source is the first to show."""
    for name, runs in identity.runs.items():
        # of a process that is nobody's server only its start time may be known
        for run in runs if name in identity.serving else ():
            if run.source_id == source.source_id and run.start is not None:
                stream = next((d["origin"] for d in source.streams if identity.instance[source.source_id, d["origin"]] == name), "")
                yield {
                    "source_id": source.source_id, "record": run.record, "engine": run.engine or None,
                    # still on the source's own clock, as its other rows are
                    "stream": stream, "ts": run.start - shift, "kind": "start",
                    "text": "counters fell back: a process started between two scrapes" if run.not_before else "a process started",
                }  # fmt: skip
