"""`kvpm capacity`"""

from __future__ import annotations

import json
from pathlib import Path

import click

from analyzer.capacity.config import config_file, read_config
from analyzer.capacity.elements import KV_DTYPES
from analyzer.capacity.layers import model_of
from analyzer.capacity.plan import Gpus
from analyzer.capacity.plan import capacity as capacity_library
from analyzer.capacity.quantities import bytes_of, lengths_of, tokens_of
from analyzer.capacity.reported import reported_pools
from analyzer.capacity.text import text
from analyzer.cli.lang import lang_option
from analyzer.cli.options import refuse_input
from analyzer.language import _
from analyzer.report.write import refuse_existing, write_report

_MOST_GPUS = 100_000


@click.command()
@click.argument("config", metavar="CONFIG")
@click.option("--hbm", metavar="SIZE", help="What each GPU has for KV cache alone, without weights and workspace: 60GiB, 64GB.")
@click.option(
    "--lengths",
    metavar="N,N",
    help="How long requests are, input and output together, in tokens: 32k,128k. k is 1024 and M is 1024 x 1024.",
)
@click.option(
    "--tp",
    type=click.IntRange(1, _MOST_GPUS),
    default=1,
    help="GPUs that share each layer. With SGLang's --enable-dp-attention: its --tp divided by its --dp.",
)
@click.option("--pp", type=click.IntRange(1, _MOST_GPUS), default=1, help="Pipeline stages that share the layers out.")
@click.option("--dp", type=click.IntRange(1, _MOST_GPUS), default=1, help="Copies with a pool each (data parallel).")
@click.option(
    "--kv-dtype",
    metavar="TYPE",
    default="auto",
    help=f"What the server keeps keys and values in: {', '.join(KV_DTYPES[:7])}, or another name of these. Default: auto, as the "
    "configuration says.",
)
@click.option("--pool-tokens", metavar="N", help="What a server reported that its pool holds, to hold the arithmetic against.")
@click.option(
    "--trace", type=click.Path(path_type=Path), metavar="TRACE", help="Take what servers reported from this stored trace (NAME.kvtrace)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@lang_option
def capacity(
    config: str,
    hbm: str | None,
    lengths: str | None,
    tp: int,
    pp: int,
    dp: int,
    kv_dtype: str,
    pool_tokens: str | None,
    trace: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Say what a token costs in KV cache, and how many requests GPUs hold at once.

    CONFIG is a model's config.json (Hugging Face), the folder it is in, or '-' for standard input.
    """
    to_file = output is not None and str(output) != "-"
    if output is not None and to_file:
        refuse_input(output, (), None if config == "-" else config_file(config), trace)
        refuse_existing(output, force=force)
    gpus = Gpus(tp, pp, dp, bytes_of(hbm) if hbm is not None else None)
    wanted = lengths_of(lengths) if lengths is not None else ()
    reported = [(_("the server"), tokens_of(pool_tokens), "--pool-tokens")] if pool_tokens is not None else []
    if trace is not None:
        reported += reported_pools(trace)
    told = capacity_library(model_of(read_config(config), kv_dtype), gpus, wanted, reported)
    made = json.dumps(told.to_dict(), indent=2, ensure_ascii=True, allow_nan=False) + "\n" if as_json else text(told, to_file=to_file)
    if output is not None and to_file:
        write_report(output, made, force=force)
    else:
        click.echo(made, nl=False)
