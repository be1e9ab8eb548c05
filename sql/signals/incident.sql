-- Every instance of the trace, those without a single report too.
CREATE OR REPLACE VIEW _instance AS
SELECT
    instance,
    coalesce(any_value(engine) FILTER (WHERE engine NOT IN ('lmcache', 'process', 'client')), any_value(engine)) AS engine,
    min(first_ts) AS first_ts,
    max(last_ts) AS last_ts,
    count(*)::INTEGER AS runs
FROM run
GROUP BY instance;

-- Spells during which requests waited; a gap shorter than spell_gap_s does not end one. A spell is made of pieces, in
-- which the queue was never empty; pieces at either end that hold less than queue_request_s are left out, so that it
-- begins where the queue did, and not with a blip a minute before.
CREATE OR REPLACE VIEW _queue_spell AS
WITH waits AS (
    SELECT
        instance,
        run_id,
        seq,
        max(wait_est_s) FILTER (WHERE waiting > 0) AS wait_est_s,
        max(wait_min_s) AS wait_min_s
    FROM _wait
    GROUP BY ALL
),
loads AS (
    SELECT
        instance,
        run_id,
        seq,
        ts,
        waiting,
        dwell_s,
        hold_s,
        count(CASE WHEN waiting = 0 THEN 1 END) OVER (PARTITION BY instance ORDER BY ts, seq) AS emptied
    FROM _load
),
queued AS (
    SELECT
        l.*,
        w.wait_est_s,
        w.wait_min_s,
        lag(l.ts) OVER own AS before_ts,
        lag(l.emptied) OVER own AS before_emptied
    FROM loads AS l
    LEFT JOIN waits AS w USING (instance, run_id, seq)
    WHERE l.waiting > 0
    WINDOW own AS (PARTITION BY l.instance ORDER BY l.ts, l.seq)
),
marked AS (
    SELECT
        *,
        count(CASE WHEN before_ts IS NULL OR epoch(ts - before_ts) > greatest(hold_s, getvariable('spell_gap_s')::DOUBLE) THEN 1 END) OVER own AS spell,
        count(CASE WHEN before_ts IS NULL OR emptied <> before_emptied OR epoch(ts - before_ts) > hold_s THEN 1 END) OVER own AS piece
    FROM queued
    WINDOW own AS (PARTITION BY instance ORDER BY ts, seq)
),
pieces AS (
    SELECT
        instance,
        spell,
        min(run_id) AS run_id,
        min(ts) AS start_ts,
        max(ts + to_microseconds((dwell_s * 1e6)::BIGINT)) AS end_ts,
        max(waiting) AS waiting_peak,
        sum(waiting * dwell_s) AS waiting_request_s,
        sum(dwell_s) AS waiting_s,
        max(wait_est_s) AS wait_est_peak_s,
        max(coalesce(wait_est_s, wait_min_s)) AS wait_known_s,
        sum(waiting * dwell_s) FILTER (WHERE wait_est_s IS NULL AND wait_min_s IS NULL) AS unknown_request_s,
        count(*) AS reports,
        if(sum(waiting * dwell_s) >= getvariable('queue_request_s')::DOUBLE, min(ts), NULL) AS heavy_ts
    FROM marked
    GROUP BY instance, spell, piece
),
kept AS (
    SELECT *
    FROM pieces
    QUALIFY coalesce(
        start_ts BETWEEN min(heavy_ts) OVER (PARTITION BY instance, spell) AND max(heavy_ts) OVER (PARTITION BY instance, spell),
        true
    )
)
SELECT
    instance,
    spell,
    min(run_id) AS run_id,
    min(start_ts) AS start_ts,
    max(end_ts) AS end_ts,
    max(waiting_peak) AS waiting_peak,
    sum(waiting_request_s) AS waiting_request_s,
    sum(waiting_s) AS waiting_s,
    max(wait_est_peak_s) AS wait_est_peak_s,
    max(wait_known_s) AS wait_known_s,
    sum(unknown_request_s) AS unknown_request_s,
    sum(reports) AS reports
FROM kept
GROUP BY instance, spell;

-- What a first token usually takes: the tenth percentile of the P99 of each minute (of each twentieth of the capture, where
-- that is shorter), so that an incident of nine tenths of the capture does not become the usual. `slow_s` is from where a
-- first token is slow: `ttft_factor` times the usual, at least `ttft_s`; where that is never reached, all of it was slow or
-- none, and `ttft_s` alone decides. What is beyond `base_s` is too much.
CREATE OR REPLACE VIEW _ttft_usual AS
WITH spans AS (
    SELECT instance, least(60.0, greatest(1.0, epoch(max(bucket_ts) - min(bucket_ts)) / 20.0)) AS slice_s FROM signal_ttft GROUP BY instance
),
slices AS (
    SELECT
        t.instance,
        t.ttft_source,
        floor(epoch(t.bucket_ts) / s.slice_s) AS slice,
        max(coalesce(t.ttft_p99_s, 'infinity'::DOUBLE)) AS p99_s
    FROM signal_ttft AS t
    JOIN spans AS s USING (instance)
    GROUP BY ALL
),
usual AS (
    SELECT instance, ttft_source, quantile_disc(p99_s, 0.1) AS usual_s, max(p99_s) AS worst_s FROM slices GROUP BY ALL
)
SELECT
    instance,
    ttft_source,
    if(isinf(usual_s), NULL, usual_s) AS usual_s,
    CASE
        WHEN worst_s > getvariable('ttft_factor')::DOUBLE * usual_s
            THEN greatest(getvariable('ttft_s')::DOUBLE, getvariable('ttft_factor')::DOUBLE * usual_s)
        ELSE getvariable('ttft_s')::DOUBLE
    END AS slow_s,
    CASE
        WHEN worst_s > getvariable('ttft_factor')::DOUBLE * usual_s THEN usual_s
        ELSE least(usual_s, getvariable('ttft_s')::DOUBLE)
    END AS base_s
FROM usual;

-- From arrival to first token, where that was slow: each request's own, or of histograms each bucket in which the P99 was
-- slow, begun as much earlier as its median took. `excess_request_s` is the time beyond the usual, over all requests.
CREATE OR REPLACE VIEW _ttft_slow AS
WITH ends AS (
    SELECT instance, max(greatest(finish_ts, first_token_ts, arrival_ts, ts)) AS last_ts FROM request_best GROUP BY instance
),
requested AS (
    SELECT
        r.instance,
        r.run_id,
        coalesce(r.arrival_ts, r.ts) AS start_ts,
        coalesce(r.ttft_s, epoch(e.last_ts - coalesce(r.arrival_ts, r.ts))) AS ttft_s
    FROM request_best AS r
    JOIN ends AS e USING (instance)
    WHERE coalesce(r.arrival_ts, r.ts) IS NOT NULL AND (r.ttft_s IS NOT NULL OR r.censored)
)
SELECT
    r.instance,
    r.run_id,
    r.start_ts,
    r.start_ts + to_microseconds((r.ttft_s * 1e6)::BIGINT) AS end_ts,
    1 AS slow_n,
    r.ttft_s - coalesce(u.base_s, 0.0) AS excess_request_s
FROM requested AS r
JOIN _ttft_usual AS u USING (instance)
WHERE u.ttft_source <> 'histogram' AND r.ttft_s > u.slow_s
UNION ALL BY NAME
SELECT
    t.instance,
    NULL AS run_id,
    t.bucket_ts - to_microseconds((least(t.ttft_p50_s, 3600.0) * 1e6)::BIGINT) AS start_ts,
    t.bucket_ts + to_seconds(b.bucket_s) AS end_ts,
    t.ttft_n AS slow_n,
    -- the mean lies between the median and the P95 of a distribution with a long tail
    t.ttft_n * greatest(0.0, (t.ttft_p50_s + t.ttft_p95_s) / 2 - coalesce(u.base_s, 0.0)) AS excess_request_s
FROM signal_ttft AS t
JOIN _ttft_usual AS u USING (instance)
CROSS JOIN _bucket AS b
WHERE t.ttft_source = 'histogram' AND t.ttft_p99_s > u.slow_s;

-- Spells of slow first tokens; a gap shorter than spell_gap_s does not end one. Pieces, in which some request waited all
-- the time, are left out at either end as those of a queue are.
CREATE OR REPLACE VIEW _ttft_spell AS
WITH reach AS (
    SELECT
        *,
        max(end_ts) OVER (PARTITION BY instance ORDER BY start_ts, end_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ts
    FROM _ttft_slow
),
marked AS (
    SELECT
        *,
        count(CASE WHEN before_ts IS NULL OR epoch(start_ts - before_ts) > getvariable('spell_gap_s')::DOUBLE THEN 1 END) OVER own AS spell,
        count(CASE WHEN before_ts IS NULL OR start_ts > before_ts THEN 1 END) OVER own AS piece
    FROM reach
    WINDOW own AS (PARTITION BY instance ORDER BY start_ts, end_ts)
),
pieces AS (
    SELECT
        instance,
        spell,
        min(run_id) AS run_id,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts,
        sum(slow_n) AS slow_n,
        sum(excess_request_s) AS excess_request_s,
        if(sum(excess_request_s) >= getvariable('queue_request_s')::DOUBLE, min(start_ts), NULL) AS heavy_ts
    FROM marked
    GROUP BY instance, spell, piece
),
kept AS (
    SELECT *
    FROM pieces
    QUALIFY coalesce(
        start_ts BETWEEN min(heavy_ts) OVER (PARTITION BY instance, spell) AND max(heavy_ts) OVER (PARTITION BY instance, spell),
        true
    )
)
SELECT
    instance,
    spell,
    min(run_id) AS run_id,
    min(start_ts) AS start_ts,
    max(end_ts) AS end_ts,
    sum(slow_n)::BIGINT AS slow_n,
    sum(excess_request_s) AS excess_request_s
FROM kept
GROUP BY instance, spell;

-- Where neither TTFT nor waiting was told: spells of decode_min_s at least in which generation throughput was below
-- throughput_fall of the usual although at least half as many requests ran as usual. A server that was slow all along
-- has no other usual.
CREATE OR REPLACE VIEW _throughput_spell AS
WITH mute AS (
    SELECT instance FROM _load GROUP BY instance
    HAVING count(waiting) = 0 AND instance NOT IN (SELECT instance FROM _ttft_usual)
),
busy AS (
    SELECT l.instance, l.run_id, l.ts, l.seq, l.dwell_s, l.hold_s, l.running, l.gen_tps
    FROM _load AS l
    JOIN mute USING (instance)
    WHERE l.running > 0 AND l.gen_tps IS NOT NULL
),
usual AS (
    SELECT instance, median(running) AS running, median(gen_tps) AS gen_tps FROM busy GROUP BY instance
),
fallen AS (
    SELECT b.*, lag(b.ts) OVER (PARTITION BY b.instance ORDER BY b.ts, b.seq) AS before_ts
    FROM busy AS b
    JOIN usual AS u USING (instance)
    WHERE b.gen_tps < getvariable('throughput_fall')::DOUBLE * u.gen_tps AND b.running >= 0.5 * u.running
),
marked AS (
    SELECT
        *,
        count(CASE WHEN before_ts IS NULL OR epoch(ts - before_ts) > hold_s THEN 1 END) OVER (PARTITION BY instance ORDER BY ts, seq) AS spell
    FROM fallen
)
SELECT
    instance,
    min(run_id) AS run_id,
    min(ts) AS start_ts,
    max(ts + to_microseconds((dwell_s * 1e6)::BIGINT)) AS end_ts,
    sum(running * dwell_s) AS running_request_s
FROM marked
GROUP BY instance, spell
HAVING sum(dwell_s) >= getvariable('decode_min_s')::DOUBLE;

-- Spells that are long and heavy enough to matter, of each kind, each once. Of a queue: the thresholds queue_wait_s and
-- queue_request_s; where the wait is unknown, twice as much waiting is asked for. Of first tokens: three slow ones at
-- least, and queue_request_s beyond the usual.
CREATE OR REPLACE VIEW _broken_spell AS
SELECT
    instance,
    'queue' AS basis,
    run_id,
    start_ts,
    end_ts,
    waiting_peak,
    waiting_request_s,
    waiting_s,
    wait_est_peak_s,
    NULL::BIGINT AS slow_n,
    NULL::DOUBLE AS excess_request_s
FROM _queue_spell
WHERE coalesce(
    (wait_known_s >= getvariable('queue_wait_s')::DOUBLE AND waiting_request_s >= getvariable('queue_request_s')::DOUBLE)
        OR unknown_request_s >= 2 * getvariable('queue_request_s')::DOUBLE,
    false
)
UNION ALL BY NAME
SELECT
    instance,
    'ttft' AS basis,
    run_id,
    start_ts,
    end_ts,
    slow_n,
    excess_request_s
FROM _ttft_spell
WHERE slow_n >= 3 AND excess_request_s >= getvariable('queue_request_s')::DOUBLE
UNION ALL BY NAME
SELECT
    instance,
    'throughput' AS basis,
    run_id,
    start_ts,
    end_ts,
    running_request_s AS excess_request_s
FROM _throughput_spell;

-- The incidents of an instance, the worst first (`incident` 1): spells of queueing and of slow first tokens that touch are
-- one. `queue_broke` and `ttft_broke` say which of the two showed it, `throughput_broke` that throughput did, where neither of
-- them was told (`excess_request_s` is then how long requests ran so). Without any there is one row: the longest queue, which
-- broke nothing, or nothing at all.
CREATE OR REPLACE VIEW incident AS
WITH reach AS (
    SELECT
        *,
        max(end_ts) OVER (PARTITION BY instance ORDER BY start_ts, end_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ts
    FROM _broken_spell
),
marked AS (
    SELECT *, sum(CASE WHEN before_ts IS NULL OR start_ts > before_ts THEN 1 ELSE 0 END) OVER (PARTITION BY instance ORDER BY start_ts, end_ts) AS n
    FROM reach
),
broken AS (
    SELECT
        instance,
        min(run_id) AS run_id,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts,
        max(waiting_peak) AS waiting_peak,
        sum(waiting_request_s) AS waiting_request_s,
        sum(waiting_s) AS waiting_s,
        max(wait_est_peak_s) AS wait_est_peak_s,
        sum(slow_n)::BIGINT AS slow_n,
        sum(excess_request_s) AS excess_request_s,
        bool_or(basis = 'queue') AS queue_broke,
        bool_or(basis = 'ttft') AS ttft_broke,
        bool_or(basis = 'throughput') AS throughput_broke
    FROM marked
    GROUP BY instance, n
),
calm AS (
    SELECT
        i.instance,
        s.run_id,
        s.start_ts,
        s.end_ts,
        s.waiting_peak,
        s.waiting_request_s,
        s.waiting_s,
        s.wait_est_peak_s,
        NULL::BIGINT AS slow_n,
        NULL::DOUBLE AS excess_request_s,
        false AS queue_broke,
        false AS ttft_broke,
        false AS throughput_broke
    FROM _instance AS i
    LEFT JOIN _queue_spell AS s USING (instance)
    WHERE i.instance NOT IN (SELECT instance FROM broken)
    QUALIFY row_number() OVER (PARTITION BY i.instance ORDER BY s.waiting_request_s DESC NULLS LAST) = 1
)
SELECT
    instance,
    row_number() OVER (
        PARTITION BY instance ORDER BY greatest(coalesce(waiting_request_s, 0.0), coalesce(excess_request_s, 0.0)) DESC, start_ts
    )::INTEGER AS incident,
    * EXCLUDE (instance),
    queue_broke OR ttft_broke OR throughput_broke AS broke
FROM (SELECT * FROM broken UNION ALL SELECT * FROM calm);
