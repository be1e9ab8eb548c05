-- 2. Where did TTFT go? Median seconds per part inside the incident; NULL for parts no source reports. Without
-- request records only the queue's part can be estimated.
CREATE OR REPLACE VIEW q02_ttft_split AS
SELECT
    i.instance,
    count(r.queue_s) AS requests_with_queue,
    quantile_cont(r.queue_s, 0.5) AS queue_p50_s,
    quantile_cont(r.queue_s, 0.99) AS queue_p99_s,
    quantile_cont(r.ttft_s - r.queue_s, 0.5) AS after_queue_p50_s,
    (SELECT quantile_cont(w.wait_est_s, 0.5) FROM _wait AS w
        WHERE w.instance = i.instance AND w.ts BETWEEN i.start_ts AND i.end_ts AND w.waiting > 0) AS queue_est_p50_s
FROM incident AS i
LEFT JOIN request_best AS r ON r.instance = i.instance AND coalesce(r.arrival_ts, r.ts) BETWEEN i.start_ts AND i.end_ts
GROUP BY i.instance, i.start_ts, i.end_ts;
