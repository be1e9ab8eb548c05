"""Reports of the kinds that readers get, made from the sample captures by the same calls as the command line's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from analyzer import diagnose, ingest, open_trace
from analyzer.language import use
from analyzer.report.data import build_report
from analyzer.report.render import render_html

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
LANGUAGES = ("en", "zh")
# The shortest capture that is an engine's at all: its questions cannot be answered.
TOO_LITTLE = "[2026-11-30 07:00:00] The server is fired up and ready to roll!\n"
KINDS: dict[str, tuple[str, ...]] = {
    "demo": ("l1_bound_sglang",),
    "recorded": ("recorded_l1_bound",),
    "fleet": ("crash_vllm", "dp_sglang", "l1_bound_vllm_v0"),
    "too little": (),
}


def report_of(given: Sequence[Path], folder: Path, languages: Sequence[str] = LANGUAGES) -> dict[str, str]:
    """The report of `given` in each language, from one trace kept in `folder`."""
    trace = folder / "incident.kvtrace"
    ingest([str(path) for path in given], trace)
    pages = {}
    for language in languages:
        with use(language), open_trace(trace) as opened:
            pages[language] = render_html(build_report(opened.con, diagnose(opened)))
    return pages


@cache
def shown(kind: str) -> dict[str, str]:
    """One of KINDS in each language; made once in a process."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        given = [SAMPLES / name for name in KINDS[kind]]
        if not given:
            given = [folder / "pod-a" / "server.log"]
            given[0].parent.mkdir()
            given[0].write_text(TOO_LITTLE, encoding="utf-8")
        return report_of(given, folder)
