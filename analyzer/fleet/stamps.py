"""What tells whether the inputs of a capture are those that its report was made from."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from analyzer.errors import ExitCode, KvpmError
from analyzer.fleet.model import Capture, Stamp
from analyzer.report import fmt
from analyzer.sources.discover import find_inputs, is_trace
from analyzer.sources.remote import RemoteFile, find_files
from analyzer.sources.urls import is_url

_PATH_LENGTH = 1000


def stamps(capture: Capture, known: Sequence[Stamp] = ()) -> tuple[Stamp, ...]:
    """A stamp of each file and of each object of the capture.

    A file of the size and the time of change of a `known` one is taken to be that one: the others are read for their hash.
    Raises KvpmError for an input that is not there or cannot be read.
    """
    by_path: Mapping[str, Stamp] = {s.path: s for s in known}
    found = [stamp for url in capture.inputs if is_url(url) for stamp in stamps_of(find_files(url))]
    for shown, path in _files(capture):
        try:
            about = path.stat()
            before = by_path.get(shown)
            if before is not None and (before.size, before.mtime_ns) == (about.st_size, about.st_mtime_ns):
                found.append(before)
            else:
                found.append(Stamp(shown, about.st_size, _hash(path), about.st_mtime_ns))
        except OSError as error:
            raise _unreadable(shown, error) from error
    return tuple(found)


def untouched(capture: Capture, known: Sequence[Stamp]) -> bool:
    """True when the files are the known ones by their names, sizes and times of change, or objects by their versions; none is read."""
    if capture.listed:
        return same_content(capture.listed, known)
    if any(map(is_url, capture.inputs)):
        return False
    try:
        now = [(shown, (about := path.stat()).st_size, about.st_mtime_ns) for shown, path in _files(capture)]
    except (OSError, KvpmError):
        return False
    return now == [(s.path, s.size, s.mtime_ns) for s in known]


def same_content(one: Sequence[Stamp], other: Sequence[Stamp]) -> bool:
    """True when names, sizes and bytes are the same; of an object without a hash or a version that is not known."""
    told = all(s.sha256 or s.version for s in one)
    return told and [(s.path, s.size, s.sha256, s.version) for s in one] == [(s.path, s.size, s.sha256, s.version) for s in other]


def stamps_of(objects: Sequence[RemoteFile]) -> tuple[Stamp, ...]:
    """Stamps of objects as their store lists them."""
    return tuple(Stamp(fmt.clean(o.name, _PATH_LENGTH), o.size or 0, version=o.version) for o in objects)


def _files(capture: Capture) -> Iterator[tuple[str, Path]]:
    """(path below the capture's base, as shown; where it is) of every file, in a stable order."""
    base = capture.base
    for text in capture.inputs:
        if is_url(text):
            continue
        path = base / text
        if is_trace(path):
            files = sorted(p for p in path.rglob("*") if p.is_file())
        elif os.path.lexists(path):
            _refuse_unreadable(path, text)
            files = [i.path for i in find_inputs([str(path)]) if i.path is not None]
        else:
            pattern = os.path.join(glob.escape(str(base)), text)
            try:
                files = [i.path for i in find_inputs([pattern]) if i.path is not None]
            except KvpmError:
                raise KvpmError(f"no such file or folder: {fmt.clean(text, _PATH_LENGTH)}", hint="check the path") from None
        for file in files:
            shown = fmt.clean(os.path.relpath(file, base), _PATH_LENGTH)
            if not file.is_file():
                # to read a pipe twice is to lose what it held
                raise KvpmError(f"{shown} is no file", hint="a batch reads files, folders and stored traces")
            yield shown, file


def _refuse_unreadable(path: Path, shown: str) -> None:
    """A folder that cannot be looked into would read as an empty one."""
    if path.is_dir():
        try:
            next(path.iterdir(), None)
        except OSError as error:
            raise _unreadable(fmt.clean(shown, _PATH_LENGTH), error) from error


def _unreadable(shown: str, error: OSError) -> KvpmError:
    return KvpmError(f"{shown} cannot be read: {error.strerror or error}", hint="check its permissions", exit_code=ExitCode.INPUT_CUT)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
