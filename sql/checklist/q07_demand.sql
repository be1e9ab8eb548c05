-- 7. Was demand beyond the ceiling? Tokens a request holds while it runs (mean), how many such requests the pool
-- takes, and how many were running and waiting together: at most, and on average over the incident (the capture, where
-- nothing waited). An average above the ceiling is a queue that cannot clear; a peak above it may be a burst.
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
    SELECT
        i.instance,
        i.incident,
        l.run_id,
        max(l.running + l.waiting) AS demand_max,
        arg_max(l.ts, (l.running + l.waiting, -l.seq)) FILTER (WHERE l.running + l.waiting IS NOT NULL) AS demand_ts,
        sum((l.running + l.waiting) * l.dwell_s) / nullif(sum(l.dwell_s) FILTER (WHERE l.running + l.waiting IS NOT NULL), 0) AS demand_mean
    FROM incident AS i
    JOIN _load AS l ON l.instance = i.instance AND (i.start_ts IS NULL OR l.ts >= i.start_ts AND l.ts <= i.end_ts)
    GROUP BY ALL
)
SELECT
    i.instance,
    i.incident,
    h.run_id,
    h.tokens_per_request,
    h.capacity_tokens,
    h.capacity_tokens / h.tokens_per_request AS ceiling_requests,
    a.demand_max,
    a.demand_ts,
    a.demand_mean,
    a.demand_max / nullif(h.capacity_tokens / h.tokens_per_request, 0) AS demand_share,
    a.demand_mean / nullif(h.capacity_tokens / h.tokens_per_request, 0) AS demand_mean_share
FROM incident AS i
LEFT JOIN asked AS a USING (instance, incident)
LEFT JOIN held AS h ON h.instance = i.instance AND (a.run_id IS NULL OR h.run_id = a.run_id)
QUALIFY row_number() OVER (
    PARTITION BY i.instance, i.incident ORDER BY a.demand_max / nullif(h.capacity_tokens / h.tokens_per_request, 0) DESC NULLS LAST
) = 1;
