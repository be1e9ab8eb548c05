"""Splits text into JSON documents, however they follow each other, one in memory at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

# Strings, each on one line, with what stands between them; a brace; an opening quote whose end has not been seen; a new
# answer on a line of its own. An answer is mostly short strings: many are taken at once.
_TOKEN = re.compile(r'(?:"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"[^"{}\n]*+){1,1000}+|[{}]|"|\n(?=\{"status")')
_NEW_ANSWER = '\n{"status"'


def json_objects(blocks: Iterator[str]) -> Iterator[tuple[str, bool]]:
    """(text, whole) of each object that stands at the top or in a list; blanks and commas between them are left out.

    `whole` is False for one that ends too early (a new answer on a line of its own ends it), and for text
    between objects.
    """
    parts: list[str] = []
    depth = 0
    rest = ""
    for block in chain(blocks, (None,)):
        text, rest = rest + (block or ""), ""
        held = text.rfind("\n")
        if block is None or held < 0 or len(text) - held >= len(_NEW_ANSWER):
            held = len(text)
        text, held_back = text[:held], text[held:]
        at = start = 0
        while True:
            if depth == 0:
                brace = text.find("{", at)
                between = text[at : brace if brace >= 0 else len(text)].strip(" \t\r\n,[]\ufeff")
                if between:
                    yield between, False
                if brace < 0:
                    break
                start = at = brace
            done = None
            for token in _TOKEN.finditer(text, at):
                sign = token[0]
                if sign == "{":
                    depth += 1
                elif sign == "}":
                    depth -= 1
                    if not depth:
                        done = token.end()
                        break
                elif sign == "\n":
                    done = token.end()
                    break
                elif sign == '"' and text.find("\n", token.start()) < 0:
                    rest = text[token.start() :]
                    break
            if done is None:
                parts.append(text[start : len(text) - len(rest)])
                break
            yield "".join([*parts, text[start:done]]), depth == 0
            parts, depth = [], 0
            start = at = done
        rest += held_back
    if parts or rest:
        yield "".join([*parts, rest]), False
