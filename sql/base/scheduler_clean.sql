-- One row per scheduler report, from one reporting rank of each data-parallel rank, inside --since/--until.
-- `dp` is 0 where no rank was printed; `pool_usage` is the fullest pool (full attention, sliding window, mamba).
-- `kv_usage_before_batch` marks SGLang prefill lines (up to 0.5.7) that do not count their own batch yet.
CREATE OR REPLACE VIEW scheduler_clean AS
WITH ranked AS (
    SELECT
        *,
        dense_rank() OVER (
            PARTITION BY instance, run_id, coalesce(dp, 0)
            ORDER BY coalesce(tp, 0), coalesce(pp, 0), coalesce(ep, 0)
        ) AS reporter
    FROM scheduler
    WHERE kind IN ('prefill', 'decode', 'stats', 'iteration')
        AND ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
        AND ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
)
SELECT
    * EXCLUDE (reporter, dp),
    coalesce(dp, 0)::INTEGER AS dp,
    greatest(kv_usage, swa_usage, mamba_usage) AS pool_usage,
    coalesce(extra['kv_usage_basis'] = 'before_batch', false) AS kv_usage_before_batch,
    CASE WHEN extra['prompt_tps_basis'] = 'previous_batch' THEN NULL ELSE prompt_tps END AS prompt_tps_now
FROM ranked
WHERE reporter = 1;
