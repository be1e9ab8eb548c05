-- Each minute of each server once, also where two captures tell of it: the one with more running requests.
CREATE OR REPLACE VIEW _minute_once AS
SELECT *
FROM minutes
QUALIFY row_number() OVER (PARTITION BY instance, ts ORDER BY running DESC NULLS LAST, waiting DESC NULLS LAST, capture) = 1;

-- How much room each server had left, by UTC hour: in its fullest minute, and against the cap where that is known.
-- `tightest` is what there was less of, as a share: l1 or cap. `full_minutes` are those with the pool at `full_usage` or above,
-- `waiting_minutes` those in which a request waited.
CREATE OR REPLACE VIEW headroom AS
SELECT
    instance,
    date_trunc('hour', ts) AS hour_ts,
    max(kv_usage) AS kv_usage_peak,
    min(l1_free_tokens) AS l1_free_tokens,
    max(l1_capacity_tokens) AS l1_capacity_tokens,
    max(running) AS running_peak,
    max(cap) AS cap,
    min(cap_free) AS cap_free,
    CASE
        WHEN max(kv_usage) IS NULL THEN if(min(cap_free) IS NULL, NULL, 'cap')
        WHEN min(cap_free / nullif(cap, 0)) < 1.0 - max(kv_usage) THEN 'cap'
        ELSE 'l1'
    END AS tightest,
    max(waiting) AS waiting_peak,
    max(ttft_p99_s) AS ttft_p99_peak_s,
    count(*) AS minutes,
    count(*) FILTER (WHERE kv_usage >= getvariable('full_usage')::DOUBLE) AS full_minutes,
    count(*) FILTER (WHERE waiting > 0) AS waiting_minutes
FROM _minute_once
GROUP BY instance, hour_ts
ORDER BY hour_ts, instance;

-- The same for all servers together, by UTC hour: `l1_free_tokens` and `l1_free_share` are of the fullest minute, summed over the
-- servers that told their pool and its usage in it. With room here and queues there (`waiting_instances`, the most in a minute), requests were
-- not where the room was.
CREATE OR REPLACE VIEW fleet_headroom AS
WITH summed AS (
    SELECT
        ts,
        count(*) AS instances,
        sum(l1_capacity_tokens) FILTER (WHERE l1_free_tokens IS NOT NULL) AS l1_capacity_tokens,
        sum(l1_free_tokens) AS l1_free_tokens,
        sum(running) AS running,
        sum(waiting) AS waiting,
        count(*) FILTER (WHERE waiting > 0) AS waiting_instances
    FROM _minute_once
    GROUP BY ts
)
SELECT
    date_trunc('hour', ts) AS hour_ts,
    max(instances) AS instances,
    arg_min(l1_capacity_tokens, l1_free_tokens / nullif(l1_capacity_tokens, 0)) AS l1_capacity_tokens,
    arg_min(l1_free_tokens, l1_free_tokens / nullif(l1_capacity_tokens, 0)) AS l1_free_tokens,
    min(l1_free_tokens / nullif(l1_capacity_tokens, 0)) AS l1_free_share,
    max(running)::BIGINT AS running_peak,
    max(waiting)::BIGINT AS waiting_peak,
    max(waiting_instances) AS waiting_instances
FROM summed
GROUP BY hour_ts
ORDER BY hour_ts;
