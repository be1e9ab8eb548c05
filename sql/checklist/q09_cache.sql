-- 9. Did the cache stop helping? Prefix hits as share of prompt tokens, outside and inside the incident. SGLang's log
-- and vLLM's counters tell tokens; vLLM's log prints the rate of its last thousand requests. A scrape tells of the time
-- before it, a line of its own moment.
CREATE OR REPLACE VIEW q09_cache AS
WITH looked_up AS (
    SELECT
        r.instance,
        r.ts,
        r.prefix_hit_share,
        coalesce(r.cached_tokens, r.hit_tokens) AS cached_tokens,
        coalesce(r.new_tokens, r.query_tokens - r.hit_tokens) AS new_tokens,
        i.start_ts,
        coalesce(r.ts BETWEEN i.start_ts AND i.end_ts AND (r.basis = 'log' OR r.ts > i.start_ts), false) AS inside
    FROM incident AS i
    JOIN _report AS r USING (instance)
)
SELECT
    i.instance,
    sum(r.cached_tokens) FILTER (WHERE NOT r.inside) / nullif(sum(r.cached_tokens + r.new_tokens) FILTER (WHERE NOT r.inside), 0)
        AS counted_outside,
    sum(r.cached_tokens) FILTER (WHERE r.inside) / nullif(sum(r.cached_tokens + r.new_tokens) FILTER (WHERE r.inside), 0) AS counted_inside,
    arg_max(r.prefix_hit_share, r.ts) FILTER (WHERE r.ts < r.start_ts) AS reported_before,
    arg_max(r.prefix_hit_share, r.ts) FILTER (WHERE r.inside) AS reported_inside,
    arg_max(r.prefix_hit_share, r.ts) AS reported_last
FROM incident AS i
LEFT JOIN looked_up AS r USING (instance)
GROUP BY i.instance;
