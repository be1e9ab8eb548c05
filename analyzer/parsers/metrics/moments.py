"""Lines that say when a scrape was taken: comments and what `date` prints in a shell loop."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

from analyzer.sources.timestamps import MONTHS, parse_epoch, parse_iso, to_us

_RULE = " \t\r#=*-_~>+|<[]():,;"
_WORDS = re.compile(
    r"(?:(?:scraped?|scrape_(?:ts|time|at)|scraped_at|timestamp|time|date|ts|epoch|at|now|metrics|iteration|iter|sample|round|run)\b"
    r"|(?:#|no\.? ?)?\d{1,6}(?=[ :]))[\s:=#,-]*",
    re.IGNORECASE,
)
_CLOCK = r"(\d{1,2}):(\d\d):(\d\d)(?:\.\d+)?(?: ([AaPp][Mm]))?"
_ZONE = r"(?: (UTC|GMT|Z|[A-Z]{2,5}|[+-]\d{2}:?\d{2}))?"
# `date`: with the year last, or day before month; `date -R` and HTTP's have a comma.
_YEAR_LAST = re.compile(rf"[A-Z][a-z]{{2}} +([A-Z][a-z]{{2}}) +(\d{{1,2}}) +{_CLOCK}{_ZONE} +(\d{{4}})")
_DAY_FIRST = re.compile(rf"[A-Z][a-z]{{2}},? +(\d{{1,2}}) +([A-Z][a-z]{{2}})[a-z]* +(\d{{4}}),? +{_CLOCK}{_ZONE}")
_HTTP_DATE = re.compile(r"(?:< ?)?date:\s*([A-Z][a-z]{2}, .+?)\s*", re.IGNORECASE)
_NANOSECONDS = re.compile(r"\d{10}\.\d{7,9}")
_UTC_NAMES = frozenset(("UTC", "GMT", "Z"))


class Moments:
    """Reads such lines; `zone` is what stamps without a zone are in, and `assumed` says that one had to be assumed."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self.assumed = False

    def read(self, line: str) -> int | None:
        """Microseconds since the epoch of a line that is a moment and nothing else; None for any other line."""
        text = line.strip(_RULE)
        if not 10 <= len(text) <= 80:
            return None
        while word := _WORDS.match(text):
            text = text[word.end() :]
        return self._stamp(text)

    def http_date(self, line: str) -> int | None:
        """The moment in a `Date:` header of the answer."""
        match = _HTTP_DATE.fullmatch(line)
        return None if match is None else self._stamp(match[1])

    def stamp(self, text: str) -> int | None:
        """A stamp of a table: ISO, epoch or `date`."""
        return self._stamp(text.strip())

    def _stamp(self, text: str) -> int | None:
        if not text:
            return None
        if text[0].isdigit():
            if _NANOSECONDS.fullmatch(text):
                text = text[:17]
            moment = parse_epoch(text) or parse_iso(text)
        else:
            moment = self._date(text)
        if moment is None:
            return None
        if moment.tzinfo is None:
            self.assumed = self.assumed or self._zone is None
            moment = moment.replace(tzinfo=self._zone or UTC)
        return to_us(moment)

    @staticmethod
    def _date(text: str) -> datetime | None:
        if match := _YEAR_LAST.fullmatch(text):
            month, day, hour, minute, second, half, zone, year = match.groups()
        elif match := _DAY_FIRST.fullmatch(text):
            day, month, year, hour, minute, second, half, zone = match.groups()
        else:
            return None
        if month not in MONTHS:
            return None
        clock = int(hour) if half is None else int(hour) % 12 + (12 if half in ("PM", "pm", "Pm", "pM") else 0)
        # An abbreviation other than these is used by several zones: --tz says which.
        suffix = "Z" if zone in _UTC_NAMES else zone if zone and zone[0] in "+-" else ""
        return parse_iso(f"{year}-{MONTHS[month]:02d}-{int(day):02d} {clock:02d}:{minute}:{second}{suffix}")
