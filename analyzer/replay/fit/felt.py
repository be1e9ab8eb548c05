"""What an engine did while a request made its tokens, as its client saw it: the last resort, where neither log nor metrics tell."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from analyzer.replay.fit.seen import Seen, decoding
from analyzer.replay.fit.work import Work
from analyzer.replay.settings import Settings, Sglang

# Shorter answers tell more of the network than of steps.
_LEAST_TOKENS = 16
# First tokens closer than this came from one step.
_ONE_STEP_S = 0.002


def felt_work(requests: Sequence[Seen], settings: Settings, end_s: float) -> list[Work]:
    """One row per finished request, from its first token to its last: a step per token, with the batch and the prefills of that time."""
    decodes = decoding(requests, end_s)
    firsts = sorted((r.first_token_s, r.prompt_tokens - r.cached_tokens) for r in requests if r.first_token_s is not None)
    moments = [at for at, _tokens in firsts]
    chunk = settings.chunked_prefill_tokens or settings.max_prefill_tokens if isinstance(settings, Sglang) else settings.step_tokens
    out = []
    for r in requests:
        if (
            r.first_token_s is None
            or r.finish_s is None
            or r.output_tokens < _LEAST_TOKENS
            or r.finish_s <= r.first_token_s
            or r.retractions
        ):
            continue
        seconds, decode_steps = r.finish_s - r.first_token_s, float(r.output_tokens - 1)
        made = decode_steps * max(1.0, decodes.sum(r.first_token_s, r.finish_s) / seconds)
        those = firsts[bisect_right(moments, r.first_token_s + _ONE_STEP_S) : bisect_left(moments, r.finish_s)]
        prefilled = float(sum(tokens for _, tokens in those))
        prefills = sum(max(1.0, tokens / chunk) for at, tokens in _by_step(those))
        apart = isinstance(settings, Sglang)
        out.append(
            Work(
                start_s=r.first_token_s,
                end_s=r.finish_s,
                seconds=seconds,
                steps=decode_steps + prefills if apart else max(decode_steps, prefills),
                tokens=made + prefilled,
                requests=made + len(those),
                prefills=prefills if apart else min(decode_steps, prefills),
                attended=float(sum(tokens * tokens / 2 for _, tokens in those)),
            )
        )
    return out


def _by_step(firsts: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    """First tokens that came together, as (moment, prompt tokens of all)."""
    out: list[tuple[float, float]] = []
    for at, tokens in firsts:
        if out and at - out[-1][0] <= _ONE_STEP_S:
            out[-1] = (out[-1][0], out[-1][1] + tokens)
        else:
            out.append((at, float(tokens)))
    return out
