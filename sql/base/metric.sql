-- Every sample with the series it belongs to. `counted` is false for series that say again what another one says (an
-- old spelling, a part of a sum, a further rank); `hidden` is true where another input of the same server holds the
-- same metric in finer steps. Sum and compare only what is counted and not hidden.
CREATE OR REPLACE VIEW metrics AS
SELECT
    s.instance,
    s.run_id,
    s.engine,
    s.name,
    s.part,
    s.le,
    s.dp,
    s.role,
    s.model,
    s.labels,
    x.ts,
    x.value,
    s.unit,
    s.type,
    s.raw_name,
    s.counted,
    EXISTS (SELECT 1 FROM _hidden AS h WHERE h.series_id = s.series_id AND x.ts >= h.from_ts AND x.ts <= h.until_ts) AS hidden,
    s.series_id,
    s.source_id,
    s.record
FROM samples AS x
JOIN series AS s USING (series_id)
WHERE x.ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
    AND x.ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ);
