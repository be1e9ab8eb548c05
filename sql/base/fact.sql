-- One value per instance, run and key: the last one printed, with the line it was read from.
CREATE OR REPLACE VIEW fact AS
SELECT
    f.instance,
    f.run_id,
    f.key,
    arg_max(f.value, (f.ts, f.record)) AS value,
    arg_max(f.number, (f.ts, f.record)) AS number,
    arg_max(f.type, (f.ts, f.record)) AS type,
    arg_max(f.unit, (f.ts, f.record)) AS unit,
    arg_max(f.engine, (f.ts, f.record)) AS engine,
    arg_max(f.read_from, (f.ts, f.record)) AS read_from,
    arg_max(s.path || ':' || f.record, (f.ts, f.record)) AS source
FROM facts AS f
LEFT JOIN sources AS s USING (source_id)
GROUP BY f.instance, f.run_id, f.key;

-- What bounds admission, per run: capacity in tokens and caps, NULL where no line told. The vLLM pool loses its
-- null block; the caps are per data-parallel rank.
CREATE OR REPLACE VIEW _limits AS
WITH wide AS (
    SELECT
        instance,
        run_id,
        any_value(engine) FILTER (WHERE engine NOT IN ('lmcache', 'process', 'client')) AS engine,
        max(number) FILTER (WHERE key = 'kv_capacity_tokens') AS capacity_line,
        max(number) FILTER (WHERE key = 'kv_allocated_tokens') AS kv_allocated_tokens,
        max(number) FILTER (WHERE key = 'kv_full_tokens') AS kv_full_tokens,
        max(number) FILTER (WHERE key = 'num_gpu_blocks') AS num_gpu_blocks,
        coalesce(max(number) FILTER (WHERE key = 'arg.block_size'), 16) AS block_size,
        max(number) FILTER (WHERE key = 'arg.block_size') AS block_size_told,
        max(number) FILTER (WHERE key = 'max_running_requests') AS max_running_requests,
        -- the argument is for all data-parallel ranks together where they share the attention's work
        floor(
            max(number) FILTER (WHERE key = 'arg.max_running_requests')
            / CASE
                WHEN max(number) FILTER (WHERE key = 'arg.enable_dp_attention') = 1
                    THEN greatest(1, coalesce(max(number) FILTER (WHERE key = 'arg.dp_size'), 1))
                ELSE 1
            END
        ) AS arg_max_running_requests,
        max(number) FILTER (WHERE key = 'arg.max_num_seqs') AS max_num_seqs,
        max(number) FILTER (WHERE key = 'arg.pp_max_micro_batch_size' AND number > 0) AS micro_batch,
        max(number) FILTER (WHERE key IN ('arg.pp_size', 'arg.pipeline_parallel_size') AND number > 1) AS pp_size,
        max(number) FILTER (WHERE key = 'chunked_prefill_size' AND number > 0) AS chunk_line,
        max(number) FILTER (WHERE key = 'arg.chunked_prefill_size' AND number > 0) AS chunk_arg,
        max(number) FILTER (WHERE key IN ('max_prefill_tokens', 'arg.max_prefill_tokens')) AS max_prefill_tokens,
        max(number) FILTER (WHERE key IN ('max_num_batched_tokens', 'arg.max_num_batched_tokens')) AS max_num_batched_tokens,
        max(number) FILTER (WHERE key IN ('context_len', 'arg.context_length', 'max_model_len', 'arg.max_model_len')) AS max_len_tokens,
        max(number) FILTER (WHERE key = 'arg.schedule_conservativeness') AS schedule_conservativeness,
        max(number) FILTER (WHERE key = 'arg.watermark') AS watermark,
        max(number) FILTER (WHERE key = 'l2_capacity_tokens') AS l2_capacity_tokens,
        -- LMCache prints what was asked for, and the size after clamping where that differs
        coalesce(max(number) FILTER (WHERE key = 'l2_bytes'), max(number) FILTER (WHERE key = 'l2_asked_bytes')) AS l2_bytes,
        max(value) FILTER (WHERE key = 'engine_version') AS engine_version,
        max(value) FILTER (WHERE key = 'engine_core') AS engine_core,
        max(source) FILTER (WHERE key IN ('kv_capacity_tokens', 'num_gpu_blocks')) AS capacity_source,
        max(source) FILTER (WHERE key IN ('max_running_requests', 'arg.max_running_requests', 'arg.max_num_seqs')) AS cap_source
    FROM fact
    GROUP BY instance, run_id
)
SELECT
    instance,
    run_id,
    engine,
    engine_version,
    engine_core,
    CASE
        WHEN engine = 'vllm' AND capacity_line IS NOT NULL AND block_size_told IS NOT NULL THEN capacity_line - block_size
        WHEN capacity_line IS NOT NULL THEN capacity_line
        WHEN engine = 'vllm' THEN num_gpu_blocks * block_size
        ELSE coalesce(kv_full_tokens, kv_allocated_tokens)
    END AS capacity_tokens,
    -- SGLang's pipeline stages have a batch each in flight, which share the cap, and its lines tell of one of them
    CASE
        WHEN engine = 'sglang' AND pp_size IS NOT NULL
            THEN coalesce(micro_batch, greatest(1, floor(coalesce(max_running_requests, arg_max_running_requests) / pp_size)))
        ELSE coalesce(max_running_requests, arg_max_running_requests, max_num_seqs)
    END AS cap,
    coalesce(chunk_line, chunk_arg, CASE WHEN engine = 'sglang' THEN max_prefill_tokens END) AS chunk_tokens,
    max_num_batched_tokens,
    max_len_tokens,
    schedule_conservativeness,
    watermark,
    l2_capacity_tokens,
    l2_bytes,
    capacity_source,
    cap_source
FROM wide;
