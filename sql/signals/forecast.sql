-- Is the KV pool filling while nothing waits yet? The last part of each instance's last run (forecast_s, at most half of the
-- run), in twenty slices: the rate is the median of the slopes between all pairs of slices, so that a few odd ones do not
-- move it, and `time_left_s` (until full_usage) has the quartiles of those slopes as bounds. `steady` says that it can be
-- relied on: a straight rise up to the end, two minutes at least, no request waiting, and no moment in which it was full.
CREATE OR REPLACE VIEW forecast AS
WITH usages AS (
    SELECT instance, run_id, ts, pool_usage, waiting FROM _load WHERE pool_usage IS NOT NULL
),
last_run AS (
    SELECT instance, run_id, min(ts) AS first_ts, max(ts) AS last_ts
    FROM usages
    GROUP BY instance, run_id
    QUALIFY row_number() OVER (PARTITION BY instance ORDER BY max(ts) DESC) = 1
),
part AS (
    SELECT
        *,
        last_ts - to_microseconds((1e6 * least(getvariable('forecast_s')::DOUBLE, epoch(last_ts - first_ts) / 2))::BIGINT) AS from_ts
    FROM last_run
),
slices AS (
    SELECT
        u.instance,
        least(19, floor(20.0 * epoch(u.ts - p.from_ts) / nullif(epoch(p.last_ts - p.from_ts), 0)))::INTEGER AS slice,
        avg(epoch(u.ts - p.from_ts)) AS s,
        median(u.pool_usage) AS usage,
        max(u.pool_usage) AS usage_max,
        max(u.waiting) AS waiting_max
    FROM usages AS u
    JOIN part AS p ON p.instance = u.instance AND p.run_id = u.run_id AND u.ts >= p.from_ts
    GROUP BY ALL
),
fitted AS (
    SELECT
        instance,
        count(*) AS slices,
        regr_r2(usage, s) AS r2,
        regr_slope(usage, s) FILTER (WHERE slice < 10) AS slope_before,
        regr_slope(usage, s) FILTER (WHERE slice >= 10) AS slope_after,
        arg_max(usage, slice) AS usage_last,
        arg_max(usage, slice) - arg_min(usage, slice) AS risen,
        max(usage_max) AS usage_max,
        max(waiting_max) AS waiting_max
    FROM slices
    WHERE slice IS NOT NULL
    GROUP BY instance
),
slopes AS (
    SELECT
        a.instance,
        quantile_cont((b.usage - a.usage) / (b.s - a.s), 0.25) AS slope_low,
        quantile_cont((b.usage - a.usage) / (b.s - a.s), 0.5) AS slope,
        quantile_cont((b.usage - a.usage) / (b.s - a.s), 0.75) AS slope_high
    FROM slices AS a
    JOIN slices AS b ON a.instance = b.instance AND a.slice < b.slice
    GROUP BY a.instance
)
SELECT
    p.instance,
    p.run_id,
    p.from_ts AS start_ts,
    p.last_ts AS end_ts,
    f.usage_last,
    f.risen,
    f.r2,
    s.slope AS rate_share_per_s,
    s.slope * l.capacity_tokens AS rate_tokens_per_s,
    CASE WHEN s.slope > 0 THEN greatest(0.0, getvariable('full_usage')::DOUBLE - f.usage_last) / s.slope END AS time_left_s,
    CASE WHEN s.slope_high > 0 THEN greatest(0.0, getvariable('full_usage')::DOUBLE - f.usage_last) / s.slope_high END AS time_left_low_s,
    CASE WHEN s.slope_low > 0 THEN greatest(0.0, getvariable('full_usage')::DOUBLE - f.usage_last) / s.slope_low END AS time_left_high_s,
    coalesce(
        s.slope > 0
        AND f.r2 >= getvariable('forecast_r2')::DOUBLE
        AND f.slices >= 8
        AND epoch(p.last_ts - p.from_ts) >= 120
        -- below this the steps of a rounded usage make a line of their own
        AND f.risen >= 0.05
        -- one that flattens out is filling no pool
        AND f.slope_before > 0 AND f.slope_after >= 0.5 * f.slope_before
        AND f.usage_max < getvariable('full_usage')::DOUBLE
        AND coalesce(f.waiting_max, 0) = 0,
        false
    ) AS steady
FROM part AS p
LEFT JOIN fitted AS f USING (instance)
LEFT JOIN slopes AS s USING (instance)
LEFT JOIN _limits AS l ON l.instance = p.instance AND l.run_id = p.run_id;
