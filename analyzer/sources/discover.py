"""From what the user typed to the list of inputs: files, folders, globs, URLs and standard input."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from analyzer.errors import KvpmError
from analyzer.sources.opening import TextSource
from analyzer.sources.remote import RemoteFile, find_files
from analyzer.sources.urls import is_url, parent, protocol, shown

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Input:
    """One input. `path` is None for standard input, for an object behind a URL (`remote`), and for a server that is asked
    (`live`; `key` names the question).

    `name` is how it is shown and stored: as given, or below the folder that was given. `folder` is the
    folder it lies in; files of one folder are taken for one server unless something says otherwise.
    `named` is False for a file that was found in a folder or by a glob, not named itself.
    """

    path: Path | None
    name: str
    folder: str
    named: bool = True
    live: TextSource | None = None
    key: str = ""
    remote: RemoteFile | None = None

    def __post_init__(self) -> None:
        # A name that is not UTF-8 opens as it is, and is shown and stored as far as it can be read.
        for field in ("name", "folder"):
            object.__setattr__(self, field, readable(getattr(self, field)))

    @property
    def size(self) -> int:
        """Bytes of a file or an object as it is stored; 0 where that is not known."""
        if self.path is None and self.remote is not None:
            return self.remote.size or 0
        try:
            return self.path.stat().st_size if self.path is not None else 0
        except OSError:
            return 0  # reading it will say what is wrong


def readable(name: str) -> str:
    """A file's name as text that can be stored: bytes that are not UTF-8 become marks."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def is_trace(path: Path) -> bool:
    """True for a stored trace (a folder with a manifest)."""
    try:
        return path.is_dir() and (path / "manifest.json").is_file()
    except OSError:
        return False  # what cannot be looked into is no trace


def find_inputs(given: Sequence[str]) -> list[Input]:
    """The inputs behind `given`, in a stable order, each once.

    Raises KvpmError for a path that does not exist, a pattern that matches nothing, and a URL that cannot be read.
    """
    inputs: list[Input] = []
    seen: set[Path | str] = set()
    for text in given:
        if text == STDIN:
            inputs.append(Input(None, "stdin", "stdin"))
            continue
        for item in _expand(text):
            real = item.path.resolve() if item.path else item.name
            if real not in seen:
                seen.add(real)
                inputs.append(item)
    return inputs


def _expand(text: str) -> list[Input]:
    if protocol(text) == "file":
        text = unquote(urlsplit(text).path)
    if is_url(text):
        return [Input(None, f.name, parent(f.url), named=f.name == shown(text), remote=f) for f in find_files(text)]
    path = Path(text)
    if path.is_dir():
        return _walk(path)
    if os.path.lexists(path):
        return [Input(path, text, _folder(path))]
    if glob.has_magic(text):
        matches = sorted(glob.glob(text, recursive=True))
        if not matches:
            raise KvpmError(f"no file matches {text!r}", hint="quote the pattern, or name the files")
        found: list[Input] = []
        for match in matches:
            part = Path(match)
            found += _walk(part) if part.is_dir() else [Input(part, match, _folder(part), named=False)]
        return found
    raise KvpmError(f"no such file or folder: {text}", hint="check the path; '-' reads standard input")


def _folder(path: Path) -> str:
    return str(path.resolve().parent)


def _walk(folder: Path) -> list[Input]:
    """Regular files below `folder`, hidden ones and stored traces left out."""
    found: list[Input] = []
    for root, dirs, files in os.walk(folder):
        here = Path(root)
        dirs[:] = sorted(d for d in dirs if not d.startswith(".") and not is_trace(here / d))
        for name in sorted(files):
            path = here / name
            if not name.startswith(".") and path.is_file():
                found.append(Input(path, str(path), _folder(path), named=False))
    return found
