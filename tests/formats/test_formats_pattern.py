"""What is looked for in lines is found alike in short and in long ones."""

from __future__ import annotations

import pytest

from analyzer.formats.load import registry
from analyzer.formats.pattern import LONG, AnyOf
from analyzer.formats.prefix import starts

FILL = '{"weights": [0.125, 0.250]}, é\udcff] '


@pytest.mark.parametrize("fill", [1, LONG // len(FILL) + 1], ids=["short", "long"])
@pytest.mark.parametrize("text", registry().tell_tales)
def test_any_of_many_texts(text: str, fill: int) -> None:
    tells = AnyOf(registry().tell_tales)
    rest = FILL * fill
    assert tells.is_in(text + rest)
    assert tells.is_in(rest + text)
    assert not AnyOf(["no such text"]).is_in(rest)


@pytest.mark.parametrize("fill", [0, LONG // len(FILL) + 1], ids=["short", "long"])
@pytest.mark.parametrize(
    "line", [s.line for p in registry().prefixes if p.inline for s in p.samples if s.line and not s.line.startswith("  ")]
)
def test_where_records_begin(line: str, fill: int) -> None:
    rest = FILL * fill
    alone = starts(line)
    assert starts(rest + line) == [len(rest) + at for at in alone]
    assert starts(rest) == []
