"""A real Prometheus server on loopback, with exporters to scrape and a past written into its store.

`needs_prometheus` skips where there is no binary; with CI=true its absence is a failure.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")

_START_S = 20.0


def needs_prometheus() -> None:
    """Skip, or fail with CI=true, where there is no server to test against."""
    if PROMETHEUS and PROMTOOL:
        return
    if os.environ.get("CI") == "true":
        pytest.fail("CI has no prometheus: see tools/ensure_prometheus.sh")
    pytest.skip("needs the programs prometheus and promtool (Debian package prometheus)")


Reply = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""
Answer = Callable[[str, dict[str, str]], Reply]
"""From path with query and headers (lower case) to a reply."""


@contextlib.contextmanager
def web_server(answer: Answer, *, tls: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Serves what `answer` gives, under the URL yielded; over TLS with (certificate, key)."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, headers, body = answer(self.path, {k.lower(): v for k, v in self.headers.items()})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            # a body shorter than was promised is a broken connection
            self.close_connection = headers.get("Content-Length", str(len(body))) != str(len(body))

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def forward_to(upstream: str) -> Answer:
    """An answer that hands a question on to another server, without its headers."""

    def answer(path: str, headers: dict[str, str]) -> Reply:
        try:
            with urllib.request.urlopen(upstream + path, timeout=30) as response:
                return response.status, {"Content-Type": response.headers["Content-Type"]}, response.read()
        except urllib.error.HTTPError as error:
            return error.code, {"Content-Type": error.headers["Content-Type"]}, error.read()

    return answer


@dataclass
class Exporter:
    """A made-up vLLM server: every scrape sees other values, and `served` keeps them."""

    served: list[dict[str, float]] = field(default_factory=list)

    def answer(self, path: str, headers: dict[str, str]) -> Reply:
        n = len(self.served)
        values = {
            'vllm:num_requests_running{engine="0",model_name="m\\"x"}': float(n % 7),
            'vllm:kv_cache_usage_perc{engine="0",model_name="m\\"x"}': n / 1000 + 0.1,
            'vllm:generation_tokens_total{engine="0",model_name="m\\"x"}': n * 1000 + 0.5,
            'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5"}': float(n),
            'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"}': n * 2.0,
            'vllm:time_to_first_token_seconds_sum{engine="0"}': n * 0.3,
            'vllm:time_to_first_token_seconds_count{engine="0"}': n * 2.0,
            "ray_vllm_num_requests_waiting": float(n % 3),
            "sglang_num_queue_reqs": float(n % 5),
            "process_start_time_seconds": 1.75e9,
            "vllm:generation_tokens_created": 1.75e9,
            "python_gc_collections_total": float(n),
        }
        self.served.append(values)
        return 200, {"Content-Type": "text/plain; version=0.0.4"}, "".join(f"{k} {v!r}\n" for k, v in values.items()).encode()


def other_program(path: str, headers: dict[str, str]) -> Reply:
    """An exporter that has nothing to do with a model server."""
    return 200, {"Content-Type": "text/plain; version=0.0.4"}, b"process_start_time_seconds 1.6e9\nnode_load1 0.5\nnode_load5 0.4\n"


def write_past(store: Path, lines: Sequence[str]) -> None:
    """Put samples, as OpenMetrics lines with times in seconds, into the folder a server will be started on."""
    assert PROMTOOL
    given = store.parent / f"{store.name}.om"
    given.write_text("\n".join([*lines, "# EOF", ""]), encoding="utf-8")
    subprocess.run([PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", given, store], check=True, capture_output=True)


@contextlib.contextmanager
def prometheus(folder: Path, targets: dict[str, str], *flags: str) -> Iterator[str]:
    """A server on `folder`/data that scrapes `targets` (job to URL) four times a second; yields its URL."""
    assert PROMETHEUS
    config = folder / "prometheus.yml"
    jobs = "".join(
        f"  - job_name: {job}\n    static_configs: [{{targets: ['{url.partition('//')[2]}']}}]\n" for job, url in targets.items()
    )
    config.write_text(f"global: {{scrape_interval: 250ms, scrape_timeout: 250ms}}\nscrape_configs:{' []' if not jobs else ''}\n{jobs}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = (folder / "server.log").open("wb")
    command = [
        PROMETHEUS,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    ]
    with told, subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_ready(url, process, folder / "server.log")
            yield url
        finally:
            process.terminate()
            process.wait(20)


def _wait_ready(url: str, process: subprocess.Popen[bytes], told: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/-/ready", timeout=5) as response:
            if response.status == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"prometheus did not start:\n{told.read_text(encoding='utf-8')[-2000:]}")


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=kvpm-test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key
