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
spoken AS (
    SELECT *, kind <> 'prefill' AND gen_tps IS NOT NULL AND running > 0 AND waiting = 0 AND span_s > 0 AS told FROM gaps
),
tokens AS (
    SELECT
        * EXCLUDE (span_s),
        -- since the throughput before it, whatever was printed between them
        least(hold_s, coalesce(epoch(ts - lag(CASE WHEN told THEN ts END IGNORE NULLS) OVER (PARTITION BY instance, run_id, dp ORDER BY seq)), span_s))
            AS span_s,
        running = 0 OR coalesce(kind <> 'prefill' AND gap_s > 3 * median(gap_s) OVER (PARTITION BY instance, run_id, dp, kind) + 5, false)
            AS idle_before
    FROM spoken
),
smooth AS (
    SELECT
        *,
        median(CASE WHEN told THEN running / nullif(gen_tps, 0) END) OVER last_minute AS token_p50_s,
        count(CASE WHEN told THEN 1 END) OVER last_minute AS n,
        count(CASE WHEN idle_before THEN 1 END) OVER last_minute AS idle
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

-- Time between tokens as clients saw it, or as histograms tell it, bucket by bucket, against the fastest tenth of the same
-- source; only while nothing waits and the pool has room. A bucket stands for the time since the one before, a minute at most.
CREATE OR REPLACE VIEW _token_gap AS
WITH told AS (
    SELECT
        t.instance,
        t.source,
        t.bucket_ts,
        t.p50_s,
        s.running_max AS running,
        least(60.0, coalesce(epoch(t.bucket_ts - lag(t.bucket_ts) OVER own), s.bucket_s)) AS span_s
    FROM signal_latency AS t
    JOIN signal_load AS s USING (instance, bucket_ts)
    WHERE t.what = 'itl' AND s.running_max > 0 AND s.waiting_max = 0 AND coalesce(s.kv_usage_max, 0) < getvariable('full_usage')::DOUBLE
    WINDOW own AS (PARTITION BY t.instance, t.source ORDER BY t.bucket_ts)
),
base AS (
    SELECT instance, source, quantile_cont(p50_s, 0.1) AS base_s FROM told GROUP BY ALL HAVING count(*) >= 3
)
SELECT
    t.*,
    b.base_s,
    t.p50_s >= getvariable('decode_token_s')::DOUBLE AND t.p50_s >= getvariable('decode_factor')::DOUBLE * b.base_s AS slow
FROM told AS t
JOIN base AS b USING (instance, source);

-- One row per instance: how long decode was slow, and how slow, by throughput, else by the time between tokens
-- (`slow_source`: reports, client, frontend, engine or histogram). `confirmed_by` is another source that tells of slow
-- tokens in the same time, against its own base. `batch` says what else was different: `same` (as many ran at other times
-- without being slow, `token_alike_s` each), `slower` (all running ones together made no more tokens than before, so there was
-- no more to do), `grew` (there was, and more ran than at any other time), or NULL where that is not clear.
CREATE OR REPLACE VIEW slow_decode AS
WITH spoken AS (
    SELECT instance, 'reports' AS source, ts, span_s, running, token_p50_s AS token_s, base_token_s AS base_s, slow FROM decode_speed
    UNION ALL
    SELECT instance, source, bucket_ts AS ts, span_s, running, p50_s AS token_s, base_s, slow FROM _token_gap
),
by_source AS (
    SELECT
        instance,
        source,
        sum(span_s) FILTER (WHERE slow) AS slow_s,
        min(ts) FILTER (WHERE slow) AS start_ts,
        max(ts) FILTER (WHERE slow) AS end_ts,
        median(token_s) FILTER (WHERE slow) AS token_slow_s,
        median(base_s) AS token_base_s,
        median(token_s) AS token_median_s,
        median(running) FILTER (WHERE slow) AS running_slow,
        median(running) FILTER (WHERE NOT slow) AS running_else,
        median(running / nullif(token_s, 0)) FILTER (WHERE slow) AS tps_slow,
        median(running / nullif(token_s, 0)) FILTER (WHERE NOT slow) AS tps_else
    FROM spoken
    GROUP BY instance, source
),
chosen AS (
    SELECT *
    FROM by_source
    QUALIFY row_number() OVER (
        PARTITION BY instance
        ORDER BY coalesce(slow_s, 0) >= getvariable('decode_min_s')::DOUBLE DESC, source = 'reports' DESC, slow_s DESC NULLS LAST, source
    ) = 1
),
-- a minute around it is left out: medians of the last minute lag behind
apart AS (
    SELECT s.instance, s.running, s.token_s, s.running BETWEEN 0.8 * c.running_slow AND 1.25 * c.running_slow AS alike
    FROM spoken AS s
    JOIN chosen AS c USING (instance, source)
    WHERE NOT s.slow AND (s.ts < c.start_ts - INTERVAL 60 SECOND OR s.ts > c.end_ts + INTERVAL 60 SECOND)
),
compared AS (
    SELECT
        instance,
        max(running) AS running_most,
        if(count(*) FILTER (WHERE alike) >= 3, median(token_s) FILTER (WHERE alike), NULL) AS token_alike_s
    FROM apart
    GROUP BY instance
),
confirmed AS (
    SELECT c.instance, min(o.source) AS confirmed_by
    FROM chosen AS c
    JOIN by_source AS o
        ON o.instance = c.instance AND o.source <> c.source AND o.slow_s > 0 AND o.start_ts <= c.end_ts AND o.end_ts >= c.start_ts
    GROUP BY c.instance
),
-- requests that took long by their own times, while the server's throughput was that of quick ones
denied AS (
    SELECT c.instance, median(r.running / r.gen_tps_now) < getvariable('decode_factor')::DOUBLE * any_value(c.token_base_s) AS denied
    FROM chosen AS c
    JOIN _report AS r ON r.instance = c.instance AND r.ts BETWEEN c.start_ts AND c.end_ts
    WHERE c.source <> 'reports' AND r.kind <> 'prefill' AND r.gen_tps_now > 0 AND r.running > 0
    GROUP BY c.instance
    HAVING count(*) >= 3
)
SELECT
    c.instance,
    c.source AS slow_source,
    c.slow_s,
    c.start_ts,
    c.end_ts,
    c.token_slow_s,
    c.token_base_s,
    c.token_median_s,
    c.running_slow,
    c.running_else,
    a.token_alike_s,
    CASE
        WHEN a.token_alike_s IS NOT NULL THEN 'same'
        -- slower steps alone make requests stay longer, and more of them run
        WHEN c.tps_slow < 1.4 * c.tps_else THEN 'slower'
        WHEN c.running_slow >= 1.25 * a.running_most THEN 'grew'
    END AS batch,
    f.confirmed_by,
    coalesce(d.denied, false) AS denied_by_reports
FROM chosen AS c
LEFT JOIN compared AS a USING (instance)
LEFT JOIN confirmed AS f USING (instance)
LEFT JOIN denied AS d USING (instance);
