-- TTFT percentiles (seconds) by bucket from one source per instance: exact from the requests of one observer where any
-- has a TTFT, else from histograms; `ttft_source` says which (client, frontend, engine or histogram), `ttft_p99_low_s`
-- and `ttft_p99_high_s` between which bounds the P99 lies. SGLang's histogram has no bound below 0.1 s.
CREATE OR REPLACE VIEW signal_ttft AS
SELECT
    instance,
    bucket_ts,
    source AS ttft_source,
    n AS ttft_n,
    p50_s AS ttft_p50_s,
    p95_s AS ttft_p95_s,
    p99_s AS ttft_p99_s,
    p99_low_s AS ttft_p99_low_s,
    p99_high_s AS ttft_p99_high_s
FROM signal_latency
WHERE what = 'ttft'
QUALIFY source <> 'histogram' OR bool_and(source = 'histogram') OVER (PARTITION BY instance);
