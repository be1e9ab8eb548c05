"""The tool and its peers on one input, in turn, and what is to be said of it: rows of a table, and bars met or missed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.inputs.writing import MB
from benchmarks.process import Failed, Run, run


@dataclass(frozen=True)
class Reader:
    """One command on one input.

    `size` is the bytes of text that it reads, unpacked; None where rates mean nothing. `found` tells from its output how many
    records it found. `at_least` is the bar of a peer: what the tool's rate has to be, in parts of this one's.
    """

    name: str
    command: Sequence[str | Path]
    size: int | None = None
    found: Callable[[str], int] | None = None
    at_least: float | None = None


@dataclass(frozen=True)
class Contest:
    """The tool and its peers on one input. `peak_below` is bytes, `cpu_below` CPU seconds, both of the tool."""

    input: str
    ours: Reader
    peers: Sequence[Reader] = ()
    peak_below: int | None = None
    cpu_below: float | None = None
    turns_at_least: int = 1


@dataclass(frozen=True)
class Row:
    """The least that one reader took. `ratio` is the tool's rate divided by this reader's, by CPU seconds; None for the tool itself."""

    input: str
    reader: str
    mb: float | None = None
    found: int | None = None
    cpu_s: float | None = None
    wall_s: float | None = None
    peak_mb: float | None = None
    ratio: float | None = None


@dataclass(frozen=True)
class Bar:
    """Something the tool has to be, and whether it is."""

    what: str
    wanted: str
    measured: str
    met: bool


@dataclass
class Results:
    """All that was measured, and what could not be: one line for each reader that failed."""

    rows: list[Row] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def hold(contest: Contest, turns: int, folder: Path, say: Callable[[str], None], results: Results) -> None:
    """Run each reader once in each turn, one after the other, and add what the lowest of its runs took to `results`."""
    readers = (contest.ours, *contest.peers)
    runs: dict[str, list[Run]] = {reader.name: [] for reader in readers}
    out: set[str] = set()
    turns = max(turns, contest.turns_at_least)
    for turn in range(1, turns + 1):
        for reader in readers:
            if reader.name in out:
                continue
            try:
                done = run(reader.command, folder)
            except Failed as failed:
                out.add(reader.name)
                results.failures.append(f"{contest.input}, {reader.name}: {failed}")
                say(f"  {turn}/{turns} {reader.name}: failed, {failed}")
                continue
            runs[reader.name].append(done)
            say(f"  {turn}/{turns} {reader.name}: {done.cpu_s:.3f} CPU s, {done.wall_s:.3f} s, {done.peak / MB:.0f} MB")
    rows = [lowest(contest.input, reader, [] if reader.name in out else runs[reader.name]) for reader in readers]
    rows = [rows[0], *(replace(row, ratio=ratio(rows[0], row)) for row in rows[1:])]
    results.rows += rows
    results.bars += bars(contest, rows)
    results.failures += disagreements(rows)


def lowest(name: str, reader: Reader, runs: Sequence[Run]) -> Row:
    """The least CPU and wall seconds of these runs, and the most memory; empty without a run."""
    mb = None if reader.size is None else reader.size / MB
    if not runs:
        return Row(name, reader.name, mb)
    return Row(
        name,
        reader.name,
        mb,
        reader.found(runs[-1].out) if reader.found else None,
        min(r.cpu_s for r in runs),
        min(r.wall_s for r in runs),
        max(r.peak for r in runs) / MB,
    )


def ratio(ours: Row, theirs: Row) -> float | None:
    """Our rate divided by theirs, by CPU seconds; None where one of them failed."""
    if ours.cpu_s is None or theirs.cpu_s is None:
        return None
    return theirs.cpu_s / ours.cpu_s * ((ours.mb or 1.0) / (theirs.mb or 1.0))


def bars(contest: Contest, rows: Sequence[Row]) -> Iterator[Bar]:
    """The bars of a contest. One that could not be measured is not met."""
    ours, *theirs = rows
    for peer, row in zip(contest.peers, theirs, strict=True):
        if peer.at_least is not None:
            yield _bar(f"{contest.input}: rate, in parts of {peer.name}", row.ratio, peer.at_least, above=True)
    if contest.cpu_below is not None:
        yield _bar(f"{contest.input}: {ours.reader}, CPU s", ours.cpu_s, contest.cpu_below)
    if contest.peak_below is not None:
        yield _bar(f"{contest.input}: peak memory of {ours.reader}, MB", ours.peak_mb, contest.peak_below / MB)


def _bar(what: str, measured: float | None, wanted: float, *, above: bool = False) -> Bar:
    met = measured is not None and (measured >= wanted if above else measured < wanted)
    return Bar(what, f"{'≥' if above else '<'} {wanted:.3g}", "failed" if measured is None else f"{measured:.3g}", met)


def disagreements(rows: Sequence[Row]) -> list[str]:
    """Readers of the same bytes that found something else than the first of them did: one that skips work is no peer."""
    told: dict[float | None, Row] = {}
    lines = []
    for row in rows:
        if row.found is not None:
            first = told.setdefault(row.mb, row)
            if first.found != row.found:
                lines.append(f"{row.input}, {row.reader}: {row.found:,} found, where {first.reader} found {first.found:,}")
    return lines
