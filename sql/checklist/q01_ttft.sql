-- 1. Did TTFT break? Percentiles (seconds) before and inside the incident from one observer's requests, and the
-- estimated queue wait, which is no TTFT.
CREATE OR REPLACE VIEW q01_ttft AS
WITH known AS (
    SELECT
        r.instance,
        r.observer,
        CASE WHEN r.censored THEN 'infinity'::DOUBLE ELSE r.ttft_s END AS ttft_s,
        r.censored,
        coalesce(r.arrival_ts, r.ts) BETWEEN i.start_ts AND i.end_ts AS inside
    FROM request_best AS r
    JOIN incident AS i USING (instance)
    WHERE r.ttft_s IS NOT NULL OR r.censored
)
SELECT
    i.instance,
    i.start_ts,
    i.end_ts,
    i.broke AS queue_broke,
    i.waiting_peak,
    (SELECT arg_max(f.path || ':' || r.record, (r.waiting, -r.seq)) FROM _report AS r JOIN sources AS f USING (source_id)
        WHERE r.instance = i.instance AND r.ts BETWEEN i.start_ts AND i.end_ts AND r.waiting IS NOT NULL) AS waiting_peak_source,
    i.waiting_request_s,
    i.wait_est_peak_s,
    (SELECT quantile_cont(w.wait_est_s, 0.5) FROM _wait AS w
        WHERE w.instance = i.instance AND w.ts BETWEEN i.start_ts AND i.end_ts AND w.waiting > 0) AS wait_est_p50_s,
    any_value(k.observer) AS observer,
    count(k.ttft_s) FILTER (WHERE NOT k.censored) AS ttft_n,
    count(*) FILTER (WHERE k.censored) AS censored_n,
    quantile_disc(k.ttft_s, 0.99) FILTER (WHERE NOT k.inside) AS ttft_p99_outside_s,
    quantile_disc(k.ttft_s, 0.50) FILTER (WHERE k.inside) AS ttft_p50_inside_s,
    quantile_disc(k.ttft_s, 0.99) FILTER (WHERE k.inside) AS ttft_p99_inside_s,
    quantile_disc(k.ttft_s, 0.99) AS ttft_p99_s
FROM incident AS i
LEFT JOIN known AS k USING (instance)
GROUP BY ALL;
