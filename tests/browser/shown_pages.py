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


class Rendered(dict[str, str]):
    """The report of a stored trace by language, each rendered when it is first asked for: that takes seconds."""

    def __init__(self, trace: Path, scratch: TemporaryDirectory[str] | None = None) -> None:
        super().__init__()
        self._trace = trace
        # a folder of its own is there as long as this is
        self._scratch = scratch

    def __missing__(self, language: str) -> str:
        with use(language), open_trace(self._trace) as opened:
            page = self[language] = render_html(build_report(opened.con, diagnose(opened)))
        return page


def report_of(given: Sequence[Path], folder: Path, scratch: TemporaryDirectory[str] | None = None) -> Rendered:
    """The report of `given` by language, from one trace kept in `folder`."""
    trace = folder / "incident.kvtrace"
    ingest([str(path) for path in given], trace)
    return Rendered(trace, scratch)


@cache
def shown(kind: str) -> Rendered:
    """One of KINDS by language; each made once in a process."""
    scratch = TemporaryDirectory()
    folder = Path(scratch.name)
    given = [SAMPLES / name for name in KINDS[kind]]
    if not given:
        given = [folder / "pod-a" / "server.log"]
        given[0].parent.mkdir()
        given[0].write_text(TOO_LITTLE, encoding="utf-8")
    return report_of(given, folder, scratch)
