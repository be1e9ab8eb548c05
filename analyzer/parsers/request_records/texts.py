"""Prompts and outputs: a hash and nothing else, unless the user asked to keep them."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from analyzer.formats.values import read_text

# Where SGLang cuts a long text in its request log, it leaves this in the middle.
_CUT = " ... "
# Many texts have none of these, and every text has many blanks: this is found, or not, much sooner.
_DOTS = "..."
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
    text = _as_bytes(prompt)
    if text is not None:
        row["prompt_sha256"] = hashlib.sha256(text).hexdigest()
        if keep:
            row["prompt_text"] = _shown(prompt, text)
    if keep:
        text = _as_bytes(output)
        if text is not None:
            row["output_text"] = _shown(output, text)
    return row


def _as_bytes(value: Any) -> bytes | None:
    """None where there is nothing, or only a part: equal parts are not equal prompts."""
    if isinstance(value, str):
        if not value or (len(value) >= _CUT_FROM and _DOTS in value and _CUT in value):
            return None
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")
    if not isinstance(value, list) or not value:
        return None
    numbers = [isinstance(v, int) for v in value]
    if any(numbers) and not all(numbers):
        return None
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):
        return None


def _shown(value: Any, as_bytes: bytes) -> str:
    return read_text(value if isinstance(value, str) else as_bytes.decode())
