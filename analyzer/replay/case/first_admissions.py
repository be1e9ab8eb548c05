"""Which admissions of a log are the first ones of recorded requests, and which those of requests that had been retracted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

# Beyond so many cells the order of the queue has to do.
_MOST_CELLS = 2_000_000
# The order of the queue decides where prompts do not.
_QUEUE = 0.1


@dataclass(slots=True)
class Admission:
    """One request's place in a prefill line, the `line`th. Tokens are the mean of those that share them.

    `together` new requests are in that line and share `cached_tokens`; its prompt it may share with those of further lines, `sharing` in
    all, see `_admissions`. `again`: by the order of the queue it had been retracted.
    """

    at_s: float
    line: int
    together: int
    cached_tokens: float
    prompt_tokens: float = 0.0
    sharing: int = 1
    again: bool = False


def first_ones(admissions: Sequence[Admission], prompts: Sequence[int]) -> list[Admission]:
    """The admissions without as many as there are more of than requests: those without which prompts and lines agree best.

    `prompts` are the requests' lengths in the order of arrival, which is that of the queue.
    """
    n, more = len(prompts), len(admissions) - len(prompts)
    if more <= 0 or n * (more + 1) > _MOST_CELLS:
        return [a for a in admissions if not a.again]
    # best[d]: how well all admissions so far agree with d of them left out
    best = [0.0] + [-inf] * more
    kept: list[list[bool]] = []
    for j, admission in enumerate(admissions):
        keeps = [best[d] + _agrees(admission, prompts[j - d]) if 0 <= j - d < n else -inf for d in range(more + 1)]
        leaves = [-inf, *(b + (_QUEUE if admission.again else 0.0) for b in best[:-1])]
        kept.append([k >= o for k, o in zip(keeps, leaves, strict=True)])
        best = [max(k, o) for k, o in zip(keeps, leaves, strict=True)]
    found = []
    d = more
    for admission, keeps_it in zip(reversed(admissions), reversed(kept), strict=True):
        if keeps_it[d]:
            found.append(admission)
        else:
            d -= 1
    return found[::-1]


def _agrees(admission: Admission, prompt_tokens: int) -> float:
    if admission.sharing > 1:
        return 0.0
    return 1.0 if round(admission.prompt_tokens) == prompt_tokens else -1.0
