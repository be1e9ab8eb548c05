-- 10. Was prefill compute the bottleneck? How busy prefill was while requests waited, and with how much room in L1.
CREATE OR REPLACE VIEW q10_prefill AS
WITH inside AS (
    SELECT r.*, q.state, q.seconds
    FROM _report AS r
    JOIN incident AS i ON r.instance = i.instance AND r.ts >= i.start_ts AND r.ts <= i.end_ts
    LEFT JOIN queue_state AS q
        ON q.instance = r.instance AND q.run_id = r.run_id AND q.dp = r.dp AND q.seq = r.seq
)
SELECT
    i.instance,
    sum(r.seconds) FILTER (WHERE r.state = 'prefill') AS prefill_s,
    sum(r.seconds) FILTER (WHERE r.state <> 'admitting') AS judged_s,
    max(r.pool_usage) FILTER (WHERE r.waiting > 0) AS usage_max,
    sum(r.new_tokens) / nullif(sum(r.span_s), 0) AS counted_prompt_tps,
    avg(r.prompt_tps_now) FILTER (WHERE r.waiting > 0) AS prompt_tps_mean,
    stddev_samp(r.prompt_tps_now) FILTER (WHERE r.waiting > 0)
        / nullif(avg(r.prompt_tps_now) FILTER (WHERE r.waiting > 0), 0) AS prompt_tps_variation,
    avg(r.gen_tps) FILTER (WHERE r.waiting > 0) AS gen_tps_mean,
    max(r.pending_tokens) AS pending_tokens_max,
    (SELECT max(l.max_num_batched_tokens) FROM _limits AS l WHERE l.instance = i.instance AND l.run_id = max(r.run_id)) AS max_num_batched_tokens,
    (SELECT max(l.chunk_tokens) FROM _limits AS l WHERE l.instance = i.instance AND l.run_id = max(r.run_id)) AS chunk_tokens
FROM _instance AS i
LEFT JOIN inside AS r USING (instance)
GROUP BY i.instance;
