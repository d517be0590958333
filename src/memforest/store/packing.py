"""Values as BLOBs, the same on every machine: node ids, vectors, and texts that can be made again."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NUMBER = np.dtype("<f2")
"""Of vectors: half precision (IEEE 754 binary16), which keeps 11 bits of each number and moves a cosine by some 1e-5."""

LEVEL = 6
"""Of compression: a summary of a few sentences takes half its bytes. 0 stores texts as they are."""


def pack_ids(ids: Sequence[int]) -> bytes:
    """Return ids below 2**32 as bytes, four each, little-endian.

    Example:
        >>> unpack_ids(pack_ids([1, 258]))
        (1, 258)
    """
    return struct.pack(f"<{len(ids)}I", *ids)


def unpack_ids(blob: bytes) -> tuple[int, ...]:
    """Return the ids in a BLOB.

    Raises:
        ValueError: if its length is no multiple of four.
    """
    if len(blob) % 4:
        raise ValueError(f"{len(blob)} bytes are no list of node ids")
    return struct.unpack(f"<{len(blob) // 4}I", blob)


def as_stored(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors rounded to what is stored of them, so that it is the same before they are written and after.

    Example:
        >>> as_stored(np.array([0.1, 0.5], dtype=np.float32)).tolist()
        [0.0999755859375, 0.5]
    """
    return rows.astype(NUMBER).astype(np.float32)


def pack_vector(vector: NDArray[np.float32]) -> bytes:
    """Return a vector as bytes, a `NUMBER` each."""
    return vector.astype(NUMBER).tobytes()


def unpack_vectors(*blobs: bytes) -> NDArray[np.float32]:
    """Return the vectors of BLOBs of one length, shape (number of BLOBs, d).

    Raises:
        ValueError: if they are not of one length.
    """
    return np.frombuffer(b"".join(blobs), dtype=NUMBER).reshape(len(blobs), -1).astype(np.float32)


def pack_text(text: str) -> bytes:
    """Return a text compressed.

    Source: RFC 1951, without the header and checksum of RFC 1950.
    """
    packer = zlib.compressobj(LEVEL, wbits=-15)
    return packer.compress(text.encode()) + packer.flush()


def unpack_text(blob: bytes) -> str:
    """Return a text that was compressed.

    Example:
        >>> unpack_text(pack_text("Ann lives in Porto."))
        'Ann lives in Porto.'

    Raises:
        ValueError: if the bytes are no compressed text.
    """
    try:
        return zlib.decompress(blob, wbits=-15).decode()
    except zlib.error as exc:
        raise ValueError(f"{len(blob)} bytes are no compressed text: {exc}") from None
