-- 11. Was load skewed? Every data-parallel rank over the incident: the fullest and the emptiest by usage, the one with the
-- longest queue, and what each would hold if they shared alike (`usage_even`, `running_even`: what was served, and what the
-- longest queue still held at the end). An idle rank of SGLang prints nothing, so the incident's whole length counts for
-- what is read from its log. `ranks_told` is the number of ranks the arguments ask for; `replicas` are other instances of
-- the same engine that reported meanwhile.
CREATE OR REPLACE VIEW q11_skew AS
WITH ranks AS (
    SELECT DISTINCT instance, dp FROM scheduler_clean
),
spans AS (
    SELECT instance, incident, start_ts, end_ts, epoch(end_ts - start_ts) AS span_s FROM incident WHERE start_ts IS NOT NULL
),
reported AS (
    SELECT
        s.instance,
        s.incident,
        r.dp,
        sum(r.pool_usage * r.dwell_s) AS usage_s,
        sum(r.running * r.dwell_s) AS running_s,
        sum(r.waiting * r.dwell_s) AS waiting_s,
        greatest(sum(r.dwell_s), max(if(r.kind IN ('prefill', 'decode'), s.span_s, 0.0))) AS held_s,
        arg_max(r.waiting, r.seq) AS waiting_last
    FROM spans AS s
    JOIN _report AS r ON r.instance = s.instance AND r.ts >= s.start_ts AND r.ts <= s.end_ts
    GROUP BY ALL
),
per_rank AS (
    SELECT
        s.instance,
        s.incident,
        k.dp,
        p.usage_s / nullif(p.held_s, 0) AS usage_mean,
        p.running_s / nullif(p.held_s, 0) AS running_mean,
        p.waiting_s / nullif(p.held_s, 0) AS waiting_mean,
        p.waiting_last
    FROM spans AS s
    JOIN ranks AS k USING (instance)
    LEFT JOIN reported AS p USING (instance, incident, dp)
),
hot AS (
    SELECT
        instance,
        incident,
        count(usage_mean) AS reporting,
        max(usage_mean) AS usage_fullest,
        min(usage_mean) AS usage_emptiest,
        arg_max(dp, usage_mean) AS fullest_rank,
        arg_min(dp, usage_mean) AS emptiest_rank,
        max(waiting_mean) AS waiting_longest,
        min(waiting_mean) AS waiting_shortest,
        sum(waiting_mean) AS waiting_sum,
        arg_max(dp, waiting_mean) AS queue_rank,
        arg_max(usage_mean, waiting_mean) AS queue_usage,
        arg_max(running_mean, waiting_mean) AS queue_running,
        arg_max(waiting_last, waiting_mean) AS queue_left,
        sum(usage_mean) AS usage_sum,
        sum(running_mean) AS running_sum
    FROM per_rank
    GROUP BY ALL
),
asked AS (
    SELECT instance, max(number) AS ranks_told FROM fact WHERE key IN ('arg.dp_size', 'arg.data_parallel_size') GROUP BY instance
),
others AS (
    SELECT s.instance, s.incident, count(DISTINCT r.instance) AS replicas, min(r.usage_mean) AS replica_usage_min, arg_min(r.instance, r.usage_mean) AS replica
    FROM spans AS s
    JOIN _instance AS own USING (instance)
    JOIN LATERAL (
        SELECT r.instance, sum(r.pool_usage * r.dwell_s) / nullif(sum(r.dwell_s), 0) AS usage_mean
        FROM _report AS r
        JOIN _instance AS o ON o.instance = r.instance
        WHERE r.instance <> s.instance AND o.engine = own.engine AND r.ts >= s.start_ts AND r.ts <= s.end_ts
            AND coalesce(r.role, 'unified') NOT IN ('prefill', 'decode')
        GROUP BY r.instance
    ) AS r ON true
    GROUP BY s.instance, s.incident
)
SELECT
    i.instance,
    i.incident,
    (SELECT count(*) FROM ranks AS k WHERE k.instance = i.instance)::INTEGER AS ranks,
    a.ranks_told::INTEGER AS ranks_told,
    h.usage_fullest,
    h.usage_emptiest,
    h.fullest_rank,
    h.emptiest_rank,
    h.waiting_longest,
    h.waiting_shortest,
    h.waiting_longest / nullif(h.waiting_sum, 0) AS queue_share,
    h.queue_rank,
    h.queue_usage,
    h.queue_running,
    (h.usage_sum + coalesce(h.queue_left * h.queue_usage / nullif(h.queue_running, 0), 0.0)) / nullif(h.reporting, 0) AS usage_even,
    (h.running_sum + coalesce(h.queue_left, 0)) / nullif(h.reporting, 0) AS running_even,
    coalesce(o.replicas, 0)::INTEGER AS replicas,
    o.replica,
    o.replica_usage_min
FROM incident AS i
LEFT JOIN hot AS h USING (instance, incident)
LEFT JOIN asked AS a USING (instance)
LEFT JOIN others AS o USING (instance, incident);
