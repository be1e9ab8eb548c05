-- The loads from L2 that were timed: how long one took where loads are counted, and whether they were slow: `load_slow_s` or
-- more, and either `load_factor` times the usual pace (seconds per token, byte or load; the tenth percentile), or longer than
-- the engine would have needed to compute the tokens.
CREATE OR REPLACE VIEW _l2_pace AS
WITH tops AS (
    SELECT instance, quantile_cont(prompt_tps_now, 0.95) AS prefill_tps FROM _report WHERE prompt_tps_now > 0 GROUP BY instance
),
timed AS (
    SELECT
        instance,
        run_id,
        from_ts,
        ts,
        loads,
        load_s,
        loaded_tokens,
        load_s / nullif(loads, 0) AS mean_s,
        load_s / nullif(coalesce(loaded_tokens, loaded_bytes, loads), 0) AS pace
    FROM _l2_moved
    WHERE load_s > 0
),
usual AS (
    SELECT instance, quantile_disc(pace, 0.1) AS usual_pace FROM timed GROUP BY instance
)
SELECT
    t.*,
    p.prefill_tps,
    coalesce(t.mean_s, t.load_s) >= getvariable('load_slow_s')::DOUBLE AND (
        coalesce(t.pace >= getvariable('load_factor')::DOUBLE * u.usual_pace, false)
        OR coalesce(t.load_s > t.loaded_tokens / p.prefill_tps, false)
    ) AS slow
FROM timed AS t
JOIN usual AS u USING (instance)
LEFT JOIN tops AS p USING (instance);

-- Reports with requests waiting although nothing in the pool, the cap or prefill held them: room for twice a usual prompt
-- beyond the most that running requests can have reserved (SGLang takes at most 4,096 tokens for each), running clearly below
-- the cap, and prefill not busy. `spare` is NULL where that cannot be told, and where requests were being admitted.
CREATE OR REPLACE VIEW _spare AS
WITH asked AS (
    SELECT instance, least(4096, max(max_new_tokens)) AS most_new_tokens FROM requests GROUP BY instance
),
tops AS (
    SELECT instance, run_id, quantile_cont(prompt_tps_now, 0.95) FILTER (WHERE prompt_tps_now > 0) AS prefill_tps, max(running) AS running_max
    FROM _report
    GROUP BY ALL
)
SELECT
    q.instance,
    q.run_id,
    q.dp,
    q.ts,
    q.waiting,
    q.seconds,
    CASE
        WHEN q.state = 'admitting' OR q.pool_usage IS NULL OR r.running IS NULL THEN NULL
        WHEN q.state IN ('l1', 'cap', 'plateau') OR q.state = 'prefill' AND r.kind = 'prefill' THEN false
        WHEN coalesce(q.running_now >= 0.9 * q.cap, q.running_now >= 0.9 * t.running_max) THEN false
        WHEN r.kind <> 'decode' AND coalesce(r.prompt_tps_now > 0.5 * t.prefill_tps, false) THEN false
        WHEN q.engine = 'sglang'
            THEN q.free_tokens - coalesce(a.most_new_tokens, 4096) * (q.running_now + 1) > 2 * coalesce(q.usual_prompt_tokens, 0)
        ELSE q.pool_usage < 0.5 AND coalesce(q.free_tokens > 2 * q.usual_prompt_tokens, true)
    END AS spare
FROM queue_state AS q
JOIN _report AS r USING (instance, run_id, dp, seq)
JOIN tops AS t USING (instance, run_id)
LEFT JOIN asked AS a USING (instance);

-- Whether requests waited for loads, incident by incident: what was loaded in it and how long that took, against before
-- and after; how much of the waiting vLLM says was for loads (`fetch_request_s`); since when loads were slow, and since when
-- the pool was full; and `spare_s` of `spare_judged_s`, the time in which nothing else held the queue. `excess_request_s` is
-- how much longer first tokens took than usual, over all slow ones. Where nothing broke, it is about the time of slow loads.
CREATE OR REPLACE VIEW l2_wait AS
WITH slow AS (
    SELECT instance, min(from_ts) AS from_ts, max(ts) AS until_ts FROM _l2_pace WHERE slow GROUP BY instance
),
windows AS (
    SELECT
        i.instance,
        i.incident,
        if(i.broke, i.start_ts, s.from_ts) AS start_ts,
        if(i.broke, i.end_ts, s.until_ts) AS end_ts,
        if(i.broke, i.start_ts, s.from_ts) - to_seconds(getvariable('spell_gap_s')::DOUBLE) AS near_ts
    FROM incident AS i
    LEFT JOIN slow AS s USING (instance)
),
late AS (
    SELECT w.instance, w.incident, sum(t.slow_n)::BIGINT AS slow_n, sum(t.excess_request_s) AS excess_request_s
    FROM windows AS w
    JOIN _ttft_slow AS t ON t.instance = w.instance AND t.end_ts >= w.start_ts AND t.start_ts <= w.end_ts
    GROUP BY w.instance, w.incident
),
loads AS (
    SELECT
        w.instance,
        w.incident,
        sum(p.loads) FILTER (WHERE p.ts > w.start_ts AND p.from_ts <= w.end_ts) AS loads_inside,
        sum(p.load_s) FILTER (WHERE p.ts > w.start_ts AND p.from_ts <= w.end_ts) AS load_inside_s,
        sum(p.load_s) FILTER (WHERE p.slow AND p.ts > w.start_ts AND p.from_ts <= w.end_ts) AS slow_load_inside_s,
        sum(p.loaded_tokens) FILTER (WHERE p.ts > w.start_ts AND p.from_ts <= w.end_ts) AS timed_tokens_inside,
        sum(p.load_s) FILTER (WHERE p.ts <= w.start_ts OR p.from_ts > w.end_ts)
            / nullif(sum(p.loads) FILTER (WHERE p.ts <= w.start_ts OR p.from_ts > w.end_ts), 0) AS load_mean_outside_s,
        min(p.ts) FILTER (WHERE p.slow AND p.ts >= w.near_ts AND p.from_ts <= w.end_ts) AS slow_from_ts,
        any_value(p.prefill_tps) AS prefill_tps
    FROM windows AS w
    JOIN _l2_pace AS p USING (instance)
    GROUP BY w.instance, w.incident
),
moved AS (
    SELECT
        w.instance,
        w.incident,
        sum(m.loaded_tokens) AS loaded_tokens_inside,
        sum(m.prefetched_tokens) AS prefetched_tokens_inside,
        sum(m.unfulfilled_tokens) AS unfulfilled_tokens_inside,
        sum(coalesce(m.load_failures, 0)) AS load_failures_inside
    FROM windows AS w
    JOIN _l2_moved AS m ON m.instance = w.instance AND m.ts > w.start_ts AND m.from_ts <= w.end_ts
    GROUP BY w.instance, w.incident
),
held AS (
    SELECT
        w.instance,
        w.incident,
        sum((coalesce(r.kv_fetch_waiting, 0) + r.kv_fetch_loading + coalesce(r.kv_fetch_done, 0)) * r.dwell_s) AS fetch_request_s,
        max(coalesce(r.kv_fetch_waiting, 0) + r.kv_fetch_loading) AS fetch_max,
        sum(r.deferred * r.dwell_s) AS deferred_request_s,
        sum(r.waiting * r.dwell_s) AS waiting_request_s,
        min(r.ts) FILTER (
            WHERE r.waiting > 1 AND coalesce(r.kv_fetch_waiting, 0) + r.kv_fetch_loading >= getvariable('dominant_share')::DOUBLE * r.waiting
        ) AS fetch_from_ts,
        min(r.ts) FILTER (WHERE r.pool_usage >= getvariable('full_usage')::DOUBLE) AS full_from_ts
    FROM windows AS w
    JOIN _report AS r ON r.instance = w.instance AND r.ts >= w.near_ts AND r.ts <= w.end_ts
    GROUP BY w.instance, w.incident
),
spared AS (
    SELECT
        w.instance,
        w.incident,
        sum(s.seconds) FILTER (WHERE s.spare) AS spare_s,
        sum(s.seconds) FILTER (WHERE s.spare IS NOT NULL) AS spare_judged_s
    FROM windows AS w
    JOIN _spare AS s ON s.instance = w.instance AND s.ts >= w.start_ts AND s.ts <= w.end_ts
    GROUP BY w.instance, w.incident
)
SELECT
    w.instance,
    w.incident,
    epoch(w.end_ts - w.start_ts) AS incident_s,
    l.loads_inside,
    l.load_inside_s,
    l.slow_load_inside_s,
    l.timed_tokens_inside,
    l.load_mean_outside_s,
    l.prefill_tps,
    l.slow_from_ts,
    h.full_from_ts,
    h.fetch_from_ts,
    h.fetch_max,
    h.fetch_request_s,
    h.deferred_request_s,
    h.waiting_request_s,
    m.loaded_tokens_inside,
    m.prefetched_tokens_inside,
    m.unfulfilled_tokens_inside,
    m.load_failures_inside,
    s.spare_s,
    s.spare_judged_s,
    t.slow_n AS slow_ttft_n,
    t.excess_request_s
FROM windows AS w
LEFT JOIN loads AS l USING (instance, incident)
LEFT JOIN moved AS m USING (instance, incident)
LEFT JOIN held AS h USING (instance, incident)
LEFT JOIN spared AS s USING (instance, incident)
LEFT JOIN late AS t USING (instance, incident);
