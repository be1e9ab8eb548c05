"""Objects in a store or on a web server: found, read as files are, known again, and nothing secret of their addresses told."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

sys.path.insert(0, str(Path(__file__).parents[1]))

from object_store import BUCKET, Store, Web, s3_store, web_server

from analyzer.errors import ExitCode, KvpmError
from analyzer.ingestion import IngestOptions, IngestResult, default_trace_name, ingest
from analyzer.sources import remote
from analyzer.sources.opening import TextInput
from analyzer.sources.remote import find_files
from analyzer.sources.urls import own_name, parent, shown
from analyzer.trace.reader import Trace

LINE = (
    "[2026-03-10 12:{:02d}:{:02d}] Decode batch, #running-req: 4, #token: 900, token usage: 0.09, cuda graph: True, "
    "gen throughput (token/s): 99.00, #queue-req: 0\n"
)


def log(count: int) -> bytes:
    return "".join(LINE.format(n // 60, n % 60) for n in range(count)).encode()


def read(trace: Path, *given: str) -> IngestResult:
    return ingest(given, trace, IngestOptions(UTC, 2026))


def reports(trace: Path) -> int:
    with Trace(trace) as opened:
        ((count,),) = opened.con.execute("SELECT count(*) FROM scheduler").fetchall()
        return int(count)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_store() as made:
        yield made


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setattr(remote, "_WAIT_S", 0.0)
    with web_server() as made:
        yield made


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "t.kvtrace"


def test_a_prefix_a_pattern_and_an_object_of_a_store(store: Store) -> None:
    for key in ("find/a/server.log", "find/a/.hidden", "find/b/server.log.gz", "find/c.kvtrace/manifest.json", "find/ab/x.log"):
        store.put(key, b"x")

    def names(url: str) -> list[str]:
        return [f.name.removeprefix(f"s3://{BUCKET}/find/") for f in find_files(url)]

    root = f"s3://{BUCKET}/find"
    assert names(root) == names(f"{root}/") == ["a/server.log", "ab/x.log", "b/server.log.gz"]
    assert names(f"{root}/*/server*") == ["a/server.log", "b/server.log.gz"]
    assert names(f"{root}/a*") == ["a/server.log", "ab/x.log"]
    assert names(f"{root}/a/server.log") == ["a/server.log"]
    (found,) = find_files(f"{root}/a/server.log")
    assert (found.size, bool(found.version), found.changed is not None) == (1, True, True)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_an_object_is_unpacked_as_a_file_is(store: Store, pack: Any, trace: Path) -> None:
    url = store.put(f"packed/{pack.__name__}/server.log", pack(log(50)))
    result = read(trace, url)
    assert (result.exit_code, result.problems, reports(trace)) == (ExitCode.OK, [], 50)
    (source,) = result.manifest.sources
    assert (source.path, source.folder) == (url, url.rpartition("/")[0])


def test_an_object_that_ends_too_early_is_stored_as_far_as_it_goes(store: Store, trace: Path) -> None:
    whole = gzip.compress(log(3000))
    result = read(trace, store.put("cut/server.log.gz", whole[: len(whole) // 2]))
    assert result.exit_code == ExitCode.INPUT_CUT
    assert 0 < reports(trace) < 3000


def test_an_unchanged_object_is_not_read_again_and_a_grown_one_takes_its_place(
    store: Store, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = store.put("again/server.log", log(20))
    read(trace, url)
    with monkeypatch.context() as patched:
        patched.setattr(remote.RemoteFile, "open", lambda *_: pytest.fail("it was read again"))
        assert read(trace, url).problems == []
    store.put("again/server.log", log(30))
    result = read(trace, f"s3://{BUCKET}/again/")
    assert (len(result.manifest.sources), reports(trace)) == (1, 30)


def test_the_same_bytes_under_two_keys_count_once(store: Store, trace: Path) -> None:
    store.put("twice/a.log", log(20))
    store.put("twice/b.log.gz", gzip.compress(log(20)))
    result = read(trace, f"s3://{BUCKET}/twice")
    assert reports(trace) == 20
    assert [p.message for p in result.problems] == [f"holds the same as s3://{BUCKET}/twice/a.log, packed otherwise: counted once"]


def test_a_parquet_table_in_a_store(store: Store, trace: Path, tmp_path: Path) -> None:
    columns = {
        "timestamp": [1_773_144_000.0 + n for n in range(10)],
        "metric": ["vllm:num_requests_waiting"] * 10,
        "value": [float(n) for n in range(10)],
        "instance": ["pod-0"] * 10,
    }
    pq.write_table(pa.table(columns), tmp_path / "m.parquet")
    result = read(trace, store.put("table/m.parquet", (tmp_path / "m.parquet").read_bytes()))
    assert result.manifest.totals["samples"] == 10
    assert result.manifest.sources[0].path == f"s3://{BUCKET}/table/m.parquet"


def test_what_is_not_there_and_what_may_not_be_read(store: Store, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in (f"s3://{BUCKET}/nothing/here", f"s3://{BUCKET}/nothing/*.log", "s3://no-such-bucket-of-mine/a"):
        with pytest.raises(KvpmError, match="no object at") as error:
            read(trace, url)
        assert error.value.hint
    with pytest.raises(KvpmError, match="there is no protocol") as error:
        read(trace, "nosuch://host/a")
    with pytest.raises(KvpmError, match="is a stored trace elsewhere"):
        read(trace, f"s3://{BUCKET}/a.kvtrace/")
    with pytest.raises(KvpmError, match="is a chain"):
        read(trace, f"zip://x::s3://{BUCKET}/a.zip")
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    with pytest.raises(KvpmError, match="no permission") as error:
        read(trace, f"s3://{BUCKET}/find/a/server.log")
    assert (error.value.exit_code, "AWS_ACCESS_KEY_ID" in error.value.hint) == (ExitCode.INPUT_CUT, True)
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.parametrize("missing", ["fsspec.core", "s3fs"])
def test_a_package_that_is_missing_is_told_with_how_to_install_it(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    # a protocol that was used before stays loaded
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(KvpmError, match="is not installed") as error:
        find_files("s3://bucket/key")
    assert "[fleet]" in error.value.hint


@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_that_tears_is_made_again_where_it_tore(web: Web, ranges: bool) -> None:
    content = log(4000)
    web.files["/server.log"] = content
    web.ranges = ranges
    web.tear = [100_000, 200_001]
    (found,) = find_files(f"{web.address}/server.log")
    text = TextInput(found)
    assert b"".join(text) == content
    assert (text.cut, text.size, web.tear) == (False, len(content), [])


def test_what_never_comes_whole_is_cut_and_said_so(web: Web, trace: Path) -> None:
    web.files["/server.log"] = log(100)
    web.tear = [0] * 50
    with pytest.raises(KvpmError, match=r"cannot be read") as error:
        read(trace, f"{web.address}/server.log")
    assert error.value.exit_code == ExitCode.INPUT_CUT


def test_a_page_of_links_is_a_folder(web: Web) -> None:
    web.files = {"/logs/a/server.log": b"x", "/logs/b.log": b"yy", "/logs/.git": b"z", "/other.log": b"z"}
    found = find_files(f"{web.address}/logs/")
    assert [(f.name, f.size) for f in found] == [(f"{web.address}/logs/a/server.log", 1), (f"{web.address}/logs/b.log", 2)]
    assert [f.name for f in find_files(f"{web.address}/logs/*.log")] == [f"{web.address}/logs/b.log"]


def test_nothing_secret_of_an_address_is_stored_or_said(web: Web, trace: Path) -> None:
    web.files["/logs/server.log"] = log(20)
    web.secret = "s3cr3t"
    host = web.address.removeprefix("http://")
    signed = f"http://me:p4ssw0rd@{host}/logs/server.log?X-Amz-Signature=s3cr3t&X-Amz-Date=1"
    result = read(trace, signed)
    assert [s.path for s in result.manifest.sources] == [f"http://{host}/logs/server.log"]
    # signed anew it is the same object
    read(trace, signed.replace("Date=1", "Date=2"))
    assert reports(trace) == 20
    stored = b"".join(p.read_bytes() for p in trace.rglob("*") if p.is_file())
    web.secret = "another"
    web.files["/logs/server.log"] = log(30)
    with pytest.raises(KvpmError) as error:
        find_files(signed)
    said = json.dumps([error.value.message, error.value.hint, str(default_trace_name([signed])), repr(result)]).encode()
    for secret in (b"s3cr3t", b"p4ssw0rd"):
        assert secret not in stored + said
    assert b"no permission" in said


def test_a_server_that_is_not_there(web: Web) -> None:
    with pytest.raises(KvpmError, match="cannot be reached"):
        find_files("http://127.0.0.1:9/server.log")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("s3://b/logs/a?.log", "s3://b/logs/a?.log"),
        ("S3://b/x", "s3://b/x"),
        ("sftp://me:pw@host/x@y.log", "sftp://host/x@y.log"),
        ("https://u:p@h:8/x.log?sig=1&se=2#f", "https://h:8/x.log"),
        ("https://h/x?token=a", "https://h/x"),
        ("/var/log/x?y", "/var/log/x?y"),
        ("C:/logs", "C:/logs"),
    ],
)
def test_what_is_shown_of_an_address(url: str, told: str) -> None:
    assert shown(url) == told


def test_what_a_query_names_tells_objects_apart() -> None:
    a, b = shown("https://h/get?file=a&sig=1"), shown("https://h/get?file=b&sig=1")
    assert a != b
    assert a == shown("https://h/get?sig=2&file=a")
    assert own_name("https://h/get?file=a") == "get"
    assert (parent("https://h/logs/x.log?sig=1"), parent("s3://b/k/x.log"), parent("s3://b/x.log")) == (
        "https://h/logs",
        "s3://b/k",
        "s3://b",
    )
    assert default_trace_name(["s3://b/day/server.log.gz"]) == Path("server.kvtrace")
