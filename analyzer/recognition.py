"""Which inputs are sources that a trace has already: the same as they were, or grown, whatever they are called by now."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzer.input_reading import hash_of
from analyzer.sources.discover import Input
from analyzer.sources.sampling import sample_of
from analyzer.trace.manifest import Manifest, StoredSource

# The beginning by which a source is named, and looked for under another name.
_ID_BYTES = 4096
# Files up to this size are compared byte for byte, larger ones by a sample.
_HASHED_WHOLE = 16 << 20


@dataclass(slots=True)
class Recognised:
    """An input, and the source that it is: `source_id` to store it under, `same` when it is unchanged, `grown` when it has
    more than was read. `head` tells its beginning; empty where there is too little of it. `renamed`: the source is called like
    the input from now on."""

    item: Input
    source_id: str = ""
    same: StoredSource | None = None
    grown: StoredSource | None = None
    head: str = ""
    renamed: bool = False


class _File:
    """A file on disk as it is now; what was read of it to compare it is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hashes: dict[int, str] = {}
        self._samples: dict[int, str | None] = {}
        self.size = path.stat().st_size
        with path.open("rb") as handle:
            self.head = handle.read(_ID_BYTES)

    def holds(self, stored: StoredSource) -> bool:
        """True when it begins with all that was read of a source."""
        if stored.size > self.size:
            return False
        if stored.sha256 is not None and (stored.size <= _HASHED_WHOLE or stored.sample is None):
            return stored.sha256 == self._hash(stored.size)
        return stored.sample is not None and stored.sample == self._sample(stored.size)

    def goes_on(self, stored: StoredSource) -> bool:
        """True when it has what was read of a source up to the place where reading goes on, and no less than there was of it."""
        if stored.resume is None:
            return stored.size < self.size and self.holds(stored)
        return stored.size <= self.size and stored.resume.sample == self._sample(stored.resume.offset)

    def _hash(self, size: int) -> str:
        if size not in self._hashes:
            self._hashes[size] = hash_of(self._path, size)
        return self._hashes[size]

    def _sample(self, size: int) -> str | None:
        if size not in self._samples:
            self._samples[size] = sample_of(self._path, size)
        return self._samples[size]


def recognise(inputs: Sequence[Input], manifest: Manifest) -> list[Recognised]:
    """What each input is, in their order. A pipe is not looked into, since what is read of it is gone.

    A source that grew is found by its name first: a copy of what it was before is nothing new then.
    """
    found = [Recognised(item) for item in inputs]
    files = {n: file for n, r in enumerate(found) if (file := _file_of(r.item)) is not None}
    for n, file in files.items():
        found[n].head = hashlib.sha256(file.head).hexdigest()[:16] if len(file.head) == _ID_BYTES else ""
    _find_grown_by_name(found, files, manifest)
    _find_same(found, files, manifest)
    _find_grown_by_content(found, files, manifest)
    _find_asked(found, manifest)
    taken = {s.source_id for s in manifest.sources}
    for n, r in enumerate(found):
        stored = r.same or r.grown
        if r.source_id:
            continue
        if stored is not None:
            r.source_id = stored.source_id
        else:
            r.source_id = _free_id(_wanted_id(r.item, files[n].head if n in files else b""), taken)
            taken.add(r.source_id)
    _find_renamed(found)
    return found


def _file_of(item: Input) -> _File | None:
    # reading an input that cannot be opened will say what is wrong with it
    with contextlib.suppress(OSError):
        if item.path is not None and item.path.is_file():
            return _File(item.path)
    return None


def _find_grown_by_name(found: list[Recognised], files: dict[int, _File], manifest: Manifest) -> None:
    by_path: dict[str, list[StoredSource]] = {}
    for stored in manifest.sources:
        by_path.setdefault(stored.path, []).append(stored)
    claimed: set[str] = set()
    for n, file in files.items():
        for stored in by_path.get(found[n].item.name, ()):
            if stored.source_id in claimed:
                continue
            with contextlib.suppress(OSError):
                if file.goes_on(stored) and not (file.size == stored.size and file.holds(stored)):
                    found[n].grown = stored
                    claimed.add(stored.source_id)
                    break


def _find_same(found: list[Recognised], files: dict[int, _File], manifest: Manifest) -> None:
    by_size: dict[int, list[StoredSource]] = {}
    for stored in manifest.sources:
        by_size.setdefault(stored.size, []).append(stored)
    for n, file in files.items():
        if found[n].grown is None:
            with contextlib.suppress(OSError):
                found[n].same = next((s for s in by_size.get(file.size, ()) if file.holds(s)), None)


def _find_grown_by_content(found: list[Recognised], files: dict[int, _File], manifest: Manifest) -> None:
    by_head: dict[str, list[StoredSource]] = {}
    for stored in manifest.sources:
        if stored.head:
            by_head.setdefault(stored.head, []).append(stored)
    claimed = {known.source_id for r in found if (known := r.same or r.grown) is not None}
    for n, file in files.items():
        r = found[n]
        if r.same is not None or r.grown is not None:
            continue
        for stored in by_head.get(r.head, ()):
            if stored.source_id in claimed:
                continue
            with contextlib.suppress(OSError):
                if file.goes_on(stored):
                    r.grown, r.renamed = stored, True
                    claimed.add(stored.source_id)
                    break


def _find_asked(found: list[Recognised], manifest: Manifest) -> None:
    """What comes from a server: told by its name, and by the version of an object."""
    for r in found:
        if r.item.live is not None:
            # the same question again replaces its answer
            r.source_id = _digest(r.item.key)
        elif r.item.remote is not None:
            known = next((s for s in manifest.sources if s.path == r.item.name), None)
            if known is not None:
                same = r.item.remote.size in (None, known.size) and known.version == r.item.remote.version != ""
                r.source_id, r.same = known.source_id, known if same else None


def _find_renamed(found: list[Recognised]) -> None:
    """A log that was rotated is what it was, under another name of the same folder; its own name is gone or another log's."""
    by_name = {r.item.name: r for r in found}
    claimed = {r.grown.source_id for r in found if r.grown is not None}
    for r in found:
        stored = r.same
        if stored is None or stored.path == r.item.name or stored.folder != r.item.folder or r.item.path is None:
            continue
        beside = by_name.get(stored.path)
        gone = not _is_there(stored) if beside is None else (beside.same or beside.grown) is not stored
        r.renamed = gone and stored.source_id not in claimed
        claimed.add(stored.source_id)


def _is_there(stored: StoredSource) -> bool:
    with contextlib.suppress(OSError):
        file = _File(Path(stored.path))
        return file.size == stored.size and file.holds(stored)
    return False


def _wanted_id(item: Input, head: bytes) -> str:
    if item.remote is not None:
        return _digest(item.name)
    if item.path is None:
        return "stdin"
    return hashlib.sha256(head + Path(item.name).name.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _free_id(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name
