-- 9. Did the cache stop helping? Prefix hits as share of prompt tokens, outside and inside the incident. SGLang's log
-- and vLLM's counters tell tokens; vLLM's log prints the rate of its last thousand requests. A scrape tells of the time
-- before it, a line of its own moment. `fell_from_ts` is the first minute of the incident with less than half the share outside,
-- `full_from_ts` when the pool was first full in it; `evicted_tokens` are those evicted from the pool.
CREATE OR REPLACE VIEW q09_cache AS
WITH looked_up AS (
    SELECT
        r.instance,
        i.incident,
        r.ts,
        r.prefix_hit_share,
        coalesce(r.cached_tokens, r.hit_tokens) AS cached_tokens,
        coalesce(r.new_tokens, r.query_tokens - r.hit_tokens) AS new_tokens,
        i.start_ts,
        coalesce(r.ts BETWEEN i.start_ts AND i.end_ts AND (r.basis = 'log' OR r.ts > i.start_ts), false) AS inside
    FROM incident AS i
    JOIN _report AS r USING (instance)
),
shares AS (
    SELECT
        instance,
        incident,
        sum(cached_tokens) FILTER (WHERE NOT inside) / nullif(sum(cached_tokens + new_tokens) FILTER (WHERE NOT inside), 0) AS outside
    FROM looked_up
    GROUP BY ALL
),
minutes AS (
    SELECT r.instance, r.incident, min(r.ts) AS ts, sum(r.cached_tokens) / nullif(sum(r.cached_tokens + r.new_tokens), 0) AS share
    FROM looked_up AS r
    WHERE r.inside
    GROUP BY r.instance, r.incident, floor(epoch(r.ts) / 60)
),
fell AS (
    SELECT m.instance, m.incident, min(m.ts) AS fell_from_ts
    FROM minutes AS m
    JOIN shares AS s USING (instance, incident)
    WHERE m.share < 0.5 * s.outside
    GROUP BY m.instance, m.incident
),
evicted AS (
    SELECT
        i.instance,
        i.incident,
        sum(c.delta) FILTER (WHERE c.ts > i.start_ts AND c.ts <= i.end_ts) AS inside,
        sum(c.delta) FILTER (WHERE coalesce(c.ts <= i.start_ts OR c.ts > i.end_ts, true)) AS outside
    FROM incident AS i
    JOIN counter_delta AS c ON c.instance = i.instance AND c.name = 'evicted_tokens_total' AND c.part IS NULL
    GROUP BY i.instance, i.incident
)
SELECT
    i.instance,
    i.incident,
    sum(r.cached_tokens) FILTER (WHERE NOT r.inside) / nullif(sum(r.cached_tokens + r.new_tokens) FILTER (WHERE NOT r.inside), 0)
        AS counted_outside,
    sum(r.cached_tokens) FILTER (WHERE r.inside) / nullif(sum(r.cached_tokens + r.new_tokens) FILTER (WHERE r.inside), 0) AS counted_inside,
    arg_max(r.prefix_hit_share, r.ts) FILTER (WHERE r.ts < r.start_ts) AS reported_before,
    arg_max(r.prefix_hit_share, r.ts) FILTER (WHERE r.inside) AS reported_inside,
    arg_max(r.prefix_hit_share, r.ts) AS reported_last,
    any_value(f.fell_from_ts) AS fell_from_ts,
    (SELECT x.full_from_ts FROM l2_wait AS x WHERE x.instance = i.instance AND x.incident = i.incident) AS full_from_ts,
    any_value(e.inside)::BIGINT AS evicted_tokens_inside,
    any_value(e.outside)::BIGINT AS evicted_tokens_outside
FROM incident AS i
LEFT JOIN looked_up AS r USING (instance, incident)
LEFT JOIN fell AS f USING (instance, incident)
LEFT JOIN evicted AS e USING (instance, incident)
GROUP BY i.instance, i.incident;
