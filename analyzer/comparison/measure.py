"""Everything that is measured of one side, by measurement and source: what can be compared is decided later, from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from analyzer.comparison.latency import HISTOGRAM, REQUESTS, from_values, ttft
from analyzer.comparison.model import Measurement
from analyzer.comparison.side import Side
from analyzer.diagnosis.diagnose import rows
from analyzer.diagnosis.model import Window
from analyzer.language import _

# Measurement to source to value, the source to be preferred first.
Measured = dict[str, dict[str, Measurement]]
_BUSY_S = 60.0


def measure(side: Side) -> tuple[Measured, Window]:
    """All measurements of a side, and the time they tell of (first to last report or arrival)."""
    con, instance = side.trace.con, side.instance.instance
    window = extent(con, instance)
    seconds = length(window)
    found = ttft(con, instance)
    requests, arrivals = _requests(con, instance, seconds)
    _merge(found, requests)
    counters = _counters(con, instance)
    _merge(found, _counted(con, instance, counters, arrivals, seconds))
    _merge(found, _load(con, instance))
    _merge(found, _trouble(side, seconds))
    _merge(found, _thrown_out(side, arrivals, seconds))
    _merge(found, _cache(con, instance, arrivals))
    return found, window


def extent(con: duckdb.DuckDBPyConnection, instance: str) -> Window:
    """From the first to the last report or arrival of an instance."""
    first, last = con.execute(
        "SELECT min(bucket_ts), max(bucket_ts + to_seconds(bucket_s)) FROM timeline WHERE instance = ?", [instance]
    ).fetchall()[0]
    return Window(first, last)


def length(window: Window) -> float | None:
    """Its length in seconds; None where an end is unknown."""
    return (window.end - window.start).total_seconds() if window.start and window.end else None


def _merge(found: Measured, more: Mapping[str, Mapping[str, Measurement]]) -> None:
    for name, by_source in more.items():
        found.setdefault(name, {}).update(by_source)


def _put(found: Measured, name: str, source: str, value: float | None, **more: Any) -> None:
    if value is not None:
        found.setdefault(name, {})[source] = Measurement(value, source=source, **more)


def _requests(con: duckdb.DuckDBPyConnection, instance: str, seconds: float | None) -> tuple[Measured, dict[str, float]]:
    """What each observer's request records tell, and how many requests that were."""
    found: Measured = {}
    arrivals: dict[str, float] = {}
    sql = f"""
    WITH asked AS ({REQUESTS})
    SELECT
        observer, count(*) AS n, count(*) FILTER (WHERE status = 'error') AS errors,
        count(*) FILTER (WHERE status = 'unfinished' AND ttft_s IS NULL) AS censored,
        avg(queue_s) AS queue_s, avg(itl_mean_s) AS itl_s, avg(prompt_tokens) AS prompt, avg(output_tokens) AS output,
        list(epoch_us(from_ts) / 1e6 ORDER BY from_ts) FILTER (WHERE from_ts IS NOT NULL) AS times,
        list(prompt_tokens::DOUBLE ORDER BY prompt_tokens) FILTER (WHERE prompt_tokens IS NOT NULL) AS prompts
    FROM asked GROUP BY observer
    ORDER BY CASE observer WHEN 'client' THEN 0 WHEN 'frontend' THEN 1 ELSE 2 END
    """
    cursor = con.execute(sql, {"instance": instance})
    names = [d[0] for d in cursor.description or []]
    for row in (dict(zip(names, values, strict=True)) for values in cursor.fetchall()):
        source, n = row["observer"], row["n"]
        times: Sequence[float] = row["times"] or ()
        if times:
            arrivals[source] = len(times)
            _put(found, "arrival_rate", source, len(times) / seconds if seconds else None, n=len(times))
            _put(found, "arrival_rate_busy", source, busy_rate([(t, 1.0) for t in times]), n=len(times))
        _put(found, "error_share", source, row["errors"] / n, n=row["errors"], of=n)
        _put(found, "unanswered_share", source, row["censored"] / n, n=row["censored"], of=n)
        _put(found, "queue_wait", source, row["queue_s"], n=n)
        _put(found, "itl", source, row["itl_s"], n=n)
        _put(found, "prompt_tokens", source, row["prompt"], n=n)
        _put(found, "output_tokens", source, row["output"], n=n)
        if prompts := row["prompts"]:
            found.setdefault("prompt_tokens_p95", {})[source] = from_values(prompts, prompts, 0.95, source)
    return found, arrivals


def busy_rate(counted: Sequence[tuple[float, float]]) -> float | None:
    """Requests/s as the mean request met it: the rate in its own minute, itself left out.

    `counted` are (epoch second, requests). Idle time before, between and after loads does not lower it, so that two captures
    of one load agree whatever their lengths. Of arrivals by chance it is the true rate. None for fewer than two.
    """
    if not counted:
        return None
    first = min(t for t, _ in counted)
    width = max(1.0, min(_BUSY_S, max(t for t, _ in counted) - first))
    minutes: dict[int, float] = {}
    for t, n in counted:
        # The last moment belongs to the last whole minute, not to one of its own.
        minutes[int((t - first) / width - 1e-9)] = minutes.get(int((t - first) / width - 1e-9), 0.0) + n
    total = sum(minutes.values())
    return sum(n * max(0.0, n - 1) for n in minutes.values()) / total / width if total > 1 else None


def _counters(con: duckdb.DuckDBPyConnection, instance: str) -> dict[tuple[str, str], float]:
    """What counters rose by between the scrapes of the side, by (name, part)."""
    return {
        (name, part): total
        for name, part, total in con.execute(
            """
            SELECT name, coalesce(part, ''), sum(delta)
            FROM counter_delta
            WHERE instance = ? AND delta IS NOT NULL AND part IS DISTINCT FROM 'bucket'
                AND coalesce(prev_ts >= getvariable('since')::TIMESTAMPTZ, true)
                AND name IN (
                    'ttft_s', 'queue_s', 'itl_s', 'request_prompt_tokens', 'request_output_tokens', 'prompt_tokens_total',
                    'generation_tokens_total'
                )
            GROUP BY ALL
            """,
            [instance],
        ).fetchall()
    }


def _counted(
    con: duckdb.DuckDBPyConnection,
    instance: str,
    counters: Mapping[tuple[str, str], float],
    arrivals: dict[str, float],
    seconds: float | None,
) -> Measured:
    """The same from the engine's counters, and from its log where that tells admissions."""
    found: Measured = {}

    def mean(name: str, of: str) -> None:
        total, n = counters.get((of, "sum")), counters.get((of, "count"))
        if total is not None and n:
            _put(found, name, HISTOGRAM, total / n, n=round(n))

    mean("queue_wait", "queue_s")
    mean("itl", "itl_s")
    mean("prompt_tokens", "request_prompt_tokens")
    mean("output_tokens", "request_output_tokens")
    first_tokens = counters.get(("ttft_s", "count"))
    if first_tokens:
        arrivals["counter"] = first_tokens
        _put(found, "arrival_rate", "counter", first_tokens / seconds if seconds else None, n=round(first_tokens))
        steps = con.execute(
            "SELECT epoch_us(ts) / 1e6, sum(delta) FROM counter_delta WHERE instance = ? AND name = 'ttft_s' AND part = 'count' "
            "AND delta > 0 AND coalesce(prev_ts >= getvariable('since')::TIMESTAMPTZ, true) GROUP BY ts ORDER BY ts",
            [instance],
        ).fetchall()
        _put(found, "arrival_rate_busy", "counter", busy_rate(steps), n=round(first_tokens))
        for name, of in (("prompt_tokens", "prompt_tokens_total"), ("output_tokens", "generation_tokens_total")):
            if (total := counters.get((of, ""))) is not None:
                _put(found, name, "counter", total / first_tokens, n=round(first_tokens))
    steps = con.execute(
        "SELECT epoch_us(ts) / 1e6, sum(admitted) FROM _wait WHERE instance = ? AND admitted > 0 GROUP BY ts ORDER BY ts", [instance]
    ).fetchall()
    admitted = sum(n for _, n in steps)
    if admitted >= 1:
        arrivals["estimate"] = admitted
        _put(found, "arrival_rate", "estimate", admitted / seconds if seconds else None, n=round(admitted))
        _put(found, "arrival_rate_busy", "estimate", busy_rate(steps), n=round(admitted))
        waited, prompts = con.execute(
            "SELECT (SELECT sum(waiting * dwell_s) FROM _load WHERE instance = $1), "
            "(SELECT sum(new_tokens + coalesce(cached_tokens, 0)) FROM scheduler_clean WHERE instance = $1 AND kind = 'prefill')",
            [instance],
        ).fetchall()[0]
        _put(found, "queue_wait", "estimate", None if waited is None else waited / admitted, n=round(admitted))
        _put(found, "prompt_tokens", "estimate", None if prompts is None else prompts / admitted, n=round(admitted))
    return found


def _load(con: duckdb.DuckDBPyConnection, instance: str) -> Measured:
    """Gauges over time, their peaks, and throughput while requests ran."""
    found: Measured = {}
    peak = rows(con, "SELECT * FROM peaks WHERE instance = ?", instance)[0]
    basis = peak["basis"] or ""
    over = rows(
        con,
        """
        SELECT
            avg(waiting_mean) AS waiting, avg(running_mean) AS running, avg(kv_usage_mean) AS kv_usage,
            avg(gen_tps) FILTER (WHERE running_max > 0 OR waiting_max > 0) AS decode_tps,
            avg(prompt_tps) FILTER (WHERE running_max > 0 OR waiting_max > 0) AS prompt_tps,
            sum(bucket_s) FILTER (WHERE running_max > 0 OR waiting_max > 0) AS busy_s
        FROM signal_load WHERE instance = ?
        """,
        instance,
    )[0]
    # SGLang's throughput of a prefill says nothing of the time between two: its tokens are added up instead.
    computed = rows(con, "SELECT sum(coalesce(new_tokens, query_tokens - hit_tokens)) AS n FROM _report WHERE instance = ?", instance)[0][
        "n"
    ]
    prefill = over["prompt_tps"] if computed is None else computed / over["busy_s"] if over["busy_s"] else None
    for name, value in (
        ("waiting_peak", peak["waiting"]),
        ("waiting_mean", over["waiting"]),
        ("running_peak", peak["running"]),
        ("running_mean", over["running"]),
        ("kv_usage_peak", peak["kv_usage"]),
        ("kv_usage_mean", over["kv_usage"]),
        ("prefill_tps", prefill),
        ("decode_tps", over["decode_tps"]),
    ):
        _put(found, name, basis, value, n=peak["reports"])
    capacity = rows(con, "SELECT capacity_tokens FROM q14_config WHERE instance = ? AND incident = 1", instance)
    _put(found, "l1_capacity", "fact", capacity[0]["capacity_tokens"] if capacity else None)
    return found


def _trouble(side: Side, seconds: float | None) -> Measured:
    """How long incidents were. Nothing is said of a side that cannot tell whether there was one."""
    found: Measured = {}
    broke = rows(side.trace.con, "SELECT start_ts, end_ts FROM incident WHERE instance = ? AND broke", side.instance.instance)
    # Of a process that died, and of slow tokens, queueing is not what went wrong.
    if side.instance.verdict.cause in ("crash", "restart", "decode_bound") or (
        not broke and side.instance.verdict.cause == "insufficient_data"
    ):
        return found
    spent = sum((r["end_ts"] - r["start_ts"]).total_seconds() for r in broke if r["start_ts"] and r["end_ts"])
    # What finds incidents must be the same on both sides: queueing, or slow first tokens alone.
    told = rows(side.trace.con, "SELECT waiting FROM peaks WHERE instance = ?", side.instance.instance)
    source = "queue" if told and told[0]["waiting"] is not None else "first tokens"
    _put(found, "incidents", source, float(len(broke)))
    _put(found, "incident_s", source, spent)
    _put(found, "incident_share", source, min(1.0, spent / seconds) if seconds else None)
    return found


def _thrown_out(side: Side, arrivals: Mapping[str, float], seconds: float | None) -> Measured:
    """Retracted (SGLang) or preempted (vLLM) requests; nothing where the engine does not show them."""
    found: Measured = {}
    told = rows(side.trace.con, "SELECT * FROM q06_retraction WHERE instance = ? AND incident = 1", side.instance.instance)
    if not told:
        return found
    peaks = side.instance.peaks
    n = peaks.preemptions if side.instance.engine == "vllm" else peaks.retracted_requests
    if n is None:
        return found
    counter = told[0]["visible"] == "counter"
    source = "counter" if counter else "log"
    # vLLM V0 prints every fiftieth, with the count so far.
    short = side.instance.engine == "vllm" and not counter
    note = _("at least: vLLM V0 prints its count at every fiftieth") if short else ""
    _put(found, "thrown_out", source, float(n), n=n, of=seconds and seconds / 3600, at_least=short, note=note)
    # All requests of the engine, where it counts them; a client may be one of several.
    for of in ("counter", "engine", "frontend", "client", "estimate"):
        if arrivals.get(of):
            _put(found, "thrown_out_per_1000", source, n / arrivals[of] * 1000, n=n, of=arrivals[of], at_least=short, note=note)
            break
    if seconds:
        _put(found, "thrown_out_per_hour", source, n / seconds * 3600, n=n, of=seconds / 3600, at_least=short, note=note)
    if (share := told[0]["recompute_share"]) is not None:
        _put(found, "recompute_share", told[0]["recompute_by"] or source, share)
    elif n == 0 and side.instance.incidents:
        # Nothing thrown out is nothing recomputed, however it would have been counted.
        for of in ("counter", "log", "estimate"):
            _put(found, "recompute_share", of, 0.0)
    return found


def _cache(con: duckdb.DuckDBPyConnection, instance: str, arrivals: Mapping[str, float]) -> Measured:
    """Prefix hits of L1, and what L2 gave."""
    found: Measured = {}
    hit = rows(
        con,
        """
        SELECT
            sum(coalesce(cached_tokens, hit_tokens)) / nullif(sum(coalesce(cached_tokens, hit_tokens)
                + coalesce(new_tokens, query_tokens - hit_tokens)), 0) AS counted,
            arg_max(prefix_hit_share, ts) FILTER (WHERE prefix_hit_share IS NOT NULL) AS reported,
            any_value(basis) FILTER (WHERE coalesce(cached_tokens, hit_tokens) IS NOT NULL) AS basis
        FROM _report WHERE instance = ?
        """,
        instance,
    )[0]
    _put(found, "hit_share", hit["basis"] or "", hit["counted"])
    _put(found, "hit_share", "reported", hit["reported"])
    told = rows(con, "SELECT * FROM q08_l2 WHERE instance = ? AND incident = 1", instance)
    if not told:
        return found
    l2 = told[0]
    source = l2["l2_moved_by"] or ""
    if l2["lookup_tokens"] and l2["hit_tokens"] is not None:
        _put(found, "l2_hit_share", source, l2["hit_tokens"] / l2["lookup_tokens"])
    requests = next((arrivals[s] for s in ("counter", "engine", "frontend", "client", "estimate") if arrivals.get(s)), None)
    if requests and l2["loaded_tokens"] is not None:
        _put(found, "l2_loaded_per_request", source, l2["loaded_tokens"] / requests)
    _put(found, "l2_used_share", "metrics", l2["used_share_max"])
    return found
