"""The cap on running requests, where the gauges show it: as many run whenever requests wait, with room in the KV pool."""

from __future__ import annotations

import duckdb

from analyzer.diagnosis.diagnose import rows
from analyzer.language import _
from analyzer.replay.case.rows_of_settings import Chosen

# With less of the pool in use than this, a request that waits does not wait for the pool.
_ROOM = 0.8
_LEAST_SAMPLES = 10
# So many of the samples show the cap itself, and so many no more than one less: one request has ended and the next is not in yet.
_AT = 0.5
_NEAR = 0.9
# One request at a time is what a server does, too, that is busy with prefill.
_LEAST_CAP = 2


def measured_cap(con: duckdb.DuckDBPyConnection, chosen: Chosen) -> int | None:
    """The cap of the run whose settings are chosen, taken as its `max_running`; None where the gauges show none."""
    cap = cap_seen(con, chosen.facts.instance, chosen.facts.run_id)
    if cap is not None:
        chosen.measure("max_running", cap, _("as many ran whenever others waited, with room in the KV pool"))
    return cap


def cap_seen(con: duckdb.DuckDBPyConnection, instance: str, run_id: str) -> int | None:
    """The requests that run at once whenever others wait, while first tokens still come; None where the gauges do not stand still so."""
    told = rows(
        con,
        """
        WITH seen AS (
            SELECT ts, running, waiting, kv_usage, max(running) OVER () AS most
            FROM scheduler_clean
            WHERE instance = $1 AND run_id = $2 AND basis = 'metrics' AND running IS NOT NULL
        ),
        begun AS (
            SELECT ts FROM counter_delta
            WHERE instance = $1 AND run_id = $2 AND name = 'ttft_s' AND part = 'count'
            GROUP BY ts
            HAVING sum(delta) > 0
        )
        SELECT
            any_value(most)::BIGINT AS most,
            count(*) AS samples,
            count(*) FILTER (WHERE running = most) AS at_most,
            count(*) FILTER (WHERE running >= most - 1) AS near
        FROM seen
        -- a server that hangs stands still as well, and begins nothing
        WHERE waiting > 0 AND kv_usage < $3 AND ts IN (SELECT ts FROM begun)
        """,
        instance,
        run_id,
        _ROOM,
    )[0]
    most, samples = told["most"], told["samples"]
    if most is None or most < _LEAST_CAP or samples < _LEAST_SAMPLES:
        return None
    return int(most) if told["at_most"] >= _AT * samples and told["near"] >= _NEAR * samples else None
