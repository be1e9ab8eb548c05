-- What each reading of a counter rose by since the one before, by series. The differences are taken over all readings
-- of one server's series, over all runs. `life` is one from zero on: two inputs read a server at slightly different
-- moments, so what a second input tells below the first one is late, and a new beginning only where it goes on lower.
CREATE OR REPLACE VIEW _counter_step AS
WITH steps AS (
    SELECT
        instance,
        own_series,
        series_id,
        run_id,
        reader,
        ts,
        value,
        lag(ts) OVER own AS prev_ts,
        lag(value) OVER own AS prev_value,
        lag(run_id) OVER own AS prev_run,
        lag(series_id) OVER own AS prev_series,
        lead(value) OVER own AS next_value,
        lead(run_id) OVER own AS next_run
    FROM _sample
    WHERE value IS NOT NULL
        -- the last one is called a gauge, and only grows
        AND (part IN ('bucket', 'sum', 'count') OR name LIKE '%\_total' ESCAPE '\' OR name = 'retracted_requests_cumulative_gauge')
    WINDOW own AS (PARTITION BY own_series ORDER BY ts, run_id)
),
judged AS (
    SELECT
        *,
        CASE
            WHEN prev_run IS NULL THEN false
            WHEN run_id <> prev_run THEN true
            WHEN series_id = prev_series THEN value < prev_value
            ELSE value < 0.5 * prev_value AND next_run = run_id AND next_value < prev_value
        END IS TRUE AS fell
    FROM steps
),
lives AS (
    SELECT *, count(CASE WHEN fell THEN 1 END) OVER (PARTITION BY own_series ORDER BY ts, run_id) AS life FROM judged
),
based AS (
    SELECT
        *,
        max(value) OVER (PARTITION BY own_series, life ORDER BY ts, run_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS base
    FROM lives
),
-- a run before this one was scraped: what is new in this one began at zero
first_run AS (
    SELECT instance, arg_min(run_id, first_ts) AS run_id FROM _series_used GROUP BY instance
),
scrapes AS (
    SELECT *, lag(ts) OVER (PARTITION BY reader ORDER BY ts) AS prev_ts
    FROM (SELECT DISTINCT reader, ts FROM _sample)
),
-- so did what is new among series that were there in the two scrapes before: many are exported from their first event on
born AS (
    SELECT DISTINCT b.own_series
    FROM based AS b
    JOIN scrapes AS c USING (reader, ts)
    JOIN (SELECT DISTINCT reader, first_ts, last_ts FROM _series_used) AS o
        ON o.reader = b.reader AND o.first_ts < c.prev_ts AND o.last_ts >= b.ts
    WHERE b.prev_run IS NULL
)
SELECT
    b.series_id,
    coalesce(b.prev_ts, c.prev_ts) AS prev_ts,
    b.ts,
    b.value,
    b.fell OR b.prev_run IS NULL AND (b.run_id <> f.run_id OR n.own_series IS NOT NULL) AS began_again,
    CASE
        WHEN b.prev_run IS NULL AND b.run_id = f.run_id AND n.own_series IS NULL THEN NULL
        WHEN b.prev_run IS NULL OR b.fell THEN b.value
        ELSE greatest(0.0, b.value - b.base)
    END AS delta
FROM based AS b
JOIN first_run AS f USING (instance)
LEFT JOIN born AS n USING (own_series)
LEFT JOIN scrapes AS c ON b.prev_run IS NULL AND (b.run_id <> f.run_id OR n.own_series IS NOT NULL) AND c.reader = b.reader AND c.ts = b.ts;

-- What each counter (buckets, sums and counts of histograms too) rose by since its sample before: `prev_ts` to `ts`.
-- A value below the one before is that of a counter that began again at zero; the first one of a later process
-- lifetime began there too, and so did a series that was not in the scrapes before. Before the first sample of the
-- capture nothing is known: NULL. Settled before --since/--until apply.
CREATE OR REPLACE VIEW counter_delta AS
SELECT
    s.instance,
    s.run_id,
    s.engine,
    s.name,
    s.part,
    s.le,
    coalesce(s.dp, 0)::INTEGER AS dp,
    s.labels,
    s.source_id,
    s.record,
    c.prev_ts,
    c.ts,
    c.value,
    c.began_again,
    c.delta,
    c.series_id
FROM _counter_step AS c
JOIN _series_used AS s USING (series_id)
WHERE c.ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
    AND c.ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ);
