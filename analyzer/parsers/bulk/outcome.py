"""What the line-by-line reader makes of a line that stands alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from analyzer.formats.model import LineFormat
from analyzer.formats.prefix import Head
from analyzer.formats.values import Value
from analyzer.sources.pieces import LineCounts, Pieces, fate_of
from analyzer.sources.records import ENDS_IN_NUMBER, ONLY_NUMBER, Assembler, is_continuation
from analyzer.sources.wrappers import Unwrapped

# Tables whose rows are a line's values as they are; what goes into the others depends on lines around.
ROW_TABLES = ("scheduler", "cache_ops", "events")
# What a model server is asked for; other web servers have access lines too.
INFERENCE_PATH = re.compile(r'"POST (?:/v1/(?:chat/)?completions|/generate)\b')


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line as the line-by-line reader reads it.

    `fate` is what it counts as. `may_go_on` says that its record may need lines below, `continues` that it can be the
    rest of a record above, `ends_in_number` and `only_number` that a number may be torn between it and a neighbour.
    `asks_to_infer` marks an access line of a model server, `features` the version features that it shows.
    """

    fate: int
    format: LineFormat | None
    head: Head
    wrap: Unwrapped
    message: str
    values: dict[str, Value]
    extra: dict[str, str]
    sound: bool
    attested: bool
    surely: bool
    may_go_on: bool
    continues: bool
    ends_in_number: bool
    only_number: bool
    features: tuple[int, ...]
    asks_to_infer: bool

    @property
    def is_row(self) -> bool:
        """True when the line is a row of a table, and nothing else comes of it."""
        return self.format is not None and self.format.table in ROW_TABLES

    @property
    def inner(self) -> str:
        """The engine's own stamp, as printed."""
        return self.head.stamp

    @property
    def outer(self) -> datetime | None:
        """The collector's stamp, with or without its zone."""
        return self.wrap.outer or self.wrap.outer_naive

    def lasting(self) -> tuple[object, ...]:
        """Everything but stamps and values: what has to be the same for all lines that are read in one go."""
        head = self.head
        return (
            self.fate, self.format.id if self.format else None, self.sound, self.attested, self.surely, self.may_go_on, self.continues,
            self.ends_in_number, self.only_number, self.features, self.asks_to_infer,
            head.prefixes, head.engine, head.tags, head.proc, head.pid, head.level, head.file,
            tuple(sorted(head.ranks.items())), head.shared,
            head.stamp == "", self.wrap.outer is None, self.wrap.outer_naive is None, self.wrap.origin, tuple(self.wrap.wrappers),
            self.wrap.stream, tuple(self.values), tuple(self.extra), tuple(type(v) for v in self.values.values()),
        )  # fmt: skip


def outcome(text: str) -> Outcome | None:
    """What becomes of the line `text`; None when it holds several records, or a part of one."""
    counts = LineCounts()
    reader = Pieces(counts)
    pieces = list(reader.of([(1, text, True)]))
    if len(pieces) != 1 or reader.waiting:
        return None
    piece = pieces[0]
    match, parsed = piece.match, piece.match.parsed
    form = parsed.format if parsed else None
    return Outcome(
        fate=fate_of(match),
        format=form,
        head=match.head,
        wrap=piece.wrap,
        message=match.message,
        values=dict(parsed.values) if parsed else {},
        extra=dict(parsed.extra) if parsed else {},
        sound=parsed is None or (parsed.complete and not parsed.damaged and not parsed.argument_text),
        attested=match.attested,
        surely=match.surely_of_engine,
        may_go_on=Assembler(counts, 0).may_go_on(piece),
        continues=is_continuation(piece),
        ends_in_number=form is not None and ENDS_IN_NUMBER.search(piece.text) is not None,
        only_number=ONLY_NUMBER.fullmatch(piece.text) is not None,
        features=tuple(i for i, f in enumerate(form.features) if f.when.search(match.message)) if form else (),
        asks_to_infer=form is not None and form.table == "ignored" and INFERENCE_PATH.search(match.message) is not None,
    )
