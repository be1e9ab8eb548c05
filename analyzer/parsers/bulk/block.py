"""Reads one block of whole lines: rows of the shapes that are known, counts, and the lines that are left to be read one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from analyzer.parsers.bulk.aside import Plain
from analyzer.parsers.bulk.book import Book, Family
from analyzer.parsers.bulk.columns import Many, RowColumns, read_values
from analyzer.parsers.bulk.lines import Ints, Lines, Mask, Text
from analyzer.parsers.bulk.moments import NO_TIME, Moment
from analyzer.parsers.bulk.outcome import Outcome
from analyzer.parsers.bulk.shape import Shape
from analyzer.sources.pieces import IGNORED, MATCHED, NO_FILE, UNMATCHED, LineCounts
from analyzer.sources.records import MAX_PIECES, MIN_WIDTH
from analyzer.sources.timestamps import MICROSECOND

# So many variants of one family are looked for in a block: beyond that they are as many as its lines.
_MOST_KEYS = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """What the records of one shape have in common, as far as it matters outside of their row."""

    origin: str
    engine: str
    format: str
    table: str
    role: str
    pid: int | None
    attested: bool
    features: tuple[int, ...]
    asks_to_infer: bool
    inner_zone_us: int | None
    outer_naive: bool
    dead_preemptions: bool


@dataclass(slots=True)
class BlockRead:
    """What a block holds. Lines are numbered from 0.

    `at`, `kind`, `inner_us` and `outer_us` describe its records that were read in bulk, in line order: the line, the
    index into `kinds`, and what their stamps read (NO_TIME without one). `rows` holds the rows by table, without
    times and with the number of their line for `record`. `left` are stretches of lines to be read one by one.
    """

    lines: int
    counts: LineCounts
    kinds: list[Kind]
    at: Ints
    kind: Ints
    inner_us: Ints
    outer_us: Ints
    rows: dict[str, pa.RecordBatch] = field(default_factory=dict)
    left: list[list[tuple[int, bytes]]] = field(default_factory=list)


def read_block(data: bytes, book: Book, source_id: str) -> BlockRead:
    """Read `data`, which ends with a newline and begins with a line that goes on nothing."""
    return _Block(Text(data), book, source_id).read()


def everything_left(data: bytes) -> BlockRead:
    """A block of which every line is to be read by itself."""
    lines = data.removesuffix(b"\n").split(b"\n")
    none = np.zeros(0, np.int64)
    return BlockRead(len(lines), LineCounts(), [], none, none, none, none, left=[list(enumerate(lines))])


@dataclass(frozen=True, slots=True)
class _Part:
    """Lines of one shape that were read: which, what their stamps say, and the values of the shape's slots."""

    shape: Shape
    at: Ints
    inner_us: Ints
    outer_us: Ints
    values: list[Many]

    def chosen(self, which: Mask) -> _Part:
        """Those for which `which` is true."""
        if which.all():
            return self
        return _Part(self.shape, self.at[which], self.inner_us[which], self.outer_us[which], [v.chosen(which) for v in self.values])


def _count(counts: LineCounts, told: Outcome, lines: int) -> None:
    for name in told.wrap.wrappers:
        counts.wrappers[name] = counts.wrappers.get(name, 0) + lines
    if told.fate == MATCHED:
        counts.matched += lines
        counts.records += lines
    elif told.fate == IGNORED:
        counts.ignored += lines
    elif told.fate == UNMATCHED:
        counts.unmatched += lines
        counts.unmatched_surely += lines * told.surely
        name = told.head.file or NO_FILE
        counts.unmatched_files[name] = counts.unmatched_files.get(name, 0) + lines
    else:
        counts.other += lines


def _kind(shape: Shape) -> Kind:
    told = shape.told
    assert told is not None
    assert told.format is not None
    form = told.format
    return Kind(
        origin=told.wrap.origin,
        engine=form.engine,
        format=form.id,
        table=form.table,
        role=form.role,
        pid=told.head.pid,
        attested=told.attested,
        features=told.features,
        asks_to_infer=told.asks_to_infer,
        inner_zone_us=None if shape.inner is None or shape.inner.zone is None else shape.inner.zone // MICROSECOND,
        outer_naive=told.wrap.outer is None,
        dead_preemptions="preemptions_dead_field" in told.extra,
    )


class _Block:
    def __init__(self, text: Text, book: Book, source_id: str) -> None:
        self._text = text
        self._book = book
        self._source_id = source_id
        size = self._size = len(text)
        self._width: Ints = text.widths()
        aside = book.sieve.part(text)
        # by line: what is known without context
        self._foreign: Mask = np.zeros(size, np.bool_) if aside is None else aside.foreign
        self._plain: list[Plain] = [] if aside is None else [part for part in aside.plain if len(part.at)]
        self._done: Mask = self._foreign.copy()
        self._continues: Mask = self._width > 0
        for part in self._plain:
            self._done[part.at] = True
            self._continues[part.at] = False
        self._only_number: Mask = np.zeros(size, np.bool_) if aside is None else aside.only_number
        # the others, and the number of each in the text
        self._lines = Lines(text.data if aside is None else aside.data)
        self._at: Ints = np.arange(size) if aside is None else aside.rest
        self._skeletons = self._lines.skeletons.to_pylist()
        self._look()
        self._goes_on: Mask = ~self._done
        self._ends_in_number: Mask = ~self._done
        self._left: Mask = np.zeros(size, np.bool_)
        self._parts: list[_Part] = []

    def _look(self) -> None:
        """What the skeletons tell of the lines that were not put aside."""
        lines, skeletons = self._lines, self._skeletons
        self._strange: Mask = self._book.foreign(skeletons)[lines.code]
        blank = np.array([not s.strip(b"\r\n") for s in skeletons], np.bool_)
        numeric = np.array([not s.strip(b"., \r\n") for s in skeletons], np.bool_)
        empty = blank[lines.code] & (lines.first_run[1:] == lines.first_run[:-1])
        self._foreign[self._at] = self._done[self._at] = self._strange
        self._continues[self._at] = ~empty
        self._only_number[self._at] = numeric[lines.code] & ~empty

    def read(self) -> BlockRead:
        """The block as it can be read without what stands around it."""
        for family, at, first in self._families():
            self._take(family, at, first)
        self._give_back()
        return self._result()

    def _families(self) -> Iterator[tuple[Family, Ints, Ints]]:
        """(family, its lines, the first of its digit runs in each) of all lines of a skeleton that an engine may have written."""
        lines = self._lines
        rest = np.flatnonzero(~self._strange)
        order = rest[np.argsort(lines.code[rest], kind="stable")]
        codes = lines.code[order]
        edges = np.flatnonzero(np.diff(codes, prepend=-1, append=-1))
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            skeleton = self._skeletons[int(codes[begin])]
            for at, gaps in lines.alike(order[begin:end]):
                family = self._book.family(skeleton, gaps)
                if family is not None:
                    yield family, at, lines.first_run[at]

    def _take(self, family: Family, at: Ints, first: Ints) -> None:
        """Read lines of one family, variant by variant."""
        lines = self._lines
        left = np.arange(len(at))
        for _ in range(_MOST_KEYS):
            if not len(left) or family.hopeless:
                return
            example = int(at[left[0]])
            runs = lines.runs_of(example)
            fits = np.ones(len(left), np.bool_)
            for run in (*family.long, *family.same):
                fits &= lines.run_lengths[first[left] + run] == len(runs[run])
            for run in family.same:
                which = np.flatnonzero(fits)
                fits[which] &= lines.equal(first[left[which]] + run, runs[run])
            key = family.key(runs)
            shape = family.variants.get(key)
            if shape is None and family.is_worth_learning(key, int(fits.sum())):
                self._book.sieve.learn(family.learn(lines.text(example)))
                continue
            if shape is not None and shape.bulk:
                self._use(shape, at[left[fits]], first[left[fits]])
            left = left[~fits]

    def _use(self, shape: Shape, at: Ints, first: Ints) -> None:
        """Read these lines by their shape, but those with a stamp or number that it cannot be sure of."""
        lines, told = self._lines, shape.told
        assert told is not None
        at = self._at[at]
        good = self._width[at] >= MIN_WIDTH
        for run in set(range(len(shape.runs))) - {*shape.same, *shape.long}:
            good &= lines.run_lengths[first + run] <= shape.most_digits
        inner, real = self._moment(shape.inner, first)
        outer, also_real = self._moment(shape.outer, first)
        good &= real & also_real
        values: list[Many] = []
        if told.is_row:
            values, sure = read_values(lines, shape, first)
            good &= sure
        part = _Part(shape, at, inner, outer, values).chosen(good)
        if len(part.at):
            self._done[part.at] = True
            self._goes_on[part.at] = told.may_go_on
            self._continues[part.at] = told.continues
            self._ends_in_number[part.at] = told.ends_in_number
            self._only_number[part.at] = told.only_number
            self._parts.append(part)

    def _moment(self, moment: Moment | None, first: Ints) -> tuple[Ints, Mask]:
        """(microseconds as a stamp reads, whether it is a time) for lines with these first runs; NO_TIME where there is no stamp."""
        if moment is None:
            return np.full(len(first), NO_TIME), np.ones(len(first), np.bool_)
        lines = self._lines
        return moment.microseconds(lambda run: lines.numbers(first + run), lambda run: lines.run_lengths[first + run])

    def _give_back(self) -> None:
        """Lines whose record may reach over neighbours go back to be read one by one, together with those."""
        followed = np.append(self._continues[1:], False)
        numbers = np.append(self._only_number[1:] & self._continues[1:], False)
        left = ~self._done | (self._goes_on & followed & ~self._foreign) | (self._ends_in_number & numbers)
        width = self._width
        self._left = left
        for line in np.flatnonzero(left & ((self._goes_on & followed) | (self._ends_in_number & numbers))).tolist():
            most = int(width[line])
            for below in range(line + 1, min(line + 1 + MAX_PIECES, self._size)):
                torn = below == line + 1 and self._only_number[below]
                # characters may be fewer than bytes: only ASCII lines are known to be too long for a rest
                if not self._continues[below] or (not torn and width[below] > most and self._is_ascii(below)):
                    break
                left[below] = True
                if width[below] < most - 1 and self._is_ascii(line):
                    break

    def _is_ascii(self, line: int) -> bool:
        return self._text.raw(line).isascii()

    def _result(self) -> BlockRead:
        counts = LineCounts(lines=self._size - int(self._left.sum()), other=int((self._foreign & ~self._left).sum()))
        kinds: list[Kind] = []
        parts: list[tuple[Ints, Ints, Ints, Ints]] = []
        rows = RowColumns(self._source_id)
        for whole in self._parts:
            part = whole.chosen(~self._left[whole.at])
            told = part.shape.told
            if told is None or not len(part.at):
                continue
            _count(counts, told, len(part.at))
            if told.format is None:
                continue
            parts.append((part.at, np.full(len(part.at), len(kinds)), part.inner_us, part.outer_us))
            kinds.append(_kind(part.shape))
            if told.is_row:
                rows.take(part.shape, part.at, part.values)
        for plain in self._plain:
            counts.ignored += len(plain.at)
            parts.append((plain.at, np.full(len(plain.at), len(kinds)), plain.inner_us, np.full(len(plain.at), NO_TIME)))
            kinds.append(replace(_kind(plain.shape), asks_to_infer=plain.asks))
        aside = sum(len(p.at) for p in self._parts if p.shape.plain) + sum(len(p.at) for p in self._plain)
        self._book.sieve.weigh(aside + int(self._foreign.sum()), self._size)
        at, kind, inner, outer = (np.concatenate(p) for p in zip(*parts, strict=True)) if parts else (np.zeros(0, np.int64),) * 4
        order = np.argsort(at, kind="stable")
        return BlockRead(
            self._size, counts, kinds, at[order], kind[order], inner[order], outer[order], rows.batches(), list(self._stretches())
        )

    def _stretches(self) -> Iterator[list[tuple[int, bytes]]]:
        """Lines to be read one by one, those in a row together."""
        lines = np.flatnonzero(self._left)
        for stretch in np.split(lines, np.flatnonzero(np.diff(lines) > 1) + 1):
            if len(stretch):
                yield [(line, self._text.raw(line)) for line in stretch.tolist()]
