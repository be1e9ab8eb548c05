"""The files of a dataset: a capture's parts take the place of its earlier ones, and nothing else is touched.

`.captures/STEM.json` says which parts a capture has, before one of them appears and after the last of its earlier ones is
gone: a run that was ended between two steps leaves nothing that the next one does not know of.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analyzer import __version__
from analyzer.errors import KvpmError
from analyzer.fleet.dataset.extract import ROWS
from analyzer.fleet.dataset.schema import PARTITIONED, SMALL, TABLES
from analyzer.trace.manifest import replace_file
from analyzer.trace.schema import TS, Table

FILE = "dataset.json"
FORMAT_VERSION = 1
_KIND = "kvpm dataset"
_CAPTURES = ".captures"


def is_dataset(folder: Path) -> bool:
    """True for a folder that a dataset was written to."""
    try:
        return bool(json.loads((folder / FILE).read_text(encoding="utf-8")).get("kind") == _KIND)
    except (OSError, ValueError, AttributeError):
        return False


def refuse_newer(folder: Path) -> None:
    """Raise KvpmError for a dataset of a later release."""
    version = json.loads((folder / FILE).read_text(encoding="utf-8")).get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise KvpmError(f"{folder} has dataset format {version}; this release reads up to {FORMAT_VERSION}", hint="update kvpm")


def begin(folder: Path) -> None:
    """Make the folder of a dataset, or go on with the one that is there."""
    (folder / _CAPTURES).mkdir(parents=True, exist_ok=True)
    _write_json(folder / FILE, {"kind": _KIND, "format_version": FORMAT_VERSION, "tool_version": __version__})


def holds(folder: Path, stem: str) -> bool:
    """True when the parts of a capture are whole and all there."""
    said = _said(folder, stem)
    return said.get("rows") is not None and all((folder / p).is_file() for p in _parts(said))


def replace(folder: Path, stem: str, made: Path) -> None:
    """Put the parts that were made of a capture, below `made`, in place of those that it had."""
    new = sorted(p.relative_to(made).as_posix() for p in made.rglob("*.parquet"))
    rows = json.loads((made / ROWS).read_text(encoding="utf-8"))
    old = list(_parts(_said(folder, stem)))
    _say(folder, stem, {"parts": sorted({*old, *new}), "rows": None})
    for part in new:
        target = folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        (made / part).replace(target)
    _remove(folder, set(old) - set(new))
    _say(folder, stem, {"parts": new, "rows": rows})


def remove(folder: Path, stem: str) -> None:
    """Take what a capture added out again."""
    said = folder / _CAPTURES / f"{stem}.json"
    _remove(folder, _parts(_said(folder, stem)))
    said.unlink(missing_ok=True)


def finish(folder: Path, stems: Iterable[str]) -> None:
    """Remove what is not of these captures, and write the small tables."""
    wanted = set(stems)
    for said in sorted((folder / _CAPTURES).glob("*.json")):
        if said.stem not in wanted:
            remove(folder, said.stem)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SMALL}
    for stem in sorted(wanted):
        for name, some in (_said(folder, stem).get("rows") or {}).items():
            if name in rows:
                rows[name] += some
    for name, table in SMALL.items():
        _write_small(folder / f"{name}.parquet", table, rows[name])


def _write_small(path: Path, table: Table, rows: list[dict[str, Any]]) -> None:
    times = [c.name for c in table.columns if c.type == TS]
    parsed = [{**r, **{t: None if r[t] is None else datetime.fromisoformat(r[t]) for t in times}} for r in rows]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(parsed, schema=table.arrow), sink, compression="zstd")
    replace_file(path, sink.getvalue().to_pybytes())


def _said(folder: Path, stem: str) -> dict[str, Any]:
    """What is known of a capture's parts; nothing where there is nothing that can be understood."""
    try:
        said = json.loads((folder / _CAPTURES / f"{stem}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _say(folder: Path, stem: str, said: dict[str, Any]) -> None:
    _write_json(folder / _CAPTURES / f"{stem}.json", said)


def _write_json(path: Path, document: dict[str, Any]) -> None:
    replace_file(path, json.dumps(document, indent=1).encode())


def _parts(said: dict[str, Any]) -> Iterator[str]:
    """The parts that are named, if they are parts: nothing else is ever removed."""
    for part in said.get("parts") or ():
        path = PurePosixPath(str(part))
        if path.parts[:1] and path.parts[0] in TABLES and len(path.parts) == 4 and ".." not in path.parts and path.suffix == ".parquet":
            yield str(path)


def _remove(folder: Path, parts: Iterable[str]) -> None:
    for part in sorted(parts):
        path = folder / part
        path.unlink(missing_ok=True)
        # a partition without a row is gone
        with contextlib.suppress(OSError):
            path.parent.rmdir()
            path.parent.parent.rmdir()


def parts_of(folder: Path, table: str) -> bool:
    """True when a large table has a row."""
    assert table in PARTITIONED
    return next((folder / table).glob("day=*/instance=*/*.parquet"), None) is not None
