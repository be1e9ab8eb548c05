"""Values of many lines of one shape at once, and the rows that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from analyzer.formats.model import LineFormat
from analyzer.formats.values import DECIMAL_SHIFT, EXACT_DIGITS, Value, read_text
from analyzer.parsers.bulk.lines import Ints, Lines, Mask
from analyzer.parsers.bulk.outcome import Outcome
from analyzer.parsers.bulk.shape import Shape, Slot, most_places_of
from analyzer.parsers.plausible import is_plausible, most_of
from analyzer.trace.schema import TABLES

# Powers of ten, which are looked up sooner than they are reckoned.
_TENS = 10 ** np.arange(EXACT_DIGITS + 1)
_PARTS_OF = np.array([float(10**n) for n in range(EXACT_DIGITS + max(DECIMAL_SHIFT.values()) + 1)])


@dataclass(frozen=True, slots=True)
class Many:
    """Values of a column in many lines: numbers, or for each line the index of its value in `choices`."""

    numbers: np.ndarray[tuple[int], np.dtype[Any]]
    choices: tuple[Value, ...] | None = None

    def chosen(self, which: Mask) -> Many:
        """Those of some of the lines."""
        return Many(self.numbers[which], self.choices)

    def listed(self) -> list[Value]:
        """The value of each line."""
        return self.numbers.tolist() if self.choices is None else [self.choices[n] for n in self.numbers.tolist()]

    def texts(self) -> tuple[Ints, list[str]]:
        """(index of its text for each line, texts), as a value is kept in `extra`."""
        if self.choices is not None:
            return self.numbers, [read_text(str(c)) for c in self.choices]
        values, index = np.unique(self.numbers, return_inverse=True)
        return index, [str(v) for v in values.tolist()]


def read_values(lines: Lines, shape: Shape, first: Ints) -> tuple[list[Many], Mask]:
    """The values of all slots in the lines whose first digit runs are given, and which lines they are right for."""
    good = np.ones(len(first), np.bool_)
    found: list[Many] = []
    for slot in shape.slots:
        many, sure = _read(lines, slot, first)
        good &= sure
        if shape.told is not None and shape.told.format is not None and shape.told.format.table == "scheduler":
            good &= _plausible(slot.column, many)
        found.append(many)
    return found, good


def _read(lines: Lines, slot: Slot, first: Ints) -> tuple[Many, Mask]:
    runs = [first + n for n in slot.runs]
    if slot.how == "text":
        return _read_texts(lines, slot, runs)
    lengths = [lines.run_lengths[r] for r in runs]
    good: Mask = np.sum(lengths, axis=0) <= EXACT_DIGITS
    number = lines.numbers(runs[0])
    if slot.how == "whole":
        return Many(number), good
    places = lengths[1] if len(runs) > 1 else np.zeros(len(first), np.int64)
    good &= places <= most_places_of(slot)
    places = np.minimum(places, EXACT_DIGITS)
    if len(runs) > 1:
        number = number * _TENS[places] + lines.numbers(runs[1])
    return Many(number / _PARTS_OF[places + slot.shift]), good


def _read_texts(lines: Lines, slot: Slot, runs: list[Ints]) -> tuple[Many, Mask]:
    """Each text that occurs is read once, by the slot's own reader."""
    index = np.zeros(len(runs[0]), np.int64)
    for run in runs:
        # numbers that are alike may be written with more or fewer zeros
        for part in (lines.numbers(run), lines.run_lengths[run]):
            _, code = np.unique(part, return_inverse=True)
            _, index = np.unique(index * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    _, examples = np.unique(index, return_index=True)
    values = [slot.reader(slot.text([lines.digits(int(run[example])) for run in runs])) for example in examples.tolist()]
    read = np.array([v is not None for v in values], np.bool_)
    return Many(index, tuple("" if v is None else v for v in values)), read[index]


def _plausible(column: str, many: Many) -> Mask:
    if column.startswith("extra."):
        return np.ones(len(many.numbers), np.bool_)
    if many.choices is None:
        possible: Mask = (many.numbers >= 0) & (many.numbers <= most_of(column))
        return possible
    believed: Mask = np.array([is_plausible(column, value) for value in many.choices], np.bool_)[many.numbers]
    return believed


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows of one shape, and where they stand among all rows of their table."""

    shape: Shape
    rows: Ints
    values: list[Many]

    @property
    def told(self) -> Outcome:
        assert self.shape.told is not None
        return self.shape.told

    @property
    def format(self) -> LineFormat:
        assert self.told.format is not None
        return self.told.format


class RowColumns:
    """Rows of several shapes on their way into one batch per table, in line order."""

    def __init__(self, source_id: str) -> None:
        self._source_id = source_id
        self._taken: dict[str, list[tuple[Shape, Ints, list[Many]]]] = {}

    def take(self, shape: Shape, at: Ints, values: list[Many]) -> None:
        """Rows of one shape: the number of each line, and the values of the shape's slots."""
        assert shape.told is not None
        assert shape.told.format is not None
        self._taken.setdefault(shape.told.format.table, []).append((shape, at, values))

    def batches(self) -> dict[str, pa.RecordBatch]:
        """The rows by table, in the columns that hold something; the caller adds those that it knows better (ts, outer_ts)."""
        return {table: self._batch(table, taken) for table, taken in self._taken.items()}

    def _batch(self, table: str, taken: list[tuple[Shape, Ints, list[Many]]]) -> pa.RecordBatch:
        record = np.concatenate([at for _, at, _ in taken])
        order = np.argsort(record, kind="stable")
        rank = np.empty(len(record), np.int64)
        rank[order] = np.arange(len(record))
        ends = np.cumsum([len(at) for _, at, _ in taken])[:-1]
        groups = [_Group(shape, rows, values) for (shape, _, values), rows in zip(taken, np.split(rank, ends), strict=True)]
        arrays: dict[str, pa.Array] = {"record": pa.array(record[order])}
        for column in TABLES[table].arrow:
            if column.name == "extra":
                array = _extras(groups, len(record))
            elif table == "events" and column.name == "text":
                array = _sentences(groups, len(record))
            elif column.name not in arrays:
                array = self._column(column, groups, len(record))
            if array is not None:
                arrays.setdefault(column.name, array)
        kinds = {f.name: f.type for f in TABLES[table].arrow}
        schema = pa.schema([(name, a.type if pa.types.is_dictionary(a.type) else kinds[name]) for name, a in arrays.items()])
        return pa.RecordBatch.from_pydict(arrays, schema=schema)

    def _column(self, column: pa.Field, groups: list[_Group], size: int) -> pa.Array | None:
        """One column over all shapes: a constant, a slot's values or NULL in each; None for one that is NULL in all."""
        parts = [self._of(group, column.name) for group in groups]
        if all(p is None for p in parts):
            return None
        if pa.types.is_string(column.type) or pa.types.is_boolean(column.type):
            return _chosen(parts, groups, column.type, size)
        kind = np.float64 if pa.types.is_floating(column.type) else np.int64
        numbers = np.zeros(size, kind)
        missing = np.zeros(size, np.bool_)
        for part, group in zip(parts, groups, strict=True):
            if isinstance(part, Many):
                numbers[group.rows] = part.numbers if part.choices is None else np.array(part.choices, kind)[part.numbers]
            elif part is not None:
                numbers[group.rows] = part
            else:
                missing[group.rows] = True
        return pa.array(numbers, mask=missing if missing.any() else None).cast(column.type)

    def _of(self, group: _Group, column: str) -> Many | Value | None:
        told = group.told
        for slot, many in zip(group.shape.slots, group.values, strict=True):
            if slot.column == column:
                return many
        if column in told.values:
            return told.values[column]
        fixed: dict[str, Value | None] = {"source_id": self._source_id, "engine": group.format.engine, "stream": told.wrap.origin}
        if group.format.table == "events":
            fixed |= {"pid": told.head.pid, "reported_by": told.head.tags or told.head.proc or None}
        return told.head.ranks.get(column, fixed.get(column))


def _sentences(groups: list[_Group], size: int) -> pa.Array:
    """What each event says."""
    texts = [""] * size
    for group in groups:
        form, fixed = group.format, group.told.values
        slots = {s.column: many.listed() for s, many in zip(group.shape.slots, group.values, strict=True) if f"{{{s.column}}}" in form.text}
        rows = group.rows.tolist()
        said = [dict(zip(slots, row, strict=True)) for row in zip(*slots.values(), strict=True)] if slots else [{}] * len(rows)
        for row, values in zip(rows, said, strict=True):
            texts[row] = form.sentence(fixed | values)
    return pa.array(texts, pa.string())


def _chosen(parts: list[Many | Value | None], groups: list[_Group], kind: pa.DataType, size: int) -> pa.Array:
    """A column of truths, or of texts as a dictionary, each written once."""
    choices: list[Value | None] = []
    index = np.empty(size, np.int32)
    for part, group in zip(parts, groups, strict=True):
        if isinstance(part, Many):
            which, given = part.texts() if part.choices is None else (part.numbers, part.choices)
            index[group.rows] = which + len(choices)
            choices += given
        else:
            index[group.rows] = len(choices)
            choices.append(part)
    values = pa.array(choices, kind)
    if not pa.types.is_string(kind):
        return values.take(pa.array(index))
    missing = np.array([c is None for c in choices], np.bool_)[index]
    return pa.DictionaryArray.from_arrays(pa.array(index, mask=missing if missing.any() else None), values)


def _extras(groups: list[_Group], size: int) -> pa.Array | None:
    """The map column: the keys of a shape are the same in all its rows; rows without any are NULL, and None is where all are."""
    widths = np.zeros(size, np.int32)
    for group in groups:
        widths[group.rows] = len(group.told.extra)
    if not widths.any():
        return None
    offsets = np.zeros(size + 1, np.int32)
    np.cumsum(widths, out=offsets[1:])
    keys: list[str] = []
    items: list[str] = []
    key_index, item_index = np.empty((2, offsets[-1]), np.int32)
    for group in groups:
        slots = {s.column[6:]: many for s, many in zip(group.shape.slots, group.values, strict=True) if s.column.startswith("extra.")}
        for place, (key, fixed) in enumerate(group.told.extra.items()):
            at = offsets[group.rows] + place
            which, texts = slots[key].texts() if key in slots else (0, [fixed])
            key_index[at] = len(keys)
            item_index[at] = which + len(items)
            keys.append(key)
            items += texts
    # an offset that is NULL makes a row that is NULL
    starts = pa.array(offsets, mask=np.append(widths == 0, False) if (widths == 0).any() else None)
    return pa.MapArray.from_arrays(starts, pa.array(keys).take(pa.array(key_index)), pa.array(items).take(pa.array(item_index)))
