-- What KV transfers took, as far as it was told: counts and seconds between scrapes, a gauge of the last one, or vLLM's line
-- of every few seconds. `failed` counts transfers and handshakes that failed, and KV that was freed because nobody fetched it.
CREATE OR REPLACE VIEW _transfer AS
SELECT
    instance,
    ts,
    sum(delta) FILTER (WHERE part = 'count') AS transfers,
    sum(delta) FILTER (WHERE part = 'sum') AS transfer_s,
    sum(delta) FILTER (WHERE part IS NULL) AS failed
FROM counter_delta
WHERE delta IS NOT NULL AND (
    name = 'transfer_s' AND part IN ('sum', 'count')
    OR part IS NULL AND name IN ('transfer_failures_total', 'bootstrap_failures_total', 'transfer_expired_total')
)
GROUP BY instance, ts
UNION ALL BY NAME
SELECT instance, ts, 1.0 AS transfers, avg(value) AS transfer_s
FROM _sample
WHERE name = 'transfer_s' AND part IS NULL AND value > 0
    AND ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
    AND ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
GROUP BY instance, ts
UNION ALL BY NAME
SELECT
    instance,
    ts,
    try_cast(extra['Num successful transfers'] AS DOUBLE) AS transfers,
    try_cast(extra['Num successful transfers'] AS DOUBLE) * try_cast(extra['Avg xfer time (ms)'] AS DOUBLE) / 1000 AS transfer_s,
    try_cast(extra['Num failed transfers'] AS DOUBLE) AS failed
FROM scheduler
WHERE kind = 'companion' AND extra['Num successful transfers'] IS NOT NULL
    AND ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
    AND ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ);

-- 12. Prefill/decode disaggregation: for each of its queues the highest level, how much waiting came together in it
-- (requests x s), and the time from when it was half as long as at its peak (`_from_ts`, `_peak_ts`, `_until_ts`). What a
-- transfer took while the transfer queues were long (`transfer_held_s`) and at its fastest (`transfer_usual_s`). The other side, if
-- it is in the capture too, by its fullest usage and its queues. `pd_reports` is 0 without PD.
CREATE OR REPLACE VIEW q12_pd AS
WITH levels AS (
    SELECT
        instance,
        ts,
        dwell_s,
        pool_usage,
        unnest([
            {'queue': 'bootstrap', 'n': bootstrap_reqs},
            {'queue': 'inflight', 'n': inflight_reqs},
            {'queue': 'prealloc', 'n': prealloc_reqs},
            {'queue': 'transfer', 'n': transfer_reqs},
            {'queue': 'kv_fetch', 'n': kv_fetch_waiting + kv_fetch_loading}
        ], recursive := true)
    FROM _report
    WHERE coalesce(bootstrap_reqs, inflight_reqs, prealloc_reqs, transfer_reqs, kv_fetch_loading) IS NOT NULL
),
peaked AS (
    SELECT *, max(n) OVER (PARTITION BY instance, queue) AS peak FROM levels WHERE n IS NOT NULL
),
queues AS (
    SELECT
        instance,
        queue,
        max(n) AS n_max,
        sum(n * dwell_s) AS request_s,
        min(ts) FILTER (WHERE n > 0 AND n >= peak / 2) AS from_ts,
        min(ts) FILTER (WHERE n > 0 AND n = peak) AS peak_ts,
        max(ts) FILTER (WHERE n > 0 AND n >= peak / 2) AS until_ts,
        median(pool_usage) FILTER (WHERE n > 0 AND n >= peak / 2) AS usage_p50
    FROM peaked
    GROUP BY instance, queue
),
wide AS (
    SELECT
        instance,
        max(n_max) FILTER (WHERE queue = 'bootstrap') AS bootstrap_max,
        max(n_max) FILTER (WHERE queue = 'inflight') AS inflight_max,
        max(n_max) FILTER (WHERE queue = 'prealloc') AS prealloc_max,
        max(n_max) FILTER (WHERE queue = 'transfer') AS transfer_max,
        max(n_max) FILTER (WHERE queue = 'kv_fetch') AS kv_fetch_max,
        max(request_s) FILTER (WHERE queue = 'bootstrap') AS bootstrap_request_s,
        max(request_s) FILTER (WHERE queue = 'inflight') AS inflight_request_s,
        max(request_s) FILTER (WHERE queue = 'prealloc') AS prealloc_request_s,
        max(request_s) FILTER (WHERE queue = 'transfer') AS transfer_request_s,
        max(request_s) FILTER (WHERE queue = 'kv_fetch') AS kv_fetch_request_s,
        max({'from_ts': from_ts, 'peak_ts': peak_ts, 'until_ts': until_ts}) FILTER (WHERE queue = 'bootstrap') AS bootstrap,
        max({'from_ts': from_ts, 'peak_ts': peak_ts, 'until_ts': until_ts}) FILTER (WHERE queue = 'inflight') AS inflight,
        max({'from_ts': from_ts, 'peak_ts': peak_ts, 'until_ts': until_ts}) FILTER (WHERE queue = 'prealloc') AS prealloc,
        max({'from_ts': from_ts, 'peak_ts': peak_ts, 'until_ts': until_ts}) FILTER (WHERE queue = 'transfer') AS transfer,
        max({'from_ts': from_ts, 'peak_ts': peak_ts, 'until_ts': until_ts}) FILTER (WHERE queue = 'kv_fetch') AS kv_fetch,
        max(usage_p50) FILTER (WHERE queue IN ('transfer', 'inflight', 'kv_fetch')) AS usage_transfer_p50,
        min(from_ts) FILTER (WHERE queue IN ('transfer', 'inflight', 'kv_fetch')) AS held_from_ts,
        max(until_ts) FILTER (WHERE queue IN ('transfer', 'inflight', 'kv_fetch')) AS held_until_ts
    FROM queues
    GROUP BY instance
),
sides AS (
    SELECT
        instance,
        count(*) FILTER (WHERE role IN ('prefill', 'decode')) AS pd_reports,
        any_value(role) AS role,
        max(retracted_reqs) AS retracted_level_max,
        median(pool_usage) FILTER (WHERE prealloc_reqs > 0) AS usage_prealloc_p50,
        max(pool_usage) AS usage_max
    FROM _report
    GROUP BY instance
),
moved AS (
    SELECT
        t.instance,
        sum(t.transfers) AS transfers,
        sum(t.failed) AS transfer_failures,
        sum(t.transfer_s) FILTER (WHERE t.ts BETWEEN w.held_from_ts AND w.held_until_ts + INTERVAL 10 SECOND)
            / nullif(sum(t.transfers) FILTER (WHERE t.ts BETWEEN w.held_from_ts AND w.held_until_ts + INTERVAL 10 SECOND), 0) AS transfer_held_s,
        quantile_disc(t.transfer_s / nullif(t.transfers, 0), 0.1) FILTER (WHERE t.transfers > 0) AS transfer_usual_s
    FROM _transfer AS t
    LEFT JOIN wide AS w USING (instance)
    GROUP BY t.instance
)
SELECT
    i.instance,
    coalesce(s.pd_reports, 0) AS pd_reports,
    s.role,
    w.bootstrap_max,
    w.inflight_max,
    w.prealloc_max,
    w.transfer_max,
    s.retracted_level_max,
    w.kv_fetch_max,
    w.bootstrap_request_s,
    w.inflight_request_s,
    w.prealloc_request_s,
    w.transfer_request_s,
    w.kv_fetch_request_s,
    w.bootstrap.from_ts AS bootstrap_from_ts,
    w.bootstrap.peak_ts AS bootstrap_peak_ts,
    w.bootstrap.until_ts AS bootstrap_until_ts,
    w.inflight.from_ts AS inflight_from_ts,
    w.inflight.peak_ts AS inflight_peak_ts,
    w.inflight.until_ts AS inflight_until_ts,
    w.prealloc.from_ts AS prealloc_from_ts,
    w.prealloc.peak_ts AS prealloc_peak_ts,
    w.prealloc.until_ts AS prealloc_until_ts,
    w.transfer.from_ts AS transfer_from_ts,
    w.transfer.peak_ts AS transfer_peak_ts,
    w.transfer.until_ts AS transfer_until_ts,
    w.kv_fetch.from_ts AS kv_fetch_from_ts,
    w.kv_fetch.peak_ts AS kv_fetch_peak_ts,
    w.kv_fetch.until_ts AS kv_fetch_until_ts,
    s.usage_prealloc_p50,
    w.usage_transfer_p50,
    m.transfers,
    m.transfer_held_s,
    m.transfer_usual_s,
    m.transfer_failures,
    o.instance AS other_instance,
    o.role AS other_role,
    o.usage_max AS other_usage_max,
    ow.prealloc_max AS other_prealloc_max,
    ow.transfer_max AS other_transfer_max,
    ow.inflight_max AS other_inflight_max
FROM _instance AS i
LEFT JOIN sides AS s USING (instance)
LEFT JOIN wide AS w USING (instance)
LEFT JOIN moved AS m USING (instance)
LEFT JOIN sides AS o ON o.instance <> i.instance AND o.role IN ('prefill', 'decode') AND s.role IN ('prefill', 'decode') AND o.role <> s.role
LEFT JOIN wide AS ow ON ow.instance = o.instance
QUALIFY row_number() OVER (
    PARTITION BY i.instance ORDER BY greatest(ow.prealloc_max, ow.transfer_max, ow.inflight_max, 0) DESC, o.instance
) = 1;
