-- Every instance of the trace, those without a single report too.
CREATE OR REPLACE VIEW _instance AS
SELECT
    instance,
    coalesce(any_value(engine) FILTER (WHERE engine NOT IN ('lmcache', 'process', 'client')), any_value(engine)) AS engine,
    min(first_ts) AS first_ts,
    max(last_ts) AS last_ts,
    count(*)::INTEGER AS runs
FROM run
GROUP BY instance;

-- Spells during which requests waited; a gap shorter than spell_gap_s does not end one.
CREATE OR REPLACE VIEW _queue_spell AS
WITH waits AS (
    SELECT
        instance,
        run_id,
        seq,
        max(wait_est_s) FILTER (WHERE waiting > 0) AS wait_est_s,
        max(wait_min_s) AS wait_min_s
    FROM _wait
    GROUP BY ALL
),
queued AS (
    SELECT
        l.instance,
        l.run_id,
        l.seq,
        l.ts,
        l.waiting,
        l.dwell_s,
        l.hold_s,
        w.wait_est_s,
        w.wait_min_s,
        lag(l.ts) OVER (PARTITION BY l.instance ORDER BY l.ts, l.seq) AS before_ts
    FROM _load AS l
    LEFT JOIN waits AS w USING (instance, run_id, seq)
    WHERE l.waiting > 0
),
marked AS (
    SELECT
        *,
        sum(CASE WHEN before_ts IS NULL OR epoch(ts - before_ts) > greatest(hold_s, getvariable('spell_gap_s')::DOUBLE) THEN 1 ELSE 0 END)
            OVER (PARTITION BY instance ORDER BY ts, seq) AS spell
    FROM queued
)
SELECT
    instance,
    spell,
    min(run_id) AS run_id,
    min(ts) AS start_ts,
    max(ts + to_microseconds((dwell_s * 1e6)::BIGINT)) AS end_ts,
    max(waiting) AS waiting_peak,
    sum(waiting * dwell_s) AS waiting_request_s,
    sum(dwell_s) AS waiting_s,
    max(wait_est_s) AS wait_est_peak_s,
    max(coalesce(wait_est_s, wait_min_s)) AS wait_known_s,
    sum(waiting * dwell_s) FILTER (WHERE wait_est_s IS NULL AND wait_min_s IS NULL) AS unknown_request_s,
    count(*) AS reports
FROM marked
GROUP BY instance, spell;

-- The incident of an instance as its queue shows it: the spell with the most waiting, if it is long enough to
-- matter. `broke` compares with the thresholds queue_wait_s and queue_request_s; where the wait is unknown, twice as much
-- waiting is asked for.
CREATE OR REPLACE VIEW incident AS
SELECT
    i.instance,
    s.run_id,
    s.start_ts,
    s.end_ts,
    s.waiting_peak,
    s.waiting_request_s,
    s.waiting_s,
    s.wait_est_peak_s,
    coalesce(
        (s.wait_known_s >= getvariable('queue_wait_s')::DOUBLE AND s.waiting_request_s >= getvariable('queue_request_s')::DOUBLE)
            OR s.unknown_request_s >= 2 * getvariable('queue_request_s')::DOUBLE,
        false
    ) AS broke
FROM _instance AS i
LEFT JOIN _queue_spell AS s USING (instance)
QUALIFY row_number() OVER (PARTITION BY i.instance ORDER BY s.waiting_request_s DESC NULLS LAST) = 1;
