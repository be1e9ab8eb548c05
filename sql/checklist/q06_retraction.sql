-- 6. Did the engine retract or preempt? Counters tell each one (`visible` is `counter`) in the time they cover, events of
-- the log, merged over ranks, the rest: SGLang prints each, vLLM V0 every fiftieth with a running count, vLLM V1 never.
-- SGLang's gauge of retracted requests is overwritten and reset, so `gauge_max` proves one retraction and counts none.
CREATE OR REPLACE VIEW q06_retraction AS
WITH ends AS (
    SELECT
        instance,
        bool_or(engine = 'sglang') AS any_sglang,
        bool_or(swapped IS NOT NULL) AS any_v0
    FROM scheduler
    GROUP BY instance
),
counted AS (
    SELECT
        r.instance,
        bool_or(r.source = 'counter') AS by_counter,
        sum(r.requests) FILTER (WHERE r.kind = 'retraction')::BIGINT AS retracted_requests,
        sum(r.requests) FILTER (WHERE r.kind = 'preemption')::BIGINT AS preemptions,
        min(r.ts) FILTER (WHERE r.requests > 0) AS first_ts,
        max(r.ts) FILTER (WHERE r.requests > 0) AS last_ts,
        count(*) FILTER (WHERE r.requests > 0 AND r.source = 'counter' AND r.ts > n.start_ts AND r.prev_ts < n.end_ts) AS in_incident,
        arg_min(s.path || ':' || r.record, (r.requests IS NOT DISTINCT FROM 0, r.ts, r.record)) AS source
    FROM _retracted AS r
    JOIN incident AS n USING (instance)
    LEFT JOIN sources AS s USING (source_id)
    GROUP BY r.instance
),
tokens AS (
    SELECT instance, sum(delta)::BIGINT AS retracted_tokens
    FROM counter_delta
    WHERE name IN ('retracted_input_tokens_total', 'retracted_output_tokens_total') AND part IS NULL
    GROUP BY instance
),
gauge AS (
    SELECT instance, max(value) AS gauge_max
    FROM _sample
    WHERE name = 'retracted_requests_gauge'
        AND ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
        AND ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
    GROUP BY instance
),
logged AS (
    SELECT
        v.instance,
        count(*) FILTER (WHERE v.kind = 'retraction') AS retraction_events,
        sum(v.tokens) FILTER (WHERE v.kind = 'retraction')::BIGINT AS tokens_gained,
        min(v.ts) FILTER (WHERE v.kind IN ('retraction', 'preemption')) AS first_ts,
        max(v.ts) FILTER (WHERE v.kind IN ('retraction', 'preemption')) AS last_ts,
        min(v.ratio_before) AS ratio_min,
        max(v.ratio_after) AS ratio_max,
        count(*) FILTER (WHERE v.kind IN ('retraction', 'preemption') AND v.ts BETWEEN n.start_ts AND n.end_ts) AS in_incident,
        arg_min(v.source, v.ts) FILTER (WHERE v.kind IN ('retraction', 'preemption')) AS source
    FROM event AS v
    JOIN incident AS n USING (instance)
    GROUP BY v.instance
)
SELECT
    i.instance,
    i.engine,
    CASE
        WHEN c.by_counter THEN 'counter'
        WHEN e.any_sglang THEN 'each'
        WHEN e.any_v0 THEN 'every fiftieth'
        WHEN i.engine = 'vllm' THEN 'never'
        WHEN g.gauge_max IS NOT NULL THEN 'gauge'
    END AS visible,
    CASE WHEN e.any_sglang OR i.engine <> 'sglang' OR l.retraction_events > 0 THEN coalesce(l.retraction_events, 0) END AS retraction_events,
    c.retracted_requests,
    k.retracted_tokens,
    l.tokens_gained,
    c.preemptions,
    g.gauge_max,
    CASE WHEN c.first_ts IS NOT NULL OR l.first_ts IS NOT NULL THEN least(c.first_ts, l.first_ts) END AS first_ts,
    CASE WHEN c.last_ts IS NOT NULL OR l.last_ts IS NOT NULL THEN greatest(c.last_ts, l.last_ts) END AS last_ts,
    l.ratio_min,
    l.ratio_max,
    greatest(coalesce(c.in_incident, 0), coalesce(l.in_incident, 0)) AS events_in_incident,
    coalesce(l.source, c.source) AS source
FROM _instance AS i
LEFT JOIN ends AS e USING (instance)
LEFT JOIN counted AS c USING (instance)
LEFT JOIN tokens AS k USING (instance)
LEFT JOIN gauge AS g USING (instance)
LEFT JOIN logged AS l USING (instance);
