-- 6. Did the engine retract or preempt? Counters tell each one (`visible` is `counter`) in the time they cover, events of
-- the log, merged over ranks, the rest: SGLang prints each, vLLM V0 every fiftieth with a running count, vLLM V1 never.
-- SGLang's gauge of retracted requests is overwritten and reset, so `gauge_max` proves one retraction and counts none.
--
-- Of the incident: `cycles` counts the times that a retraction or preemption came within `thrash_s` of the one before although
-- requests were admitted in between (a counter that rises again tells that by itself: it moves when the victim goes on),
-- `refilled` those after which the pool was full again within `refill_s`. `thrown_again` are recorded requests that were
-- thrown out more than once. `recomputed_tokens` had to be computed again: by the engine's counters, else by the tokens that
-- the log says were gained, else the victims times the mean that a running request holds (`recompute_by` estimate; an
-- upper bound, since what is still cached is not computed). `recompute_share` is their part of all prompt tokens computed.
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
        n.incident,
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
    GROUP BY r.instance, n.incident
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
        n.incident,
        count(*) FILTER (WHERE v.kind = 'retraction') AS retraction_events,
        sum(v.tokens) FILTER (WHERE v.kind = 'retraction')::BIGINT AS tokens_gained,
        sum(v.tokens) FILTER (WHERE v.kind = 'retraction' AND v.ts BETWEEN n.start_ts AND n.end_ts) AS gained_inside,
        min(v.ts) FILTER (WHERE v.kind IN ('retraction', 'preemption')) AS first_ts,
        max(v.ts) FILTER (WHERE v.kind IN ('retraction', 'preemption')) AS last_ts,
        min(v.ratio_before) AS ratio_min,
        max(v.ratio_after) AS ratio_max,
        count(*) FILTER (WHERE v.kind IN ('retraction', 'preemption') AND v.ts BETWEEN n.start_ts AND n.end_ts) AS in_incident,
        arg_min(v.source, v.ts) FILTER (WHERE v.kind IN ('retraction', 'preemption')) AS source
    FROM event AS v
    JOIN incident AS n USING (instance)
    GROUP BY v.instance, n.incident
),
thrown AS (
    SELECT
        n.instance,
        n.incident,
        r.run_id,
        r.kind,
        r.source,
        r.ts,
        r.requests,
        lag(r.ts) OVER (PARTITION BY n.instance, n.incident, r.run_id ORDER BY r.ts, r.record) AS prev_ts
    FROM _retracted AS r
    JOIN incident AS n ON r.instance = n.instance AND r.ts >= n.start_ts AND r.ts <= n.end_ts
    WHERE r.requests > 0
),
thrashed AS (
    SELECT
        t.instance,
        t.incident,
        sum(t.requests) AS requests,
        count(*) FILTER (
            WHERE epoch(t.ts - t.prev_ts) <= getvariable('thrash_s')::DOUBLE AND (t.source = 'counter' OR p.ts >= t.prev_ts)
        ) AS cycles,
        count(*) FILTER (WHERE epoch(f.ts - t.ts) <= getvariable('refill_s')::DOUBLE) AS refilled,
        count(*) AS moments
    FROM thrown AS t
    ASOF LEFT JOIN (
        SELECT instance, run_id, ts FROM _report WHERE kind = 'prefill' AND new_seqs > 0
    ) AS p ON p.instance = t.instance AND p.run_id = t.run_id AND t.ts >= p.ts
    ASOF LEFT JOIN (
        SELECT instance, run_id, ts FROM _report WHERE pool_usage >= getvariable('full_usage')::DOUBLE
    ) AS f ON f.instance = t.instance AND f.run_id = t.run_id AND t.ts < f.ts
    GROUP BY t.instance, t.incident
),
again AS (
    SELECT instance, count(*) FILTER (WHERE retractions >= 2) AS thrown_again, count(retractions) AS told FROM request_best GROUP BY instance
),
spent AS (
    SELECT
        n.instance,
        n.incident,
        coalesce(sum(r.new_tokens), sum(r.prompt_tps_now * r.span_s)) AS prompt_tokens,
        bool_or(r.new_tokens IS NOT NULL) OR bool_or(r.engine = 'sglang') AS with_recompute,
        sum(coalesce(r.kv_used_tokens, r.kv_usage * l.capacity_tokens * coalesce(r.engines, 1)))
            / nullif(sum(r.running) FILTER (WHERE coalesce(r.kv_used_tokens, r.kv_usage * l.capacity_tokens) IS NOT NULL), 0) AS tokens_per_request
    FROM incident AS n
    JOIN _report AS r ON r.instance = n.instance AND r.ts >= n.start_ts AND r.ts <= n.end_ts
    LEFT JOIN _limits AS l ON l.instance = r.instance AND l.run_id = r.run_id
    GROUP BY n.instance, n.incident
),
lost AS (
    SELECT
        n.instance,
        n.incident,
        sum(d.delta) AS counted_tokens
    FROM incident AS n
    JOIN counter_delta AS d ON d.instance = n.instance AND d.ts >= n.start_ts AND coalesce(d.prev_ts, d.ts) <= n.end_ts
    WHERE d.name IN ('retracted_input_tokens_total', 'retracted_output_tokens_total') AND d.part IS NULL
    GROUP BY n.instance, n.incident
),
recomputed AS (
    SELECT
        n.instance,
        n.incident,
        coalesce(k.counted_tokens, l.gained_inside, t.requests * s.tokens_per_request) AS recomputed_tokens,
        CASE
            WHEN k.counted_tokens IS NOT NULL THEN 'counter'
            WHEN l.gained_inside IS NOT NULL THEN 'log'
            WHEN t.requests * s.tokens_per_request IS NOT NULL THEN 'estimate'
        END AS recompute_by,
        s.prompt_tokens,
        s.with_recompute
    FROM incident AS n
    LEFT JOIN lost AS k USING (instance, incident)
    LEFT JOIN logged AS l USING (instance, incident)
    LEFT JOIN thrashed AS t USING (instance, incident)
    LEFT JOIN spent AS s USING (instance, incident)
)
SELECT
    i.instance,
    n.incident,
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
    t.requests::BIGINT AS thrown_in_incident,
    t.cycles,
    t.refilled,
    t.moments,
    if(a.told > 0, a.thrown_again, NULL) AS thrown_again,
    r.recomputed_tokens::BIGINT AS recomputed_tokens,
    r.recompute_by,
    -- vLLM does not count what it computes again
    r.recomputed_tokens / nullif(greatest(r.recomputed_tokens, r.prompt_tokens + if(r.with_recompute, 0, r.recomputed_tokens)), 0) AS recompute_share,
    coalesce(l.source, c.source) AS source
FROM _instance AS i
JOIN incident AS n USING (instance)
LEFT JOIN ends AS e USING (instance)
LEFT JOIN counted AS c USING (instance, incident)
LEFT JOIN tokens AS k USING (instance)
LEFT JOIN gauge AS g USING (instance)
LEFT JOIN logged AS l USING (instance, incident)
LEFT JOIN thrashed AS t USING (instance, incident)
LEFT JOIN again AS a USING (instance)
LEFT JOIN recomputed AS r USING (instance, incident);
