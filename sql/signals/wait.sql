-- Estimated wait of a request that joins the queue at each report: the time until as many requests as wait now have
-- been admitted (first come, first served). SGLang prints admissions (a full chunk's continuation is not counted
-- again); metrics count first tokens. vLLM prints token rates only: with resident tokens per running request r and rates p (prompt) and
-- g (generation), the mean prompt is about r / (1 + g / 2p), since a request holds its prompt and on average half
-- of its output, and p over the mean prompt is the admission rate. A queue that is
-- empty sooner ends the wait; NULL where the capture ends before the queue does, and then `wait_min_s` is how long it
-- lasted at least. An estimate of queueing alone: it is not TTFT.
CREATE OR REPLACE VIEW _wait AS
WITH admitted AS (
    SELECT
        r.*,
        CASE
            WHEN r.kind = 'prefill' THEN
                greatest(0, r.new_seqs - if(lag(r.new_tokens) OVER prefills >= 0.9 * l.chunk_tokens, 1, 0))
        END AS counted,
        avg(r.kv_usage * l.capacity_tokens * coalesce(r.engines, 1)) OVER last_minute
            / nullif(avg(r.running) OVER last_minute, 0) AS resident_tokens
    FROM _report AS r
    LEFT JOIN _limits AS l USING (instance, run_id)
    WINDOW
        prefills AS (PARTITION BY r.instance, r.run_id, r.dp, r.kind ORDER BY r.seq),
        last_minute AS (
            PARTITION BY r.instance, r.run_id, r.dp ORDER BY r.ts RANGE BETWEEN INTERVAL 60 SECOND PRECEDING AND CURRENT ROW
        )
),
rates AS (
    SELECT
        *,
        CASE
            WHEN kind IN ('prefill', 'decode') THEN coalesce(counted, 0)
            WHEN first_tokens IS NOT NULL THEN first_tokens
            WHEN prompt_tps_now > 0 AND resident_tokens > 0
                THEN span_s * prompt_tps_now * (1.0 + gen_tps / (2.0 * prompt_tps_now)) / resident_tokens
            WHEN resident_tokens > 0 THEN 0.0
        END AS admitted
    FROM admitted
),
totals AS (
    SELECT
        *,
        sum(admitted) OVER so_far AS total,
        sum(admitted) OVER so_far + waiting AS target,
        min(CASE WHEN waiting = 0 THEN ts END) OVER ahead AS empty_ts,
        max(ts) OVER ahead AS last_ts
    FROM rates
    WINDOW
        so_far AS (PARTITION BY instance, run_id, dp ORDER BY seq),
        ahead AS (PARTITION BY instance, run_id, dp ORDER BY seq ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
),
reached AS (
    SELECT instance, run_id, dp, total, min(ts) AS ts, arg_min(admitted, seq) AS admitted, arg_min(span_s, seq) AS span_s
    FROM totals
    GROUP BY instance, run_id, dp, total
)
SELECT
    t.instance,
    t.run_id,
    t.dp,
    t.seq,
    t.ts,
    t.kind,
    t.waiting,
    t.admitted,
    t.resident_tokens,
    CASE
        WHEN t.waiting = 0 THEN 0.0
        WHEN t.admitted IS NULL OR (e.ts IS NULL AND t.empty_ts IS NULL) THEN NULL
        WHEN e.ts IS NULL OR t.empty_ts < e.ts THEN epoch(t.empty_ts - t.ts)
        -- within the interval of the report that reaches the target, admissions are taken as even
        ELSE greatest(0.0, epoch(e.ts - t.ts) - coalesce(e.span_s * (e.total - t.target) / nullif(e.admitted, 0), 0.0))
    END AS wait_est_s,
    CASE WHEN t.waiting > 0 AND t.admitted IS NOT NULL AND e.ts IS NULL AND t.empty_ts IS NULL THEN epoch(t.last_ts - t.ts) END AS wait_min_s
FROM totals AS t
ASOF LEFT JOIN reached AS e
    ON t.instance = e.instance AND t.run_id = e.run_id AND t.dp = e.dp AND t.target <= e.total;
