-- Highest values of each instance, from raw reports: running and waiting as the sum over data-parallel ranks of each
-- rank's latest report, usage of the fullest rank. NULL where nothing reported it.
CREATE OR REPLACE VIEW peaks AS
SELECT
    i.instance,
    (SELECT max(l.running) FROM _load AS l WHERE l.instance = i.instance) AS running,
    (SELECT max(l.waiting) FROM _load AS l WHERE l.instance = i.instance) AS waiting,
    (SELECT max(r.kv_usage) FROM _report AS r WHERE r.instance = i.instance) AS kv_usage,
    (SELECT max(r.pool_usage) FROM _report AS r WHERE r.instance = i.instance) AS pool_usage,
    (SELECT count(*) FROM _report AS r WHERE r.instance = i.instance) AS reports,
    (SELECT count(r.waiting) FROM _report AS r WHERE r.instance = i.instance) AS waiting_reports,
    (SELECT count(r.running) FROM _report AS r WHERE r.instance = i.instance) AS running_reports
FROM _instance AS i;
