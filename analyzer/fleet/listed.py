"""A list of captures in TOML, for those that no folder or glob can name.

    tz = "Asia/Shanghai"                # of every capture that does not say otherwise

    [[capture]]
    name = "tuesday"
    inputs = ["tue/server.log", "tue/metrics-*.prom"]   # relative to the list
    since = "07:08"

A capture may have the options of `kvpm report` that say how to read it: tz, year, instance, offset, at, map, keep_text,
since, until. What the list says goes before what the command line says.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from analyzer.errors import KvpmError
from analyzer.fleet.model import Capture, Reading
from analyzer.report import fmt

_OPTIONS = tuple(f.name for f in fields(Reading))
_SEVERAL = ("instance", "offset", "map")
_EXAMPLE = 'for example: [[capture]], name = "tuesday", inputs = ["tue/server.log"]'
_NAME_LENGTH = 120


def read_list(path: Path, reading: Reading) -> list[Capture]:
    """The captures that the file lists, in its order. Raises KvpmError, which says what is wrong and where."""
    document = _toml(path)
    captures = document.pop("capture", [])
    if not isinstance(captures, list) or not captures or not all(isinstance(c, dict) for c in captures):
        raise KvpmError(f"{path} lists no capture", hint=_EXAMPLE)
    common = _options(f"{path}", document, reading)
    base = Path(os.path.abspath(path)).parent
    found: dict[str, Capture] = {}
    for number, entry in enumerate(captures, 1):
        capture = _one(f"{path}: capture {number}", entry, base, common)
        if capture.name in found:
            raise KvpmError(f"{path}: capture {number} is named {capture.name!r}, as one before it is", hint="give each a name of its own")
        found[capture.name] = capture
    return list(found.values())


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KvpmError(f"{path} cannot be read: {error.strerror or error}", hint="check its permissions") from error
    except UnicodeDecodeError:
        raise KvpmError(f"{path} is no text in UTF-8", hint=_EXAMPLE) from None
    except tomllib.TOMLDecodeError as error:
        raise KvpmError(f"{path} is no TOML: {error}", hint=_EXAMPLE) from None


def _one(where: str, entry: Mapping[str, Any], base: Path, common: Reading) -> Capture:
    given = dict(entry)
    name = given.pop("name", None)
    if not isinstance(name, str) or not fmt.clean(name, _NAME_LENGTH).strip():
        raise KvpmError(f"{where} has no name", hint=_EXAMPLE)
    where = f"{where} ({fmt.clean(name, 40)})"
    inputs = given.pop("inputs", None)
    if isinstance(inputs, str):
        inputs = [inputs]
    if not isinstance(inputs, list) or not inputs or not all(isinstance(i, str) and i for i in inputs):
        raise KvpmError(f"{where}: inputs is no list of paths", hint='for example: inputs = ["tue/server.log"]')
    if "-" in inputs:
        raise KvpmError(f"{where}: a batch cannot read standard input", hint="name files, folders or globs")
    # what is shown and stored must not tell where on this machine the list lies
    relative = tuple(os.path.relpath(i, base) if os.path.isabs(i) else i for i in inputs)
    return Capture(fmt.clean(name, _NAME_LENGTH).strip(), base, relative, _options(where, given, common))


def _options(where: str, given: Mapping[str, Any], common: Reading) -> Reading:
    changes: dict[str, Any] = {}
    for key, value in given.items():
        if key not in _OPTIONS:
            near = get_close_matches(key, (*_OPTIONS, "name", "inputs", "capture"), n=1)
            hint = f"near to it: {near[0]}" if near else f"there are name, inputs, {', '.join(_OPTIONS)}"
            raise KvpmError(f"{where}: there is no option {key!r}", hint=hint)
        changes[key] = _value(where, key, value)
    return replace(common, **changes)


def _value(where: str, key: str, value: Any) -> Any:
    if key in _SEVERAL:
        several = [value] if isinstance(value, str) else value
        if isinstance(several, list) and all(isinstance(v, str) for v in several):
            return tuple(several)
        raise KvpmError(f"{where}: {key} is no list of texts", hint=f'for example: {key} = ["…"], as --{key} has it')
    if key == "keep_text":
        if isinstance(value, bool):
            return value
        raise KvpmError(f"{where}: keep_text is neither true nor false", hint="keep_text = true")
    if key == "year":
        if isinstance(value, int) and not isinstance(value, bool) and 2015 <= value <= 2100:
            return value
        raise KvpmError(f"{where}: year is no year from 2015 to 2100", hint="year = 2026")
    if not isinstance(value, str):
        raise KvpmError(f"{where}: {key} is no text", hint=f'put it in quotes: {key} = "{fmt.clean(value, 40)}"')
    return value
