-- 8. Was L2 the bottleneck? What the log tells of it: capacity, operations, seconds spent loading, failures.
CREATE OR REPLACE VIEW q08_l2 AS
SELECT
    i.instance,
    (SELECT max(l.l2_capacity_tokens) FROM _limits AS l WHERE l.instance = i.instance) AS l2_capacity_tokens,
    (SELECT max(l.l2_bytes) FROM _limits AS l WHERE l.instance = i.instance) AS l2_bytes,
    (SELECT max(f.source) FROM fact AS f WHERE f.instance = i.instance AND f.key IN ('l2_bytes', 'l2_capacity_tokens')) AS l2_source,
    count(c.op) AS operations,
    count(*) FILTER (WHERE c.op = 'lookup') AS lookups,
    sum(c.hit_tokens) FILTER (WHERE c.op = 'lookup')::BIGINT AS hit_tokens,
    sum(c.tokens) FILTER (WHERE c.op = 'lookup')::BIGINT AS need_to_load_tokens,
    sum(c.tokens) FILTER (WHERE c.op = 'load')::BIGINT AS loaded_tokens,
    sum(c.duration_s) FILTER (WHERE c.op = 'load') AS load_s,
    max(c.duration_s) FILTER (WHERE c.op = 'load') AS load_max_s,
    count(*) FILTER (WHERE c.ok = false) AS failures,
    count(*) FILTER (WHERE c.op = 'alloc_fail') AS alloc_failures,
    min(s.path || ':' || c.record) AS source
FROM _instance AS i
LEFT JOIN cache_ops AS c USING (instance)
LEFT JOIN sources AS s USING (source_id)
GROUP BY i.instance;
