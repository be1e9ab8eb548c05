-- One row per scrape of one data-parallel rank: what a scheduler report says, from metrics. Requests and tokens are
-- summed over series of one rank (several models), usage is the fullest. Rates are what counters rose by since the
-- scrape before; `first_tokens` is the number of requests that got their first token in that time.
CREATE OR REPLACE VIEW _scrape AS
WITH gauges AS (
    SELECT
        instance,
        run_id,
        dp,
        ts,
        any_value(engine) AS engine,
        any_value(source_id) AS source_id,
        min(record) AS record,
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
    WHERE part IS NULL AND name NOT LIKE '%\_total' ESCAPE '\'
        AND ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
        AND ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
    GROUP BY instance, run_id, dp, ts
    HAVING running IS NOT NULL OR waiting IS NOT NULL OR kv_usage IS NOT NULL OR pool_usage IS NOT NULL
),
rises AS (
    SELECT
        instance,
        dp,
        ts,
        max(epoch(ts - prev_ts)) AS span_s,
        sum(delta) FILTER (WHERE name = 'prompt_tokens_total') AS prompt_tokens,
        sum(delta) FILTER (WHERE name = 'prefill_computed_tokens_total') AS computed_tokens,
        sum(delta) FILTER (WHERE name = 'generation_tokens_total') AS generation_tokens,
        sum(delta) FILTER (WHERE name = 'decode_tokens_total') AS decode_tokens,
        sum(delta) FILTER (WHERE name = 'prefix_hit_tokens_total') AS hit_tokens,
        sum(delta) FILTER (WHERE name = 'prefix_query_tokens_total') AS query_tokens,
        sum(delta) FILTER (WHERE name = 'external_hit_tokens_total') AS external_hit_tokens,
        sum(delta) FILTER (WHERE name = 'external_query_tokens_total') AS external_query_tokens,
        sum(delta) FILTER (WHERE name = 'ttft_s' AND part = 'count') AS first_tokens
    FROM counter_delta
    WHERE part IS NULL OR (name = 'ttft_s' AND part = 'count')
    GROUP BY ALL
)
SELECT
    g.* EXCLUDE (prompt_tps, gen_tps, kv_usage, pool_usage),
    coalesce(g.kv_usage, g.pool_usage) AS kv_usage,
    greatest(g.kv_usage, g.pool_usage, g.swa_usage, g.mamba_usage) AS pool_usage,
    coalesce(coalesce(r.computed_tokens, r.prompt_tokens) / nullif(r.span_s, 0), g.prompt_tps) AS prompt_tps,
    coalesce(g.gen_tps, coalesce(r.decode_tokens, r.generation_tokens) / nullif(r.span_s, 0)) AS gen_tps,
    r.hit_tokens,
    r.query_tokens,
    r.hit_tokens / nullif(r.query_tokens, 0) AS prefix_hit_share,
    r.external_hit_tokens / nullif(r.external_query_tokens, 0) AS external_hit_share,
    r.first_tokens
FROM gauges AS g
LEFT JOIN rises AS r ON g.instance = r.instance AND g.dp = r.dp AND g.ts = r.ts;
