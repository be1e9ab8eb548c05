"""Captures that cannot tell: what an engine left of a run is not enough for any cause, and nothing is an all-clear."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass

from generated_files import CLIENTS, LOG, METRICS, STARTUP_S, base, capture
from generated_load import CAP_BOUND, L1_BOUND, NONE
from generated_model import Design, run

from sample_traces.generator.render import Log, SGLangServer, client

Maker = Callable[[Design, int, int], dict[str, bytes]]


def only_start_up(design: Design, seed: int, number: int) -> dict[str, bytes]:
    """The server came up, and the log ends."""
    log = Log(base(number))
    design.server.startup(log, 0.0, STARTUP_S + seed % 7)
    lines = log.text().splitlines(keepends=True)
    return {LOG: "".join(s for s in lines if "batch, #" not in s).encode()}


def only_access_lines(design: Design, seed: int, number: int) -> dict[str, bytes]:
    """What the HTTP server wrote while requests queued."""
    log = Log(base(number))
    for model in run(design, seed):
        for seq in model.seqs:
            if seq.finish is not None:
                design.server.access(log, seq.finish, "POST /v1/completions", client(seq.req.rid))
    return {LOG: log.text().encode()}


def only_help_and_type(design: Design, seed: int, number: int) -> dict[str, bytes]:
    """An endpoint that describes its metrics and has no sample of them."""
    names = [f"vllm:{n}" for n in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")]
    lines = []
    for k in range(5 + seed % 5):
        lines.append(f"# scrape_ts {base(number).timestamp() + 5 * k:.3f}\n")
        lines += [f"# HELP {name} A gauge of the scheduler.\n# TYPE {name} gauge\n" for name in names]
    return {METRICS: gzip.compress("".join(lines).encode(), mtime=0)}


def stats_switched_off(design: Design, seed: int, number: int) -> dict[str, bytes]:
    """Requests queued, and a log with everything but the scheduler's reports."""
    files = capture(design.server, run(design, seed), base(number), seed=seed)
    lines = files[LOG].decode().splitlines(keepends=True)
    return {LOG: "".join(s for s in lines if "Avg prompt throughput" not in s).encode(), CLIENTS: files[CLIENTS]}


def three_reports(design: Design, seed: int, number: int) -> dict[str, bytes]:
    """Three lines that somebody picked, half an hour and more apart."""
    assert isinstance(design.server, SGLangServer)
    log, server = Log(base(number)), design.server
    for k, (running, queue, usage) in enumerate(((5, 0, 0.21), (17 + seed % 5, 23, 0.64), (3, 2, 0.08))):
        text = f"#token: {int(usage * server.capacity)}, token usage: {usage:.2f}, cuda graph: True, "
        rate = f"gen throughput (token/s): {310.0 + 41 * k:.2f}"
        server.line(log, 1900.0 * k, f"Decode batch, #running-req: {running}, {text}{rate}, #queue-req: {queue}")
    return {LOG: log.text().encode()}


def clients_alone(design: Design, seed: int, number: int) -> dict[str, bytes]:
    """Clients saw slow first tokens, and nothing was kept of the server."""
    return {CLIENTS: capture(design.server, run(design, seed), base(number), seed=seed)[CLIENTS]}


@dataclass(frozen=True)
class Bare:
    """What is kept of which run, and why it cannot tell."""

    name: str
    make: Maker
    design: Design
    seeds: tuple[int, int]
    because: str
    files: tuple[str, ...] = (LOG,)


_READY = "the log ends when the server is ready, without a report of the scheduler"
_SEEN = "requests queued and clients saw it"
CASES = (
    Bare("only-start-up-sglang", only_start_up, NONE[0], (501, 502), _READY),
    Bare("only-start-up-vllm", only_start_up, NONE[2], (503, 504), _READY),
    Bare("only-access-lines", only_access_lines, L1_BOUND[5], (505, 506), "requests queued, and the log holds nothing but access lines"),
    Bare("only-help-and-type", only_help_and_type, NONE[2], (507, 508), "the scrapes hold HELP and TYPE lines and no sample", (METRICS,)),
    Bare("stats-off", stats_switched_off, CAP_BOUND[2], (509, 510), f"{_SEEN}, but no stats line was printed", (LOG, CLIENTS)),
    Bare("three-unrelated-reports", three_reports, NONE[0], (511, 512), "three reports half an hour apart, 23 requests waiting in one"),
    Bare("clients-alone", clients_alone, CAP_BOUND[0], (513, 514), f"{_SEEN}, but nothing was kept of the server", (CLIENTS,)),
)
