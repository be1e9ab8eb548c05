"""batch.json: what a batch has done so far, to be looked at by the next run and by scripts.

It is written in one step after a capture is done, so an interrupted batch goes on where it was. Nothing in it depends on
the time of day or on where the folder lies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analyzer import __version__
from analyzer.errors import KvpmError
from analyzer.fleet.model import Fleet, Record, Stamp, Summary
from analyzer.report.write import write_report
from analyzer.sources.urls import is_url

FILE = "batch.json"
FORMAT_VERSION = 1
REPORTS, TRACES, ASSETS, INDEX, DATASET = "reports", "traces", "assets", "index.html", "dataset"
# What workers made and nobody has looked at yet; only a run that goes on has it.
STAGING = ".making"
_KIND = "kvpm batch"


def is_batch(folder: Path) -> bool:
    """True for a folder that a batch was written to."""
    try:
        return (folder / FILE).is_file() and _read(folder).get("kind") == _KIND
    except (OSError, ValueError):
        return False


def load(folder: Path) -> Fleet | None:
    """What the last run left in `folder`; None when there is nothing there yet.

    Raises KvpmError when the folder is somebody else's, or of a newer release. A record that cannot be understood is left
    out: its capture is read again.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise KvpmError(f"{folder} is no folder", hint="name a folder for -o; it is made if it is not there")
    if not (folder / FILE).exists():
        if any(folder.iterdir()):
            raise KvpmError(f"{folder} holds files, and not those of a batch", hint="name a new or an empty folder for -o")
        return None
    try:
        stored = _read(folder)
        version = stored["format_version"]
        if stored.get("kind") != _KIND or not isinstance(version, int):
            raise ValueError("it is of another tool")
    except (OSError, ValueError, KeyError) as error:
        raise KvpmError(f"{folder / FILE} cannot be understood: {error}", hint="name a new or an empty folder for -o") from error
    if version > FORMAT_VERSION:
        raise KvpmError(
            f"{folder / FILE} has format {version}; this release reads up to {FORMAT_VERSION}", hint="update kvpm, or name another folder"
        )
    records = (_record(entry) for entry in _list(stored.get("captures")))
    return Fleet(
        lang=str(stored.get("lang", "")),
        captures=tuple(r for r in records if r is not None),
        assets=tuple(a for a in _list(stored.get("assets")) if isinstance(a, str) and is_plain(a)),
    )


def save(folder: Path, fleet: Fleet) -> None:
    """Replace batch.json by one that says `fleet`."""
    document = {
        "kind": _KIND,
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        "lang": fleet.lang,
        "thresholds": dict(fleet.thresholds),
        "assets": list(fleet.assets),
        "captures": [_record_json(r) for r in fleet.captures],
        "failures": [
            {"name": f.name, "reason": f.reason, "hint": f.hint, "exit_code": f.exit_code} for f in fleet.failures
        ],
        "skipped": [{"what": s.what, "why": s.why} for s in fleet.skipped],
    }  # fmt: skip
    write_report(folder / FILE, json.dumps(document, indent=1) + "\n", force=True)


def is_plain(name: str) -> bool:
    """True for the name of a file in a folder, as against a way out of it: what batch.json names may be removed."""
    return bool(re.fullmatch(r"[^/\\\x00]+", name)) and not name.startswith(".")


def _read(folder: Path) -> dict[str, Any]:
    stored = json.loads((folder / FILE).read_text(encoding="utf-8"))
    if not isinstance(stored, dict):
        raise ValueError("it is no object")
    return stored


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _record_json(record: Record) -> dict[str, Any]:
    return {
        "name": record.name,
        "report": f"{REPORTS}/{record.report}",
        "trace": f"{TRACES}/{record.trace}" if record.trace else None,
        "made_with": record.made_with,
        "inputs": [_stamp_json(s) for s in record.inputs],
        "summary": record.summary.to_json(),
    }


def _record(stored: Any) -> Record | None:
    try:
        return Record(
            name=str(stored["name"]),
            report=_in(REPORTS, stored["report"]),
            trace=_in(TRACES, stored["trace"]) if stored["trace"] else "",
            made_with=str(stored["made_with"]),
            inputs=tuple(_stamp(s) for s in stored["inputs"]),
            summary=Summary.from_json(stored["summary"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _in(folder: str, path: str) -> str:
    name = path.removeprefix(f"{folder}/")
    if name == path or not is_plain(name):
        raise ValueError(f"{path!r} is not in {folder}")
    return name


def _stamp_json(stamp: Stamp) -> dict[str, Any]:
    about = {"path": stamp.path, "size": stamp.size}
    return about | ({"version": stamp.version} if is_url(stamp.path) else {"sha256": stamp.sha256, "mtime_ns": stamp.mtime_ns})


def _stamp(stored: Mapping[str, Any]) -> Stamp:
    path, size = str(stored["path"]), int(stored["size"])
    if is_url(path):
        return Stamp(path, size, version=str(stored["version"]))
    return Stamp(path, size, str(stored["sha256"]), int(stored["mtime_ns"]))
