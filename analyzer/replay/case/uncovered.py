"""What a server did that the models do not: reasons not to replay it, and reasons to trust the replay less."""

from __future__ import annotations

from datetime import datetime

import duckdb

from analyzer.diagnosis.diagnose import rows
from analyzer.language import _
from analyzer.replay.case.facts import Facts
from analyzer.replay.case.l2_settings import l2_without_size
from analyzer.replay.settings import Engine
from analyzer.report import fmt

# Connectors, and their roles, that hand KV from a prefill to a decode server; the others keep it for this one.
_OF_PD = ("Nixl", "P2pNccl", "MooncakeConnector", "MoRIIO", "kv_producer", "kv_consumer")
_FIRST_V1 = (0, 8)
# After the load, so that a watchdog has noticed.
_SOON_S = 60.0


def not_replayed(con: duckdb.DuckDBPyConnection, facts: Facts, engine: Engine, version: tuple[int, ...] | None) -> str:
    """Why this run cannot be replayed at all; empty where it can."""
    core = facts.get("engine_core")
    if engine == "vllm" and (core.value == "V0" if core is not None else version is not None and version < _FIRST_V1):
        return _("this is vLLM's V0 engine, whose scheduler is not modelled")
    seen = rows(
        con,
        """
        SELECT
            count(DISTINCT dp) AS ranks,
            coalesce(bool_or(role IN ('prefill', 'decode')), false) AS pd
        FROM scheduler_clean WHERE instance = ? AND run_id = ?
        """,
        facts.instance,
        facts.run_id,
    )[0]
    mode = facts.get("arg.disaggregation_mode")
    told = [f.value or "" for key in ("kv_connector", "arg.kv_transfer_config") if (f := facts.get(key)) is not None]
    handed_on = any(name in text for text in told for name in _OF_PD)
    if seen["pd"] or handed_on or (mode is not None and mode.value in ("prefill", "decode")):
        return _("prefill and decode run on separate servers, which is not modelled")
    ranks = max(int(facts.number("arg.dp_size", "arg.data_parallel_size") or 1), int(seen["ranks"] or 1))
    if ranks > 1:
        return _("it has {n} data-parallel ranks; how requests were shared out among them is not modelled", n=ranks)
    return ""


def ended(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, start: datetime, end_s: float) -> tuple[str, ...]:
    """Whether the process died or hung under the load that is replayed, or within a minute of it: the model would serve on."""
    found = rows(
        con,
        """
        SELECT 1 FROM event
        WHERE instance = ? AND run_id = ? AND kind IN ('crash', 'oom', 'watchdog')
            AND ts BETWEEN ?::TIMESTAMPTZ AND ?::TIMESTAMPTZ + to_seconds(?)
        LIMIT 1
        """,
        instance,
        run_id,
        start,
        start,
        end_s + _SOON_S,
    )
    return (_("the process crashed or hung, which no setting tried here changes"),) if found else ()


def uncovered(con: duckdb.DuckDBPyConnection, facts: Facts, engine: Engine) -> tuple[str, ...]:
    """What was on in this run and is not in the model, so that the replay is to be trusted less."""
    found = _sglang(facts) if engine == "sglang" else _vllm(facts)
    pools = rows(
        con,
        """
        SELECT coalesce(bool_or(swa_usage IS NOT NULL), false) AS swa, coalesce(bool_or(mamba_usage IS NOT NULL), false) AS mamba
        FROM scheduler_clean WHERE instance = ? AND run_id = ?
        """,
        facts.instance,
        facts.run_id,
    )[0]
    if pools["swa"] or facts.get("kv_swa_tokens") is not None:
        found.append(_("the sliding-window pool is not modelled, only the full-attention one"))
    if pools["mamba"] or facts.get("mamba_slots", "mamba_ssm_bytes") is not None:
        found.append(_("the slots of mamba states are not modelled"))
    if (facts.number("arg.pp_size", "arg.pipeline_parallel_size") or 1) > 1:
        found.append(_("pipeline stages, which hold a batch each, are not modelled"))
    if facts.flag("arg.enable_lora") or facts.get("arg.lora_paths", "arg.lora_modules") is not None:
        found.append(_("limits on LoRA adapters are not modelled"))
    if facts.get("arg.hicache_storage_backend", "l3_storage", "l3_tier") is not None:
        found.append(_("storage behind the host pool (L3) is not modelled"))
    if l2_without_size(facts):
        found.append(_("there is a host pool (L2) whose size is not in the capture: replayed without it"))
    return tuple(found)


def _sglang(facts: Facts) -> list[str]:
    found = []
    if facts.flag("arg.enable_mixed_chunk"):
        found.append(_("prefill chunks mixed with decode (--enable-mixed-chunk) are not modelled"))
    if facts.get("arg.speculative_algorithm") is not None:
        found.append(_("speculative decoding is not modelled"))
    if facts.flag("arg.enable_priority_scheduling"):
        found.append(_("priority scheduling is not modelled for SGLang"))
    policy = facts.get("arg.schedule_policy")
    if policy is not None and policy.value not in ("fcfs", "lpm"):
        found.append(_("the schedule policy {policy} is not modelled: replayed as fcfs", policy=fmt.clean(policy.value or "", 40)))
    return found


def _vllm(facts: Facts) -> list[str]:
    found = []
    if facts.get("arg.speculative_config", "arg.speculative_model") is not None:
        found.append(_("speculative decoding is not modelled"))
    return found
