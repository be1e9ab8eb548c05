"""Settings and a step time from a file, for a workload that comes without a server."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from math import isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from analyzer.errors import KvpmError
from analyzer.replay.model import SettingRow
from analyzer.replay.oracle_files import settings_of
from analyzer.replay.settings import L2, Engine, Settings, Sglang, Vllm

# Numbers that may be 0, where all others are at least 1 (whole ones) or above 0.
_MAY_BE_0 = {
    "capacity_tokens", "conservativeness", "init_ratio", "long_prefill_threshold", "max_queued", "min_ratio_factor", "retract_decode_steps",
    "watermark_share",
}  # fmt: skip
# Names that only the engines have: an object with one of them is by their names.
_ENGINES_OWN = {"max_total_num_tokens", "max_num_seqs"}


def load_settings(path: Path, engine: Engine | None = None) -> tuple[Settings, tuple[SettingRow, ...]]:
    """The settings in the JSON object at `path`, and where each is from; its keys are the fields of `Sglang` or `Vllm`, or the engine's.

    Raises KvpmError for what is none, and where `engine` is another.
    """
    told = read_object(path)
    if _ENGINES_OWN & told.keys():
        settings = settings_of(told, engine, str(path))
        return settings, _rows(settings, None, path)
    found: Engine | None = "sglang" if "l1_tokens" in told else "vllm" if "num_blocks" in told else None
    if found is None:
        raise KvpmError(f"{path} has no pool size", hint="l1_tokens for SGLang, num_blocks and block_tokens for vLLM")
    if engine is not None and engine != found:
        raise KvpmError(f"{path} holds settings of {found}, not of {engine}", hint=f"--engine {found}")
    settings = _made(Sglang if found == "sglang" else Vllm, told, str(path))
    assert isinstance(settings, Sglang | Vllm)
    return settings, _rows(settings, set(told), path)


def _rows(settings: Settings, told: set[str] | None, path: Path) -> tuple[SettingRow, ...]:
    rows = []
    for field in fields(settings):
        read = told is None or field.name in told
        rows.append(SettingRow(field.name, str(getattr(settings, field.name)), "read" if read else "assumed", path.name if read else ""))
    return tuple(rows)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises KvpmError where there is none."""
    try:
        told = json.loads(path.read_bytes())
    except OSError as error:
        raise KvpmError(f"cannot read {path}: {error.strerror}", hint="name a JSON file") from error
    except (ValueError, RecursionError) as error:
        raise KvpmError(f"{path} is no JSON: {str(error)[:120]}", hint="it holds one JSON object") from error
    if not isinstance(told, dict):
        raise KvpmError(f"{path} holds no JSON object", hint='for example {"l1_tokens": 65536, "max_running": 64}')
    return told


def _made(kind: type[Any], told: dict[str, Any], where: str) -> Any:
    hints = get_type_hints(kind)
    unknown = sorted(set(told) - set(hints))
    if unknown:
        raise KvpmError(f"{where}: there is no setting {unknown[0]!r}", hint="there are " + ", ".join(hints))
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.name not in told]
    if missing:
        raise KvpmError(
            f"{where}: {missing[0]} is missing", hint="needed are " + ", ".join(f.name for f in fields(kind) if f.default is MISSING)
        )
    return kind(**{name: _value(name, told[name], hints[name], f"{where}: {name}") for name in told})


def _value(name: str, value: Any, hint: Any, where: str) -> Any:
    """`value` as the type says."""
    options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    if value is None and NoneType in options:
        return None
    wanted = next(o for o in options if o is not NoneType)
    if wanted is L2 and isinstance(value, dict):
        return _made(L2, value, where)
    if get_origin(wanted) is Literal:
        if value in get_args(wanted):
            return value
        raise KvpmError(f"{where} is {str(value)[:60]!r}", hint="one of " + ", ".join(get_args(wanted)))
    if wanted is bool and isinstance(value, bool):
        return value
    least = 0 if name in _MAY_BE_0 else 2 if name == "num_blocks" else 1
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        if wanted is float and (value > 0 or (value == 0 and least == 0)):
            return float(value)
        if wanted is int and value == int(value) and value >= least:
            return int(value)
    above = "a number from 0 on" if least == 0 else "a number above 0"
    kinds = {bool: "true or false", int: f"a whole number from {least} on", float: above, L2: "an object"}
    raise KvpmError(f"{where} is {str(value)[:60]!r}", hint=f"it is {kinds[wanted]}")
