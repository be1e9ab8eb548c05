"""Learns how all lines of one shape are read from what the line-by-line reader makes of one of them.

Nothing is known here about any format. The digits of the line are varied, and the reader is asked again: a run of
digits whose change alters what the line *is* has to stay as it was, or as long as it was; those that only alter a
value or a stamp may be anything. What is so learned is tried on more variations before it is used, and a line
whose values cannot be told this way is left to the line-by-line reader.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from analyzer.formats.load import registry
from analyzer.formats.spans import ValueSpan, value_spans
from analyzer.formats.values import DECIMAL_SHIFT, EXACT_DIGITS, PERCENT_PLACES, READERS, WHOLE, Reader, Value, read_text
from analyzer.parsers.bulk.moments import Moment, find_moment, moment_in
from analyzer.parsers.bulk.outcome import ROW_TABLES, Outcome, outcome
from analyzer.parsers.plausible import is_plausible
from analyzer.sources.records import MIN_WIDTH

_RUN = re.compile("[0-9]+")
_TRIALS = 8
# More numbers than this are no scheduler's line.
_MOST_RUNS = 120
# A number of an id may be as long as this.
_LONG_NUMBER = 25
# A stamp of these is one whatever the other parts are.
_GENTLE = ("1", "01", "11", "001", "2021", "2024", "100001", "000100100")


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the value of a column (or `extra.NAME`) comes from: a stretch of the line, and the digit runs in it.

    `how` is `whole` (the run's number), `decimal` (a number with `places` behind its point, divided by ten to the
    `shift`), or `text` (read by `reader`, once for each text that occurs). `parts` are the texts around the runs.
    """

    column: str
    runs: tuple[int, ...]
    parts: tuple[str, ...]
    how: str
    reader: Reader
    shift: int = 0

    def text(self, digits: Sequence[str]) -> str:
        """The stretch of a line with these digits in its runs."""
        return "".join(p + d for p, d in zip(self.parts, digits, strict=False)) + self.parts[-1]


@dataclass(frozen=True, slots=True)
class Shape:
    """How all lines of one shape are read.

    `same` are runs that have to be as in the line it was learned from, `long` those that have to be as long.
    `told` is what was made of that line; a shape that is not `bulk` is read line by line. `plain` is an expression in RE2's
    syntax for such lines, newline included, where nothing but their stamp is kept and nothing around them matters; `stamp_at` is
    where that stands in all of them.
    """

    runs: tuple[str, ...]
    bulk: bool
    told: Outcome | None = None
    same: tuple[int, ...] = ()
    long: tuple[int, ...] = ()
    inner: Moment | None = None
    outer: Moment | None = None
    slots: tuple[Slot, ...] = field(default=())
    plain: str = ""
    stamp_at: tuple[int, int] | None = None

    @property
    def most_digits(self) -> int:
        """The longest run of digits that lines may have where it is not pinned."""
        return _most_digits(self.told)


def _most_digits(told: Outcome | None) -> int:
    return EXACT_DIGITS if told is not None and told.is_row else _LONG_NUMBER


def learn(text: str, like: Shape | None = None) -> Shape:
    """The shape of a line; `like` is that of a line that differs in digits only, and spares most of the trying."""
    alike = _learn(text, like) if like is not None else None
    return alike if alike is not None and alike.bulk else _learn(text, None)


def _learn(text: str, like: Shape | None) -> Shape:
    spans = [m.span() for m in _RUN.finditer(text)]
    runs = tuple(text[a:b] for a, b in spans)
    told = outcome(text)
    if (
        told is None
        or not _may_be_read(told)
        or (like is not None and not _same_format(told, like))
        or len(spans) > _MOST_RUNS
        or not text.isascii()
        or len(text) < MIN_WIDTH
    ):
        return Shape(runs, False, told)
    line = _Varied(text, spans, told)
    if told.format is None:
        # what is missing to a record may be digits in two places, which one variation does not bring
        line.long.update(range(len(runs)))
    if like is None:
        for run in range(len(runs)):
            line.try_run(run)
    else:
        line.same, line.long, line.moves_outer = set(like.same), set(like.long), list(like.outer.runs.values()) if like.outer else []
    run_at = {begin: number for number, (begin, _) in enumerate(spans)}
    inner = outer = stamp_at = None
    if told.inner:
        begin = _only_place(text, told.inner)
        if begin is not None:
            stamp_at = begin, begin + len(told.inner)
            inner = moment_in(text, *stamp_at, run_at)
    if told.outer is not None and line.moves_outer:
        place = find_moment(text, spans[line.moves_outer[0]][0], (told.wrap.outer, told.wrap.outer_naive))
        outer = moment_in(text, *place, run_at) if place else None
    if (told.inner and inner is None) or (told.outer is not None and outer is None) or (told.is_row and not (inner or outer)):
        return Shape(runs, False, told)
    slots = line.slots(run_at) if told.is_row else ()
    same, long = tuple(sorted(line.same)), tuple(sorted(line.long))
    plain = ""
    if _is_plain(told) and (stamp_at is None or line.stands_still(stamp_at[1])):
        plain = line.expression()
    shape = Shape(runs, True, told, same, long, inner, outer, slots or (), plain, stamp_at)
    return shape if slots is not None and line.holds(shape) else Shape(runs, False, told)


def _may_be_read(told: Outcome) -> bool:
    """True for lines whose fate depends on no other line, as far as they show it themselves."""
    form = told.format
    if form is None:
        return True
    if not told.sound or not (told.attested or form.engine == "any") or form.continues or form.arguments or form.id in registry().continued:
        return False
    if form.table == "ignored":
        return not form.role
    if form.table == "scheduler" and not all(is_plausible(column, value) for column, value in told.values.items()):
        return False
    return form.table in ROW_TABLES and form.role in ("", "serving")


def _is_plain(told: Outcome) -> bool:
    """True when lines of this kind are counted, nothing but their stamp is kept, and no neighbour can be a part of their record."""
    form = told.format
    if form is None or form.table != "ignored" or form.engine != "any" or told.features or told.wrap.wrappers or told.wrap.origin:
        return False
    return not (told.may_go_on or told.continues or told.ends_in_number or told.only_number or told.head.pid)


def _same_format(told: Outcome, like: Shape) -> bool:
    return told.format is not None and like.told is not None and told.format is like.told.format


def _only_place(text: str, part: str) -> int | None:
    begin = text.find(part)
    return begin if begin >= 0 and text.find(part, begin + 1) < 0 else None


class _Varied:
    """A line, and what becomes of it when its digits are changed."""

    def __init__(self, text: str, spans: list[tuple[int, int]], told: Outcome) -> None:
        self._text, self._spans, self._told = text, spans, told
        self._lasting = told.lasting()
        self._dice = random.Random(len(text))
        self.same: set[int] = set()
        self.long: set[int] = set()
        self.moves_outer: list[int] = []

    def _with(self, digits: dict[int, str]) -> str:
        parts: list[str] = []
        at = 0
        for number, (begin, end) in enumerate(self._spans):
            parts += (self._text[at:begin], digits.get(number, self._text[begin:end]))
            at = end
        return "".join(parts) + self._text[at:]

    def _became(self, run: int, digits: str) -> Outcome | None:
        found = outcome(self._with({run: digits}))
        return found if found is not None and found.lasting() == self._lasting else None

    def try_run(self, run: int) -> None:
        """See whether one run of digits may be any other."""
        begin, end = self._spans[run]
        now, size = self._text[begin:end], end - begin
        gentle = [self._became(run, d) for d in _GENTLE if len(d) == size and d != now]
        moved = [o for o in gentle if o is not None and (o.inner != self._told.inner or o.outer != self._told.outer)]
        if moved:
            self.long.add(run)
            if moved[0].outer != self._told.outer:
                self.moves_outer.append(run)
            return
        alike = {"0" * size, "9" * size, *(self._digits(size) for _ in range(3))}
        if any(self._became(run, d) is None for d in alike):
            self.same.add(run)
            return
        if run in self.long:
            return
        others = {"0", "7", "12", self._digits(size + 1), self._digits(size + 3), self._digits(_most_digits(self._told))}
        if any(self._became(run, d) is None for d in others):
            self.long.add(run)

    def _digits(self, size: int) -> str:
        return "".join(self._dice.choices("0123456789", k=size))

    def stands_still(self, end: int) -> bool:
        """True when what stands before that place is as long in all lines."""
        return all(number in self.same or number in self.long for number, (begin, _) in enumerate(self._spans) if begin < end)

    def expression(self) -> str:
        """What finds lines of this shape, each with its newline."""
        found = ["^"]
        at = 0
        for number, (begin, end) in enumerate(self._spans):
            run = self._text[begin:end] if number in self.same else f"[0-9]{{{end - begin}}}"
            if number not in self.same and number not in self.long:
                run = "[0-9]+"
            found += (re.escape(self._text[at:begin]), run)
            at = end
        return "".join((*found, re.escape(self._text[at:]), "\n"))

    def slots(self, run_at: dict[int, int]) -> tuple[Slot, ...] | None:
        """Where the values come from; None when a value cannot be followed to its place."""
        form = self._told.format
        assert form is not None
        message = self._told.message if form.pairs else self._told.message.rstrip()
        offset = _only_place(self._text, message.rstrip())
        if offset is None:
            return None
        found: list[Slot] = []
        for span in value_spans(form, message):
            slot = self._slot(span, offset, run_at)
            if slot is not None:
                found.append(slot)
        return tuple(found)

    def _slot(self, span: ValueSpan, offset: int, run_at: dict[int, int]) -> Slot | None:
        begin, end = span.begin + offset, span.end + offset
        runs = [n for at, n in run_at.items() if begin <= at < end]
        known = self._told.extra.get(span.column[6:]) if span.column.startswith("extra.") else self._told.values.get(span.column)
        if not runs or set(runs) <= self.same or known is None:
            return None
        text = self._text[begin:end]
        parts: list[str] = []
        at = 0
        for n in runs:
            parts.append(text[at : self._spans[n][0] - begin])
            at = self._spans[n][1] - begin
        parts.append(text[at:])
        how, shift = _how(span.reader, parts)
        return Slot(span.column, tuple(runs), tuple(parts), how, span.reader, shift)

    def holds(self, shape: Shape) -> bool:
        """True when the shape gives what the reader gives, for variations of all runs at once."""
        for _ in range(_TRIALS):
            digits = {n: self._vary(n, shape) for n in range(len(self._spans)) if n not in self.same}
            found = outcome(self._with(digits))
            if found is None or found.lasting() != self._lasting:
                return False
            now = [digits.get(n, r) for n, r in enumerate(shape.runs)]
            if self._told.is_row and not _agrees(shape, now, found):
                return False
        return True

    def _vary(self, run: int, shape: Shape) -> str:
        begin, end = self._spans[run]
        stamps = [*(shape.inner.runs.values() if shape.inner else ()), *(shape.outer.runs.values() if shape.outer else ())]
        if run in stamps:
            return self._text[begin:end]
        return self._digits(end - begin if run in self.long else self._dice.randint(1, EXACT_DIGITS // 2))


def _how(reader: Reader, parts: list[str]) -> tuple[str, int]:
    """How the value between `parts` is read: see Slot."""
    plain = parts[0] == "" and (len(parts) == 2 or (len(parts) == 3 and parts[1] == "."))
    if plain and reader in WHOLE and len(parts) == 2:
        return "whole", 0
    if plain and reader in DECIMAL_SHIFT:
        return "decimal", DECIMAL_SHIFT[reader]
    return "text", 0


def most_places_of(slot: Slot) -> int:
    """So many places behind the point are read exactly."""
    return PERCENT_PLACES if slot.shift == DECIMAL_SHIFT[READERS["percent"]] else EXACT_DIGITS


def _fits(slot: Slot, lengths: Sequence[int]) -> bool:
    return slot.how == "text" or (sum(lengths) <= EXACT_DIGITS and sum(lengths[1:]) <= most_places_of(slot))


def read_slot(slot: Slot, runs: Sequence[str]) -> Value | None:
    """The value of a slot in a line with these digit runs, the way a column is read."""
    digits = [runs[n] for n in slot.runs]
    if slot.how == "whole":
        return int(digits[0])
    if slot.how == "decimal":
        places = len(digits[1]) if len(digits) > 1 else 0
        return float(int("".join(digits)) / 10 ** (places + slot.shift))
    return slot.reader(slot.text(digits))


def _agrees(shape: Shape, runs: list[str], found: Outcome) -> bool:
    """True when reading by slots gives the values that the line-by-line reader gave; what no slot gives must not have changed."""
    assert shape.told is not None
    values: dict[str, Value | None] = {**shape.told.values, **_as_columns(shape.told.extra)}
    wanted: dict[str, Value] = {**found.values, **_as_columns(found.extra)}
    for slot in shape.slots:
        if not _fits(slot, [len(runs[n]) for n in slot.runs]):
            # lines with such numbers are left
            wanted.pop(slot.column, None)
            continue
        value = read_slot(slot, runs)
        kept_as_text = value is not None and slot.column.startswith("extra.")
        values[slot.column] = read_text(str(value)) if kept_as_text else value
    return all(values[column] == value for column, value in wanted.items())


def _as_columns(extra: dict[str, str]) -> dict[str, str]:
    return {f"extra.{key}": text for key, text in extra.items()}
