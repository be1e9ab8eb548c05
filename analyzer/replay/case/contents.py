"""What the requests of a case are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analyzer.replay.workload import Contents, Distinct, Request, Tokens

_OWN = "\0"


def own(request: Request) -> tuple[str, int]:
    """The piece that is a request's own, for others to begin with: the rest of its prompt after its prefix, and its output."""
    return f"{_OWN}{request.id}", request.prompt_tokens - sum(n for _, n in request.prefix) + request.output_tokens


class Turns:
    """Contents of requests of which some go on where others stopped: as `Distinct`, but an output may be part of another one's prefix."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._plain = Distinct(requests)

    def prompt(self, request: Request) -> Tokens:
        """See `Contents.prompt`."""
        return self._plain.prompt(request)

    def output(self, request: Request) -> Tokens:
        """See `Contents.output`."""
        key, tokens = own(request)
        return self._plain.prompt(replace(request, prompt_tokens=tokens, prefix=((key, tokens),)))[tokens - request.output_tokens :]


def contents_of(requests: Sequence[Request]) -> Contents:
    """The simplest that these requests can have."""
    goes_on = any(key.startswith(_OWN) for r in requests for key, _ in r.prefix)
    return Turns(requests) if goes_on else Distinct(requests)
