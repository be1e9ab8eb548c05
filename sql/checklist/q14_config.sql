-- 14. Was the configuration asking for it? The settings that decide admission and cache, as far as the log has them: those of
-- the process that the incident began in, without an incident those of the last one.
CREATE OR REPLACE VIEW q14_config AS
SELECT
    i.instance,
    i.incident,
    l.run_id,
    l.engine_version,
    l.capacity_tokens,
    l.capacity_source,
    l.cap,
    l.cap_source,
    l.chunk_tokens,
    l.max_num_batched_tokens,
    l.max_len_tokens,
    l.schedule_conservativeness,
    l.watermark,
    (SELECT max(f.number) FROM fact AS f WHERE f.instance = i.instance AND f.run_id = l.run_id AND f.key = 'arg.disable_radix_cache') AS disable_radix_cache,
    (SELECT max(f.number) FROM fact AS f WHERE f.instance = i.instance AND f.run_id = l.run_id AND f.key = 'arg.enable_prefix_caching') AS enable_prefix_caching,
    (SELECT max(f.number) FROM fact AS f WHERE f.instance = i.instance AND f.run_id = l.run_id AND f.key IN ('arg.mem_fraction_static', 'arg.gpu_memory_utilization')) AS memory_share,
    -- a metric's labels tell some arguments, and never which were left at their default
    (SELECT max(f.source) FROM fact AS f WHERE f.instance = i.instance AND f.run_id = l.run_id AND f.key LIKE 'arg.%'
        AND coalesce(f.read_from NOT LIKE '%cache\_config\_info' ESCAPE '\', true)) AS args_source
FROM incident AS i
LEFT JOIN _limits AS l USING (instance)
QUALIFY row_number() OVER (
    PARTITION BY i.instance, i.incident ORDER BY coalesce(i.broke AND l.run_id = i.run_id, false) DESC, l.run_id DESC NULLS LAST
) = 1;
