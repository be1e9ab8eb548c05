"""A day of a fleet of servers as a stored trace: reports of all ranks, samples of all their series, and an incident at noon.

The logs are written as text and ingested; the samples are given to the writer that all readers of metrics feed, by column, since
their text would be ten gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from analyzer.ingestion import ingest
from analyzer.parsers.series import SeriesWriter
from analyzer.trace.assembly import Fresh, Rules, assemble
from analyzer.trace.manifest import StoredSource, read_manifest
from analyzer.trace.spool import Spool

DAY_S = 86_400
# 2026-11-30 00:00:00 UTC.
BEGIN_S = 1_795_996_800
BEGIN = datetime.fromisoformat("2026-11-30T00:00:00+00:00")
# Of the day in seconds: when more is asked of every other server than it can hold.
INCIDENT = (43_200, 45_000)
BOUNDS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 100.0, 200.0, 400.0, np.inf)
HISTOGRAMS = (
    "time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds", "queue_time_seconds",
    "per_stage_req_latency_seconds", "prompt_tokens_histogram", "generation_tokens_histogram", "eviction_duration_seconds",
    "load_back_duration_seconds", "prefetch_pgs", "backup_pgs", "prefetch_bandwidth",
)  # fmt: skip
GAUGES = (
    "num_running_reqs", "num_queue_reqs", "token_usage", "num_used_tokens", "gen_throughput", "cache_hit_rate", "new_token_ratio",
    "max_total_num_tokens", "kv_used_tokens", "kv_available_tokens", "kv_evictable_tokens", "num_retracted_reqs",
)  # fmt: skip
COUNTERS = ("prompt_tokens_total", "generation_tokens_total", "cached_tokens_total", "num_requests_total", "num_retracted_requests_total")
RANKS = 8
CAPACITY = 400_000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """How much there is of a day: servers of RANKS ranks each, and the seconds between two reports and two scrapes."""

    servers: int = 8
    report_s: float = 0.55
    scrape_s: float = 15.0

    @staticmethod
    def share(part: float) -> Scale:
        """That share of a whole day of 64 ranks: as many ranks that report less often."""
        return Scale(8, 0.55 / part, 15.0 / part)


def write_day(trace: Path, scale: Scale, seed: int) -> tuple[int, int]:
    """Store the day as `trace`; returns (scheduler rows, samples)."""
    with TemporaryDirectory(dir=trace.parent, prefix="day-") as name:
        folder = Path(name)
        logs = folder / "logs"
        for server in range(scale.servers):
            (logs / _name(server)).mkdir(parents=True)
            with (logs / _name(server) / "server.log").open("wb") as out:
                for block in _log(server, scale, seed):
                    out.write(block)
        ingest([str(logs)], trace)
        manifest = read_manifest(trace)
        spool = Spool(folder / "spool")
        writer = SeriesWriter("metrics", spool)
        for server in range(scale.servers):
            _scrapes(writer, server, scale, seed)
        read = writer.finish()
        spool.close()
        first, last = BEGIN, datetime.fromtimestamp(BEGIN_S + DAY_S, BEGIN.tzinfo)
        row = dict.fromkeys(manifest.sources[0].row) | {
            "source_id": "metrics", "path": "metrics.export", "format": "prometheus_text", "engines": "sglang", "bytes": 0, "lines": 0,
            "matched_lines": 0, "ignored_lines": 0, "unmatched_lines": 0, "other_lines": 0, "records": writer.stored,
            "first_ts": first, "last_ts": last, "clock": "samples", "cut": False,
        }  # fmt: skip
        number = 1 + max(s.number for s in manifest.sources)
        streams = [s.to_json() for s in read.streams.values()]
        manifest.sources.append(StoredSource("metrics", "metrics.export", "", 0, None, row, streams, False, number=number))
        assemble(trace, manifest, {"metrics": Fresh(spool, None)}, Rules(), folder)
    return manifest.totals["scheduler"], manifest.totals["samples"]


def _name(server: int) -> str:
    return f"10.0.0.{server + 1}:30000"


def _load(server: int, at: Floats, dice: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """(running, waiting, usage) of a rank at these seconds of the day."""
    day = 0.5 + 0.3 * np.sin(2 * np.pi * (at / DAY_S - 0.3))
    usage = np.clip(day + dice.normal(0, 0.02, len(at)), 0.02, 0.97)
    running = np.round(usage * 60)
    waiting = np.zeros(len(at))
    if server % 2 == 0:
        inside = (at >= INCIDENT[0]) & (at < INCIDENT[1])
        usage[inside] = dice.uniform(0.97, 0.995, int(inside.sum()))
        running[inside] = 40
        waiting[inside] = np.round(80 * np.sin(np.pi * (at[inside] - INCIDENT[0]) / (INCIDENT[1] - INCIDENT[0]))) + 1
    return running, waiting, usage


def _log(server: int, scale: Scale, seed: int) -> Iterator[bytes]:
    """The log of one server: an hour at a time, its ranks in turn."""
    dice = np.random.default_rng((seed, server))
    for hour in range(24):
        at = np.arange(hour * 3600, (hour + 1) * 3600, scale.report_s)
        loads = [_load(server, at, dice) for _ in range(RANKS)]
        stamps = np.datetime_as_string((BEGIN_S + at).astype("datetime64[s]"))
        lines = []
        for n, stamp in enumerate(stamps):
            told = f"[{stamp[:10]} {stamp[11:]} DP"
            for rank, (running, waiting, usage) in enumerate(loads):
                lines.append(
                    f"{told}{rank} TP0] Decode batch, #running-req: {running[n]:.0f}, #token: {usage[n] * CAPACITY:.0f}, "
                    f"token usage: {usage[n]:.2f}, cuda graph: True, gen throughput (token/s): {running[n] * 31.5:.2f}, "
                    f"#queue-req: {waiting[n]:.0f}\n"
                )
                if waiting[n] and n % 40 == rank:
                    lines.append(
                        f"{told}{rank} TP0] KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 5120, "
                        "#new_token_ratio: 0.4000 -> 0.6000\n"
                    )
        yield "".join(lines).encode()


def _scrapes(writer: SeriesWriter, server: int, scale: Scale, seed: int) -> None:
    """All series of one server, one after the other."""
    dice = np.random.default_rng((seed, server, 1))
    at = np.arange(0.0, DAY_S, scale.scrape_s)
    ts = ((BEGIN_S + at) * 1e6).astype(np.int64)
    for rank in range(RANKS):
        labels = {"model_name": "demo-8b", "engine_type": "unified", "dp_rank": str(rank), "tp_rank": "0", "instance": _name(server)}
        running, waiting, usage = _load(server, at, dice)
        used = np.round(usage * CAPACITY)
        values = {
            "num_running_reqs": running, "num_queue_reqs": waiting, "token_usage": np.round(usage, 4), "gen_throughput": running * 31.5,
            "num_used_tokens": used, "kv_used_tokens": used, "kv_available_tokens": CAPACITY - used,
            "max_total_num_tokens": np.full(len(at), CAPACITY), "cache_hit_rate": np.full(len(at), 0.4),
        }  # fmt: skip
        for name in GAUGES:
            writer.extend(writer.series(f"sglang:{name}", labels, 0, "gauge"), ts, values.get(name, np.zeros(len(at))))
        for name in COUNTERS:
            writer.extend(writer.series(f"sglang:{name}", labels, 0, "counter"), ts, np.cumsum(np.round(running * 20)))
        for name in HISTOGRAMS:
            # requests that ended since the scrape before, and how many of them took longer than each bound
            ended = dice.poisson(running * scale.scrape_s / 30)
            middle = np.where(waiting > 0, 12.0 + waiting / 4, 0.5)
            shares = [np.ones(len(at)) if np.isinf(bound) else bound / (bound + middle) for bound in BOUNDS]
            counts = np.cumsum(np.round(ended * np.array(shares)), axis=1)
            for bound, count in zip(BOUNDS, counts, strict=True):
                le = "+Inf" if np.isinf(bound) else str(bound)
                writer.extend(writer.series(f"sglang:{name}_bucket", labels | {"le": le}, 0, "histogram"), ts, count)
            writer.extend(writer.series(f"sglang:{name}_count", labels, 0, "histogram"), ts, counts[-1])
            writer.extend(writer.series(f"sglang:{name}_sum", labels, 0, "histogram"), ts, np.cumsum(ended * middle))
