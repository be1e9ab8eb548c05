-- What this project is for, as one table: load, L1, retractions, TTFT and L2 side by side, one row per instance and
-- bucket. running, waiting and kv_usage are the bucket's maxima; anything that was not reported is NULL.
CREATE OR REPLACE VIEW timeline AS
WITH waits AS (
    SELECT
        w.instance,
        to_timestamp(floor(epoch(w.ts) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
        max(w.wait_est_s) AS wait_est_s
    FROM _wait AS w
    CROSS JOIN _bucket AS b
    GROUP BY ALL
)
SELECT
    s.instance,
    s.run_id,
    s.bucket_ts,
    s.bucket_s,
    s.running_max AS running,
    s.waiting_max AS waiting,
    s.kv_usage_max AS kv_usage,
    l.l1_used_tokens,
    l.l1_evictable_tokens,
    l.l1_available_tokens,
    l.l1_capacity_tokens,
    s.prompt_tps,
    s.gen_tps,
    s.pending_tokens,
    r.retraction_events,
    r.retracted,
    r.preempted,
    r.new_token_ratio,
    w.wait_est_s,
    t.ttft_p50_s,
    t.ttft_p95_s,
    t.ttft_p99_s,
    t.ttft_n,
    t.ttft_source,
    t.ttft_p99_low_s,
    t.ttft_p99_high_s,
    l2.l2_used_share,
    l2.loaded_tokens AS l2_loaded_tokens,
    l2.failures AS l2_failures
FROM signal_load AS s
LEFT JOIN signal_l1 AS l ON l.instance = s.instance AND l.bucket_ts = s.bucket_ts
LEFT JOIN (
    SELECT instance, bucket_ts, sum(retraction_events) AS retraction_events, sum(retracted) AS retracted,
        sum(preempted) AS preempted, max(new_token_ratio) AS new_token_ratio
    FROM signal_retract GROUP BY ALL
) AS r ON r.instance = s.instance AND r.bucket_ts = s.bucket_ts
LEFT JOIN waits AS w ON w.instance = s.instance AND w.bucket_ts = s.bucket_ts
LEFT JOIN signal_ttft AS t ON t.instance = s.instance AND t.bucket_ts = s.bucket_ts
LEFT JOIN (
    SELECT instance, bucket_ts, max(l2_used_share) AS l2_used_share, sum(loaded_tokens) AS loaded_tokens, sum(failures) AS failures
    FROM signal_l2 GROUP BY ALL
) AS l2 ON l2.instance = s.instance AND l2.bucket_ts = s.bucket_ts
ORDER BY s.instance, s.bucket_ts;
