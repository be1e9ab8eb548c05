"""One recorded request, and what is known of its prompt."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.replay.workload import Request


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of one request; `first_token_s` and `finish_s` in seconds of the workload."""

    request: Request
    first_token_s: float | None = None
    finish_s: float | None = None
    cached_tokens: int | None = None
    sha256: str | None = None
    hashes: tuple[int, ...] | None = None
