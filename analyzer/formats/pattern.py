"""What is looked for in lines: a regular expression that is compiled when it is first asked, and any of many texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc


class Pattern:
    """Stands for `re.compile(pattern, flags)`: a log has lines of few formats, and to compile all takes longer than to read it."""

    __slots__ = ("_compiled", "_flags", "pattern")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None

    @property
    def compiled(self) -> re.Pattern[str]:
        """The pattern itself; raises re.error for one that is wrong."""
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self._flags)
        return self._compiled

    @property
    def groups(self) -> list[str]:
        """The names of its groups, in the order in which they open."""
        return re.findall(r"\(\?P<(\w+)>", self.pattern)

    def match(self, text: str) -> re.Match[str] | None:
        """As of `re.Pattern`."""
        return self.compiled.match(text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As of `re.Pattern`."""
        return self.compiled.fullmatch(text)

    def search(self, text: str) -> re.Match[str] | None:
        """As of `re.Pattern`."""
        return self.compiled.search(text)


# From so many characters on it is faster to look with RE2, and for all of several texts at once.
LONG = 2_000


def occurs(pattern: str, text: str) -> bool:
    """True when `pattern`, in RE2's syntax, is found in `text`: several times as fast as `re` where a text is long."""
    line = pa.array([text.encode("utf-8", "surrogateescape")], pa.large_binary())
    return bool(pc.match_substring_regex(line, pattern)[0].as_py())


class AnyOf:
    """Any of some texts, which are ASCII."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = tuple(texts)

    @cached_property
    def _pattern(self) -> str:
        return "|".join(map(re.escape, self._texts))

    def is_in(self, text: str) -> bool:
        """True when `text` holds one of them."""
        return any(map(text.__contains__, self._texts)) if len(text) < LONG else occurs(self._pattern, text)
