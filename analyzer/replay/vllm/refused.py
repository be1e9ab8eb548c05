"""Why a request can never be scheduled."""

from __future__ import annotations

from analyzer.language import _
from analyzer.replay.settings import Vllm
from analyzer.replay.vllm.requests import Live


def reason(live: Live, settings: Vllm) -> str:
    """In words, for a request that is not scheduled although it has the engine to itself."""
    if live.tokens > settings.max_model_tokens:
        return _("{tokens} tokens, more than the model's {limit}", tokens=live.tokens, limit=settings.max_model_tokens)
    if live.tokens > settings.l1_tokens:
        return _("{tokens} tokens, more than the KV pool's {limit}", tokens=live.tokens, limit=settings.l1_tokens)
    return _("{tokens} tokens, more than a step's {limit}, and chunked prefill is off", tokens=live.tokens, limit=settings.step_tokens)
