-- One row per event. Ranks of one server that print the same event within 2 s are one event, counted in
-- `reported_by`; a line without a rank, or a second one of the same rank, is an event of its own.
-- `preempted` is what a cumulative preemption count (vLLM V0) adds to the count before it.
CREATE OR REPLACE VIEW event AS
WITH lines AS (
    SELECT
        *,
        (tp IS NOT NULL OR pp IS NOT NULL OR ep IS NOT NULL) AS ranked,
        concat_ws('/', coalesce(tp, -1), coalesce(pp, -1), coalesce(ep, -1)) AS rank_name
    FROM events
    WHERE coalesce(ts, '-infinity'::TIMESTAMPTZ) >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
        AND coalesce(ts, '-infinity'::TIMESTAMPTZ) <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
),
gaps AS (
    SELECT
        *,
        CASE WHEN ts - lag(ts) OVER same <= INTERVAL 2 SECOND THEN 0 ELSE 1 END AS opens
    FROM lines
    WINDOW same AS (
        PARTITION BY instance, run_id, kind, dp, requests, ratio_before, ratio_after, ranked ORDER BY ts, source_id, record
    )
),
bursts AS (
    SELECT
        *,
        sum(opens) OVER (
            PARTITION BY instance, run_id, kind, dp, requests, ratio_before, ratio_after, ranked
            ORDER BY ts, source_id, record
        ) AS burst
    FROM gaps
),
numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY
                instance, run_id, kind, dp, requests, ratio_before, ratio_after, ranked, burst,
                CASE WHEN ranked THEN rank_name ELSE '' END
            ORDER BY ts, source_id, record
        ) AS nth
    FROM bursts
),
merged AS (
    SELECT
        instance,
        run_id,
        any_value(engine) AS engine,
        min(ts) AS ts,
        kind,
        dp,
        requests,
        max(tokens) AS tokens,
        max(total) AS total,
        ratio_before,
        ratio_after,
        min(rid) AS rid,
        count(*)::INTEGER AS reported_by,
        string_agg(DISTINCT reported_by, ' ' ORDER BY reported_by) AS reported_ranks,
        arg_min(source_id, (ts, source_id, record)) AS source_id,
        arg_min(record, (ts, source_id, record)) AS record,
        arg_min(text, (ts, source_id, record)) AS text
    FROM numbered
    GROUP BY instance, run_id, kind, dp, requests, ratio_before, ratio_after, ranked, burst, nth
)
SELECT
    m.*,
    CASE
        WHEN m.kind = 'preemption' THEN
            m.total - coalesce(
                lag(m.total) OVER (PARTITION BY m.instance, m.run_id, m.kind, m.dp ORDER BY m.total),
                CASE WHEN m.total = 1 OR m.run_id <> 'r1' THEN 0 ELSE m.total - 1 END
            )
    END AS preempted,
    s.path || ':' || m.record AS source
FROM merged AS m
LEFT JOIN sources AS s USING (source_id)
ORDER BY m.ts, m.instance, m.record;
