-- 3. Was L1 full? Usage (share used by running requests; evictable cache is not used) over the capture and while
-- requests waited, weighted by time.
CREATE OR REPLACE VIEW q03_l1_full AS
WITH seconds AS (
    SELECT
        instance,
        sum(dwell_s) FILTER (WHERE pool_usage >= getvariable('full_usage')::DOUBLE) AS full_s,
        sum(dwell_s) FILTER (WHERE waiting > 0) AS waiting_s,
        sum(dwell_s) FILTER (WHERE waiting > 0 AND pool_usage >= getvariable('full_usage')::DOUBLE) AS full_waiting_s,
        quantile_cont(pool_usage, 0.1) FILTER (WHERE waiting > 0) AS usage_waiting_p10,
        quantile_cont(pool_usage, 0.5) FILTER (WHERE waiting > 0) AS usage_waiting_p50,
        max(pool_usage) FILTER (WHERE waiting > 0) AS usage_waiting_max,
        max(pool_usage) AS usage_max,
        arg_max(ts, (pool_usage, -seq)) FILTER (WHERE pool_usage IS NOT NULL) AS usage_max_ts,
        arg_max(run_id, (coalesce(pool_usage, 0), run_id)) AS usage_max_run,
        max(kv_used_tokens) AS used_tokens_max,
        count(pool_usage) AS reports
    FROM _load
    GROUP BY instance
),
-- the two other states while the most was used, where metrics tell them
states AS (
    SELECT
        instance,
        arg_max(evictable_tokens, (used_tokens, -epoch_us(ts))) AS evictable_at_max_tokens,
        arg_max(available_tokens, (used_tokens, -epoch_us(ts))) AS available_at_max_tokens,
        min(available_tokens) AS available_min_tokens
    FROM _l1_states
    GROUP BY instance
)
SELECT
    i.instance,
    s.usage_max,
    s.usage_max_ts,
    (SELECT min(f.path || ':' || r.record) FROM _report AS r JOIN sources AS f USING (source_id)
        WHERE r.instance = i.instance AND r.ts = s.usage_max_ts AND r.pool_usage = s.usage_max) AS usage_max_source,
    s.usage_waiting_p10,
    s.usage_waiting_p50,
    s.usage_waiting_max,
    s.full_s,
    s.waiting_s,
    s.full_waiting_s,
    s.used_tokens_max,
    t.evictable_at_max_tokens,
    t.available_at_max_tokens,
    t.available_min_tokens,
    s.reports,
    l.capacity_tokens,
    l.capacity_source
FROM _instance AS i
LEFT JOIN seconds AS s USING (instance)
LEFT JOIN states AS t USING (instance)
LEFT JOIN _limits AS l ON l.instance = i.instance AND l.run_id = s.usage_max_run;
