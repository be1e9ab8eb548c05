"""The options of `kvpm ingest` that ask a Prometheus server instead of reading a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, tzinfo
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from analyzer.errors import KvpmError
from analyzer.reading import moment
from analyzer.sources.discover import Input

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What --prometheus and the options that go with it said."""

    prometheus: str | None
    match: tuple[str, ...]
    since: str | None
    until: str | None
    step: float | None
    header: tuple[str, ...]
    header_env: tuple[str, ...]
    bearer_token_file: Path | None
    user: str | None
    ca_file: Path | None
    cert_file: Path | None
    key_file: Path | None
    insecure: bool
    timeout: float

    def inputs(self, zone: tzinfo | None) -> list[Input]:
        """The server as an input; none without --prometheus. Times without a zone are in `zone`, else UTC."""
        if self.prometheus is None:
            if any((self.match, self.since, self.until, self.step, self.header, self.header_env, self.bearer_token_file, self.user)):
                raise KvpmError("options for a Prometheus server without --prometheus", hint="name it: --prometheus http://HOST:9090")
            return []
        # most ingest files, without what talks to servers
        from analyzer.sources.prometheus_api import PrometheusOptions, source_name
        from analyzer.sources.prometheus_server import PrometheusInput

        options = PrometheusOptions(
            self.prometheus,
            match=self.match,
            since=None if self.since is None else moment("--since", self.since, zone or UTC),
            until=None if self.until is None else moment("--until", self.until, zone or UTC),
            step_s=self.step,
            headers=tuple(_pair("--header", h, ":") for h in self.header),
            header_env=tuple(_pair("--header-env", h, "=") for h in self.header_env),
            bearer_token_file=self.bearer_token_file,
            user=self.user,
            ca_file=self.ca_file,
            cert_file=self.cert_file,
            key_file=self.key_file,
            insecure=self.insecure,
            timeout_s=self.timeout,
        )
        name = source_name(self.prometheus)
        # without an end the question is another one each time
        until = self.until or datetime.now(UTC).isoformat()
        key = "\n".join((name, self.since or "", until, str(self.step), *self.match))
        return [Input(None, name, name, live=PrometheusInput(options), key=key)]


def _pair(option: str, text: str, sign: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not (found and name.strip() and value.strip()):
        # the value may be a secret: it is not repeated
        raise KvpmError(
            f"{option} is not NAME{sign}VALUE", hint=f"for example {option} 'X-Scope-OrgID{sign}{' ' if sign == ':' else ''}tenant'"
        )
    return name.strip(), value.strip()


_OPTIONS = (
    click.option("--prometheus", metavar="URL", help="Read metrics from a Prometheus server, or one that has its API (Thanos, Mimir, …)."),
    click.option("--match", multiple=True, metavar="SELECTOR", help="Series to ask for. Repeatable. Default: those this tool uses."),
    click.option(
        "--since", metavar="TIME", help="Ask for samples after: 2026-11-30T07:00 (UTC, or in --tz). Default: 6 hours before --until."
    ),
    click.option("--until", metavar="TIME", help="Ask for samples before. Default: now."),
    click.option("--step", type=click.FloatRange(min=0.001), metavar="SECONDS", help="Ask for one value per step instead of each sample."),
    click.option("--header", multiple=True, metavar="'NAME: VALUE'", help="Send a header. Repeatable."),
    click.option("--header-env", multiple=True, metavar="NAME=VARIABLE", help="Send a header whose value is in an environment variable."),
    click.option("--bearer-token-file", type=_FILE, metavar="FILE", help="Send the token in a file."),
    click.option("--user", metavar="NAME:PASSWORD", help="Sign in with a name and a password."),
    click.option("--ca-file", type=_FILE, metavar="FILE", help="Trust this certificate authority."),
    click.option("--cert-file", type=_FILE, metavar="FILE", help="Show this certificate to the server."),
    click.option("--key-file", type=_FILE, metavar="FILE", help="The key of --cert-file."),
    click.option("--insecure", is_flag=True, help="Do not check the server's certificate."),
    click.option(
        "--timeout", type=click.FloatRange(min=0.1), default=60.0, metavar="SECONDS", help="Longest wait for one answer. Default: 60."
    ),
)


def server_options(function: F) -> F:
    """The options, given to the command as one `server: ServerOptions`."""

    @wraps(function)
    def command(**given: Any) -> Any:
        server = ServerOptions(**{f.name: given.pop(f.name) for f in fields(ServerOptions)})
        return function(server=server, **given)

    wrapped: Any = command
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return cast(F, wrapped)
