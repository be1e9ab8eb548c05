-- One row per instance and process lifetime: when it reported, and how it began and ended as far as the log tells.
CREATE OR REPLACE VIEW run AS
WITH seen AS (
    SELECT instance, run_id, engine, ts FROM scheduler_clean
    UNION ALL
    SELECT instance, run_id, engine, ts FROM event
    UNION ALL
    SELECT instance, run_id, engine, ts FROM facts
    UNION ALL
    -- without any report of the server, what others saw of it
    SELECT instance, run_id, engine, unnest([first_ts, last_ts]) AS ts
    FROM _series_used
    WHERE engine <> 'process' AND instance NOT IN (SELECT instance FROM scheduler_clean)
    UNION ALL
    SELECT instance, run_id, engine, unnest([coalesce(arrival_ts, ts), finish_ts]) AS ts
    FROM requests
    WHERE instance NOT IN (SELECT instance FROM scheduler_clean)
)
SELECT
    s.instance,
    s.run_id,
    coalesce(any_value(s.engine) FILTER (WHERE s.engine NOT IN ('lmcache', 'process', 'client')), any_value(s.engine)) AS engine,
    min(s.ts) AS first_ts,
    max(s.ts) AS last_ts,
    (SELECT min(e.ts) FROM event AS e WHERE e.instance = s.instance AND e.run_id = s.run_id AND e.kind = 'start') AS start_ts,
    (SELECT min(e.ts) FROM event AS e WHERE e.instance = s.instance AND e.run_id = s.run_id AND e.kind = 'shutdown') AS shutdown_ts,
    (SELECT min(c.ts) FROM scheduler_clean AS c WHERE c.instance = s.instance AND c.run_id = s.run_id) AS first_report_ts,
    (SELECT max(c.ts) FROM scheduler_clean AS c WHERE c.instance = s.instance AND c.run_id = s.run_id) AS last_report_ts
FROM seen AS s
GROUP BY s.instance, s.run_id;
