-- What is known of L2 from metrics, per scrape: tokens or bytes in use and their share of the capacity. Gauges that
-- tell what is pinned by transfers (vLLM's offloading) are no occupancy and not used here.
CREATE OR REPLACE VIEW _l2_level AS
WITH gauges AS (
    SELECT
        instance,
        run_id,
        ts,
        sum(value) FILTER (WHERE name = 'l2_used_tokens') AS used_tokens,
        sum(value) FILTER (WHERE name = 'l2_capacity_tokens') AS capacity_tokens,
        sum(value) FILTER (WHERE name = 'l2_used_bytes') AS used_bytes,
        max(value) FILTER (WHERE name = 'l2_usage') AS usage
    FROM _sample
    WHERE part IS NULL AND name IN ('l2_used_tokens', 'l2_capacity_tokens', 'l2_used_bytes', 'l2_usage')
        AND ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
        AND ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
    GROUP BY ALL
)
SELECT
    g.*,
    coalesce(g.usage, g.used_tokens / nullif(coalesce(g.capacity_tokens, l.l2_capacity_tokens), 0), g.used_bytes / nullif(l.l2_bytes, 0)) AS used_share
FROM gauges AS g
LEFT JOIN _limits AS l USING (instance, run_id);

-- What L2 did, moment by moment: from counters of an instance that has them, else from the operations in its log.
CREATE OR REPLACE VIEW _l2_moved AS
WITH risen AS (
    SELECT
        instance,
        run_id,
        ts,
        'counter' AS source,
        sum(delta) FILTER (WHERE name = 'l2_load_tokens_total') AS loaded_tokens,
        sum(delta) FILTER (WHERE name = 'l2_load_bytes_total') AS loaded_bytes,
        sum(delta) FILTER (WHERE name = 'l2_load_seconds_total' OR (name = 'l2_load_s' AND part = 'sum')) AS load_s,
        sum(delta) FILTER (WHERE name = 'l2_store_tokens_total') AS stored_tokens,
        sum(delta) FILTER (WHERE name = 'l2_store_bytes_total') AS stored_bytes,
        sum(delta) FILTER (WHERE name = 'l2_hit_tokens_total') AS hit_tokens,
        sum(delta) FILTER (WHERE name = 'l2_lookup_tokens_total') AS lookup_tokens,
        sum(delta) FILTER (WHERE name IN ('l2_alloc_failures_total', 'l2_evict_failures_total')) AS alloc_failures,
        sum(delta) FILTER (WHERE name = 'l2_load_failures_total') AS load_failures,
        sum(delta) FILTER (WHERE name = 'l2_dropped_tokens_total') AS dropped_tokens
    FROM counter_delta
    WHERE name LIKE 'l2\_%' ESCAPE '\' AND (part IS NULL OR part = 'sum')
    GROUP BY ALL
),
logged AS (
    SELECT
        instance,
        run_id,
        ts,
        'log' AS source,
        tokens AS t,
        CASE WHEN op = 'load' THEN tokens END AS loaded_tokens,
        CASE WHEN op = 'load' THEN bytes END AS loaded_bytes,
        CASE WHEN op = 'load' THEN duration_s END AS load_s,
        CASE WHEN op = 'store' THEN tokens END AS stored_tokens,
        CASE WHEN op = 'store' THEN bytes END AS stored_bytes,
        CASE WHEN op = 'lookup' THEN hit_tokens END AS hit_tokens,
        CASE WHEN op = 'lookup' THEN total_tokens END AS lookup_tokens,
        CASE WHEN op = 'alloc_fail' THEN 1 END AS alloc_failures,
        CASE WHEN op = 'load' AND ok = false THEN 1 END AS load_failures,
        NULL::BIGINT AS dropped_tokens
    FROM cache_op
    WHERE ts IS NOT NULL
)
FROM risen
UNION ALL BY NAME
SELECT * EXCLUDE (t) FROM logged WHERE instance NOT IN (SELECT instance FROM risen);

-- L2 per bucket: tokens and bytes loaded and stored, seconds spent loading, failures, and the used share of its
-- capacity, which only metrics tell. Hit tokens were found, loaded tokens were moved. `l2_source` is counter or log.
CREATE OR REPLACE VIEW signal_l2 AS
WITH moved AS (
    SELECT
        m.instance,
        m.run_id,
        to_timestamp(floor(epoch(m.ts) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
        any_value(m.source) AS l2_source,
        sum(m.loaded_tokens)::BIGINT AS loaded_tokens,
        sum(m.loaded_bytes)::BIGINT AS loaded_bytes,
        sum(m.load_s) AS load_s,
        sum(m.stored_tokens)::BIGINT AS stored_tokens,
        sum(m.stored_bytes)::BIGINT AS stored_bytes,
        sum(m.hit_tokens)::BIGINT AS hit_tokens,
        sum(m.lookup_tokens)::BIGINT AS lookup_tokens,
        sum(m.alloc_failures)::BIGINT AS alloc_failures,
        (coalesce(sum(m.alloc_failures), 0) + coalesce(sum(m.load_failures), 0))::BIGINT AS failures,
        sum(m.dropped_tokens)::BIGINT AS dropped_tokens
    FROM _l2_moved AS m
    CROSS JOIN _bucket AS b
    GROUP BY ALL
),
level AS (
    SELECT
        v.instance,
        v.run_id,
        to_timestamp(floor(epoch(v.ts) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
        max(v.used_share) AS l2_used_share,
        max(v.used_tokens)::BIGINT AS l2_used_tokens,
        max(v.used_bytes)::BIGINT AS l2_used_bytes
    FROM _l2_level AS v
    CROSS JOIN _bucket AS b
    GROUP BY ALL
)
SELECT *
FROM moved
FULL JOIN level USING (instance, run_id, bucket_ts);
