"""Numbers as evidence shows them."""

from __future__ import annotations

import math


def rounded(value: float | None) -> float | None:
    """To four digits; None for what is unknown or infinite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def whole(value: float | None) -> int | None:
    """To the next whole number."""
    return None if value is None else round(value)


def finite(value: float | None) -> float | None:
    """None for what is unknown or infinite."""
    return value if value is not None and math.isfinite(value) else None
