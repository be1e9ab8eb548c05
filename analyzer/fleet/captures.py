"""From what the user typed to the captures of a batch.

- A stored trace is one capture.
- A folder is a folder of captures: each stored trace and each folder with files directly in it is one. A folder of files
  only is one capture where it is one of several inputs; given alone, each of its files is one.
- A URL is taken as a path is: a prefix of a store or a page of links as a folder, a pattern as a glob.
- What a glob finds, file or folder, is one capture each; so is a file that is named.
- A file NAME.toml is a list of captures (`analyzer.fleet.listed`).
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from analyzer.errors import KvpmError, NothingUsableError
from analyzer.fleet.listed import read_list
from analyzer.fleet.model import Capture, Reading, Skipped
from analyzer.fleet.names import told_apart
from analyzer.fleet.stamps import stamps_of
from analyzer.fleet.state import is_batch
from analyzer.language import _
from analyzer.report import fmt
from analyzer.sources.discover import STDIN, is_trace
from analyzer.sources.remote import RemoteFile, find_files, has_magic
from analyzer.sources.urls import WEB, is_url, own_name, parent, protocol, shown

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
            f"no capture in {', '.join(map(shown, given))}{why}",
            hint="give a folder whose sub-folders are captures, a glob in quotes, or a list.toml",
        )
    return found


def _add(text: str, reading: Reading, found: Found, *, alone: bool) -> None:
    if text == STDIN:
        raise KvpmError("a batch cannot read standard input", hint="name files, folders, a glob or a list of captures")
    if is_url(text) and protocol(text) != "file":
        _add_remote(text, reading, found, alone=alone)
        return
    path = Path(unquote(urlsplit(text).path) if is_url(text) else text)
    if is_trace(path):
        found.captures.append(_capture(path, reading))
    elif path.is_dir():
        _add_folder(path, reading, found, alone=alone)
    elif path.suffix == ".toml" and path.is_file():
        found.captures += read_list(path, reading)
    elif os.path.lexists(path):
        found.captures.append(_capture(path, reading))
    elif glob.has_magic(str(path)):
        matches = [Path(m) for m in sorted(glob.glob(str(path), recursive=True)) if not is_batch(Path(m))]
        if not matches:
            raise KvpmError(f"nothing matches {text!r}", hint="quote the pattern, and check where it begins")
        found.captures += [_capture(match, reading) for match in matches]
    else:
        raise KvpmError(f"no such file or folder: {text}", hint="check the path")


def _add_remote(url: str, reading: Reading, found: Found, *, alone: bool) -> None:
    files = find_files(url)
    top = url.partition("?")[0] if protocol(url) in WEB else url
    if has_magic(url):
        # what matched is as deep as the pattern; ** matches files at any depth
        depth = None if "**" in top else len(top.rstrip("/").split("/"))
        found.captures += _remote_groups(files, depth, reading)
        return
    if len(files) == 1 and files[0].name == shown(url):
        found.captures.append(_remote_capture(url, files, reading))
        return
    depth = len(shown(top).rstrip("/").split("/")) + 1
    beside = [f for f in files if len(f.name.split("/")) == depth]
    below = [f for f in files if f not in beside]
    if below:
        found.captures += _remote_groups(below, depth, reading)
        found.skipped += [Skipped(fmt.clean(own_name(f.name), _NAME_LENGTH), _("a file beside captures that are folders")) for f in beside]
    elif alone:
        found.captures += [_remote_capture(f.url, [f], reading, loose=True) for f in beside]
        found.of_files.append(shown(url))
    else:
        found.captures.append(_remote_capture(url, files, reading))


def _remote_groups(files: Sequence[RemoteFile], depth: int | None, reading: Reading) -> Iterator[Capture]:
    """A capture of each object or folder that is `depth` parts of an address deep; None is a capture of each object."""
    groups: dict[str, list[RemoteFile]] = {}
    for file in files:
        parts = file.url.split("/")
        whole = depth is None or len(parts) <= depth
        groups.setdefault(file.url if whole else "/".join(parts[:depth]) + "/", []).append(file)
    yield from (_remote_capture(url, group, reading) for url, group in groups.items())


def _remote_capture(url: str, files: Sequence[RemoteFile], reading: Reading, *, loose: bool = False) -> Capture:
    # nothing of it lies on this machine
    return Capture(fmt.clean(own_name(url), _NAME_LENGTH) or "capture", Path(os.sep), (url,), reading, loose, stamps_of(files))


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
    names = told_apart([(c.name, fmt.clean(_folder_name(c), _NAME_LENGTH)) for c in captures])
    assert max(Counter(names).values(), default=1) == 1
    return sorted((replace(c, name=n) for c, n in zip(captures, names, strict=True)), key=lambda c: c.name)


def _folder_name(capture: Capture) -> str:
    first = capture.inputs[0]
    return own_name(parent(first)) if is_url(first) else capture.base.name
