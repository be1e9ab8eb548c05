"""Labelled incidents from the models of `sample_traces`, with seeds, versions and noise of their own.

Run as a program it works out again what `because` says and writes it to data/generated_figures.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import generated_bare
import generated_process
from generated_files import CLIENTS, LOG, METRICS, base, capture
from generated_load import DESIGNS
from generated_model import Design, figures, run
from incident import Incident, split_of

from analyzer.diagnosis.model import Cause

FIGURES = Path(__file__).with_name("data") / "generated_figures.json"
WORDS = {
    "pool": "twice the pool",
    "cap": "twice the cap",
    "prefill": "twice the prefill speed",
    "reservation": "half the reservation",
    "balance": "dealing requests out in turn",
}
FULL_VERSIONS = {"0.6.6": "0.6.6.post1", "0.32": "0.32.0", "0.33": "0.33.0"}


def incidents() -> list[Incident]:
    """All cases of this module."""
    return [*_load(), *_process(), *_bare()]


@cache
def stored_figures() -> dict[str, dict[str, float]]:
    """What `figures` gave for each case, by name."""
    found: dict[str, dict[str, float]] = json.loads(FIGURES.read_text())
    return found


def case_name(name: str, seed: int) -> str:
    """The name of a case."""
    return f"generated-{name}-s{seed}"


def because(design: Design, found: dict[str, float]) -> str:
    """How the label is known, from the figures of the models."""
    if design.cause == "none":
        told = f"; {design.told}" if design.told else ""
        return f"P99 TTFT is {found['p99_s']:.2f} s and the most that waited in a report {found['waiting']:.0f}{told}"
    if design.cause == "decode_bound":
        return (
            f"P99 TTFT stays at {found['p99_s']:.2f} s while a token takes {found['token_s'] * 1000:.0f} ms instead of "
            f"{found['quiet_token_s'] * 1000:.0f} ms, and {found['fast_token_s'] * 1000:.0f} ms with twice the decode speed"
        )
    removed = sorted(((found[k], words) for k, words in WORDS.items() if k in found), key=lambda e: -e[0])
    # A knob that makes things worse removes nothing.
    (first, what), *rest = [(f"{max(0.0, share):.0%}", words) for share, words in removed]
    return (
        f"P99 TTFT goes from {found['quiet_p99_s']:.1f} s to {found['p99_s']:.1f} s while the pool is used to "
        f"{found['usage_waiting']:.0%}; of the excess {what} removes {first}, {', '.join(f'{words} {share}' for share, words in rest)}"
    )


def _load() -> list[Incident]:
    return [
        _incident(
            design.name,
            design,
            seed,
            design.cause,
            because(design, stored_figures()[case_name(design.name, seed)]),
            partial(_load_files, design, seed, 2 * number + seed % 2),
            files=(LOG, CLIENTS) if design.engine == "vllm" and design.server.format.v0 else (LOG, METRICS, CLIENTS),
        )
        for number, design in enumerate(DESIGNS)
        for seed in design.seeds
    ]


def _load_files(design: Design, seed: int, number: int) -> dict[str, bytes]:
    return capture(
        design.server,
        run(design, seed),
        base(number),
        every_s=design.every_s,
        noise=design.noise,
        access=design.access,
        seed=seed,
    )


def _process() -> list[Incident]:
    return [
        _incident(
            design.name,
            design,
            seed,
            design.cause,
            generated_process.because(design, seed),
            partial(generated_process.files, design, seed, 100 + 2 * number + seed % 2),
            # The watchdog's SIGQUIT after a hang is a crash too.
            also=("crash",) if design.name == "hang-until-the-watchdog" else (),
        )
        for number, design in enumerate(generated_process.DESIGNS)
        for seed in design.seeds
    ]


def _bare() -> list[Incident]:
    return [
        _incident(
            case.name,
            case.design,
            seed,
            "insufficient_data",
            case.because,
            partial(case.make, case.design, seed, 150 + 2 * number + seed % 2),
            files=case.files,
        )
        for number, case in enumerate(generated_bare.CASES)
        for seed in case.seeds
    ]


def _incident(
    name: str,
    design: Design,
    seed: int,
    cause: Cause,
    because_of: str,
    make: Callable[[], dict[str, bytes]],
    *,
    files: tuple[str, ...] = (LOG, METRICS, CLIENTS),
    also: tuple[Cause, ...] = (),
) -> Incident:
    version = FULL_VERSIONS.get(design.server.version, design.server.version)
    kinds = {kind: tuple(f for f in files if f == file) for kind, file in (("logs", LOG), ("metrics", METRICS), ("clients", CLIENTS))}
    return Incident(
        case_name(name, seed), cause, "generated", design.engine, version, seed, split_of(seed), because_of, make, also=also, **kinds
    )


def main() -> None:
    """Work the figures out again."""
    FIGURES.parent.mkdir(exist_ok=True)
    found = {case_name(d.name, seed): figures(d, seed) for d in DESIGNS for seed in d.seeds}
    FIGURES.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
