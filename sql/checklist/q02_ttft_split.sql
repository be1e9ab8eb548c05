-- Mean seconds per request and stage inside the incident, from what the sums and counts of histograms rose by: vLLM's
-- queue, prefill and decode times, SGLang's queue time. Counted when a request ends, or gets its first token.
CREATE OR REPLACE VIEW _stage_mean AS
SELECT
    d.instance,
    replace(d.name, '_s', '') AS stage,
    sum(d.delta) FILTER (WHERE d.part = 'sum') / nullif(sum(d.delta) FILTER (WHERE d.part = 'count'), 0) AS mean_s,
    sum(d.delta) FILTER (WHERE d.part = 'count') AS n
FROM counter_delta AS d
JOIN incident AS i ON d.instance = i.instance AND d.ts > i.start_ts AND d.prev_ts < i.end_ts
WHERE d.part IN ('sum', 'count') AND d.name IN ('ttft_s', 'queue_s', 'prefill_s', 'decode_s', 'l2_load_s', 'transfer_s')
GROUP BY ALL;

-- 2. Where did TTFT go? Seconds per part inside the incident: medians from requests, else means from histograms; NULL
-- for parts no source reports. Without both only the queue's part can be estimated.
CREATE OR REPLACE VIEW q02_ttft_split AS
WITH stages AS (
    SELECT
        instance,
        max(n) FILTER (WHERE stage = 'queue') AS histogram_n,
        max(mean_s) FILTER (WHERE stage = 'ttft') AS ttft_mean_s,
        max(mean_s) FILTER (WHERE stage = 'queue') AS queue_mean_s,
        max(mean_s) FILTER (WHERE stage = 'prefill') AS prefill_mean_s,
        max(mean_s) FILTER (WHERE stage = 'l2_load') AS l2_load_mean_s
    FROM _stage_mean
    GROUP BY instance
),
timed AS (
    SELECT
        i.instance,
        count(r.queue_s) AS requests_with_queue,
        quantile_cont(r.queue_s, 0.5) AS queue_p50_s,
        quantile_cont(r.queue_s, 0.99) AS queue_p99_s,
        quantile_cont(r.prefill_s, 0.5) AS prefill_p50_s,
        quantile_cont(r.ttft_s - r.queue_s, 0.5) AS after_queue_p50_s
    FROM incident AS i
    LEFT JOIN request_best AS r ON r.instance = i.instance AND coalesce(r.arrival_ts, r.ts) BETWEEN i.start_ts AND i.end_ts
    GROUP BY i.instance
)
SELECT
    i.instance,
    t.* EXCLUDE (instance),
    s.* EXCLUDE (instance),
    (SELECT quantile_cont(w.wait_est_s, 0.5) FROM _wait AS w
        WHERE w.instance = i.instance AND w.ts BETWEEN i.start_ts AND i.end_ts AND w.waiting > 0) AS queue_est_p50_s
FROM incident AS i
LEFT JOIN timed AS t USING (instance)
LEFT JOIN stages AS s USING (instance);
