"""The language of what people read: English in the code, others in gettext catalogues beside it.

Sentences are whole templates with named fields, so that a translation can put them in another order. The language holds
for a block (`use`), in a context variable: two threads that speak different ones do not disturb each other.
"""

from __future__ import annotations

import gettext
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib import resources

LANGUAGES = {"en": "English", "zh": "中文"}
DOMAIN = "kvpm"
_ENGLISH = "en"
_current: ContextVar[str] = ContextVar("language", default=_ENGLISH)


def N_(message: str) -> str:
    """Marks a text for translation where it is written, and leaves it for `_` where it is said."""
    return message


def _(message: str, /, **fields: object) -> str:
    """`message` in the current language, with its `{fields}` filled in."""
    text = _catalogue(_current.get()).gettext(message) if message else ""
    return text.format(**fields) if fields else text


def ngettext(singular: str, plural: str, n: float, /, **fields: object) -> str:
    """The form that `n` asks for in the current language, with its `{fields}` filled in."""
    text = _catalogue(_current.get()).ngettext(singular, plural, round(n))
    return text.format(**fields) if fields else text


def current() -> str:
    """The language of this moment, as in `<html lang=…>`."""
    return _current.get()


@contextmanager
def use(language: str) -> Iterator[None]:
    """Speak `language` (one of LANGUAGES) inside the block."""
    if language not in LANGUAGES:
        raise ValueError(f"no such language: {language}")
    token = _current.set(language)
    try:
        yield
    finally:
        _current.reset(token)


@lru_cache
def _catalogue(language: str) -> gettext.NullTranslations:
    if language == _ENGLISH:
        return gettext.NullTranslations()
    file = resources.files("analyzer").joinpath("locale", language, "LC_MESSAGES", f"{DOMAIN}.mo")
    with file.open("rb") as opened:
        return gettext.GNUTranslations(opened)
