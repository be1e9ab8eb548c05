"""What `--offset` says of the clocks of sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.errors import KvpmError

_DURATION = re.compile(r"([+-]?)(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


@dataclass(frozen=True, slots=True)
class OffsetRule:
    """One `--offset SOURCE=DURATION`: seconds to add to all times of the sources it matches."""

    pattern: str
    seconds: float


def parse_offset_rules(options: Sequence[str]) -> tuple[OffsetRule, ...]:
    """`SOURCE=+7h` options as rules; raises KvpmError for one that is none."""
    rules = []
    for option in options:
        pattern, equals, text = option.rpartition("=")
        found = _DURATION.fullmatch(text.strip())
        if not (equals and pattern and found and any(found.groups()[1:])):
            raise KvpmError(f"--offset {option!r} is not SOURCE=DURATION", hint="for example --offset server.log=+7h, or =-90s, or =+1h30m")
        days, hours, minutes, seconds = (float(g or 0) for g in found.groups()[1:])
        total = days * 86400 + hours * 3600 + minutes * 60 + seconds
        rules.append(OffsetRule(pattern, -total if found[1] == "-" else total))
    return tuple(rules)
