"""Whatever is thrown at it: no exception, and every line is accounted for."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from one_by_one import read_records

from analyzer.sources.opening import BinaryInputError, TextInput
from analyzer.sources.pieces import LineCounts
from analyzer.sources.text import texts
from analyzer.sources.wrappers import unwrap

PARTS = st.sampled_from(
    [
        "[2026-01-02 03:04:05 TP0] ", "[2026-01-02 03:04:05", "2026-01-02T11:04:06Z ", "stdout P ", "stderr F ", "[pod/a/b] ", "INFO:     ",
        "(APIServer pid=77) INFO 01-02 03:04:05 [loggers.py:338] ", "(Engine pid=1, ip=1.2.3.4) ", '{"log": "', '", "stream": "stderr"}',
        "Decode batch, #running-req: 24, ", "#queue-req: 3", "token usage: 0.62, ", "Prefill batch. #new-seq: 1, #new-token: 2, ",
        "Engine 000: Avg prompt throughput: 1.0 tokens/s, ", "Running: 2 reqs, Waiting: 3 reqs, ", "GPU KV cache usage: 6.8%",
        "server_args=ServerArgs(a='b', c=", "Finish: obj=GenerateReqInput(rid='a', text='", "', out={'meta_info': {'id': 'a'}}",
        "\n", "\r", "\r\n", "\0", "\x1b[0m", "'", '"', ", ", ": ", "9" * 30, "nan", "é", "\udcff", "| ",
        "[2026-11-30 05:55:58,123] LMCache INFO: ", "Stored 2048 tokens in 0.012 seconds", " (a.py:1:lmcache)",
    ]
)  # fmt: skip
TEXT = st.lists(st.one_of(PARTS, st.text(max_size=8)), max_size=40).map("".join)


MAGIC = st.sampled_from([b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh91AY&SY", b"\xfd7zXZ\x00", b"\xff\xfe", b"\xef\xbb\xbf"])


@settings(max_examples=400, deadline=None)
@given(TEXT)
def test_any_text(text: str) -> None:
    counts = LineCounts()
    for record in read_records(text, counts):
        assert record.match.parsed is not None
        assert 1 <= record.line <= counts.lines
    assert counts.lines == counts.matched + counts.ignored + counts.unmatched + counts.other
    assert counts.lines == text.count("\n") + bool(text.rpartition("\n")[2])


@settings(max_examples=200, deadline=None)
@given(TEXT)
def test_any_line_can_be_unwrapped(text: str) -> None:
    unwrap(text).origin.encode()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=600),
    st.sampled_from([b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh91AY&SY", b"\xfd7zXZ\x00", b"\xff\xfe", b"\xef\xbb\xbf"]),
)
def test_any_bytes(tmp_path: Path, data: bytes, magic: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(magic + data)
    text = TextInput(path)
    try:
        counts = LineCounts()
        read_records("".join(texts(text)), counts)
    except BinaryInputError:
        return
    assert text.size == len(magic + data)
    assert counts.lines == counts.matched + counts.ignored + counts.unmatched + counts.other
