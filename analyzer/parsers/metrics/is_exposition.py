"""Tells exposition text from everything else that has words, numbers and braces."""

from __future__ import annotations

import re

from analyzer.parsers.metrics.exposition import read_sample
from analyzer.parsers.metrics.moments import Moments

DESCRIBES = re.compile(r"#\s*(HELP|TYPE|UNIT)\s+(\S+)(?:\s+(\S.*))?$")
TYPES = frozenset(("counter", "gauge", "histogram", "summary", "untyped", "unknown", "info", "stateset", "gaugehistogram"))

# What a terminal shows around a scrape: the prompt, what curl says, the headers.
_AROUND = re.compile(
    r"(?:< ?)?HTTP/\d|[<>*] |[<>*]$|[\w-]+: |\S{0,80}[$#%>] |.*\bcurl\b|\s+% Total|\s+Dload|\s*\d+ +\S+ +\d+ |\s*--:|[\w.-]+@[\w.-]+[:\s]",
    re.IGNORECASE,
)
# So many lines of that can stand before the first line of a scrape.
_MAX_AROUND = 60
# At least this share of the beginning has to be of the format.
_SURE_SHARE = 0.6


def is_exposition(head: str) -> bool:
    """True when `head`, the beginning of a source, is exposition text, apart from what a terminal shows before it."""
    lines = head.split("\n")
    if len(lines) > 1:
        lines.pop()
    moments = Moments(None)
    good = bad = sure = around = 0
    for number, line in enumerate(lines):
        if good + len(lines) - number < _SURE_SHARE * (good + bad + len(lines) - number):
            # nor would it be if all the others were
            return False
        line = line.rstrip()
        if not line or ("{" not in line and moments.read(line) is not None):
            continue
        described = DESCRIBES.match(line)
        if described:
            sure += described[1] != "TYPE" or described[3] in TYPES
            good += 1
        elif line.startswith("#"):
            continue
        elif sample := read_sample(line):
            sure += bool(sample.labels) or ":" in sample.name
            good += 1
        elif not good and around < _MAX_AROUND and _AROUND.match(line):
            around += 1
        else:
            bad += 1
    return sure > 0 and good >= _SURE_SHARE * (good + bad)
