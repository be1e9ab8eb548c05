"""`--lang`: the language of what a command says about an incident."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from analyzer import language

F = TypeVar("F", bound=Callable[..., Any])


def lang_option(function: F) -> F:
    """--lang, given to no one: the whole command runs in that language."""

    @click.option(
        "--lang",
        type=click.Choice(list(language.LANGUAGES)),
        default="en",
        envvar="KVPM_LANG",
        help="Language of the sentences; ids and JSON keys stay. Default: KVPM_LANG, else en. LANG is not looked at, so that a "
        "ticket reads the same from every machine.",
    )
    @wraps(function)
    def command(*, lang: str, **given: Any) -> Any:
        with language.use(lang):
            return function(**given)

    return cast(F, command)
