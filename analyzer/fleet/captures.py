"""From what the user typed to the captures of a batch.

- A stored trace is one capture.
- A folder is a folder of captures: each stored trace and each folder with files directly in it is one. A folder of files
  only is one capture where it is one of several inputs; given alone, each of its files is one.
- What a glob finds, file or folder, is one capture each; so is a file that is named.
- A file NAME.toml is a list of captures (`analyzer.fleet.listed`).
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from analyzer.errors import KvpmError, NothingUsableError
from analyzer.fleet.listed import read_list
from analyzer.fleet.model import Capture, Reading, Skipped
from analyzer.fleet.names import told_apart
from analyzer.fleet.state import is_batch
from analyzer.language import _
from analyzer.report import fmt
from analyzer.sources.discover import STDIN, is_trace

_TRACE = ".kvtrace"
_NAME_LENGTH = 120


@dataclass(slots=True)
class Found:
    """Captures, what was left out, and folders of which each file was taken for a capture of its own."""

    captures: list[Capture] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    of_files: list[str] = field(default_factory=list)


def find_captures(given: Sequence[str], reading: Reading | None = None) -> Found:
    """The captures behind `given`, in a stable order, each once, with names of their own.

    Raises KvpmError for what does not exist and for a faulty list, NothingUsableError when there is no capture at all.
    """
    reading = reading or Reading()
    found = Found()
    for text in given:
        _add(text, reading, found, alone=len(given) == 1)
    found.captures = _named(_once(found.captures))
    if not found.captures:
        why = f" ({found.skipped[0].what}: {found.skipped[0].why})" if found.skipped else ""
        raise NothingUsableError(
            f"no capture in {', '.join(given)}{why}", hint="give a folder whose sub-folders are captures, a glob in quotes, or a list.toml"
        )
    return found


def _add(text: str, reading: Reading, found: Found, *, alone: bool) -> None:
    path = Path(text)
    if text == STDIN:
        raise KvpmError("a batch cannot read standard input", hint="name files, folders, a glob or a list of captures")
    if is_trace(path):
        found.captures.append(_capture(path, reading))
    elif path.is_dir():
        _add_folder(path, reading, found, alone=alone)
    elif path.suffix == ".toml" and path.is_file():
        found.captures += read_list(path, reading)
    elif os.path.lexists(path):
        found.captures.append(_capture(path, reading))
    elif glob.has_magic(text):
        matches = [Path(m) for m in sorted(glob.glob(text, recursive=True)) if not is_batch(Path(m))]
        if not matches:
            raise KvpmError(f"nothing matches {text!r}", hint="quote the pattern, and check where it begins")
        found.captures += [_capture(match, reading) for match in matches]
    else:
        raise KvpmError(f"no such file or folder: {text}", hint="check the path")


def _add_folder(folder: Path, reading: Reading, found: Found, *, alone: bool) -> None:
    try:
        entries = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    except OSError as error:
        raise KvpmError(f"{folder} cannot be read: {error.strerror or error}", hint="check its permissions") from error
    traces = [p for p in entries if is_trace(p)]
    folders = [p for p in entries if p.is_dir() and p not in traces]
    files = [p for p in entries if p.is_file()]
    kept = [*traces]
    stored = {p.name.removesuffix(_TRACE) for p in traces}
    for each in folders:
        why = _why_not(each, stored)
        if why:
            found.skipped.append(Skipped(fmt.clean(each.name, _NAME_LENGTH), why))
        else:
            kept.append(each)
    if kept:
        found.captures += [_capture(p, reading) for p in kept]
        found.skipped += [Skipped(fmt.clean(p.name, _NAME_LENGTH), _("a file beside captures that are folders")) for p in files]
    elif not alone and files:
        found.captures.append(_capture(folder, reading))
    elif files:
        found.captures += [_capture(p, reading, loose=True) for p in files]
        found.of_files.append(str(folder))


def _why_not(folder: Path, stored: Iterable[str]) -> str:
    """Why a sub-folder is no capture; empty when it is one."""
    if is_batch(folder):
        return _("made by kvpm batch")
    if folder.name in stored:
        return _("read from {trace} beside it", trace=fmt.clean(folder.name + _TRACE, _NAME_LENGTH))
    holds_traces = False
    try:
        for root, folders, files in os.walk(folder, onerror=_raise):
            if any(not name.startswith(".") for name in files):
                return ""
            holds_traces = holds_traces or any(is_trace(Path(root, d)) for d in folders)
            folders[:] = [d for d in folders if not d.startswith(".") and not is_trace(Path(root, d))]
    except OSError:
        # to be a capture that cannot be read, and told as one
        return ""
    return _("holds stored traces only: name the folder itself") if holds_traces else _("holds no file")


def _raise(error: OSError) -> None:
    raise error


def _capture(path: Path, reading: Reading, *, loose: bool = False) -> Capture:
    whole = Path(os.path.abspath(path))
    name = whole.name.removesuffix(_TRACE) if is_trace(whole) else whole.name
    return Capture(fmt.clean(name, _NAME_LENGTH) or "capture", whole.parent, (whole.name,), reading, loose)


def _once(captures: Sequence[Capture]) -> list[Capture]:
    """Each capture once, whichever way it was named; those of a list may differ in what they look at."""
    return list({(c.base, c.inputs, c.reading, c.name): c for c in captures}.values())


def _named(captures: Sequence[Capture]) -> list[Capture]:
    """The captures in the order of their names, which differ. A stored trace of a name keeps it before a folder does."""
    names = told_apart([(c.name, fmt.clean(c.base.name, _NAME_LENGTH)) for c in captures])
    assert max(Counter(names).values(), default=1) == 1
    return sorted((replace(c, name=n) for c, n in zip(captures, names, strict=True)), key=lambda c: c.name)
