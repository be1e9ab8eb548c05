"""What the load generator wrote down: one JSON line per request, as in the recordings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sample_traces.generator.exposition import packed
from sample_traces.generator.sglang_model import Seq as SGLangSeq
from sample_traces.generator.vllm_model import Seq as VLLMSeq
from sample_traces.generator.workload import Request


@dataclass(frozen=True, slots=True)
class Client:
    """Where the requests went; `epoch` is the time 0 of the case."""

    url: str
    epoch: float

    def record(self, seq: SGLangSeq | VLLMSeq, lost_at: float | None = None) -> dict[str, Any]:
        """A request that was answered, or whose connection broke at `lost_at`."""
        row = self._row(seq.req)
        if seq.first_token is not None:
            row["ttft"] = round(seq.first_token - seq.req.arrival, 4)
        if seq.finish is not None:
            return {**row, "e2e": round(seq.finish - seq.req.arrival, 4), "output_tokens": seq.out}
        if lost_at is None:
            return {**row, "output_tokens": None, "pending": True}
        return {**row, "e2e": round(lost_at - seq.req.arrival, 4), "output_tokens": seq.out, "error": "connection lost"}

    def unanswered(self, request: Request, lost_at: float, error: str = "connection lost") -> dict[str, Any]:
        """A request that was taken and never served."""
        return {**self._row(request), "e2e": round(lost_at - request.arrival, 4), "output_tokens": 0, "error": error}

    def refused(self, request: Request) -> dict[str, Any]:
        """A request nobody listened to."""
        return {**self._row(request), "e2e": 0.001, "output_tokens": 0, "error": "connection refused"}

    def _row(self, request: Request) -> dict[str, Any]:
        return {
            "id": request.rid,
            "send": round(self.epoch + request.arrival, 4),
            "ttft": None,
            "e2e": None,
            "prompt_tokens": request.prompt,
            "requested_output_tokens": request.max_new,
            "output_tokens": None,
            "error": None,
            "pending": False,
            "server": self.url,
        }


def as_lines(records: Sequence[dict[str, Any]]) -> bytes:
    """gzipped JSON lines, in the order of the ids."""
    return packed("".join(json.dumps(r) + "\n" for r in sorted(records, key=lambda r: r["id"])))
