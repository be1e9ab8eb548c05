"""What the tests of this folder share beside their fixtures."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.comparison.side import Side

# The fixture `side_of`: a sample trace's name in, a side out.
Sides = Callable[..., Side]
