"""The workload of one process run, from the records of its requests."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import duckdb

from analyzer.diagnosis.diagnose import rows
from analyzer.language import _
from analyzer.replay.case import from_sglang_lines, from_vllm_counters
from analyzer.replay.case.contents import contents_of
from analyzer.replay.case.from_sglang_lines import admitted
from analyzer.replay.case.pool_seen import PoolSeen, pool_seen
from analyzer.replay.case.prefixes import by_cached_tokens, by_equal_prompts, by_hashes, by_hit_share, by_hit_share_and_pool
from analyzer.replay.case.requests import Records
from analyzer.replay.settings import Settings, Sglang
from analyzer.replay.workload import Request, Workload

# Records that hold less of the server's prompt tokens than this are not all of its load.
_MOST = 0.9
# A shared part below this is no prefix but a few equal tokens.
LEAST_HIT_SHARE = 0.01


def recorded(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, found: Records, settings: Settings) -> Workload:
    """The requests of `found` with the prefixes they share; notes say what is not as recorded."""
    if settings.prefix_caching:
        found = _with_cached_tokens(con, instance, run_id, found, settings)
    pool = pool_seen(con, instance, run_id, found.start, settings) if found.start is not None else None
    requests, said, rebuilt = with_prefixes(found, prefix_caching=settings.prefix_caching, pool=pool)
    if settings.prefix_caching and not any(r.prefix for r in requests) and all(t.cached_tokens is None for t in found.told):
        requests, said = _by_share(con, instance, run_id, found, pool)
        rebuilt = bool(said)
    notes = [*found.notes, *said]
    approximate = found.approximate or rebuilt
    if found.start is not None:
        for note in (_in_flight(con, instance, run_id, found.start), _not_recorded(con, instance, run_id, found)):
            if note:
                notes.append(note)
                approximate = True
    return Workload(tuple(requests), contents_of(requests), found.start, approximate, tuple(notes))


def with_prefixes(found: Records, *, prefix_caching: bool, pool: PoolSeen | None = None) -> tuple[list[Request], list[str], bool]:
    """(requests, notes, whether prefixes were rebuilt) by what the records tell of their prompts."""
    told = found.told
    if any(t.hashes for t in told):
        return by_hashes(told), [], False
    if prefix_caching and any(t.cached_tokens for t in told):
        return by_cached_tokens(told, pool), [_rebuilt_said(pool)], True
    shared = by_equal_prompts(told)
    if any(r.prefix for r in shared):
        return shared, [_("equal prompts are known as equal; prefixes that only a part of them shares are not known")], False
    return [t.request for t in told], [], False


def _rebuilt_said(pool: PoolSeen | None) -> str:
    if pool is None or not pool.reports:
        return _("which requests share a prefix was rebuilt from the tokens they found cached")
    return _("which requests share a prefix was rebuilt from the tokens they found cached and from how much of the pool they held together")


def _with_cached_tokens(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, found: Records, settings: Settings) -> Records:
    """The same with what each request found cached, where the records do not say it and prefill lines or counters do."""
    if found.start is None or any(t.cached_tokens is not None or t.hashes for t in found.told):
        return found
    prompts = [t.request.prompt_tokens for t in found.told]
    if isinstance(settings, Sglang):
        lines = admitted(con, instance, run_id, settings)
        cached = from_sglang_lines.cached_tokens(lines, found.start, prompts) if lines is not None else None
    else:
        cached = from_vllm_counters.cached_tokens(con, instance, run_id, found.start, prompts, settings.block_tokens)
    if cached is None:
        return found
    told = tuple(replace(t, cached_tokens=min(c, t.request.prompt_tokens)) for t, c in zip(found.told, cached, strict=True))
    return replace(found, told=told)


def _by_share(
    con: duckdb.DuckDBPyConnection, instance: str, run_id: str, found: Records, pool: PoolSeen | None
) -> tuple[list[Request], list[str]]:
    requests = [t.request for t in found.told]
    share = hit_share(con, instance, run_id)
    if share is None or share < LEAST_HIT_SHARE:
        return requests, []
    if pool is None or not pool.reports:
        return by_hit_share(requests, share), [one_prefix(share)]
    requests = by_hit_share_and_pool(found.told, share, pool)
    n = len({r.prefix for r in requests if r.prefix})
    if n <= 1:
        return requests, [one_prefix(share)]
    return requests, [
        _(
            "the server found {share:.0%} of prompt tokens cached; not knowing where, requests were given {n} prefixes of one length, so "
            "many that the pool holds what it was seen to hold",
            share=share,
            n=n,
        )
    ]


def one_prefix(share: float) -> str:
    """What is said of `by_hit_share`."""
    return _(
        "the server found {share:.0%} of prompt tokens cached; not knowing where, all requests were given one prefix in common", share=share
    )


def hit_share(con: duckdb.DuckDBPyConnection, instance: str, run_id: str) -> float | None:
    """The share of prompt tokens that a server found cached before it first threw a request out: after that it finds those requests' own.

    Over the whole run where that holds most of the load. None where nothing tells.
    """
    told = rows(
        con,
        """
        WITH first_loss AS (
            SELECT min(ts) AS ts FROM (
                SELECT ts FROM event WHERE instance = $1 AND run_id = $2 AND kind IN ('retraction', 'preemption')
                UNION ALL
                SELECT prev_ts AS ts FROM counter_delta
                WHERE instance = $1 AND run_id = $2 AND name IN ('preemptions_total', 'retracted_requests_total') AND delta > 0
            )
        ),
        found AS (
            SELECT ts, coalesce(cached_tokens, hit_tokens) AS hit, coalesce(cached_tokens + new_tokens, query_tokens) AS asked
            FROM scheduler_clean WHERE instance = $1 AND run_id = $2
        )
        SELECT
            sum(hit) AS hit, sum(asked) AS asked,
            sum(hit) FILTER (WHERE f.ts <= l.ts) AS quiet_hit, sum(asked) FILTER (WHERE f.ts <= l.ts) AS quiet_asked
        FROM found AS f CROSS JOIN first_loss AS l
        WHERE hit IS NOT NULL AND asked IS NOT NULL
        """,
        instance,
        run_id,
    )[0]
    if not told["asked"]:
        return None
    if told["quiet_asked"] and told["quiet_asked"] >= 0.1 * told["asked"]:
        return float(told["quiet_hit"] / told["quiet_asked"])
    return float(told["hit"] / told["asked"])


def _in_flight(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, start: datetime) -> str:
    """Says how many requests the server had in hand when the first recorded one came."""
    before = rows(
        con,
        """
        SELECT arg_max(coalesce(running, 0) + coalesce(waiting, 0), ts)::BIGINT AS n
        FROM scheduler_clean WHERE instance = ? AND run_id = ? AND ts <= ? AND ts > ?
        """,
        instance,
        run_id,
        start,
        start - timedelta(seconds=30),
    )[0]["n"]
    if not before:
        return ""
    return _("the server had {n} requests in hand before the first recorded one; the replay begins with an empty engine", n=before)


def _not_recorded(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, found: Records) -> str:
    """Says how much of the server's load the records do not hold, by the prompt tokens it counted."""
    assert found.start is not None
    counted = rows(
        con,
        """
        SELECT
            sum(delta) AS tokens,
            max(ts) AS until_ts
        FROM counter_delta
        WHERE instance = ? AND run_id = ? AND name = 'prompt_tokens_total' AND part IS NULL AND delta IS NOT NULL AND ts >= ?
        """,
        instance,
        run_id,
        found.start,
    )[0]
    if not counted["tokens"]:
        return ""
    # one engine counts a prompt at its end, another at its first token: the records' side takes in whatever could have counted
    last_s = (counted["until_ts"] - found.start).total_seconds()
    told = sum(t.request.prompt_tokens for t in found.told if t.request.arrival_s <= last_s)
    share = told / counted["tokens"]
    if share >= _MOST:
        return ""
    return _("the records hold {share:.0%} of the prompt tokens that the server counted: it had other load as well", share=share)
