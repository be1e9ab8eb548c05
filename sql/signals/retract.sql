-- The time that counters of retractions or preemptions cover, per run: each one is in them, so they go before what the
-- log says of that time. SGLang 0.4.9.post6 to 0.5.1 has a gauge that only grows: it counts where there is no counter.
CREATE OR REPLACE VIEW _counted_retractions AS
SELECT
    instance,
    run_id,
    if(name = 'preemptions_total', 'preemption', 'retraction') AS kind,
    min_by(name, name = 'retracted_requests_cumulative_gauge') AS name,
    min(coalesce(prev_ts, ts)) AS from_ts,
    max(ts) AS until_ts
FROM counter_delta
WHERE name IN ('preemptions_total', 'retracted_requests_total', 'retracted_requests_cumulative_gauge') AND part IS NULL AND delta IS NOT NULL
GROUP BY ALL;

-- Retractions (SGLang) and preemptions (vLLM) as they were told, each once: `requests` from counters in the time they
-- cover (up to `ts`, from `prev_ts`), else from the log, where vLLM V0's cumulative count is taken apart.
CREATE OR REPLACE VIEW _retracted AS
SELECT
    d.instance,
    d.run_id,
    c.kind,
    'counter' AS source,
    d.prev_ts,
    d.ts,
    d.delta AS requests,
    d.source_id,
    d.record
FROM counter_delta AS d
JOIN _counted_retractions AS c USING (instance, run_id, name)
WHERE d.part IS NULL AND d.delta IS NOT NULL
UNION ALL BY NAME
SELECT
    e.instance,
    e.run_id,
    e.kind,
    'log' AS source,
    e.ts AS prev_ts,
    e.ts,
    if(e.kind = 'retraction', e.requests, e.preempted) AS requests,
    e.source_id,
    e.record
FROM event AS e
LEFT JOIN _counted_retractions AS c USING (instance, run_id, kind)
WHERE e.kind IN ('retraction', 'preemption') AND (c.kind IS NULL OR e.ts < c.from_ts OR e.ts > c.until_ts);

-- Retractions and preemptions per bucket: requests from counters in the time they cover, else from the log; events and
-- the last new_token_ratio that a retraction set are the log's alone. `retract_source` says which counted. Buckets
-- without any are not listed.
CREATE OR REPLACE VIEW signal_retract AS
WITH told AS (
    SELECT instance, run_id, ts, kind, source, requests, NULL::DOUBLE AS ratio_after, 0 AS events
    FROM _retracted
    WHERE source = 'log' OR requests > 0
    UNION ALL
    SELECT instance, run_id, ts, kind, NULL, NULL, ratio_after, 1 FROM event WHERE kind = 'retraction'
)
SELECT
    t.instance,
    t.run_id,
    to_timestamp(floor(epoch(t.ts) / b.bucket_s)::BIGINT * b.bucket_s) AS bucket_ts,
    sum(t.events)::BIGINT AS retraction_events,
    sum(t.requests) FILTER (WHERE t.kind = 'retraction')::BIGINT AS retracted,
    sum(t.requests) FILTER (WHERE t.kind = 'preemption')::BIGINT AS preempted,
    arg_max(t.ratio_after, t.ts) AS new_token_ratio,
    -- of a bucket in which the counters begin or end, both
    coalesce(min(t.source) FILTER (WHERE t.requests IS NOT NULL), 'log') AS retract_source
FROM told AS t
CROSS JOIN _bucket AS b
GROUP BY ALL;
