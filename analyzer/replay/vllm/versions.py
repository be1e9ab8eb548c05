"""Rules of vLLM's (V1) scheduler that moved between versions, as fields of `Vllm`."""

from __future__ import annotations

from typing import Any

# async scheduling without being asked for
_ASYNC_SINCE = (0, 14)
# a request is admitted only if its whole current sequence fits; 0.11.2 has no such test, 0.19.1 has
_FULL_SEQUENCE_SINCE = (0, 19)


def rules_of(version: tuple[int, ...] | None) -> dict[str, Any]:
    """The fields of `Vllm` whose default depends on the version, as `version_key` gives it; None is taken for a recent one.

    The watermark is not among them: it is off by default wherever V1 has one, and else read from the arguments.
    """
    return {
        "async_scheduling": version is None or version >= _ASYNC_SINCE,
        "reserve_full_isl": version is None or version >= _FULL_SEQUENCE_SINCE,
        "watermark_share": 0.0,
    }
