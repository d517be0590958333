"""Which file a path leads to, by which one that was deleted or replaced while it was open is told."""

from __future__ import annotations

from pathlib import Path

__all__ = ["Identity", "identity_of"]

Identity = tuple[int, int]
"""Device and number of a file; one that has another file's path is another file."""

UNKNOWN: Identity = (0, 0)
"""Of a file on a system that numbers none."""


def identity_of(path: Path) -> Identity | None:
    """Return the identity of the file at a path, None when there is none.

    Raises:
        OSError: if the path cannot be looked at.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino) if found.st_ino else UNKNOWN
