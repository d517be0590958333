"""What the C library keeps of memory that was freed: in a process that opens and closes memories all day, little."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping

# Source: https://man7.org/linux/man-pages/man3/mallopt.3.html
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
KEEPS_BYTES = 1 << 20
"""As much may be free at the end of the heap before it is given back."""
OWN_BYTES = 256 << 10
"""A block as large as this is mapped by itself, and given back when it is freed."""


def give_back_freed(environ: Mapping[str, str] = os.environ) -> bool:
    """Let glibc give freed memory back to the system; return whether it was told to.

    By itself it keeps up to eight heaps a core, so that threads need not wait for each other, which Python's rarely do; and as
    soon as a large block was freed, it puts the next ones of that size into a heap too, between others that stay. A server
    then holds several times of what it uses (`benchmarks/serving.py --part soak` prints both). With another C library nothing
    is done, nor where the environment says itself how memory is kept.

    Args:
        environ: may have settings of its own, ``MALLOC_*`` or ``GLIBC_TUNABLES``.
    """
    has_own = any(name.startswith("MALLOC_") for name in environ) or "GLIBC_TUNABLES" in environ
    if has_own or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    wanted = ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, OWN_BYTES), (M_TRIM_THRESHOLD, KEEPS_BYTES))
    return all(mallopt(what, value) == 1 for what, value in wanted)
