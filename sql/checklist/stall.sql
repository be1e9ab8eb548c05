-- vLLM reported work in hand, and not one token came: spells of reports with running requests and both throughputs at
-- zero, longer than hang_silence_s. Its counters and gauges are of the same step, so they do not go stale apart from each
-- other, as SGLang's do. A spell that ends in a burst of prompt tokens was a long prefill.
CREATE OR REPLACE VIEW _stall AS
WITH steps AS (
    SELECT
        *,
        coalesce(kind = 'stats' AND running > 0 AND prompt_tps = 0 AND gen_tps = 0, false) AS still
    FROM _report
    WHERE engine = 'vllm' AND (prompt_tps IS NOT NULL OR gen_tps IS NOT NULL)
),
marked AS (
    SELECT
        *,
        count(CASE WHEN NOT still THEN 1 END) OVER own AS spell,
        lead(prompt_tps) OVER own AS prompt_tps_after,
        lead(gen_tps) OVER own AS gen_tps_after
    FROM steps
    WINDOW own AS (PARTITION BY instance, run_id, dp, basis ORDER BY seq)
),
spells AS (
    SELECT
        instance,
        run_id,
        dp,
        min(ts - to_microseconds((span_s * 1e6)::BIGINT)) AS start_ts,
        max(ts) AS end_ts,
        min(running) AS running,
        max(waiting) AS waiting,
        coalesce(arg_max(prompt_tps_after, seq) > arg_max(gen_tps_after, seq), false) AS burst
    FROM marked
    WHERE still
    GROUP BY instance, run_id, dp, basis, spell
)
SELECT
    instance,
    min(start_ts) AS start_ts,
    max(end_ts) AS end_ts,
    max(epoch(end_ts - start_ts)) AS still_s,
    max(running) AS running,
    max(waiting) AS waiting
FROM spells
WHERE epoch(end_ts - start_ts) > getvariable('hang_silence_s')::DOUBLE
    AND NOT (burst AND epoch(end_ts - start_ts) <= getvariable('long_prefill_s')::DOUBLE)
GROUP BY instance, run_id, start_ts;
