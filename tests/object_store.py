"""Objects to read over a network, on loopback: a real S3 API, and a web server whose connections tear."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import botocore.session
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "fleet-logs"


@dataclass
class Store:
    """A bucket of a server that speaks S3."""

    endpoint: str
    client: Any

    def put(self, key: str, content: bytes | str) -> str:
        """Store an object; its URL."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"s3://{BUCKET}/{key}"


@contextmanager
def s3_store() -> Iterator[Store]:
    """A server with one empty bucket; the environment of this process and its children leads to it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    with pytest.MonkeyPatch.context() as environment:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "test-key-id"),
            ("AWS_SECRET_ACCESS_KEY", "test-secret"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", endpoint),
            ("NO_PROXY", "127.0.0.1,localhost"),
        ):
            environment.setenv(name, value)
        client = botocore.session.get_session().create_client("s3", endpoint_url=endpoint)
        client.create_bucket(Bucket=BUCKET)
        try:
            yield Store(endpoint, client)
        finally:
            server.stop()


@dataclass
class Web:
    """Files by path; `tear` is after how many bytes each next connection ends, `ranges` whether a GET may begin anywhere."""

    files: dict[str, bytes] = field(default_factory=dict)
    tear: list[int] = field(default_factory=list)
    ranges: bool = True
    secret: str = ""
    asked: list[str] = field(default_factory=list)
    address: str = ""


@contextmanager
def web_server() -> Iterator[Web]:
    """A web server of `Web`'s files, with pages that link them."""
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, *, body: bool) -> None:
            path, _, query = self.path.partition("?")
            web.asked.append(f"{self.command} {self.path}")
            if web.secret and web.secret not in query:
                self.send_error(403)
                return
            content = web.files.get(path)
            if content is None and path.endswith("/"):
                self.listed(path)
                return
            if content is None:
                self.send_error(404)
                return
            begin, end, status = 0, len(content), 200
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")) if web.ranges else None
            if asked:
                begin, end, status = int(asked[1]), min(len(content), int(asked[2] or len(content)) + 1), 206
            self.send_response(status)
            self.send_header("Content-Length", str(end - begin))
            if asked:
                self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
            self.send_header("ETag", f'"{hash(content):x}"')
            self.end_headers()
            if body:
                self.wfile.write(content[begin : begin + web.tear.pop(0)] if web.tear else content[begin:end])
                self.close_connection = True

        def listed(self, path: str) -> None:
            names = sorted(
                {path + p[len(path) :].partition("/")[0] + "/" * ("/" in p[len(path) :]) for p in web.files if p.startswith(path)}
            )
            page = "".join(f'<a href="{n}">{n}</a>' for n in names).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
