-- 10. Was prefill compute the bottleneck? How busy prefill was while requests waited in the incident, and with how much room in
-- L1. Saturated prefill has a flat top: `flat_share` is the part of those reports with at least eight tenths of the
-- highest prompt throughput of the capture, `full_batch_share` that of SGLang's batches with at least nine tenths of the chunk.
-- `step_tokens_p50` is what a step took, by throughputs (see queue_state), against `budget_tokens`.
CREATE OR REPLACE VIEW q10_prefill AS
WITH top AS (
    SELECT instance, quantile_cont(prompt_tps_now, 0.95) FILTER (WHERE prompt_tps_now > 0) AS prompt_tps_top FROM _report GROUP BY instance
),
inside AS (
    SELECT r.*, i.incident, q.state, q.seconds, q.step_tokens, q.budget_tokens
    FROM _report AS r
    JOIN incident AS i ON r.instance = i.instance AND r.ts >= i.start_ts AND r.ts <= i.end_ts
    LEFT JOIN queue_state AS q
        ON q.instance = r.instance AND q.run_id = r.run_id AND q.dp = r.dp AND q.seq = r.seq
)
SELECT
    i.instance,
    i.incident,
    sum(r.seconds) FILTER (WHERE r.state = 'prefill') AS prefill_s,
    sum(r.seconds) FILTER (WHERE r.state <> 'admitting') AS judged_s,
    max(r.pool_usage) FILTER (WHERE r.waiting > 0) AS usage_max,
    sum(r.new_tokens) / nullif(sum(r.span_s), 0) AS counted_prompt_tps,
    avg(r.prompt_tps_now) FILTER (WHERE r.waiting > 0) AS prompt_tps_mean,
    stddev_samp(r.prompt_tps_now) FILTER (WHERE r.waiting > 0)
        / nullif(avg(r.prompt_tps_now) FILTER (WHERE r.waiting > 0), 0) AS prompt_tps_variation,
    max(t.prompt_tps_top) AS prompt_tps_top,
    avg((r.prompt_tps_now >= 0.8 * t.prompt_tps_top)::INTEGER) FILTER (WHERE r.waiting > 0) AS flat_share,
    avg((r.new_tokens >= 0.9 * r.budget_tokens)::INTEGER) FILTER (WHERE r.kind = 'prefill' AND r.waiting > 0) AS full_batch_share,
    median(r.step_tokens) AS step_tokens_p50,
    max(r.budget_tokens) AS budget_tokens,
    avg(r.gen_tps) FILTER (WHERE r.waiting > 0) AS gen_tps_mean,
    max(r.pending_tokens) AS pending_tokens_max,
    arg_min(r.pending_tokens, r.seq) AS pending_tokens_first,
    (SELECT max(l.max_num_batched_tokens) FROM _limits AS l WHERE l.instance = i.instance AND l.run_id = max(r.run_id)) AS max_num_batched_tokens,
    (SELECT max(l.chunk_tokens) FROM _limits AS l WHERE l.instance = i.instance AND l.run_id = max(r.run_id)) AS chunk_tokens
FROM incident AS i
LEFT JOIN inside AS r USING (instance, incident)
LEFT JOIN top AS t USING (instance)
GROUP BY i.instance, i.incident;
