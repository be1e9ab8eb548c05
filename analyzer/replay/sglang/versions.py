"""What of SGLang's admission and retraction was otherwise in older versions."""

from __future__ import annotations

from typing import Any

# Sampled between 0.4.1 and 0.4.6: the default policy moved somewhere between.
_FCFS_SINCE = (0, 4, 2)
# 0.5.1 has the old rule, 0.5.3 the new one.
_NEXT_STEP_RULE_SINCE = (0, 5, 3)


def rules_of(version: tuple[int, ...] | None) -> dict[str, Any]:
    """Fields of `Sglang` that `version` has otherwise than by default; (0, 5, 3) is 0.5.3, and None counts as a recent one."""
    rules: dict[str, Any] = {}
    if not version:
        return rules
    if version < _NEXT_STEP_RULE_SINCE:
        rules |= {"retract_until_steps_fit": True, "ratio_plus_one": False}
    if version < _FCFS_SINCE:
        rules["policy"] = "lpm"
    return rules
