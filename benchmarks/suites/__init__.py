"""What is measured, one module a subject. Each has `contests(work)`, which makes an input, yields who reads it, and removes it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.contest import Contest
from benchmarks.suites import logs, metrics, packed, requests, start_up
from benchmarks.workshop import Workshop

SUITES: tuple[Callable[[Workshop], Iterator[Contest]], ...] = (
    start_up.contests,
    logs.contests,
    packed.contests,
    metrics.contests,
    requests.contests,
)
