"""The table of oracle_truth.md, from the extracts: `python tests/incidents/oracle_table.py` prints it."""

from __future__ import annotations

from oracle import CASES
from oracle_files import load
from oracle_label import cause_of, shares

HEAD = "| case | cause | P99 TTFT, quiet s | P99 TTFT, s | pool | cap | compute | reservation | head fits | thrown out | longest queue, s |"


def table() -> str:
    """One row per case, as Markdown."""
    lines = [HEAD, "|---" * HEAD.count(" |") + "|"]
    for key in CASES:
        doc = load(key)
        p99, facts, removed = doc["p99_ttft_s"], doc["facts"], shares(doc)
        knobs = [f"{removed[k]:.2f}" if k in removed else "" for k in ("pool", "cap", "compute", "reservation")]
        fits = "" if facts["head_fitted"] is None else f"{facts['head_fitted']:.2f}"
        cells = [key, cause_of(doc), f"{p99['quiet']:.2f}", f"{p99['base']:.2f}", *knobs, fits]
        cells += [str(facts["retracted_while_waiting"]), f"{facts['longest_queue_s']:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
