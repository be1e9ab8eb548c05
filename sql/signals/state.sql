-- The cap of each run: `cap` where the capture tells it. Where it does not, but the arguments are known and set none, the
-- engine's default is at least `cap_at_least`: below it no cap binds. Both of one data-parallel rank.
CREATE OR REPLACE VIEW _cap AS
SELECT
    l.instance,
    l.run_id,
    l.cap,
    CASE
        WHEN l.cap IS NOT NULL OR NOT coalesce(a.arguments, false) THEN NULL
        WHEN l.engine = 'vllm' AND (l.engine_version LIKE '0.5.%' OR l.engine_version LIKE '0.6.%' OR l.engine_version LIKE '0.7.%')
            THEN getvariable('default_cap_v0')::DOUBLE
        WHEN l.engine = 'vllm' THEN getvariable('default_cap')::DOUBLE
        WHEN l.engine = 'sglang' THEN least(getvariable('default_cap_sglang')::DOUBLE, floor(l.capacity_tokens / 2))
    END AS cap_at_least
FROM _limits AS l
LEFT JOIN (
    -- a metric's labels tell some arguments, and never which were left at their default
    SELECT instance, run_id, bool_or(coalesce(read_from NOT LIKE '%cache\_config\_info' ESCAPE '\', true)) AS arguments
    FROM fact
    WHERE key LIKE 'arg.%'
    GROUP BY ALL
) AS a USING (instance, run_id);

-- What kept the queue from being admitted, report by report, for reports with requests waiting. The first that fits:
--
-- unexplained  the report has no usage
-- prefill      SGLang's prefill batch of at least nine tenths of the chunk, below the cap, with room in the pool
-- cap          running is at max_running_requests / max_num_seqs and one more request of the mean size would have fitted;
--              one below the cap counts too where running stands there as at a cap
-- l1           the fullest pool is at least `full_usage` used, or has less room than a usual request needs
-- admitting    SGLang admitted and had budget left: nothing to hold against anyone
-- plateau      the cap is not known, two more requests would fit, and running stands within one of its highest value in
--              `plateau_share` of the reports
-- reservation  SGLang decoded although requests waited, below the cap and with room in the pool: since it always
--              tries prefill first, the admission budget refused (unless its bounds exclude that). vLLM: the prompt fits, but not
--              beside the watermark
-- stalled      work in hand and no token at all
-- prefill      vLLM and metrics: with each token of a running request come as many prompt tokens as a step takes, and prompt
--              throughput is near the highest seen
-- gap          the pool has less room than a long prompt of this capture needs, or, of vLLM, is half to `full_usage` used: the
--              head did not fit
-- unexplained  none of these
--
-- `seconds` is the time the report tells of (since the one before), `ahead_s` how long its gauges hold. What a prompt needs and what is free are compared as
-- parts of the pool, which works without its size too. `step_tokens` is how many tokens a step takes: running requests get one
-- each, so prompt tokens per token and request, and one more, times running.
CREATE OR REPLACE VIEW queue_state AS
WITH rates AS (
    SELECT
        instance,
        run_id,
        dp,
        seq,
        avg(prompt_tps_now) OVER around AS prompt_tps_around,
        avg(gen_tps) OVER around AS gen_tps_around
    FROM _report
    WHERE kind NOT IN ('prefill', 'decode')
    WINDOW around AS (
        PARTITION BY instance, run_id, dp ORDER BY ts RANGE BETWEEN INTERVAL 15 SECOND PRECEDING AND INTERVAL 15 SECOND FOLLOWING
    )
),
topped AS (
    SELECT *, max(prompt_tps_around) OVER (PARTITION BY instance, run_id, dp) AS prompt_tps_top FROM rates
),
waits AS (
    SELECT
        r.* EXCLUDE (pool_usage),
        -- SGLang up to 0.5.7 prints a prefill before its own tokens are in the usage
        CASE
            WHEN r.kv_usage_before_batch AND r.pool_usage IS NOT NULL
                THEN least(1.0, r.pool_usage + coalesce(r.new_tokens / coalesce(l.capacity_tokens, u.derived_capacity), 0.0))
            ELSE r.pool_usage
        END AS pool_usage,
        l.capacity_tokens,
        c.cap * coalesce(r.engines, 1) AS cap,
        c.cap_at_least * coalesce(r.engines, 1) AS cap_at_least,
        coalesce(l.chunk_tokens, u.chunk_tokens) AS chunk_tokens,
        coalesce(l.max_num_batched_tokens, l.chunk_tokens, u.chunk_tokens, getvariable('step_tokens')::DOUBLE) AS budget_tokens,
        coalesce(
            u.waited_prompt, if(r.basis = 'log' AND r.engine = 'sglang', u.counted_prompt, u.derived_prompt_share * l.capacity_tokens)
        ) AS usual_prompt_tokens,
        coalesce(
            u.waited_prompt / coalesce(l.capacity_tokens, u.derived_capacity),
            if(
                r.basis = 'log' AND r.engine = 'sglang',
                u.counted_prompt / coalesce(l.capacity_tokens, u.derived_capacity),
                u.derived_prompt_share
            )
        ) AS usual_prompt_share,
        u.long_prompt / coalesce(l.capacity_tokens, u.derived_capacity) AS long_prompt_share,
        r.running + CASE WHEN r.kind = 'prefill' THEN coalesce(r.new_seqs, 0) ELSE 0 END AS running_now,
        i.incident,
        v.refused,
        v.reserved_low_tokens / nullif(l.capacity_tokens * coalesce(r.engines, 1), 0) AS watermark_share,
        t.prompt_tps_around,
        t.prompt_tps_top,
        r.running * (1.0 + t.prompt_tps_around / nullif(t.gen_tps_around, 0)) AS step_tokens,
        coalesce(t.gen_tps_around = 0 AND t.prompt_tps_around > 0, false) AS only_prompts
    FROM _report AS r
    LEFT JOIN _limits AS l USING (instance, run_id)
    LEFT JOIN _cap AS c USING (instance, run_id)
    LEFT JOIN _usual AS u USING (instance, run_id)
    LEFT JOIN reservation AS v USING (instance, run_id, dp, seq)
    LEFT JOIN topped AS t USING (instance, run_id, dp, seq)
    LEFT JOIN (SELECT instance, incident, start_ts, end_ts FROM incident) AS i
        ON i.instance = r.instance AND r.ts >= i.start_ts AND r.ts <= i.end_ts
    WHERE r.waiting > 0
),
-- SGLang's running count is one short while a prefill fills the last place, so within one is at the top
topmost AS (
    SELECT *, max(running_now) OVER of_it AS running_top, count(*) OVER of_it AS reports_of_it
    FROM waits
    WINDOW of_it AS (PARTITION BY instance, run_id, dp, incident)
),
still AS (
    SELECT
        *,
        avg((running_now >= running_top - 1 AND running_now >= 0.75 * running_top)::INTEGER) OVER of_it AS near_top_share,
        running_now >= running_top - 1 AND running_now >= 0.75 * running_top AS near_top
    FROM topmost
    WINDOW of_it AS (PARTITION BY instance, run_id, dp, incident)
),
judged AS (
    SELECT
        *,
        (1.0 - pool_usage) * capacity_tokens AS free_tokens,
        coalesce(1.0 - pool_usage < usual_prompt_share, false) AS too_little,
        coalesce(
            running_now >= cap
                OR (near_top AND near_top_share >= getvariable('plateau_share')::DOUBLE AND running_top >= cap - 1 AND cap > 2),
            false
        ) AS at_cap,
        -- one more that holds what the running ones hold
        pool_usage * (running_now + 1) <= running_now AS one_more_fits,
        pool_usage * (running_now + 2) <= running_now AS two_more_fit,
        coalesce(
            cap IS NULL AND near_top AND near_top_share >= getvariable('plateau_share')::DOUBLE
                AND reports_of_it >= getvariable('few_reports')::DOUBLE AND running_top >= 2
                AND (cap_at_least IS NULL OR running_top >= cap_at_least)
                -- a few requests that fill the pool stand still as well
                AND two_more_fit,
            false
        ) AS on_plateau
    FROM still
),
placed AS (
    SELECT
        *,
        CASE
            WHEN at_cap THEN too_little OR (pool_usage >= getvariable('full_usage')::DOUBLE AND NOT coalesce(one_more_fits, false))
            ELSE too_little OR pool_usage >= getvariable('full_usage')::DOUBLE
        END AS full_now
    FROM judged
)
SELECT
    instance,
    run_id,
    dp,
    seq,
    ts,
    kind,
    engine,
    incident,
    running_now,
    waiting,
    pool_usage,
    free_tokens,
    usual_prompt_tokens,
    cap,
    cap_at_least,
    near_top,
    step_tokens,
    budget_tokens,
    span_s AS seconds,
    dwell_s AS ahead_s,
    CASE
        WHEN pool_usage IS NULL THEN 'unexplained'
        WHEN kind = 'prefill' AND new_tokens >= 0.9 * chunk_tokens AND NOT at_cap AND NOT full_now THEN 'prefill'
        WHEN at_cap AND NOT full_now THEN 'cap'
        WHEN full_now THEN 'l1'
        WHEN kind = 'prefill' THEN 'admitting'
        WHEN kind = 'decode' AND on_plateau THEN 'plateau'
        WHEN kind = 'decode' AND 1.0 - pool_usage < long_prompt_share THEN 'gap'
        WHEN kind = 'decode' THEN if(refused IS DISTINCT FROM false, 'reservation', 'unexplained')
        WHEN prompt_tps = 0 AND gen_tps = 0 THEN 'stalled'
        WHEN (only_prompts OR step_tokens >= 0.8 * budget_tokens) AND prompt_tps_around >= 0.5 * prompt_tps_top THEN 'prefill'
        WHEN on_plateau THEN 'plateau'
        WHEN engine = 'sglang' AND 1.0 - pool_usage < long_prompt_share THEN 'gap'
        WHEN engine = 'sglang' THEN if(refused IS DISTINCT FROM false, 'reservation', 'unexplained')
        WHEN watermark_share > 0 AND 1.0 - pool_usage - watermark_share < usual_prompt_share THEN 'reservation'
        WHEN pool_usage >= 0.5 OR 1.0 - pool_usage < long_prompt_share THEN 'gap'
        ELSE 'unexplained'
    END AS state
FROM placed;
