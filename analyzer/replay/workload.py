"""What is replayed: requests with their arrival, lengths and shared prefixes. No text, only which tokens are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Lengths in tokens; `arrival_s` counts from the workload's start.

    `output_tokens` is when its end-of-sequence token comes; `max_new_tokens` is what the client asked for, at least that.
    `prefix` names what its prompt begins with: pieces (key, tokens), where equal keys at equal places are equal content; the
    rest of the prompt is its own.
    """

    id: str
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    max_new_tokens: int
    prefix: tuple[tuple[str, int], ...] = ()
    ignore_eos: bool = False
    priority: int = 0


class Contents(Protocol):
    """Which tokens the requests are made of. Only equality of tokens means anything; the same request always gives the same."""

    def prompt(self, request: Request) -> Tokens:
        """Its `prompt_tokens` token ids."""
        ...

    def output(self, request: Request) -> Tokens:
        """Its `output_tokens` token ids, in the order in which they are made."""
        ...


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in the order of arrival (ties: the order given), and what they are made of.

    `start` is the moment of second 0, None where the workload has no place in time. `notes` say what was assumed or rebuilt;
    `approximate` is set where arrivals or lengths are not the recorded ones.
    """

    requests: tuple[Request, ...]
    contents: Contents
    start: datetime | None = None
    approximate: bool = False
    notes: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        """From second 0 to the last arrival."""
        return self.requests[-1].arrival_s if self.requests else 0.0


class Distinct:
    """Contents of a workload whose texts are not known: prefixes are equal where their keys are, all else is unique."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._at: dict[str, int] = {}
        for request in requests:
            for key, tokens in (*request.prefix, (f"\0{request.id}", request.prompt_tokens + request.output_tokens)):
                self._at.setdefault(key, 0)
                self._at[key] = max(self._at[key], tokens)
        begin = 0
        for key, tokens in self._at.items():
            self._at[key] = begin
            begin += tokens

    def prompt(self, request: Request) -> Tokens:
        """See `Contents.prompt`."""
        shared = [np.arange(self._at[key], self._at[key] + tokens, dtype=np.int64) for key, tokens in request.prefix]
        own = self._at[f"\0{request.id}"]
        rest = request.prompt_tokens - sum(tokens for _, tokens in request.prefix)
        return np.concatenate([*shared, np.arange(own, own + max(0, rest), dtype=np.int64)])[: request.prompt_tokens]

    def output(self, request: Request) -> Tokens:
        """See `Contents.output`."""
        begin = self._at[f"\0{request.id}"] + request.prompt_tokens
        return np.arange(begin, begin + request.output_tokens, dtype=np.int64)
