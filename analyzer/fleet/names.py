"""Names of captures and of the files made for them: safe on any file system, unique, and the same on every run."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence

_LONGEST = 80
# Names that one system or another keeps for itself.
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def file_stems(names: Iterable[str]) -> dict[str, str]:
    """A file name without ending for each of the different `names`.

    A name that is fit for a file stays as it is. Any other, and one that differs from another by case only, gets part of
    its hash, so that it does not depend on which other captures are there.
    """
    stems: dict[str, str] = {}
    taken: set[str] = set()
    # those that stay as they are come first: another must not take their place
    for name in sorted(names, key=lambda n: (_fit(n) != n, n)):
        stem = _fit(name)
        if stem != name or stem.casefold() in taken:
            stem = f"{stem}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
        taken.add(stem.casefold())
        stems[name] = stem
    return stems


def _fit(name: str) -> str:
    """`name` with letters and digits of any script, dots, dashes and underscores only."""
    plain = unicodedata.normalize("NFC", name)
    kept = "".join(c if c.isalnum() or c in "._-" else "_" for c in plain)
    # a leading dot hides a file, a leading dash makes it an option
    stem = kept.strip("._-")[:_LONGEST].rstrip("._-") or "capture"
    return f"{stem}_" if _RESERVED.fullmatch(stem) else stem


def told_apart(named: Sequence[tuple[str, str]]) -> list[str]:
    """A unique name for each (name, name of the folder it lies in), as short as that allows."""
    short = [name for name, _ in named]
    longer = [f"{folder}/{name}" if short.count(name) > 1 and folder else name for name, folder in named]
    seen: dict[str, int] = {}
    unique = []
    for name in longer:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique
