"""How many KV tokens decoding requests read: a prefix that several of them share is in the pool once, and each of them reads it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analyzer.replay.fit.work import Work
from analyzer.replay.settings import Settings, Sglang
from analyzer.replay.workload import Request

Numbers = NDArray[np.float64]


class ReadTwice:
    """Tokens that are read beyond those the pool holds, over time: what decoding requests have of prefixes that others of them have too."""

    def __init__(self, requests: Sequence[Request], decoding: Iterable[tuple[str, float, float]], settings: Settings) -> None:
        """`decoding` are (request id, start_s, end_s). Without a prefix cache each request has tokens of its own."""
        prefixes = {r.id: r.prefix for r in requests if r.prefix} if settings.prefix_caching else {}
        edges = sorted(edge for rid, start, end in decoding if rid in prefixes for edge in ((start, 1, rid), (end, -1, rid)))
        holders: dict[str, list[int]] = defaultdict(list)
        at, tokens, now = [0.0], [0.0], 0
        for moment, step, rid in edges:
            for key, length in prefixes[rid]:
                now -= _beyond_one(holders[key])
                if step > 0:
                    holders[key].append(length)
                else:
                    holders[key].remove(length)
                now += _beyond_one(holders[key])
            at.append(max(moment, at[-1]))
            tokens.append(float(now))
        self._at = np.array([*at, at[-1] + 1.0])
        self._sum = np.concatenate(([0.0], np.cumsum(np.array(tokens) * np.diff(self._at))))

    def mean(self, start_s: Numbers, end_s: Numbers) -> Numbers:
        """Tokens, on average over each stretch; shape of both."""
        seconds = np.maximum(end_s - start_s, 1e-12)
        found: Numbers = (np.interp(end_s, self._at, self._sum) - np.interp(start_s, self._at, self._sum)) / seconds
        return found


def as_read(rows: Sequence[Work], twice: ReadTwice, settings: Settings) -> list[Work]:
    """Rows whose `kv_tokens` are those that the pool held, by step, with those that decoding requests read."""
    more = twice.mean(np.array([r.start_s for r in rows]), np.array([r.end_s for r in rows]))
    apart = isinstance(settings, Sglang)
    return [
        replace(r, kv_tokens=r.kv_tokens + float(tokens) * max(0.0, r.steps - (r.prefills if apart else 0.0))) if r.kv_tokens else r
        for r, tokens in zip(rows, more, strict=True)
    ]


def _beyond_one(lengths: Sequence[int]) -> int:
    return sum(lengths) - max(lengths) if len(lengths) > 1 else 0
