-- TTFT by histogram per incident: what the buckets rose by before it, inside it, after it, and in all, and the quantiles.
-- Before and after leave out what lies in any incident.
CREATE OR REPLACE VIEW _ttft_histogram AS
WITH placed AS (
    SELECT
        l.instance,
        i.incident,
        l.le,
        l.n,
        l.told,
        l.ts >= i.start_ts AND l.prev_ts <= i.end_ts AS inside,
        EXISTS (
            SELECT 1 FROM incident AS o
            WHERE o.instance = l.instance AND o.broke AND l.ts >= o.start_ts AND l.prev_ts <= o.end_ts
        ) AS troubled,
        l.ts < i.start_ts AS early
    FROM _latency_rise AS l
    JOIN incident AS i USING (instance)
    WHERE l.what = 'ttft'
),
risen AS (
    SELECT
        instance,
        incident,
        unnest(CASE
            WHEN inside THEN ['all', 'inside']
            WHEN troubled THEN ['all']
            WHEN early THEN ['all', 'outside', 'before']
            ELSE ['all', 'outside', 'after']
        END) AS span,
        le,
        n,
        told
    FROM placed
),
bounds AS (
    SELECT instance, incident, span, le, sum(n) AS n, sum(told) AS told FROM risen GROUP BY ALL
),
shared AS (
    SELECT * FROM bounds QUALIFY told = max(told) OVER (PARTITION BY instance, incident, span)
),
lists AS (
    SELECT instance, incident, span, list(le ORDER BY le) AS le, _cumulative(list(n ORDER BY le)) AS n FROM shared GROUP BY ALL
)
SELECT instance, incident, span, n[-1]::BIGINT AS n, _quantile(le, n, 0.50) AS p50, _quantile(le, n, 0.99) AS p99
FROM lists
WHERE n[-1] > 0;

-- 1. Did TTFT break? Per incident, percentiles (seconds) before, inside and after it from one observer's requests, else
-- from histograms (`observer` is then `histogram`, with the bounds between which the P99 lies), and the estimated queue
-- wait, which is no TTFT. Outside is what lies in no incident. A P99 among requests that were pending at the end is
-- infinite, and `at_least` bounds it; percentiles of the finished ones alone are too low.
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
timed AS (
    SELECT
        r.instance,
        r.observer,
        -- one that is pending at the end has waited this long at least
        coalesce(r.ttft_s, epoch(e.last_ts - r.arrival_ts), 0.0) AS at_least_s,
        CASE WHEN r.censored AND r.ttft_s IS NULL THEN 'infinity'::DOUBLE ELSE r.ttft_s END AS ttft_s,
        r.censored AND r.ttft_s IS NULL AS censored,
        coalesce(r.arrival_ts, r.ts) AS from_ts,
        -- its wait for the first token
        coalesce(r.first_token_ts, r.arrival_ts + to_microseconds((r.ttft_s * 1e6)::BIGINT), e.last_ts) AS until_ts
    FROM request_best AS r
    JOIN ends AS e USING (instance)
    WHERE r.ttft_s IS NOT NULL OR r.censored
),
troubled AS (
    SELECT
        t.*,
        EXISTS (
            SELECT 1 FROM incident AS o
            WHERE o.instance = t.instance AND o.broke AND t.from_ts <= o.end_ts AND t.until_ts >= o.start_ts
        ) AS troubled
    FROM timed AS t
),
known AS (
    SELECT
        t.*,
        i.incident,
        coalesce(t.from_ts <= i.end_ts AND t.until_ts >= i.start_ts, false) AS inside,
        NOT t.troubled AND NOT coalesce(t.from_ts <= i.end_ts AND t.until_ts >= i.start_ts, false) AS outside,
        t.until_ts < i.start_ts AS early
    FROM troubled AS t
    JOIN incident AS i USING (instance)
),
exact AS (
    SELECT
        instance,
        incident,
        any_value(observer) AS observer,
        count(ttft_s) FILTER (WHERE NOT censored) AS ttft_n,
        count(ttft_s) FILTER (WHERE NOT censored AND from_ts IS NOT NULL) AS placed_n,
        count(*) FILTER (WHERE censored) AS censored_n,
        count(*) FILTER (WHERE inside) AS inside_n,
        _percentile(list(ttft_s ORDER BY ttft_s) FILTER (WHERE outside), 0.99) AS ttft_p99_outside_s,
        _percentile(list(ttft_s ORDER BY ttft_s) FILTER (WHERE outside AND early), 0.99) AS ttft_p99_before_s,
        _percentile(list(ttft_s ORDER BY ttft_s) FILTER (WHERE outside AND NOT early), 0.99) AS ttft_p99_after_s,
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
    GROUP BY ALL
),
histogram AS (
    SELECT
        instance,
        incident,
        'histogram' AS observer,
        max(n) FILTER (WHERE span = 'all') AS ttft_n,
        0 AS censored_n,
        max(n) FILTER (WHERE span = 'inside') AS inside_n,
        max(p99.value) FILTER (WHERE span = 'outside') AS ttft_p99_outside_s,
        max(p99.value) FILTER (WHERE span = 'before') AS ttft_p99_before_s,
        max(p99.value) FILTER (WHERE span = 'after') AS ttft_p99_after_s,
        max(p50.value) FILTER (WHERE span = 'inside') AS ttft_p50_inside_s,
        max(p99.value) FILTER (WHERE span = 'inside') AS ttft_p99_inside_s,
        max(p50.value) FILTER (WHERE span = 'all') AS ttft_p50_s,
        max(p99.value) FILTER (WHERE span = 'all') AS ttft_p99_s,
        coalesce(max(p99.low) FILTER (WHERE span = 'inside'), max(p99.low) FILTER (WHERE span = 'all')) AS ttft_p99_low_s,
        coalesce(max(p99.high) FILTER (WHERE span = 'inside'), max(p99.high) FILTER (WHERE span = 'all')) AS ttft_p99_high_s
    FROM _ttft_histogram
    -- requests without a place in time are some benchmark's, not all that were served
    WHERE instance NOT IN (SELECT instance FROM exact WHERE placed_n > 0)
    GROUP BY ALL
)
SELECT
    i.instance,
    i.incident,
    i.start_ts,
    i.end_ts,
    i.broke,
    i.queue_broke,
    i.ttft_broke,
    i.throughput_broke,
    i.waiting_peak,
    (SELECT arg_max(f.path || ':' || r.record, (r.waiting, -r.seq)) FROM _report AS r JOIN sources AS f USING (source_id)
        WHERE r.instance = i.instance AND r.ts BETWEEN i.start_ts AND i.end_ts AND r.waiting IS NOT NULL) AS waiting_peak_source,
    i.waiting_request_s,
    i.wait_est_peak_s,
    (SELECT quantile_cont(w.wait_est_s, 0.5) FROM _wait AS w
        WHERE w.instance = i.instance AND w.ts BETWEEN i.start_ts AND i.end_ts AND w.waiting > 0) AS wait_est_p50_s,
    i.slow_n,
    i.excess_request_s,
    u.usual_s AS ttft_usual_s,
    coalesce(e.requests_n, 0) AS requests_n,
    coalesce(e.errors_n, 0) AS errors_n,
    coalesce(k.ttft_n, 0) AS ttft_n,
    coalesce(k.censored_n, 0) AS censored_n,
    k.* EXCLUDE (instance, incident, ttft_n, censored_n, placed_n)
FROM incident AS i
LEFT JOIN ends AS e USING (instance)
LEFT JOIN _ttft_usual AS u USING (instance)
LEFT JOIN (
    FROM histogram
    UNION ALL BY NAME
    SELECT * FROM exact WHERE instance NOT IN (SELECT instance FROM histogram)
) AS k USING (instance, incident);
