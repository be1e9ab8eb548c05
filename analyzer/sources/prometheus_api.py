"""One Prometheus server's HTTP API: asks patiently, and turns what goes wrong into one line without secrets."""

from __future__ import annotations

import base64
import os
import re
import ssl
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote_plus, unquote, urlencode, urljoin, urlsplit, urlunsplit

import orjson
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    DecodeError,
    HTTPError,
    InvalidHeader,
    MaxRetryError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.util import Retry, Timeout

from analyzer import __version__
from analyzer.errors import ExitCode, KvpmError

_MOST_BYTES = 256 << 20
_RETRIES = 4
_BACKOFF_S = 0.5
_LONGEST_WAIT_S = 30
_CONNECT_S = 10.0
# The server is told the timeout and shall say itself that it was too short.
_GRACE_S = 5.0
_PASSING_STATUS = frozenset((429, 502, 503, 504))
# A gateway that gave up after so long would do so again with the same query.
_GAVE_UP_S = 5.0
_REDIRECTS = 5
_SHOWN_CHARS = 200
_BLOCK = 1 << 20
_TIMED_OUT = re.compile(r"time(d )?-?out|deadline exceeded", re.IGNORECASE)
NARROWER = "ask for less: name series with --match, or a shorter time with --since and --until"
_GET_IN = "give what the server asks for: --header, --header-env, --bearer-token-file, or --user"
_WHICH_URL = "give the URL under which /api/v1 stands, with its path: http://prometheus:9090, http://mimir/prometheus"


@dataclass(frozen=True, slots=True)
class PrometheusOptions:
    """Which server, which series and what time (UTC), and how to get in.

    Without `match` the series of `preset_selectors` are read; without `until` up to now, without `since` the
    six hours before. `step_s` asks for a value at every step instead of raw samples. `header_env` pairs a header
    with the environment variable that holds its value. `user` is `name:password`, as it may also stand in the URL.
    A later way to authorize wins: URL, user, token file, header_env, headers.
    """

    url: str = field(repr=False)
    match: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    step_s: float | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    header_env: tuple[tuple[str, str], ...] = ()
    bearer_token_file: Path | None = None
    user: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure: bool = False
    timeout_s: float = 60.0


def source_name(url: str) -> str:
    """The URL of the server as it is shown and stored: without user, password and parameters. Raises KvpmError."""
    parts = _split(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class RefusedError(KvpmError):
    """The server will not answer this query; less of it may do. `slow` when it took too long."""

    def __init__(self, message: str, *, slow: bool = False) -> None:
        super().__init__(message, hint=NARROWER, exit_code=ExitCode.INPUT_CUT if slow else ExitCode.USAGE)
        self.slow = slow


class Client:
    """Asks one server, patiently, and turns what goes wrong into one line without secrets."""

    def __init__(self, options: PrometheusOptions) -> None:
        parts = _split(options.url)
        self.name = source_name(options.url)
        self.received = 0
        self._answered = False
        self._params = parse_qsl(parts.query)
        self._timeout_s = options.timeout_s
        self._own = _authorization(options, parts)
        self._secrets = _secrets(self._own, self._params, parts, options.user)
        for file in (options.ca_file, options.cert_file, options.key_file):
            if file is not None and not file.is_file():
                raise KvpmError(f"{file} is no file", hint="--ca-file, --cert-file and --key-file take files in PEM form")
        if options.insecure:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        secure: dict[str, Any] = {
            "ca_certs": str(options.ca_file) if options.ca_file else None,
            "cert_reqs": "CERT_NONE" if options.insecure else "CERT_REQUIRED",
            "timeout": Timeout(connect=min(_CONNECT_S, options.timeout_s), read=options.timeout_s + _GRACE_S),
        }
        self._pool = urllib3.PoolManager(
            cert_file=str(options.cert_file) if options.cert_file else None,
            key_file=str(options.key_file) if options.key_file else None,
            **secure,
        )
        # Where a redirect leads elsewhere, neither headers nor the client's certificate go along.
        self._elsewhere = urllib3.PoolManager(**secure)

    def get(self, endpoint: str, *pairs: tuple[str, str], **params: str) -> dict[str, Any]:
        """The API's answer to a successful question. Raises KvpmError, RefusedError when less may be answered."""
        fields = [*self._params, *pairs, *params.items()]
        if "query" in params:
            fields.append(("timeout", f"{self._timeout_s:g}s"))
        target = f"{self.name.rstrip('/')}/api/v1/{endpoint}?{urlencode(fields)}"
        retries = Retry(total=_RETRIES, backoff_factor=_BACKOFF_S, backoff_max=_LONGEST_WAIT_S)
        while True:
            began = time.monotonic()
            try:
                response, body, away = self._ask(target)
            except HTTPError as error:
                failure = self._unreachable(error)
                # A first connection that fails is a wrong name more often than a passing trouble.
                passing = not isinstance(error, ReadTimeoutError) and (self._answered or isinstance(error, (ProtocolError, DecodeError)))
                retries = _another(retries, failure, error=error) if passing else _no_other(failure)
                time.sleep(retries.get_backoff_time())
                continue
            reply = _parsed(body)
            if response.status == 200 and reply is not None and reply.get("status") == "success":
                self._answered = True
                return reply
            failure = self._failure(response.status, reply, body, away, time.monotonic() - began)
            passing = response.status in _PASSING_STATUS and not isinstance(failure, RefusedError)
            retries = _another(retries, failure, response=response) if passing else _no_other(failure)
            time.sleep(min(_asked_wait(retries, response), _LONGEST_WAIT_S))

    def _ask(self, target: str) -> tuple[urllib3.BaseHTTPResponse, bytes, bool]:
        """The response, its body, and whether a redirect led to another host."""
        away = False
        common = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": f"kvpm/{__version__}"}
        for _ in range(_REDIRECTS + 1):
            pool, headers = (self._elsewhere, common) if away else (self._pool, {**common, **self._own})
            response = pool.urlopen("GET", target, headers=headers, preload_content=False, redirect=False, retries=False)
            body = self._body(response)
            location = response.get_redirect_location()
            if not location:
                return response, body, away
            onward = urljoin(target, location)
            away = away or not _same_place(urlsplit(target), urlsplit(onward))
            target = onward
        raise KvpmError(f"{self.name} redirects in a circle", hint=_WHICH_URL)

    def _body(self, response: urllib3.BaseHTTPResponse) -> bytes:
        blocks: list[bytes] = []
        size = 0
        try:
            # asked for in so many words: what comes in chunks is else given as it was packed
            for block in response.stream(_BLOCK, decode_content=True):
                blocks.append(block)
                size += len(block)
                self.received += len(block)
                if size > _MOST_BYTES:
                    raise RefusedError(f"{self.name} answers with more than {_MOST_BYTES >> 20} MiB at once")
        except BaseException:
            response.close()
            raise
        response.release_conn()
        return b"".join(blocks)

    def _unreachable(self, error: HTTPError) -> KvpmError:
        host = urlsplit(self.name).netloc
        # the texts of urllib3 hold the whole URL: none of them is shown
        if isinstance(error, ReadTimeoutError):
            return RefusedError(f"{self.name} gave no answer within {self._timeout_s:g} s", slow=True)
        if isinstance(error, SSLError):
            return KvpmError(
                f"no TLS connection with {host}: {self._shown(_tls_reason(error))}",
                hint="--ca-file names the authority that signed the certificate, --insecure skips the check; is it https at all?",
            )
        if isinstance(error, NameResolutionError):
            return KvpmError(f"no host of the name {urlsplit(self.name).hostname}", hint=_WHICH_URL)
        if isinstance(error, NewConnectionError):
            why = os.strerror(error.__cause__.errno) if isinstance(error.__cause__, OSError) and error.__cause__.errno else "no connection"
            return KvpmError(f"no Prometheus at {host}: {why.lower()}", hint=_WHICH_URL)
        if isinstance(error, ConnectTimeoutError):
            return KvpmError(f"{host} does not take a connection within {min(_CONNECT_S, self._timeout_s):g} s", hint=_WHICH_URL)
        return KvpmError(
            f"the connection to {host} broke while it answered",
            hint="try again, or ask for less with --since and --until",
            exit_code=ExitCode.INPUT_CUT,
        )

    def _failure(self, status: int, reply: dict[str, Any] | None, body: bytes, away: bool, took_s: float) -> KvpmError:
        """What an answer that is no success means."""
        text = self._shown(str(reply.get("error") or "")) if reply is not None else ""
        because = f": {text}" if text else ""
        if status in (401, 403):
            return KvpmError(f"{self.name} does not let this in (status {status})", hint=_GET_IN)
        if reply is not None and (reply.get("errorType") == "timeout" or (status in (422, 503, 504) and _TIMED_OUT.search(text))):
            return RefusedError(f"{self.name} took too long{because}", slow=True)
        if status == 504 and took_s > _GAVE_UP_S:
            return RefusedError(f"the gateway before {self.name} gave up after {took_s:.0f} s", slow=True)
        if status == 400 and reply is None and b"HTTPS" in body:
            return KvpmError(f"{self.name} wants TLS", hint="write https:// in the URL")
        if status in (413, 422) or (reply is not None and reply.get("status") == "error" and status in (200, 400)):
            return RefusedError(f"{self.name} refuses the query (status {status}){because}")
        if status in (200, 404):
            page = "a web page" if body.lstrip()[:1] == b"<" else "something else than the Prometheus API"
            what = f"status {status}" if status == 404 else page
            where = "a redirect to another host ends at " if away else ""
            return KvpmError(
                f"{self.name} is no Prometheus: {where}{what}",
                hint="the page may ask for a sign-in: give a header with --header or --header-env" if away else _WHICH_URL,
            )
        return KvpmError(
            f"{self.name} answers with status {status}{because}",
            hint="try again later; the server's own log says more",
            exit_code=ExitCode.INPUT_CUT,
        )

    def _shown(self, text: str) -> str:
        """A server's text as one short line; should it repeat a secret, without it."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."


def _split(url: str) -> SplitResult:
    """The parts of the server's URL, its path without what the tool appends itself."""
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        # the text is not repeated: it may hold a password
        raise KvpmError("the Prometheus server is not given as a URL", hint="write http://HOST:PORT, with a path where the API has one")
    path = re.sub(r"(/graph|/api/v1(/query|/query_range)?)?/*$", "", parts.path)
    return parts._replace(path=path, fragment="")


def _authorization(options: PrometheusOptions, parts: SplitResult) -> dict[str, str]:
    """The user's own headers. Raises KvpmError, never with a value in it."""
    found = urllib3.HTTPHeaderDict()
    user = options.user
    if user is None and parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    if user is not None:
        found["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
    if options.bearer_token_file is not None:
        try:
            found["Authorization"] = "Bearer " + options.bearer_token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise KvpmError(
                f"the token file {options.bearer_token_file} cannot be read", hint="it holds the token and nothing else"
            ) from None
    for name, variable in options.header_env:
        if variable not in os.environ:
            raise KvpmError(f"the environment variable {variable} for the header {name} is not set", hint=f"export {variable}=...")
        found[name] = os.environ[variable]
    for name, value in options.headers:
        found[name] = value
    headers = {name.strip(): value.strip() for name, value in found.items()}
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not re.fullmatch(r"[\t\x20-\x7e\xa0-\xff]*", value):
            raise KvpmError("a header for the Prometheus server is no header", hint="write NAME: VALUE on one line, without other signs")
    return headers


def _secrets(headers: dict[str, str], params: list[tuple[str, str]], parts: SplitResult, user: str | None) -> list[str]:
    """Everything that must not be shown, longest first. A word of one or two letters hides nothing and would riddle the text."""
    found = [*headers.values(), *(v.partition(" ")[2] for v in headers.values()), *(w for _, v in params for w in (v, quote_plus(v)))]
    found += [unquote(parts.password or ""), parts.password or "", (user or "").partition(":")[2]]
    return sorted({s for s in found if len(s) > 2}, key=len, reverse=True)


def _same_place(one: SplitResult, other: SplitResult) -> bool:
    """True for the same server, also where it sends from http to https on their usual ports."""
    usual = {"http": 80, "https": 443}
    ports = [p.port or usual.get(p.scheme) for p in (one, other)]
    upgrade = (one.scheme, other.scheme) == ("http", "https") and ports == [80, 443]
    return one.hostname == other.hostname and (upgrade or (one.scheme == other.scheme and ports[0] == ports[1]))


def _another(
    retries: Retry, failure: KvpmError, *, error: HTTPError | None = None, response: urllib3.BaseHTTPResponse | None = None
) -> Retry:
    """One try less; raises `failure` when there is none left."""
    try:
        return retries.increment("GET", response=response, error=error)
    except MaxRetryError:
        raise failure from None


def _no_other(failure: KvpmError) -> Retry:
    raise failure from None


def _asked_wait(retries: Retry, response: urllib3.BaseHTTPResponse) -> float:
    """Seconds to wait: what the server asks for in Retry-After, else longer from try to try."""
    try:
        asked = retries.get_retry_after(response)
    except InvalidHeader:
        asked = None
    return retries.get_backoff_time() if asked is None else asked


def _tls_reason(error: SSLError) -> str:
    inner = error.args[0] if error.args else None
    if isinstance(inner, ssl.SSLCertVerificationError):
        return inner.verify_message
    return str(getattr(inner, "reason", None) or "the handshake failed").replace("_", " ").lower()


def _parsed(body: bytes) -> dict[str, Any] | None:
    """The body as the API's answer; None when it is none."""
    try:
        reply = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(reply, dict) or reply.get("status") not in ("success", "error"):
        return None
    data = reply.get("data")
    whole = isinstance(data, list) or (isinstance(data, dict) and isinstance(data.get("result"), list))
    return reply if whole or reply["status"] == "error" else None
