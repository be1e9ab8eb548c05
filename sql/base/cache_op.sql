-- One row per L2 or L3 operation. Ranks of one server that print the same one within 2 s are one, counted in
-- `reported_by`: each holds its share of the same tokens, so tokens are not added up and bytes are; the slowest rank's
-- time is the time, and it failed if any failed. A line without a rank, or a second one of the same rank, is another.
-- A load that brought fewer tokens than it had to is a failed one. LMCache prints one operation on several layers: the
-- engine with all numbers, the adapter with the count alone, a failed load once more per lost block and per request,
-- and a store beforehand. Lines of different layers within 2 s, of the same count (a failed load: of any), are paired
-- in their order and are one row. A store without its end has no tokens and no `ok`.
CREATE OR REPLACE VIEW cache_op AS
WITH lines AS (
    SELECT
        *,
        (tp IS NOT NULL OR pp IS NOT NULL OR ep IS NOT NULL) AS ranked,
        concat_ws('/', coalesce(tp, -1), coalesce(pp, -1), coalesce(ep, -1)) AS rank_name
    FROM cache_ops
),
gaps AS (
    SELECT
        *,
        CASE WHEN ts - lag(ts) OVER same <= INTERVAL 2 SECOND THEN 0 ELSE 1 END AS opens
    FROM lines
    WINDOW same AS (
        PARTITION BY instance, run_id, op, tier, rid, dp, tokens, hit_tokens, total_tokens, ranked ORDER BY ts, source_id, record
    )
),
bursts AS (
    SELECT
        *,
        sum(opens) OVER (
            PARTITION BY instance, run_id, op, tier, rid, dp, tokens, hit_tokens, total_tokens, ranked
            ORDER BY ts, source_id, record
        ) AS burst
    FROM gaps
),
numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY
                instance, run_id, op, tier, rid, dp, tokens, hit_tokens, total_tokens, ranked, burst,
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
        tier,
        op,
        rid,
        dp,
        tokens,
        hit_tokens,
        total_tokens,
        sum(bytes)::BIGINT AS bytes,
        max(duration_s) AS duration_s,
        CASE WHEN op = 'load' AND tokens < hit_tokens THEN false ELSE bool_and(ok) END AS ok,
        count(*) AS reported_by,
        arg_min(source_id, (ts, source_id, record)) AS source_id,
        arg_min(record, (ts, source_id, record)) AS record,
        arg_min(text, (ts, source_id, record)) AS text
    FROM numbered
    GROUP BY instance, run_id, op, tier, rid, dp, tokens, hit_tokens, total_tokens, ranked, burst, nth
),
layered AS (
    SELECT
        *,
        -- the lower the layer, the more of its numbers count
        CASE
            WHEN op NOT IN ('load', 'store') OR engine <> 'lmcache' THEN 0
            WHEN op = 'store' AND ok IS NULL THEN 4
            WHEN tokens IS NOT NULL AND total_tokens IS NOT NULL THEN 0
            WHEN tokens IS NOT NULL THEN 1
            WHEN rid IS NOT NULL THEN 2
            ELSE 3
        END AS layer,
        CASE WHEN op = 'load' AND ok = false THEN -1 ELSE tokens END AS same_count
    FROM merged
),
layer_gaps AS (
    SELECT
        *,
        CASE WHEN ts - lag(ts) OVER same <= INTERVAL 2 SECOND THEN 0 ELSE 1 END AS opens
    FROM layered
    WINDOW same AS (PARTITION BY instance, run_id, engine, op, tier, dp, same_count ORDER BY ts, source_id, record)
),
layer_bursts AS (
    SELECT
        *,
        sum(opens) OVER (PARTITION BY instance, run_id, engine, op, tier, dp, same_count ORDER BY ts, source_id, record) AS burst
    FROM layer_gaps
),
layer_numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY instance, run_id, engine, op, tier, dp, same_count, burst, layer ORDER BY ts, source_id, record
        ) AS nth
    FROM layer_bursts
),
counted AS (
    SELECT
        instance,
        run_id,
        engine,
        min(ts) AS ts,
        tier,
        op,
        -- arg_min passes over NULLs: what the lowest layer does not say, the next one may
        arg_min(rid, layer) AS rid,
        dp,
        CASE WHEN min(layer) < 4 THEN arg_min(tokens, layer) END AS tokens,
        arg_min(hit_tokens, layer) AS hit_tokens,
        arg_min(total_tokens, layer) AS total_tokens,
        arg_min(bytes, layer) AS bytes,
        arg_min(duration_s, layer) AS duration_s,
        bool_and(ok) AS ok,
        sum(reported_by)::INTEGER AS reported_by,
        arg_min(source_id, layer) AS source_id,
        arg_min(record, layer) AS record,
        CASE WHEN bool_and(ok) THEN arg_min(text, layer) FILTER (WHERE layer < 4) ELSE arg_min(text, layer) END AS text
    FROM layer_numbered
    GROUP BY instance, run_id, engine, op, tier, dp, same_count, burst, nth
)
SELECT
    c.*,
    s.path || ':' || c.record AS source
FROM counted AS c
LEFT JOIN sources AS s USING (source_id)
WHERE coalesce(c.ts, '-infinity'::TIMESTAMPTZ) >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
    AND coalesce(c.ts, '-infinity'::TIMESTAMPTZ) <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
ORDER BY c.ts, c.instance, c.record;
