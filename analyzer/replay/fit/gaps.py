"""What SGLang did between two lines of its log: a fixed number of decode steps, and the prefills printed in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from analyzer.replay.fit.line import STAMP_S, Line, idle
from analyzer.replay.fit.seen import Spans
from analyzer.replay.fit.work import Work, joined
from analyzer.replay.settings import Sglang

# So long a stretch is told well enough by stamps of whole seconds.
_JOINED_S = 20.0
_FULL = 0.9
_JOINED_STEPS = 10


@dataclass(frozen=True, slots=True)
class _Gap:
    work: Work
    even: bool  # decode steps of one batch and nothing else: then the throughput tells their seconds


def between_decode_lines(lines: Sequence[Line], interval: float, flight: Spans | None) -> tuple[list[Work], list[Work]]:
    """(rows to fit to, rows that follow one another) of all gaps in which the engine worked without a break."""
    gaps = _gaps(lines, interval)
    if _fine(lines):
        rows = [g.work for g in gaps if g.work.seconds > 0 and not idle(g.work, flight, 0.0)]
        return rows, rows
    long = [row for row in _long(gaps) if not idle(row, flight, STAMP_S)]
    return [g.work for g in gaps if g.even] + long, long


def prefill_steps(lines: Sequence[Line], settings: Sglang) -> list[Work]:
    """Full prefill steps that followed one another, ten a row; the later of two lines prints the throughput since the one before."""
    chunk = settings.chunked_prefill_tokens or settings.max_prefill_tokens
    out: list[Work] = []
    held: list[Work] = []
    for before, line in pairwise(lines):
        # with requests waiting behind a full step, the next one prefills too
        if (
            before.kind != "prefill"
            or line.kind != "prefill"
            or not before.waiting
            or before.new_tokens < _FULL * chunk
            or not line.prompt_tps
        ):
            continue
        step = line if line.own_tps else before
        seconds = step.new_tokens / line.prompt_tps
        if seconds <= 0:
            continue
        held.append(Work(line.at_s - seconds, line.at_s, seconds, 1.0, float(step.new_tokens), float(max(1, step.new_seqs)), 1.0))
        if len(held) >= _JOINED_STEPS:
            out.append(joined(held))
            held = []
    return out


def _fine(lines: Sequence[Line]) -> bool:
    """Whether most stamps show parts of a second."""
    parts = [abs(x.at_s - lines[0].at_s - round(x.at_s - lines[0].at_s)) > 1e-3 for x in lines]
    return sum(parts) > len(parts) / 2


def _gaps(lines: Sequence[Line], interval: float) -> list[_Gap]:
    out = []
    before: Line | None = None
    prefills: list[Line] = []
    for line in lines:
        if line.kind == "prefill":
            prefills.append(line)
        elif line.kind == "decode":
            if before is not None and line.gen_tps and line.gen_tps_told and line.running and before.running:
                even = not prefills and line.running == before.running
                out.append(_Gap(_work(before, line, prefills, interval, even), even))
            before, prefills = line, []
    return out


def _work(before: Line, line: Line, prefills: Sequence[Line], interval: float, even: bool) -> Work:
    made = interval * ((before.running or 0.0) + (line.running or 0.0)) / 2
    seconds = made / line.gen_tps if even and line.gen_tps else line.at_s - before.at_s
    return Work(
        start_s=line.at_s - seconds if even else before.at_s,
        end_s=line.at_s,
        seconds=seconds,
        steps=interval + len(prefills),
        tokens=made + sum(p.new_tokens for p in prefills),
        requests=made + sum(max(1, p.new_seqs) for p in prefills),
        prefills=float(len(prefills)),
        # each prompt's tokens see those of it that came before, and what of it was cached
        attended=sum(p.new_tokens * (p.new_tokens / 2 + p.cached_tokens) / max(1, p.new_seqs) for p in prefills),
        kv_tokens=interval * (before.kv_tokens + line.kv_tokens) / 2,
    )


def _long(gaps: Sequence[_Gap]) -> list[Work]:
    """Gaps in a row as stretches that are long against a time stamp."""
    out: list[Work] = []
    held: list[Work] = []
    for gap in gaps:
        work = gap.work
        if held and work.start_s > held[-1].end_s + STAMP_S:
            held = []
        held.append(work)
        whole = joined(held)
        if whole.end_s - whole.start_s >= _JOINED_S:
            out.append(_stamped(whole))
            held = []
    return out


def _stamped(row: Work) -> Work:
    return Work(
        row.start_s, row.end_s, row.end_s - row.start_s, row.steps, row.tokens, row.requests, row.prefills, row.attended, row.kv_tokens
    )
