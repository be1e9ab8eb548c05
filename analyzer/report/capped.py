"""Lists that stay short whatever a trace holds, and say how long they were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Capped(Generic[T]):
    """Rows to show, and how many there were."""

    rows: tuple[T, ...]
    total: int

    @property
    def hidden(self) -> int:
        """Rows left out."""
        return self.total - len(self.rows)


def cap(items: Iterable[T], limit: int) -> Capped[T]:
    """The first `limit` items."""
    everything = tuple(items)
    return Capped(everything[:limit], len(everything))
