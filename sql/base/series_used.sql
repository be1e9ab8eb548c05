-- Series that count, with the labels that are the exporter's own: who scraped them, and from where, is left out, so
-- that two readings of one series are known for the same. `density` is samples per second.
CREATE OR REPLACE VIEW _series_used AS
SELECT
    *,
    map_from_entries(list_filter(
        map_entries(labels),
        lambda e: e.key NOT IN (
            'instance', 'exported_instance', 'job', 'pod', 'pod_name', 'kubernetes_pod_name', 'kubernetes_namespace', 'namespace',
            'container', 'endpoint', 'service', 'node', 'prometheus', 'prometheus_replica', 'cluster', 'region', 'zone', 'host'
        )
    ))::VARCHAR AS own_labels,
    samples / greatest(1.0, epoch(last_ts - first_ts)) AS density
FROM series
WHERE counted AND name IS NOT NULL AND samples > 0;

-- Spans of series in which another input of the same server holds the same metric in finer steps: those samples are
-- not used, so that nothing is counted twice. One input's readings of one metric of one rank are used or hidden together.
CREATE OR REPLACE VIEW _hidden AS
WITH unit AS (
    SELECT
        instance,
        run_id,
        name,
        part,
        dp,
        source_id,
        min(first_ts) AS first_ts,
        max(last_ts) AS last_ts,
        -- what holds one moment only says least
        max(if(samples > 1, density, 0.0)) AS density
    FROM _series_used
    GROUP BY ALL
)
SELECT
    s.series_id,
    -- an API answer repeats the scrape before its step: at the edges the coarser input still tells of the finer one's time
    b.first_ts - to_microseconds(least(1.5e6 / least(b.density, nullif(w.density, 0)), 60e6)::BIGINT) AS from_ts,
    b.last_ts + to_microseconds(least(1.5e6 / least(b.density, nullif(w.density, 0)), 60e6)::BIGINT) AS until_ts
FROM unit AS w
JOIN unit AS b
    ON w.instance = b.instance AND w.run_id = b.run_id AND w.name = b.name
    AND w.part IS NOT DISTINCT FROM b.part AND w.dp IS NOT DISTINCT FROM b.dp
    AND (b.density, b.source_id) > (w.density, w.source_id)
    AND b.last_ts >= w.first_ts AND b.first_ts <= w.last_ts
JOIN _series_used AS s
    ON s.instance = w.instance AND s.run_id = w.run_id AND s.name = w.name
    AND s.part IS NOT DISTINCT FROM w.part AND s.dp IS NOT DISTINCT FROM w.dp AND s.source_id = w.source_id;

-- Samples that count, of the metrics the signals are made from.
CREATE OR REPLACE VIEW _sample AS
SELECT
    s.instance,
    s.run_id,
    s.engine,
    s.name,
    s.part,
    s.le,
    coalesce(s.dp, 0)::INTEGER AS dp,
    s.own_labels,
    s.labels,
    s.source_id,
    s.record,
    x.ts,
    x.value
FROM samples AS x
JOIN _series_used AS s USING (series_id)
WHERE NOT EXISTS (SELECT 1 FROM _hidden AS h WHERE h.series_id = s.series_id AND x.ts >= h.from_ts AND x.ts <= h.until_ts);
