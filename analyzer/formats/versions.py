"""Which engine versions print what a source holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@lru_cache(maxsize=1024)
def version_key(text: str) -> tuple[int, ...]:
    """`0.4.6.post5` as (0, 4, 6, 5): comparable, shorter ones first."""
    return tuple(int(n) for n in re.findall(r"\d+", text.split("+")[0]))


@dataclass(slots=True)
class VersionRange:
    """The oldest and newest version that fit everything seen so far; a stated version wins."""

    since: str = ""
    until: str = ""
    stated: str = ""
    conflict: bool = False

    def state(self, version: str) -> None:
        """A line names the version itself."""
        if self.stated and self.stated != version:
            self.conflict = True
        self.stated = version

    def narrow(self, since: str, until: str) -> None:
        """A line has a shape that only versions from `since` to `until` print (empty: no bound)."""
        if since and (not self.since or version_key(since) > version_key(self.since)):
            self.since = since
        if until and (not self.until or version_key(until) < version_key(self.until)):
            self.until = until
        if self.since and self.until and version_key(self.since) > version_key(self.until):
            self.conflict = True

    def bounds(self) -> tuple[str | None, str | None, str | None]:
        """(oldest, newest, how it is known); None where nothing bounds it."""
        if self.stated:
            return self.stated, self.stated, "stated"
        if self.conflict or not (self.since or self.until):
            return None, None, None
        return self.since or None, self.until or None, "inferred"
