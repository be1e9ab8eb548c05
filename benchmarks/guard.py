"""Whether the tool became slower or larger: ratios and memory of this run against the table that was kept.

Seconds are not compared, they are of a machine and its mood. The ratio to a peer that ran in the same minutes is less so, but not free of
noise: only what is worse by more than a factor counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.contest import Row

# Ratios of two runs of one version differ by up to 1.5 on a machine that does other work.
FACTOR = 1.5
# Memory is quieter than time.
PEAK_FACTOR = 1.3
# Inputs are of one size if their sizes differ by no more than a line or two.
SAME_SIZE = 0.02


def worse(kept: Sequence[Row], now: Sequence[Row], factor: float = FACTOR) -> Iterator[str]:
    """One line for each row of the kept table that is worse by more than `factor`, is gone, or cannot be compared."""
    found = {(row.input, row.reader): row for row in now}
    for before in kept:
        name = f"{before.input}, {before.reader}"
        row = found.get((before.input, before.reader))
        if row is None:
            yield f"{name}: is in the kept table and was not measured; keep a new table if it is meant to be gone"
        elif not _same_size(before.mb, row.mb):
            yield f"{name}: kept with {_mb(before.mb)} and measured with {_mb(row.mb)}, which cannot be compared"
        else:
            yield from _worse(name, before, row, factor)


def unknown(kept: Sequence[Row], now: Sequence[Row]) -> list[str]:
    """What was measured and is not in the kept table."""
    known = {(row.input, row.reader) for row in kept}
    return [f"{row.input}, {row.reader}" for row in now if (row.input, row.reader) not in known]


def _worse(name: str, before: Row, now: Row, factor: float) -> Iterator[str]:
    if before.ratio is not None:
        if now.ratio is None:
            yield f"{name}: the kept ratio is {before.ratio:.3g}, and now there is none"
        elif now.ratio * factor < before.ratio:
            yield (
                f"{name}: kvpm has {now.ratio:.3g} of its rate and had {before.ratio:.3g}: "
                f"{before.ratio / now.ratio:.2f} times worse, {factor:g} is allowed"
            )
    elif before.peak_mb is not None:  # the tool itself
        if now.peak_mb is None:
            yield f"{name}: failed, and did not when the table was kept"
        elif now.peak_mb > before.peak_mb * PEAK_FACTOR:
            yield f"{name}: {now.peak_mb:.0f} MB at its peak, and had {before.peak_mb:.0f}: more than {PEAK_FACTOR:g} times as much"


def _same_size(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= SAME_SIZE * max(one, other)


def _mb(size: float | None) -> str:
    return "no size" if size is None else f"{size:g} MB"
