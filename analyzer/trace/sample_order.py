"""Puts the samples of one source in order: any number of them, in a bounded amount of memory.

What comes in is put in order some hundred thousand samples at a time. When there is more than fits, these runs go to a
file, of which some keys stay in memory; by those it is cut into pieces that hold about as many samples each, and of
each piece the parts of all runs are put in order together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

# So many samples are in memory at a time, a few times over while they are put in order.
_AT_ONCE = 1 << 20
# Of each run one key in so many stays in memory.
_STEP = 1024


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples as columns: whose each is, microseconds since the epoch, value (NaN for none)."""

    place: Places
    ts: Ints
    value: Floats

    def __len__(self) -> int:
        return len(self.place)

    def take(self, which: npt.NDArray[Any] | slice) -> Samples:
        """Those that `which` names: positions, a slice or a mask."""
        return Samples(self.place[which], self.ts[which], self.value[which])

    def then(self, *others: Samples) -> Samples:
        """These and behind them the others."""
        parts = (self, *others)
        return Samples(*(np.concatenate([getattr(p, column) for p in parts]) for column in ("place", "ts", "value")))


@dataclass(slots=True)
class _Run:
    """A run in the file: where it begins (bytes), how many samples it has, and every `_STEP`th of its keys."""

    offset: int
    size: int
    place: Places
    ts: Ints


class SampleOrder:
    """Takes samples in any order with `add`; after `close`, `pieces` gives them by place and time, each moment of a place once.

    A place is a whole number from 0 to below `places`. `first` and `last` tell, after `close`, the time of each place's
    samples; a place without any has a first behind its last. Of two samples of one moment the one that came last is
    kept. `scratch` is a folder for what does not fit into memory: about `at_once` samples do.
    """

    def __init__(self, places: int, scratch: Path, *, at_once: int = _AT_ONCE) -> None:
        self.first = np.full(places, np.iinfo(np.int64).max)
        self.last = np.full(places, np.iinfo(np.int64).min)
        self._file = scratch / "samples.order"
        self._at_once = at_once
        self._held: list[Samples] = []
        self._size = 0
        self._runs: list[_Run] = []

    def add(self, samples: Samples) -> None:
        """Take samples."""
        self._held.append(samples)
        self._size += len(samples)
        if self._size > self._at_once:
            self._spill()

    def close(self) -> None:
        """No more come."""
        if self._runs:
            self._spill()
        else:
            self._settle()

    def pieces(self) -> Iterator[Samples]:
        """All samples, in order, a piece at a time. The scratch file is removed at the end."""
        if not self._runs:
            yield from self._held
            return
        try:
            yield from self._from_file()
        finally:
            self._file.unlink()

    def _settle(self) -> None:
        """Make one run of what is held."""
        self._held, self._size = [run for run in [_in_order(self._held)] if len(run)] if self._held else [], 0
        for run in self._held:
            edges = np.flatnonzero(run.place[1:] != run.place[:-1])
            begins, ends = np.append(0, edges + 1), np.append(edges, len(run) - 1)
            # a place stands once among these: the run is in order
            here = run.place[begins]
            self.first[here] = np.minimum(self.first[here], run.ts[begins])
            self.last[here] = np.maximum(self.last[here], run.ts[ends])

    def _spill(self) -> None:
        self._settle()
        with self._file.open("ab") as handle:
            for run in self._held:
                self._runs.append(_Run(handle.tell(), len(run), run.place[::_STEP].copy(), run.ts[::_STEP].copy()))
                for column in (run.place, run.ts, run.value):
                    column.tofile(handle)
        self._held = []

    def _from_file(self) -> Iterator[Samples]:
        place = np.concatenate([r.place for r in self._runs])
        ts = np.concatenate([r.ts for r in self._runs])
        order = np.lexsort((ts, place))
        place, ts = place[order], ts[order]
        new = np.append(True, (place[1:] != place[:-1]) | (ts[1:] != ts[:-1]))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.cumsum(new)
        ranks = np.split(rank, np.cumsum([len(r.place) for r in self._runs])[:-1])
        # the key of a cut belongs to the piece behind it; ranks begin at 1, before which nothing stands
        every = max(1, self._at_once // _STEP)
        cuts = np.unique(np.append(1, np.cumsum(new)[::every]))
        keys = np.flatnonzero(new)[cuts - 1]
        with self._file.open("rb") as handle:
            for number, (cut, key) in enumerate(zip(cuts, keys, strict=True)):
                until = cuts[number + 1] if number + 1 < len(cuts) else None
                parts = []
                for run, of_run in zip(self._runs, ranks, strict=True):
                    begin = max(0, int(np.searchsorted(of_run, cut)) - 1) * _STEP
                    end = run.size if until is None else min(run.size, int(np.searchsorted(of_run, until)) * _STEP)
                    if begin < end:
                        parts.append(_read(handle, run, begin, end))
                wanted = [_from(p, place[key], ts[key]) for p in parts]
                if until is not None:
                    behind = keys[number + 1]
                    wanted = [_before(p, place[behind], ts[behind]) for p in wanted]
                yield _in_order(wanted)


def _read(handle: Any, run: _Run, begin: int, end: int) -> Samples:
    """Samples `begin` to `end` of a run."""

    def column(kind: type[Any], offset: int) -> npt.NDArray[Any]:
        handle.seek(offset + begin * np.dtype(kind).itemsize)
        return np.fromfile(handle, dtype=kind, count=end - begin)

    return Samples(
        column(np.int32, run.offset), column(np.int64, run.offset + 4 * run.size), column(np.float64, run.offset + 12 * run.size)
    )


def _position(samples: Samples, place: int, ts: int) -> int:
    """Where in samples that are in order the first one stands that is not before (`place`, `ts`)."""
    begin, end = np.searchsorted(samples.place, np.array([place, place + 1], np.int32))
    return int(begin + np.searchsorted(samples.ts[begin:end], ts))


def _from(samples: Samples, place: int, ts: int) -> Samples:
    return samples.take(slice(_position(samples, place, ts), None))


def _before(samples: Samples, place: int, ts: int) -> Samples:
    return samples.take(slice(None, _position(samples, place, ts)))


def _in_order(parts: list[Samples]) -> Samples:
    """The samples of all parts by place and time, of each moment of a place the last."""
    whole = parts[0].then(*parts[1:]) if len(parts) > 1 else parts[0]
    if not len(whole):
        return whole
    low = int(whole.place.min())
    # whole numbers of 16 bits are put in order by counting, and nearly always the times are in order as they are
    small = int(whole.place.max()) - low < 1 << 16
    order = np.argsort((whole.place - low).astype(np.uint16) if small else whole.place, kind="stable")
    found = whole.take(order)
    same = found.place[1:] == found.place[:-1]
    if (same & (found.ts[1:] < found.ts[:-1])).any():
        found = whole.take(np.lexsort((whole.ts, whole.place)))
        same = found.place[1:] == found.place[:-1]
    again = same & (found.ts[1:] == found.ts[:-1])
    return found.take(np.append(~again, True)) if again.any() else found
