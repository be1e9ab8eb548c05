"""The files of an oracle case: the log, the scrapes and the clients' records, all from one extract."""

from __future__ import annotations

import gzip
import json
import random
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "diagnosis"))

from oracle_render import Options, render_rows, text
from oracle_scrapes import scrapes

from sample_traces.generator.exposition import packed

DATA = Path(__file__).parent / "data"
LOG, METRICS, CLIENTS = "server.log", "metrics.prom.gz", "client.jsonl.gz"
PORT = {"sglang": 30000, "vllm": 8000}
RANK_SHIFT_S = 2.37
Doc = dict[str, Any]


@cache
def load(key: str) -> Doc:
    """One extract, for example `sglang_l1-short_s1`."""
    doc: Doc = json.loads(gzip.decompress((DATA / f"oracle_{key}.json.gz").read_bytes()))
    return doc


@dataclass(frozen=True, slots=True)
class Capture:
    """How a case was recorded. `ranks` data-parallel ranks ran the same load, each a little later; `every` is the scrape interval in s."""

    version: str
    every: float = 5.0
    ranks: int = 1
    ms: bool = False

    def key(self) -> tuple[int, ...]:
        """The version as numbers."""
        return tuple(int(p) for p in self.version.split("."))

    def has_metrics(self, engine: str) -> bool:
        """The endpoint is rendered for the versions whose names are known."""
        return self.key() >= ((0, 5, 12) if engine == "sglang" else (0, 11))


def began(doc: Doc) -> datetime:
    """The run's time 0: another day and minute for each case."""
    rng = random.Random(f"{doc['engine']}-{doc['design']}-{doc['seed']}")
    return datetime(2026, 4, 1, 0, 5) + timedelta(seconds=rng.randrange(150 * 86_400))


def files(key: str, capture: Capture) -> dict[str, bytes]:
    """Relative path -> content."""
    doc = load(key)
    start = began(doc)
    shifts = [RANK_SHIFT_S * rank for rank in range(capture.ranks)]
    made = {LOG: _log(doc, capture, start, shifts).encode()}
    epoch = start.replace(tzinfo=UTC).timestamp()
    if capture.has_metrics(doc["engine"]):
        made[METRICS] = scrapes(doc, capture.key(), epoch, capture.every, shifts)
    made[CLIENTS] = _clients(doc, epoch, shifts)
    return made


def _log(doc: Doc, capture: Capture, start: datetime, shifts: list[float]) -> str:
    streams = []
    for rank, shift in enumerate(shifts):
        options = Options(
            capture.version,
            ms=capture.ms,
            dp=rank if capture.ranks > 1 else None,
            ranks=capture.ranks,
            port=PORT[doc["engine"]],
            at=start + timedelta(seconds=shift),
        )
        streams.append([(t + shift, line) for t, line in render_rows(doc, doc["engine"], options)])
    return text(*streams)


def _clients(doc: Doc, epoch: float, shifts: list[float]) -> bytes:
    """One line per request; the longest gap between tokens is not kept, so `max_itl` is null."""
    url = f"http://127.0.0.1:{PORT[doc['engine']]}"
    names = doc["request_columns"]
    sent = []
    for shift in shifts:
        for row in doc["requests"]:
            r = dict(zip(names, row, strict=True))
            sent.append({
                "send": round(epoch + shift + r["arrival"], 4), "ttft": r["ttft"], "e2e": r["e2e"], "prompt_tokens": r["prompt"],
                "requested_output_tokens": r["max_new"], "output_tokens": r["output"], "max_itl": None, "error": None, "server": url,
            })  # fmt: skip
    sent.sort(key=lambda r: r["send"])
    return packed("".join(json.dumps({"id": n, **r}) + "\n" for n, r in enumerate(sent)))
