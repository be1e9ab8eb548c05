"""How far the clock of one source is off another's, told from what both saw of the load.

Two sources of one server report the same numbers (requests running, waiting, in flight), so at the right offset they
are equal but for the moment of sampling. Each offset is judged by a likelihood ratio: how much better the dense source
predicts the sparse source's samples than the sparse source predicts itself from its past. A plateau, a steady ramp or
an idle hour is predicted well by its own past and so tells nothing; only what could not be foreseen counts.

What this cannot tell: two loads that are exactly alike (the same seeded benchmark twice) when each source saw only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

ZONE_STEP_S = 900.0
LARGEST_ZONE_S = 14 * 3600.0
# The part of the samples that may differ for reasons not modelled here (a missed scrape, a restart, a lost request).
_STRAY = 0.1
# One sample proves no more than this (nats), so that a single odd value cannot decide.
_CAP = 4.0
_MIN_SAMPLES = 6
# What a sure offset needs. Evidence (nats) beyond the logarithm of the number of offsets tried:
_MARGIN = 9.0
# concordance of the values:
_MIN_AGREEMENT = 0.7
# of the evidence that equal values would give, at least this part, and the more evidence the smaller that part is: another load
# of a similar shape (the same benchmark once more, the next hourly burst) gives much evidence, but a small part of the possible.
# The figures come from made-up servers; see the tests.
_MIN_SHARE = 0.35
_ALIKE = 11.0
# no other offset, and no shift of a source against itself, nearly as good a sample (a load that comes again and again):
_MAX_REPEAT = 0.6
# and not just the edges of the sources, where a few samples can match:
_MIN_COVERED = 0.5
# nor one signal that speaks against it by more than this much (nats) a sample.
_AGAINST = 0.1
_MAX_RESOLUTION_S = 60.0
# Offsets within this much evidence (nats) of the best are as likely to be right.
_EQUALLY_LIKELY = 4.0
# Time and memory stay bounded: a coarser grid and fewer samples for long recordings.
_MAX_CELLS = 1 << 20
_MAX_PAIRS = 10_000_000


@dataclass(frozen=True, slots=True)
class Signal:
    """What one source says about one quantity of the load.

    `name` is "running", "waiting" or "load" (running + waiting, or requests in flight). `ts` are epoch seconds, sorted;
    `value` is NaN where unknown. Between two samples at most `hold_s` apart the value is taken to move from one to the other. An
    infinite `hold_s` means that every change is known: the value stays until the next entry.
    """

    name: str
    ts: Array
    value: Array
    hold_s: float


@dataclass(frozen=True, slots=True)
class _Search:
    """Offsets (s), the evidence (nats) for each, what it would be if all values were equal, how many samples were compared.

    `blur` is how many offsets either way the sampling alone spreads a match over.
    """

    offsets: Array
    scores: Array
    possible: Array
    counts: npt.NDArray[np.int64]
    blur: int

    @property
    def tried(self) -> int:
        return int((self.counts >= _MIN_SAMPLES).sum())


@dataclass(frozen=True, slots=True)
class Estimate:
    """An offset, to be added to the other source's times, and how far it can be trusted.

    `resolution_s` is half the width within which the offset is known. `agreement` (0..1) is the concordance of the values at that
    offset, 1 when they are equal; `agreement_at_zero` is None without overlap at zero, and `runner_up` is the agreement at
    the next best offset, None without one. `overlap_s` is the time both sources speak of. `signals` are those that were compared.
    """

    offset_s: float
    resolution_s: float
    agreement: float
    agreement_at_zero: float | None
    overlap_s: float
    signals: tuple[str, ...]
    sure: bool
    runner_up: float | None


def load_from_requests(arrival: Array, end: Array, until: float) -> Signal:
    """Requests in flight, from arrival and end times (epoch seconds, same length; end NaN: still open at `until`).

    Requests without an arrival are left out, and so is what lies after `until`.
    """
    known = np.isfinite(arrival) & (arrival < until)
    start = arrival[known]
    stop = end[known]
    stop = stop[np.isfinite(stop) & (stop < until)]
    ts = np.concatenate([start, stop])
    order = np.argsort(ts, kind="stable")
    count = np.cumsum(np.concatenate([np.ones(len(start)), -np.ones(len(stop))])[order])
    ts, count = ts[order], count
    if len(ts):
        last = np.append(ts[1:] != ts[:-1], True)
        # What is in flight after `until` was not seen.
        ts, count = np.append(ts[last], until), np.append(count[last], np.nan)
    return Signal("load", ts, count.astype(np.float64), np.inf)


def estimate_offset(reference: Sequence[Signal], other: Sequence[Signal], *, largest_s: float = 15 * 3600) -> Estimate | None:
    """The offset (seconds, at most `largest_s` either way) that brings `other` onto the clock of `reference`.

    None when nothing can be told: no signal in common, a signal that never changes, or too little overlap at any offset.
    """
    pairs = _pairs(reference, other, largest_s)
    if not pairs:
        return None
    search = _search(pairs, largest_s)
    if search is None:
        return None
    offsets, scores = search.offsets, search.scores
    best = int(np.argmax(scores))
    offset, unsure_s = _refine(pairs, search, best)
    agreement = _agreement(pairs, offset)
    if agreement is None:
        return None
    rival = _rival(search, best)
    resolution = unsure_s + max(pair.blur_s for pair in pairs)
    share = scores[best] / max(search.possible[best], 1.0)
    sure = (
        scores[best] >= np.log(search.tried) + _MARGIN
        and share >= _MIN_SHARE
        and sum(pair.score(offset) for pair in pairs) >= np.log(search.tried) + _ALIKE / min(share, 1) ** 3
        and (rival is None or scores[rival] <= scores[best] / 2)
        and agreement >= _MIN_AGREEMENT
        and resolution <= _MAX_RESOLUTION_S
        and all(pair.score(offset) > -_AGAINST * len(pair.ts) - _MARGIN / 2 and pair.covered(offset) >= _MIN_COVERED for pair in pairs)
        and _repeats(search, best) <= _MAX_REPEAT
        and all(_repeats_itself(own) <= _MAX_REPEAT for own in zip(*(pair.alone() for pair in pairs), strict=True))
    )
    return Estimate(
        offset_s=offset,
        resolution_s=resolution,
        agreement=agreement,
        agreement_at_zero=_agreement(pairs, 0.0),
        overlap_s=min(pair.overlap_s(offset) for pair in pairs),
        signals=tuple(pair.name for pair in pairs),
        sure=bool(sure),
        runner_up=None if rival is None else _agreement(pairs, float(offsets[rival])),
    )


def should_apply(estimate: Estimate, *, zone_was_assumed: bool) -> float | None:
    """The offset (seconds) to add to the other source's times, or None to leave them as they are.

    Only a sure offset that is larger than the sampling explains is applied. Where the zone was assumed, an offset
    that is not known to a few seconds and fits a time zone is rounded to it.
    """
    if not estimate.sure or abs(estimate.offset_s) <= 3 * estimate.resolution_s:
        return None
    if estimate.agreement_at_zero is not None and estimate.agreement_at_zero >= estimate.agreement - 0.02:
        return None
    zone = round(estimate.offset_s / ZONE_STEP_S) * ZONE_STEP_S
    fits = zone != 0 and abs(zone) <= LARGEST_ZONE_S and abs(estimate.offset_s - zone) <= estimate.resolution_s
    if zone_was_assumed and fits and estimate.resolution_s > 5:
        return zone
    return estimate.offset_s


class _Series:
    """A signal that can be asked for its value at any time."""

    def __init__(self, signal: Signal) -> None:
        self.changes_known = bool(np.isinf(signal.hold_s))
        self.ts, self.value = _one_per_time(signal, last=self.changes_known)
        gaps = np.diff(self.ts[np.isfinite(self.value)])
        self.interval_s = 0.0 if self.changes_known or not len(gaps) else float(np.median(gaps))
        # Intervals that jitter a little must not become gaps because the hold was set to the interval itself.
        self.hold_s = max(signal.hold_s, 1.5 * self.interval_s)
        # A clock that prints whole seconds cuts the rest off; it may have been moved by a part of a second since.
        since = self.ts - self.ts[:1]
        self.quantum_s = 1.0 if np.all(np.abs(since - np.rint(since)) < 1e-3) else 0.0

    @property
    def varies(self) -> bool:
        known = self.value[np.isfinite(self.value)]
        return len(known) > 1 and bool(np.ptp(known) > 0)

    def at(self, times: Array) -> tuple[Array, Array]:
        """The values at `times` (NaN where unknown), and how long (s) the value could drift unseen around each."""
        before = np.searchsorted(self.ts, times, side="right") - 1
        inside = before >= 0
        before = np.maximum(before, 0)
        if self.changes_known:
            return np.where(inside, self.value[before], np.nan), np.zeros(len(times))
        after = np.minimum(before + 1, len(self.ts) - 1)
        gap = self.ts[after] - self.ts[before]
        since = times - self.ts[before]
        share = np.divide(since, gap, out=np.zeros(len(times)), where=gap > 0)
        value = np.where(since == 0, self.value[before], self.value[before] * (1 - share) + self.value[after] * share)
        value[~(inside & ((since == 0) | ((gap > 0) & (gap <= self.hold_s))))] = np.nan
        return value, gap * share * (1 - share)


class _Pair:
    """One quantity as both sources saw it: the samples of the sparse one, to be explained by the dense one."""

    def __init__(self, reference: _Series, other: _Series, name: str) -> None:
        self.name, self.reference, self.other = name, reference, other
        # The sign with which an offset of `other` moves the sparse source's samples along the dense source.
        self.sign = 1.0 if other.interval_s >= reference.interval_s else -1.0
        sparse, self.dense = (other, reference) if self.sign > 0 else (reference, other)
        if sparse.interval_s < 1:
            self.ts = np.arange(np.ceil(sparse.ts[0]), sparse.ts[-1] + 1)
            self.value = sparse.at(self.ts)[0]
        else:
            self.ts, self.value = sparse.ts, sparse.value
        known = np.isfinite(self.value)
        self.ts, self.value = self.ts[known], self.value[known]
        self.step_s = max(sparse.interval_s, 1.0)
        self.blur_s = 0.5 * max(self.dense.interval_s, 1.0) + 0.5 * max(sparse.quantum_s, self.dense.quantum_s)
        # Counts that agree are equal, and should then tell as much as a value that stays. Requests in flight at the client
        # include those on their way, which the server does not count.
        self.noise, self.share = (0.5, 0.01) if name == "load" else (0.3, 0.005)
        self.by_itself = _predicted_by_past(self.value)

    def expected(self, times: Array) -> tuple[Array, Array]:
        """The dense source at `times`, and the standard deviation of what the sparse source should show there."""
        value, drift_s = self.dense.at(times)
        near_s = max(self.dense.interval_s, 1.0)
        earlier, later = self.dense.at(times - near_s)[0], self.dense.at(times + near_s)[0]
        # Change per second just here; where one side is unknown the other one has to do.
        fall = np.fmax(np.abs(value - earlier), np.abs(later - value))
        fall = np.where(np.isnan(fall), 0.0, fall)
        jitter_s = 0.5 * (max(self.dense.quantum_s, 0.5))
        spread = self.noise**2 + (self.share * value) ** 2 + fall**2 / near_s * drift_s + (fall / near_s * jitter_s) ** 2
        return value, np.sqrt(spread)

    def evidence(self, value: Array | float, expected: Array, spread: Array, by_itself: Array | float) -> Array:
        """Nats by which the dense source explains each value better than its past does; 0 where one is unknown."""
        away = ((value - expected) / spread) ** 2
        # How far apart two equal things are seen is only known roughly: mostly this much, now and then three times as much.
        density = (0.7 * np.exp(-0.5 * away) + 0.1 * np.exp(-away / 18)) / (spread * np.sqrt(2 * np.pi))
        nats = np.minimum(np.log((1 - _STRAY) * density / by_itself + _STRAY), _CAP)
        return np.where(np.isnan(nats), 0.0, nats)

    def score(self, offset: float) -> float:
        """Evidence (nats) for an offset over all samples."""
        expected, spread = self.expected(self.ts + self.sign * offset)
        return float(self.evidence(self.value, expected, spread, self.by_itself).sum())

    def alone(self) -> tuple[_Pair, _Pair]:
        """Each of the two sources paired with itself."""
        return _Pair(self.reference, self.reference, self.name), _Pair(self.other, self.other, self.name)

    def overlap_s(self, offset: float) -> float:
        return float(np.isfinite(self.dense.at(self.ts + self.sign * offset)[0]).sum() * self.step_s)

    def covered(self, offset: float) -> float:
        """The part of the shorter source that overlaps the other one."""
        return self.overlap_s(offset) / min(len(self.ts) * self.step_s, float(np.ptp(self.dense.ts)) + self.step_s)


def _one_per_time(signal: Signal, *, last: bool) -> tuple[Array, Array]:
    """Samples of the same moment made one: the last of known changes, the mean of states within one printed second."""
    ts, value = signal.ts, signal.value
    if not len(ts):
        return ts, value
    first = np.flatnonzero(np.append(True, ts[1:] != ts[:-1]))
    if len(first) == len(ts):
        return ts, value
    if last:
        return ts[first], value[np.append(first[1:], len(ts)) - 1]
    known = np.isfinite(value)
    count = np.add.reduceat(known.astype(np.float64), first)
    total = np.add.reduceat(np.where(known, value, 0.0), first)
    return ts[first], np.divide(total, count, out=np.full(len(first), np.nan), where=count > 0)


def _predicted_by_past(value: Array) -> Array:
    """Density with which each value was to be expected from the values before it.

    A mixture of: it stays, it moves on from the last value, it goes on as steeply as before, it is a usual value of this
    series, it is anything up to the highest. The weights are those that suit the series best.
    """
    n = len(value)
    last = np.concatenate([value[:1], value[:-1]])
    step = value - last
    steady = last + _local_mean(np.concatenate([[0.0], step[:-1]])[:n], before=3, after=0)
    bend = value - steady
    rounded = np.rint(value)
    _, which, times = np.unique(rounded, return_inverse=True, return_counts=True)
    parts = np.stack(
        [
            (np.abs(step) <= 0.5).astype(np.float64),
            _laplace(step, local=False),
            _laplace(step, local=True),
            _laplace(bend, local=False),
            _laplace(bend, local=True),
            (times[which] - 1) / max(n - 1, 1),
            np.full(n, 1 / (np.max(value, initial=0) - np.min(value, initial=0) + 1)),
        ]
    )
    weight = np.full(len(parts), 1 / len(parts))
    for _ in range(20):
        share = weight[:, None] * parts
        share /= share.sum(axis=0)
        # One more sample for each part keeps a short series from ruling a part out.
        weight = (share.sum(axis=1) + 1) / (n + len(parts))
    density: Array = weight @ parts
    return density


def _laplace(distance: Array, *, local: bool) -> Array:
    """Density of a miss by each distance, with the misses of the whole series or of the ones around it for a scale."""
    size = np.abs(distance)
    if local:
        scale = _local_mean(size, before=4, after=4)
    else:
        missed = size[size > 0.5]
        scale = np.full(len(size), missed.mean() if len(missed) else 0.5)
    scale = np.maximum(scale, 0.5)
    density: Array = np.exp(-size / scale) / (2 * scale)
    return density


def _local_mean(value: Array, *, before: int, after: int) -> Array:
    n = len(value)
    total = np.concatenate([[0.0], np.cumsum(value)])
    first = np.maximum(np.arange(n) - before + 1, 0)
    stop = np.minimum(np.arange(n) + after + 1, n)
    mean: Array = (total[stop] - total[first]) / (stop - first)
    return mean


def _pairs(reference: Sequence[Signal], other: Sequence[Signal], largest_s: float) -> list[_Pair]:
    """The signals both sources have, with the parts no allowed offset can bring together left out."""
    left = {s.name: s for s in reference}
    right = {s.name: s for s in other}
    # The load is the sum of the other two; it counts only where they do not tell.
    for names in (("running", "waiting"), ("load",)):
        pairs = [_pair(left[n], right[n], largest_s) for n in names if n in left and n in right]
        usable = [pair for pair in pairs if pair is not None]
        if usable:
            return usable
    return []


def _pair(reference: Signal, other: Signal, largest_s: float) -> _Pair | None:
    if not len(reference.ts) or not len(other.ts):
        return None
    one = _Series(_within(reference, other.ts[0] - largest_s, other.ts[-1] + largest_s))
    two = _Series(_within(other, reference.ts[0] - largest_s, reference.ts[-1] + largest_s))
    if not (one.varies and two.varies):
        return None
    pair = _Pair(one, two, reference.name)
    return pair if len(pair.ts) >= _MIN_SAMPLES else None


def _within(signal: Signal, start: float, end: float) -> Signal:
    first, stop = int(np.searchsorted(signal.ts, start, side="left")), int(np.searchsorted(signal.ts, end, side="right"))
    if np.isinf(signal.hold_s):
        first = max(first - 1, 0)
    return Signal(signal.name, signal.ts[first:stop], signal.value[first:stop], signal.hold_s)


def _search(pairs: Sequence[_Pair], largest_s: float) -> _Search | None:
    """Evidence for every offset on a grid; None when no offset has enough samples to compare."""
    low = min(pair.dense.ts[0] - pair.ts[-1] if pair.sign > 0 else pair.ts[0] - pair.dense.ts[-1] for pair in pairs)
    high = max(pair.dense.ts[-1] - pair.ts[0] if pair.sign > 0 else pair.ts[-1] - pair.dense.ts[0] for pair in pairs)
    low, high = max(low, -largest_s), min(high, largest_s)
    if low > high:
        return None
    longest = max(pair.dense.ts[-1] - pair.dense.ts[0] for pair in pairs)
    cell = max(1.0, np.ceil(longest / _MAX_CELLS), np.ceil((high - low) / _MAX_CELLS))
    first = int(np.floor(low / cell))
    offsets = np.arange(first, int(np.ceil(high / cell)) + 1) * cell
    scores = np.zeros(len(offsets))
    possible = np.zeros(len(offsets))
    counts = np.zeros(len(offsets), dtype=np.int64)
    for pair in pairs:
        _add_evidence(pair, offsets, cell, scores, possible, counts, _MAX_PAIRS // len(pairs))
    enough = counts >= _MIN_SAMPLES
    if not enough.any():
        return None
    scores[~enough] = -np.inf
    return _Search(offsets, scores, possible, counts, int(np.ceil(max(2 * (pair.step_s + pair.dense.interval_s) for pair in pairs) / cell)))


def _add_evidence(
    pair: _Pair, offsets: Array, cell: float, scores: Array, possible: Array, counts: npt.NDArray[np.int64], budget: int
) -> None:
    """Adds one pair's evidence at all offsets, sample by sample, with the dense source read once on a grid."""
    start = np.floor(pair.dense.ts[0] / cell)
    cells = np.arange(start, np.ceil(pair.dense.ts[-1] / cell) + 1) * cell
    expected, spread = pair.expected(cells)
    known = np.isfinite(expected).astype(np.int64)
    thin = max(1, int(np.ceil(len(pair.ts) * min(len(cells), len(offsets)) / budget)))
    ts, value = pair.ts[::thin], pair.value[::thin]
    by_itself = pair.by_itself if thin == 1 else _predicted_by_past(value)
    lowest = round(offsets[0] / cell)
    for at, seen, alone in zip(np.rint(ts / cell - start).astype(np.int64), value, by_itself, strict=True):
        # The sample meets cell k at offset index `sign * (k - at) - lowest`.
        if pair.sign > 0:
            begin, end = max(0, at + lowest), min(len(cells), at + lowest + len(offsets))
            target = slice(begin - at - lowest, end - at - lowest)
        else:
            begin, end = max(0, at - lowest - len(offsets) + 1), min(len(cells), at - lowest + 1)
            target = slice(at - lowest - end + 1, at - lowest - begin + 1)
        if begin >= end:
            continue
        part = slice(begin, end)
        nats, told = pair.evidence(seen, expected[part], spread[part], alone), known[part]
        scores[target] += nats[:: int(pair.sign)]
        possible[target] += pair.evidence(expected[part], expected[part], spread[part], alone)[:: int(pair.sign)]
        counts[target] += told[:: int(pair.sign)]


def _peak(search: _Search, best: int) -> tuple[int, int]:
    """The first and the last index of the peak around `best`: where the evidence stays above half, and the sampling's own blur."""
    scores = search.scores
    low = np.flatnonzero(scores[:best] < scores[best] / 2)
    high = np.flatnonzero(scores[best + 1 :] < scores[best] / 2)
    first = int(low[-1]) + 1 if len(low) else 0
    last = best + int(high[0]) if len(high) else len(scores) - 1
    return max(min(first, best - search.blur), 0), min(max(last, best + search.blur), len(scores) - 1)


def _rival(search: _Search, best: int) -> int | None:
    """The best offset outside the peak itself."""
    first, last = _peak(search, best)
    rest = search.scores.copy()
    rest[first : last + 1] = -np.inf
    rival = int(np.argmax(rest))
    return rival if np.isfinite(rest[rival]) else None


def _repeats(search: _Search, best: int) -> float:
    """How well the best match outside the peak does: its evidence per sample, relative to that of the peak.

    Only offsets that compare a fair part of what the peak compares: a few samples match somewhere by chance.
    """
    first, last = _peak(search, best)
    apart = search.scores >= max(search.scores[best] / 4, _MARGIN)
    apart &= search.counts >= search.counts[best] / 3
    apart[first : last + 1] = False
    a_sample = search.scores[apart] / search.counts[apart]
    return float(np.max(a_sample, initial=0.0) / (search.scores[best] / search.counts[best]))


def _repeats_itself(pairs: Sequence[_Pair]) -> float:
    """How well a source matches itself at another time; near 1 for a load that comes again in the same shape."""
    search = _search(pairs, np.inf)
    if search is None:
        return 0.0
    return _repeats(search, int(np.argmin(np.abs(search.offsets))))


def _refine(pairs: Sequence[_Pair], search: _Search, best: int) -> tuple[float, float]:
    """The best offset below the grid's step, and how far from it an equally likely one lies (s)."""
    offsets, scores = search.offsets, search.scores
    first, last = _peak(search, best)
    near = first + np.flatnonzero(scores[first : last + 1] >= scores[best] - 2 * _EQUALLY_LIKELY)
    first, last = int(near[0]), int(near[-1])
    cell = float(offsets[1] - offsets[0]) if len(offsets) > 1 else 1.0
    fine = np.linspace(offsets[first] - cell, offsets[last] + cell, min(4 * (last - first + 2), 200) + 1)
    found = np.array([sum(pair.score(float(offset)) for pair in pairs) for offset in fine])
    likely = fine[found >= found.max() - _EQUALLY_LIKELY]
    return float(likely[0] + likely[-1]) / 2, float(likely[-1] - likely[0]) / 2


def _agreement(pairs: Sequence[_Pair], offset: float) -> float | None:
    """Concordance of the values at an offset, 0..1, over all signals; None without overlap."""
    apart = total = 0.0
    for pair in pairs:
        expected, spread = pair.expected(pair.ts + pair.sign * offset)
        both = np.isfinite(expected)
        if both.sum() < 2:
            continue
        a, b = pair.value[both], expected[both]
        scale = float(a.var() + b.var() + (a.mean() - b.mean()) ** 2)
        if scale > 0:
            # A signal that stands at its cap says little, and its few blips should not count like the queue's rise.
            weight = max(float(pair.evidence(b, b, spread[both], pair.by_itself[both]).sum()), 1e-9)
            apart += weight * min(1.0, float(np.mean((a - b) ** 2)) / scale)
            total += weight
    return None if total == 0 else float(1 - apart / total)
