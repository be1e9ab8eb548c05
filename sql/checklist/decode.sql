-- Seconds per token of a running request (running / generation throughput), as the median of the last minute, against
-- the fastest tenth of such medians in the same capture; only while nothing waits and the pool has room. The first
-- report after a gap is left out: its throughput counts the idle time.
CREATE OR REPLACE VIEW decode_speed AS
WITH tokens AS (
    SELECT
        instance,
        run_id,
        dp,
        ts,
        span_s,
        running / nullif(gen_tps, 0) AS token_s,
        running,
        pool_usage,
        median(span_s) OVER (PARTITION BY instance, run_id, dp, kind) AS usual_span_s
    FROM _report
    WHERE gen_tps IS NOT NULL AND running > 0 AND waiting = 0 AND kind IN ('decode', 'stats')
),
smooth AS (
    SELECT
        *,
        median(token_s) OVER last_minute AS token_p50_s,
        count(*) OVER last_minute AS n
    FROM tokens
    WHERE span_s > 0 AND span_s <= 3 * usual_span_s + 5 AND pool_usage < getvariable('full_usage')::DOUBLE
    WINDOW last_minute AS (PARTITION BY instance, run_id, dp ORDER BY ts RANGE BETWEEN INTERVAL 60 SECOND PRECEDING AND CURRENT ROW)
),
base AS (
    SELECT instance, run_id, dp, quantile_cont(token_p50_s, 0.1) AS base_token_s FROM smooth WHERE n >= 3 GROUP BY ALL
)
SELECT
    s.instance,
    s.run_id,
    s.dp,
    s.ts,
    s.span_s,
    s.running,
    s.token_p50_s,
    b.base_token_s,
    s.n >= 3
        AND s.token_p50_s >= getvariable('decode_token_s')::DOUBLE
        AND s.token_p50_s >= getvariable('decode_factor')::DOUBLE * b.base_token_s AS slow
FROM smooth AS s
JOIN base AS b USING (instance, run_id, dp);

-- One row per instance: how long decode was slow, and how slow.
CREATE OR REPLACE VIEW slow_decode AS
SELECT
    instance,
    sum(span_s) FILTER (WHERE slow) AS slow_s,
    min(ts) FILTER (WHERE slow) AS start_ts,
    max(ts) FILTER (WHERE slow) AS end_ts,
    median(token_p50_s) FILTER (WHERE slow) AS token_slow_s,
    median(base_token_s) AS token_base_s,
    median(running) FILTER (WHERE slow) AS running_slow,
    median(running) FILTER (WHERE NOT slow) AS running_else
FROM decode_speed
GROUP BY instance;
