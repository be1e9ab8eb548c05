"""Splits text into JSON documents, however they follow each other, and large answers into their series: little is in memory at a time."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from itertools import chain
from typing import NamedTuple

import orjson

# Strings, each on one line, with what stands between them; a brace; an opening quote whose end has not been seen; a new
# answer on a line of its own. An answer is mostly short strings: many are taken at once.
_TOKEN = re.compile(r'(?:"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"[^"{}\n]*+){1,1000}+|[{}]|"|\n(?=\{"status")')
_NEW_ANSWER = '\n{"status"'
_SERIES = re.compile(r'\{\s*"metric"\s*:')
# A brace and what follows it, as far as that tells a series.
_GLANCE = 64
# What stands in an answer before its series is not longer.
_MAX_BEFORE = 1 << 16


class Piece(NamedTuple):
    """One object that stands at the top or in a list; or, with `series`, one series of the result of the object that ends next.

    Of such an object the text has `null` for all of these series. `whole` is False for an object that ends too early (a
    new answer on a line of its own ends it), and for text between objects.
    """

    text: str
    whole: bool
    series: bool = False


def json_pieces(blocks: Iterator[str]) -> Iterator[Piece]:
    """The objects of a text and the series in them; blanks and commas between objects are left out."""
    splitter = _Splitter()
    for block in blocks:
        yield from splitter.take(block)
    yield from splitter.take(None)


class _Splitter:
    def __init__(self) -> None:
        self._rest = ""
        self._begin()

    def _begin(self) -> None:
        """A new object."""
        self._parts: list[str] = []
        self._depth = 0
        # How deep the series stand that are cut out; the parts of the one that is being read, or of what follows the last.
        self._level = 0
        self._own: list[str] | None = None
        self._between: list[str] | None = None

    def _put(self, text: str) -> None:
        held = self._own if self._own is not None else self._between if self._between is not None else self._parts
        held.append(text)

    def take(self, block: str | None) -> Iterator[Piece]:
        """What a block completes; None is the end of all."""
        text, self._rest = self._rest + (block or ""), ""
        held = text.rfind("\n")
        if block is None or held < 0 or len(text) - held >= len(_NEW_ANSWER):
            held = len(text)
        text, held_back = text[:held], text[held:]
        at = 0
        while True:
            if not self._depth:
                brace = text.find("{", at)
                between = text[at : brace if brace >= 0 else len(text)].strip(" \t\r\n,[]\ufeff")
                if between:
                    yield Piece(between, False)
                if brace < 0:
                    break
                at = brace
            done, start = yield from self._tokens(text, at, final=block is None)
            if done is None:
                self._put(text[start : len(text) - len(self._rest)])
                break
            self._put(text[start:done])
            yield Piece("".join(chain(self._parts, self._between or (), self._own or ())), not self._depth)
            self._begin()
            at = done
        self._rest += held_back
        if block is None and (self._parts or self._rest):
            yield Piece("".join(chain(self._parts, self._between or (), self._own or (), (self._rest,))), False)

    def _tokens(self, text: str, at: int, *, final: bool) -> Generator[Piece, None, tuple[int | None, int]]:
        """Series up to the end of the object; returns where that is (None: not in this text) and up to where text was put aside."""
        start = at
        for token in _TOKEN.finditer(text, at):
            sign = token[0]
            if sign == "{":
                here = token.start()
                if self._own is None and self._depth and (not self._level or self._level == self._depth):
                    if not final and len(text) - here < _GLANCE:
                        self._rest = text[here:]
                        break
                    start = self._cut(text, start, here)
                self._depth += 1
            elif sign == "}":
                self._depth -= 1
                if self._own is not None and self._depth == self._level:
                    yield Piece("".join([*self._own, text[start : token.end()]]), True, True)
                    start, self._own, self._between = token.end(), None, []
                if not self._depth:
                    return token.end(), start
            elif sign == "\n":
                return token.end(), start
            elif sign == '"' and text.find("\n", token.start()) < 0:
                self._rest = text[token.start() :]
                break
        return None, start

    def _cut(self, text: str, start: int, here: int) -> int:
        """Whether the brace at `here` begins a series of the result, which is cut out then; returns up to where text was put aside."""
        looks_so = _SERIES.match(text, here) is not None
        if self._between is not None:
            between = "".join([*self._between, text[start:here]])
            self._between = None
            if looks_so and between.strip() == ",":
                self._own = []
            else:
                # something else stands among them: it and all that follows stays
                self._parts.append(between)
                self._level = -1
            return here
        if not looks_so or sum(map(len, self._parts)) + here - start > _MAX_BEFORE:
            return start
        before = "".join([*self._parts, text[start:here]])
        if not _opens_result(before, self._depth):
            return start
        self._parts, self._own, self._level = [before, "null"], [], self._depth
        return here


def _opens_result(before: str, depth: int) -> bool:
    """True when an answer that begins so holds series from there on."""
    try:
        document = orjson.loads((before + "]" + "}" * depth).encode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        return False
    data = document.get("data", document)
    return (
        isinstance(data, dict)
        and depth == (1 if data is document else 2)
        and data.get("result") == []
        and "metric" not in data
        and document.get("status") != "error"
        and data.get("resultType") not in ("scalar", "string")
    )
