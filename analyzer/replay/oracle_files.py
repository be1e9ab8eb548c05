"""The workload files that the engines' own schedulers are driven with, and the rows they write, to be held against each other line by line.

A workload file is one JSON object: `config` (the engine's settings by the engine's names), `cost` (a, b, c: a step takes
a + b x tokens + c x requests seconds) and `requests` (id, arrival, prompt_len, output_len, and where it is so prefix_id, prefix_len,
max_new_tokens, ignore_eos, priority).
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analyzer.errors import KvpmError
from analyzer.language import _
from analyzer.replay.result import Replayed, Served
from analyzer.replay.settings import Engine, Settings, Sglang, Vllm
from analyzer.replay.sglang.loop import longest_output
from analyzer.replay.step_time import StepTime
from analyzer.replay.workload import Request, Tokens, Workload
from analyzer.report.fmt import clean

_TOKEN, _EOS = 7, 2
_LOWEST, _BEYOND = 3, 1000
_SGLANG = {
    "max_total_num_tokens", "page_size", "chunked_prefill_size", "max_prefill_tokens", "max_running_requests", "schedule_conservativeness",
    "schedule_policy", "disable_radix_cache", "context_length", "overlap",
}  # fmt: skip
_VLLM = {
    "num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "watermark", "enable_prefix_caching",
    "reserve_full_isl", "async", "long_prefill_token_threshold", "policy", "chunked_prefill",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OracleWorkload:
    """A workload file as read. `prefix_ids` are the requests' own, by request id."""

    engine: Engine
    workload: Workload
    settings: Settings
    step_time: StepTime
    prefix_ids: Mapping[str, Any]


class OracleContents:
    """The tokens the oracles make up: prompts drawn by prefix and by request id, outputs all the same, SGLang's with an end of sequence."""

    def __init__(self, *, eos: bool, prefixes: Mapping[str, int]) -> None:
        self._eos = eos
        self._longest = prefixes
        self._prefixes: dict[str, Tokens] = {}

    def prompt(self, request: Request) -> Tokens:
        """See `Contents.prompt`."""
        shared = sum(tokens for _key, tokens in request.prefix)
        own = _drawn(f"r{request.id}", request.prompt_tokens - shared)
        return np.concatenate([*(self._prefix(key)[:tokens] for key, tokens in request.prefix), own])

    def output(self, request: Request) -> Tokens:
        """See `Contents.output`."""
        tokens = np.full(request.output_tokens, _TOKEN, dtype=np.int64)
        if self._eos and not request.ignore_eos:
            tokens[-1:] = _EOS
        return tokens

    def _prefix(self, key: str) -> Tokens:
        # a shorter prefix of the same id is the beginning of a longer one
        if key not in self._prefixes:
            self._prefixes[key] = _drawn(key, self._longest[key])
        return self._prefixes[key]


def _drawn(seed: str, tokens: int) -> Tokens:
    draw = random.Random(seed).randrange
    return np.array([draw(_LOWEST, _BEYOND) for _place in range(tokens)], dtype=np.int64)


def load(path: Path, engine: Engine | None = None) -> OracleWorkload:
    """The workload file at `path`; without `engine`, of the engine whose settings it has. Raises KvpmError for what is no such file."""
    return parse(_json(path), engine, str(path))


def parse(document: Any, engine: Engine | None = None, name: str = "workload") -> OracleWorkload:
    """A workload file's object, checked; `name` is what messages call it."""
    if not isinstance(document, dict) or not all(key in document for key in ("config", "cost", "requests")):
        raise KvpmError(f"{name} is no workload file", hint="it is one JSON object with config, cost and requests")
    config, cost, rows = document["config"], document["cost"], document["requests"]
    settings = settings_of(config, engine, name)
    if not isinstance(cost, dict):
        raise KvpmError(f"{name}: cost is no object", hint='for example {"a": 0.007, "b": 0.00002, "c": 0.0002}, in seconds')
    a, b, c = (_number(cost, key, f"{name}: cost") for key in ("a", "b", "c"))
    if not a + b > 0:
        raise KvpmError(f"{name}: cost makes steps that take no time", hint="a or b has to be above 0")
    if not isinstance(rows, list) or not rows:
        raise KvpmError(
            f"{name}: requests is no list of requests", hint='for example [{"id": 0, "arrival": 0.3, "prompt_len": 100, "output_len": 50}]'
        )
    requests = [_request(row, settings, f"{name}: request {at}") for at, row in enumerate(rows)]
    twice = _first_twice([r.id for r in requests])
    if twice is not None:
        raise KvpmError(f"{name}: two requests have the id {twice}", hint="ids have to differ")
    longest: dict[str, int] = {}
    for key, tokens in (piece for r in requests for piece in r.prefix):
        longest[key] = max(longest.get(key, 0), tokens)
    known = _SGLANG if isinstance(settings, Sglang) else _VLLM
    unknown = sorted(str(key) for key in config if key not in known)
    return OracleWorkload(
        engine="sglang" if isinstance(settings, Sglang) else "vllm",
        workload=Workload(
            requests=tuple(sorted(requests, key=lambda r: r.arrival_s)),
            contents=OracleContents(eos=isinstance(settings, Sglang), prefixes=longest),
            notes=(_("Not used of the config: {keys}.", keys=clean(", ".join(unknown), 200)),) if unknown else (),
        ),
        settings=settings,
        step_time=StepTime(base_s=a, token_s=b, request_s=c),
        prefix_ids={str(row["id"]): row.get("prefix_id") for row in rows},
    )


def settings_of(config: Any, engine: Engine | None, name: str) -> Settings:
    """A config by the engine's own names as settings. Raises KvpmError where a value is missing or cannot be."""
    if not isinstance(config, dict):
        raise KvpmError(f"{name}: config is no object", hint="it holds the engine's settings by the engine's names")
    found: Engine | None = "sglang" if "max_total_num_tokens" in config else "vllm" if "num_blocks" in config else None
    if found is None:
        raise KvpmError(f"{name}: config has no pool size", hint="SGLang's is max_total_num_tokens, vLLM's is num_blocks")
    if engine is not None and engine != found:
        raise KvpmError(f"{name}: config is one of {found}, not of {engine}", hint=f"--engine {found}")
    where = f"{name}: config"
    return _sglang(config, where) if found == "sglang" else _vllm(config, where)


def _sglang(config: dict[str, Any], where: str) -> Sglang:
    policy = config.get("schedule_policy", "fcfs")
    if policy not in ("fcfs", "lpm"):
        raise KvpmError(f"{where}: schedule_policy {policy!r} is not modelled", hint="fcfs and lpm are")
    chunk = _whole(config, "chunked_prefill_size", where, low=-1, default=-1)
    return Sglang(
        l1_tokens=_whole(config, "max_total_num_tokens", where),
        max_running=_whole(config, "max_running_requests", where),
        page_tokens=_whole(config, "page_size", where),
        chunked_prefill_tokens=chunk if chunk > 0 else None,
        max_prefill_tokens=_whole(config, "max_prefill_tokens", where),
        conservativeness=_number(config, "schedule_conservativeness", where, default=1.0),
        policy=policy,
        prefix_caching=not config.get("disable_radix_cache"),
        context_tokens=_whole(config, "context_length", where, default=8192),
        overlap=bool(config.get("overlap")),
    )


def _vllm(config: dict[str, Any], where: str) -> Vllm:
    policy = config.get("policy", "fcfs")
    if policy not in ("fcfs", "priority"):
        raise KvpmError(f"{where}: policy {policy!r} is not modelled", hint="fcfs and priority are")
    return Vllm(
        num_blocks=_whole(config, "num_blocks", where, low=2),
        max_running=_whole(config, "max_num_seqs", where),
        block_tokens=_whole(config, "block_size", where),
        step_tokens=_whole(config, "max_num_batched_tokens", where),
        max_model_tokens=_whole(config, "max_model_len", where, default=8192),
        prefix_caching=bool(config.get("enable_prefix_caching", True)),
        chunked_prefill=bool(config.get("chunked_prefill", True)),
        watermark_share=_number(config, "watermark", where, default=0.0),
        reserve_full_isl=bool(config.get("reserve_full_isl", True)),
        async_scheduling=bool(config.get("async")),
        policy=policy,
        long_prefill_threshold=_whole(config, "long_prefill_token_threshold", where, low=0, default=0),
    )


def _request(row: Any, settings: Settings, where: str) -> Request:
    if not isinstance(row, dict) or "id" not in row:
        raise KvpmError(
            f"{where} is no object with an id", hint='for example {"id": 0, "arrival": 0.3, "prompt_len": 100, "output_len": 50}'
        )
    prompt, output = (_whole(row, key, where) for key in ("prompt_len", "output_len"))
    shared = _whole(row, "prefix_len", where, low=0, default=0) if row.get("prefix_id") is not None else 0
    if shared > prompt:
        raise KvpmError(f"{where}: prefix_len {shared} is more than prompt_len {prompt}", hint="a prefix is a part of the prompt")
    asks = _whole(row, "max_new_tokens", where, default=output)
    # SGLang's oracle ends an output with an end of sequence unless told to ignore it, vLLM's only where more was asked for
    stops = not row.get("ignore_eos") if isinstance(settings, Sglang) else asks > output
    return Request(
        id=str(row["id"]),
        arrival_s=_number(row, "arrival", where),
        prompt_tokens=prompt,
        output_tokens=output,
        max_new_tokens=asks if stops else output,
        prefix=((f"p{row['prefix_id']}", shared),) if shared else (),
        ignore_eos=not stops,
        priority=_whole(row, "priority", where, low=-(2**31), default=0),
    )


def request_rows(read: OracleWorkload, replayed: Replayed) -> list[dict[str, Any]]:
    """One row per request that arrived, in the columns of the engine's oracle."""
    requests = {r.id: r for r in read.workload.requests}
    row = _sglang_row if isinstance(read.settings, Sglang) else _vllm_row
    return [row(requests[served.id], served, read) for served in replayed.requests]


def _vllm_row(request: Request, served: Served, read: OracleWorkload) -> dict[str, Any]:
    return {
        "id": request.id,
        "arrival": request.arrival_s,
        "added": served.added_s,
        "prompt_len": request.prompt_tokens,
        "output_len": request.output_tokens,
        "prefix_id": read.prefix_ids[request.id],
        "first_scheduled": served.first_scheduled_s,
        "first_token": served.first_token_s,
        "finish": served.finish_s,
        "preemptions": served.retractions,
    }


def _sglang_row(request: Request, served: Served, read: OracleWorkload) -> dict[str, Any]:
    assert isinstance(read.settings, Sglang)
    return {
        "id": request.id,
        "arrival": request.arrival_s,
        "added": served.added_s,
        "prompt_len": request.prompt_tokens,
        "output_len": request.output_tokens,
        "max_new_tokens": request.max_new_tokens,
        "max_new_tokens_clipped": longest_output(request.prompt_tokens, request.max_new_tokens, read.settings),
        "prefix_id": read.prefix_ids[request.id],
        "first_scheduled": served.first_scheduled_s,
        "first_token": served.first_token_s,
        "finish": served.finish_s,
        "retractions": served.retractions,
        "cached_tokens": served.cached_tokens,
        "aborted": served.aborted,
        "out_tokens": served.output_tokens,
    }


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise KvpmError(f"cannot read {path}: {error.strerror}", hint="name a workload file") from error
    except (ValueError, RecursionError) as error:
        raise KvpmError(f"{path} is no JSON: {str(error)[:120]}", hint="a workload file is one JSON object") from error


def _whole(row: Mapping[str, Any], key: str, where: str, *, low: int = 1, default: int | None = None) -> int:
    value = row.get(key, default)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise KvpmError(f"{where}: {key} is {_shown(value)}", hint=f"a whole number from {low} on")
    return value


def _number(row: Mapping[str, Any], key: str, where: str, *, default: float | None = None) -> float:
    value = row.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise KvpmError(f"{where}: {key} is {_shown(value)}", hint="a number from 0 on")
    return value


def _shown(value: Any) -> str:
    return "missing" if value is None else repr(value)[:60]


def _first_twice(ids: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            return name
        seen.add(name)
    return None
