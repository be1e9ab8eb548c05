"""The least change of one knob that meets a goal: `ttft_p99<2s` by `l1_tokens`.

Schedulers are not monotonic: one block more can be a preemption more. So a value counts only if those a little further meet the goal too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from analyzer.errors import KvpmError
from analyzer.language import _
from analyzer.replay import knobs, words
from analyzer.replay.knobs import Knob
from analyzer.replay.model import Case, Change, GoalAnswer, Outcome, WhatIf
from analyzer.report import fmt

# Replays of a set of changes each, in the order asked for.
Evaluate = Callable[[Sequence[tuple[Change, ...]]], list[WhatIf]]

_GOAL = re.compile(r"\s*(?P<key>ttft_p50|ttft_p99)\s*(?P<less><=?)\s*(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>ms|s|min)?\s*")
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}
# Tried at once, as factors of the present value in the direction that helps; the answer lies before the first that meets the goal.
_LADDER = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0)
# A value is found when it is this near to one that does not meet the goal.
_NEAR = 1.02
# What lies this much further has to meet the goal too.
_FURTHER = (1.02, 1.05, 1.1)
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Goal:
    """A percentile of TTFT, in seconds, that shall not be reached (or, with `or_equal`, not be passed)."""

    key: Literal["ttft_p50", "ttft_p99"]
    seconds: float
    or_equal: bool

    @property
    def text(self) -> str:
        """As it is typed."""
        return f"{self.key}{'<=' if self.or_equal else '<'}{self.seconds:g}s"

    @property
    def percentile(self) -> str:
        """`P99 TTFT`."""
        return "P50 TTFT" if self.key == "ttft_p50" else "P99 TTFT"

    def of(self, outcome: Outcome) -> float | None:
        """What the goal is about, of one replay."""
        return outcome.ttft_p50_s if self.key == "ttft_p50" else outcome.ttft_p99_s

    def met(self, outcome: Outcome) -> bool:
        """False too where nothing came of it."""
        value = self.of(outcome)
        return value is not None and (value <= self.seconds if self.or_equal else value < self.seconds)


def parse(text: str) -> Goal:
    """A goal as typed after --goal. Raises KvpmError for what is none."""
    found = _GOAL.fullmatch(text.lower())
    if found is None:
        raise KvpmError(f"{text!r} is no goal", hint="for example ttft_p99<2s, ttft_p50<=500ms")
    seconds = float(found["number"]) * _UNITS[found["unit"] or "s"]
    if seconds <= 0:
        raise KvpmError(f"{text!r} cannot be met", hint="give a time above 0")
    key: Literal["ttft_p50", "ttft_p99"] = "ttft_p50" if found["key"] == "ttft_p50" else "ttft_p99"
    return Goal(key, seconds, found["less"] == "<=")


def searched(name: str, case: Case) -> Knob:
    """The knob of that name, if one can search along it here. Raises KvpmError where not."""
    knob = knobs.named(name)
    if knob.name == "prefix_sharing":
        raise KvpmError("prefix_sharing is on or off: there is nothing to search", hint="--set prefix_sharing=off")
    engine = knobs.engine_of(case.settings)
    if engine not in knob.flags:
        raise KvpmError(f"{name} is no setting of {knobs.NAMES[engine]}", hint="search by another knob, such as l1_tokens")
    if not _present(knob, case):
        raise KvpmError(f"{name} is not set here: there is nothing to start from", hint=f"try a value: --set {name}=4k")
    return knob


def search(
    goal: Goal, knob: Knob, case: Case, unchanged: WhatIf, evaluate: Evaluate, *, bytes_per_token: float | None = None
) -> GoalAnswer:
    """The least change of `knob` that meets `goal`, as do those a little further. `unchanged` is the replay without a change."""
    if goal.met(unchanged.outcome):
        said = _("{goal} is met as it is: {value}.", goal=goal.text, value=words.seconds(goal.of(unchanged.outcome)))
        return GoalAnswer(goal.text, knob.name, None, knob.now(case.workload, case.settings), unchanged.outcome, (), said)
    sides = [_Side(goal, knob, case, up, evaluate) for up in ([True, False] if knob.helps == 0 else [knob.helps > 0])]
    found = [(side, least) for side in sides if (least := side.least()) is not None]
    tried = tuple(w for side in sides for w in side.tried.values())
    if not found:
        return GoalAnswer(goal.text, knob.name, None, None, None, tried, _none(goal, knob, sides, tried, unchanged, case))
    side, least = min(found, key=lambda f: abs(math.log(f[1] / f[0].now)))
    answer = side.tried[least]
    return GoalAnswer(
        goal.text,
        knob.name,
        answer.changes[0],
        least,
        answer.outcome,
        tried,
        _found(goal, knob, side, answer, least, case, bytes_per_token),
    )


def _present(knob: Knob, case: Case) -> float | None:
    """Where a search begins; an L2 that is not there is sought from one as large as L1."""
    now = knob.now(case.workload, case.settings)
    return float(case.settings.l1_tokens) if knob.name == "l2_tokens" and not now else now


class _Side:
    """The search in one direction. `tried` by absolute value; `uneven` is set where a value met the goal and one further did not."""

    def __init__(self, goal: Goal, knob: Knob, case: Case, up: bool, evaluate: Evaluate) -> None:
        now = _present(knob, case)
        assert now
        self.goal, self.knob, self.now, self.up = goal, knob, now, up
        self.tried: dict[float, WhatIf] = {}
        self.uneven = False
        self._evaluate = evaluate
        self._case = case
        self._grain = knobs.grain(knob, case.settings)
        self._begin = 1.0 if knob.now(case.workload, case.settings) else 0.0

    def least(self) -> float | None:
        """The value nearest to the present one that meets the goal, as do those a little further; None where none in the range does."""
        ladder = self._values([self.now * (f if self.up else 1 / f) for f in (*((1.0,) if not self._begin else ()), *_LADDER)])
        self._try(ladder)
        before: float | None = self.now if self._begin else None
        for at, value in enumerate(ladder):
            if self._meets(value) and all(map(self._meets, ladder[at : at + 2])):
                return value if before is None else self._between(before, value)
            self.uneven = self.uneven or self._meets(value)
            before = value
        return None

    def _between(self, fails: float, meets: float) -> float:
        """The least value that holds between one that fails and one that meets the goal."""
        for _round in range(_ROUNDS):
            found = self._bisected(fails, meets)
            further = [v for v in self._values([found * (f if self.up else 1 / f) for f in _FURTHER]) if self._before(v, meets)]
            self._try(further)
            broken = [v for v in further if not self._meets(v)]
            if not broken:
                return found
            self.uneven = True
            fails = broken[-1]
        return meets

    def _bisected(self, fails: float, meets: float) -> float:
        while max(fails, meets) / min(fails, meets) > _NEAR:
            values = self._values([math.sqrt(fails * meets)])
            if not values or values[0] in (fails, meets):
                break
            self._try(values)
            if self._meets(values[0]):
                meets = values[0]
            else:
                fails = values[0]
        return meets

    def _values(self, wanted: Sequence[float]) -> list[float]:
        """Those that can be set, each once, in the order of the search."""
        values: list[float] = []
        for value in wanted:
            # upwards to whole pages, blocks or requests, so that what was asked for is there
            value = math.ceil(value / self._grain - 1e-9) * self._grain if self._grain else value
            factor = value / self.now
            if self.knob.lowest <= factor <= self.knob.highest and value not in values and self._can_be(value):
                values.append(value)
        return [v for v in values if v != self.now or not self._begin]

    def _can_be(self, value: float) -> bool:
        try:
            knobs.applied((Change(self.knob.name, value, times=False),), self._case.workload, self._case.settings)
        except KvpmError:
            return False
        return value > 0

    def _try(self, values: Sequence[float]) -> None:
        new = [v for v in values if v not in self.tried]
        self.tried.update(zip(new, self._evaluate([(Change(self.knob.name, v, times=False),) for v in new]), strict=True))

    def _meets(self, value: float) -> bool:
        return self.goal.met(self.tried[value].outcome)

    def _before(self, value: float, other: float) -> bool:
        return value < other if self.up else value > other


def _found(goal: Goal, knob: Knob, side: _Side, answer: WhatIf, value: float, case: Case, bytes_per_token: float | None) -> str:
    told = [
        _(
            "{change} meets {goal}: {value}.",
            change=words.setting(answer.changes, case),
            goal=goal.text,
            value=words.seconds(goal.of(answer.outcome)),
        )
    ]
    now = knob.now(case.workload, case.settings)
    if knob.name in ("l1_tokens", "l2_tokens") and bytes_per_token and now is not None:
        told.append(_("That is {size} more.", size=fmt.size((value - now) * bytes_per_token)))
    if side.uneven:
        told.append(_("Not every larger change meets it too.") if side.up else _("Not every change further down meets it too."))
    if not answer.trusted:
        told.append(_("Not to be relied on: {why}.", why=answer.why_not))
    return fmt.sentences(told)


def _none(goal: Goal, knob: Knob, sides: Sequence[_Side], tried: Sequence[WhatIf], unchanged: WhatIf, case: Case) -> str:
    values = [v for side in sides for v in side.tried]
    if not values:
        return _("{knob} cannot be changed any further in the direction that helps.", knob=knobs.title(knob.name))
    best = min((v for w in (*tried, unchanged) if (v := goal.of(w.outcome)) is not None), default=None)
    told = _(
        "No {knob} from {low} to {high} meets {goal}: {percentile} is {best} at best.",
        knob=knobs.title(knob.name),
        low=words.amount(knob.name, min(values)),
        high=words.amount(knob.name, max(values)),
        goal=goal.text,
        percentile=goal.percentile,
        best=words.seconds(best),
    )
    untrusted = next((w.why_not for w in tried if w.why_not), "") if tried and not any(w.trusted for w in tried) else ""
    return fmt.sentences([told, *([_("Not to be relied on: {why}.", why=untrusted)] if untrusted else [])])
