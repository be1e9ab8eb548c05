-- 12. Prefill/decode disaggregation: the highest level of each of its queues. `pd_reports` is 0 without PD.
CREATE OR REPLACE VIEW q12_pd AS
SELECT
    i.instance,
    count(*) FILTER (WHERE r.role IN ('prefill', 'decode')) AS pd_reports,
    any_value(r.role) AS role,
    max(r.bootstrap_reqs) AS bootstrap_max,
    max(r.inflight_reqs) AS inflight_max,
    max(r.prealloc_reqs) AS prealloc_max,
    max(r.transfer_reqs) AS transfer_max,
    max(r.retracted_reqs) AS retracted_level_max,
    max(r.kv_fetch_waiting + r.kv_fetch_loading) AS kv_fetch_max
FROM _instance AS i
LEFT JOIN scheduler_clean AS r USING (instance)
GROUP BY i.instance;
