"""A few pasted lines must not be taken for proof."""

from __future__ import annotations

from functools import cache

import pytest
from judging import UNKNOWN, verdict
from snippets import SNIPPETS, Snippet


@cache
def told(snippet: Snippet) -> tuple[str, str, str]:
    """Cause, confidence and sentence."""
    return verdict({snippet.file: snippet.text.encode()})


@pytest.mark.parametrize(
    "snippet", [pytest.param(s, id=s.name, marks=[pytest.mark.thorough] if n % 5 else []) for n, s in enumerate(SNIPPETS)]
)
def test_a_snippet_proves_no_more_than_it_shows(snippet: Snippet) -> None:
    cause, confidence, sentence = told(snippet)
    said = f"{cause} ({confidence}): {sentence}"
    assert cause in (UNKNOWN, *snippet.accept), said
    assert cause == UNKNOWN or confidence == "low" or not snippet.weak, said


def test_what_says_that_the_process_died_or_stood_still_is_not_shrugged_off() -> None:
    plain = ("watchdog-only", "scheduler-exception", "engine-core-fatal")
    causes = {s.name: told(s)[0] for s in SNIPPETS if s.name in plain}
    assert causes == {"watchdog-only": "hang", "scheduler-exception": "crash", "engine-core-fatal": "crash"}


def test_most_snippets_are_too_thin_for_a_verdict() -> None:
    assert len({s.name for s in SNIPPETS}) == len(SNIPPETS) >= 40
    assert sum(s.weak for s in SNIPPETS) > 0.6 * len(SNIPPETS)
