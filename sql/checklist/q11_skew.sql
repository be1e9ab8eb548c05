-- 11. Was load skewed? The fullest and the emptiest data-parallel rank while any of them had requests waiting.
CREATE OR REPLACE VIEW q11_skew AS
WITH per_rank AS (
    SELECT
        r.instance,
        r.dp,
        sum(r.pool_usage * r.dwell_s) / nullif(sum(r.dwell_s) FILTER (WHERE r.pool_usage IS NOT NULL), 0) AS usage_mean,
        sum(r.waiting * r.dwell_s) / nullif(sum(r.dwell_s) FILTER (WHERE r.waiting IS NOT NULL), 0) AS waiting_mean
    FROM _report AS r
    JOIN incident AS i ON r.instance = i.instance AND r.ts >= i.start_ts AND r.ts <= i.end_ts
    GROUP BY ALL
)
SELECT
    i.instance,
    (SELECT count(DISTINCT s.dp) FROM scheduler_clean AS s WHERE s.instance = i.instance)::INTEGER AS ranks,
    max(p.usage_mean) AS usage_fullest,
    min(p.usage_mean) AS usage_emptiest,
    arg_max(p.dp, p.usage_mean) AS fullest_rank,
    arg_min(p.dp, p.usage_mean) AS emptiest_rank,
    max(p.waiting_mean) AS waiting_longest,
    min(p.waiting_mean) AS waiting_shortest
FROM _instance AS i
LEFT JOIN per_rank AS p USING (instance)
GROUP BY i.instance;
