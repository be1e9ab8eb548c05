"""Memory sizes and lengths as people write them: 60GiB, 32k."""

from __future__ import annotations

import re
from fractions import Fraction

from analyzer.errors import KvpmError

_BYTES = {"mb": 10**6, "gb": 10**9, "tb": 10**12, "mib": 2**20, "gib": 2**30, "tib": 2**40}
# k and M of a length are binary, as models and their users count: 32k is 32768 tokens, 128k is 131072
_TOKENS = {"": 1, "k": 2**10, "m": 2**20}
_NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([a-z]*)", re.IGNORECASE)
MAX_BYTES = 2**50
MAX_TOKENS = 2**40
MAX_LENGTHS = 50


def bytes_of(text: str) -> int:
    """`60GiB` as 64424509440; GB and GiB are told apart, and a number without a unit is refused."""
    found = _NUMBER.fullmatch(text.strip())
    factor = _BYTES.get(found[2].lower()) if found else None
    if found is None or factor is None:
        raise KvpmError(f"{text!r} is no memory size", hint="a number with MiB, GiB, TiB, MB, GB or TB: 60GiB")
    size = int(Fraction(found[1]) * factor)
    if not 0 < size <= MAX_BYTES:
        raise KvpmError(f"{text!r} is no memory of a GPU", hint="what one GPU has for KV cache, above 0 and at most 1024TiB: 60GiB")
    return size


def tokens_of(text: str) -> int:
    """`32k` as 32768; whole tokens, at least one."""
    found = _NUMBER.fullmatch(text.strip())
    factor = _TOKENS.get(found[2].lower()) if found else None
    tokens = Fraction(found[1]) * factor if found and factor else None
    if tokens is None or tokens.denominator != 1:
        raise KvpmError(f"{text!r} is no number of tokens", hint="a number, or one with k (1024) or M (1024 x 1024): 8000, 32k, 1M")
    if not 0 < tokens <= MAX_TOKENS:
        raise KvpmError(f"{text!r} is out of range", hint="at least 1 token, and at most 2^40")
    return int(tokens)


def lengths_of(text: str) -> tuple[int, ...]:
    """`32k,128k` as lengths in tokens, in the order given, each once."""
    lengths = tuple(dict.fromkeys(tokens_of(part) for part in text.split(",")))
    if len(lengths) > MAX_LENGTHS:
        raise KvpmError(f"--lengths names {len(lengths)} lengths", hint=f"at most {MAX_LENGTHS}")
    return lengths
