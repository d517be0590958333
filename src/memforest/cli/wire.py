"""What `--json` prints: plain values, and text that is safe on a terminal."""

from __future__ import annotations

import json
import re
from typing import Any

from memforest.memory.plain import plain

__all__ = ["to_json"]

_UNSAFE = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What JSON leaves as it is although a terminal acts on it: DEL, C1 controls, directional overrides."""


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
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
