"""`kvpm replay`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from analyzer.cli.lang import lang_option
from analyzer.cli.options import input_options, opened, refuse_input, replay_progress
from analyzer.errors import ExitCode, KvpmError
from analyzer.reading import InputOptions
from analyzer.replay import goal as goals_of
from analyzer.replay import knobs, oracle_files, oracle_run
from analyzer.replay.as_json import document
from analyzer.replay.model import NoReplay, Study
from analyzer.replay.settings import Engine
from analyzer.replay.study import Asked, Given, study, study_file
from analyzer.replay.text import text
from analyzer.report.write import refuse_existing, write_report

_KNOBS = ", ".join(knobs.KNOBS)


@click.command()
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@input_options(window=False)
@click.option(
    "--server", metavar="NAME", help="Which server to replay, as kvpm diagnose names it; 'all' is each of them. Default: the worst one."
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KNOB=VALUE",
    help="One what-if: l1_tokens=x1.25 is 1.25 times what it is, l1_tokens=200k an amount (k is 1,024). Changes of one what-if are "
    f"joined with commas; repeat the option for more of them. Knobs: {_KNOBS}.",
)
@click.option(
    "--goal", "goals", multiple=True, metavar="GOAL", help="What shall be met: ttft_p99<2s, ttft_p50<=500ms. Needs --by. Repeatable."
)
@click.option("--by", metavar="KNOB", help="The knob whose least change that meets each --goal is sought.")
@click.option(
    "--grid/--no-grid",
    default=None,
    help="Try every knob around its present value, or only what --set and --goal ask for. Default: --grid, and --no-grid with --workload.",
)
@click.option(
    "--step-time",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A JSON file with how long steps take, in place of what the capture tells: base_s, token_s, request_s, ... in seconds.",
)
@click.option(
    "--settings",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A JSON file with the engine's settings, for an INPUT of requests without a server (Mooncake, Azure, BurstGPT).",
)
@click.option(
    "--engine", type=click.Choice(["sglang", "vllm"]), help="The engine that --settings or --workload are of. Default: what they tell."
)
@click.option(
    "--workload",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="In place of INPUT: a JSON file with config, cost and requests, as the engines' schedulers can be driven with.",
)
@click.option(
    "--steps",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --workload: write every step to this file, JSON lines (.gz: packed).",
)
@click.option("--requests", metavar="FILE", type=click.Path(path_type=Path), help="With --workload: write every request to this file.")
@click.option("--jobs", type=click.IntRange(1, 512), metavar="N", help="Replays at a time. Default: one a core.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@lang_option
def replay(
    inputs: tuple[str, ...],
    options: InputOptions,
    server: str | None,
    sets: tuple[str, ...],
    goals: tuple[str, ...],
    by: str | None,
    grid: bool | None,
    step_time: Path | None,
    settings: Path | None,
    engine: Engine | None,
    workload: Path | None,
    steps: Path | None,
    requests: Path | None,
    jobs: int | None,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> int:
    """Replay an incident through a model of the engine's scheduler: first as it was, then with one thing different.

    Says how well the replay with nothing changed fits what was recorded, and only then what more L1, more L2, another cap or less load
    would have changed.
    """
    _refuse_half(inputs, workload, steps, requests, goals, by)
    _refuse_names(output, steps, requests)
    asked = Asked(
        changes=tuple(knobs.parse(s) for s in sets),
        goals=tuple((goals_of.parse(g), knobs.named(by).name) for g in goals) if by else (),
        grid=workload is None if grid is None else grid,
    )
    given = Given.read(settings, step_time, engine)
    named = [str(workload)] if workload is not None else list(inputs)
    for file in (output, steps, requests):
        refuse_input(file, named, settings, step_time)
        if file is not None and str(file) != "-":
            refuse_existing(file, force=force)
    read = ExitCode.OK
    made: dict[str, Any] | str
    if workload is not None:
        made = _of_workload(workload, engine, steps, requests, asked, jobs, as_json=as_json, to_file=output is not None)
    else:
        with opened(inputs, options) as (trace, read), replay_progress() as told:
            studies = study(trace, asked, instance=server, given=given, jobs=jobs, told=told)
        made = document(studies) if as_json else text(studies, to_file=output is not None)
        if all(isinstance(s, NoReplay) for s in studies):
            read = ExitCode.NOTHING_USABLE
    written = made if isinstance(made, str) else json.dumps(made, indent=2, ensure_ascii=True, allow_nan=False) + "\n"
    if output is None or str(output) == "-":
        click.echo(written, nl=False)
    else:
        write_report(output, written, force=force)
    return read


def _refuse_half(
    inputs: tuple[str, ...], workload: Path | None, steps: Path | None, requests: Path | None, goals: tuple[str, ...], by: str | None
) -> None:
    """What is given without what it needs, before anything is read."""
    if workload is None and not inputs:
        raise KvpmError("there is no INPUT", hint="kvpm replay incident.kvtrace, or kvpm replay --workload FILE")
    if workload is not None and inputs:
        raise KvpmError("--workload stands in place of INPUT", hint="leave one of them out")
    if workload is None and (steps or requests):
        raise KvpmError("--steps and --requests are written with --workload", hint="--json has the curves of an INPUT")
    if bool(goals) != (by is not None):
        raise KvpmError("--goal and --by belong together", hint="for example --goal 'ttft_p99<2s' --by l1_tokens")


def _refuse_names(output: Path | None, steps: Path | None, requests: Path | None) -> None:
    """Steps and requests are files, and each is another one."""
    if "-" in (str(steps), str(requests)):
        raise KvpmError("--steps and --requests are written to files", hint="name a file, such as steps.jsonl")
    named = [path.resolve() for path in (output, steps, requests) if path is not None and str(path) != "-"]
    if len(set(named)) < len(named):
        raise KvpmError("two of -o, --steps and --requests are one file", hint="name a file for each")


def _of_workload(
    path: Path,
    engine: Engine | None,
    steps: Path | None,
    requests: Path | None,
    asked: Asked,
    jobs: int | None,
    *,
    as_json: bool,
    to_file: bool,
) -> dict[str, Any] | str:
    loaded = oracle_files.load(path, engine)
    ran = oracle_run.run(loaded, steps, requests)
    studies: list[Study | NoReplay] = []
    if asked.changes or asked.goals or asked.grid:
        with replay_progress() as told:
            studies = [study_file(path.name, loaded, asked, jobs=jobs, told=told)]
    if as_json:
        return {**ran.to_dict(), **({"servers": document(studies)["servers"]} if studies else {})}
    return oracle_run.text(ran) + ("\n" + text(studies, to_file=to_file) if studies else "")
