-- Seconds per token of a running request (running / generation throughput), as the median of the last minute, against
-- the fastest tenth of such medians in the same capture; only while nothing waits, the pool has room, and the engine
-- was busy all of that minute: a throughput that counts idle time says nothing of the speed of a step. A prefill of
-- SGLang into an empty batch tells of an idle time before it, as do a report without running requests and a gap.
CREATE OR REPLACE VIEW decode_speed AS
WITH gaps AS (
    SELECT
        *,
        epoch(ts - lag(ts) OVER (PARTITION BY instance, run_id, dp, kind ORDER BY seq)) AS gap_s
    FROM _report
    WHERE kind IN ('prefill', 'decode', 'stats')
),
tokens AS (
    SELECT
        *,
        kind <> 'prefill' AND gen_tps IS NOT NULL AND running > 0 AND waiting = 0 AND span_s > 0 AS told,
        running = 0 OR coalesce(kind <> 'prefill' AND gap_s > 3 * median(gap_s) OVER (PARTITION BY instance, run_id, dp, kind) + 5, false)
            AS idle_before
    FROM gaps
),
smooth AS (
    SELECT
        *,
        median(CASE WHEN told THEN running / nullif(gen_tps, 0) END) OVER last_minute AS token_p50_s,
        count(*) FILTER (WHERE told) OVER last_minute AS n,
        count(*) FILTER (WHERE idle_before) OVER last_minute AS idle
    FROM tokens
    WHERE coalesce(pool_usage, 0) < getvariable('full_usage')::DOUBLE
    WINDOW last_minute AS (PARTITION BY instance, run_id, dp ORDER BY ts RANGE BETWEEN INTERVAL 60 SECOND PRECEDING AND CURRENT ROW)
    QUALIFY told AND idle = 0
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
