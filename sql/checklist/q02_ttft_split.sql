-- The time that question 2 is about: that of the incident; of a capture without one, all of it.
CREATE OR REPLACE VIEW _asked AS
SELECT
    instance,
    incident,
    broke,
    if(broke, start_ts, '-infinity'::TIMESTAMPTZ) AS start_ts,
    if(broke, end_ts, 'infinity'::TIMESTAMPTZ) AS end_ts
FROM incident;

-- Seconds and how many, by stage, of that time, from what sums and counts of histograms rose by. vLLM counts queue,
-- prefill and decode when a request ends, SGLang a queue when it is left. SGLang has a stage for each chunk of a prompt
-- but the last, and one for the last.
CREATE OR REPLACE VIEW _stage_sum AS
WITH named AS (
    SELECT
        instance,
        prev_ts,
        ts,
        part,
        delta,
        CASE
            WHEN name <> 'stage_s' THEN replace(name, '_s', '')
            WHEN labels['stage'] = 'prefill_forward' THEN 'last_chunk'
            WHEN labels['stage'] = 'chunked_prefill' THEN 'chunk'
        END AS stage
    FROM counter_delta
    WHERE part IN ('sum', 'count') AND delta IS NOT NULL
        AND name IN ('ttft_s', 'queue_s', 'prefill_s', 'decode_s', 'e2e_s', 'l2_load_s', 'transfer_s', 'stage_s')
)
SELECT
    d.instance,
    i.incident,
    d.stage,
    sum(d.delta) FILTER (WHERE d.part = 'sum') AS s,
    sum(d.delta) FILTER (WHERE d.part = 'count') AS n
FROM named AS d
JOIN _asked AS i ON d.instance = i.instance AND d.ts > i.start_ts AND d.prev_ts < i.end_ts
WHERE d.stage IS NOT NULL
GROUP BY ALL;

-- What the reports of that time tell, for estimates. The wait by Little's law: all waiting together, over the requests
-- that came out of the queue, and those that were in it when it ended unserved. Prefill: the prompt tokens of an admission
-- over the throughput of the busiest tenth of the reports; where the engine had time to spare even then, that is too long.
CREATE OR REPLACE VIEW _split_estimate AS
WITH steps AS (
    SELECT
        w.instance,
        i.incident,
        w.run_id,
        w.dp,
        w.seq,
        w.waiting,
        w.admitted,
        w.resident_tokens,
        r.dwell_s,
        r.prompt_tps_now,
        coalesce(r.new_tokens, r.prompt_tps_now * r.span_s) AS prompt_tokens,
        max(if(w.waiting > 0, w.seq, NULL)) OVER (PARTITION BY w.instance, i.incident, w.run_id, w.dp) AS last_seq
    FROM _wait AS w
    JOIN _report AS r USING (instance, run_id, dp, seq)
    JOIN _asked AS i ON w.instance = i.instance AND w.ts >= i.start_ts AND w.ts <= i.end_ts
),
ranks AS (
    SELECT
        instance,
        incident,
        sum(waiting * dwell_s) AS waiting_request_s,
        sum(admitted) AS admitted_n,
        max(waiting) FILTER (WHERE seq = last_seq) - coalesce(sum(admitted) FILTER (WHERE seq > last_seq), 0) AS left_n,
        sum(prompt_tokens) FILTER (WHERE admitted IS NOT NULL) AS prompt_tokens,
        quantile_cont(prompt_tps_now, 0.9) FILTER (WHERE prompt_tps_now > 0) AS prompt_tps,
        avg(resident_tokens) AS resident_tokens
    FROM steps
    GROUP BY instance, incident, run_id, dp
)
SELECT
    instance,
    incident,
    sum(admitted_n) AS admitted_n,
    sum(waiting_request_s) / nullif(sum(admitted_n) + sum(greatest(0.0, coalesce(left_n, 0.0))), 0) AS queue_s,
    sum(prompt_tokens) / nullif(sum(admitted_n), 0) / avg(prompt_tps) AS prefill_s,
    sum(prompt_tps) AS prompt_tps,
    avg(resident_tokens) AS resident_tokens
FROM ranks
GROUP BY instance, incident;

-- Tokens that retractions and preemptions made compute again in an incident, by counter, else as many as a running request
-- held, for each that was thrown out. It is the most: the prefix cache may have kept a part of them.
CREATE OR REPLACE VIEW _recomputed AS
WITH counted AS (
    SELECT d.instance, i.incident, sum(d.delta) AS tokens
    FROM counter_delta AS d
    JOIN incident AS i ON d.instance = i.instance AND d.ts > i.start_ts AND d.prev_ts < i.end_ts
    WHERE d.name IN ('retracted_input_tokens_total', 'retracted_output_tokens_total') AND d.part IS NULL
    GROUP BY ALL
),
thrown AS (
    SELECT r.instance, i.incident, sum(r.requests) AS requests
    FROM _retracted AS r
    JOIN incident AS i ON r.instance = i.instance AND r.ts >= i.start_ts AND r.prev_ts <= i.end_ts
    GROUP BY ALL
)
SELECT
    i.instance,
    i.incident,
    coalesce(c.tokens, t.requests * e.resident_tokens) AS tokens,
    coalesce(c.tokens, t.requests * e.resident_tokens) / nullif(e.prompt_tps, 0) AS s
FROM incident AS i
LEFT JOIN counted AS c USING (instance, incident)
LEFT JOIN thrown AS t USING (instance, incident)
LEFT JOIN _split_estimate AS e USING (instance, incident)
WHERE i.broke;

-- 2. Where did TTFT go? Mean seconds per request, inside the incident or over a capture without one, and shares of the
-- mean TTFT. Queue, prefill and KV transfer follow each other, and `rest_s` is what they leave; `l2_load_s` and
-- `recompute_s` (an estimate) lie inside them. `split_source` is the first that tells the queue's part: requests, histograms, or an
-- estimate by Little's law; `prefill_source` likewise. An estimate of prefill that does not fit into what the queue left is
-- none. What nothing tells is NULL; where the parts are more than TTFT, `over_s` says by how much.
CREATE OR REPLACE VIEW q02_ttft_split AS
WITH observers AS (
    SELECT instance, arg_max(observer, n) AS observer
    FROM (SELECT instance, observer, count(queue_s) AS n FROM requests GROUP BY ALL)
    WHERE n > 0
    GROUP BY instance
),
timed AS (
    SELECT
        i.instance,
        i.incident,
        count(*) AS n,
        avg(r.ttft_s) AS ttft_s,
        avg(r.queue_s) AS queue_s,
        quantile_cont(r.queue_s, 0.5) AS queue_p50_s,
        quantile_cont(r.queue_s, 0.99) AS queue_p99_s,
        avg(r.prefill_s) AS prefill_s,
        count(*) FILTER (WHERE r.retractions > 0) AS retracted_n
    FROM requests AS r
    JOIN observers USING (instance, observer)
    JOIN _asked AS i ON r.instance = i.instance AND coalesce(r.arrival_ts, r.ts, i.start_ts) <= i.end_ts
        AND coalesce(r.first_token_ts, r.arrival_ts + to_microseconds((coalesce(r.ttft_s, r.queue_s) * 1e6)::BIGINT), r.ts, i.end_ts)
            >= i.start_ts
    WHERE r.queue_s IS NOT NULL
        AND coalesce(r.arrival_ts, r.ts, '-infinity'::TIMESTAMPTZ) >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
        AND coalesce(r.arrival_ts, r.ts, '-infinity'::TIMESTAMPTZ) <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
    GROUP BY ALL
),
answered AS (
    SELECT i.instance, i.incident, count(r.ttft_s) AS n, avg(r.ttft_s) AS ttft_s
    FROM request_best AS r
    JOIN _asked AS i ON r.instance = i.instance AND coalesce(r.arrival_ts, r.ts, i.start_ts) <= i.end_ts
        AND coalesce(r.first_token_ts, r.arrival_ts + to_microseconds((r.ttft_s * 1e6)::BIGINT), r.ts, i.end_ts) >= i.start_ts
    GROUP BY ALL
),
stages AS (
    SELECT
        instance,
        incident,
        max(n) FILTER (WHERE stage = 'queue') AS queue_n,
        max(n) FILTER (WHERE stage = 'ttft') AS ttft_n,
        max(s / nullif(n, 0)) FILTER (WHERE stage = 'ttft') AS first_s,
        -- of the requests that ended, as vLLM's stages are: from beginning to end, less what came after the first token
        max(s / nullif(n, 0)) FILTER (WHERE stage = 'e2e') - max(s / nullif(n, 0)) FILTER (WHERE stage = 'decode') AS ended_s,
        max(s / nullif(n, 0)) FILTER (WHERE stage = 'queue') AS queue_s,
        coalesce(
            max(s / nullif(n, 0)) FILTER (WHERE stage = 'prefill'),
            sum(s) FILTER (WHERE stage IN ('chunk', 'last_chunk')) / nullif(max(n) FILTER (WHERE stage = 'last_chunk'), 0)
        ) AS prefill_s,
        max(s / nullif(n, 0)) FILTER (WHERE stage = 'l2_load') AS l2_load_mean_s,
        max(s) FILTER (WHERE stage = 'transfer') AS transfer_sum_s
    FROM _stage_sum
    GROUP BY ALL
),
loaded AS (
    SELECT m.instance, i.incident, sum(m.load_s) AS s
    FROM _l2_moved AS m
    JOIN _asked AS i ON m.instance = i.instance AND m.ts > i.start_ts AND m.ts <= i.end_ts
    GROUP BY ALL
),
chosen AS (
    SELECT
        i.instance,
        i.incident,
        if(i.broke, 'incident', 'capture') AS scope,
        CASE
            WHEN t.n > 0 THEN 'requests'
            WHEN s.queue_n > 0 THEN 'histograms'
            WHEN e.queue_s IS NOT NULL THEN 'estimate'
        END AS split_source,
        CASE WHEN t.prefill_s IS NOT NULL THEN 'requests' WHEN s.prefill_s IS NOT NULL THEN 'histograms' END AS prefill_told_by,
        round(coalesce(nullif(t.n, 0), nullif(s.queue_n, 0), nullif(a.n, 0), nullif(s.ttft_n, 0), e.admitted_n))::BIGINT AS requests_n,
        CASE
            WHEN t.n > 0 AND t.ttft_s IS NOT NULL THEN t.ttft_s
            WHEN s.queue_n > 0 AND s.ended_s >= s.queue_s THEN s.ended_s
            ELSE coalesce(s.first_s, a.ttft_s)
        END AS ttft_mean_s,
        coalesce(t.queue_s, s.queue_s, e.queue_s) AS queue_s,
        t.queue_p50_s,
        t.queue_p99_s,
        coalesce(t.prefill_s, s.prefill_s) AS prefill_told_s,
        e.prefill_s AS prefill_est_s,
        -- a part of all requests' wait, whichever of them was thrown out
        k.tokens AS recomputed_tokens,
        k.s / nullif(coalesce(s.ttft_n, a.n, e.admitted_n), 0) AS recompute_s,
        l.s / nullif(coalesce(s.ttft_n, a.n, e.admitted_n), 0) AS l2_load_s,
        s.l2_load_mean_s,
        s.transfer_sum_s / nullif(s.ttft_n, 0) AS transfer_s
    FROM _asked AS i
    LEFT JOIN timed AS t USING (instance, incident)
    LEFT JOIN answered AS a USING (instance, incident)
    LEFT JOIN stages AS s USING (instance, incident)
    LEFT JOIN _split_estimate AS e USING (instance, incident)
    LEFT JOIN _recomputed AS k USING (instance, incident)
    LEFT JOIN loaded AS l USING (instance, incident)
),
fitting AS (
    SELECT
        * EXCLUDE (prefill_told_s, prefill_est_s, prefill_told_by),
        -- of a time in which nothing broke the throughput tells how much was asked for, not how fast prefill was
        coalesce(
            prefill_told_s,
            if(scope = 'incident' AND coalesce(queue_s + prefill_est_s <= ttft_mean_s, true), prefill_est_s, NULL)
        ) AS prefill_s,
        prefill_told_by
    FROM chosen
),
summed AS (
    SELECT
        * EXCLUDE (prefill_told_by),
        coalesce(prefill_told_by, if(prefill_s IS NULL, NULL, 'estimate')) AS prefill_source,
        queue_s + coalesce(prefill_s, 0.0) + coalesce(transfer_s, 0.0) AS parts_s
    FROM fitting
)
SELECT
    * EXCLUDE (parts_s),
    CASE WHEN ttft_mean_s > parts_s THEN ttft_mean_s - parts_s WHEN ttft_mean_s <= parts_s THEN 0.0 END AS rest_s,
    CASE WHEN parts_s > ttft_mean_s THEN parts_s - ttft_mean_s WHEN parts_s <= ttft_mean_s THEN 0.0 END AS over_s,
    queue_s / nullif(ttft_mean_s, 0) AS queue_share,
    prefill_s / nullif(ttft_mean_s, 0) AS prefill_share,
    transfer_s / nullif(ttft_mean_s, 0) AS transfer_share,
    l2_load_s / nullif(ttft_mean_s, 0) AS l2_load_share,
    recompute_s / nullif(ttft_mean_s, 0) AS recompute_share,
    CASE WHEN ttft_mean_s > parts_s THEN (ttft_mean_s - parts_s) / ttft_mean_s WHEN ttft_mean_s <= parts_s THEN 0.0 END AS rest_share
FROM summed;
