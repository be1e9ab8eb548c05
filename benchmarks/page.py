"""docs/performance.md: the tables of one run, and how to read them."""

from __future__ import annotations

from benchmarks.contest import Results
from benchmarks.table import bars_table, runs_table

TEXT = """\
# How fast and how large

Written by `make bench`; do not edit. Measured on: {machine}

## Bars

A rate is MB of unpacked text per CPU second, of the whole command: from the start of Python to the finished trace. "0.25 in parts of rg"
means that kvpm takes four times the CPU seconds that ripgrep takes for the same file. Of start-up too CPU seconds are judged: where nothing
else runs, they are what is waited for. MB are 1,000,000 bytes.

{bars}

## What each run took

{runs}

## How to read it

- CPU s: user and system time of the command and of all processes that it started. Wall time is given beside it; it moves with what else
  the machine does. Of {turns} runs of each reader (5 or more for start-up), taken in turn with the others, the lowest is given, and of
  memory the highest.
- kvpm to it: the rate of kvpm divided by the rate of this reader. Where there is no size, CPU seconds are compared.
- Peak: the largest resident memory; where a command runs several processes, of all of them together, looked at twenty times a second.
  Pages of the input that a reader maps count too, as with `rg`. The least that can be told is about 10 MB.
- Found: rows, lines or samples. Readers of the same bytes have to find as many, or the run fails: a reader that skips work is no peer.
- Inputs are in the page cache, and traces go to the same disk.

## The inputs

All are made with seed {seed}, from lines of the sample traces; stamps go on and the digits of numbers change.

- dense: nothing but scheduler lines: prefill, decode and retraction (SGLang), or the stats line (vLLM).
- sparse: 3 % of the lines are scheduler lines, the others access lines and lines that are no engine's.
- verdict on 1 MB: SGLang's log of an L1 incident, from the start of the server on.
- files of 1 MB: the sparse log as a rotated set in one folder.
- one long line: of 100 MB, or of SIZE where that is less, no engine's; and 1 MB of scheduler lines after it.
- scrapes: Prometheus text of a vLLM server with 800 series, one scrape a second; three of ten values change.
- requests with prompts: JSON lines of a client, about 3 kB each, prompt and output in them. They are not stored.

## The peers

- `rg -c`: one expression for each line kind, from its words to a field at its end (`Decode batch.*#queue-req`). Counting the words only
  is up to five times faster.
- `grep -cF`: the words of the line kinds.
- `mawk`: lines with the words, split at commas and colons, to CSV.
- polars extract_groups: a parser as tools around the engines have it, one expression for each line kind asked of every line, typed, to
  Parquet. "Words first" asks only lines that have the words. It holds all of a log in memory, so it gets a part, as do the next two.
- Python re to CSV, DuckDB regexp_extract: the same expressions.
- unpack and count: zlib or zstandard in Python, and the words counted in what comes out.
- prometheus_client: its parser of the text format, an object for each sample. It gets a part.
- orjson, merely parsing: each line parsed, nothing done with it.
- python -c pass: an interpreter that does nothing.

Larger inputs: `make bench SIZE=1000` (MB); one of them: `make bench ONLY=sparse`. `make bench-check` measures again and compares with this
page, see [benchmarks](../benchmarks/README.md).
"""


def page(results: Results, machine: str, turns: int, seed: int) -> str:
    """The page, as Markdown."""
    return TEXT.format(machine=machine, bars=bars_table(results.bars), runs=runs_table(results.rows), turns=turns, seed=seed)
