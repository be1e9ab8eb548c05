"""What each recorded request found cached in vLLM, which counts prompt tokens looked up and found when it admits a request."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb
import numpy as np

from analyzer.replay.case.cached_counts import evenly, split_cached, split_with_one_odd

# Counted tokens that differ by more than this share from those of the records are of other requests too, or of one more than once.
_NOT_THE_SAME = 0.05
# Requests are admitted in the order in which they came, so that a count by a scrape is the sum of the first so many prompts. Were it of
# others, it would be off by a quarter of a prompt on average.
_OFF = 0.1
# So many scrapes with requests, before and after, tell which counts of cached tokens are usual at the time.
_NEAR = 20
# Fewer scrapes than this that could have found a count make it no usual one.
_USUAL = 2

_COUNTED = """
SELECT epoch(prev_ts) - epoch($start::TIMESTAMPTZ) AS begin_s, sum(asked), sum(found)
FROM (
    SELECT
        ts, prev_ts,
        sum(delta) FILTER (WHERE name = 'prefix_query_tokens_total') AS asked,
        sum(delta) FILTER (WHERE name = 'prefix_hit_tokens_total') AS found
    FROM counter_delta
    WHERE instance = $instance AND run_id = $run AND name IN ('prefix_query_tokens_total', 'prefix_hit_tokens_total')
        AND part IS NULL AND delta IS NOT NULL AND ts >= $start::TIMESTAMPTZ
    GROUP BY ts, prev_ts
)
WHERE asked > 0
GROUP BY begin_s ORDER BY begin_s
"""


@dataclass(frozen=True, slots=True)
class _Looked:
    """The requests `first` to `last` (excluded) in the order of arrival, admitted between two scrapes, and what all of them found."""

    first: int
    last: int
    found: int

    @property
    def n(self) -> int:
        return self.last - self.first


def cached_tokens(
    con: duckdb.DuckDBPyConnection, instance: str, run_id: str, start: datetime, prompts: Sequence[int], block_tokens: int
) -> list[int] | None:
    """What each recorded request found cached when it was admitted, in the order of arrival; None where the counters are not of the same
    requests.

    `start` is the first one's arrival, `prompts` are their lengths. Between two scrapes the sum is known: see `split_cached`.
    """
    bound = {"instance": instance, "run": run_id, "start": start}
    counted = [(float(asked), float(found or 0.0)) for _at, asked, found in con.execute(_COUNTED, bound).fetchall()]
    looked = _placed(counted, prompts)
    if looked is None:
        return None
    votes = [_equal_count(one, block_tokens) for one in looked]
    out = [0] * len(prompts)
    for nth, one in enumerate(looked):
        voted = Counter(v for v in votes[max(0, nth - _NEAR) : nth + _NEAR + 1] if v)
        near = Counter({tokens: n for tokens, n in voted.items() if n >= _USUAL})
        out[one.first : one.last] = (
            split_cached(one.found, one.n, near) or split_with_one_odd(one.found, one.n, near) or evenly(one.found, one.n)
        )
    return out


def _placed(counted: Sequence[tuple[float, float]], prompts: Sequence[int]) -> list[_Looked] | None:
    """Which requests each scrape counted; None where they are not those of `prompts`."""
    total = sum(asked for asked, _found in counted)
    so_far = np.cumsum(np.asarray(prompts, dtype=np.float64))
    if not len(so_far) or abs(total - so_far[-1]) > _NOT_THE_SAME * so_far[-1]:
        return None
    edges = np.concatenate(([0.0], so_far))
    out, off, first, done = [], [], 0, 0.0
    for asked, found in counted:
        done += asked
        at = bisect_left(edges, done)
        last = min((k for k in (at - 1, at) if 0 <= k < len(edges)), key=lambda k: abs(edges[k] - done))
        off.append(abs(float(edges[last]) - done))
        if last > first:
            out.append(_Looked(first, last, round(found)))
            first = last
        elif out:
            out[-1] = _Looked(out[-1].first, out[-1].last, out[-1].found + round(found))
    return out if np.mean(off) <= _OFF * np.mean(prompts) else None


def _equal_count(looked: _Looked, block_tokens: int) -> int | None:
    """What each of them found, in tokens, where all may have found as many whole blocks."""
    each, rest = divmod(looked.found, looked.n)
    return each if not rest and each % block_tokens == 0 else None
