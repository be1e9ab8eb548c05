-- Incidents from their beginning to their end. Where only one of the two is known, it stands for both.
CREATE OR REPLACE VIEW _span AS
SELECT
    *,
    coalesce(start_ts, end_ts) AS from_ts,
    coalesce(end_ts, start_ts) AS to_ts
FROM incidents
WHERE coalesce(start_ts, end_ts) IS NOT NULL;

-- What broke, and when: one row per UTC hour and cause with an incident in it. An incident of several hours is in each of them:
-- `incidents` went on in the hour, `begun` began in it, on so many `instances`, for `incident_s` of the hour together.
CREATE OR REPLACE VIEW cause_by_hour AS
WITH hours AS (
    SELECT *, unnest(generate_series(date_trunc('hour', from_ts), to_ts, INTERVAL 1 HOUR)) AS hour_ts FROM _span
)
SELECT
    hour_ts,
    cause,
    count(*) AS incidents,
    count(*) FILTER (WHERE from_ts >= hour_ts) AS begun,
    count(DISTINCT instance) AS instances,
    sum(epoch(least(to_ts, hour_ts + INTERVAL 1 HOUR) - greatest(from_ts, hour_ts))) AS incident_s,
    max(waiting_peak) AS waiting_peak,
    max(ttft_p99_peak_s) AS ttft_p99_peak_s
FROM hours
GROUP BY hour_ts, cause
ORDER BY hour_ts, incidents DESC, cause;
