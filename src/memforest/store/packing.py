"""Node ids as BLOBs: little-endian signed 64-bit integers, the same on every machine."""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["pack_ids", "unpack_ids"]


def pack_ids(ids: Sequence[int]) -> bytes:
    """Return ids as bytes.

    Example:
        >>> unpack_ids(pack_ids([1, 258]))
        (1, 258)
    """
    return struct.pack(f"<{len(ids)}q", *ids)


def unpack_ids(blob: bytes) -> tuple[int, ...]:
    """Return the ids in a BLOB.

    Raises:
        ValueError: if its length is no multiple of eight.
    """
    if len(blob) % 8:
        raise ValueError(f"{len(blob)} bytes are no list of node ids")
    return struct.unpack(f"<{len(blob) // 8}q", blob)
