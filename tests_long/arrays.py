"""Snapshots as plain values, so that two of them can be compared part by part."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from memforest.search.snapshot import Lists, Snapshot
from memforest.search.vectors import VectorTable

__all__ = ["assert_equal", "assert_same", "contents", "plain"]


def plain(value: Any) -> Any:
    """Return a part of a snapshot as plain values."""
    if isinstance(value, VectorTable):
        return value.rows.tolist()
    if isinstance(value, Lists):
        return [value[row] for row in range(len(value))]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value


def contents(snapshot: Snapshot) -> dict[str, Any]:
    """Return all that a snapshot holds, by name."""
    found: dict[str, Any] = {}
    for field in fields(snapshot):
        value = getattr(snapshot, field.name)
        if field.name in ("turns", "facts"):
            found |= {f"{field.name}.{one.name}": plain(getattr(value, one.name)) for one in fields(value)}
        else:
            found[field.name] = plain(value)
    for name in ("turn_row", "fact_row", "turns_of_fact"):
        found[name] = plain(getattr(snapshot, name))
    return found


def assert_equal(made: Snapshot, read: Snapshot) -> None:
    """Compare part by part, so that a failure names the part."""
    assert_same(contents(made), contents(read))


def assert_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    """Compare part by part, so that a failure names the part."""
    assert left.keys() == right.keys()
    assert [name for name in right if left[name] != right[name]] == []
