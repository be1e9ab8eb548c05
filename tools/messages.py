"""Brings the catalogues in analyzer/locale in line with the texts: `python tools/messages.py [--check]`.

Texts come from calls of `_`, `N_` and `ngettext` in Python, from the templates, and from the values of TEXT_KEYS in the
TOML files of the diagnosis. `--check` changes nothing; it lists what is missing, unsure or out of date and exits with 1.
"""

from __future__ import annotations

import io
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from babel.messages import Catalog
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from jinja2.ext import babel_extract

ROOT = Path(__file__).resolve().parents[1]
LOCALE = ROOT / "analyzer" / "locale"
KEYWORDS: dict[str, Any] = {"_": None, "N_": None, "ngettext": (1, 2)}
# Which values of which TOML file are read by people.
TEXT_KEYS = {
    "questions.toml": {"title", "read", "why", "advice", "signals"},
    "advice.toml": {"action", "moves", "cost", "leave_alone"},
    "settings.toml": {"sentence", "why"},
}
# Header lines that name a day or a person.
_BY_ITSELF = re.compile(
    rb'^"(POT-Creation-Date|PO-Revision-Date|Generated-By|Last-Translator|Language-Team|Report-Msgid-Bugs-To):.*\n', re.MULTILINE
)
_NO_DAY = datetime(2000, 1, 1, tzinfo=UTC)
# A field with its form: what is lost may be either.
_FIELD = re.compile(r"\{([^{}]*)\}")


def template_messages() -> Catalog:
    """All texts of the code, in the order of their files."""
    catalogue = Catalog(project="kvpm", charset="utf-8", fuzzy=False)
    for where, message in _found():
        catalogue.add(message, locations=[(where, 0)])
    return catalogue


def _found() -> Iterator[tuple[str, Any]]:
    for path in sorted((ROOT / "analyzer").rglob("*.py")):
        with path.open("rb") as file:
            for _line, message, _comments, _context in extract("python", file, keywords=KEYWORDS):
                yield path.relative_to(ROOT).as_posix(), message
    for path in sorted((ROOT / "templates").rglob("*.j2")):
        with path.open("rb") as file:
            options = {"trim_blocks": "true", "lstrip_blocks": "true", "newstyle_gettext": "true", "silent": "false"}
            for _line, message, _comments, _context in extract(babel_extract, file, keywords=KEYWORDS, options=options):
                yield path.relative_to(ROOT).as_posix(), message
    for path in sorted((ROOT / "analyzer" / "diagnosis").glob("*.toml")):
        if path.name in TEXT_KEYS:
            for text in _texts(tomllib.loads(path.read_text(encoding="utf-8")), TEXT_KEYS[path.name]):
                yield path.relative_to(ROOT).as_posix(), text


def _texts(value: Any, keys: set[str], wanted: bool = False) -> Iterator[str]:
    if isinstance(value, str) and wanted:
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, keys, wanted or key in keys)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, keys, wanted)


def updated(language: str) -> Catalog:
    """The catalogue of a language with today's texts: known translations kept, those of gone texts dropped."""
    path = LOCALE / language / "LC_MESSAGES" / "kvpm.po"
    if path.exists():
        with path.open("rb") as file:
            catalogue = read_po(file, locale=language, domain="kvpm")
    else:
        catalogue = Catalog(locale=language, domain="kvpm", project="kvpm", charset="utf-8", fuzzy=False)
    catalogue.update(template_messages(), no_fuzzy_matching=True, update_creation_date=False)
    catalogue.obsolete.clear()
    # the .mo carries the header too: with dates of today it would never be up to date
    catalogue.creation_date = catalogue.revision_date = _NO_DAY
    catalogue.header_comment = f"# The texts of kvpm in {catalogue.locale.english_name}." if catalogue.locale else ""
    return catalogue


def as_po(catalogue: Catalog) -> bytes:
    """The catalogue as text, without anything that changes by itself."""
    buffer = io.BytesIO()
    write_po(buffer, catalogue, width=0, sort_output=True, omit_header=False, include_lineno=False)
    return _BY_ITSELF.sub(b"", buffer.getvalue())


def as_mo(catalogue: Catalog) -> bytes:
    """What gettext reads."""
    buffer = io.BytesIO()
    write_mo(buffer, catalogue)
    return buffer.getvalue()


def complaints(catalogue: Catalog) -> list[str]:
    """Texts without a translation, and translations that lose or invent a field."""
    found = []
    for message in catalogue:
        if not message.id:
            continue
        ids = message.id if isinstance(message.id, tuple) else (message.id,)
        strings = message.string if isinstance(message.string, tuple) else (message.string,)
        if not all(strings) or message.fuzzy:
            found.append(f"not translated: {ids[0]}")
        elif any(set(_FIELD.findall(s)) != set(_FIELD.findall(ids[-1])) for s in strings):
            found.append(f"fields differ: {ids[0]}")
    return found


def main(arguments: list[str]) -> int:
    """Update or check all catalogues."""
    failed = 0
    for folder in sorted(p for p in LOCALE.iterdir() if p.is_dir() and not p.name.startswith("_")):
        catalogue = updated(folder.name)
        po, mo = folder / "LC_MESSAGES" / "kvpm.po", folder / "LC_MESSAGES" / "kvpm.mo"
        po.parent.mkdir(parents=True, exist_ok=True)
        problems = complaints(catalogue)
        new_po = as_po(catalogue)
        new_mo = as_mo(catalogue)
        if "--check" in arguments:
            if not po.exists() or po.read_bytes() != new_po or not mo.exists() or mo.read_bytes() != new_mo:
                problems.append("out of date: run `make messages`")
        else:
            po.write_bytes(new_po)
            mo.write_bytes(new_mo)
        for problem in problems:
            print(f"{folder.name}: {problem}")
        failed += len(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
