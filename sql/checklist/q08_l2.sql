-- 8. Was L2 the bottleneck? Its capacity and use, what was found, loaded and stored, seconds spent loading, failures: of the
-- whole capture, and inside the incident (see `l2_wait`). `l2_moved_by` says whether counters or the log told. Of
-- `computed_s` seconds of prefill the timed loads saved the engine. `pinned_share_max` is what transfers pinned, no occupancy.
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
        i.incident,
        max(v.used_share) AS used_share_max,
        max(v.used_share) FILTER (WHERE v.ts BETWEEN i.start_ts AND i.end_ts) AS used_share_inside,
        max(v.used_tokens)::BIGINT AS used_tokens_max,
        max(v.used_bytes)::BIGINT AS used_bytes_max
    FROM _l2_level AS v
    JOIN incident AS i USING (instance)
    GROUP BY v.instance, i.incident
),
pinned AS (
    SELECT instance, max(value) AS pinned_share_max FROM _sample WHERE name = 'l2_pinned_share' AND part IS NULL GROUP BY instance
)
SELECT
    i.instance,
    i.incident,
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
    p.pinned_share_max,
    x.incident_s,
    x.loads_inside,
    x.load_inside_s,
    x.slow_load_inside_s,
    x.load_inside_s / nullif(x.loads_inside, 0) AS load_mean_inside_s,
    x.load_mean_outside_s,
    x.timed_tokens_inside / nullif(x.prefill_tps, 0) AS computed_s,
    x.slow_from_ts,
    x.full_from_ts,
    x.fetch_from_ts,
    x.fetch_max,
    x.fetch_request_s,
    x.deferred_request_s,
    x.waiting_request_s,
    x.loaded_tokens_inside,
    x.prefetched_tokens_inside,
    x.unfulfilled_tokens_inside,
    coalesce(x.load_failures_inside, 0)::BIGINT AS load_failures_inside,
    x.spare_s,
    x.spare_judged_s,
    x.slow_ttft_n,
    x.excess_request_s,
    o.source
FROM incident AS i
LEFT JOIN moved AS m USING (instance)
LEFT JOIN operated AS o USING (instance)
LEFT JOIN level AS v USING (instance, incident)
LEFT JOIN pinned AS p USING (instance)
LEFT JOIN l2_wait AS x USING (instance, incident);
