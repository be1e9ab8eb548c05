"""Takes a line apart into what stands before the message, the message, and what stands behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from analyzer.formats.load import registry
from analyzer.formats.model import Prefix
from analyzer.formats.pattern import LONG, AnyOf, occurs
from analyzer.formats.values import read_int, read_rank

_TAG = re.compile(r"([A-Z][A-Z_]*?)(\d+)")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_RANK_NAMES = {"DP": "dp", "TP": "tp", "PP": "pp", "EP": "ep"}
_PROC_RANK = re.compile(r"(?:^|_)(DP|TP|PP|EP)(\d+)")
_PROC_ENGINE = re.compile(r"EngineCore_(\d+)$")


def strip_ansi(text: str) -> str:
    """`text` without terminal colour codes, hyperlinks and cursor movements."""
    return _ANSI.sub("", text) if "\x1b" in text else text


@dataclass(frozen=True, slots=True)
class Head:
    """What stood before a message; ids of the prefixes are in reading order, outermost first."""

    prefixes: tuple[str, ...]
    engine: str | None
    stamp: str
    tags: str
    proc: str
    pid: int | None
    level: str
    file: str
    ranks: dict[str, int]
    shared: bool = False


NO_HEAD = Head((), None, "", "", "", None, "", "", {})
_MAX_PREFIXES = 4


def split_head(line: str) -> tuple[Head, str]:
    """`line` (no colour codes, no trailing newline) as (head, message).

    Without any known prefix the head is empty and the message is the line.
    """
    prefix = _prefix_of(line)
    if prefix is None:
        return NO_HEAD, line
    found: list[str] = []
    values: dict[str, str] = {}
    engine: str | None = None
    shared = False
    rest = line
    while prefix is not None and prefix.id not in found and (match := prefix.pattern.match(rest)):
        values |= {k: v for k, v in match.groupdict().items() if v}
        engine = prefix.engine or engine
        shared = prefix.shared
        found.append(prefix.id)
        rest = rest[match.end() :]
        if prefix.suffix and (tail := prefix.suffix.search(rest)):
            values |= {k: v for k, v in tail.groupdict().items() if v}
            rest = rest[: tail.start()]
        prefix = _prefix_of(rest) if prefix.outer and len(found) < _MAX_PREFIXES else None
    tags = values.get("tags", "").strip()
    proc = values.get("proc", "")
    head = Head(
        prefixes=tuple(found),
        engine=engine,
        stamp=values.get("stamp", ""),
        tags=tags,
        proc=proc,
        pid=read_int(values.get("pid", "")),
        level=values.get("level", ""),
        file=values.get("file") or values.get("file_old", ""),
        ranks=_ranks(tags, proc),
        shared=shared,
    )
    return head, rest


@lru_cache(maxsize=4096)
def _ranks(tags: str, proc: str) -> dict[str, int]:
    if tags:
        pairs = _TAG.findall(tags)
    else:
        pairs = _PROC_RANK.findall(proc) + [("DP", number) for number in _PROC_ENGINE.findall(proc)]
    ranks = {_RANK_NAMES[n]: read_rank(v) for n, v in pairs if n in _RANK_NAMES}
    return {n: v for n, v in ranks.items() if v is not None}


@lru_cache(maxsize=1)
def _any_prefix() -> re.Pattern[str]:
    """All prefixes in one pattern, each a group: one test tells which one it is, and that most lines have none."""
    parts = [re.sub(r"\(\?P<\w+>", "(?:", p.pattern.pattern) for p in registry().prefixes]
    return re.compile("|".join(f"(?P<p{number}>{part})" for number, part in enumerate(parts)))


def _prefix_of(text: str) -> Prefix | None:
    """The prefix that stands at the beginning of `text`."""
    match = _any_prefix().match(text)
    return registry().prefixes[int((match.lastgroup or "p0")[1:])] if match else None


def begins_with_prefix(text: str) -> bool:
    """True when a known prefix stands at the beginning of `text`."""
    return _any_prefix().match(text) is not None


@lru_cache(maxsize=1)
def _inline_literals() -> AnyOf:
    return AnyOf({p.literal for p in registry().prefixes if p.inline})


@lru_cache(maxsize=1)
def _inline() -> re.Pattern[str]:
    """Any inline prefix, for finding records inside a physical line. No group names: they would clash."""
    parts = [_without_names(p) for p in registry().prefixes if p.inline]
    # An opening bracket is what makes a SGLang prefix certain in the middle of a line.
    return re.compile("|".join(parts))


def _without_names(prefix: Prefix) -> str:
    pattern = re.sub(r"\(\?P<\w+>", "(?:", prefix.pattern.pattern)
    return pattern.replace(r"\[?(?:\d{4}", r"\[(?:\d{4}", 1)


def starts(line: str) -> list[int]:
    """Offsets at which a record with a distinctive prefix begins inside `line`, in order."""
    # RE2 does not look ahead: for whether there is any, a part to look at is as good as one to read
    if not _inline_literals().is_in(line) or (len(line) >= LONG and not occurs(_inline().pattern.replace("(?=", "(?:"), line)):
        return []
    return [m.start() for m in _inline().finditer(line)]
