"""What a user wrote never reaches rows, notes or errors, unless it is to be kept."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_reading import claimant, read
from samples import FILES, MARK, PROMPT

from analyzer.parsers.request_records import generic_reader

WITH_PROMPT = ("sglang_metrics_file", "sglang_request_log", "guidellm", "client")


@pytest.mark.parametrize("name", FILES)
def test_no_text_of_a_user_is_stored(name: str) -> None:
    got = read(FILES[name], name)
    assert got.requests
    assert MARK not in repr(got.rows)
    assert MARK not in repr(got.read)


@pytest.mark.parametrize("name", WITH_PROMPT)
def test_equal_prompts_can_be_told(name: str) -> None:
    assert read(FILES[name], name).requests[0]["prompt_sha256"] == hashlib.sha256(PROMPT.encode()).hexdigest()


@pytest.mark.parametrize("name", WITH_PROMPT)
def test_texts_are_kept_when_asked_for(name: str) -> None:
    row = read(FILES[name], name, keep_text=True).requests[0]
    assert (row["prompt_text"], row["output_text"]) == (PROMPT, PROMPT)


def test_part_of_a_prompt_has_no_hash() -> None:
    def hashed(prompt: object) -> str | None:
        return read(json.dumps({"id": 1, "ttft": 1, "prompt": prompt}), "client").only().get("prompt_sha256")

    assert hashed("a" * 1024 + " ... " + "a" * 1024) is None
    assert hashed([1, 2, " ... ", 3]) is None
    assert hashed([1, 2, 3]) == hashlib.sha256(b"[1,2,3]").hexdigest()
    assert hashed([{"role": "user", "content": "a"}]) == hashlib.sha256(b'[{"role":"user","content":"a"}]').hexdigest()


def _replaced(value: object, text: str) -> object:
    if isinstance(value, dict):
        return {k: _replaced(v, text) for k, v in value.items()}
    if isinstance(value, list):
        return [_replaced(v, text) for v in value]
    return text if isinstance(value, str) and MARK in value else value


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.text(max_size=40), st.integers(0, 400))
def test_whatever_the_text_it_stays_out(name: str, text: str, cut: int) -> None:
    marked = f"{text} {MARK} {text}"
    lines = [line.partition("{") for line in FILES[name].splitlines()]
    changed = "\n".join(p + json.dumps(_replaced(json.loads(b + rest), marked)) if b else p for p, b, rest in lines)
    for whole in (changed, changed[: len(changed) - cut]):
        if claimant(whole) == name:
            got = read(whole, name)
            assert MARK not in repr(got.rows) + repr(got.read)


def test_nor_does_it_with_named_columns() -> None:
    got = read(
        FILES["client"], "", reader=generic_reader(), columns={"arrival": "send", "rid": "note", "error": "prompt", "ttft": "output"}
    )
    assert [r["error"] for r in got.requests] == ["other", "other"]
    assert MARK not in repr(got.rows) + repr(got.read)
