"""A regular expression that is compiled when it is first asked."""

from __future__ import annotations

import re


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
