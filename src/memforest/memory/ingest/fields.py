"""Under which names a caller's turn has its text, time, id and speaker; all other names are metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memforest.importers.langchain import converted, role_of
from memforest.importers.protocol import UNSAID, with_speaker
from memforest.limits import CAPTION, ID, SPEAKER, TEXT, TIME_KEYS
from memforest.text import cut

KNOWN = frozenset((*TEXT, *TIME_KEYS, *ID, *SPEAKER, *CAPTION, "role"))
_ATTRIBUTES = ("type", *sorted(KNOWN), "refusal", "tool_calls", "additional_kwargs", "metadata")
"""What is looked for in an object that cannot say what it holds."""
_UNSAID = (
    "function_call",
    "additional_kwargs",
    "response_metadata",
    "usage_metadata",
    "invalid_tool_calls",
    "example",
    *UNSAID,
)
"""What the classes of clients have beside what was said."""


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


def messages_of(given: Any) -> Any:
    """Return a list of messages as mappings; what is no list as it is, for the reader to refuse.

    A message may be a mapping, also in the forms of LangChain that files have, or an object: one with ``model_dump``, as
    pydantic makes them and the clients of OpenAI and LangChain take and give, or one that has a ``role``, ``speaker`` or
    ``type`` beside its ``content``. Anything else stays as it is, for the reader to refuse by its place.
    """
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
        return given
    return [_message(one) for one in given]


def _message(item: Any) -> Any:
    """Return a message as a mapping under the names above."""
    if isinstance(item, Mapping):
        spoken = not {"role", *SPEAKER}.isdisjoint(item) or "content" not in item
        return (
            with_speaker(converted(item)) if spoken or role_of(item.get("type")) is None else _as_said(item)
        )
    if isinstance(item, (type, bytes, int, float, type(None))):
        return item
    dump = getattr(item, "model_dump", None)
    held = dump() if callable(dump) else {name: getattr(item, name, None) for name in _ATTRIBUTES}
    is_one = held.get("role") or held.get("speaker") or role_of(held.get("type"))
    return _as_said(held) if is_one else item


def _as_said(held: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message without those that say nothing, with the role that its type stands for."""
    said = {key: one for key, one in held.items() if key not in _UNSAID and one not in (None, [], {})}
    if role := held.get("role") or role_of(held.get("type")):
        said["role"] = role
    if "content" not in said and held.get("refusal"):
        said["content"] = held["refusal"]
    more = held.get("additional_kwargs")
    if isinstance(more, Mapping) and more.get("timestamp"):
        said.setdefault("timestamp", more["timestamp"])
    return said


def tools_called(item: Mapping[str, Any]) -> str:
    """Return which tools a message without text calls, for showing, as far as it names them."""
    calls = item.get("tool_calls")
    found = (
        [one.get("function", one) for one in calls if isinstance(one, Mapping)]
        if isinstance(calls, list)
        else []
    )
    names = [str(one.get("name")) for one in found if isinstance(one, Mapping)]
    return f", but calls {cut(ascii(', '.join(names)), 60)}" if names else ""


def is_deeper(value: object, levels: int) -> bool:
    """Return whether lists and mappings stand within each other more than so many levels deep."""
    if not isinstance(value, (list, tuple, dict)):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels < 1 or any(is_deeper(part, levels - 1) for part in parts)
