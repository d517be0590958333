"""What `--json` prints: plain values, and text that is safe on a terminal."""

from __future__ import annotations

import json
from typing import Any

from memforest.display import UNSAFE, json_escape
from memforest.memory.plain import plain


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
