"""How often the verdict is right: every labelled incident, whole and with inputs taken away, through the public API.

Run it as `python tests/incidents/accuracy.py`. It prints a confusion matrix and what is wrong, and exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import fnmatch
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from cases import all_incidents
from incident import Incident
from judging import FAILED, RIGHT, UNKNOWN, WEAKER, WRONG, Outcome, outcomes
from variants import BARE, VARIANTS, WHOLE

from analyzer.diagnosis.model import Cause

CAUSES: tuple[str, ...] = get_args(Cause)
SCORE_BAR = 0.95
SPLITS = (("tune", "thresholds were set on these"), ("score", "and are judged on these"), ("together", "both"))

HOW_TO_READ = """\
Every case is an incident whose cause is known without the tool: an engine's own scheduler or a model of it was run again with one thing
changed, a server was recorded while the cause was made, or the cause was put there. The column "how it is known" gives the figures.
Cases with an odd seed ("tune") may be looked at when a threshold is chosen, those with an even one ("score") only tell how good it is.
A row of the matrix is a true cause, a column is a verdict; what is not on the diagonal is a mistake. Where two causes are as right, either
counts as the first. The cases are made up or small: they show that causes are told apart, not how often an incident of yours will be.

A capture is seldom whole, so each case is asked again with its metrics gone, with its log gone, with only the middle third of its time,
and with nothing but start-up and access lines. "Weaker" is `insufficient_data`, or another cause with low confidence: the
tool says that it does not know. It is also `none` for a stretch of time in which clients saw no trouble. "WRONG" is another cause with
medium or high confidence, and there may be none. Start-up and access lines cannot tell, so there anything but `insufficient_data` is
WRONG."""


def run(cases: Sequence[Incident], variants: Sequence[str]) -> list[Outcome]:
    """All verdicts, on as many processes as there are cores. Each case is told on standard error when it is done."""
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        found: list[Outcome] = []
        for number, done in enumerate(pool.imap(partial(_one, variants=tuple(variants)), [c.name for c in cases]), 1):
            found += done
            told = ", ".join(f"{o.variant}: {o.cause} ({o.judged})" for o in done)
            print(f"{number}/{len(cases)} {cases[number - 1].name}: {told}", file=sys.stderr, flush=True)
    return found


def _one(name: str, variants: Sequence[str]) -> list[Outcome]:
    case = next(c for c in all_incidents() if c.name == name)
    return outcomes(case, case.files(), variants)


# -- counting


def matrix(cases: Sequence[Incident], found: Iterable[Outcome]) -> Counter[tuple[str, str]]:
    """Whole cases by true cause and verdict. A cause that is as right counts as the true one."""
    known = {c.name: c for c in cases}
    counts: Counter[tuple[str, str]] = Counter()
    for outcome in found:
        if outcome.variant == WHOLE and outcome.case in known:
            truth = known[outcome.case].cause
            counts[truth, truth if outcome.judged == RIGHT else outcome.cause] += 1
    return counts


def share_right(counts: Counter[tuple[str, str]]) -> float | None:
    """The share on the diagonal; None without a case."""
    total = sum(counts.values())
    return sum(n for (truth, cause), n in counts.items() if truth == cause) / total if total else None


def by_variant(found: Iterable[Outcome]) -> dict[str, Counter[str]]:
    """How the verdicts on each variant were judged."""
    counts = {variant: Counter[str]() for variant in VARIANTS}
    for outcome in found:
        counts[outcome.variant][outcome.judged] += 1
    return {variant: judged for variant, judged in counts.items() if judged}


def missed_bars(cases: Sequence[Incident], found: Sequence[Outcome]) -> list[str]:
    """What is not as it has to be, one line each."""
    known, missed = {c.name: c for c in cases}, []
    whole = [o for o in found if o.variant == WHOLE]
    false_l1 = [o.case for o in whole if o.judged != RIGHT and o.cause == "l1_bound" and o.confidence != "low"]
    if false_l1:
        missed.append(f"called l1_bound with another cause: {', '.join(false_l1)}")
    share = share_right(matrix([c for c in cases if c.split == "score"], found))
    if share is not None and share < SCORE_BAR:
        missed.append(f"{share:.1%} of the score cases are right, {SCORE_BAR:.0%} have to be")
    bare = [o.case for o in found if o.variant == BARE and o.cause != UNKNOWN]
    bare += [o.case for o in whole if known[o.case].cause == UNKNOWN and o.judged != RIGHT]
    if bare:
        missed.append(f"a cause without a signal: {', '.join(bare)}")
    wrong = [f"{o.case} ({o.variant})" for o in found if o.variant not in (WHOLE, BARE) and o.judged == WRONG]
    if wrong:
        missed.append(f"WRONG with less to go by: {', '.join(wrong)}")
    return missed


# -- printing


def told(cases: Sequence[Incident], found: Sequence[Outcome]) -> str:
    """The page of the terminal."""
    lines = []
    for split, _ in SPLITS:
        counts = matrix(_of(cases, split), found)
        share = share_right(counts)
        if share is not None:
            lines += [f"{split}: {sum(counts.values())} cases, {share:.1%} right (rows: truth, columns: verdict)", *_grid(counts), ""]
    lines += _not_right(cases, found)
    for variant, judged in by_variant(found).items():
        lines.append(f"{variant:<28}" + "  ".join(f"{judged[j]:>4} {j}" for j in (RIGHT, WEAKER, WRONG)))
    return "\n".join(lines)


def _of(cases: Sequence[Incident], split: str) -> list[Incident]:
    return [c for c in cases if split in (c.split, "together")]


def _axes(counts: Counter[tuple[str, str]]) -> tuple[list[str], list[str]]:
    rows = [c for c in CAUSES if any(truth == c for truth, _ in counts)]
    return rows, [c for c in (*CAUSES, FAILED) if c in rows or any(cause == c for _, cause in counts)]


def _grid(counts: Counter[tuple[str, str]]) -> list[str]:
    rows, columns = _axes(counts)
    lines = [" " * 20 + " ".join(f"{c[:9]:>9}" for c in columns)]
    return lines + [f"{row:<20}" + " ".join(f"{counts[row, c] or '.':>9}" for c in columns) for row in rows]


def _not_right(cases: Sequence[Incident], found: Sequence[Outcome]) -> list[str]:
    known, lines = {c.name: c for c in cases}, []
    for outcome in found:
        if outcome.judged == WRONG or (outcome.variant == WHOLE and outcome.judged != RIGHT):
            case = known[outcome.case]
            lines.append(f"{case.name} [{outcome.variant}]: {case.cause}, not {outcome.cause} ({outcome.confidence})")
            lines += [f"    known: {case.because}", f"    told:  {outcome.sentence}"]
    return [*lines, ""] if lines else []


def page(cases: Sequence[Incident], found: Sequence[Outcome]) -> str:
    """docs/accuracy.md."""
    lines = ["# How often the verdict is right", "", "Written by `make accuracy`; do not edit.", "", HOW_TO_READ, ""]
    lines += ["## Confusion matrix", ""]
    for split, words in SPLITS:
        counts = matrix(_of(cases, split), found)
        rows, columns = _axes(counts)
        lines += [f"{split.capitalize()} ({words}): {sum(counts.values())} cases, {share_right(counts) or 0:.1%} right.", ""]
        lines += ["| truth \\ verdict | " + " | ".join(f"`{c}`" for c in columns) + " |", "|---|" + "---:|" * len(columns)]
        lines += [f"| `{row}` | " + " | ".join(str(counts[row, c] or "") for c in columns) + " |" for row in rows]
        lines.append("")
    lines += ["## With less to go by", "", "| variant | right | weaker | WRONG |", "|---|---:|---:|---:|"]
    for variant, judged in by_variant(found).items():
        lines.append(f"| {variant} | " + " | ".join(str(judged[j]) for j in (RIGHT, WEAKER, WRONG)) + " |")
    lines += [
        "",
        "## Cases",
        "",
        "| case | engine | split | cause | how it is known | verdict | confidence |",
        "|---|---|---|---|---|---|---|",
    ]
    whole = {o.case: o for o in found if o.variant == WHOLE}
    for case in cases:
        outcome = whole[case.name]
        mark = "" if outcome.judged == RIGHT else " (not right)"
        also = "".join(f" or `{cause}`" for cause in case.also)
        lines.append(
            f"| {case.name} | {case.engine} {case.version} | {case.split} | `{case.cause}`{also} | {_cell(case.because)} "
            f"| `{outcome.cause}`{mark} | {outcome.confidence} |"
        )
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and say with the exit code whether all bars were met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--case", default="*", help="only cases whose name has this in it, or matches it as a pattern")
    parser.add_argument("--variant", action="append", choices=list(VARIANTS), help="only this variant (may be repeated)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the result as Markdown; needs all cases and variants")
    options = parser.parse_args(arguments)
    if options.write and (options.case != "*" or options.variant):
        parser.error("--write needs all cases and variants")
    cases = [c for c in all_incidents() if options.case in c.name or fnmatch.fnmatch(c.name, options.case)]
    if not cases:
        parser.error(f"no case matches {options.case}")
    found = run(cases, options.variant or list(VARIANTS))
    print(told(cases, found))
    missed = missed_bars(cases, found)
    if options.write:
        options.write.write_text(page(cases, found), encoding="utf-8")
    print("\n".join(f"MISSED: {bar}" for bar in missed) or "All bars are met.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
