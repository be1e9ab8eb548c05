"""How a request ended: its status, and the kind of its error without the error's own words."""

from __future__ import annotations

import re
from http import HTTPStatus

_CODE = re.compile(r"(?:status|code|http|error)\D{0,12}\b([45]\d\d)\b|^\W*([45]\d\d)\b", re.IGNORECASE)
_PHRASES = {s.phrase.lower(): s.value for s in HTTPStatus if s.value >= 400}
_KINDS = (
    ("timeout", re.compile(r"time[d ]?_?-?out|deadline", re.IGNORECASE)),
    # before abort: a connection is aborted too
    ("connection", re.compile(r"connect|refused|reset|broken pipe|unreachable|dns|resolv|payload|socket|eof", re.IGNORECASE)),
    ("abort", re.compile(r"cancel|abort", re.IGNORECASE)),
)
_STATUS = {
    "finished": ("finished", "ok", "success", "successful", "succeeded", "complete", "completed", "done", "stop", "length", "true"),
    "aborted": ("aborted", "abort", "cancelled", "canceled", "cancel"),
    "error": ("error", "errored", "failed", "failure", "fail", "timeout", "false"),
    "unfinished": ("unfinished", "pending", "incomplete", "running", "in_progress", "queued", "first_token"),
}
_BY_WORD = {word: status for status, words in _STATUS.items() for word in words}


def error_kind(error: object) -> str | None:
    """timeout, connection, abort, http_NNN or other; None when there is no error."""
    if error is None or error is False or error in ("", 0):
        return None
    if isinstance(error, dict):
        code = error.get("code") or error.get("status_code")
        told = error_kind(code) if isinstance(code, int) else None
        worded = error_kind(" ".join(str(error.get(k) or "") for k in ("type", "err_type", "message")).strip())
        return worded if worded in ("abort", "timeout") else told or worded or "other"
    if isinstance(error, int) and not isinstance(error, bool):
        return f"http_{error}" if 400 <= error < 600 else "other"
    # of a traceback, the last line names the error; the others quote code
    text = str(error).strip().rpartition("\n")[2].strip()[:2000]
    if not text or text.lower() in ("none", "null", "nan", "false"):
        return None
    if text.lower() in _PHRASES:
        return f"http_{_PHRASES[text.lower()]}"
    code = _CODE.search(text)
    if code:
        return f"http_{code[1] or code[2]}"
    return next((kind for kind, words in _KINDS if words.search(text)), "other")


def outcome(status: object, error: object, pending: object, answered: bool) -> tuple[str, str | None]:
    """(status, error kind) from what a record says of its end; `answered`: it has a first token or an end."""
    if pending is True or (isinstance(pending, str) and pending.strip().lower() in ("true", "1", "yes")):
        return "unfinished", None
    kind = error_kind(error)
    code: object = status
    if isinstance(status, str):
        word = status.strip().lower()
        code = int(word) if word.isdigit() and len(word) == 3 else _BY_WORD.get(word)
        kind = kind or ("timeout" if word == "timeout" else None)
    if isinstance(code, bool):
        code = "finished" if code else "error"
    elif isinstance(code, int):
        kind = kind or (error_kind(code) if code >= 400 else None)
        code = "finished" if 200 <= code < 300 else "error"
    if kind is not None:
        return ("aborted" if kind == "abort" or code == "aborted" else "error"), kind
    if isinstance(code, str):
        return code, {"aborted": "abort", "error": "other"}.get(code)
    return ("finished" if answered else "unfinished"), None
