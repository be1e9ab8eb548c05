"""Takes off what log collectors put around a line: their time stamp, pod, container, JSON envelope.

Known: docker `--timestamps` and json-file, docker compose, kubectl `--prefix --timestamps`, CRI files,
journald short, short-iso and JSON, Loki/logcli JSON lines, Ray, and JSON log formatters with a
message field.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from analyzer.formats.prefix import begins_with_prefix, strip_ansi
from analyzer.formats.values import read_text
from analyzer.sources.timestamps import parse_epoch, parse_iso

_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
_KUBECTL = re.compile(r"\[(?:pod/)?(?P<pod>[\w.-]+)/(?P<container>[\w.-]+)\] ")
_DOCKER = re.compile(rf"(?P<ts>{_ISO}) (?:(?P<stream>stdout|stderr) (?P<part>[FP]) )?")
_JOURNAL_ISO = re.compile(rf"(?P<ts>{_ISO}) (?P<host>[\w.-]+) (?P<unit>[^\s\[\]:]+)(?:\[\d+\])?: ")
_JOURNAL = re.compile(
    r"(?P<ts>(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?) "
    r"(?P<host>[\w.-]+) (?P<unit>[^\s\[\]:]+)(?:\[\d+\])?: "
)
_RAY = re.compile(r"\((?P<actor>[\w.:<>-]+)(?: rank=\d+)? pid=\d+(?:, ip=(?P<ip>[\w.:]+))?\) ")
_RAY_TAIL = re.compile(r" \[repeated \d+x across cluster\].*$")
_COMPOSE = re.compile(r"(?P<container>[A-Za-z0-9][\w.-]*) +\| ")
_LOGCLI = re.compile(rf"(?P<ts>{_ISO}) (?P<labels>\{{[^{{}}]{{0,4000}}\}}) +")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

_MESSAGE_KEYS = ("message", "msg", "log", "line", "MESSAGE", "textPayload", "body")
_TIME_KEYS = ("time", "timestamp", "ts", "@timestamp", "asctime", "__REALTIME_TIMESTAMP", "date")
_POD_KEYS = ("instance", "pod", "pod_name", "k8s_pod_name", "container", "container_name", "CONTAINER_NAME",
             "_HOSTNAME", "hostname", "host")  # fmt: skip


@dataclass(slots=True)
class Unwrapped:
    """One line without its envelope.

    `outer` is the collector's time in UTC; `outer_naive` the same when it had no zone. `origin` is
    what the collector says of where it comes from. `partial` lines go on in the next one of the same
    origin and `stream`.
    """

    text: str
    outer: datetime | None = None
    outer_naive: datetime | None = None
    origin: str = ""
    wrappers: list[str] = field(default_factory=list)
    partial: bool = False
    stream: str = ""


_MAX_ENVELOPES = 5
_MAX_ORIGIN = 200
# What stands before the mark of a cut line is shorter.
_MAX_STAMPS = 1000
# docker's json-file driver cuts messages into pieces of 16 KiB, the last of which ends with a newline.
_DOCKER_PIECE = 16_000


def may_be_partial(line: bytes) -> bool:
    """False only for a line that no collector cut: cheaper than taking its envelope off."""
    return b" P " in line[:_MAX_STAMPS] or b'"logtag"' in line or len(line) >= _DOCKER_PIECE


def unwrap(line: str) -> Unwrapped:
    """Take all envelopes off `line`; without any, the line comes back as it is (colours removed)."""
    result = Unwrapped(strip_ansi(line))
    for _ in range(_MAX_ENVELOPES):
        if not _peel(result):
            break
    return result


def _set_origin(u: Unwrapped, name: str) -> None:
    """The outermost collector knows best where a line comes from."""
    if not u.origin:
        u.origin = read_text(name[:_MAX_ORIGIN])


def _peel(u: Unwrapped) -> bool:
    first = u.text[:1]
    if first == "{":
        return _peel_json(u)
    if first == "[":
        return _apply(u, _KUBECTL.match(u.text), "kubectl")
    if first == "(":
        match = _RAY.match(u.text)
        # an engine tags its own processes in the same way, without the address
        if match is None or (not match["ip"] and begins_with_prefix(u.text)):
            return False
        u.text = _RAY_TAIL.sub("", u.text)
        return _apply(u, _RAY.match(u.text), "ray")
    if first.isdigit() and len(u.text) > 20 and u.text[10] == "T":
        for pattern, name in ((_LOGCLI, "loki"), (_JOURNAL_ISO, "journald"), (_DOCKER, "docker")):
            if _apply(u, pattern.match(u.text), name):
                return True
        return False
    if first.isalpha():
        if u.text[3:4] == " " and _apply(u, _JOURNAL.match(u.text), "journald"):
            return True
        return " | " in u.text[:80] and _apply(u, _COMPOSE.match(u.text), "compose")
    return False


def _apply(u: Unwrapped, match: re.Match[str] | None, name: str) -> bool:
    if match is None or name in u.wrappers:
        return False
    groups = match.groupdict()
    if groups.get("ts"):
        _stamp(u, groups["ts"])
    if groups.get("stream"):
        u.partial, u.stream = groups.get("part") == "P", groups["stream"]
    labels = dict(_LABEL.findall(groups.get("labels") or ""))
    origin = groups.get("pod") or groups.get("container") or groups.get("host") or groups.get("ip")
    origin = origin or next((labels[k] for k in _POD_KEYS if k in labels), None)
    if origin:
        _set_origin(u, origin)
    u.wrappers.append(name)
    u.text = u.text[match.end() :]
    return True


def _stamp(u: Unwrapped, text: str) -> None:
    moment = parse_iso(text)
    if moment is None:
        return
    if moment.tzinfo is None:
        u.outer_naive = u.outer_naive or moment
    elif u.outer is None:
        u.outer = moment.astimezone(UTC)


def _peel_json(u: Unwrapped) -> bool:
    if '"' not in u.text[:40] or not u.text.rstrip().endswith("}"):
        return False
    try:
        document = json.loads(u.text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict):
        return False
    key = next((k for k in _MESSAGE_KEYS if k in document), None)
    if key is None:
        return False
    text = document[key]
    if isinstance(text, list) and all(isinstance(b, int) and 0 <= b < 256 for b in text):
        # journald stores a message with unprintable bytes as a list of them
        text = bytes(text).decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        return False
    for name in _TIME_KEYS:
        if name in document and u.outer is None:
            value = document[name]
            epoch = parse_epoch(value)
            if epoch is not None:
                u.outer = epoch
            elif isinstance(value, str):
                _stamp(u, value)
    labels: dict[str, object] = {}
    for nested in ("labels", "stream", "kubernetes", "metadata", "resource"):
        part = document.get(nested)
        if isinstance(part, dict):
            labels |= part
    labels |= {k: v for k, v in document.items() if isinstance(v, str)}
    origin = next((labels[k] for k in _POD_KEYS if isinstance(labels.get(k), str)), None)
    if isinstance(origin, str):
        _set_origin(u, origin)
    is_docker = key == "log"
    if is_docker:
        u.partial = document.get("logtag") == "P" or (not text.endswith("\n") and len(text.encode("utf-8", "replace")) >= _DOCKER_PIECE)
        u.stream = str(document.get("stream"))
    u.text = strip_ansi(text.rstrip("\n"))
    u.wrappers.append("journald-json" if key == "MESSAGE" else "docker-json" if is_docker else "json")
    return True
