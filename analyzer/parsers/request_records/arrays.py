"""What the two `bench serve` tools have in common: a run is one object, its requests are parallel arrays."""

from __future__ import annotations

from typing import Any

from analyzer.parsers.request_records.jsonlines import Document
from analyzer.parsers.request_records.outcome import outcome
from analyzer.parsers.request_records.rows import Row
from analyzer.parsers.request_records.texts import text_columns
from analyzer.parsers.request_records.values import Values


def array(run: Document, key: str) -> list[Any]:
    """The array of that name; empty without one."""
    value = run.get(key)
    return value if isinstance(value, list) else []


def requests_in(run: Document) -> int:
    """How many requests a run has details of."""
    return max(len(array(run, key)) for key in ("input_lens", "output_lens", "ttfts", "itls", "errors"))


def at(values: list[Any], index: int) -> Any:
    """One element, None beyond the end."""
    return values[index] if index < len(values) else None


def request_of(values: Values, run: Document, index: int, *, keep_text: bool) -> Row:
    """Request `index` of a run: lengths, TTFT and gaps between tokens, which both tools give in seconds."""
    gaps = values.list_of_seconds(at(array(run, "itls"), index))
    status, error = outcome(None, at(array(run, "errors"), index), None, True)
    row: Row = {
        "prompt_tokens": values.count(at(array(run, "input_lens"), index)),
        "output_tokens": values.count(at(array(run, "output_lens"), index)),
        "ttft_s": values.seconds(at(array(run, "ttfts"), index)),
        "cached_tokens": values.count(at(array(run, "cached_tokens"), index)),
        "status": status,
        "error": error,
    }
    if not row["ttft_s"] and (error is not None or not gaps):
        # both tools leave 0 where no token came
        row["ttft_s"] = None
    if gaps:
        row["decode_s"] = round(sum(gaps), 9)
        row["itl_max_s"] = max(gaps)
    if row["ttft_s"] is not None and error is None:
        row["e2e_s"] = round(row["ttft_s"] + sum(gaps), 9)
    return row | text_columns(at(array(run, "prompts"), index), at(array(run, "generated_texts"), index), keep_text)


def engine_of(*backends: object) -> str:
    """The engine that one of the backend names is for; an OpenAI backend tells none."""
    names = [str(backend).lower() for backend in backends]
    return next((engine for engine in ("sglang", "vllm") if any(n.startswith(engine) for n in names)), "client")
