"""The made-up incidents of the report's tests, for the tests of its other forms."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
