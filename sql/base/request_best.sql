-- Requests of the one observer that knows most of an instance's latencies, never mixed: one whose requests have their
-- place in time first; then a client before the front end, and that before the engine itself. `censored` requests were
-- still pending when the capture ended.
CREATE OR REPLACE VIEW request_best AS
WITH counted AS (
    SELECT
        instance,
        observer,
        count(ttft_s) AS with_ttft,
        count(ttft_s) FILTER (WHERE coalesce(arrival_ts, ts) IS NOT NULL) AS placed,
        count(*) AS n
    FROM requests
    GROUP BY instance, observer
),
best AS (
    SELECT
        instance,
        arg_max(observer, (placed > 0, with_ttft > 0, CASE observer WHEN 'client' THEN 3 WHEN 'frontend' THEN 2 ELSE 1 END, n)) AS observer
    FROM counted
    GROUP BY instance
)
SELECT
    r.*,
    coalesce(r.status = 'unfinished', false) AS censored
FROM requests AS r
JOIN best AS b ON r.instance = b.instance AND r.observer = b.observer
WHERE coalesce(r.arrival_ts, r.ts, '-infinity'::TIMESTAMPTZ) >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
    AND coalesce(r.arrival_ts, r.ts, '-infinity'::TIMESTAMPTZ) <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ);
