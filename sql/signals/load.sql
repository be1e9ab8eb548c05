-- Reports with the time each stands for: `span_s` back to the report before (what it tells of), `dwell_s` ahead to
-- the next one (how long its gauges hold). Both end after `hold_s`: an engine that prints nothing is not carried on.
-- `gen_tps_now` is NULL where SGLang's decode line is the first after a silence: its throughput counts the idle time.
CREATE OR REPLACE VIEW _report AS
WITH steps AS (
    SELECT
        *,
        lag(ts) OVER own AS prev_ts,
        lead(ts) OVER own AS next_ts
    FROM scheduler_clean
    WINDOW own AS (PARTITION BY instance, run_id, dp ORDER BY ts, source_id, record)
),
holds AS (
    SELECT
        instance,
        run_id,
        coalesce(median(epoch(ts - prev_ts)), 0.0) AS usual_s,
        greatest(30.0, 3.0 * coalesce(median(epoch(ts - prev_ts)), 0.0)) AS hold_s
    FROM steps
    GROUP BY instance, run_id
),
silences AS (
    SELECT
        s.*,
        count(CASE WHEN epoch(s.ts - s.prev_ts) > 5.0 + 3.0 * h.usual_s THEN 1 END) OVER so_far AS silences
    FROM steps AS s
    JOIN holds AS h USING (instance, run_id)
    WINDOW so_far AS (PARTITION BY s.instance, s.run_id, s.dp ORDER BY s.ts, s.source_id, s.record)
)
SELECT
    s.* EXCLUDE (silences),
    CASE
        WHEN s.kind = 'decode' AND s.silences IS DISTINCT FROM
            lag(s.silences) OVER (PARTITION BY s.instance, s.run_id, s.dp, s.kind ORDER BY s.ts, s.source_id, s.record)
            THEN NULL
        ELSE s.gen_tps
    END AS gen_tps_now,
    h.hold_s,
    least(coalesce(epoch(s.ts - s.prev_ts), 0.0), h.hold_s) AS span_s,
    least(coalesce(epoch(s.next_ts - s.ts), h.hold_s), h.hold_s) AS dwell_s,
    row_number() OVER (PARTITION BY s.instance, s.run_id ORDER BY s.ts, s.source_id, s.record) AS seq
FROM silences AS s
JOIN holds AS h USING (instance, run_id);

-- The whole instance at every report: running, waiting and used tokens summed over data-parallel ranks, usage of
-- the fullest rank; `pools_used` is the used part of all ranks' pools together, in pools. A rank that has not reported
-- for `hold_s` counts as unknown, not as zero. Scrapes of one moment are one report, and a rank's scrape is not added
-- to lines of the log, which may tell of the same requests.
CREATE OR REPLACE VIEW _load AS
WITH ranks AS (
    SELECT DISTINCT instance, run_id, dp FROM _report
),
placed AS (
    SELECT *, if(basis = 'metrics', max(seq) OVER (PARTITION BY instance, run_id, basis, ts), seq) AS moment FROM _report
),
-- what each rank told last, at each of its own reports
own AS (
    SELECT
        instance,
        run_id,
        dp,
        moment,
        last_value(ts IGNORE NULLS) OVER so_far AS rank_ts,
        last_value(basis IGNORE NULLS) OVER so_far AS rank_basis,
        last_value(running IGNORE NULLS) OVER so_far AS running,
        last_value(waiting IGNORE NULLS) OVER so_far AS waiting,
        last_value(kv_usage IGNORE NULLS) OVER so_far AS kv_usage,
        last_value(kv_usage * coalesce(engines, 1) IGNORE NULLS) OVER so_far AS pools_used,
        last_value(pool_usage IGNORE NULLS) OVER so_far AS pool_usage,
        -- with the usage of the same report or not at all: a prefill line has none
        last_value(coalesce(kv_used_tokens, -1) IGNORE NULLS) OVER so_far AS kv_used_tokens,
        last_value(pending_tokens IGNORE NULLS) OVER so_far AS pending_tokens,
        -- of one source's reports only some tell it: what none told for `hold_s` is not known
        last_value(CASE WHEN gen_tps_now IS NOT NULL THEN {'ts': ts, 'tps': gen_tps_now} END IGNORE NULLS) OVER so_far AS gen,
        last_value(CASE WHEN prompt_tps_now IS NOT NULL THEN {'ts': ts, 'tps': prompt_tps_now} END IGNORE NULLS) OVER so_far AS prompt
    FROM placed
    WINDOW so_far AS (PARTITION BY instance, run_id, dp ORDER BY moment RANGE UNBOUNDED PRECEDING)
    QUALIFY row_number() OVER (PARTITION BY instance, run_id, dp, moment ORDER BY seq) = 1
),
latest AS (
    SELECT r.*, o.* EXCLUDE (instance, run_id, dp, moment)
    FROM (
        SELECT r.instance, r.run_id, r.seq, r.moment, r.ts, r.hold_s, r.basis, d.dp FROM placed AS r JOIN ranks AS d USING (instance, run_id)
    ) AS r
    ASOF JOIN own AS o ON r.instance = o.instance AND r.run_id = o.run_id AND r.dp = o.dp AND r.moment >= o.moment
),
summed AS (
    SELECT
        instance,
        run_id,
        seq,
        any_value(ts) AS ts,
        any_value(hold_s) AS hold_s,
        sum(running)::BIGINT AS running,
        sum(waiting)::BIGINT AS waiting,
        max(kv_usage) AS kv_usage,
        max(pool_usage) AS pool_usage,
        sum(pools_used) AS pools_used,
        if(min(kv_used_tokens) < 0, NULL, sum(kv_used_tokens))::BIGINT AS kv_used_tokens,
        sum(pending_tokens)::BIGINT AS pending_tokens,
        sum(gen.tps) FILTER (WHERE epoch(ts - gen.ts) <= hold_s) AS gen_tps,
        sum(prompt.tps) FILTER (WHERE epoch(ts - prompt.ts) <= hold_s) AS prompt_tps,
        count(running)::INTEGER AS ranks
    FROM latest
    WHERE rank_basis = basis AND epoch(ts - rank_ts) <= hold_s
    GROUP BY instance, run_id, seq
)
-- behind the last report of a run only as long as anything else was heard of it
SELECT
    s.*,
    least(
        s.hold_s,
        coalesce(
            epoch(lead(s.ts) OVER (PARTITION BY s.instance, s.run_id ORDER BY s.seq) - s.ts),
            greatest(0.0, epoch(r.last_ts - s.ts))
        )
    ) AS dwell_s
FROM summed AS s
JOIN run AS r USING (instance, run_id);

-- Bucket length in seconds: the finest of 1, 5, 10 and 60 (then whole minutes) that gives at most 2,000 buckets.
CREATE OR REPLACE VIEW _bucket AS
WITH moments AS (
    SELECT ts FROM scheduler_clean
    UNION ALL
    SELECT coalesce(arrival_ts, ts) FROM request_best
),
span AS (
    SELECT coalesce(epoch(max(ts) - min(ts)), 0.0) + 1.0 AS s FROM moments
)
SELECT
    coalesce(
        getvariable('bucket_s')::INTEGER,
        CASE
            WHEN s <= 1990 THEN 1
            WHEN s / 5 <= 1990 THEN 5
            WHEN s / 10 <= 1990 THEN 10
            ELSE 60 * ceil(s / 60.0 / 1990)::INTEGER
        END
    ) AS bucket_s
FROM span;

-- Every bucket of every instance, from its first to its last report or arrival.
CREATE OR REPLACE VIEW _grid AS
WITH moments AS (
    SELECT instance, ts FROM _load
    UNION ALL
    SELECT instance, coalesce(arrival_ts, ts) AS ts FROM request_best WHERE coalesce(arrival_ts, ts) IS NOT NULL
),
spans AS (
    SELECT
        l.instance,
        b.bucket_s,
        floor(epoch(min(l.ts)) / b.bucket_s)::BIGINT AS first_n,
        floor(epoch(max(l.ts)) / b.bucket_s)::BIGINT AS last_n
    FROM moments AS l
    CROSS JOIN _bucket AS b
    GROUP BY l.instance, b.bucket_s
)
SELECT
    instance,
    bucket_s,
    to_timestamp(n * bucket_s) AS bucket_ts
FROM (SELECT instance, bucket_s, unnest(range(first_n, last_n + 1)) AS n FROM spans);

-- Load over time: running and waiting (requests, summed over data-parallel ranks) and pool usage (share, of the
-- fullest rank) as minimum, maximum, last and time-weighted mean of each bucket. A gauge holds until the next
-- report, for at most 30 s or three times the usual interval; then it is NULL.
CREATE OR REPLACE VIEW signal_load AS
WITH inside AS (
    SELECT
        l.instance,
        to_timestamp(floor(epoch(l.ts) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
        arg_max(l.run_id, l.seq) AS run_id,
        min(l.running) AS running_min,
        max(l.running) AS running_max,
        arg_max(l.running, l.seq) AS running_last,
        sum(l.running * l.dwell_s) / nullif(sum(l.dwell_s) FILTER (WHERE l.running IS NOT NULL), 0) AS running_mean,
        min(l.waiting) AS waiting_min,
        max(l.waiting) AS waiting_max,
        arg_max(l.waiting, l.seq) AS waiting_last,
        sum(l.waiting * l.dwell_s) / nullif(sum(l.dwell_s) FILTER (WHERE l.waiting IS NOT NULL), 0) AS waiting_mean,
        min(l.pool_usage) AS kv_usage_min,
        max(l.pool_usage) AS kv_usage_max,
        arg_max(l.pool_usage, l.seq) AS kv_usage_last,
        sum(l.pool_usage * l.dwell_s) / nullif(sum(l.dwell_s) FILTER (WHERE l.pool_usage IS NOT NULL), 0) AS kv_usage_mean,
        arg_max(l.kv_used_tokens, l.seq) AS kv_used_tokens_last,
        arg_max(l.pending_tokens, l.seq) AS pending_tokens_last,
        arg_max(l.gen_tps, l.seq) AS gen_tps_last,
        arg_max(l.prompt_tps, l.seq) AS prompt_tps_last,
        count(*) AS reports
    FROM _load AS l
    CROSS JOIN _bucket AS b
    GROUP BY ALL
)
SELECT
    g.instance,
    coalesce(i.run_id, h.run_id) AS run_id,
    g.bucket_ts,
    g.bucket_s,
    coalesce(i.running_min, h.running) AS running_min,
    coalesce(i.running_max, h.running) AS running_max,
    coalesce(i.running_last, h.running) AS running_last,
    coalesce(i.running_mean, h.running) AS running_mean,
    coalesce(i.waiting_min, h.waiting) AS waiting_min,
    coalesce(i.waiting_max, h.waiting) AS waiting_max,
    coalesce(i.waiting_last, h.waiting) AS waiting_last,
    coalesce(i.waiting_mean, h.waiting) AS waiting_mean,
    coalesce(i.kv_usage_min, h.pool_usage) AS kv_usage_min,
    coalesce(i.kv_usage_max, h.pool_usage) AS kv_usage_max,
    coalesce(i.kv_usage_last, h.pool_usage) AS kv_usage_last,
    coalesce(i.kv_usage_mean, h.pool_usage) AS kv_usage_mean,
    coalesce(i.kv_used_tokens_last, h.kv_used_tokens) AS kv_used_tokens,
    coalesce(i.pending_tokens_last, h.pending_tokens) AS pending_tokens,
    coalesce(i.gen_tps_last, h.gen_tps) AS gen_tps,
    coalesce(i.prompt_tps_last, h.prompt_tps) AS prompt_tps,
    coalesce(i.reports, 0) AS reports
FROM _grid AS g
LEFT JOIN inside AS i ON i.instance = g.instance AND i.bucket_ts = g.bucket_ts
ASOF LEFT JOIN (
    -- what still holds from before, where the bucket itself has no report
    SELECT l.*, e.end_ts, n.next_ts
    FROM _load AS l
    LEFT JOIN (
        SELECT instance, run_id, min(ts) AS end_ts FROM event WHERE kind IN ('shutdown', 'crash') GROUP BY ALL
    ) AS e USING (instance, run_id)
    LEFT JOIN (
        SELECT instance, run_id, lead(first_ts) OVER (PARTITION BY instance ORDER BY first_ts) AS next_ts FROM run
    ) AS n USING (instance, run_id)
    QUALIFY row_number() OVER (PARTITION BY l.instance, l.ts ORDER BY l.seq DESC) = 1
) AS held ON g.instance = held.instance AND g.bucket_ts >= held.ts
LEFT JOIN LATERAL (
    SELECT held.run_id, held.running, held.waiting, held.pool_usage, held.kv_used_tokens,
        held.pending_tokens, held.gen_tps, held.prompt_tps
    WHERE epoch(g.bucket_ts - held.ts) <= held.hold_s
        -- a process that went away takes its load with it
        AND (held.end_ts IS NULL OR held.ts > held.end_ts OR g.bucket_ts <= held.end_ts)
        AND (held.next_ts IS NULL OR g.bucket_ts < held.next_ts)
) AS h ON true;
