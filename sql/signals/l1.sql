-- The three states of the KV pool in tokens, summed over data-parallel ranks, at each scrape that tells them. They are
-- read from the metrics also where the log is the finer source of everything else: no log tells evictable tokens. A
-- rank's states stand for up to 30 s; without those of every rank there is no sum.
CREATE OR REPLACE VIEW _l1_states AS
WITH told AS (
    SELECT instance, run_id, dp, ts, kv_used_tokens, kv_evictable_tokens, kv_available_tokens
    FROM _scrape
    WHERE kv_used_tokens IS NOT NULL AND kv_evictable_tokens IS NOT NULL AND kv_available_tokens IS NOT NULL
),
ranks AS (
    SELECT instance, run_id, dp, count(*) OVER (PARTITION BY instance, run_id) AS ranks
    FROM (SELECT DISTINCT instance, run_id, dp FROM told)
)
SELECT
    m.instance,
    m.run_id,
    m.ts,
    sum(t.kv_used_tokens)::BIGINT AS used_tokens,
    sum(t.kv_evictable_tokens)::BIGINT AS evictable_tokens,
    sum(t.kv_available_tokens)::BIGINT AS available_tokens
FROM (
    SELECT m.instance, m.run_id, m.ts, r.dp, r.ranks
    FROM (SELECT DISTINCT instance, run_id, ts FROM told) AS m
    JOIN ranks AS r USING (instance, run_id)
) AS m
ASOF JOIN told AS t ON t.instance = m.instance AND t.run_id = m.run_id AND t.dp = m.dp AND m.ts >= t.ts
WHERE epoch(m.ts - t.ts) <= 30.0
GROUP BY m.instance, m.run_id, m.ts
HAVING count(*) = any_value(m.ranks);

-- The KV pool in HBM over time, in tokens: used, evictable, available; they add up to the capacity. Only SGLang's
-- gauges (0.5.12 on) tell evictable from available; where there is usage alone, used is known and those two are NULL.
-- Each is the last of its bucket, and holds as the load does.
CREATE OR REPLACE VIEW signal_l1 AS
WITH pools AS (
    SELECT instance, run_id, greatest(count(DISTINCT dp), max(engines)) AS pools FROM scheduler_clean GROUP BY ALL
),
holds AS (
    SELECT instance, run_id, greatest(30.0, 3.0 * median(gap_s)) AS hold_s
    FROM (SELECT *, epoch(ts - lag(ts) OVER (PARTITION BY instance, run_id ORDER BY ts)) AS gap_s FROM _l1_states)
    GROUP BY ALL
),
states AS (
    SELECT s.*, h.hold_s FROM _l1_states AS s JOIN holds AS h USING (instance, run_id)
),
loads AS (
    SELECT instance, run_id, ts, hold_s, kv_used_tokens, pools_used
    FROM _load
    QUALIFY row_number() OVER (PARTITION BY instance, run_id, ts ORDER BY seq DESC) = 1
),
buckets AS (
    SELECT *, bucket_ts + to_seconds(bucket_s) AS end_ts FROM signal_load
),
last_known AS (
    SELECT
        b.*,
        if(epoch(b.bucket_ts - t.ts) <= t.hold_s, {'used': t.used_tokens, 'evictable': t.evictable_tokens, 'available': t.available_tokens}, NULL) AS told,
        if(epoch(b.bucket_ts - l.ts) <= l.hold_s, {'used': l.kv_used_tokens, 'pools': l.pools_used}, NULL) AS reported
    FROM buckets AS b
    ASOF LEFT JOIN states AS t ON t.instance = b.instance AND t.run_id = b.run_id AND b.end_ts > t.ts
    ASOF LEFT JOIN loads AS l ON l.instance = b.instance AND l.run_id = b.run_id AND b.end_ts > l.ts
)
SELECT
    k.instance,
    k.run_id,
    k.bucket_ts,
    coalesce(k.told.used + k.told.evictable + k.told.available, l.capacity_tokens * coalesce(p.pools, 1)) AS l1_capacity_tokens,
    coalesce(k.told.used, k.reported.used, k.reported.pools * l.capacity_tokens)::BIGINT AS l1_used_tokens,
    k.told.evictable AS l1_evictable_tokens,
    k.told.available AS l1_available_tokens,
    k.kv_usage_max,
    k.kv_usage_mean
FROM last_known AS k
LEFT JOIN _limits AS l USING (instance, run_id)
LEFT JOIN pools AS p USING (instance, run_id);
