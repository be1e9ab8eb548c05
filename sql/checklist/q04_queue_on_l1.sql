-- 4. Was the queue waiting on L1? Seconds of the incident in each queue state (see queue_state).
CREATE OR REPLACE VIEW q04_queue_on_l1 AS
SELECT
    i.instance,
    i.start_ts,
    i.end_ts,
    sum(q.seconds) FILTER (WHERE q.state <> 'admitting') AS judged_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'l1'), 0) AS l1_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'gap'), 0) AS gap_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'reservation'), 0) AS reservation_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'cap'), 0) AS cap_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'prefill'), 0) AS prefill_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'admitting'), 0) AS admitting_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'stalled'), 0) AS stalled_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'unexplained'), 0) AS unexplained_s,
    count(q.seq) AS reports,
    quantile_cont(q.pool_usage, 0.5) AS usage_p50,
    max(q.pool_usage) AS usage_max,
    quantile_cont(q.pool_usage, 0.5) FILTER (WHERE q.state = 'reservation') AS usage_reservation_p50,
    median(q.free_tokens) AS free_tokens_p50,
    median(q.usual_prompt_tokens) AS usual_prompt_tokens
FROM incident AS i
LEFT JOIN queue_state AS q ON q.instance = i.instance AND q.ts >= i.start_ts AND q.ts <= i.end_ts
GROUP BY i.instance, i.start_ts, i.end_ts;
