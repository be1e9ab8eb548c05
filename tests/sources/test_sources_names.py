"""Names of inputs that are not text."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from analyzer import diagnose, ingest, open_trace
from analyzer.ingestion import default_trace_name

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.mark.skipif(sys.platform != "linux", reason="only there a name may be any bytes")
def test_a_name_that_is_not_utf8_is_read_and_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/bad\xff.log"
    with open(odd, "wb") as file:
        file.write((SAMPLES / "l1_bound_sglang" / "server.log").read_bytes())
    path = tmp_path / "t.kvtrace"
    ingest([os.fsdecode(odd)], path)
    with open_trace(path) as trace:
        assert diagnose(trace).sources[0]["path"].endswith("bad\ufffd.log")
    assert default_trace_name([os.fsdecode(odd)]).name == "bad\ufffd.kvtrace"
