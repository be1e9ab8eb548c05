-- How each process lifetime ended: crashes that no shutdown explains, work in hand at the last report, and how long
-- the process was silent with work in hand before something else was heard of it; `failed_requests` ended in an error from
-- shortly before the end until the next process was there (at most ten minutes).
CREATE OR REPLACE VIEW _run_end AS
WITH last_report AS (
    SELECT
        l.instance,
        l.run_id,
        arg_max(l.running, l.seq) AS running,
        arg_max(l.waiting, l.seq) AS waiting,
        max(l.ts) AS ts,
        -- a batch or a token in the log: scrapes of a scheduler that hangs go on, with gauges that stand still
        max(l.ts) FILTER (WHERE r.basis = 'log' AND (r.kind IN ('prefill', 'decode') OR r.prompt_tps > 0 OR r.gen_tps > 0)) AS progress_ts,
        max(l.hold_s) AS hold_s,
        coalesce(arg_max(r.kind = 'stats' AND r.running > 0 AND r.prompt_tps = 0 AND r.gen_tps = 0, r.seq), false) AS no_token
    FROM _load AS l
    JOIN _report AS r USING (instance, run_id, seq)
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
    l.progress_ts,
    l.running AS running_last,
    l.waiting AS waiting_last,
    l.hold_s,
    coalesce(l.no_token, false) AS no_token,
    epoch(r.last_ts - l.ts) AS silent_s,
    c.crash_ts,
    c.crash_text,
    c.crash_source,
    w.watchdog_ts,
    w.watchdog_source,
    (SELECT sum(e.requests) FROM event AS e
        WHERE e.instance = r.instance AND e.run_id = r.run_id AND e.kind = 'abort' AND e.ts >= r.shutdown_ts)::BIGINT AS aborted_at_shutdown,
    (SELECT count(*) FROM request_best AS q
        WHERE q.instance = r.instance AND q.status = 'error'
            AND coalesce(q.finish_ts, q.arrival_ts, q.ts) >= coalesce(c.crash_ts, r.shutdown_ts, r.last_ts) - INTERVAL 10 SECOND
            AND coalesce(q.arrival_ts, q.ts) <= least(
                coalesce(n.next_start_ts + INTERVAL 120 SECOND, 'infinity'::TIMESTAMPTZ), coalesce(c.crash_ts, r.shutdown_ts, r.last_ts) + INTERVAL 600 SECOND
            )) AS failed_requests
FROM run AS r
LEFT JOIN last_report AS l USING (instance, run_id)
LEFT JOIN crashes AS c USING (instance, run_id)
LEFT JOIN watchdogs AS w USING (instance, run_id)
LEFT JOIN next_run AS n USING (instance, run_id);

-- Silences inside a run that began with requests waiting, or with work in hand and not one token made. One that ends
-- in a burst of prompt tokens was a long prefill: vLLM counts a prompt when its first token is out.
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
        lead(prompt_tps) OVER own AS prompt_tps_after,
        lead(gen_tps) OVER own AS gen_tps_after
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
    AND (waiting > 0 OR (kind = 'stats' AND running > 0 AND prompt_tps = 0 AND gen_tps = 0))
    AND NOT coalesce(
        kind = 'stats' AND running > 0 AND prompt_tps_after > gen_tps_after
            AND epoch(next_ts - ts) <= getvariable('long_prefill_s')::DOUBLE,
        false
    );

-- 13. Outside the scheduler? Crashes, hangs, restarts and warnings of the whole capture; the longest stretch in which nothing
-- ran although requests waited (see `stuck`), and whether one of them can never fit (see `unschedulable`).
CREATE OR REPLACE VIEW q13_outside AS
WITH ends AS (
    SELECT
        instance,
        count(crash_ts) AS crashes,
        min(crash_ts) AS crash_ts,
        arg_min(crash_text, crash_ts) AS crash_text,
        arg_min(crash_source, crash_ts) AS crash_source
    FROM _run_end
    GROUP BY instance
),
silences AS (
    SELECT instance, max(silent_s) AS silence_max_s FROM _silence GROUP BY instance
),
still AS (
    SELECT * FROM stuck QUALIFY row_number() OVER (PARTITION BY instance ORDER BY stuck_s DESC, start_ts) = 1
),
events_of AS (
    SELECT
        instance,
        count(*) FILTER (WHERE kind = 'watchdog') AS watchdogs,
        count(*) FILTER (WHERE kind = 'rejection') AS rejections,
        count(*) FILTER (WHERE kind = 'warning') AS warnings,
        count(*) FILTER (WHERE kind = 'stats_off') AS stats_off
    FROM event
    GROUP BY instance
)
SELECT
    i.instance,
    i.runs,
    coalesce(e.crashes, 0) AS crashes,
    e.crash_ts,
    e.crash_text,
    e.crash_source,
    coalesce(v.watchdogs, 0) AS watchdogs,
    s.silence_max_s,
    coalesce(v.rejections, 0) AS rejections,
    coalesce(v.warnings, 0) AS warnings,
    coalesce(v.stats_off, 0) AS stats_off,
    t.stuck_s,
    t.start_ts AS stuck_from_ts,
    t.end_ts AS stuck_until_ts,
    t.reports AS stuck_reports,
    t.waiting_max AS stuck_waiting_max,
    t.usage_max AS stuck_usage_max,
    t.deferred_share AS stuck_deferred_share,
    t.fetching_max AS stuck_fetching_max,
    u.* EXCLUDE (instance)
FROM _instance AS i
LEFT JOIN ends AS e USING (instance)
LEFT JOIN silences AS s USING (instance)
LEFT JOIN still AS t USING (instance)
LEFT JOIN unschedulable AS u USING (instance)
LEFT JOIN events_of AS v USING (instance);
