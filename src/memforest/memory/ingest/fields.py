"""Under which names a caller's turn has its text, time, id and speaker; all other names are metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memforest.limits import CAPTION, ID, SPEAKER, TEXT, TIME_KEYS
from memforest.text import cut

__all__ = [
    "CAPTION",
    "ID",
    "SPEAKER",
    "TEXT",
    "TIME_KEYS",
    "Withheld",
    "field_of",
    "is_deeper",
    "is_metadata",
    "time_key",
    "tools_called",
]

KNOWN = frozenset((*TEXT, *TIME_KEYS, *ID, *SPEAKER, *CAPTION, "role"))


@dataclass(frozen=True, slots=True, repr=False)
class Withheld:
    """A turn that redaction failed on: it is refused, and nothing of it is read but its id."""

    given: Mapping[str, Any]
    reason: str

    def __str__(self) -> str:
        return self.reason


def time_key(turn: Mapping[str, Any]) -> str | None:
    """Return under which name a turn has its time."""
    return next((key for key in TIME_KEYS if turn.get(key) is not None), None)


def is_metadata(key: object, turn: Mapping[str, Any]) -> bool:
    """Return whether what a turn has under a key is kept beside it; so is a time that is not the one that is read."""
    return turn[key] is not None and key != time_key(turn) if key in TIME_KEYS else key not in KNOWN


def field_of(key: object, turn: Mapping[str, Any]) -> Literal["text", "speaker", "metadata"] | None:
    """Return what the value under a key of a turn is: text, its speaker, metadata, or none of these: its time, an id, a role."""
    if key in TEXT or key in CAPTION:
        return "text"
    if key in SPEAKER:
        return "speaker"
    return "metadata" if is_metadata(key, turn) else None


def tools_called(item: Mapping[str, Any]) -> str:
    """Return which tools a message without text calls, for showing, as far as it names them."""
    calls = item.get("tool_calls")
    functions = (
        [one.get("function") for one in calls if isinstance(one, Mapping)] if isinstance(calls, list) else []
    )
    names = [str(one.get("name")) for one in functions if isinstance(one, Mapping)]
    return f", but calls {cut(ascii(', '.join(names)), 60)}" if names else ""


def is_deeper(value: object, levels: int) -> bool:
    """Return whether lists and mappings stand within each other more than so many levels deep."""
    if not isinstance(value, (list, tuple, dict)):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels < 1 or any(is_deeper(part, levels - 1) for part in parts)
