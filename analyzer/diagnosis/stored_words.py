"""Texts that reading wrote into a trace, in the language of the moment.

A trace holds them in English with their numbers filled in, so that it is the same whoever reads it. Here stands each of
them as a template: why a process died, in the words of the formats, and what readers noted of an input.
"""

from __future__ import annotations

import re
from functools import lru_cache

from analyzer.language import N_, _

# The `text` of every format whose event ends a process.
ENDS = (
    N_("KV allocation failed: wanted {tokens} tokens, {total} available"),
    N_("no request slot left: max_running_requests is too high for the pool"),
    N_("subprocess crashed with exit code {total}"),
    N_("scheduler hit an exception"),
    N_("SIGQUIT: one of the server's processes failed"),
    N_("engine core died"),
    N_("the front end lost its engine"),
    N_("an engine process died unexpectedly"),
    N_("the engine core dumped its state before it died"),
)
# Why a source belongs to its instance.
BECAUSE = (
    N_("named by the log collector"),
    N_("scrape target in the labels"),
    N_("server in the records"),
    N_("address in the server arguments"),
    N_("address of a source in the same folder"),
    N_("the only server named in the same folder"),
    N_("the only server in the same folder"),
    N_("folder and port in the server arguments"),
    N_("folder of the source"),
    N_("address in the records"),
    N_("a loopback address in another folder"),
    N_("same ranks reported at the same time"),
    N_("two engines"),
    N_("address {host}:{port}"),
)
# What an input holds instead of anything of a model server.
NOTHING = (
    N_("holds no line of a known engine"),
    N_("holds samples of a process that is no model server"),
    N_("holds samples of other programs only ({programs} and {n} more)"),
    N_("holds samples of other programs only ({programs})"),
    N_("describes metrics and holds no sample"),
    N_("holds no sample"),
    N_("mixes scrapes of several servers and no label tells them apart: save each server to a file of its own"),
    N_("has columns without a metric name: download the table of a query whose legend is the metric name"),
    N_("is a table without the columns of samples (time, metric, value)"),
    N_("totals of a benchmark without its requests; run it with --output-details"),
    N_("totals of a benchmark without its requests; run it with --save-detailed"),
    N_("benchmarks without their requests"),
    N_("spans, none of them a request of vLLM or SGLang"),
    N_("no request in it"),
    N_("no record in it"),
    N_("no whole record"),
)
# Decisions and oddities of an input.
NOTES = (
    N_("stamps without a zone read as {zone} (--tz)"),
    N_("inner stamps are {hours} against the collector's: inner times used, shifted to UTC by that"),
    N_("inner and collector's stamps agree: inner times used, as UTC"),
    N_("stamps have no zone and nothing tells it: read as UTC (set --tz)"),
    N_("stamps have no year: read as {year}, the latest that is not ahead of the file (set --year)"),
    N_("the stamps pass New Year: {year} from there on"),
    N_("stamps without a zone are {hours} h from the epoch times of the same records: shifted to UTC by that"),
    N_("reading stopped after {size} bytes: {why}"),
    N_("the {packing} archive is damaged: {why}"),
    N_("the {packing} archive ends too early"),
    N_("what stands behind the {packing} archive was left"),
    N_("the arguments on line {line} are cut: some are missing"),
    N_("{n} records were wrapped by a terminal and joined again"),
    N_("{n} records were glued to another on one line and split off"),
    N_("{n} values were damaged and left out"),
    N_("the last line is cut off and was left out"),
    N_("the last line is cut"),
    N_("{n} scheduler lines have no time stamp at all and were left out"),
    N_("a Preemptions field was printed, which no released version does: not used"),
    N_("lines of more than one engine version"),
    N_("unmatched lines come from {files}"),
    N_("{n} lines are no whole record and were left out"),
    N_("{n} runs have totals only (--output-details stores the requests)"),
    N_("{n} runs have totals only (--save-detailed stores the requests)"),
    N_("run {number} ended at about {date}, local time; its requests are on a clock of its own"),
    N_("{n} values are beyond any server's and were left out"),
    N_("{n} series of shares are in percent: divided by 100"),
    N_("scrapes of several servers are of several processes at the same time: left out"),
    N_("scrapes of {server} are of several processes at the same time: left out"),
    N_("{n} metric names are not known to this release, kept by their raw name: {names}"),
    N_("counters fell back {n} times: taken for restarts"),
    N_("scrapes have no time: only the last of {n} is stored (write the moment before each scrape)"),
    N_("{n} scrapes have no moment of their own and are left; scrapes of several servers need a file each"),
    N_("{n} samples stand twice in one scrape: the first is kept"),
    N_("{n} samples of native histograms are not read"),
    N_("{n} columns have no metric name and are left"),
    N_("{n} values are written with a unit and are not read: turn off formatted data"),
    N_("{n} answers are errors ({kind})"),
    N_("{n} answers are empty"),
    N_("{n} series are results of expressions: they have no metric name and are left"),
    N_("{n} series are native histograms, which are not read"),
    N_("{n} answers are scalars or strings, which are of no series"),
    N_("{n} answers are of other calls of the API, which hold no samples"),
    N_("{n} answers are partial, the server says"),
    N_("{n} answers came with warnings"),
    N_("{n} answers came with remarks"),
    N_("{n} answers are cut or damaged and are left"),
    N_("{n} answers are cut or damaged: only their whole series are read"),
    N_("read from {moment} on; --since names another time"),
    N_("the certificate of the server was not checked"),
    N_("what the server holds after {moment} was not read: {why}"),
)


def stored(text: str | None) -> str:
    """A text of a trace in the language of the moment; one that is not known here stays as it is."""
    for template, pattern in _patterns():
        if match := pattern.fullmatch(text or ""):
            return _(template, **match.groupdict())
    return text or ""


def stored_reasons(text: str) -> str:
    """Several texts of BECAUSE, as they stand in an alias of the manifest: `one; another`."""
    return _("; ").join(stored(part) for part in text.split("; "))


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((t, re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(t)))) for t in (*ENDS, *BECAUSE, *NOTHING, *NOTES))
