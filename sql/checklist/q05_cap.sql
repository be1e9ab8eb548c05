-- 5. Or on a cap? Running against max_running_requests / max_num_seqs while requests waited in the incident. Without
-- a cap in the log, `plateau_share` is the part of the waiting reports with exactly the highest running count.
CREATE OR REPLACE VIEW q05_cap AS
WITH inside AS (
    SELECT q.*
    FROM queue_state AS q
    JOIN incident AS i ON q.instance = i.instance AND q.ts >= i.start_ts AND q.ts <= i.end_ts
),
top AS (
    SELECT instance, dp, max(running_now) AS running_max FROM inside GROUP BY ALL
)
SELECT
    i.instance,
    max(q.cap) AS cap,
    (SELECT min(l.cap_source) FROM _limits AS l WHERE l.instance = i.instance AND l.run_id = max(q.run_id)) AS cap_source,
    max(q.running_now) AS running_max,
    median(q.running_now) AS running_p50,
    sum(q.seconds) AS waiting_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.running_now >= q.cap), 0) AS at_cap_s,
    sum(q.seconds) FILTER (WHERE q.state = 'cap') AS cap_s,
    avg((q.running_now = t.running_max)::INTEGER) AS plateau_share,
    max(q.pool_usage) AS usage_max,
    count(q.seq) AS reports
FROM _instance AS i
LEFT JOIN inside AS q USING (instance)
LEFT JOIN top AS t ON t.instance = q.instance AND t.dp = q.dp
GROUP BY i.instance;
