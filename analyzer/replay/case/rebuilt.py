"""The workload of one process run without records of its requests, from what its log and metrics add up to."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import duckdb

from analyzer.diagnosis.diagnose import rows
from analyzer.language import _
from analyzer.replay.case.contents import contents_of
from analyzer.replay.case.facts import Facts, version_of
from analyzer.replay.case.from_scrapes import from_scrapes, limits
from analyzer.replay.case.from_sglang_lines import from_sglang_lines
from analyzer.replay.case.from_stats_lines import from_stats_lines
from analyzer.replay.case.prefixes import by_hit_share
from analyzer.replay.case.recorded import LEAST_HIT_SHARE, hit_share, one_prefix
from analyzer.replay.case.seen import Seen
from analyzer.replay.settings import Settings, Sglang
from analyzer.replay.workload import Request, Workload


def rebuilt(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, settings: Settings) -> Workload | None:
    """The load as the best source tells of it, always approximate; None where nothing does."""
    found, how = _seen(con, instance, run_id, settings)
    if found is None or not found[1]:
        return None
    start, seen = found
    notes = [how]
    longest = limits(con, instance, run_id, len(seen))
    if longest is None:
        notes.append(_("how many tokens requests asked for is not known: taken as the lengths of their outputs"))
    requests = _requests(seen, longest)
    if from_sglangs_benchmark(con, instance):
        requests = [replace(r, ignore_eos=True) for r in requests]
        notes.append(_("sglang.bench_serving has answers go on to their limit (ignore_eos) unless told otherwise: taken so"))
    if settings.prefix_caching:
        requests, note = _with_prefixes(con, instance, run_id, requests, seen)
        notes += [note] if note else []
    return Workload(tuple(requests), contents_of(requests), start, True, tuple(notes))


def _seen(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, settings: Settings) -> tuple[tuple[datetime, list[Seen]] | None, str]:
    """What was rebuilt, and in words from what."""
    if isinstance(settings, Sglang):
        found = from_sglang_lines(con, instance, run_id, settings)
        if found is not None:
            return found, _(
                "there are no records of requests: arrivals and lengths were rebuilt from prefill and decode lines, evenly between them"
            )
    found = from_scrapes(con, instance, run_id, "sglang" if isinstance(settings, Sglang) else "vllm")
    if found is not None or isinstance(settings, Sglang):
        return found, _(
            "there are no records of requests: arrivals were rebuilt from counters, evenly between scrapes, lengths from their totals"
        )
    _text, version = version_of(con, Facts(con, instance, run_id))
    return from_stats_lines(con, instance, run_id, settings, version), _(
        "there are no records of requests: arrivals were rebuilt from stats lines, with one length for all from KV usage and "
        "throughputs, which is rough where prompts share prefixes"
    )


def _requests(seen: list[Seen], longest: list[int] | None) -> list[Request]:
    asked = [s.output_tokens for s in seen]
    if longest is not None:
        # whoever made more had asked for more
        by_length = sorted(range(len(seen)), key=lambda k: (seen[k].output_tokens, k))
        for k, limit in zip(by_length, sorted(longest), strict=True):
            asked[k] = max(asked[k], limit)
    return [Request(f"rebuilt {k}", s.arrival_s, s.prompt_tokens, s.output_tokens, asked[k]) for k, s in enumerate(seen)]


def from_sglangs_benchmark(con: duckdb.DuckDBPyConnection, instance: str) -> bool:
    """Whether all records of its requests are those of SGLang's benchmark; they have no arrivals, but tell who sent them."""
    told = rows(
        con,
        """
        SELECT coalesce(bool_and(s.format = 'sglang_bench'), false) AS bench
        FROM (SELECT DISTINCT source_id FROM requests WHERE instance = ?) AS r JOIN sources AS s USING (source_id)
        """,
        instance,
    )
    return bool(told[0]["bench"])


def _with_prefixes(
    con: duckdb.DuckDBPyConnection, instance: str, run_id: str, requests: list[Request], seen: list[Seen]
) -> tuple[list[Request], str]:
    found = [s for s in seen if s.cached_tokens is not None]
    share: float | None
    if found:
        share = sum(s.cached_tokens or 0 for s in found) / sum(s.prompt_tokens for s in found)
    else:
        share = hit_share(con, instance, run_id)
    if share is None or share < LEAST_HIT_SHARE:
        return requests, ""
    return by_hit_share(requests, share), one_prefix(share)
