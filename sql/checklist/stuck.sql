-- Stretches in which requests waited and nothing ran, report after report, long enough to be no moment: who waited, how full the
-- pool was at most; a prefill ends it. Of an instance with several ranks all must stand still.
CREATE OR REPLACE VIEW stuck AS
WITH steps AS (
    SELECT
        l.instance,
        l.run_id,
        l.seq,
        l.ts,
        l.waiting,
        l.pool_usage,
        l.dwell_s,
        -- SGLang counts a batch that is being prefilled as running only afterwards
        coalesce(l.running = 0 AND l.waiting > 0 AND r.kind <> 'prefill', false) AND coalesce(r.prompt_tps_now, 0) = 0 AS still,
        r.deferred,
        r.kv_fetch_waiting + r.kv_fetch_loading AS fetching
    FROM _load AS l
    JOIN _report AS r USING (instance, run_id, seq)
),
numbered AS (
    SELECT *, count(CASE WHEN NOT still THEN 1 END) OVER (PARTITION BY instance, run_id ORDER BY seq) AS stretch FROM steps
)
SELECT
    instance,
    run_id,
    min(ts) AS start_ts,
    max(ts + to_microseconds((dwell_s * 1e6)::BIGINT)) AS end_ts,
    sum(dwell_s) AS stuck_s,
    count(*) AS reports,
    max(waiting) AS waiting_max,
    max(pool_usage) AS usage_max,
    sum(deferred * dwell_s) / nullif(sum(waiting * dwell_s), 0) AS deferred_share,
    max(fetching) AS fetching_max
FROM numbered
WHERE still
GROUP BY instance, run_id, stretch
HAVING stuck_s > getvariable('hang_silence_s')::DOUBLE;

-- Whether a request needs more than the whole pool: by lines that say so, and by the requests themselves. `pool_tokens` is the
-- smallest pool that a whole prompt must fit into; `giant_tokens` the longest prompt above it that got no first token, come
-- `giant_ts`. `asked_max_tokens` is the longest prompt of any request, and `unsized` how many of those that got no token do
-- not tell their length.
CREATE OR REPLACE VIEW unschedulable AS
WITH pools AS (
    SELECT
        l.instance,
        l.run_id,
        least(any_value(l.capacity_tokens), max(f.number) FILTER (WHERE f.key = 'kv_swa_tokens')) AS pool_tokens,
        any_value(l.max_len_tokens) AS max_len_tokens,
        max(f.number) FILTER (WHERE f.key = 'max_concurrency') AS max_concurrency,
        count(*) FILTER (WHERE f.key IN ('kv_swa_tokens', 'mamba_slots')) AS further_pools
    FROM _limits AS l
    LEFT JOIN fact AS f USING (instance, run_id)
    GROUP BY l.instance, l.run_id
),
pool AS (
    SELECT
        instance,
        min(pool_tokens) AS pool_tokens,
        max(max_len_tokens) AS max_len_tokens,
        min(max_concurrency) AS max_concurrency,
        max(further_pools) AS further_pools
    FROM pools
    GROUP BY instance
),
pending AS (
    SELECT
        r.instance,
        max(r.prompt_tokens) AS asked_max_tokens,
        max(r.prompt_tokens) FILTER (WHERE r.ttft_s IS NULL AND r.prompt_tokens > p.pool_tokens) AS giant_tokens,
        count(*) FILTER (WHERE r.ttft_s IS NULL AND r.prompt_tokens > p.pool_tokens) AS giants,
        min(coalesce(r.arrival_ts, r.ts)) FILTER (WHERE r.ttft_s IS NULL AND r.prompt_tokens > p.pool_tokens) AS giant_ts,
        count(*) FILTER (WHERE r.ttft_s IS NULL AND r.prompt_tokens IS NULL) AS unsized,
        count(*) AS requests
    FROM request_best AS r
    LEFT JOIN pool AS p USING (instance)
    GROUP BY r.instance
),
refused AS (
    SELECT
        e.instance,
        count(*) AS refusals,
        count(*) FILTER (WHERE e.kind = 'abort') AS outgrown,
        min(e.ts) AS refused_from_ts,
        max(e.ts) AS refused_until_ts,
        max(e.tokens) AS refused_tokens,
        arg_min(e.source, e.ts) AS refused_source
    FROM event AS e
    LEFT JOIN pool AS p USING (instance)
    WHERE (e.kind = 'rejection' AND (e.tokens > p.pool_tokens - 64 OR e.text LIKE '%what the engine can hold%' OR e.text LIKE '%than the whole pool has%'))
        OR (e.kind = 'abort' AND e.text LIKE '%outgrown the whole KV pool%')
    GROUP BY e.instance
)
SELECT
    i.instance,
    p.pool_tokens,
    p.max_len_tokens,
    p.max_concurrency,
    coalesce(p.further_pools, 0) AS further_pools,
    n.requests,
    n.asked_max_tokens,
    coalesce(n.giants, 0) AS giants,
    n.giant_tokens,
    n.giant_ts,
    n.unsized,
    coalesce(r.refusals, 0) AS refusals,
    coalesce(r.outgrown, 0) AS outgrown,
    r.refused_from_ts,
    r.refused_until_ts,
    r.refused_tokens,
    r.refused_source
FROM _instance AS i
LEFT JOIN pool AS p USING (instance)
LEFT JOIN pending AS n USING (instance)
LEFT JOIN refused AS r USING (instance);
