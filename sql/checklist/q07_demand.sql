-- 7. Was demand beyond the ceiling? Tokens a request holds while it runs (mean), how many such requests the pool
-- takes, and how many were running and waiting together at most.
CREATE OR REPLACE VIEW q07_demand AS
WITH held AS (
    SELECT
        r.instance,
        r.run_id,
        sum(coalesce(r.kv_used_tokens, r.kv_usage * l.capacity_tokens * coalesce(r.engines, 1)) * r.dwell_s)
            / nullif(sum(r.running * r.dwell_s) FILTER (WHERE coalesce(r.kv_used_tokens, r.kv_usage * l.capacity_tokens * coalesce(r.engines, 1)) IS NOT NULL), 0)
            AS tokens_per_request,
        max(l.capacity_tokens) * greatest(count(DISTINCT r.dp), coalesce(max(r.engines), 1)) AS capacity_tokens
    FROM _report AS r
    JOIN _limits AS l USING (instance, run_id)
    WHERE r.running > 0
    GROUP BY r.instance, r.run_id
),
asked AS (
    SELECT instance, run_id, max(running + waiting) AS demand_max, arg_max(ts, (running + waiting, -seq)) FILTER (WHERE running + waiting IS NOT NULL) AS demand_ts
    FROM _load
    GROUP BY ALL
)
SELECT
    i.instance,
    h.run_id,
    h.tokens_per_request,
    h.capacity_tokens,
    h.capacity_tokens / h.tokens_per_request AS ceiling_requests,
    a.demand_max,
    a.demand_ts,
    a.demand_max / nullif(h.capacity_tokens / h.tokens_per_request, 0) AS demand_share
FROM _instance AS i
LEFT JOIN held AS h USING (instance)
LEFT JOIN asked AS a ON a.instance = h.instance AND a.run_id = h.run_id
QUALIFY row_number() OVER (PARTITION BY i.instance ORDER BY a.demand_max / nullif(h.capacity_tokens / h.tokens_per_request, 0) DESC NULLS LAST) = 1;
