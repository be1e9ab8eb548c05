"""Objects in a store or on a web server, read through fsspec: s3://, gs://, https:// and whatever else it knows.

fsspec, and what it needs for a protocol, is loaded when a URL is given: the extra `[fleet]` installs it.
"""

from __future__ import annotations

import errno
import io
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, Literal, TypeVar
from urllib.parse import unquote

from analyzer.errors import ExitCode, KvpmError
from analyzer.sources.timestamps import parse_iso
from analyzer.sources.urls import WEB, is_url, own_name, protocol, shown

T = TypeVar("T")

INSTALL = "pip install 'kv-postmortem[fleet]', or in a checkout pip install '.[fleet]'"
# Bytes asked for at a time. A block is held twice at most.
_BLOCK = 8 << 20
# A read that fails is tried again so many times, after so many seconds, twice as many each time.
_TRIES = 5
_WAIT_S = 0.5
_VERSION = ("ETag", "etag", "generation", "md5Hash", "content_md5", "Content-MD5", "VersionId")
_CHANGED = ("LastModified", "Last-Modified", "last_modified", "mtime", "modified", "updated", "created")
_TRACE = ".kvtrace"
_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; of a public bucket FSSPEC_S3_ANON=true; "
    "another server than AWS: AWS_ENDPOINT_URL",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to a key file; of a public bucket FSSPEC_GS_TOKEN=anon",
    "http": "give a signed URL, or one with user and password: https://USER:PASSWORD@HOST/...",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_SAME = {"s3a": "s3", "gcs": "gs", "https": "http", "abfs": "az", "abfss": "az", "adl": "az"}


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One object: `url` opens it and may hold secrets, `name` is what is shown and stored.

    `size` is in bytes, None where the server does not tell; `version` is the store's mark of this content, an ETag or
    the time of change, empty where it gives none.
    """

    url: str
    name: str
    size: int | None = None
    version: str = ""
    changed: datetime | None = None

    def __repr__(self) -> str:
        # the URL stays out of tracebacks
        return f"RemoteFile({self.name!r})"

    def open(self, mode: Literal["rb"] = "rb") -> BinaryIO:
        """A stream of its bytes, which goes on where it was when a connection tears. Raises OSError."""
        return io.BufferedReader(_Reader(self), buffer_size=1 << 20)


def find_files(url: str) -> list[RemoteFile]:
    """The object at `url`, all objects below it, or those that the pattern matches, in the order of their names.

    Hidden ones and stored traces are left out, unless one is named. Raises KvpmError when there is none, and for what
    is not installed, not permitted or not reachable.
    """
    if "::" in url:
        raise KvpmError(f"{shown(url)} is a chain of URLs", hint="give the URL of the object or folder itself")
    if own_name(url).endswith(_TRACE):
        raise KvpmError(f"{shown(url)} is a stored trace elsewhere", hint="copy its folder to this machine, and name the copy")
    fs, path = _file_system(url)
    try:
        fs.invalidate_cache()
        found = _listed(fs, path, url)
    except Exception as error:
        raise _told(url, error) from error
    files = [_described(fs, info, url) for info in found]
    if not files:
        raise KvpmError(f"no object at {shown(url)}", hint="check the address, and quote a pattern")
    return sorted(files, key=lambda f: f.name)


def has_magic(url: str) -> bool:
    """True for a pattern. In a web address a question mark begins the query."""
    return bool(re.search(r"[*\[]" if protocol(url) in WEB else r"[*?\[]", url.partition("?")[0] if protocol(url) in WEB else url))


def _listed(fs: Any, path: str, url: str) -> list[dict[str, Any]]:
    if has_magic(url):
        matches: list[dict[str, Any]] = []
        for name, info in sorted(fs.glob(path, detail=True).items()):
            matches += [info] if info["type"] == "file" else _below(fs, name)
        return matches
    if protocol(url) in WEB:
        # any address is a file to a web server; a page that lists others is told by its end
        return _linked(fs, path) if path.partition("?")[0].endswith("/") else [{**fs.info(path), "described": True}]
    try:
        info = fs.info(path)
    except FileNotFoundError:
        info = {"type": "directory"}
    return [info] if info["type"] == "file" else _below(fs, path)


def _below(fs: Any, folder: str) -> list[dict[str, Any]]:
    found: Mapping[str, dict[str, Any]] = fs.find(folder, detail=True)
    inside = len(folder.rstrip("/")) + 1
    return [info for name, info in sorted(found.items()) if info["type"] == "file" and _wanted(name[inside:])]


def _linked(fs: Any, page: str) -> list[dict[str, Any]]:
    """What a page lists: links to files that lie below it, and on pages below it."""
    found: dict[str, dict[str, Any]] = {}
    pages, seen = [page], set()
    while pages:
        here = pages.pop()
        seen.add(here)
        for info in fs.ls(here, detail=True):
            name = info["name"]
            if "?" in name or not name.startswith(page) or not _wanted(unquote(name[len(page) :])):
                continue
            if name.endswith("/"):
                pages += [name] if name not in seen and name not in pages else []
            else:
                found[name] = info
    return list(found.values())


def _wanted(below: str) -> bool:
    parts = below.strip("/").split("/")
    return bool(parts[-1]) and not any(p.startswith(".") or p.endswith(_TRACE) for p in parts)


def _described(fs: Any, info: Mapping[str, Any], url: str) -> RemoteFile:
    """The object that a listing tells of; one that tells neither size nor version is asked for them."""
    kind = protocol(url)
    name = str(info["name"])
    address = name if kind in WEB else f"{kind}://{_user(url)}{name.lstrip('/') if kind != 'memory' else name}"
    if kind in WEB and not info.get("described") and info.get("size") is None:
        try:
            info = fs.info(name)
        except Exception as error:
            raise _told(address, error) from error
    size = info.get("size")
    changed = next((t for key in _CHANGED if (t := _moment(info.get(key))) is not None), None)
    version = next((str(info[key]).strip('"') for key in _VERSION if info.get(key)), "") or (changed.isoformat() if changed else "")
    return RemoteFile(address, shown(address), None if size is None else int(size), version, changed)


def _user(url: str) -> str:
    """`user:password@` of a URL, which a listing does not repeat."""
    user, at, _host = url.partition("://")[2].partition("/")[0].rpartition("@")
    return user + at


def _moment(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    if not isinstance(value, str):
        return None
    found = parse_iso(value)
    if found is None:
        try:
            found = parsedate_to_datetime(value)
        except ValueError:
            return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


def _file_system(url: str) -> tuple[Any, str]:
    kind = protocol(url)
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise KvpmError(f"reading {kind}:// needs fsspec, which is not installed", hint=INSTALL) from None
    # an address that is quoted already stays as it is: a signature is of its very bytes
    options = {"encoded": True} if kind in WEB and "%" in url else {}
    try:
        fs, path = url_to_fs(url, **options)
    except ImportError as error:
        needed = error.name or "a package"
        raise KvpmError(f"reading {kind}:// needs {needed}, which is not installed", hint=f"{INSTALL}; or pip install {needed}") from None
    except ValueError:
        raise KvpmError(f"there is no protocol {kind}://", hint="for example s3://, gs://, https://") from None
    except Exception as error:
        raise _told(url, error) from error
    return fs, path


class _Reader(io.RawIOBase):
    """The bytes of an object from its beginning; a connection that tears is made again at the byte it tore at."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self._file = file
        self._fs, self._path = _file_system(file.url)
        self._handle: BinaryIO | None = None
        self._at = 0
        # a server that cannot begin in the middle is read in one go
        self._in_one_go = False

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes; 0 at the end. Raises OSError."""
        view = memoryview(buffer).cast("B")
        block = _again(lambda: self._next(len(view)), self._torn, self._file)
        view[: len(block)] = block
        self._at += len(block)
        return len(block)

    def close(self) -> None:
        """Let go of the connection."""
        self._drop()
        super().close()

    def _next(self, size: int) -> bytes:
        if self._handle is None:
            self._handle = self._opened()
        block: bytes = self._handle.read(size)
        told = getattr(self._handle, "size", None)
        if not block and told is not None and self._at < told:
            raise ConnectionError(f"the connection ended after {self._at:,} of {told:,} bytes")
        return block

    def _opened(self) -> BinaryIO:
        if self._in_one_go:
            handle: BinaryIO = self._fs.open(self._path, "rb", block_size=0)
            left = self._at
            while left and (skipped := handle.read(min(left, _BLOCK))):
                left -= len(skipped)
            if left:
                raise ConnectionError("it is shorter than it was")
            return handle
        handle = self._fs.open(self._path, "rb", block_size=_BLOCK, cache_type="readahead")
        if self._at:
            handle.seek(self._at)
        return handle

    def _torn(self, error: Exception) -> None:
        self._drop()
        # fsspec says so of a web server that knows no ranges
        self._in_one_go = self._in_one_go or (isinstance(error, ValueError) and protocol(self._file.url) in WEB)

    def _drop(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()


def _again(what: Callable[[], T], torn: Callable[[Exception], None], file: RemoteFile) -> T:
    for attempt in range(_TRIES):
        try:
            return what()
        except Exception as error:
            torn(error)
            if attempt == _TRIES - 1 or _hopeless(error):
                raise OSError(errno.EIO, _told(file.url, error).message.removeprefix(f"{file.name} ")) from error
            time.sleep(_WAIT_S * 2**attempt)
    raise AssertionError("unreachable")


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _status(error: BaseException) -> int | None:
    """The HTTP status in an exception of a client library, or in what caused it."""
    told = (e.status if hasattr(e, "status") else getattr(e, "code", None) for e in _causes(error))
    return next((status for status in told if isinstance(status, int)), None)


def _hopeless(error: Exception) -> bool:
    """True for what the same request would be answered with again."""
    return isinstance(error, FileNotFoundError | PermissionError | KvpmError | IsADirectoryError) or _status(error) in (401, 403, 404, 410)


def _told(url: str, error: Exception) -> KvpmError:
    """What a store or server answered, without a word of the URL's secrets."""
    if isinstance(error, KvpmError):
        return error
    names = {type(e).__name__ for e in _causes(error)}
    status = _status(error)
    name = shown(url)
    credentials = _CREDENTIALS.get(_SAME.get(protocol(url), protocol(url)), "check the credentials of this protocol")
    if (
        status in (401, 403)
        or isinstance(error, PermissionError)
        or names & {"NoCredentialsError", "PartialCredentialsError", "RefreshError"}
    ):
        return KvpmError(f"{name} may not be read: no permission", hint=credentials, exit_code=ExitCode.INPUT_CUT)
    if names & {"ClientConnectorError", "EndpointConnectionError", "ConnectionRefusedError", "gaierror", "ClientConnectorDNSError"}:
        return KvpmError(f"{name} cannot be reached", hint="check the address and the network", exit_code=ExitCode.INPUT_CUT)
    if isinstance(error, FileNotFoundError):
        return KvpmError(f"no object at {name}", hint="check the address, and quote a pattern")
    why = f"the server answered {status}" if status is not None else _without_secrets(str(error), url) or type(error).__name__
    return KvpmError(f"{name} cannot be read: {why}", hint="try again; check the address and the network", exit_code=ExitCode.INPUT_CUT)


def _without_secrets(text: str, url: str) -> str:
    first = (text.splitlines() or [""])[0][:200]
    if not is_url(url):
        return first
    secrets = [part for part in (_user(url).rstrip("@"), *_user(url).rstrip("@").split(":"), url.partition("?")[2]) if part]
    first = re.sub(r"[A-Za-z][A-Za-z0-9+.\-]+://[^\s'\")>]+", lambda found: shown(found[0]), first)
    for secret in secrets:
        first = first.replace(secret, "…")
    return first
