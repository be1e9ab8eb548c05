-- The quantile `q` of a histogram: `le` its upper bounds in order, `n` the cumulative counts below them. Interpolated
-- inside the bucket as Prometheus does; `low` and `high` are the bucket's bounds, between which the true value lies.
-- Beyond the last finite bound nothing is known: the value is that bound, and `high` is infinity.
CREATE OR REPLACE MACRO _bucket_of(n, q) AS list_position(list_transform(n, lambda x: x >= q * n[-1]), true);
CREATE OR REPLACE MACRO _quantile(le, n, q) AS CASE
    WHEN coalesce(n[-1], 0) <= 0 OR NOT isinf(le[-1]) THEN NULL
    WHEN isinf(le[_bucket_of(n, q)]) THEN {
        'value': le[_bucket_of(n, q) - 1], 'low': le[_bucket_of(n, q) - 1], 'high': 'infinity'::DOUBLE
    }
    ELSE {
        'value': coalesce(le[_bucket_of(n, q) - 1], 0.0)
            + (le[_bucket_of(n, q)] - coalesce(le[_bucket_of(n, q) - 1], 0.0))
            * coalesce((q * n[-1] - coalesce(n[_bucket_of(n, q) - 1], 0)) / nullif(n[_bucket_of(n, q)] - coalesce(n[_bucket_of(n, q) - 1], 0), 0), 1.0),
        'low': coalesce(le[_bucket_of(n, q) - 1], 0.0),
        'high': le[_bucket_of(n, q)]
    }
END;

-- Counts below bounds in order never fall: a scrape that fell into the midst of an update is put right.
CREATE OR REPLACE MACRO _cumulative(n) AS list_transform(n, lambda x, i: list_max(n[1:i]));

-- The exact quantile `q` of `sorted` values: the lowest that more than that share of them do not exceed (of an even
-- number, the higher of the two in the middle).
CREATE OR REPLACE MACRO _percentile(sorted, q) AS sorted[least(len(sorted), floor(q * len(sorted))::BIGINT + 1)];

-- What histograms of latencies rose by between two scrapes, summed over ranks and label values, cumulative by bound.
-- `told` is the number of histograms that counted up to this bound all the while: a bound that is new in a histogram
-- that is not has none. `what` is ttft, queue, itl, e2e, prefill or decode.
CREATE OR REPLACE VIEW _latency_rise AS
WITH risen AS (
    SELECT
        instance,
        replace(name, '_s', '') AS what,
        prev_ts,
        ts,
        le,
        sum(delta) AS n,
        count(*) AS told,
        count(*) FILTER (WHERE began_again) AS begun
    FROM counter_delta
    WHERE part = 'bucket' AND delta IS NOT NULL AND le IS NOT NULL
        AND name IN ('ttft_s', 'queue_s', 'itl_s', 'e2e_s', 'prefill_s', 'decode_s')
    GROUP BY ALL
)
SELECT
    * EXCLUDE (begun, told),
    if(begun > arg_max(begun, le) OVER (PARTITION BY instance, what, prev_ts, ts), 0, told) AS told
FROM risen;

-- Latencies over time in seconds, one row per instance, kind of latency, source and bucket: exact from the requests of
-- one observer (bucket of their arrival), or from histograms (bucket of the scrape that shows them) with the bounds
-- between which the P99 lies. A request still pending at the end is longer than anything finished: a percentile that
-- falls on one is NULL. Sources are never mixed in one row.
CREATE OR REPLACE VIEW signal_latency AS
WITH requested AS (
    SELECT
        r.instance,
        r.observer,
        to_timestamp(floor(epoch(coalesce(r.arrival_ts, r.ts)) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
        unnest([
            {'what': 'ttft', 's': if(r.censored AND r.ttft_s IS NULL, 'infinity'::DOUBLE, r.ttft_s)},
            {'what': 'queue', 's': r.queue_s},
            {'what': 'itl', 's': r.itl_mean_s},
            {'what': 'e2e', 's': if(r.censored, 'infinity'::DOUBLE, r.e2e_s)},
            {'what': 'prefill', 's': r.prefill_s},
            {'what': 'decode', 's': r.decode_s}
        ]) AS m
    FROM request_best AS r
    CROSS JOIN _bucket AS b
    WHERE coalesce(r.arrival_ts, r.ts) IS NOT NULL
),
exact AS (
    SELECT
        instance,
        bucket_ts,
        m.what AS what,
        any_value(observer) AS source,
        count(*) AS n,
        _percentile(list(m.s ORDER BY m.s), 0.50) AS p50_s,
        _percentile(list(m.s ORDER BY m.s), 0.95) AS p95_s,
        _percentile(list(m.s ORDER BY m.s), 0.99) AS p99_s
    FROM requested
    WHERE m.s IS NOT NULL
    GROUP BY instance, bucket_ts, m.what
    HAVING count(*) FILTER (WHERE NOT isinf(m.s)) > 0
),
bounds AS (
    SELECT
        l.instance,
        to_timestamp(floor(epoch(l.ts) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
        l.what,
        l.le,
        sum(l.n) AS n,
        sum(l.told) AS told
    FROM _latency_rise AS l
    CROSS JOIN _bucket AS b
    GROUP BY ALL
),
-- only a bound that all of them have counts all: others (of an upgrade, of another rank) are left out
shared AS (
    SELECT * FROM bounds QUALIFY told = max(told) OVER (PARTITION BY instance, bucket_ts, what)
),
lists AS (
    SELECT instance, bucket_ts, what, list(le ORDER BY le) AS le, _cumulative(list(n ORDER BY le)) AS n
    FROM shared
    GROUP BY ALL
),
read AS (
    SELECT
        instance,
        bucket_ts,
        what,
        'histogram' AS source,
        n[-1]::BIGINT AS n,
        _quantile(le, n, 0.50) AS p50,
        _quantile(le, n, 0.95) AS p95,
        _quantile(le, n, 0.99) AS p99
    FROM lists
    WHERE n[-1] > 0
)
SELECT
    instance,
    bucket_ts,
    what,
    source,
    n,
    if(isinf(p50_s), NULL, p50_s) AS p50_s,
    if(isinf(p95_s), NULL, p95_s) AS p95_s,
    if(isinf(p99_s), NULL, p99_s) AS p99_s,
    if(isinf(p99_s), NULL, p99_s) AS p99_low_s,
    p99_s AS p99_high_s
FROM exact
UNION ALL BY NAME
SELECT
    instance,
    bucket_ts,
    what,
    source,
    n,
    p50.value AS p50_s,
    p95.value AS p95_s,
    p99.value AS p99_s,
    p99.low AS p99_low_s,
    p99.high AS p99_high_s
FROM read;
