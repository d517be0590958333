"""Reading the data of a prompt back, for doubles of models and their tests."""

from __future__ import annotations

import json
import re
from typing import Any

from memforest.errors import InputError


def read_data_block(text: str, name: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of the first block of that name in a message; none if there is no such block.

    Raises:
        InputError: if the block holds something that `data_block` does not write.
    """
    found = re.search(rf"^<{re.escape(name)}>\n(.*?)^</{re.escape(name)}>$", text, re.DOTALL | re.MULTILINE)
    if found is None:
        return ()
    try:
        return tuple(json.loads(line) for line in found[1].split("\n") if line)
    except ValueError as exc:
        raise InputError(f"the block {name!r} holds a line that is no JSON: {exc}") from exc
