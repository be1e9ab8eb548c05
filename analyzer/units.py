"""Counts with what they count, in the language of the moment: `1 request`, `1,234 requests`.

Each pair stands in a call of its own, because that is where the catalogues look for texts.
"""

from __future__ import annotations

from collections.abc import Callable

from analyzer.language import _, ngettext

# By the English plural: what to say of `n`, which is written as `shown`.
_FORMS: dict[str, Callable[[int, str], str]] = {
    "blocks": lambda n, shown: ngettext("{n} block", "{n} blocks", n, n=shown),
    "buckets": lambda n, shown: ngettext("{n} bucket", "{n} buckets", n, n=shown),
    "chunks": lambda n, shown: ngettext("{n} chunk", "{n} chunks", n, n=shown),
    "crashes": lambda n, shown: ngettext("{n} crash", "{n} crashes", n, n=shown),
    "events": lambda n, shown: ngettext("{n} event", "{n} events", n, n=shown),
    "facts": lambda n, shown: ngettext("{n} fact", "{n} facts", n, n=shown),
    "failures": lambda n, shown: ngettext("{n} failure", "{n} failures", n, n=shown),
    "findings": lambda n, shown: ngettext("{n} finding", "{n} findings", n, n=shown),
    "first tokens": lambda n, shown: ngettext("{n} first token", "{n} first tokens", n, n=shown),
    "incidents": lambda n, shown: ngettext("{n} incident", "{n} incidents", n, n=shown),
    "inputs": lambda n, shown: ngettext("{n} input", "{n} inputs", n, n=shown),
    "instances": lambda n, shown: ngettext("{n} instance", "{n} instances", n, n=shown),
    "items": lambda n, shown: ngettext("{n} item", "{n} items", n, n=shown),
    "keys": lambda n, shown: ngettext("{n} key", "{n} keys", n, n=shown),
    "lines": lambda n, shown: ngettext("{n} line", "{n} lines", n, n=shown),
    "notes": lambda n, shown: ngettext("{n} note", "{n} notes", n, n=shown),
    "objects": lambda n, shown: ngettext("{n} object", "{n} objects", n, n=shown),
    "operations": lambda n, shown: ngettext("{n} operation", "{n} operations", n, n=shown),
    "pages": lambda n, shown: ngettext("{n} page", "{n} pages", n, n=shown),
    "pieces of advice": lambda n, shown: ngettext("{n} piece of advice", "{n} pieces of advice", n, n=shown),
    "preemptions": lambda n, shown: ngettext("{n} preemption", "{n} preemptions", n, n=shown),
    "process lifetimes": lambda n, shown: ngettext("{n} process lifetime", "{n} process lifetimes", n, n=shown),
    "ranks": lambda n, shown: ngettext("{n} rank", "{n} ranks", n, n=shown),
    "reasons": lambda n, shown: ngettext("{n} reason", "{n} reasons", n, n=shown),
    "rejections": lambda n, shown: ngettext("{n} rejection", "{n} rejections", n, n=shown),
    "replays": lambda n, shown: ngettext("{n} replay", "{n} replays", n, n=shown),
    "reports": lambda n, shown: ngettext("{n} report", "{n} reports", n, n=shown),
    "requests": lambda n, shown: ngettext("{n} request", "{n} requests", n, n=shown),
    "requests x s": lambda _n, shown: _("{n} requests x s", n=shown),
    "restarts": lambda n, shown: ngettext("{n} restart", "{n} restarts", n, n=shown),
    "retractions": lambda n, shown: ngettext("{n} retraction", "{n} retractions", n, n=shown),
    "rows": lambda n, shown: ngettext("{n} row", "{n} rows", n, n=shown),
    "runs": lambda n, shown: ngettext("{n} run", "{n} runs", n, n=shown),
    "samples": lambda n, shown: ngettext("{n} sample", "{n} samples", n, n=shown),
    "scheduler reports": lambda n, shown: ngettext("{n} scheduler report", "{n} scheduler reports", n, n=shown),
    "series": lambda n, shown: ngettext("{n} series", "{n} series", n, n=shown),
    "settings": lambda n, shown: ngettext("{n} setting", "{n} settings", n, n=shown),
    "signals": lambda n, shown: ngettext("{n} signal", "{n} signals", n, n=shown),
    "slots": lambda n, shown: ngettext("{n} slot", "{n} slots", n, n=shown),
    "such moments": lambda n, shown: ngettext("{n} such moment", "{n} such moments", n, n=shown),
    "things to leave alone": lambda n, shown: ngettext("{n} thing to leave alone", "{n} things to leave alone", n, n=shown),
    "threads": lambda n, shown: ngettext("{n} thread", "{n} threads", n, n=shown),
    "times": lambda n, shown: ngettext("{n} time", "{n} times", n, n=shown),
    "tokens": lambda n, shown: ngettext("{n} token", "{n} tokens", n, n=shown),
    "tokens/s": lambda _n, shown: _("{n} tokens/s", n=shown),
    "warnings": lambda n, shown: ngettext("{n} warning", "{n} warnings", n, n=shown),
    "watchdog alarms": lambda n, shown: ngettext("{n} watchdog alarm", "{n} watchdog alarms", n, n=shown),
    "workers": lambda n, shown: ngettext("{n} worker", "{n} workers", n, n=shown),
}


def counted(value: float, shown: str, one: str, many: str) -> str:
    """`shown` with its unit, in the singular for exactly 1; a unit that is not in the table is said in English."""
    form = _FORMS.get(many)
    # what is not whole takes the plural, and so does 0
    n = 1 if value == 1 else 2
    return form(n, shown) if form else f"{shown} {one if n == 1 else many}"
