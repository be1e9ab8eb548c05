-- Highest values of each instance, from raw reports: running and waiting as the sum over data-parallel ranks of each
-- rank's latest report, usage of the fullest rank. NULL where nothing reported it. Log and metrics are not mixed: the
-- finer of the two (`basis`) gives the peaks, and the `other_` columns what the other one shows beyond its time.
CREATE OR REPLACE VIEW peaks AS
WITH loads AS (
    SELECT
        l.instance,
        max(l.running) FILTER (WHERE r.preferred) AS running,
        max(l.waiting) FILTER (WHERE r.preferred) AS waiting,
        max(l.running) FILTER (WHERE NOT r.preferred) AS other_running,
        max(l.waiting) FILTER (WHERE NOT r.preferred) AS other_waiting
    FROM _load AS l
    JOIN _report AS r USING (instance, run_id, seq)
    GROUP BY l.instance
),
reports AS (
    SELECT
        instance,
        any_value(basis) FILTER (WHERE preferred) AS basis,
        any_value(basis) FILTER (WHERE NOT preferred) AS other_basis,
        max(kv_usage) FILTER (WHERE preferred) AS kv_usage,
        max(pool_usage) FILTER (WHERE preferred) AS pool_usage,
        max(kv_usage) FILTER (WHERE NOT preferred) AS other_kv_usage,
        count(*) AS reports,
        count(waiting) AS waiting_reports,
        count(running) AS running_reports,
        coalesce(max(gen_tps) > 0 OR max(prompt_tps) > 0 OR max(first_tokens) > 0, false) AS tokens_made
    FROM _report
    GROUP BY instance
)
SELECT
    i.instance,
    r.basis,
    l.running,
    l.waiting,
    r.kv_usage,
    r.pool_usage,
    r.other_basis,
    l.other_running,
    l.other_waiting,
    r.other_kv_usage,
    coalesce(r.reports, 0) AS reports,
    coalesce(r.waiting_reports, 0) AS waiting_reports,
    coalesce(r.running_reports, 0) AS running_reports,
    coalesce(r.tokens_made, false) AS tokens_made
FROM _instance AS i
LEFT JOIN loads AS l USING (instance)
LEFT JOIN reports AS r USING (instance);
