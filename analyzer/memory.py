"""How the process takes memory while it reads."""

from __future__ import annotations

import ctypes
import sys

# glibc's numbers of what mallopt can set
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGE = 128 << 20


def keep_heap() -> None:
    """Let arrays of a block of text come from the heap, and stay there for the next block.

    By default the C library asks the system for each array of that size and gives it back, and a fifth of the time of
    reading goes into pages that are zeroed again and again. Arrow takes from the same heap, so that what one has freed the
    other can use. Changes nothing where the C library is another one.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_TRIM_THRESHOLD, _LARGE)
