-- 9. Did the cache stop helping? Prefix hits as share of prompt tokens, outside and inside the incident. SGLang's log
-- and vLLM's counters tell tokens; vLLM's log prints the rate of its last thousand requests.
CREATE OR REPLACE VIEW q09_cache AS
WITH looked_up AS (
    SELECT
        * EXCLUDE (cached_tokens, new_tokens),
        coalesce(cached_tokens, hit_tokens) AS cached_tokens,
        coalesce(new_tokens, query_tokens - hit_tokens) AS new_tokens
    FROM _report
)
SELECT
    i.instance,
    sum(r.cached_tokens) FILTER (WHERE NOT coalesce(r.ts BETWEEN i.start_ts AND i.end_ts, false))
        / nullif(sum(r.cached_tokens + r.new_tokens) FILTER (WHERE NOT coalesce(r.ts BETWEEN i.start_ts AND i.end_ts, false)), 0)
        AS counted_outside,
    sum(r.cached_tokens) FILTER (WHERE r.ts BETWEEN i.start_ts AND i.end_ts)
        / nullif(sum(r.cached_tokens + r.new_tokens) FILTER (WHERE r.ts BETWEEN i.start_ts AND i.end_ts), 0) AS counted_inside,
    arg_max(r.prefix_hit_share, r.ts) FILTER (WHERE r.ts < i.start_ts) AS reported_before,
    arg_max(r.prefix_hit_share, r.ts) FILTER (WHERE r.ts BETWEEN i.start_ts AND i.end_ts) AS reported_inside,
    arg_max(r.prefix_hit_share, r.ts) AS reported_last
FROM incident AS i
LEFT JOIN looked_up AS r USING (instance)
GROUP BY i.instance;
