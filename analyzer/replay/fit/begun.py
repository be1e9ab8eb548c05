"""How far prompts had come at a scrape that take several steps: counters tell of a prompt's tokens when the last of them is computed."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.replay.fit.seen import Seen


def prefilled_between(
    told: Sequence[float], at_s: Sequence[float], usage: Sequence[float | None], l1_tokens: int, requests: Sequence[Seen]
) -> list[float]:
    """Prompt tokens computed in each interval: `told`, put right by what the pool held of begun prompts at both ends.

    `at_s` and `usage` (share of the pool) are of the ends of the intervals, one more than `told`. A prompt that is in neither the
    counter nor the pool, because it was done just then, is one of the next interval.
    """
    done = 0.0
    begun = [_begun(at, share, l1_tokens, requests) for at, share in zip(at_s, usage, strict=True)]
    so_far = begun[0]
    out = []
    for tokens, of_next in zip(told, begun[1:], strict=True):
        done += tokens
        out.append(max(0.0, done + of_next - so_far))
        so_far = max(so_far, done + of_next)
    return out


def _begun(at: float, share: float | None, l1_tokens: int, requests: Sequence[Seen]) -> float:
    """Tokens in the pool less those of requests that are past their first token."""
    held = 0.0
    for r in requests:
        if r.first_token_s is not None and r.first_token_s <= at and (r.finish_s is None or at < r.finish_s):
            part = 1.0 if r.finish_s is None else (at - r.first_token_s) / (r.finish_s - r.first_token_s)
            held += r.prompt_tokens + part * r.output_tokens
    return max(0.0, (share or 0.0) * l1_tokens - held)
