-- Retractions (SGLang) and preemptions (vLLM V0's cumulative count, taken apart) per bucket, and the last
-- new_token_ratio that a retraction set. Buckets without any are not listed.
CREATE OR REPLACE VIEW signal_retract AS
SELECT
    e.instance,
    e.run_id,
    to_timestamp(floor(epoch(e.ts) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
    count(*) FILTER (WHERE e.kind = 'retraction') AS retraction_events,
    sum(e.requests) FILTER (WHERE e.kind = 'retraction')::BIGINT AS retracted,
    sum(e.preempted)::BIGINT AS preempted,
    arg_max(e.ratio_after, e.ts) FILTER (WHERE e.kind = 'retraction') AS new_token_ratio
FROM event AS e
CROSS JOIN _bucket AS b
WHERE e.kind IN ('retraction', 'preemption')
GROUP BY ALL;
