"""A live Prometheus server as an input, read over its HTTP API.

Raw samples are asked for where no step is given: an instant query for a range selector answers with what was
scraped, at the times of the scrapes. The time is asked for in chunks, which are halved when one is too much for
the server. Every answer is one line of JSON, which the reader of API answers then reads.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
import re
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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
from analyzer.errors import ExitCode, KvpmError, NothingUsableError

# The names this tool knows begin like this; Ray and OpenTelemetry write `_` for `:`, and Ray puts its own name
# in front. Left out: creation times, which repeat what the process start tells, results of recording rules
# (level:metric:operation), and the histograms of single functions, which are many and answer nothing here.
_WANTED = "(ray_)?(sglang|vllm|lmcache)[:_].+"
_UNWANTED = ".+_created|[^:]+:[^:]*:.*|sglang[:_]func_latency_seconds_(bucket|sum|count)"
# Every program exports these, so they are asked for only of the targets that export one of the above: when the
# process started tells runs apart, and `up` a server that was down from one that was not scraped.
_COMPANIONS = "up|process_start_time_seconds"
_TARGETS_A_QUERY = 40

_DEFAULT_SPAN = timedelta(hours=6)
# Half a million samples are some 15 MB of JSON and well below a server's own limit, 50 million by default.
_MOST_SAMPLES = 500_000
_MOST_BYTES = 256 << 20
# What Prometheus gives of one series in answer to a range query.
_MOST_POINTS = 11_000
# The density of the samples is measured in so many slices.
_SLICES = 120
_SHORTEST_MS = 1000
# Halving helps against a limit at once. Against a slow server each try costs its whole timeout.
_SLOW_HALVINGS = 4

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

_NARROWER = "ask for less: name series with --match, or a shorter time with --since and --until"
_SELECTORS = "--match takes series selectors, such as 'vllm:num_requests_running' or '{__name__=~\"vllm:.+\",pod=\"a\"}'"
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


def preset_selectors() -> tuple[str, ...]:
    """The series selectors that are read when the user names none, without the targets' own series."""
    return (f'{{__name__=~"{_WANTED}",__name__!~"{_UNWANTED}"}}',)


def source_name(url: str) -> str:
    """The URL of the server as it is shown and stored: without user, password and parameters. Raises KvpmError."""
    parts = _split(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class PrometheusInput:
    """The answers of one server, each one line of JSON, in about the order of time.

    After iteration `cut` says whether the server failed halfway, with the reason in `notes`; `size` is the
    bytes received, unpacked, and `sha256` is of the lines given.
    """

    def __init__(self, options: PrometheusOptions) -> None:
        """Raises KvpmError for a URL, a header or a file that cannot be used, and a time that is none."""
        self.cut = False
        self.notes: list[str] = []
        self.packing: str | None = None
        self._step_ms: int | None = None
        if options.step_s is not None:
            if not (math.isfinite(options.step_s) and options.step_s >= 0.001):
                raise KvpmError(f"a step of {options.step_s:g} s is none", hint="give seconds: --step 15")
            self._step_ms = round(options.step_s * 1000)
        until = options.until or datetime.now(UTC)
        since = options.since or until - _DEFAULT_SPAN
        if since >= until:
            span = f"{_said(since.timestamp())} and {_said(until.timestamp())}"
            raise KvpmError(f"no time between {span}", hint="--since must be before --until")
        # Chunks are half-open, (after, last], as Prometheus 3 reads a range; the first sample is one at `since`.
        self._after = math.ceil(since.timestamp() * 1000) - 1
        self._last = math.floor(until.timestamp() * 1000)
        self._read_until = self._after
        self._match = options.match
        self._client = _Client(options)
        self._owners: dict[bytes, int] = {}
        self._hash = hashlib.sha256()
        self._given = False
        if options.since is None:
            self.notes.append(f"read from {_said(since.timestamp())} on; --since names another time")
        if options.insecure:
            self.notes.append("the certificate of the server was not checked")

    @property
    def size(self) -> int:
        """Bytes received so far, unpacked."""
        return self._client.received

    @property
    def sha256(self) -> str | None:
        """Hash of the lines given: the same for the same time of a server that has not changed."""
        return self._hash.hexdigest() if self._given else None

    def __iter__(self) -> Iterator[str]:
        """Raises KvpmError when the server cannot be asked, NothingUsableError when it has no sample of these series."""
        try:
            selectors = list(self._match or preset_selectors())
            for selector in selectors:
                self._check(selector)
            for answer in self._answers(selectors):
                line = orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)
                self._hash.update(line)
                self._given = True
                yield line.decode()
        except KvpmError as error:
            if not self._given:
                raise
            self.cut = True
            self.notes.append(f"what the server holds after {_said(self._read_until / 1000)} was not read: {error.message}")
            return
        if not self._given:
            raise self._nothing(selectors)

    def _check(self, selector: str) -> None:
        """Ask for next to nothing, so that a wrong selector is told as it was written."""
        try:
            reply = self._client.get("query", query=f"{selector}[1ms]", time=_seconds(self._last))
        except _RefusedError as error:
            if error.slow:
                raise
            raise KvpmError(error.message, hint=_SELECTORS) from None
        if reply["data"].get("resultType") != "matrix":
            raise KvpmError("--match holds something else than a series selector", hint=_SELECTORS)

    def _answers(self, selectors: list[str]) -> Iterator[dict[str, Any]]:
        """The answers for all selectors, the earliest chunk that is left first, so that a break leaves a beginning."""
        plans: list[_Plan] = []
        targets: set[tuple[str, str]] = set()
        for selector in selectors:
            slices, seen = self._density(selector)
            targets |= seen
            plans.append(self._plan(selector, slices))
        if not self._match:
            plans += [self._plan(selector, self._density(selector)[0]) for selector in _companions(targets)]
        slow = 0
        while waiting := [p for p in plans if p.after < self._last]:
            plan = min(waiting, key=lambda p: p.after)
            self._read_until = plan.after
            last, series_s = plan.next_chunk()
            try:
                answer = self._chunk(plan.selector, plan.after, last)
            except _RefusedError as error:
                slow += error.slow
                if last - plan.after <= _SHORTEST_MS or slow > _SLOW_HALVINGS:
                    raise
                plan.longest_ms = (last - plan.after + 1) // 2
                continue
            slow = 0
            result = answer["data"]["result"]
            if self._step_ms is None:
                plan.learn(sum(len(s.get("values", ())) for s in result), series_s)
            plan.after = last
            if len(plans) > 1:
                number = plans.index(plan)
                answer["data"]["result"] = [s for s in result if self._owner(s["metric"], number)]
            if answer["data"]["result"]:
                yield answer

    def _plan(self, selector: str, slices: list[tuple[int, int]]) -> _Plan:
        if self._step_ms is None:
            return _Plan(selector, slices, self._after, self._last, rate=1.0, longest_ms=self._last - self._after)
        return _Plan(selector, slices, self._after, self._last, rate=1000 / self._step_ms, longest_ms=_MOST_POINTS * self._step_ms)

    def _owner(self, labels: dict[str, str], plan: int) -> bool:
        """True for the selector that brought a series first: a series that two of them match is read once."""
        key = hashlib.blake2b(orjson.dumps(labels, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
        return self._owners.setdefault(key, plan) == plan

    def _chunk(self, selector: str, after: int, last: int) -> dict[str, Any]:
        """The samples in (after, last], in milliseconds, of the series that have one."""
        if self._step_ms is None:
            reply = self._client.get("query", query=f"{selector}[{last - after}ms]", time=_seconds(last))
        else:
            # Steps lie on multiples of the step, where VictoriaMetrics and Mimir would move them to anyway.
            first, final = (after // self._step_ms + 1) * self._step_ms, last // self._step_ms * self._step_ms
            if first > final:
                return {"status": "success", "data": {"resultType": "matrix", "result": []}}
            reply = self._client.get(
                "query_range", query=selector, start=_seconds(first), end=_seconds(final), step=_seconds(self._step_ms)
            )
        result = []
        for series in reply["data"]["result"]:
            for kind in ("values", "histograms"):
                samples = series.get(kind)
                # Prometheus 2 takes the left end of a range too; what stands there came with the chunk before.
                while samples and round(samples[0][0] * 1000) <= after:
                    del samples[0]
            if series.get("values") or series.get("histograms"):
                result.append(series)
        told = {key: reply[key] for key in ("warnings", "infos") if reply.get(key)}
        return {"status": "success", "data": {"resultType": "matrix", "result": result}, **told}

    def _density(self, selector: str) -> tuple[list[tuple[int, int]], set[tuple[str, str]]]:
        """How many series have a sample in each slice of the time, as (end in ms, series); and their targets (job, instance).

        The slices' ends are multiples of their width, where every server leaves them; the first and the last
        reach beyond the time asked for.
        """
        width = math.ceil((self._last - self._after) / _SLICES / 1000) * 1000
        # The one function over time that keeps the name: without it series of several names would be the same.
        query = f"count by (job, instance) (last_over_time({selector}[{width}ms]))"
        ends = range((self._after // width + 1) * width, self._last + width, width)
        counts = dict.fromkeys(ends, 0)
        targets: set[tuple[str, str]] = set()
        waiting, slow = [ends], 0
        while waiting:
            part = waiting.pop()
            try:
                reply = self._client.get("query_range", query=query, start=_seconds(part[0]), end=_seconds(part[-1]), step=_seconds(width))
            except _RefusedError as error:
                slow += error.slow
                if len(part) == 1 or slow > _SLOW_HALVINGS:
                    raise
                half = len(part) // 2
                waiting += [part[half:], part[:half]]
                continue
            for target in reply["data"]["result"]:
                targets.add((target["metric"].get("job", ""), target["metric"].get("instance", "")))
                for when, count in target["values"]:
                    end = round(when * 1000)
                    counts[end] = counts.get(end, 0) + int(float(count))
        return sorted(counts.items()), targets

    def _nothing(self, selectors: list[str]) -> NothingUsableError:
        """Why there is no sample: no such series at all, or none at that time; with what the server has instead."""
        span = f"between {_said((self._after + 1) / 1000)} and {_said(self._last / 1000)}"
        try:
            found = self._client.get("series", *(("match[]", s) for s in selectors), start="0", end=_seconds(self._last))["data"]
            if found:
                return NothingUsableError(
                    f"{self._client.name}: {len(found)} series match, and none has a sample {span}",
                    hint="name the time with --since and --until",
                )
            names = self._client.get("label/__name__/values")["data"]
        except KvpmError:
            return NothingUsableError(f"{self._client.name} has no sample of these series {span}", hint=_NARROWER)
        begins = Counter(m[0] for n in names if (m := re.match(r"[A-Za-z0-9]+[:_]?", n)))
        has = ", ".join(prefix for prefix, _ in begins.most_common(5))
        return NothingUsableError(
            f"{self._client.name}: 0 series match {'the given selectors' if self._match else 'the names of SGLang, vLLM or LMCache'}",
            hint=f"most names on this server begin with {has}; name others with --match" if has else "this server has no series at all",
        )


@dataclass(slots=True, eq=False)
class _Plan:
    """What is still to be read of one selector: the time from `after` to `last`, in ms.

    `slices` are (end, series that are there); `rate` is how many samples a series has in a second, once a
    second until it is learned. No chunk is longer than `longest_ms`.
    """

    selector: str
    slices: list[tuple[int, int]]
    after: int
    last: int
    rate: float
    longest_ms: int

    def next_chunk(self) -> tuple[int, float]:
        """Where the next chunk ends, so that it holds about _MOST_SAMPLES, and its series x seconds."""
        limit = min(self.last, self.after + self.longest_ms)
        most = _MOST_SAMPLES / self.rate
        edge, held = self.after, 0.0
        for end, series in self.slices:
            span = min(end, limit) - edge
            if span <= 0:
                continue
            more = series * span / 1000
            if held + more > most:
                span = max(int(span * (most - held) / more), 1)
                return edge + span, held + series * span / 1000
            edge, held = edge + span, held + more
        return limit, held

    def learn(self, samples: int, series_s: float) -> None:
        """Take the rate from what a chunk brought, downwards in steps: others may be scraped more often."""
        if samples and series_s:
            self.rate = max(samples / series_s, self.rate / 4)


class _RefusedError(KvpmError):
    """The server will not answer this query; less of it may do. `slow` when it took too long."""

    def __init__(self, message: str, *, slow: bool = False) -> None:
        super().__init__(message, hint=_NARROWER, exit_code=ExitCode.INPUT_CUT if slow else ExitCode.USAGE)
        self.slow = slow


class _Client:
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
        """The API's answer to a successful question. Raises KvpmError, _RefusedError when less may be answered."""
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
            passing = response.status in _PASSING_STATUS and not isinstance(failure, _RefusedError)
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
                    raise _RefusedError(f"{self.name} answers with more than {_MOST_BYTES >> 20} MiB at once")
        except BaseException:
            response.close()
            raise
        response.release_conn()
        return b"".join(blocks)

    def _unreachable(self, error: HTTPError) -> KvpmError:
        host = urlsplit(self.name).netloc
        # the texts of urllib3 hold the whole URL: none of them is shown
        if isinstance(error, ReadTimeoutError):
            return _RefusedError(f"{self.name} gave no answer within {self._timeout_s:g} s", slow=True)
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
            return _RefusedError(f"{self.name} took too long{because}", slow=True)
        if status == 504 and took_s > _GAVE_UP_S:
            return _RefusedError(f"the gateway before {self.name} gave up after {took_s:.0f} s", slow=True)
        if status == 400 and reply is None and b"HTTPS" in body:
            return KvpmError(f"{self.name} wants TLS", hint="write https:// in the URL")
        if status in (413, 422) or (reply is not None and reply.get("status") == "error" and status in (200, 400)):
            return _RefusedError(f"{self.name} refuses the query (status {status}){because}")
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


def _companions(targets: set[tuple[str, str]]) -> Iterator[str]:
    """Selectors of the targets' own series, some targets each."""
    jobs: dict[str, list[str]] = {}
    for job, instance in sorted(targets):
        jobs.setdefault(job, []).append(instance)
    for job, instances in jobs.items():
        for at in range(0, len(instances), _TARGETS_A_QUERY):
            some = "|".join(re.escape(i) for i in instances[at : at + _TARGETS_A_QUERY])
            yield f'{{__name__=~"{_COMPANIONS}",job={_quoted(job)},instance=~{_quoted(some)}}}'


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


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


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03d}"


def _said(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
