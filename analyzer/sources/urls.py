"""URLs as inputs: what is one, and how it is shown without what it may hold that is secret."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import parse_qsl

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://", re.ASCII)
WEB = ("http", "https")
# Parameters that sign an address for a while: the same object has other values of them the next time.
_SIGNING = re.compile(
    r"x-(?:amz|goog|oss|cos|obs)-.*|awsaccesskeyid|googleaccessid|ossaccesskeyid|key-pair-id|policy|signature|expires"
    r"|s(?:e|i|p|r|s|t|v|ig|ip|pr|rt|ke|ks|kt|kv|koid|ktid)|token|access_token|auth|key|api_key|apikey",
    re.IGNORECASE,
)


def protocol(text: str) -> str:
    """The protocol of a URL, in lower case; empty for anything else."""
    found = _URL.match(text)
    return found[1].lower() if found else ""


def is_url(text: str) -> bool:
    """True for what is no path on this machine: `s3://bucket/logs`, `https://host/server.log`."""
    return bool(protocol(text))


def shown(text: str) -> str:
    """`text` as it may be printed and stored: a URL without user, password and query, and anything else as it is.

    What a query names beside a signature tells objects apart, and is shown as part of its hash.
    """
    found = _URL.match(text)
    if found is None:
        return text
    kind, rest = found[1].lower(), text[found.end() :]
    rest, query, parameters = _web_parts(rest) if kind in WEB else (rest, "", "")
    authority, slash, path = rest.partition("/")
    plain = f"{kind}://{authority.rpartition('@')[2]}{slash}{path}"
    own = sorted((k, v) for k, v in parse_qsl(parameters, keep_blank_values=True) if not _SIGNING.fullmatch(k))
    if query and own:
        plain += f"?{hashlib.sha256(repr(own).encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return plain


def _web_parts(rest: str) -> tuple[str, str, str]:
    return rest.partition("#")[0].partition("?")


def own_name(text: str) -> str:
    """The last part of a URL's path, for naming things after it; the host where there is no path."""
    plain = shown(text).partition("://")[2]
    plain = plain.partition("?")[0] if protocol(text) in WEB else plain
    return plain.rstrip("/").rpartition("/")[2] or plain.rstrip("/") or "remote"


def parent(text: str) -> str:
    """The shown URL of the folder that an object lies in."""
    plain = shown(text)
    start = plain.index("://") + 3
    body = plain[start:].partition("?")[0] if protocol(text) in WEB else plain[start:]
    return plain[:start] + (body.rstrip("/").rpartition("/")[0] or body.rstrip("/"))
