"""A workload file through the engine's model, with every step and request written as the engine's own scheduler would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analyzer.language import _
from analyzer.replay import words
from analyzer.replay.as_json import finite
from analyzer.replay.bare import bare_case
from analyzer.replay.model import Outcome
from analyzer.replay.oracle_files import OracleWorkload, request_rows
from analyzer.replay.outcome import outcome
from analyzer.replay.rows import rows_file
from analyzer.replay.run import replay
from analyzer.report import fmt


@dataclass(frozen=True, slots=True)
class OracleRun:
    """What a workload file came to. `steps` by kind where the engine tells one; `end_s` is when the last one ended."""

    engine: str
    requests: int
    steps: int
    end_s: float
    outcome: Outcome
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"schema_version": 1, **asdict(self), "outcome": finite(asdict(self.outcome))}


def run(read: OracleWorkload, steps: Path | None = None, requests: Path | None = None) -> OracleRun:
    """Serve a workload file's requests; `steps` and `requests` are files to write, JSON lines, packed if they end in .gz."""
    with ExitStack() as stack:
        # both are opened before the work: a name that cannot be written is told at once
        sinks: list[Callable[[dict[str, Any]], None]] = [stack.enter_context(rows_file(p)) for p in (steps, requests) if p is not None]
        replayed = replay(read.workload, read.settings, read.step_time, sink=sinks[0] if steps is not None else None)
        if requests is not None:
            for row in request_rows(read, replayed):
                sinks[-1](row)
    case = bare_case("", read.workload, read.settings, (), read.step_time)
    return OracleRun(
        engine=read.engine,
        requests=len(replayed.requests),
        steps=sum(replayed.curves.steps),
        end_s=replayed.end_s,
        outcome=outcome(replayed, case),
        notes=(*read.workload.notes, *_refusals(replayed.requests)),
    )


def _refusals(served: list[Any]) -> list[str]:
    counted = Counter(s.refused for s in served if s.refused)
    return [_("{n} can never be served: {why}", n=fmt.plural(n, "request"), why=why) for why, n in counted.items()]


def text(told: OracleRun) -> str:
    """A few lines for a terminal."""
    o = told.outcome
    rows = (
        (
            _("requests"),
            _(
                "{n}, {finished} finished, {open} without a first token, {never} that can never be served",
                n=fmt.number(told.requests),
                finished=fmt.number(o.finished),
                open=fmt.number(o.open),
                never=fmt.number(o.never),
            ),
        ),
        (_("steps"), _("{n} in {span}", n=fmt.number(told.steps), span=fmt.duration(told.end_s))),
        (_("P50 and P99 TTFT"), f"{words.seconds(o.ttft_p50_s)}, {words.seconds(o.ttft_p99_s)}"),
        (_("most waiting"), fmt.number(o.max_waiting)),
        (_("KV usage, mean and highest"), f"{fmt.share(o.mean_kv_usage)}, {fmt.share(o.max_kv_usage)}"),
        (_("retractions"), fmt.number(o.retractions)),
    )
    width = max(len(name) for name, _value in rows)
    return "".join(f"{name.ljust(width)}  {value}\n" for name, value in rows) + "".join(
        _("Note: {note}", note=n) + "\n" for n in told.notes
    )
