-- One row per scheduler report, from one reporting rank of each data-parallel rank, inside --since/--until: a line of
-- the log, or a scrape of the metrics (`basis`). The finer of the two is used: the one that tells running, waiting and
-- usage more often while both are there. The other one is used only where that one is silent (for three of its usual
-- intervals, at most half a minute), so that no moment is told twice.
-- `dp` is 0 where no rank was printed; `pool_usage` is the fullest pool (full attention, sliding window, mamba).
-- `kv_usage_before_batch` marks SGLang prefill lines (up to 0.5.7) that do not count their own batch yet.
CREATE OR REPLACE VIEW scheduler_clean AS
WITH inside AS (
    SELECT *, coalesce(tp, 0)::BIGINT * 4294967296 + coalesce(pp, 0)::BIGINT * 65536 + coalesce(ep, 0)::BIGINT AS place
    FROM scheduler
    WHERE kind IN ('prefill', 'decode', 'stats', 'iteration')
        AND ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
        AND ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
),
reporters AS (
    SELECT instance, run_id, coalesce(dp, 0) AS of_dp, min(place) AS place FROM inside GROUP BY ALL
),
lines AS (
    SELECT
        i.* EXCLUDE (place, dp),
        coalesce(i.dp, 0)::INTEGER AS dp,
        greatest(i.kv_usage, i.swa_usage, i.mamba_usage) AS pool_usage,
        coalesce(i.extra['kv_usage_basis'] = 'before_batch', false) AS kv_usage_before_batch,
        CASE WHEN i.extra['prompt_tps_basis'] = 'previous_batch' THEN NULL ELSE i.prompt_tps END AS prompt_tps_now,
        'log' AS basis,
        NULL::BIGINT AS kv_evictable_tokens,
        NULL::BIGINT AS kv_available_tokens,
        NULL::DOUBLE AS hit_tokens,
        NULL::DOUBLE AS query_tokens,
        NULL::DOUBLE AS first_tokens
    FROM inside AS i
    JOIN reporters AS r
        ON i.instance IS NOT DISTINCT FROM r.instance AND i.run_id IS NOT DISTINCT FROM r.run_id AND coalesce(i.dp, 0) = r.of_dp AND i.place = r.place
),
either_one AS (
    FROM lines
    UNION ALL BY NAME
    SELECT
        *,
        'stats' AS kind,
        prompt_tps AS prompt_tps_now,
        false AS kv_usage_before_batch,
        'metrics' AS basis
    FROM _scrape
),
counted AS (
    SELECT instance, basis, min(ts) AS first_ts, max(ts) AS last_ts
    FROM either_one
    GROUP BY ALL
),
-- the span that both cover
overlap AS (
    SELECT
        l.instance,
        greatest(l.first_ts, m.first_ts) AS from_ts,
        least(l.last_ts, m.last_ts) AS until_ts
    FROM counted AS l
    JOIN counted AS m ON l.instance = m.instance AND l.basis = 'log' AND m.basis = 'metrics'
    WHERE from_ts < until_ts
),
telling AS (
    SELECT
        b.instance,
        b.basis,
        least(count(b.running), count(b.waiting), count(b.pool_usage)) AS complete,
        count(*) AS reports
    FROM either_one AS b
    LEFT JOIN overlap AS o USING (instance)
    WHERE o.instance IS NULL OR b.ts BETWEEN o.from_ts AND o.until_ts
    GROUP BY ALL
),
chosen AS (
    SELECT instance, arg_max(basis, (complete, reports, basis = 'log')) AS basis FROM telling GROUP BY instance
),
first_choice AS (
    SELECT b.* FROM either_one AS b JOIN chosen AS c ON b.instance = c.instance AND b.basis = c.basis
),
second_choice AS (
    SELECT b.* FROM either_one AS b JOIN chosen AS c ON b.instance = c.instance AND b.basis <> c.basis
),
moments AS (
    SELECT instance, ts, epoch(ts - lag(ts) OVER (PARTITION BY instance ORDER BY ts)) AS gap_s
    FROM (SELECT DISTINCT instance, ts FROM first_choice)
),
usual AS (
    SELECT instance, least(30.0, greatest(1.0, 3.0 * coalesce(median(gap_s), 10.0))) AS silent_s FROM moments GROUP BY instance
)
SELECT *, true AS preferred FROM first_choice
UNION ALL BY NAME
SELECT s.*, false AS preferred
FROM second_choice AS s
JOIN usual AS u ON s.instance = u.instance
ASOF LEFT JOIN moments AS before ON s.instance = before.instance AND s.ts >= before.ts
ASOF LEFT JOIN (SELECT instance, ts FROM moments) AS after ON s.instance = after.instance AND s.ts <= after.ts
WHERE coalesce(epoch(s.ts - before.ts) > u.silent_s, true) AND coalesce(epoch(after.ts - s.ts) > u.silent_s, true);
