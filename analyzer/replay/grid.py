"""The what-ifs that are tried without being asked for: each knob on its own, around what it is now."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.errors import KvpmError
from analyzer.language import _
from analyzer.replay.knobs import KNOBS, NAMES, Knob, applied, engine_of, title
from analyzer.replay.model import Case, Change

_FACTORS: dict[str, tuple[float, ...]] = {
    "l1_tokens": (0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 2.0),
    "l2_tokens": (0.0, 1.0, 2.0),
    "max_running": (0.5, 2.0),
    "conservativeness": (0.5, 1.5),
    "chunked_prefill_tokens": (0.5, 2.0),
    "step_tokens": (0.5, 2.0),
    "max_new_tokens": (0.5,),
    "arrival_rate": (0.5, 0.75, 0.9, 1.1, 1.25),
}
# Of what clients may ask for, what they use: a cap there is worth a try when it is less than this share.
_WORTH_ASKING = 0.8


def grid(case: Case) -> tuple[tuple[tuple[Change, ...], ...], tuple[str, ...]]:
    """The what-ifs for `case`, and in words what was left out and why."""
    engine = engine_of(case.settings)
    tried: list[tuple[Change, ...]] = []
    skipped: list[str] = []
    for knob in KNOBS.values():
        if engine not in knob.flags:
            skipped.append(_("{knob}: no setting of {engine}", knob=title(knob.name), engine=NAMES[engine]))
            continue
        changes, why = _changes(knob, case)
        if why:
            skipped.append(f"{title(knob.name)}: {why}")
        for change in changes:
            try:
                applied((change,), case.workload, case.settings)
            except KvpmError as error:
                skipped.append(f"{title(knob.name)}: {error.message}")
            else:
                tried.append((change,))
    return tuple(tried), tuple(skipped)


def _changes(knob: Knob, case: Case) -> tuple[tuple[Change, ...], str]:
    now = knob.now(case.workload, case.settings)
    if knob.name == "prefix_sharing":
        return (Change(knob.name, 0.0 if now else 1.0, times=False),), ""
    if knob.name == "l2_tokens" and not now:
        # as large as L1, and twice that: what one would begin with
        return tuple(Change(knob.name, n * float(case.settings.l1_tokens), times=False) for n in (1, 2)), ""
    if now is None:
        return (), _("not set here")
    return (*(Change(knob.name, f, times=True) for f in _FACTORS[knob.name]), *_as_used(knob, case, now)), ""


def _as_used(knob: Knob, case: Case, now: float) -> Iterator[Change]:
    """Answers capped where the longest one ended: nothing is cut off, and nothing is reserved in vain."""
    if knob.name == "max_new_tokens":
        longest = max(r.output_tokens for r in case.workload.requests)
        if longest < _WORTH_ASKING * now:
            yield Change(knob.name, float(longest), times=False)
