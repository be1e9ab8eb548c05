"""Thresholds: data beside this module, variables of every opened trace (`getvariable` in SQL)."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib import resources


@lru_cache(maxsize=1)
def thresholds() -> dict[str, float]:
    """Name to value, as shipped."""
    text = resources.files("analyzer.diagnosis").joinpath("thresholds.toml").read_text(encoding="utf-8")
    return {name: float(entry["value"]) for name, entry in tomllib.loads(text).items()}
