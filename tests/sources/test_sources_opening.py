"""Opening inputs: packing and encoding told by content, damage reported, other things refused."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from analyzer.errors import KvpmError
from analyzer.sources.discover import find_inputs
from analyzer.sources.opening import BinaryInputError, TextInput
from analyzer.sources.text import texts

TEXT = "".join(f"[2026-01-02 03:04:{i % 60:02d} TP0] line {i} é\n" for i in range(3000))
RAW = TEXT.encode()
PACKERS = {"gzip": gzip.compress, "zstd": zstandard.compress, "bzip2": bz2.compress, "xz": lzma.compress}


def opened(folder: Path, data: bytes, name: str = "a.log") -> tuple[str, TextInput]:
    path = folder / name
    path.write_bytes(data)
    text = TextInput(path)
    return "".join(texts(text)), text


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("name", ["server.log", "server.log.gz"])
def test_packing_is_told_by_content(tmp_path: Path, packing: str, name: str) -> None:
    data = PACKERS[packing](RAW)
    got, text = opened(tmp_path, data, name)
    assert (got, text.packing, text.cut, text.notes) == (TEXT, packing, False, [])
    assert (text.size, text.sha256) == (len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("packing", PACKERS)
def test_several_archives_in_one_and_padding(tmp_path: Path, packing: str) -> None:
    pack = PACKERS[packing]
    got, text = opened(tmp_path, pack(RAW[:5000]) + pack(RAW[5000:]) + b"\0" * 70_000)
    assert (got, text.cut) == (TEXT, False)


@pytest.mark.parametrize("packing", PACKERS)
def test_what_stands_behind_an_archive_is_left_and_said(tmp_path: Path, packing: str) -> None:
    data = PACKERS[packing](RAW) + b"garbage" * 50_000
    got, text = opened(tmp_path, data)
    assert (got, text.cut, text.size) == (TEXT, False, len(data))
    assert "behind the" in text.notes[0]


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_a_truncated_archive_gives_what_there_is(tmp_path: Path, packing: str, share: float) -> None:
    data = PACKERS[packing](RAW)
    got, text = opened(tmp_path, data[: int(len(data) * share)])
    assert TEXT.startswith(got)
    assert text.cut
    assert "ends too early" in text.notes[0]


def test_a_damaged_archive_is_said(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(RAW))
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    got, text = opened(tmp_path, bytes(data))
    assert text.cut
    assert text.size == len(data)
    assert got[:1000] == TEXT[:1000]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks(tmp_path: Path, encoding: str) -> None:
    assert opened(tmp_path, TEXT.encode(encoding))[0] == TEXT
    assert opened(tmp_path, gzip.compress(TEXT.encode(encoding)))[0] == TEXT


def test_half_a_utf16_character_at_the_end(tmp_path: Path) -> None:
    assert opened(tmp_path, TEXT.encode("utf-16")[:-1])[0][: len(TEXT) - 1] == TEXT[:-1]


def test_bad_bytes_are_kept(tmp_path: Path) -> None:
    data = b"a \xff\xfe\x80 b\n" * 10
    assert opened(tmp_path, data)[0].encode("utf-8", "surrogateescape") == data


@pytest.mark.parametrize("where", [0, 3000, len(RAW)])
def test_a_run_of_nuls_is_no_reason_to_refuse(tmp_path: Path, where: int) -> None:
    got, _ = opened(tmp_path, RAW[:where] + b"\0" * 5000 + RAW[where:])
    assert got.replace("\0", "") == TEXT


def packed_tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("server.log")
        info.size = len(RAW)
        tar.addfile(info, io.BytesIO(RAW))
    return buffer.getvalue()


def packed_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("server.log", RAW)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\xff\xd8\xff\xe0" + bytes(range(256)) * 9, "JPEG"),
        (b"\x89PNG\r\n" + bytes(100), "PNG"),
        (packed_zip(), "ZIP"),
        (packed_tar(), "tar archive"),
        (gzip.compress(packed_tar()), "tar archive"),
        (b"7z\xbc\xaf\x27\x1c" + bytes(100), "7z"),
        (b"PAR1" + bytes(100), "Parquet"),
        (b"\x7fELF" + bytes(range(256)) * 9, "program"),
        (b"\x80\x04\x95" + bytes(100), "never loaded"),
        (b"abc\0def\0" * 500, "binary"),
    ],
)
def test_what_is_no_text_is_refused_and_named(tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(BinaryInputError, match=told):
        opened(tmp_path, data)


@pytest.mark.parametrize("data", [b"", b"\n", b"x", b"BZhello\n", b"\x1f"])
def test_tiny_inputs(tmp_path: Path, data: bytes) -> None:
    got, text = opened(tmp_path, data)
    assert (got, text.size, text.cut) == (data.decode(), len(data), False)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(zstandard.compress(RAW))))
    text = TextInput(None)
    assert b"".join(text) == RAW
    assert text.sha256 is None


def test_a_file_a_folder_a_glob_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.log", "a.log", ".hidden", "sub/c.log", "old.kvtrace/manifest.json", "old.kvtrace/x.log", "[odd].log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.log").symlink_to(tmp_path / "a.log")
    assert [i.name for i in find_inputs(["b.log", "-", "b.log"])] == ["b.log", "stdin"]
    assert [i.name for i in find_inputs(["."])] == ["[odd].log", "a.log", "b.log", "sub/c.log"]
    assert [i.name for i in find_inputs(["?.log"])] == ["a.log", "b.log"]
    assert [i.name for i in find_inputs(["[odd].log"])] == ["[odd].log"]
    assert [i.named for i in find_inputs(["a.log", "b*"])] == [True, False]
    with pytest.raises(KvpmError, match="no such file"):
        find_inputs(["none.log"])
    with pytest.raises(KvpmError, match="no file matches"):
        find_inputs(["none*"])
