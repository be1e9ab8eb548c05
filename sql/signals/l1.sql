-- The KV pool in HBM over time, in tokens: used, evictable, available; they add up to the capacity. Only SGLang's
-- gauges (0.5.12 on) tell evictable from available; where there is usage alone, used is known and those two are NULL.
CREATE OR REPLACE VIEW signal_l1 AS
SELECT
    s.instance,
    s.run_id,
    s.bucket_ts,
    coalesce(
        s.kv_used_tokens + s.kv_evictable_tokens + s.kv_available_tokens,
        l.capacity_tokens * coalesce(d.ranks, 1)
    ) AS l1_capacity_tokens,
    coalesce(s.kv_used_tokens, s.kv_usage_last * l.capacity_tokens * coalesce(d.ranks, 1))::BIGINT AS l1_used_tokens,
    s.kv_evictable_tokens AS l1_evictable_tokens,
    s.kv_available_tokens AS l1_available_tokens,
    s.kv_usage_max,
    s.kv_usage_mean
FROM signal_load AS s
LEFT JOIN _limits AS l USING (instance, run_id)
LEFT JOIN (SELECT instance, run_id, count(DISTINCT dp) AS ranks FROM scheduler_clean GROUP BY ALL) AS d USING (instance, run_id);
