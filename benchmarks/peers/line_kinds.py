r"""What the peers look for in a log: one expression for each kind of line, all its fields named.

They are as people write them who read logs of more than one version: spaces as `\s+`, what a version may leave out as `(?:...)?`,
what it may add as `.*?`. Python's `re`, RE2 (DuckDB) and Rust's regex (polars) read them alike.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """Words that every line of the kind has, the expression that reads all fields, and one that finds such lines whole."""

    words: str
    pattern: str
    whole: str


_STAMP = (
    r"(?:\(\w+ pid=(?P<pid>\d+)(?:,\s*ip=(?P<ip>[\d.]+))?\)\s+)?"
    r"\[(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\s+DP(?P<dp>\d+))?(?:\s+TP(?P<tp>\d+))?(?:\s+PP(?P<pp>\d+))?\]\s+"
)
KINDS: dict[str, dict[str, Kind]] = {
    "sglang": {
        "prefill": Kind(
            "Prefill batch",
            _STAMP + r"Prefill batch(?: \[\d+\])?,\s+#new-seq:\s*(?P<new_seq>\d+),\s+#new-token:\s*(?P<new_token>\d+),\s+"
            r"#cached-token:\s*(?P<cached_token>\d+),\s+.*?token usage:\s*(?P<usage>[\d.]+),\s+.*?#running-req:\s*(?P<running>\d+),\s+"
            r"#queue-req:\s*(?P<queue>\d+)(?:,\s+#pending-token:\s*(?P<pending>\d+))?.*?"
            r"(?:,\s+cuda graph:\s*(?P<graph>\w+))?.*?(?:,\s+input throughput \(token/s\):\s*(?P<throughput>[\d.]+))?$",
            "Prefill batch.*#queue-req",
        ),
        "decode": Kind(
            "Decode batch",
            _STAMP + r"Decode batch(?: \[\d+\])?,\s+#running-req:\s*(?P<running>\d+),\s+#token:\s*(?P<token>\d+),\s+"
            r"token usage:\s*(?P<usage>[\d.]+),\s+.*?(?:cuda graph:\s*(?P<graph>\w+),\s+)?"
            r"gen throughput \(token/s\):\s*(?P<throughput>[\d.]+),\s+#queue-req:\s*(?P<queue>\d+)",
            "Decode batch.*#queue-req",
        ),
        "retract": Kind(
            "Retract requests",
            _STAMP + r"KV cache pool is full\.\s+Retract requests\.\s+#retracted_reqs:\s*(?P<retracted>\d+),\s+"
            r"(?:#new_tokens_gained:\s*(?P<gained>\d+),\s+)?#new_token_ratio:\s*(?P<ratio_before>[\d.]+)\s*->\s*(?P<ratio_after>[\d.]+)",
            "Retract requests.*#new_token_ratio",
        ),
    },
    "vllm": {
        "stats": Kind(
            "Avg prompt throughput",
            r"(?P<level>[A-Z]+)\s+(?P<ts>\d\d-\d\d \d\d:\d\d:\d\d)\s+\[\S+?:\d+\]\s+(?:Engine (?P<engine>\d+):\s+)?"
            r"Avg prompt throughput:\s*(?P<prompt_rate>[\d.]+) tokens/s,\s+Avg generation throughput:\s*(?P<gen_rate>[\d.]+) tokens/s,\s+"
            r"Running:\s*(?P<running>\d+) reqs,\s+.*?Waiting:\s*(?P<waiting>\d+) reqs,\s+.*?GPU KV cache usage:\s*(?P<usage>[\d.]+)%"
            r"(?:,\s+Prefix cache hit rate:\s*(?P<hit_rate>[\d.]+)%)?",
            "Avg prompt throughput.*GPU KV cache usage",
        ),
    },
}
# Fields that are no numbers.
TEXTS = ("ts", "ip", "graph", "level")
