"""What `--json` prints: plain values, and text that is safe on a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from memforest.display import UNSAFE, json_escape

__all__ = ["plain", "to_json"]


def plain(value: Any) -> Any:
    """Return dataclasses as dicts, times as ISO 8601, paths as text, tuples and sets as lists.

    Example:
        >>> plain({"when": (datetime(2025, 9, 7),)})
        {'when': ['2025-09-07T00:00:00']}
    """
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(one) for one in value)
    return str(value) if isinstance(value, Path) else value


def to_json(value: Any, *, ascii_only: bool = False, line: bool = False) -> str:
    r"""Return a value as JSON, indented or in one line, without a character that a terminal would act on.

    Args:
        value: anything that `plain` understands.
        ascii_only: escape everything else too, for streams that cannot carry Unicode.
        line: keep it in one line.

    Example:
        >>> to_json("a\x9bb", ascii_only=False)
        '"a\\u009bb"'
    """
    text = json.dumps(plain(value), ensure_ascii=ascii_only, indent=None if line else 2)
    # Indented JSON has line breaks of its own; those in its texts are escaped already.
    return UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else json_escape(found[0]), text)
