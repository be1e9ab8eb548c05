-- TTFT by histogram, before and after the incident, inside it, and in all: what the buckets rose by, and the quantiles.
CREATE OR REPLACE VIEW _ttft_histogram AS
WITH risen AS (
    SELECT
        l.instance,
        unnest(['all', CASE WHEN l.ts >= i.start_ts AND l.prev_ts <= i.end_ts THEN 'inside' ELSE 'outside' END]) AS span,
        l.le,
        l.n,
        l.told
    FROM _latency_rise AS l
    JOIN incident AS i USING (instance)
    WHERE l.what = 'ttft'
),
bounds AS (
    SELECT instance, span, le, sum(n) AS n, sum(told) AS told FROM risen GROUP BY ALL
),
shared AS (
    SELECT * FROM bounds QUALIFY told = max(told) OVER (PARTITION BY instance, span)
),
lists AS (
    SELECT instance, span, list(le ORDER BY le) AS le, _cumulative(list(n ORDER BY le)) AS n FROM shared GROUP BY ALL
)
SELECT instance, span, n[-1]::BIGINT AS n, _quantile(le, n, 0.50) AS p50, _quantile(le, n, 0.99) AS p99
FROM lists
WHERE n[-1] > 0;

-- 1. Did TTFT break? Percentiles (seconds) before and inside the incident from one observer's requests, else from
-- histograms (`observer` is then `histogram`, with the bounds between which the P99 lies), and the estimated queue
-- wait, which is no TTFT. A P99 among requests that were pending at the end is infinite, and `at_least` bounds it;
-- percentiles of the finished ones alone are too low.
CREATE OR REPLACE VIEW q01_ttft AS
WITH ends AS (
    SELECT
        instance,
        max(greatest(finish_ts, first_token_ts, arrival_ts, ts)) AS last_ts,
        count(*) AS requests_n,
        count(*) FILTER (WHERE status = 'error') AS errors_n
    FROM request_best
    GROUP BY instance
),
known AS (
    SELECT
        r.instance,
        r.observer,
        -- one that is pending at the end has waited this long at least
        coalesce(r.ttft_s, epoch(e.last_ts - r.arrival_ts), 0.0) AS at_least_s,
        CASE WHEN r.censored AND r.ttft_s IS NULL THEN 'infinity'::DOUBLE ELSE r.ttft_s END AS ttft_s,
        r.censored AND r.ttft_s IS NULL AS censored,
        coalesce(r.arrival_ts, r.ts) IS NOT NULL AS placed,
        -- its wait for the first token and the incident share a moment
        coalesce(
            coalesce(r.arrival_ts, r.ts) <= i.end_ts
                AND coalesce(r.first_token_ts, r.arrival_ts + to_microseconds((r.ttft_s * 1e6)::BIGINT), e.last_ts) >= i.start_ts,
            false
        ) AS inside
    FROM request_best AS r
    JOIN incident AS i USING (instance)
    JOIN ends AS e USING (instance)
    WHERE r.ttft_s IS NOT NULL OR r.censored
),
exact AS (
    SELECT
        instance,
        any_value(observer) AS observer,
        count(ttft_s) FILTER (WHERE NOT censored) AS ttft_n,
        count(ttft_s) FILTER (WHERE NOT censored AND placed) AS placed_n,
        count(*) FILTER (WHERE censored) AS censored_n,
        _percentile(list(ttft_s ORDER BY ttft_s) FILTER (WHERE NOT inside), 0.99) AS ttft_p99_outside_s,
        _percentile(list(ttft_s ORDER BY ttft_s) FILTER (WHERE inside), 0.50) AS ttft_p50_inside_s,
        _percentile(list(ttft_s ORDER BY ttft_s) FILTER (WHERE inside), 0.99) AS ttft_p99_inside_s,
        _percentile(list(ttft_s ORDER BY ttft_s), 0.50) AS ttft_p50_s,
        _percentile(list(ttft_s ORDER BY ttft_s), 0.99) AS ttft_p99_s,
        _percentile(list(ttft_s ORDER BY ttft_s) FILTER (WHERE NOT censored), 0.50) AS ttft_p50_finished_s,
        _percentile(list(ttft_s ORDER BY ttft_s) FILTER (WHERE NOT censored), 0.99) AS ttft_p99_finished_s,
        coalesce(_percentile(list(at_least_s ORDER BY at_least_s) FILTER (WHERE inside), 0.99), _percentile(list(at_least_s ORDER BY at_least_s), 0.99)) AS ttft_p99_at_least_s,
        NULL::DOUBLE AS ttft_p99_low_s,
        NULL::DOUBLE AS ttft_p99_high_s
    FROM known
    GROUP BY instance
),
histogram AS (
    SELECT
        instance,
        'histogram' AS observer,
        max(n) FILTER (WHERE span = 'all') AS ttft_n,
        0 AS censored_n,
        max(p99.value) FILTER (WHERE span = 'outside') AS ttft_p99_outside_s,
        max(p50.value) FILTER (WHERE span = 'inside') AS ttft_p50_inside_s,
        max(p99.value) FILTER (WHERE span = 'inside') AS ttft_p99_inside_s,
        max(p50.value) FILTER (WHERE span = 'all') AS ttft_p50_s,
        max(p99.value) FILTER (WHERE span = 'all') AS ttft_p99_s,
        coalesce(max(p99.low) FILTER (WHERE span = 'inside'), max(p99.low) FILTER (WHERE span = 'all')) AS ttft_p99_low_s,
        coalesce(max(p99.high) FILTER (WHERE span = 'inside'), max(p99.high) FILTER (WHERE span = 'all')) AS ttft_p99_high_s
    FROM _ttft_histogram
    -- requests without a place in time are some benchmark's, not all that were served
    WHERE instance NOT IN (SELECT instance FROM exact WHERE placed_n > 0)
    GROUP BY instance
)
SELECT
    i.instance,
    i.start_ts,
    i.end_ts,
    i.broke AS queue_broke,
    i.waiting_peak,
    (SELECT arg_max(f.path || ':' || r.record, (r.waiting, -r.seq)) FROM _report AS r JOIN sources AS f USING (source_id)
        WHERE r.instance = i.instance AND r.ts BETWEEN i.start_ts AND i.end_ts AND r.waiting IS NOT NULL) AS waiting_peak_source,
    i.waiting_request_s,
    i.wait_est_peak_s,
    (SELECT quantile_cont(w.wait_est_s, 0.5) FROM _wait AS w
        WHERE w.instance = i.instance AND w.ts BETWEEN i.start_ts AND i.end_ts AND w.waiting > 0) AS wait_est_p50_s,
    coalesce(e.requests_n, 0) AS requests_n,
    coalesce(e.errors_n, 0) AS errors_n,
    coalesce(k.ttft_n, 0) AS ttft_n,
    coalesce(k.censored_n, 0) AS censored_n,
    k.* EXCLUDE (instance, ttft_n, censored_n, placed_n)
FROM incident AS i
LEFT JOIN ends AS e USING (instance)
LEFT JOIN (
    FROM histogram
    UNION ALL BY NAME
    SELECT * FROM exact WHERE instance NOT IN (SELECT instance FROM histogram)
) AS k USING (instance);
