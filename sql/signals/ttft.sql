-- TTFT percentiles (seconds) by arrival bucket, exact, from the requests of one observer. A request still pending
-- at the end is longer than anything finished: a percentile that falls on one is NULL.
CREATE OR REPLACE VIEW signal_ttft AS
WITH known AS (
    SELECT
        r.instance,
        r.observer,
        to_timestamp(floor(epoch(coalesce(r.arrival_ts, r.ts)) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
        CASE WHEN r.censored THEN 'infinity'::DOUBLE ELSE r.ttft_s END AS ttft_s
    FROM request_best AS r
    CROSS JOIN _bucket AS b
    WHERE coalesce(r.arrival_ts, r.ts) IS NOT NULL AND (r.ttft_s IS NOT NULL OR r.censored)
)
SELECT
    instance,
    bucket_ts,
    any_value(observer) AS ttft_source,
    count(*) AS ttft_n,
    if(isinf(quantile_disc(ttft_s, 0.50)), NULL, quantile_disc(ttft_s, 0.50)) AS ttft_p50_s,
    if(isinf(quantile_disc(ttft_s, 0.95)), NULL, quantile_disc(ttft_s, 0.95)) AS ttft_p95_s,
    if(isinf(quantile_disc(ttft_s, 0.99)), NULL, quantile_disc(ttft_s, 0.99)) AS ttft_p99_s
FROM known
GROUP BY instance, bucket_ts
HAVING count(*) FILTER (WHERE NOT isinf(ttft_s)) > 0;
