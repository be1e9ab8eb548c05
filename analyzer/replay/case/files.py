"""Workloads that come as files of their own: public traces, or any request records without a server."""

from __future__ import annotations

from analyzer.diagnosis.diagnose import rows
from analyzer.language import _
from analyzer.replay.case.contents import contents_of
from analyzer.replay.case.recorded import with_prefixes
from analyzer.replay.case.requests import records, unplaced
from analyzer.replay.model import NoReplay
from analyzer.replay.workload import Workload
from analyzer.trace.reader import Trace


def workload_of(trace: Trace, instance: str = "") -> Workload | NoReplay:
    """The requests of an instance's records, of all its runs; without a name, of the instance that has the most of them.

    Times of a clock of their own count from the first arrival. NoReplay where no records tell arrivals and lengths.
    """
    con = trace.con
    name = instance or _most(trace)
    if not name:
        return NoReplay(
            instance,
            _("the trace holds no request records"),
            _("ingest a workload: Mooncake JSONL, Azure or BurstGPT CSV, or a client's records"),
        )
    placed = records(con, name, None)
    if placed is not None:
        requests, notes, rebuilt = with_prefixes(placed, prefix_caching=True)
        return Workload(tuple(requests), contents_of(requests), placed.start, placed.approximate or rebuilt, (*placed.notes, *notes))
    found = unplaced(con, name)
    if found is None:
        return NoReplay(
            name, _("its request records do not tell arrivals and prompt lengths"), _("name the columns with kvpm ingest --map")
        )
    requests, notes, rebuilt = with_prefixes(found, prefix_caching=True)
    clock = _("arrival times are of the workload's own clock")
    return Workload(tuple(requests), contents_of(requests), None, found.approximate or rebuilt, (clock, *found.notes, *notes))


def _most(trace: Trace) -> str | None:
    found = rows(trace.con, "SELECT instance FROM request_best GROUP BY instance ORDER BY count(*) DESC, instance LIMIT 1")
    return found[0]["instance"] if found else None
