"""What one process run of a server was set to, as far as its admission goes."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from analyzer.language import _
from analyzer.replay.case.facts import Facts, engine_of, version_of
from analyzer.replay.case.rows_of_settings import Chosen
from analyzer.replay.case.sglang_settings import sglang_settings
from analyzer.replay.case.uncovered import not_replayed, uncovered
from analyzer.replay.case.vllm_settings import vllm_settings
from analyzer.replay.model import NoReplay, SettingRow
from analyzer.replay.settings import Engine, Settings


@dataclass(frozen=True, slots=True)
class Configured:
    """The settings of a run, where each is from, and what was on that the model does not have (`uncovered`)."""

    engine: Engine
    version: str
    settings: Settings
    rows: tuple[SettingRow, ...]
    uncovered: tuple[str, ...]


def configured(con: duckdb.DuckDBPyConnection, instance: str, run_id: str) -> Configured | NoReplay:
    """The settings of one run of an instance, or why there are none."""
    name = engine_of(con, instance)
    if name not in ("sglang", "vllm"):
        return NoReplay(instance, _("the capture holds no log or metrics of an SGLang or vLLM server by this name"))
    engine: Engine = "sglang" if name == "sglang" else "vllm"
    facts = Facts(con, instance, run_id)
    text, version = version_of(con, facts)
    if why := not_replayed(con, facts, engine, version):
        return NoReplay(instance, why)
    chosen = Chosen(facts)
    if engine == "sglang":
        settings: Settings | None = sglang_settings(con, facts, version, chosen)
        hint = _("keep the start-up lines (max_total_num_tokens=...), or scrape the metrics (--enable-metrics)")
    else:
        settings = vllm_settings(con, facts, version, chosen)
        hint = _("keep the start-up lines (KV cache size), or scrape the metrics endpoint")
    if settings is None:
        return NoReplay(instance, _("the size of the KV pool is not in the capture"), hint)
    return Configured(engine, text, settings, tuple(chosen.rows), uncovered(con, facts, engine))
