-- Incidents numbered by wave: those of any server that overlap, or begin within five minutes of one that ended, are one wave.
CREATE OR REPLACE VIEW _in_wave AS
WITH reach AS (
    SELECT
        *,
        max(to_ts) OVER (
            ORDER BY from_ts, to_ts, instance, capture ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ts
    FROM _span
)
SELECT
    * EXCLUDE (before_ts),
    count(CASE WHEN before_ts IS NULL OR from_ts > before_ts + INTERVAL 5 MINUTE THEN 1 END)
        OVER (ORDER BY from_ts, to_ts, instance, capture) AS wave
FROM reach;

-- Which servers went first: one row per wave of incidents and server in it, in the order in which they broke. `place` is 1 for
-- the first, and the same for servers that broke at the same time; `after_s` is how long after the first; `cause` is that of
-- the server's first incident in the wave.
CREATE OR REPLACE VIEW wave_order AS
WITH servers AS (
    SELECT
        wave,
        instance,
        min(from_ts) AS start_ts,
        max(to_ts) AS end_ts,
        arg_min(cause, from_ts) AS cause,
        count(*) AS incidents,
        max(waiting_peak) AS waiting_peak
    FROM _in_wave
    GROUP BY wave, instance
)
SELECT
    wave,
    rank() OVER (PARTITION BY wave ORDER BY start_ts) AS place,
    instance,
    start_ts,
    end_ts,
    epoch(start_ts - min(start_ts) OVER (PARTITION BY wave)) AS after_s,
    cause,
    incidents,
    waiting_peak
FROM servers
ORDER BY wave, place, instance;

-- Waves of incidents, in the order of time: how many servers broke, from when to when, and which was the first with which cause.
-- Where several broke first, it is the first of them by name.
CREATE OR REPLACE VIEW wave AS
SELECT
    wave,
    min(start_ts) AS start_ts,
    max(end_ts) AS end_ts,
    count(*) AS instances,
    sum(incidents)::BIGINT AS incidents,
    arg_min(instance, (place, instance)) AS first_instance,
    arg_min(cause, (place, instance)) AS first_cause,
    list_sort(list_distinct(list(cause))) AS causes,
    max(waiting_peak) AS waiting_peak
FROM wave_order
GROUP BY wave
ORDER BY wave;
