"""Step times that are given in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyzer.errors import KvpmError
from analyzer.replay.fit import step_time_from_json
from analyzer.replay.step_time import StepTime


def test_fields_that_are_not_there_are_zero(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"base_s": 0.02, "token_s": 3e-5}')
    assert step_time_from_json(path) == StepTime(0.02, 3e-5, 0.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "no object"),
        ("{", "is not JSON"),
        ('{"base": 1}', "base is no part of a step time"),
        ('{"base_s": "20ms"}', "base_s is '20ms'"),
        ('{"base_s": -1}', "base_s is -1"),
        ('{"base_s": true}', "base_s is True"),
        ('{"base_s": NaN}', "base_s is nan"),
        ("{}", "takes no time"),
        ('{"prefill_s": 1}', "takes no time"),
    ],
)
def test_anything_else_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(KvpmError) as caught:
        step_time_from_json(path)
    assert said in caught.value.message
    assert json.loads(caught.value.hint[len("write ") :].partition(";")[0])["base_s"]


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(KvpmError, match="cannot be read"):
        step_time_from_json(tmp_path / "none.json")
