-- Which runs have counters of retractions or preemptions: these count each one, and go before what the log says.
CREATE OR REPLACE VIEW _counted_retractions AS
SELECT
    instance,
    run_id,
    bool_or(name = 'preemptions_total') AS preemptions,
    bool_or(name = 'retracted_requests_total') AS retractions
FROM counter_delta
WHERE name IN ('preemptions_total', 'retracted_requests_total') AND delta IS NOT NULL
GROUP BY ALL;

-- Retractions (SGLang) and preemptions (vLLM) per bucket: requests from counters where there are counters, else from
-- the log (vLLM V0's cumulative count is taken apart there); events and the last new_token_ratio that a retraction set
-- are the log's alone. `retract_source` says which counted. Buckets without any are not listed.
CREATE OR REPLACE VIEW signal_retract AS
WITH told AS (
    SELECT
        e.instance,
        e.run_id,
        e.ts,
        1 AS of_log,
        if(e.kind = 'retraction', 1, 0) AS events,
        CASE WHEN e.kind = 'retraction' AND NOT coalesce(c.retractions, false) THEN e.requests END AS retracted,
        CASE WHEN NOT coalesce(c.preemptions, false) THEN e.preempted END AS preempted,
        CASE WHEN e.kind = 'retraction' THEN e.ratio_after END AS ratio_after
    FROM event AS e
    LEFT JOIN _counted_retractions AS c USING (instance, run_id)
    WHERE e.kind IN ('retraction', 'preemption')
    UNION ALL
    SELECT
        instance,
        run_id,
        ts,
        0,
        0,
        CASE WHEN name = 'retracted_requests_total' THEN delta END,
        CASE WHEN name = 'preemptions_total' THEN delta END,
        NULL
    FROM counter_delta
    WHERE name IN ('preemptions_total', 'retracted_requests_total') AND delta > 0
)
SELECT
    t.instance,
    t.run_id,
    to_timestamp(floor(epoch(t.ts) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
    sum(t.events)::BIGINT AS retraction_events,
    sum(t.retracted)::BIGINT AS retracted,
    sum(t.preempted)::BIGINT AS preempted,
    arg_max(t.ratio_after, t.ts) AS new_token_ratio,
    CASE WHEN min(t.of_log) FILTER (WHERE t.retracted IS NOT NULL OR t.preempted IS NOT NULL) = 0 THEN 'counter' ELSE 'log' END AS retract_source
FROM told AS t
CROSS JOIN _bucket AS b
GROUP BY ALL;
