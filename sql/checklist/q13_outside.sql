-- How each process lifetime ended: crashes that no shutdown explains, work in hand at the last report, and how long
-- the process was silent with work in hand before something else was heard of it.
CREATE OR REPLACE VIEW _run_end AS
WITH last_report AS (
    SELECT instance, run_id, arg_max(running, seq) AS running, arg_max(waiting, seq) AS waiting, max(ts) AS ts, max(hold_s) AS hold_s
    FROM _load
    GROUP BY ALL
),
crashes AS (
    SELECT
        e.instance,
        e.run_id,
        min(e.ts) AS crash_ts,
        arg_min(e.text, e.ts) AS crash_text,
        arg_min(e.source, e.ts) AS crash_source
    FROM event AS e
    JOIN run AS r USING (instance, run_id)
    WHERE e.kind IN ('crash', 'oom')
        -- an engine that was told to stop tears its own processes down
        AND NOT coalesce(e.ts BETWEEN r.shutdown_ts - INTERVAL 2 SECOND AND r.shutdown_ts + INTERVAL 180 SECOND, false)
    GROUP BY ALL
),
watchdogs AS (
    SELECT instance, run_id, min(ts) AS watchdog_ts, arg_min(source, ts) AS watchdog_source
    FROM event
    WHERE kind = 'watchdog'
    GROUP BY ALL
),
next_run AS (
    SELECT instance, run_id, start_ts, lead(start_ts) OVER (PARTITION BY instance ORDER BY first_ts) AS next_start_ts FROM run
)
SELECT
    r.instance,
    r.run_id,
    r.first_ts,
    r.last_ts,
    r.start_ts,
    r.shutdown_ts,
    n.next_start_ts,
    l.ts AS last_report_ts,
    l.running AS running_last,
    l.waiting AS waiting_last,
    l.hold_s,
    epoch(r.last_ts - l.ts) AS silent_s,
    c.crash_ts,
    c.crash_text,
    c.crash_source,
    w.watchdog_ts,
    w.watchdog_source,
    (SELECT sum(e.requests) FROM event AS e
        WHERE e.instance = r.instance AND e.run_id = r.run_id AND e.kind = 'abort' AND e.ts >= r.shutdown_ts)::BIGINT AS aborted_at_shutdown
FROM run AS r
LEFT JOIN last_report AS l USING (instance, run_id)
LEFT JOIN crashes AS c USING (instance, run_id)
LEFT JOIN watchdogs AS w USING (instance, run_id)
LEFT JOIN next_run AS n USING (instance, run_id);

-- Silences inside a run that began with requests waiting, or with work in hand and not one token made.
CREATE OR REPLACE VIEW _silence AS
WITH steps AS (
    SELECT
        instance,
        run_id,
        engine,
        ts,
        running,
        waiting,
        prompt_tps,
        gen_tps,
        kind,
        hold_s,
        next_ts,
        lead(running + waiting) OVER own AS work_after,
        lead(prompt_tps) OVER own AS prompt_tps_after
    FROM _report
    WINDOW own AS (PARTITION BY instance, run_id, dp ORDER BY seq)
)
SELECT
    instance,
    run_id,
    ts AS start_ts,
    next_ts AS end_ts,
    epoch(next_ts - ts) AS silent_s,
    running,
    waiting,
    (kind = 'stats' AND prompt_tps = 0 AND gen_tps = 0) AS no_token
FROM steps
WHERE epoch(next_ts - ts) > greatest(getvariable('hang_silence_s')::DOUBLE, 3 * hold_s)
    AND (waiting > 0 OR (kind = 'stats' AND running > 0 AND prompt_tps = 0 AND gen_tps = 0));

-- 13. Outside the scheduler? Crashes, hangs, restarts and warnings of the whole capture.
CREATE OR REPLACE VIEW q13_outside AS
SELECT
    i.instance,
    i.runs,
    (SELECT count(*) FROM _run_end AS e WHERE e.instance = i.instance AND e.crash_ts IS NOT NULL) AS crashes,
    (SELECT min(e.crash_ts) FROM _run_end AS e WHERE e.instance = i.instance) AS crash_ts,
    (SELECT arg_min(e.crash_text, e.crash_ts) FROM _run_end AS e WHERE e.instance = i.instance) AS crash_text,
    (SELECT arg_min(e.crash_source, e.crash_ts) FROM _run_end AS e WHERE e.instance = i.instance) AS crash_source,
    (SELECT count(*) FROM event AS v WHERE v.instance = i.instance AND v.kind = 'watchdog') AS watchdogs,
    (SELECT max(s.silent_s) FROM _silence AS s WHERE s.instance = i.instance) AS silence_max_s,
    (SELECT count(*) FROM event AS v WHERE v.instance = i.instance AND v.kind = 'rejection') AS rejections,
    (SELECT count(*) FROM event AS v WHERE v.instance = i.instance AND v.kind = 'warning') AS warnings,
    (SELECT count(*) FROM event AS v WHERE v.instance = i.instance AND v.kind = 'stats_off') AS stats_off
FROM _instance AS i;
