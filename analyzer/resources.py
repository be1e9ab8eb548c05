"""Where the SQL, the templates and the demo trace are: below the package in a wheel, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

from analyzer.errors import ExitCode, KvpmError

_PACKAGE = Path(__file__).resolve().parent


def _find(inside: str, beside: str) -> Path:
    for candidate in (_PACKAGE / inside, _PACKAGE.parent / beside):
        if candidate.is_dir():
            return candidate
    raise KvpmError(
        f"this installation has no {inside} folder",
        hint="install it again: pip install --force-reinstall kv-postmortem",
        exit_code=ExitCode.INTERNAL,
    )


def sql_dir() -> Path:
    """The folder with base/, signals/ and checklist/."""
    return _find("sql", "sql")


def templates_dir() -> Path:
    """The folder with the report's templates."""
    return _find("templates", "templates")


def demo_dir() -> Path:
    """A small generated incident to try the tool on."""
    return _find("demo_trace", "sample_traces/l1_bound_sglang")
