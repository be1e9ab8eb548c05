"""What servers said that their KV pools hold, from a stored trace."""

from __future__ import annotations

from pathlib import Path

from analyzer import open_trace
from analyzer.errors import NothingUsableError

_POOLS = """
SELECT l.instance, l.capacity_tokens, l.capacity_source
FROM _limits AS l
WHERE l.capacity_tokens > 0
QUALIFY row_number() OVER (PARTITION BY l.instance ORDER BY l.run_id DESC) = 1
ORDER BY l.instance
"""


def reported_pools(trace: Path) -> list[tuple[str, int, str]]:
    """(instance, tokens, line it was read from) of each server's last run that told. NothingUsableError where none did."""
    with open_trace(trace) as opened:
        rows = opened.con.execute(_POOLS).fetchall()
    if not rows:
        raise NothingUsableError(
            f"{trace} tells no pool's size", hint="it is in the engine's start-up lines and in vllm:cache_config_info; else --pool-tokens N"
        )
    return [(str(instance or ""), int(tokens), str(source or "")) for instance, tokens, source in rows]
