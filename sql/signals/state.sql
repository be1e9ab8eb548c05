-- What kept the queue from being admitted, report by report, for reports with requests waiting.
--
-- l1           the fullest pool is at least `full_usage` used, or has less room than a usual prompt needs
-- cap          running is at max_running_requests / max_num_seqs while the pool has room
-- prefill      admission goes on, and each step's prefill budget is used up
-- reservation  SGLang decoded although requests waited, below the cap and with room in the pool: since it always
--              tries prefill first, the admission budget refused
-- gap          vLLM, below the cap, prefill not busy, pool half to `full_usage` used: the head request did not fit
-- admitting    SGLang admitted and had budget left: nothing to hold against anyone
-- stalled      work in hand and no token at all
-- unexplained  none of these
--
-- `seconds` is the time the report tells of (since the one before).
CREATE OR REPLACE VIEW queue_state AS
WITH usual AS (
    SELECT
        w.instance,
        w.run_id,
        sum(r.new_tokens + r.cached_tokens) / nullif(sum(w.admitted) FILTER (WHERE r.kind = 'prefill'), 0) AS counted_prompt,
        median(w.resident_tokens) / (1.0 + median(r.gen_tps) / nullif(2.0 * median(r.prompt_tps_now), 0)) AS derived_prompt,
        max(r.new_tokens) AS largest_batch,
        count(*) FILTER (WHERE r.kind = 'prefill') AS prefills
    FROM _wait AS w
    JOIN _report AS r USING (instance, run_id, dp, seq)
    GROUP BY ALL
),
ranks AS (
    SELECT instance, run_id, count(DISTINCT dp) AS n FROM _report GROUP BY ALL
),
facts_of AS (
    SELECT
        r.*,
        l.capacity_tokens,
        l.cap,
        l.watermark,
        coalesce(l.chunk_tokens, CASE WHEN u.prefills >= 20 THEN u.largest_batch END) AS chunk_tokens,
        CASE WHEN r.engine = 'sglang' THEN u.counted_prompt ELSE u.derived_prompt END AS usual_prompt_tokens,
        r.running + CASE WHEN r.kind = 'prefill' THEN coalesce(r.new_seqs, 0) ELSE 0 END AS running_now,
        (1.0 - r.pool_usage) * l.capacity_tokens AS free_tokens,
        n.n AS ranks
    FROM _report AS r
    LEFT JOIN _limits AS l USING (instance, run_id)
    LEFT JOIN usual AS u USING (instance, run_id)
    LEFT JOIN ranks AS n USING (instance, run_id)
    WHERE r.waiting > 0
),
judged AS (
    SELECT
        *,
        pool_usage >= getvariable('full_usage')::DOUBLE
            OR (free_tokens IS NOT NULL AND usual_prompt_tokens IS NOT NULL AND free_tokens < usual_prompt_tokens) AS full_now,
        coalesce(running_now >= cap OR (ranks > 1 AND running_now >= cap // ranks), false) AS at_cap
    FROM facts_of
)
SELECT
    instance,
    run_id,
    dp,
    seq,
    ts,
    kind,
    engine,
    running_now,
    waiting,
    pool_usage,
    free_tokens,
    usual_prompt_tokens,
    cap,
    span_s AS seconds,
    CASE
        WHEN pool_usage IS NULL THEN 'unexplained'
        WHEN kind = 'prefill' AND new_tokens >= 0.9 * chunk_tokens AND NOT at_cap AND NOT full_now THEN 'prefill'
        WHEN at_cap AND NOT coalesce(full_now, false) THEN 'cap'
        WHEN full_now THEN 'l1'
        WHEN kind = 'prefill' THEN 'admitting'
        WHEN kind = 'decode' THEN 'reservation'
        WHEN prompt_tps = 0 AND gen_tps = 0 THEN 'stalled'
        WHEN prompt_tps >= gen_tps THEN 'prefill'
        WHEN pool_usage >= 0.5 THEN 'gap'
        WHEN watermark > 0 THEN 'reservation'
        ELSE 'unexplained'
    END AS state
FROM judged;
