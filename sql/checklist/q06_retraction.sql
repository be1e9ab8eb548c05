-- 6. Did the engine retract or preempt? Events are merged over ranks. `visible` says whether this engine prints them
-- at all: SGLang each, vLLM V0 every fiftieth with a running count, vLLM V1 never.
CREATE OR REPLACE VIEW q06_retraction AS
WITH ends AS (
    SELECT DISTINCT
        instance,
        bool_or(engine = 'sglang') OVER (PARTITION BY instance) AS any_sglang,
        bool_or(swapped IS NOT NULL) OVER (PARTITION BY instance) AS any_v0
    FROM scheduler
)
SELECT
    i.instance,
    i.engine,
    CASE WHEN e.any_sglang THEN 'each' WHEN e.any_v0 THEN 'every fiftieth' WHEN i.engine = 'vllm' THEN 'never' END AS visible,
    count(*) FILTER (WHERE v.kind = 'retraction') AS retraction_events,
    sum(v.requests) FILTER (WHERE v.kind = 'retraction')::BIGINT AS retracted_requests,
    sum(v.tokens) FILTER (WHERE v.kind = 'retraction')::BIGINT AS tokens_gained,
    sum(v.preempted)::BIGINT AS preemptions,
    min(v.ts) FILTER (WHERE v.kind IN ('retraction', 'preemption')) AS first_ts,
    max(v.ts) FILTER (WHERE v.kind IN ('retraction', 'preemption')) AS last_ts,
    min(v.ratio_before) AS ratio_min,
    max(v.ratio_after) AS ratio_max,
    count(*) FILTER (WHERE v.kind IN ('retraction', 'preemption') AND v.ts BETWEEN n.start_ts AND n.end_ts) AS events_in_incident,
    arg_min(v.source, v.ts) FILTER (WHERE v.kind IN ('retraction', 'preemption')) AS source
FROM _instance AS i
JOIN incident AS n USING (instance)
LEFT JOIN ends AS e USING (instance)
LEFT JOIN event AS v USING (instance)
GROUP BY i.instance, i.engine, e.any_sglang, e.any_v0;
