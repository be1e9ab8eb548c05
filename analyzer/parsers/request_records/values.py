"""Single values of a request record: counts, durations, moments and ids, or None.

What is not reported is None. What cannot be true (negative, infinite, beyond any server) is None too, and
counted as damaged.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timezone
from typing import Any, cast
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from analyzer.formats.values import read_float
from analyzer.parsers.reader import ReadOptions
from analyzer.sources.pieces import LineCounts
from analyzer.sources.timestamps import Clock, parse_epoch, parse_iso

# An id is kept only when it cannot be anything else; users may send any text as one.
_RID = re.compile(r"[\w.:-]{1,200}", re.ASCII)
_HOST = re.compile(r"[\w.-]{1,253}|[0-9a-f:.]{2,45}", re.ASCII)
NOTHING = frozenset(("", "null", "none", "nan", "n/a", "-"))
# No server has more of anything, and no request takes a year.
MOST = 1e12
LONGEST_S = 31_536_000.0
RANKS = 1 << 15


class Values:
    """Reads values; damaged ones are counted in `counts`, stamps without a zone are settled by `clock`."""

    def __init__(self, counts: LineCounts, options: ReadOptions) -> None:
        self._counts = counts
        self.clock = Clock(cast("timezone | ZoneInfo | None", options.zone), options.year, options.newest)
        self.naive = False

    def number(self, value: object, scale: float = 1.0, most: float = MOST) -> float | None:
        """A finite number from zero to `most`, multiplied by `scale` first."""
        if type(value) is float and scale == 1.0 and 0 <= value <= most:
            return value
        if value is None or (isinstance(value, str) and value.strip().lower() in NOTHING):
            return None
        number = read_float(value.strip()) if isinstance(value, str) else value
        if not isinstance(number, (int, float)) or isinstance(number, bool) or not 0 <= number <= 1e21:
            self._counts.damaged += 1
            return None
        value = scaled(number, scale)
        if value > most:
            self._counts.damaged += 1
            return None
        return value

    def count(self, value: object) -> int | None:
        """A whole number."""
        if type(value) is int and 0 <= value <= MOST:
            return value
        number = self.number(value)
        if number is None:
            return None
        if not number.is_integer():
            self._counts.damaged += 1
            return None
        return int(number)

    def seconds(self, value: object, scale: float = 1.0) -> float | None:
        """A duration in seconds, given in units of `scale` seconds."""
        return self.number(value, scale, LONGEST_S)

    def list_of_seconds(self, value: object, scale: float = 1.0) -> list[float]:
        """The durations of a list that can be read; empty for anything else."""
        if not isinstance(value, list):
            return []
        # nearly always all is well, and there may be thousands; no comparison holds for NaN
        if scale == 1.0 and set(map(type, value)) == {float} and min(value) >= 0 and sum(value) <= LONGEST_S:
            return value
        read = (self.seconds(v, scale) for v in value)
        return [s for s in read if s is not None]

    def rank(self, value: object) -> int | None:
        """A small whole number; none for what is not one."""
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < RANKS else None

    def moment(self, value: object) -> datetime | None:
        """A time on the wall clock, in UTC: ISO text, or an epoch in a unit told by its size; None for anything else."""
        if isinstance(value, str):
            parsed = parse_iso(value.strip())
            if parsed is not None:
                return parsed.astimezone(UTC) if parsed.tzinfo else self._to_utc(parsed)
            value = value.strip()
        return parse_epoch(value)

    def _to_utc(self, naive: datetime) -> datetime:
        if not self.naive:
            self.naive = True
            if not self.clock.decisions:
                self.clock.decide([], naive)
        return self.clock.to_utc(naive)


def scaled(number: float, scale: float) -> float:
    """`number` times `scale`, rounded: 12.3 ms is 0.0123 s, not 0.012300000000000002."""
    return float(f"{number * scale:.15g}") if scale != 1.0 else float(number)


def request_id(value: object) -> str | None:
    """A request id, when it can be nothing else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 1 << 63 else None
    return value if isinstance(value, str) and _RID.fullmatch(value) else None


def address(value: object) -> tuple[str, int] | None:
    """(host, port) of a server's URL or `host:port`; what else the URL holds is dropped."""
    if not isinstance(value, str) or len(value) > 2000:
        return None
    text = value.strip()
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if "://" not in text and port is None:
        return None
    if not host or not _HOST.fullmatch(host):
        return None
    return host, port or (443 if parts.scheme == "https" else 80)


def finite(value: object) -> str | None:
    """A number as text, for `extra`; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return str(value)


def text_value(value: Any) -> str | None:
    """`value` when it is text with something in it."""
    return value if isinstance(value, str) and value.strip() else None
