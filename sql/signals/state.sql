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
-- `seconds` is the time the report tells of (since the one before). A usual prompt and what is free are compared as
-- parts of the pool, which works without its size too: a running request holds its prompt and half of its output.
-- Without a chunk size in the log, the largest batch is taken for it where most batches of a queue are that large.
CREATE OR REPLACE VIEW queue_state AS
WITH usual AS (
    SELECT
        w.instance,
        w.run_id,
        sum(r.new_tokens + coalesce(r.cached_tokens, 0)) / nullif(sum(w.admitted) FILTER (WHERE r.kind = 'prefill'), 0) AS counted_prompt,
        median(r.kv_usage * coalesce(r.engines, 1) / nullif(r.running, 0)) FILTER (WHERE r.kind = 'stats')
            / (1.0 + median(r.gen_tps) / nullif(2.0 * median(r.prompt_tps_now), 0)) AS derived_prompt_share,
        -- the pool's size by decode lines, which print tokens beside a rounded share
        sum(r.kv_used_tokens) FILTER (WHERE r.kv_usage >= 0.1) / sum(r.kv_usage) FILTER (WHERE r.kv_usage >= 0.1) AS derived_capacity
    FROM _wait AS w
    JOIN _report AS r USING (instance, run_id, dp, seq)
    GROUP BY ALL
),
batches AS (
    SELECT instance, run_id, new_tokens, max(new_tokens) OVER (PARTITION BY instance, run_id) AS largest
    FROM _report
    WHERE kind = 'prefill' AND waiting > 0
),
chunk AS (
    SELECT instance, run_id, max(largest) AS chunk_tokens
    FROM batches
    GROUP BY ALL
    HAVING count(*) >= 20 AND count(*) FILTER (WHERE new_tokens >= 0.99 * largest) >= 0.5 * count(*)
),
facts_of AS (
    SELECT
        r.* EXCLUDE (pool_usage),
        -- SGLang up to 0.5.7 prints a prefill before its own tokens are in the usage
        CASE
            WHEN r.kv_usage_before_batch AND r.pool_usage IS NOT NULL
                THEN least(1.0, r.pool_usage + coalesce(r.new_tokens / coalesce(l.capacity_tokens, u.derived_capacity), 0.0))
            ELSE r.pool_usage
        END AS pool_usage,
        l.capacity_tokens,
        l.cap * coalesce(r.engines, 1) AS cap,
        l.watermark,
        coalesce(l.chunk_tokens, c.chunk_tokens) AS chunk_tokens,
        CASE WHEN r.basis = 'log' AND r.engine = 'sglang' THEN u.counted_prompt ELSE u.derived_prompt_share * l.capacity_tokens END AS usual_prompt_tokens,
        CASE
            WHEN r.basis = 'log' AND r.engine = 'sglang' THEN u.counted_prompt / coalesce(l.capacity_tokens, u.derived_capacity)
            ELSE u.derived_prompt_share
        END AS usual_prompt_share,
        r.running + CASE WHEN r.kind = 'prefill' THEN coalesce(r.new_seqs, 0) ELSE 0 END AS running_now
    FROM _report AS r
    LEFT JOIN _limits AS l USING (instance, run_id)
    LEFT JOIN usual AS u USING (instance, run_id)
    LEFT JOIN chunk AS c USING (instance, run_id)
    WHERE r.waiting > 0
),
judged AS (
    SELECT
        *,
        (1.0 - pool_usage) * capacity_tokens AS free_tokens,
        pool_usage >= getvariable('full_usage')::DOUBLE
            OR coalesce(1.0 - pool_usage < usual_prompt_share, false) AS full_now,
        coalesce(running_now >= cap, false) AS at_cap
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
        WHEN engine = 'sglang' THEN 'reservation'
        WHEN pool_usage >= 0.5 THEN 'gap'
        WHEN watermark > 0 THEN 'reservation'
        ELSE 'unexplained'
    END AS state
FROM judged;
