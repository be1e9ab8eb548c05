-- 8. Was L2 the bottleneck? Its capacity and use, what was found, loaded and stored, seconds spent loading, failures:
-- of the whole capture, and its use inside the incident. `l2_moved_by` says whether counters or the log told.
CREATE OR REPLACE VIEW q08_l2 AS
WITH moved AS (
    SELECT
        instance,
        min(source) AS l2_moved_by,
        sum(hit_tokens)::BIGINT AS hit_tokens,
        sum(lookup_tokens)::BIGINT AS lookup_tokens,
        sum(loaded_tokens)::BIGINT AS loaded_tokens,
        sum(loaded_bytes)::BIGINT AS loaded_bytes,
        sum(stored_tokens)::BIGINT AS stored_tokens,
        sum(load_s) AS load_s,
        (coalesce(sum(alloc_failures), 0) + coalesce(sum(load_failures), 0))::BIGINT AS failures,
        coalesce(sum(alloc_failures), 0)::BIGINT AS alloc_failures,
        sum(dropped_tokens)::BIGINT AS dropped_tokens
    FROM _l2_moved
    GROUP BY instance
),
operated AS (
    SELECT
        c.instance,
        count(*) AS operations,
        count(*) FILTER (WHERE c.op = 'lookup') AS lookups,
        sum(c.tokens) FILTER (WHERE c.op = 'lookup')::BIGINT AS need_to_load_tokens,
        max(c.duration_s) FILTER (WHERE c.op = 'load') AS load_max_s,
        min(s.path || ':' || c.record) AS source
    FROM cache_op AS c
    LEFT JOIN sources AS s USING (source_id)
    GROUP BY c.instance
),
level AS (
    SELECT
        v.instance,
        max(v.used_share) AS used_share_max,
        max(v.used_share) FILTER (WHERE v.ts BETWEEN i.start_ts AND i.end_ts) AS used_share_inside,
        max(v.used_tokens)::BIGINT AS used_tokens_max,
        max(v.used_bytes)::BIGINT AS used_bytes_max
    FROM _l2_level AS v
    LEFT JOIN incident AS i USING (instance)
    GROUP BY v.instance
)
SELECT
    i.instance,
    (SELECT max(l.l2_capacity_tokens) FROM _limits AS l WHERE l.instance = i.instance) AS l2_capacity_tokens,
    (SELECT max(l.l2_bytes) FROM _limits AS l WHERE l.instance = i.instance) AS l2_bytes,
    (SELECT max(f.source) FROM fact AS f WHERE f.instance = i.instance AND f.key IN ('l2_bytes', 'l2_capacity_tokens')) AS l2_source,
    v.used_share_max,
    v.used_share_inside,
    v.used_tokens_max,
    v.used_bytes_max,
    m.l2_moved_by,
    coalesce(o.operations, 0) AS operations,
    coalesce(o.lookups, 0) AS lookups,
    m.hit_tokens,
    m.lookup_tokens,
    o.need_to_load_tokens,
    m.loaded_tokens,
    m.loaded_bytes,
    m.stored_tokens,
    m.load_s,
    o.load_max_s,
    coalesce(m.failures, 0) AS failures,
    coalesce(m.alloc_failures, 0) AS alloc_failures,
    m.dropped_tokens,
    o.source
FROM _instance AS i
LEFT JOIN moved AS m USING (instance)
LEFT JOIN operated AS o USING (instance)
LEFT JOIN level AS v USING (instance);
