-- 12. Prefill/decode disaggregation: the highest level of each of its queues, and how much waiting came together in it
-- (requests x s). `pd_reports` is 0 without PD.
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
    max(r.kv_fetch_waiting + r.kv_fetch_loading) AS kv_fetch_max,
    sum(r.bootstrap_reqs * r.dwell_s) AS bootstrap_request_s,
    sum(r.inflight_reqs * r.dwell_s) AS inflight_request_s,
    sum(r.prealloc_reqs * r.dwell_s) AS prealloc_request_s,
    sum(r.transfer_reqs * r.dwell_s) AS transfer_request_s,
    sum((r.kv_fetch_waiting + r.kv_fetch_loading) * r.dwell_s) AS kv_fetch_request_s,
    median(r.pool_usage) FILTER (WHERE r.prealloc_reqs > 0) AS usage_prealloc_p50
FROM _instance AS i
LEFT JOIN _report AS r USING (instance)
GROUP BY i.instance;
