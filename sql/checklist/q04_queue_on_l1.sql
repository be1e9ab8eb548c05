-- 4. Was the queue waiting on L1? Seconds of the incident in each queue state (see queue_state), and what admission had left
-- while the reservation held it (see reservation): medians of the bounds, in
-- tokens, and the part of those reports in which even the bounds say that a usual request was refused.
CREATE OR REPLACE VIEW q04_queue_on_l1 AS
WITH inside AS (
    SELECT
        q.* EXCLUDE (seconds, incident),
        i.incident,
        -- of an incident that only the first report of a process tells of, nothing lies behind
        if(sum(CASE WHEN q.state <> 'admitting' THEN q.seconds END) OVER (PARTITION BY i.instance, i.incident) > 0, q.seconds, q.ahead_s) AS seconds
    FROM incident AS i
    JOIN queue_state AS q ON q.instance = i.instance AND q.ts >= i.start_ts AND q.ts <= i.end_ts
)
SELECT
    i.instance,
    i.incident,
    i.start_ts,
    i.end_ts,
    sum(q.seconds) FILTER (WHERE q.state <> 'admitting') AS judged_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'l1'), 0) AS l1_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'gap'), 0) AS gap_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'reservation'), 0) AS reservation_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'cap'), 0) AS cap_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'plateau'), 0) AS plateau_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'prefill'), 0) AS prefill_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'admitting'), 0) AS admitting_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'stalled'), 0) AS stalled_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.state = 'unexplained'), 0) AS unexplained_s,
    count(q.seq) AS reports,
    quantile_cont(q.pool_usage, 0.5) AS usage_p50,
    max(q.pool_usage) AS usage_max,
    quantile_cont(q.pool_usage, 0.5) FILTER (WHERE q.state = 'reservation') AS usage_reservation_p50,
    median(q.free_tokens) AS free_tokens_p50,
    median(q.usual_prompt_tokens) AS usual_prompt_tokens,
    median(v.reserved_low_tokens) FILTER (WHERE q.state = 'reservation') AS reserved_low_tokens,
    median(v.reserved_high_tokens) FILTER (WHERE q.state = 'reservation') AS reserved_high_tokens,
    median(v.left_low_tokens) FILTER (WHERE q.state = 'reservation') AS left_low_tokens,
    median(v.left_high_tokens) FILTER (WHERE q.state = 'reservation') AS left_high_tokens,
    median(v.need_low_tokens) FILTER (WHERE q.state = 'reservation') AS need_low_tokens,
    median(v.need_high_tokens) FILTER (WHERE q.state = 'reservation') AS need_high_tokens,
    avg(coalesce(v.refused, false)::INTEGER) FILTER (WHERE q.state = 'reservation') AS refused_share,
    min(v.ratio_low) FILTER (WHERE q.state = 'reservation') AS ratio_low,
    max(v.ratio_high) FILTER (WHERE q.state = 'reservation') AS ratio_high
FROM incident AS i
LEFT JOIN inside AS q ON q.instance = i.instance AND q.incident = i.incident
LEFT JOIN reservation AS v ON v.instance = q.instance AND v.run_id = q.run_id AND v.dp = q.dp AND v.seq = q.seq
GROUP BY i.instance, i.incident, i.start_ts, i.end_ts;
