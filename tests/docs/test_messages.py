"""The catalogues: every text of the code is translated, with the same fields, and the files are in line with the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from analyzer import language

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = [name for name in language.LANGUAGES if name != "en"]


@pytest.fixture(scope="module")
def messages() -> ModuleType:
    """tools/messages.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("messages", ROOT / "tools" / "messages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_text_is_translated_with_its_fields(messages: ModuleType, lang: str) -> None:
    assert messages.complaints(messages.updated(lang)) == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_catalogues_are_current(messages: ModuleType, lang: str) -> None:
    folder = ROOT / "analyzer" / "locale" / lang / "LC_MESSAGES"
    catalogue = messages.updated(lang)
    assert (folder / "kvpm.po").read_bytes() == messages.as_po(catalogue), "run: make messages"
    assert (folder / "kvpm.mo").read_bytes() == messages.as_mo(catalogue), "run: make messages"


def test_texts_come_from_code_templates_and_data(messages: ModuleType) -> None:
    found = {m.id: {path for path, _ in m.locations} for m in messages.template_messages() if m.id}
    assert "analyzer/report/words.py" in found["No incident found"]
    assert "analyzer/units.py" in found["{n} request", "{n} requests"]
    assert "templates/macros.html.j2" in found["Showing {shown} of {total}."]
    assert "analyzer/diagnosis/questions.toml" in {path for paths in found.values() for path in paths}


def test_a_lost_or_invented_field_is_told(messages: ModuleType) -> None:
    catalogue = messages.Catalog(locale="zh")
    catalogue.add("{n} of {total}", "{n}")
    catalogue.add("all {n}", "{n} {m}")
    catalogue.add("a page of {arg.page_size}", "{arg.block_size}")
    catalogue.add("used to {usage:share}", "{usage}")
    catalogue.add("used for {spell:seconds}", "{spell:seconds}")
    catalogue.add("read", "")
    catalogue.add(("{n} line", "{n} lines"), ("{n} 行",))
    assert messages.complaints(catalogue) == [
        "fields differ: {n} of {total}",
        "fields differ: all {n}",
        "fields differ: a page of {arg.page_size}",
        "fields differ: used to {usage:share}",
        "not translated: read",
    ]
