-- L2 and L3 operations per bucket: tokens loaded and stored, seconds spent, failures. Used share is NULL: no log
-- line reports it.
CREATE OR REPLACE VIEW signal_l2 AS
SELECT
    c.instance,
    c.run_id,
    to_timestamp(floor(epoch(c.ts) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
    sum(c.tokens) FILTER (WHERE c.op = 'load')::BIGINT AS loaded_tokens,
    sum(c.duration_s) FILTER (WHERE c.op = 'load') AS load_s,
    sum(c.tokens) FILTER (WHERE c.op = 'store')::BIGINT AS stored_tokens,
    count(*) FILTER (WHERE c.ok = false) AS failures,
    count(*) FILTER (WHERE c.op = 'alloc_fail') AS alloc_failures,
    NULL::DOUBLE AS l2_used_share
FROM cache_ops AS c
CROSS JOIN _bucket AS b
WHERE c.ts IS NOT NULL
GROUP BY ALL;
