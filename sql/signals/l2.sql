-- What is known of L2 from metrics, per scrape: tokens or bytes in use and their share of the capacity. Each LMCache
-- worker inside an engine has a pool of the size it was given, so bytes and pools add up. Gauges that tell what is
-- pinned by transfers (vLLM's offloading) are no occupancy and not used here.
CREATE OR REPLACE VIEW _l2_level AS
WITH gauges AS (
    SELECT
        instance,
        run_id,
        ts,
        sum(value) FILTER (WHERE name = 'l2_used_tokens') AS used_tokens,
        sum(value) FILTER (WHERE name = 'l2_capacity_tokens') AS capacity_tokens,
        count(*) FILTER (WHERE name = 'l2_used_tokens') AS token_pools,
        sum(value) FILTER (WHERE name = 'l2_used_bytes') AS used_bytes,
        count(*) FILTER (WHERE name = 'l2_used_bytes') AS byte_pools,
        max(value) FILTER (WHERE name = 'l2_usage') AS usage
    FROM _sample
    WHERE part IS NULL AND value IS NOT NULL AND name IN ('l2_used_tokens', 'l2_capacity_tokens', 'l2_used_bytes', 'l2_usage')
        AND ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
        AND ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
    GROUP BY ALL
)
SELECT
    g.* EXCLUDE (token_pools, byte_pools),
    coalesce(
        g.usage,
        g.used_tokens / nullif(coalesce(g.capacity_tokens, l.l2_capacity_tokens * g.token_pools), 0),
        g.used_bytes / nullif(l.l2_bytes * g.byte_pools, 0)
    ) AS used_share
FROM gauges AS g
LEFT JOIN _limits AS l USING (instance, run_id);

-- What L2's counters rose by: `what` groups those that tell of the same. LMCache workers hold a part each of the same
-- tokens, and so do SGLang's pools of one rank: bytes add up over them, while tokens, seconds, loads and failures are
-- those of the one with the most, as in `cache_op`. Data-parallel ranks and everything else (reasons) add up. What
-- storage behind L2 (L3) delivered is a prefetch.
CREATE OR REPLACE VIEW _l2_risen AS
WITH named AS (
    SELECT
        * EXCLUDE (name),
        if(part = 'count', 'loads', name) AS name,
        CASE
            WHEN name LIKE 'l2\_load\_%' ESCAPE '\' AND name <> 'l2_load_failures_total' THEN 'load'
            WHEN name LIKE 'l2\_store\_%' ESCAPE '\' THEN 'store'
            WHEN name IN ('l2_alloc_failures_total', 'l2_evict_failures_total') THEN 'alloc_fail'
            WHEN name IN ('l2_load_failures_total', 'l3_load_failures_total') THEN 'load_fail'
            WHEN name = 'l2_dropped_tokens_total' THEN 'drop'
            WHEN name LIKE 'l3\_%' ESCAPE '\' OR name LIKE 'sglang\_l3\_%' ESCAPE '\' THEN 'prefetch'
            ELSE 'lookup'
        END AS what,
        if(name LIKE '%\_bytes\_total' ESCAPE '\', NULL, concat_ws('/', labels['worker_id'], labels['pool'])) AS share
    FROM counter_delta
    WHERE delta IS NOT NULL AND (
        name = 'l2_load_s' AND part IN ('sum', 'count') OR name = 'l2_load_size_bytes' AND part = 'count'
        OR part IS NULL AND name IN (
            'l2_load_tokens_total', 'l2_load_bytes_total', 'l2_load_seconds_total', 'l2_store_tokens_total', 'l2_store_bytes_total',
            'l2_hit_tokens_total', 'l2_lookup_tokens_total', 'l2_alloc_failures_total', 'l2_evict_failures_total',
            'l2_load_failures_total', 'l2_dropped_tokens_total', 'l3_load_failures_total', 'l3_prefetch_tokens_total',
            'sglang_l3_prefetch_unfulfilled_tokens_total'
        )
    )
),
shares AS (
    SELECT instance, run_id, dp, ts, what, name, share, sum(delta) AS n, min(coalesce(prev_ts, ts)) AS prev_ts FROM named GROUP BY ALL
),
ranks AS (
    SELECT instance, run_id, dp, ts, what, name, max(n) AS n, min(prev_ts) AS prev_ts FROM shares GROUP BY ALL
)
SELECT instance, run_id, ts, what, name, sum(n) AS n, min(prev_ts) AS prev_ts FROM ranks GROUP BY ALL;

-- What L2 did, moment by moment, each thing once: loads, stores, lookups and failures from the counters that tell them,
-- in the time these cover, else from the operations in the log. A counter tells of the time since `from_ts`; vLLM's log
-- says every few seconds what its offloading moved since the line before.
CREATE OR REPLACE VIEW _l2_moved AS
WITH covered AS (
    SELECT instance, run_id, what, min(prev_ts) AS from_ts, max(ts) AS until_ts FROM _l2_risen GROUP BY ALL
),
done AS (
    SELECT *, op AS what FROM cache_op WHERE ts IS NOT NULL
    UNION ALL BY NAME
    SELECT *, 'load_fail' AS what FROM cache_op WHERE ts IS NOT NULL AND op = 'load' AND ok = false
    UNION ALL BY NAME
    SELECT
        instance,
        run_id,
        ts,
        'load' AS what,
        try_cast(extra['vllm:kv_offload_load_bytes'] AS DOUBLE) AS bytes,
        try_cast(extra['vllm:kv_offload_load_time'] AS DOUBLE) AS duration_s,
        try_cast(extra['vllm:kv_offload_load_size_count'] AS DOUBLE) AS loads
    FROM scheduler
    WHERE kind = 'companion' AND extra['vllm:kv_offload_load_bytes'] IS NOT NULL
        AND ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
        AND ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
),
logged AS (
    SELECT d.*
    FROM done AS d
    LEFT JOIN covered AS c ON c.instance = d.instance AND c.run_id = d.run_id AND c.what = d.what AND d.ts BETWEEN c.from_ts AND c.until_ts
    WHERE c.what IS NULL
)
SELECT
    instance,
    run_id,
    ts,
    'counter' AS source,
    min(prev_ts) AS from_ts,
    sum(n) FILTER (WHERE name = 'loads') AS loads,
    sum(n) FILTER (WHERE name = 'l2_load_tokens_total') AS loaded_tokens,
    sum(n) FILTER (WHERE name = 'l2_load_bytes_total') AS loaded_bytes,
    sum(n) FILTER (WHERE name IN ('l2_load_seconds_total', 'l2_load_s')) AS load_s,
    sum(n) FILTER (WHERE name = 'l2_store_tokens_total') AS stored_tokens,
    sum(n) FILTER (WHERE name = 'l2_store_bytes_total') AS stored_bytes,
    sum(n) FILTER (WHERE name = 'l2_hit_tokens_total') AS hit_tokens,
    sum(n) FILTER (WHERE name = 'l2_lookup_tokens_total') AS lookup_tokens,
    sum(n) FILTER (WHERE name IN ('l2_alloc_failures_total', 'l2_evict_failures_total')) AS alloc_failures,
    sum(n) FILTER (WHERE name IN ('l2_load_failures_total', 'l3_load_failures_total')) AS load_failures,
    sum(n) FILTER (WHERE name = 'l3_prefetch_tokens_total') AS prefetched_tokens,
    sum(n) FILTER (WHERE name = 'sglang_l3_prefetch_unfulfilled_tokens_total') AS unfulfilled_tokens,
    sum(n) FILTER (WHERE name = 'l2_dropped_tokens_total') AS dropped_tokens
FROM _l2_risen
GROUP BY ALL
UNION ALL BY NAME
SELECT
    instance,
    run_id,
    ts,
    'log' AS source,
    ts AS from_ts,
    CASE WHEN what = 'load' AND duration_s IS NOT NULL THEN coalesce(loads, 1) END AS loads,
    CASE WHEN what = 'load' THEN tokens END AS loaded_tokens,
    CASE WHEN what = 'load' THEN bytes END AS loaded_bytes,
    CASE WHEN what = 'load' THEN duration_s END AS load_s,
    CASE WHEN what = 'store' THEN tokens END AS stored_tokens,
    CASE WHEN what = 'store' THEN bytes END AS stored_bytes,
    CASE WHEN what = 'lookup' THEN hit_tokens END AS hit_tokens,
    CASE WHEN what = 'lookup' THEN total_tokens END AS lookup_tokens,
    CASE WHEN what = 'alloc_fail' THEN 1 END AS alloc_failures,
    CASE WHEN what = 'load_fail' THEN 1 END AS load_failures,
    CASE WHEN what = 'prefetch' AND ok IS DISTINCT FROM false THEN tokens END AS prefetched_tokens,
    CASE WHEN what = 'prefetch' AND ok = false THEN tokens END AS unfulfilled_tokens
FROM logged;

-- L2 per bucket: tokens and bytes loaded and stored, seconds spent loading, failures, and the used share of its
-- capacity, which only metrics tell. Hit tokens were found, loaded tokens were moved. `l2_source` is counter (failures
-- may be the log's even so) or log.
CREATE OR REPLACE VIEW signal_l2 AS
WITH moved AS (
    SELECT
        m.instance,
        m.run_id,
        to_timestamp(floor(epoch(m.ts) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
        min(m.source) AS l2_source,
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
