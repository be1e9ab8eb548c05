-- 5. Or on a cap? Running against max_running_requests / max_num_seqs while requests waited in the incident. Without
-- a cap in the capture, `plateau_share` is the part of the waiting reports with the highest running count, or one less
-- (SGLang's count is one short while a prefill fills the last place), and `cap_at_least` the engine's lowest default,
-- where the arguments are known and set none.
CREATE OR REPLACE VIEW q05_cap AS
WITH inside AS (
    SELECT q.*, i.incident AS of_incident
    FROM queue_state AS q
    JOIN incident AS i ON q.instance = i.instance AND q.ts >= i.start_ts AND q.ts <= i.end_ts
)
SELECT
    i.instance,
    i.incident,
    max(q.cap) AS cap,
    max(q.cap_at_least) AS cap_at_least,
    (SELECT min(l.cap_source) FROM _limits AS l WHERE l.instance = i.instance AND l.run_id = max(q.run_id)) AS cap_source,
    max(q.running_now) AS running_max,
    median(q.running_now) AS running_p50,
    sum(q.seconds) AS waiting_s,
    coalesce(sum(q.seconds) FILTER (WHERE q.running_now >= q.cap), 0) AS at_cap_s,
    sum(q.seconds) FILTER (WHERE q.state = 'cap') AS cap_s,
    avg(q.near_top::INTEGER) AS plateau_share,
    max(q.pool_usage) AS usage_max,
    count(q.seq) AS reports
FROM incident AS i
LEFT JOIN inside AS q ON q.instance = i.instance AND q.of_incident = i.incident
GROUP BY i.instance, i.incident;
