"""Takes a line apart into what stands before the message, the message, and what stands behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from analyzer.formats.load import registry
from analyzer.formats.model import Prefix

_TAG = re.compile(r"([A-Z][A-Z_]*?)(\d+)")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[@-Z\\-_]")
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


_NONE = Head((), None, "", "", "", None, "", "", {})


def split_head(line: str) -> tuple[Head, str]:
    """`line` (no colour codes, no trailing newline) as (head, message).

    Without any known prefix the head is empty and the message is the line.
    """
    found: list[str] = []
    values: dict[str, str] = {}
    engine: str | None = None
    rest = line
    while len(found) < 3:
        for prefix in registry().prefixes:
            match = prefix.pattern.match(rest)
            if match is None or prefix.id in found:
                continue
            values |= {k: v for k, v in match.groupdict().items() if v}
            engine = prefix.engine or engine
            found.append(prefix.id)
            rest = rest[match.end() :]
            if prefix.suffix and (tail := prefix.suffix.search(rest)):
                values |= {k: v for k, v in tail.groupdict().items() if v}
                rest = rest[: tail.start()]
            break
        else:
            break
        # Only a bare process tag, or a user's own format around an engine's, has another prefix behind it.
        if found[-1] not in ("process", "dashed", "spaced", "basic"):
            break
    if not found:
        return _NONE, line
    tags = values.get("tags", "").strip()
    proc = values.get("proc", "")
    head = Head(
        prefixes=tuple(found),
        engine=engine,
        stamp=values.get("stamp", ""),
        tags=tags,
        proc=proc,
        pid=int(values["pid"]) if "pid" in values else None,
        level=values.get("level", ""),
        file=values.get("file") or values.get("file_old", ""),
        ranks=_ranks(tags, proc),
    )
    return head, rest


@lru_cache(maxsize=4096)
def _ranks(tags: str, proc: str) -> dict[str, int]:
    if tags:
        return {_RANK_NAMES[n]: int(v) for n, v in _TAG.findall(tags) if n in _RANK_NAMES}
    if proc:
        ranks = {_RANK_NAMES[n]: int(v) for n, v in _PROC_RANK.findall(proc)}
        core = _PROC_ENGINE.search(proc)
        if core:
            ranks["dp"] = int(core[1])
        return ranks
    return {}


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
    return [m.start() for m in _inline().finditer(line)]
