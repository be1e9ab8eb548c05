"""One request as it was rebuilt."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """When it came (seconds after second 0), its lengths, and what it found cached (None: not known)."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
