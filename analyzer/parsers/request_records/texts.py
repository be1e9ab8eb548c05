"""Prompts and outputs: a hash and nothing else, unless the user asked to keep them."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from analyzer.formats.values import read_text

# Where SGLang cuts a long text in its request log, it leaves this in the middle.
_CUT = " ... "
_CUT_FROM = 2048


def find_prompt(document: dict[str, Any]) -> Any:
    """The prompt of a request body: text, messages or token ids; None without one."""
    for key in ("prompt", "text", "messages", "prompt_token_ids", "input_ids", "input"):
        value = document.get(key)
        if value:
            return value
    return None


def text_columns(prompt: Any, output: Any, keep: bool) -> dict[str, Any]:
    """`prompt_sha256`, and with `keep` `prompt_text` and `output_text`.

    A text is hashed as UTF-8; token ids and messages as compact JSON.
    """
    row: dict[str, Any] = {}
    text = _as_text(prompt)
    if text is not None:
        row["prompt_sha256"] = hashlib.sha256(_bytes(text)).hexdigest()
        if keep:
            row["prompt_text"] = read_text(text)
    if keep:
        text = _as_text(output)
        if text is not None:
            row["output_text"] = read_text(text)
    return row


def _as_text(value: Any) -> str | None:
    """None where there is nothing, or only a part: equal parts are not equal prompts."""
    if isinstance(value, str):
        return None if not value or (_CUT in value and len(value) >= _CUT_FROM) else value
    if not isinstance(value, list) or not value:
        return None
    numbers = [isinstance(v, int) for v in value]
    if any(numbers) and not all(numbers):
        return None
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return None


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
