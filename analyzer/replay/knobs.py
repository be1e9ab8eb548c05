"""What can be set differently in a replay: each knob by name, what it is now, and how it changes settings or workload.

A change is written `l1_tokens=x1.25` (times what it is now) or `l1_tokens=200k` (as it shall be); several of one replay are joined with
commas.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from analyzer.errors import KvpmError
from analyzer.language import N_, _
from analyzer.replay.model import Change
from analyzer.replay.settings import L2, Engine, Settings, Sglang, Vllm
from analyzer.replay.workload import Workload

# What an L2 is taken to load where there was none to be measured: 20 GB/s at 128 KiB a token.
ASSUMED_LOAD_TOKENS_PER_S = 150_000.0
# As for the lengths of `kvpm capacity`: 32k is what model cards mean by it.
_SIZES = {"": 1, "k": 1024, "m": 1024**2}
_VALUE = re.compile(r"(?P<times>[x×*])?(?P<number>\d+(?:\.\d*)?|\.\d+)(?P<size>[kKmM]?)")
# More than any server has, of tokens, requests or requests per second; a replay of it would say nothing.
_MOST = 2.0**40
_MOST_TIMES = 1e6
_WORDS = {"off": 0.0, "on": 1.0}

State = tuple[Workload, Settings]


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing to change.

    `flags` are what the engines call it; one that is not among them has no such knob. `helps` is the direction in which first tokens
    usually come sooner: 1 up, -1 down, 0 either. `now` is its present value, None where there is none to multiply; `put` sets another one.
    `least` is the least value, `lowest` and `highest` bound a search, as factors of the present value; `whole` values are whole numbers.
    """

    name: str
    title: str
    unit: str
    flags: dict[Engine, str]
    helps: int
    now: Callable[[Workload, Settings], float | None]
    put: Callable[[Workload, Settings, float], State]
    least: float = 1.0
    lowest: float = 1 / 16
    highest: float = 16.0
    whole: bool = True


def parse(text: str) -> tuple[Change, ...]:
    """The changes of one what-if, as typed after --set. Raises KvpmError for what is none."""
    changes = tuple(_change(part.strip()) for part in text.split(","))
    names = [c.knob for c in changes]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise KvpmError(f"{text!r} changes {twice} twice", hint="give each what-if a --set of its own")
    return changes


def _change(part: str) -> Change:
    name, equals, value = part.partition("=")
    name, value = name.strip(), value.strip().lower()
    if not equals or not value:
        raise KvpmError(f"{part!r} is not KNOB=VALUE", hint="for example l1_tokens=x1.25 or l1_tokens=200k")
    knob = named(name)
    if knob.name == "prefix_sharing":
        if value not in _WORDS:
            raise KvpmError(f"{name} is {value!r}", hint=f"{name}=off or {name}=on")
        return Change(name, _WORDS[value], times=False)
    found = _VALUE.fullmatch(value)
    if found is None:
        raise KvpmError(
            f"{name} cannot be {value[:60]!r}", hint=f"{name}=x1.25 is 1.25 times what it is, {name}={_example(knob)} an amount"
        )
    times = found["times"] is not None
    if times and found["size"]:
        raise KvpmError(f"{name} cannot be {value[:60]!r}", hint=f"a factor is a plain number, as in {name}=x2")
    amount = float(found["number"]) * _SIZES[found["size"].lower()]
    if amount > (_MOST_TIMES if times else _MOST):
        most = f"{_MOST_TIMES:,.0f} times what it is" if times else f"{_MOST:,.0f}"
        raise KvpmError(f"{name} cannot be {value[:60]!r}", hint=f"it is at most {most}")
    if knob.whole and not times and amount != int(amount):
        raise KvpmError(f"{name} cannot be {value[:60]!r}", hint=f"it is a whole number: {name}={math.ceil(amount)}")
    return Change(name, amount, times=times)


def _example(knob: Knob) -> str:
    """An amount of a knob, as typed."""
    return "200k" if knob.unit == "tokens" else "64" if knob.whole else "0.5"


def named(name: str) -> Knob:
    """The knob of that name. Raises KvpmError where there is none."""
    knob = KNOBS.get(name)
    if knob is None:
        raise KvpmError(f"there is no knob {name!r}", hint="there are " + ", ".join(KNOBS))
    return knob


def engine_of(settings: Settings) -> Engine:
    """The engine that settings are of."""
    return "sglang" if isinstance(settings, Sglang) else "vllm"


def applied(changes: Sequence[Change], workload: Workload, settings: Settings) -> State:
    """Workload and settings with all `changes` made. Raises KvpmError where a knob is not the engine's, or cannot be so."""
    for change in changes:
        knob = named(change.knob)
        value = target(change, workload, settings)
        workload, settings = knob.put(workload, settings, value)
    if (
        isinstance(settings, Vllm)
        and settings.step_tokens < settings.max_running
        and any(c.knob in ("step_tokens", "max_running") for c in changes)
    ):
        raise KvpmError(
            f"a budget of {settings.step_tokens} tokens a step is less than the {settings.max_running} requests that may run",
            hint="vLLM does not start so: change step_tokens and max_running together, joined with a comma",
        )
    return workload, settings


def target(change: Change, workload: Workload, settings: Settings) -> float:
    """The value that a change asks for, in the knob's unit. Raises KvpmError as `applied` does."""
    knob = named(change.knob)
    engine = engine_of(settings)
    if engine not in knob.flags:
        raise KvpmError(f"{knob.name} is no setting of {NAMES[engine]}", hint=f"it is one of {NAMES[next(iter(knob.flags))]}")
    value = change.value
    if change.times:
        now = knob.now(workload, settings)
        if now is None:
            raise KvpmError(f"{change.text}: there is no {knob.name} to multiply", hint=f"give an amount: {knob.name}=200k")
        value *= now
    step = grain(knob, settings)
    least = max(knob.least, step) if knob.least else 0.0
    # a hair below a whole number is one: 0.1 x 30 is not 2.9999
    value = math.floor(value / step + 1e-9) * step if step else value
    if value < least:
        raise KvpmError(f"{change.text} comes to {value:g}", hint=f"{knob.name} is at least {least:g}")
    if change.times and change.value != 1 and value == knob.now(workload, settings):
        unit = f" {knob.unit}" if knob.unit else ""
        raise KvpmError(
            f"{change.text} changes nothing: it is {value:g}{unit}, and can be set in steps of {step:g}",
            hint=f"give a larger change, or an amount: {knob.name}={value + step:g}",
        )
    return value


def grain(knob: Knob, settings: Settings) -> float:
    """The steps in which a knob can be set: pages, blocks, ones; 0 where any number will do."""
    if knob.name in ("l1_tokens", "l2_tokens"):
        return settings.block_tokens if isinstance(settings, Vllm) else settings.page_tokens
    return 1 if knob.whole else 0


def factor(change: Change, workload: Workload, settings: Settings) -> float | None:
    """How many times the present value a change is; None where there is none."""
    if change.times:
        return change.value
    now = named(change.knob).now(workload, settings)
    return change.value / now if now else None


NAMES: dict[Engine, str] = {"sglang": "SGLang", "vllm": "vLLM"}


def _l1(workload: Workload, settings: Settings, value: float) -> State:
    if isinstance(settings, Vllm):
        # the null block is none of the pool
        return workload, replace(settings, num_blocks=int(value) // settings.block_tokens + 1)
    return workload, replace(settings, l1_tokens=int(value))


def _l2(workload: Workload, settings: Settings, value: float) -> State:
    if settings.l2 is not None:
        return workload, replace(settings, l2=replace(settings.l2, capacity_tokens=int(value)))
    block = settings.block_tokens if isinstance(settings, Vllm) else settings.page_tokens
    return workload, replace(settings, l2=L2(int(value), ASSUMED_LOAD_TOKENS_PER_S, block))


def _cap(workload: Workload, settings: Settings, value: float) -> State:
    return workload, replace(settings, max_running=int(value))


def _conservativeness(workload: Workload, settings: Settings, value: float) -> State:
    assert isinstance(settings, Sglang)
    return workload, replace(settings, conservativeness=value)


def _chunk(workload: Workload, settings: Settings, value: float) -> State:
    assert isinstance(settings, Sglang)
    tokens = int(value)
    if 0 < tokens < settings.page_tokens:
        raise KvpmError(f"a chunk of {tokens} tokens is less than a page", hint=f"pages are of {settings.page_tokens} tokens")
    return workload, replace(settings, chunked_prefill_tokens=tokens or None)


def _step(workload: Workload, settings: Settings, value: float) -> State:
    assert isinstance(settings, Vllm)
    return workload, replace(settings, step_tokens=int(value))


def _answer_cap(workload: Workload, settings: Settings, value: float) -> State:
    most = int(value)
    cut = (replace(r, output_tokens=min(r.output_tokens, most), max_new_tokens=min(r.max_new_tokens, most)) for r in workload.requests)
    return replace(workload, requests=tuple(cut)), settings


def _rate(workload: Workload, settings: Settings, value: float) -> State:
    now = _present_rate(workload, settings)
    if now is None:
        raise KvpmError("all requests arrived at once: there is no rate to change", hint="leave arrival_rate alone")
    closer = (replace(r, arrival_s=r.arrival_s * now / value) for r in workload.requests)
    return replace(workload, requests=tuple(closer)), settings


def _sharing(workload: Workload, settings: Settings, value: float) -> State:
    return workload, replace(settings, prefix_caching=value > 0)


def _present_rate(workload: Workload, settings: Settings) -> float | None:
    return len(workload.requests) / workload.duration_s if workload.duration_s > 0 else None


KNOBS: dict[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob(
            "l1_tokens", N_("L1"), "tokens", {"sglang": "--mem-fraction-static", "vllm": "--gpu-memory-utilization"}, 1,
            lambda w, s: s.l1_tokens, _l1,
        ),
        Knob(
            "l2_tokens", N_("L2"), "tokens", {"sglang": "--hicache-ratio, --hicache-size", "vllm": "--kv-offloading-size"}, 1,
            lambda w, s: None if s.l2 is None else s.l2.capacity_tokens, _l2, least=0.0,
        ),
        Knob(
            "max_running", N_("running cap"), "requests", {"sglang": "--max-running-requests", "vllm": "--max-num-seqs"}, 1,
            lambda w, s: s.max_running, _cap,
        ),
        Knob(
            "conservativeness", N_("conservativeness"), "", {"sglang": "--schedule-conservativeness"}, 0,
            lambda w, s: s.conservativeness if isinstance(s, Sglang) else None, _conservativeness, least=0.01, whole=False,
        ),
        Knob(
            "chunked_prefill_tokens", N_("prefill chunk"), "tokens", {"sglang": "--chunked-prefill-size"}, 0,
            lambda w, s: s.chunked_prefill_tokens if isinstance(s, Sglang) else None, _chunk, least=0.0,
        ),
        Knob(
            "step_tokens", N_("step budget"), "tokens", {"vllm": "--max-num-batched-tokens"}, 1,
            lambda w, s: s.step_tokens if isinstance(s, Vllm) else None, _step,
        ),
        Knob(
            "max_new_tokens", N_("longest answer"), "tokens", {"sglang": "max_new_tokens", "vllm": "max_tokens"}, -1,
            lambda w, s: max((r.max_new_tokens for r in w.requests), default=None), _answer_cap,
        ),
        Knob(
            "arrival_rate", N_("arrival rate"), "requests/s", {"sglang": "", "vllm": ""}, -1, _present_rate, _rate, least=1e-9, whole=False,
        ),
        Knob(
            "prefix_sharing", N_("prefix sharing"), "", {"sglang": "--disable-radix-cache", "vllm": "--enable-prefix-caching"}, 1,
            lambda w, s: float(s.prefix_caching), _sharing, least=0.0,
        ),
    )
}  # fmt: skip


def title(knob: str) -> str:
    """What a knob is called, in the language of the moment."""
    return _(named(knob).title)
