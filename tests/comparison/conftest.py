"""Captures that the tests of this folder compare, each read once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import cache
from pathlib import Path

import pytest
from comparison_sides import Sides

from analyzer import diagnose, ingest, open_trace
from analyzer.comparison.side import Side, side

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def side_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """`side_of("l1_bound_sglang", since=…, until=…, only=("server.log",))`: a side of a sample trace, opened and diagnosed."""
    with ExitStack() as stack:

        @cache
        def stored(name: str, only: tuple[str, ...]) -> Path:
            path = tmp_path_factory.mktemp("sides") / f"{name}.kvtrace"
            folder = SAMPLES / name
            files = [p for p in sorted(folder.iterdir()) if p.name != "expected.json" and (not only or p.name in only)]
            ingest([str(p) for p in files], path)
            return path

        @cache
        def made(name: str, since: datetime | None, until: datetime | None, only: tuple[str, ...], instance: str | None) -> Side:
            trace = stack.enter_context(open_trace(stored(name, only), since=since, until=until))
            return side(trace, diagnose(trace), letter="A", instance=instance, name=name)

        def of(
            name: str,
            *,
            since: datetime | None = None,
            until: datetime | None = None,
            only: tuple[str, ...] = (),
            instance: str | None = None,
        ) -> Side:
            return made(name, since, until, only, instance)

        yield of
