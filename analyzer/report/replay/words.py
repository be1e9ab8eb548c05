"""How the replay's grades and measurements are called on the page; changes and waits are said by `analyzer.replay.words`."""

from __future__ import annotations

from analyzer.language import N_, _
from analyzer.replay.model import Origin, Trust
from analyzer.report.words import Tone

_TRUST: dict[Trust, tuple[str, Tone]] = {
    "good": (N_("good"), "good"),
    "fair": (N_("fair"), "warn"),
    "low": (N_("low"), "bad"),
    "none": (N_("cannot tell"), "grey"),
}
_ORIGINS: dict[Origin, str] = {"read": N_("read"), "measured": N_("measured"), "assumed": N_("assumed"), "changed": N_("changed")}
_MEASURES = {
    "running": N_("Requests running, mean"),
    "waiting": N_("Requests waiting, mean"),
    "kv_usage": N_("KV usage, mean"),
    "ttft_p50": N_("TTFT P50"),
    "ttft_p99": N_("TTFT P99"),
}


def trust(level: Trust) -> tuple[str, Tone]:
    """The grade in a word, and its colour."""
    word, tone = _TRUST[level]
    return _(word), tone


def origin(name: Origin) -> str:
    """Where a setting is from."""
    return _(_ORIGINS[name])


def thrown(engine: str) -> str:
    """What the engine calls it when a running request loses its memory."""
    return _("Preemptions") if engine == "vllm" else _("Retractions")


def measure(key: str, engine: str) -> str:
    """What was observed and replayed."""
    return thrown(engine) if key == "retractions" else _(_MEASURES[key])
