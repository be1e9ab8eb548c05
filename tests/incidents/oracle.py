"""Incidents made by the engines' own schedulers; oracle_truth.md tells how their causes are known."""

from __future__ import annotations

from functools import partial

from incident import Incident, split_of
from oracle_files import CLIENTS, LOG, METRICS, Capture, files, load
from oracle_label import because, cause_of

# How each case was recorded: seed 1, and seed 2 where it was run. Older versions print what the newest scheduler did, in their own form.
_C = Capture
CAPTURES: dict[str, tuple[Capture, ...]] = {
    "sglang_l1-short": (_C("0.5.23"), _C("0.5.21")),
    "sglang_l1-long": (_C("0.5.23", every=1, ms=True), _C("0.5.12")),
    "sglang_l1-prompts": (_C("0.5.21"),),
    "sglang_l1-prefix": (_C("0.5.23"), _C("0.5.9")),
    "sglang_l1-twice": (_C("0.5.7"),),
    "sglang_reserved-tokens": (_C("0.5.23"), _C("0.5.18")),
    "sglang_reserved-ratio": (_C("0.5.21"),),
    "sglang_cap-small": (_C("0.4.9"),),
    "sglang_cap-half": (_C("0.5.23", ranks=2), _C("0.5.21")),
    "sglang_cap-bursts": (_C("0.5.23"), _C("0.5.5")),
    "sglang_prefill-long": (_C("0.5.23"), _C("0.5.21")),
    "sglang_prefill-chunk": (_C("0.5.12"),),
    "sglang_healthy": (_C("0.5.23"), _C("0.5.21")),
    "sglang_bursts": (_C("0.5.21"), _C("0.5.23", every=1)),
    "sglang_shared": (_C("0.5.23", ms=True), _C("0.5.9")),
    "sglang_chunked": (_C("0.5.3"), _C("0.5.23")),
    "vllm_l1-short": (_C("0.32.0"), _C("0.33.0")),
    "vllm_l1-long": (_C("0.32.0", every=1),),
    "vllm_l1-prompts": (_C("0.32.0"), _C("0.32.0")),
    "vllm_l1-prefix": (_C("0.19.1"),),
    "vllm_watermark": (_C("0.32.0"), _C("0.32.0")),
    "vllm_watermark-prompts": (_C("0.32.0"),),
    "vllm_cap-small": (_C("0.32.0"), _C("0.8.5")),
    "vllm_cap-half": (_C("0.33.0"),),
    "vllm_cap-bursts": (_C("0.32.0"), _C("0.11.2")),
    "vllm_prefill-long": (_C("0.32.0"), _C("0.32.0")),
    "vllm_healthy": (_C("0.32.0"), _C("0.33.0")),
    "vllm_bursts": (_C("0.32.0"), _C("0.32.0")),
    "vllm_shared": (_C("0.32.0"), _C("0.6.6")),
    "vllm_chunked": (_C("0.32.0", every=1), _C("0.32.0")),
}
CASES = {f"{design}_s{seed}": capture for design, captures in CAPTURES.items() for seed, capture in enumerate(captures, start=1)}


def incidents() -> list[Incident]:
    """All of them, in the order of the table."""
    return [_incident(key, capture) for key, capture in CASES.items()]


def _incident(key: str, capture: Capture) -> Incident:
    doc = load(key)
    engine, seed = doc["engine"], doc["seed"]
    return Incident(
        name=f"oracle-{engine}-{doc['design']}-s{seed}",
        cause=cause_of(doc),
        origin="oracle",
        engine=engine,
        version=capture.version,
        seed=seed,
        split=split_of(seed),
        because=because(doc),
        files=partial(files, key, capture),
        logs=(LOG,),
        metrics=(METRICS,) if capture.has_metrics(engine) else (),
        clients=(CLIENTS,),
    )
