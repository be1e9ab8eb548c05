"""Which form a report is written in: as asked for, or as the name of its file says."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from analyzer.errors import KvpmError

Form = Literal["html", "md", "json", "pdf"]
FORMS: tuple[Form, ...] = get_args(Form)
_SUFFIXES: dict[str, Form] = {
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".markdown": "md",
    ".json": "json",
    ".pdf": "pdf",
}


def chosen_form(asked: Form | None, output: Path | None) -> Form:
    """The form to write; HTML where neither the option nor the file's suffix says another.

    Raises:
        KvpmError: they contradict each other.
    """
    named = _SUFFIXES.get(output.suffix.lower()) if output is not None else None
    if asked and named and asked != named:
        assert output is not None
        raise KvpmError(
            f"{output} is named as {named}, and --format asks for {asked}",
            hint=f"name it {output.with_suffix('.' + asked)}, or leave out --format",
        )
    return asked or named or "html"
