-- What each counter (buckets, sums and counts of histograms too) rose by since its sample before: `prev_ts` to `ts`.
-- A value below the one before is that of a counter that began again at zero, and so is the first one of a later
-- process lifetime. Before the first sample of the capture nothing is known: NULL. Settled before --since/--until apply.
CREATE OR REPLACE VIEW counter_delta AS
WITH steps AS (
    SELECT
        *,
        lag(ts) OVER own AS prev_ts,
        lag(value) OVER own AS prev_value,
        lag(run_id) OVER own AS prev_run,
        lag(source_id) OVER own AS prev_source,
        row_number() OVER own AS nth
    FROM _sample
    WHERE (part IN ('bucket', 'sum', 'count') OR name LIKE '%\_total' ESCAPE '\') AND value IS NOT NULL
    WINDOW own AS (PARTITION BY instance, name, part, le, dp, own_labels ORDER BY ts, run_id)
),
-- a run before this one was scraped: what is new in this one began at zero
earlier AS (
    SELECT instance, arg_min(run_id, first_ts) AS first_run FROM _series_used GROUP BY instance
)
SELECT
    s.instance,
    s.run_id,
    s.engine,
    s.name,
    s.part,
    s.le,
    s.dp,
    s.own_labels,
    s.labels,
    s.source_id,
    s.record,
    s.prev_ts,
    s.ts,
    s.value,
    coalesce(s.value < s.prev_value AND s.source_id = s.prev_source OR s.run_id <> s.prev_run, s.run_id <> e.first_run) AS began_again,
    CASE
        WHEN s.nth = 1 AND s.run_id = e.first_run THEN NULL
        WHEN s.nth = 1 OR s.run_id <> s.prev_run THEN s.value
        -- two inputs read the server at different moments
        WHEN s.source_id <> s.prev_source THEN greatest(0.0, s.value - s.prev_value)
        WHEN s.value < s.prev_value THEN s.value
        ELSE s.value - s.prev_value
    END AS delta
FROM steps AS s
JOIN earlier AS e USING (instance)
WHERE s.ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
    AND s.ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ);
