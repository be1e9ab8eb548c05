-- What a usual request of a run needs and holds, for judging whether the next one could have fitted. `waited_prompt` is the
-- mean prompt of recorded requests, each weighted by how long it waited for its first token, so that it is the one that
-- a look at the queue finds, and `long_prompt` their 95th percentile. `counted_prompt` is the mean prompt by SGLang's prefill
-- lines (those with a queue, where there are enough), the cached part included; `derived_prompt_share` is that of vLLM
-- and of metrics as a part of the pool: a running request holds its prompt and half of its output. `max_new` is what a
-- request asks for, clipped to 4096 as SGLang does, and `max_new_low` what is left of that at its end. `chunk_tokens` is
-- the largest batch, where most batches of a queue are that large.
CREATE OR REPLACE VIEW _usual AS
WITH batches AS (
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
asked AS (
    SELECT
        instance,
        sum(prompt_tokens * ttft_s) / nullif(sum(ttft_s) FILTER (WHERE prompt_tokens IS NOT NULL), 0) AS waited_prompt,
        quantile_cont(prompt_tokens, 0.95) AS long_prompt,
        avg(least(4096, max_new_tokens)) AS max_new,
        avg(least(4096, greatest(0, max_new_tokens - output_tokens))) AS max_new_low
    FROM request_best
    GROUP BY instance
),
told AS (
    SELECT
        w.instance,
        w.run_id,
        sum(r.new_tokens + coalesce(r.cached_tokens, 0)) / nullif(sum(w.admitted) FILTER (WHERE r.kind = 'prefill'), 0) AS any_prompt,
        sum(r.new_tokens + coalesce(r.cached_tokens, 0)) FILTER (WHERE r.waiting > 0)
            / nullif(sum(w.admitted) FILTER (WHERE r.kind = 'prefill' AND r.waiting > 0), 0) AS queued_prompt,
        sum(w.admitted) FILTER (WHERE r.kind = 'prefill' AND r.waiting > 0) AS queued_n,
        median(r.kv_usage * coalesce(r.engines, 1) / nullif(r.running, 0)) FILTER (WHERE r.kind = 'stats')
            / (1.0 + median(r.gen_tps) / nullif(2.0 * median(r.prompt_tps_now), 0)) AS derived_prompt_share,
        -- the pool's size by decode lines, which print tokens beside a rounded share
        sum(r.kv_used_tokens) FILTER (WHERE r.kv_usage >= 0.1) / sum(r.kv_usage) FILTER (WHERE r.kv_usage >= 0.1) AS derived_capacity
    FROM _wait AS w
    JOIN _report AS r USING (instance, run_id, dp, seq)
    GROUP BY ALL
)
SELECT
    t.instance,
    t.run_id,
    if(t.queued_n >= 20, t.queued_prompt, t.any_prompt) AS counted_prompt,
    t.derived_prompt_share,
    t.derived_capacity,
    c.chunk_tokens,
    a.waited_prompt,
    a.long_prompt,
    a.max_new,
    a.max_new_low
FROM told AS t
LEFT JOIN chunk AS c USING (instance, run_id)
LEFT JOIN asked AS a USING (instance);

-- What admission can have set aside, per report with requests waiting, as bounds in tokens (estimates).
--
-- SGLang: for each running request, what it may still generate (at most 4096) times new_token_ratio. The ratio starts
-- at 0.7 x schedule_conservativeness, falls to 14 % of that over 600 decode steps, is set anew by each retraction (its
-- line tells the value), and starts again after an idle time. A decode line stands for `decode_log_interval` (40) steps.
-- What a request may still generate comes from recorded requests, else it is between 0 and the longest that fits.
-- vLLM: the watermark, a share of the pool (1 % in V0).
--
-- `left_` is what the formula has left of `free_tokens` (available and evictable), negative where more is set aside than
-- is there; `need_` is what it asks of a usual request. `refused` is true where even the least need finds no room in the most
-- that can be left, false where all that wait would have been admitted at once, NULL where the bounds do not tell: SGLang
-- reserves for those of one batch in full, and after a refusal does not try again until a running request ends.
CREATE OR REPLACE VIEW reservation AS
WITH settings AS (
    SELECT
        f.instance,
        f.run_id,
        least(1.0, 0.7 * coalesce(max(f.number) FILTER (WHERE f.key = 'arg.schedule_conservativeness'), 1.0)
            -- SGLang lowers it by itself where data-parallel ranks share the attention's work
            * if(max(f.number) FILTER (WHERE f.key = 'arg.enable_dp_attention') = 1, 0.3, 1.0)) AS ratio_start,
        coalesce(max(f.number) FILTER (WHERE f.key = 'arg.decode_log_interval'), 40) AS steps_per_line,
        coalesce(max(f.number) FILTER (WHERE f.key IN ('page_size', 'arg.page_size')), 1) AS page_tokens
    FROM fact AS f
    GROUP BY f.instance, f.run_id
),
counted AS (
    SELECT
        instance, run_id, dp, seq, ts, engine, kind, running, waiting, pool_usage, new_token_ratio, engines, swapped,
        count(CASE WHEN kind = 'decode' THEN 1 END) OVER so_far AS lines,
        -- of a decode line after a silence the throughput is not used (see _report): the engine may have been idle
        max(CASE WHEN kind = 'decode' AND gen_tps IS NOT NULL AND gen_tps_now IS NULL THEN seq END) OVER so_far AS idle_seq
    FROM _report
    WINDOW so_far AS (PARTITION BY instance, run_id, dp ORDER BY seq)
),
thrown AS (
    SELECT e.instance, e.run_id, coalesce(e.dp, 0) AS dp, e.ts, e.ratio_after, c.lines
    FROM event AS e
    ASOF JOIN counted AS c ON c.instance = e.instance AND c.run_id = e.run_id AND c.dp = coalesce(e.dp, 0) AND e.ts >= c.ts
    WHERE e.kind = 'retraction' AND e.ratio_after IS NOT NULL
),
known AS (
    SELECT
        c.*,
        coalesce(s.ratio_start, 0.7) AS ratio_start,
        0.14 * coalesce(s.ratio_start, 0.7) AS ratio_floor,
        coalesce(s.steps_per_line, 40) * (0.86 * coalesce(s.ratio_start, 0.7)) / 600.0 AS fall_per_line,
        coalesce(s.page_tokens, 1) AS page_tokens,
        t.ratio_after,
        c.lines - t.lines AS lines_since,
        c.lines - i.lines AS lines_since_idle,
        t.ts IS NULL OR coalesce(i.ts > t.ts, false) AS idle_is_last
    FROM counted AS c
    LEFT JOIN settings AS s USING (instance, run_id)
    ASOF LEFT JOIN thrown AS t ON t.instance = c.instance AND t.run_id = c.run_id AND t.dp = c.dp AND c.ts >= t.ts
    LEFT JOIN counted AS i ON i.instance = c.instance AND i.run_id = c.run_id AND i.dp = c.dp AND i.seq = c.idle_seq
    WHERE c.waiting > 0
),
ratios AS (
    SELECT
        *,
        coalesce(
            new_token_ratio,
            greatest(ratio_floor, CASE
                WHEN ratio_after IS NULL THEN ratio_floor
                ELSE ratio_after - (lines_since + 1) * fall_per_line
            END)
        ) AS ratio_low,
        coalesce(
            new_token_ratio,
            greatest(ratio_floor, CASE
                WHEN idle_is_last THEN ratio_start - greatest(0, coalesce(lines_since_idle, 0) - 1) * fall_per_line
                ELSE ratio_after - greatest(0, lines_since - 1) * fall_per_line
            END)
        ) AS ratio_high
    FROM known
),
sized AS (
    SELECT
        r.*,
        coalesce(l.capacity_tokens, u.derived_capacity) AS capacity,
        least(4096, coalesce(l.max_len_tokens, 4096), coalesce(l.capacity_tokens, u.derived_capacity, 4096)) AS clip_tokens,
        u.max_new,
        u.max_new_low,
        u.long_prompt,
        coalesce(
            u.waited_prompt,
            if(r.kind IN ('prefill', 'decode'), u.counted_prompt, u.derived_prompt_share * coalesce(l.capacity_tokens, u.derived_capacity))
        ) AS usual_prompt,
        CASE
            WHEN r.engine <> 'vllm' THEN NULL
            WHEN l.watermark IS NOT NULL THEN l.watermark
            WHEN r.swapped IS NOT NULL THEN 0.01
            ELSE 0.0
        END AS watermark
    FROM ratios AS r
    LEFT JOIN _limits AS l USING (instance, run_id)
    LEFT JOIN _usual AS u USING (instance, run_id)
),
bounded AS (
    SELECT
        *,
        greatest(0.0, 1.0 - pool_usage) * capacity * coalesce(engines, 1) AS free_tokens,
        CASE
            WHEN watermark IS NOT NULL THEN watermark * capacity * coalesce(engines, 1)
            WHEN engine = 'sglang' THEN running * ratio_low * coalesce(max_new_low, 0)
        END AS reserved_low_tokens,
        CASE
            WHEN watermark IS NOT NULL THEN watermark * capacity * coalesce(engines, 1)
            WHEN engine = 'sglang' THEN running * greatest(ratio_low, ratio_high) * coalesce(max_new, clip_tokens)
        END AS reserved_high_tokens,
        usual_prompt + if(engine = 'sglang', coalesce(max_new_low, 0) + page_tokens, 0) AS need_low_tokens,
        greatest(2 * usual_prompt, coalesce(long_prompt, 4 * usual_prompt))
            + if(engine = 'sglang', coalesce(max_new, clip_tokens) + page_tokens, 0) AS need_high_tokens
    FROM sized
)
SELECT
    instance,
    run_id,
    dp,
    seq,
    ts,
    running,
    waiting,
    free_tokens::BIGINT AS free_tokens,
    if(engine = 'sglang', ratio_low, NULL) AS ratio_low,
    if(engine = 'sglang', greatest(ratio_low, ratio_high), NULL) AS ratio_high,
    reserved_low_tokens::BIGINT AS reserved_low_tokens,
    reserved_high_tokens::BIGINT AS reserved_high_tokens,
    (free_tokens - reserved_high_tokens)::BIGINT AS left_low_tokens,
    (free_tokens - reserved_low_tokens)::BIGINT AS left_high_tokens,
    need_low_tokens::BIGINT AS need_low_tokens,
    need_high_tokens::BIGINT AS need_high_tokens,
    CASE
        WHEN need_low_tokens >= free_tokens - reserved_low_tokens THEN true
        WHEN waiting * need_high_tokens < free_tokens - reserved_high_tokens THEN false
    END AS refused
FROM bounded;
