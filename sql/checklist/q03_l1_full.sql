-- 3. Was L1 full? Usage (share used by running requests; evictable cache is not used) over the capture, and while requests
-- waited in the incident, weighted by time, with the pool that was the fullest. The three states of the pool in tokens
-- are those of full attention, where metrics tell them: when the most was used, and their means over the incident.
-- `full_inside_share` is the part of the incident in which the pool was full, whether requests waited or not, and `token_full_s`
-- what a token of a running request took while the pool was full and nothing waited, against `token_base_s`, the fastest tenth
-- of all reports with room.
CREATE OR REPLACE VIEW q03_l1_full AS
WITH capture AS (
    SELECT
        instance,
        sum(dwell_s) FILTER (WHERE pool_usage >= getvariable('full_usage')::DOUBLE) AS full_s,
        max(pool_usage) AS usage_max,
        arg_max(ts, (pool_usage, -seq)) FILTER (WHERE pool_usage IS NOT NULL) AS usage_max_ts,
        arg_max(run_id, (coalesce(pool_usage, 0), run_id)) AS usage_max_run,
        max(kv_used_tokens) AS used_tokens_max,
        count(pool_usage) AS reports
    FROM _load
    GROUP BY instance
),
waited AS (
    SELECT
        i.instance,
        i.incident,
        sum(l.dwell_s) AS waiting_s,
        sum(l.dwell_s) FILTER (WHERE l.pool_usage >= getvariable('full_usage')::DOUBLE) AS full_waiting_s,
        quantile_cont(l.pool_usage, 0.1) AS usage_waiting_p10,
        quantile_cont(l.pool_usage, 0.5) AS usage_waiting_p50,
        max(l.pool_usage) AS usage_waiting_max
    FROM incident AS i
    JOIN _load AS l ON l.instance = i.instance AND l.ts >= i.start_ts AND l.ts <= i.end_ts
    WHERE l.waiting > 0
    GROUP BY i.instance, i.incident
),
inside AS (
    SELECT
        i.instance,
        i.incident,
        sum(l.dwell_s) FILTER (WHERE l.pool_usage >= getvariable('full_usage')::DOUBLE)
            / nullif(sum(l.dwell_s) FILTER (WHERE l.pool_usage IS NOT NULL), 0) AS full_inside_share
    FROM incident AS i
    JOIN _load AS l ON l.instance = i.instance AND l.ts >= i.start_ts AND l.ts <= i.end_ts
    GROUP BY i.instance, i.incident
),
speed AS (
    SELECT
        instance,
        median(running / nullif(gen_tps_now, 0)) FILTER (WHERE pool_usage >= getvariable('full_usage')::DOUBLE AND waiting = 0) AS token_full_s,
        sum(span_s) FILTER (WHERE pool_usage >= getvariable('full_usage')::DOUBLE AND waiting = 0 AND gen_tps_now IS NOT NULL) AS token_full_for_s,
        quantile_cont(running / nullif(gen_tps_now, 0), 0.1) FILTER (WHERE pool_usage < getvariable('full_usage')::DOUBLE) AS token_base_s
    FROM _report
    WHERE kind <> 'prefill' AND running > 0
    GROUP BY instance
),
pools AS (
    SELECT
        instance,
        arg_max(CASE pool_usage WHEN kv_usage THEN 'full attention' WHEN swa_usage THEN 'sliding window' ELSE 'mamba' END, (pool_usage, -seq))
            FILTER (WHERE pool_usage IS NOT NULL AND greatest(swa_usage, mamba_usage) IS NOT NULL) AS fullest_pool,
        max(kv_usage) AS kv_usage_max,
        max(swa_usage) AS swa_usage_max,
        max(mamba_usage) AS mamba_usage_max
    FROM _report
    GROUP BY instance
),
-- the two other states while the most was used, where metrics tell them
states AS (
    SELECT
        instance,
        max(used_tokens) AS used_at_max_tokens,
        arg_max(evictable_tokens, (used_tokens, -epoch_us(ts))) AS evictable_at_max_tokens,
        arg_max(available_tokens, (used_tokens, -epoch_us(ts))) AS available_at_max_tokens,
        min(available_tokens) AS available_min_tokens
    FROM _l1_states
    GROUP BY instance
),
states_inside AS (
    SELECT
        i.instance,
        i.incident,
        avg(s.used_tokens)::BIGINT AS used_mean_tokens,
        avg(s.evictable_tokens)::BIGINT AS evictable_mean_tokens,
        avg(s.available_tokens)::BIGINT AS available_mean_tokens
    FROM incident AS i
    JOIN _l1_states AS s ON s.instance = i.instance AND s.ts >= i.start_ts AND s.ts <= i.end_ts
    GROUP BY i.instance, i.incident
)
SELECT
    i.instance,
    i.incident,
    c.usage_max,
    c.usage_max_ts,
    (SELECT min(f.path || ':' || r.record) FROM _report AS r JOIN sources AS f USING (source_id)
        WHERE r.instance = i.instance AND r.ts = c.usage_max_ts AND r.pool_usage = c.usage_max) AS usage_max_source,
    p.fullest_pool,
    p.kv_usage_max,
    p.swa_usage_max,
    p.mamba_usage_max,
    w.usage_waiting_p10,
    w.usage_waiting_p50,
    w.usage_waiting_max,
    c.full_s,
    w.waiting_s,
    w.full_waiting_s,
    coalesce(d.full_inside_share, 0) AS full_inside_share,
    v.token_full_s,
    v.token_full_for_s,
    v.token_base_s,
    c.used_tokens_max,
    t.used_at_max_tokens,
    t.evictable_at_max_tokens,
    t.available_at_max_tokens,
    t.available_min_tokens,
    n.used_mean_tokens,
    n.evictable_mean_tokens,
    n.available_mean_tokens,
    c.reports,
    l.capacity_tokens,
    l.capacity_source
FROM incident AS i
LEFT JOIN capture AS c USING (instance)
LEFT JOIN waited AS w USING (instance, incident)
LEFT JOIN inside AS d USING (instance, incident)
LEFT JOIN speed AS v USING (instance)
LEFT JOIN pools AS p USING (instance)
LEFT JOIN states AS t USING (instance)
LEFT JOIN states_inside AS n USING (instance, incident)
LEFT JOIN _limits AS l ON l.instance = i.instance AND l.run_id = c.usage_max_run;
