"""A workload without a server as a case: settings and step time are given, and nothing was recorded to hold the replay against."""

from __future__ import annotations

from analyzer.replay.case.given import given_step_time
from analyzer.replay.knobs import engine_of
from analyzer.replay.model import Case, Observed, SettingRow
from analyzer.replay.settings import Settings
from analyzer.replay.step_time import StepTime
from analyzer.replay.workload import Workload


def bare_case(name: str, workload: Workload, settings: Settings, rows: tuple[SettingRow, ...], step_time: StepTime) -> Case:
    """`name` is what the case is called; `rows` say where the settings are from."""
    return Case(
        instance=name,
        engine=engine_of(settings),
        engine_version="",
        workload=workload,
        settings=settings,
        setting_rows=rows,
        fitted=given_step_time(step_time),
        observed=Observed(
            running=None,
            waiting=None,
            kv_usage=None,
            retractions=None,
            ttft_s={},
            open_s={},
            ttft_source="",
            ttft_p50_s=None,
            ttft_p99_s=None,
        ),
        start=workload.start,
        end_s=workload.duration_s,
    )
