"""The steps of docs/adding-a-format.md, applied to a copy of the formats as the page says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analyzer.formats import load
from analyzer.formats.load import FormatDataError, Registry, claimants, registry
from analyzer.formats.match import key_reports, match_line
from analyzer.formats.model import Sample

ROOT = Path(__file__).parents[2]
FORMATS = ROOT / "analyzer/formats"
STEPS = re.findall(
    r"^<!-- step: (\w+) -->\n```toml\n(.*?)^```$",
    (ROOT / "docs/adding-a-format.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
NEXT = '[[format]]\nid = "sglang.prefill_batch"'
FIRST_SAMPLE = "[[format.sample]]"

Formats = Callable[..., Registry]


def _steps(name: str) -> list[str]:
    return [text for step, text in STEPS if step == name]


@pytest.fixture
def formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Formats]:
    """Loads the formats with the named steps applied."""
    for path in FORMATS.glob("*.toml"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(load.resources, "files", lambda package: tmp_path)
    sglang = tmp_path / "sglang.toml"

    def apply(*names: str, which: int = -1) -> Registry:
        text = sglang.read_text(encoding="utf-8")
        for name in names:
            text = _applied(text, name, _steps(name)[which])
        sglang.write_text(text, encoding="utf-8")
        registry.cache_clear()
        return registry()

    registry.cache_clear()
    yield apply
    monkeypatch.undo()
    registry.cache_clear()


def _applied(text: str, step: str, block: str) -> str:
    if step == "keys":
        head, lines = block.split("\n", 1)
        assert f"{head}\n" in text
        return text.replace(f"{head}\n", f"{head}\n{lines}", 1)
    if step == "sample":
        assert NEXT in text
        return text.replace(NEXT, f"{block}\n{NEXT}", 1)
    if step == "feature":
        at = text.index(FIRST_SAMPLE, text.index('id = "sglang.decode_batch"'))
        return text[:at] + block + text[at:]
    return f"{text}\n{block}"


def _new_sample(known: Registry, format_id: str) -> Sample:
    return next(s for f in known.formats if f.id == format_id for s in f.samples if s.versions == "0.6.0")


def _read(sample: Sample) -> dict[str, object]:
    match = match_line(sample.line)
    assert match.parsed is not None
    assert match.parsed.damaged == []
    return {**match.parsed.values, **{f"extra.{k}": v for k, v in match.parsed.extra.items()}}


def test_a_new_key_goes_to_extra(formats: Formats) -> None:
    sample = _new_sample(formats("sample"), "sglang.decode_batch")
    expected = {k: v for k, v in sample.expect.items() if k != "deferred"}
    assert _read(sample) == {**expected, "extra.#paused-req": "2"}
    match = match_line(sample.line)
    assert match.parsed is not None
    assert [r.fate for r in key_reports(match.parsed, match.message) if r.key == "#paused-req"] == ["unknown key, kept in extra"]


def test_a_key_gets_a_column(formats: Formats) -> None:
    known = formats("keys", "feature", "sample")
    sample = _new_sample(known, "sglang.decode_batch")
    assert _read(sample) == sample.expect
    fmt = next(f for f in known.formats if f.id == "sglang.decode_batch")
    assert any(f.since == "0.6.0" and f.when.search(sample.line) for f in fmt.features)
    for old in fmt.samples:
        assert match_line(old.line).parsed is not None


def test_a_new_message(formats: Formats) -> None:
    known = formats("format")
    sample = _new_sample(known, "sglang.pause")
    assert _read(sample) == sample.expect
    match = match_line(sample.line)
    assert [f.id for f in claimants(known, match.head.engine, match.message)] == ["sglang.pause"]


def test_a_mistake_is_refused_as_the_page_says(formats: Formats) -> None:
    with pytest.raises(FormatDataError) as caught:
        formats("format", which=0)
    page = (ROOT / "docs/adding-a-format.md").read_text(encoding="utf-8")
    assert str(caught.value).removeprefix("sglang.toml: ") in page


def test_the_page_names_every_attribute_and_reader() -> None:
    page = (ROOT / "docs/adding-a-format.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`(\w+)`", page)) | {"id", "engine", "sample"}
    assert explained >= load._FORMAT_KEYS
    for name in load.reader.__globals__["READERS"]:
        assert f"`{name}`" in page
