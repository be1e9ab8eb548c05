-- One row per event. Ranks of one server that print the same event within 2 s are one event, counted in
-- `reported_by`; a line without a rank, or a second one of the same rank, is an event of its own.
-- `preempted` is what a cumulative preemption count (vLLM V0) adds to the count before it; before the first one of a
-- process whose start is not in the log only that one is sure. All of this is settled before --since/--until apply.
CREATE OR REPLACE VIEW event AS
WITH lines AS (
    SELECT
        *,
        (tp IS NOT NULL OR pp IS NOT NULL OR ep IS NOT NULL) AS ranked,
        concat_ws('/', coalesce(tp, -1), coalesce(pp, -1), coalesce(ep, -1)) AS rank_name,
        -- counts and ratios tell one retraction from another; anything else is told by its words and its request
        CASE WHEN kind IN ('retraction', 'preemption') THEN '' ELSE concat_ws('/', coalesce(rid, ''), coalesce(text, '')) END AS what
    FROM events
),
gaps AS (
    SELECT
        *,
        CASE WHEN ts - lag(ts) OVER same <= INTERVAL 2 SECOND THEN 0 ELSE 1 END AS opens
    FROM lines
    WINDOW same AS (
        PARTITION BY instance, run_id, kind, what, dp, requests, ratio_before, ratio_after, ranked ORDER BY ts, source_id, record
    )
),
bursts AS (
    SELECT
        *,
        sum(opens) OVER (
            PARTITION BY instance, run_id, kind, what, dp, requests, ratio_before, ratio_after, ranked
            ORDER BY ts, source_id, record
        ) AS burst
    FROM gaps
),
numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY
                instance, run_id, kind, what, dp, requests, ratio_before, ratio_after, ranked, burst,
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
    GROUP BY instance, run_id, kind, what, dp, requests, ratio_before, ratio_after, ranked, burst, nth
),
started AS (
    SELECT DISTINCT instance, run_id FROM events WHERE kind = 'start'
),
counted AS (
    SELECT
        m.*,
        CASE
            WHEN m.kind = 'preemption' THEN
                m.total - coalesce(
                    lag(m.total) OVER (PARTITION BY m.instance, m.run_id, m.kind, m.dp ORDER BY m.total),
                    CASE WHEN t.run_id IS NOT NULL THEN 0 ELSE m.total - 1 END
                )
        END AS preempted
    FROM merged AS m
    LEFT JOIN started AS t USING (instance, run_id)
)
SELECT
    c.*,
    s.path || ':' || c.record AS source
FROM counted AS c
LEFT JOIN sources AS s USING (source_id)
WHERE coalesce(c.ts, '-infinity'::TIMESTAMPTZ) >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
    AND coalesce(c.ts, '-infinity'::TIMESTAMPTZ) <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
ORDER BY c.ts, c.instance, c.record;
