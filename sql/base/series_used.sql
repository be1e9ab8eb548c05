-- Labels that a scraper adds: who scraped, and from where.
CREATE OR REPLACE MACRO _added_by_scraper(key) AS key IN (
    'instance', 'exported_instance', 'job', 'pod', 'pod_name', 'kubernetes_pod_name', 'kubernetes_namespace', 'namespace',
    'container', 'endpoint', 'service', 'node', 'prometheus', 'prometheus_replica', 'replica', 'thanos_replica', 'monitor', 'receive',
    'tenant_id', 'exported_job', 'exported_pod', 'exported_namespace', 'cluster', 'region', 'zone', 'host'
);

-- Series that count. `reader` is one reading of a server's series: an input, and whoever scraped for it. `own_series` is
-- one number for all readings of a series over all runs: they agree in the labels that every reading of the metric has,
-- those of scrapers left out. A `worker` is a process that does its part of what all of them do (LMCache's).
CREATE OR REPLACE VIEW _series_used AS
WITH told AS (
    SELECT
        *,
        CASE WHEN engine = 'lmcache' THEN coalesce(tp, 0) END AS worker,
        list_filter(map_entries(labels), lambda e: NOT _added_by_scraper(e.key)) AS own_labels,
        min(series_id) OVER (
            PARTITION BY instance, source_id, list_filter(map_entries(labels), lambda e: _added_by_scraper(e.key))::VARCHAR
        ) AS reader
    FROM series
    WHERE counted AND name IS NOT NULL AND samples > 0
),
readers AS (
    SELECT instance, name, part, count(DISTINCT reader) AS readers FROM told GROUP BY ALL HAVING readers > 1
),
-- a Prometheus adds labels of its owner's choice to all it scrapes
shared AS (
    SELECT k.instance, k.name, k.part, k.label.key AS key
    FROM (SELECT instance, name, part, reader, unnest(own_labels) AS label FROM told) AS k
    JOIN readers AS r ON r.instance = k.instance AND r.name = k.name AND r.part IS NOT DISTINCT FROM k.part
    GROUP BY ALL
    HAVING count(DISTINCT k.reader) = any_value(r.readers)
),
shared_of AS (
    SELECT r.instance, r.name, r.part, list(s.key) FILTER (WHERE s.key IS NOT NULL) AS keys
    FROM readers AS r
    LEFT JOIN shared AS s ON r.instance = s.instance AND r.name = s.name AND r.part IS NOT DISTINCT FROM s.part
    GROUP BY ALL
),
agreed AS (
    SELECT
        t.*,
        CASE WHEN s.name IS NULL THEN t.own_labels ELSE list_filter(t.own_labels, lambda e: list_contains(s.keys, e.key)) END AS agreed_labels
    FROM told AS t
    LEFT JOIN shared_of AS s ON s.instance = t.instance AND s.name = t.name AND s.part IS NOT DISTINCT FROM t.part
),
-- labels that one reading lacks may be what tells the series of another one apart
ambiguous AS (
    SELECT DISTINCT instance, name, part
    FROM (
        SELECT instance, name, part FROM agreed
        GROUP BY instance, run_id, name, part, le, dp, reader, agreed_labels
        HAVING count(*) > 1
    )
)
SELECT
    a.* EXCLUDE (own_labels, agreed_labels),
    min(a.series_id) OVER (
        PARTITION BY a.instance, a.name, a.part, a.le, coalesce(a.dp, 0), if(m.name IS NULL, a.agreed_labels, a.own_labels)::VARCHAR
    ) AS own_series
FROM agreed AS a
LEFT JOIN ambiguous AS m ON a.instance = m.instance AND a.name = m.name AND a.part IS NOT DISTINCT FROM m.part;

-- Spans of series in which another reading of the same server holds the same metric in finer steps: those samples are
-- not used, so that nothing is counted twice. One reading of one metric of one rank is used or hidden as a whole, but
-- where the finer one is silent, the coarser one stands in for it.
CREATE OR REPLACE VIEW _hidden AS
WITH reading AS (
    SELECT
        instance,
        run_id,
        name,
        part,
        coalesce(dp, 0) AS dp,
        worker,
        reader,
        min(first_ts) AS first_ts,
        max(last_ts) AS last_ts,
        max(samples) AS samples,
        -- the series that tells when all of them were read
        arg_max(series_id, samples) AS told_by
    FROM _series_used
    GROUP BY ALL
),
-- what holds one moment only is never the finer one
long AS (
    SELECT * FROM reading WHERE samples > 1
),
met AS (
    SELECT w.told_by AS coarse, b.told_by AS fine
    FROM reading AS w
    JOIN long AS b
        ON w.instance = b.instance AND w.run_id = b.run_id AND w.name = b.name AND w.dp = b.dp AND w.reader <> b.reader
        AND w.part IS NOT DISTINCT FROM b.part AND w.worker IS NOT DISTINCT FROM b.worker
        AND b.last_ts >= w.first_ts AND b.first_ts <= w.last_ts
),
steps AS (
    SELECT x.series_id, x.ts, epoch(x.ts - lag(x.ts) OVER (PARTITION BY x.series_id ORDER BY x.ts)) AS gap_s
    FROM samples AS x
    WHERE x.series_id IN (SELECT coarse FROM met UNION SELECT fine FROM met)
),
usual AS (
    SELECT s.series_id, any_value(r.reader) AS reader, round(median(s.gap_s), 3) AS usual_s
    FROM steps AS s
    JOIN reading AS r ON r.told_by = s.series_id
    GROUP BY s.series_id
),
stretches AS (
    SELECT
        s.series_id,
        s.ts,
        count(CASE WHEN s.gap_s > greatest(30.0, 3.0 * u.usual_s) THEN 1 END) OVER (PARTITION BY s.series_id ORDER BY s.ts) AS stretch
    FROM steps AS s
    JOIN usual AS u USING (series_id)
),
spans AS (
    SELECT series_id, min(ts) AS from_ts, max(ts) AS until_ts FROM stretches GROUP BY series_id, stretch
),
covered AS (
    SELECT m.coarse AS told_by, s.from_ts, s.until_ts
    FROM met AS m
    JOIN usual AS w ON w.series_id = m.coarse
    JOIN usual AS b ON b.series_id = m.fine
    JOIN spans AS s ON s.series_id = m.fine
    WHERE (coalesce(b.usual_s, 'infinity'::DOUBLE), b.reader) < (coalesce(w.usual_s, 'infinity'::DOUBLE), w.reader)
    UNION ALL
    -- one scrape kept in two files
    SELECT told_by, first_ts, last_ts
    FROM reading
    WHERE samples = 1
    QUALIFY row_number() OVER (PARTITION BY instance, run_id, name, part, dp, worker, first_ts ORDER BY reader) > 1
)
SELECT s.series_id, c.from_ts, c.until_ts
FROM covered AS c
JOIN reading AS w USING (told_by)
JOIN _series_used AS s
    ON s.instance = w.instance AND s.run_id = w.run_id AND s.name = w.name AND coalesce(s.dp, 0) = w.dp AND s.reader = w.reader
    AND s.part IS NOT DISTINCT FROM w.part AND s.worker IS NOT DISTINCT FROM w.worker;

-- Samples that count and are not hidden.
CREATE OR REPLACE VIEW _sample AS
SELECT
    s.instance,
    s.run_id,
    s.engine,
    s.name,
    s.part,
    s.le,
    coalesce(s.dp, 0)::INTEGER AS dp,
    s.own_series,
    s.series_id,
    s.reader,
    s.labels,
    s.source_id,
    s.record,
    x.ts,
    x.value
FROM samples AS x
JOIN _series_used AS s USING (series_id)
WHERE NOT EXISTS (SELECT 1 FROM _hidden AS h WHERE h.series_id = s.series_id AND x.ts >= h.from_ts AND x.ts <= h.until_ts);
