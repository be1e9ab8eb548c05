-- One row per scrape of one data-parallel rank: what a scheduler report says, from metrics. Requests and tokens are
-- summed over series of one rank (several models), usage is the fullest. Inputs that hold a metric each were read at
-- different moments: a level then stands for up to 30 s. Rates and amounts are what counters rose by since the scrape
-- before, evenly over the time between their own samples; a counter without a rank is shared evenly by all ranks.
-- `first_tokens` is the number of requests that got their first token in that time.
CREATE OR REPLACE VIEW _scrape AS
WITH gauges AS (
    SELECT
        instance,
        run_id,
        dp,
        ts,
        any_value(engine) AS engine,
        min({'source_id': source_id, 'record': record}) AS place,
        sum(value) FILTER (WHERE name = 'running_requests') AS running,
        sum(value) FILTER (WHERE name = 'waiting_requests') AS waiting,
        sum(value) FILTER (WHERE name = 'waiting_requests_by_reason' AND labels['reason'] = 'deferred') AS deferred,
        sum(value) FILTER (WHERE name = 'swapped_requests') AS swapped,
        max(value) FILTER (WHERE name = 'kv_usage') AS kv_usage,
        max(value) FILTER (WHERE name = 'pool_usage') AS pool_usage,
        max(value) FILTER (WHERE name = 'swa_usage') AS swa_usage,
        max(value) FILTER (WHERE name = 'mamba_usage') AS mamba_usage,
        max(value) FILTER (WHERE name = 'host_kv_usage') AS host_kv_usage,
        sum(value) FILTER (WHERE name = 'kv_used_tokens') AS kv_used_tokens,
        sum(value) FILTER (WHERE name = 'kv_evictable_tokens') AS kv_evictable_tokens,
        sum(value) FILTER (WHERE name = 'kv_available_tokens') AS kv_available_tokens,
        max(value) FILTER (WHERE name = 'new_token_ratio') AS new_token_ratio,
        sum(value) FILTER (WHERE name = 'prompt_tps') AS prompt_tps,
        sum(value) FILTER (WHERE name = 'gen_tps') AS gen_tps,
        -- up to 0.5.9 the prefill side's queue had the other name
        sum(value) FILTER (WHERE name IN ('prefill_bootstrap_requests', 'prefill_prealloc_requests')) AS bootstrap_reqs,
        sum(value) FILTER (WHERE name = 'prefill_inflight_requests') AS inflight_reqs,
        sum(value) FILTER (WHERE name = 'decode_prealloc_requests') AS prealloc_reqs,
        sum(value) FILTER (WHERE name = 'decode_transfer_requests') AS transfer_reqs,
        sum(value) FILTER (WHERE name = 'kv_fetch_requests' AND labels['stage'] = 'waiting_to_start') AS kv_fetch_waiting,
        sum(value) FILTER (WHERE name = 'kv_fetch_requests' AND labels['stage'] = 'in_progress') AS kv_fetch_loading,
        sum(value) FILTER (WHERE name = 'kv_fetch_requests' AND labels['stage'] = 'completed_waiting') AS kv_fetch_done
    FROM _sample
    WHERE part IS NULL AND value IS NOT NULL AND name NOT LIKE '%\_total' ESCAPE '\'
        AND ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
        AND ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
    GROUP BY instance, run_id, dp, ts
    HAVING running IS NOT NULL OR waiting IS NOT NULL OR kv_usage IS NOT NULL OR pool_usage IS NOT NULL
),
ranks AS (
    SELECT instance, dp, count(*) OVER (PARTITION BY instance) AS ranks FROM (SELECT DISTINCT instance, dp FROM gauges)
),
rises AS (
    SELECT
        s.instance,
        coalesce(s.dp, r.dp) AS dp,
        s.name,
        c.ts,
        max(coalesce(c.prev_ts, c.ts)) AS prev_ts,
        sum(c.delta / if(s.dp IS NULL, r.ranks, 1)) AS delta
    FROM _counter_step AS c
    JOIN _series_used AS s USING (series_id)
    LEFT JOIN ranks AS r ON s.dp IS NULL AND r.instance = s.instance
    WHERE c.delta IS NOT NULL AND (
        s.name = 'ttft_s' AND s.part = 'count' OR s.part IS NULL AND s.name IN (
            'prompt_tokens_total', 'prefill_computed_tokens_total', 'prefill_cached_tokens_total', 'generation_tokens_total', 'decode_tokens_total',
            'prefix_hit_tokens_total', 'prefix_query_tokens_total', 'external_hit_tokens_total', 'external_query_tokens_total'
        )
    )
    GROUP BY ALL
),
totals AS (
    SELECT
        *,
        epoch(ts - prev_ts) AS span_s,
        sum(delta) OVER (PARTITION BY instance, dp, name ORDER BY ts) AS total
    FROM rises
),
read AS (
    SELECT
        g.instance,
        g.dp,
        g.ts,
        t.name,
        t.delta / nullif(t.span_s, 0) AS tps,
        t.total - t.delta * coalesce(epoch(t.ts - g.ts) / nullif(t.span_s, 0), 0) AS total
    FROM (
        SELECT g.instance, g.dp, g.ts, n.name
        FROM gauges AS g
        JOIN (SELECT DISTINCT instance, dp, name FROM totals) AS n ON n.instance = g.instance AND n.dp = g.dp
    ) AS g
    ASOF JOIN totals AS t ON t.instance = g.instance AND t.dp = g.dp AND t.name = g.name AND g.ts <= t.ts
    WHERE g.ts > t.prev_ts OR g.ts = t.ts
),
amounts AS (
    SELECT *, total - coalesce(lag(total) OVER (PARTITION BY instance, dp, name ORDER BY ts), 0.0) AS n FROM read
),
risen AS (
    SELECT
        instance,
        dp,
        ts,
        coalesce(max(tps) FILTER (WHERE name = 'prefill_computed_tokens_total'), max(tps) FILTER (WHERE name = 'prompt_tokens_total')) AS prompt_tps,
        max(tps) FILTER (WHERE name = 'decode_tokens_total') AS decode_tps,
        max(tps) FILTER (WHERE name = 'generation_tokens_total') AS generation_tps,
        -- vLLM counts lookups, SGLang what prefill computed and what it found
        coalesce(max(n) FILTER (WHERE name = 'prefix_hit_tokens_total'), max(n) FILTER (WHERE name = 'prefill_cached_tokens_total')) AS hit_tokens,
        coalesce(
            max(n) FILTER (WHERE name = 'prefix_query_tokens_total'),
            max(n) FILTER (WHERE name = 'prefill_cached_tokens_total') + max(n) FILTER (WHERE name = 'prefill_computed_tokens_total')
        ) AS query_tokens,
        max(n) FILTER (WHERE name = 'external_hit_tokens_total') AS external_hit_tokens,
        max(n) FILTER (WHERE name = 'external_query_tokens_total') AS external_query_tokens,
        max(n) FILTER (WHERE name = 'ttft_s') AS first_tokens
    FROM amounts
    GROUP BY ALL
)
SELECT
    g.* EXCLUDE (place, running, waiting, prompt_tps, gen_tps, kv_usage, pool_usage),
    g.place.source_id AS source_id,
    g.place.record AS record,
    last_value(g.running IGNORE NULLS) OVER just_now AS running,
    last_value(g.waiting IGNORE NULLS) OVER just_now AS waiting,
    last_value(coalesce(g.kv_usage, g.pool_usage) IGNORE NULLS) OVER just_now AS kv_usage,
    last_value(greatest(g.kv_usage, g.pool_usage, g.swa_usage, g.mamba_usage) IGNORE NULLS) OVER just_now AS pool_usage,
    coalesce(r.prompt_tps, g.prompt_tps) AS prompt_tps,
    -- a gauge stands still when the engine does, a counter of finished requests moves in lumps
    coalesce(r.decode_tps, g.gen_tps, r.generation_tps) AS gen_tps,
    r.hit_tokens,
    r.query_tokens,
    r.hit_tokens / nullif(r.query_tokens, 0) AS prefix_hit_share,
    r.external_hit_tokens / nullif(r.external_query_tokens, 0) AS external_hit_share,
    r.first_tokens
FROM gauges AS g
LEFT JOIN risen AS r ON g.instance = r.instance AND g.dp = r.dp AND g.ts = r.ts
WINDOW just_now AS (
    PARTITION BY g.instance, g.run_id, g.dp ORDER BY g.ts RANGE BETWEEN INTERVAL 30 SECOND PRECEDING AND CURRENT ROW
);
