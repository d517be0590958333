"""Redaction: what `Config.redact_patterns` and `Config.redact_turn` make of a session before anything reads it.

It is done once, in a worker thread and outside of any transaction, on what the caller gave: text, the name of the speaker,
every text in the metadata of a turn and of the session. All that follows (ids of requests, digests, words, chunks, prompts,
traces) sees what came out. Ids of sessions and turns, and the names of keys, are not redacted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memforest.concurrency import to_thread
from memforest.config import Config
from memforest.errors import InputError
from memforest.memory.ingest.fields import Withheld, field_of
from memforest.memory.ingest.turns import Arrival
from memforest.redaction import redact_patterns
from memforest.text import cut


class _HookFailedError(Exception):
    """The hook raised, or returned something else than a text; says which, and nothing of what it was given."""


async def redacted(arrival: Arrival, config: Config) -> Arrival:
    """Return what a caller gave after redaction; as it is when nothing is to be redacted, or it has been.

    A turn that the hook fails on is withheld: the reader refuses it, and nothing of it is stored.

    Raises:
        InputError: if the hook fails on the metadata of the session.
    """
    if arrival.redacted is not None or not (config.redact_patterns or config.redact_turn):
        return arrival
    if isinstance(arrival.turns, (str, bytes, Mapping)) or not isinstance(arrival.turns, Sequence):
        return arrival  # which the reader refuses
    return await to_thread(_redact, arrival, config)


def _redact(arrival: Arrival, config: Config) -> Arrival:
    turns: list[Any] = []
    changed = 0
    for item in arrival.turns:
        if not isinstance(item, Mapping):
            turns.append(item)  # which the reader refuses
            continue
        try:
            made = _turn(item, config)
        except _HookFailedError as exc:
            turns.append(Withheld(item, f"was not stored: {exc}"))
        else:
            changed += made != dict(item)
            turns.append(made)
    try:
        about = {"field": "session"}
        metadata = None if arrival.metadata is None else _deep(arrival.metadata, _Redactor(config, about))
    except _HookFailedError as exc:
        raise InputError(
            f"the metadata of session {cut(repr(arrival.session_id), 60)} was not stored: {exc}"
        ) from None
    return replace(arrival, turns=turns, metadata=metadata, redacted=changed)


def _turn(item: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """Return a turn with redacted texts, under the names that its caller gave them."""
    parts = {key: field_of(key, item) for key in item}
    about = {
        "role": item.get("role"),
        "speaker": next((item[key] for key, field in parts.items() if field == "speaker"), None),
        "metadata": {key: item[key] for key, field in parts.items() if field == "metadata"},
    }
    return {
        key: item[key] if field is None else _deep(item[key], _Redactor(config, {"field": field, **about}))
        for key, field in parts.items()
    }


@dataclass(frozen=True, slots=True)
class _Redactor:
    """Redacts single texts; `about` is what the hook is told of where they stand."""

    config: Config
    about: Mapping[str, Any]

    def __call__(self, text: str) -> str:
        found = redact_patterns(text, self.config.redact_patterns)
        hook: Callable[..., Any] | None = self.config.redact_turn
        if hook is None or not found.strip():
            return found
        try:
            made = hook(found, self.about)
        except Exception as exc:  # noqa: BLE001 - whatever somebody's code raises; what it says of it may hold the text
            raise _HookFailedError(
                f"redact_turn raised {type(exc).__name__} on its {self.about['field']}"
            ) from None
        if not isinstance(made, str):
            raise _HookFailedError(
                f"redact_turn returned {type(made).__name__} for its {self.about['field']}, not a text"
            )
        return made


def _deep(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a value with every text in it redacted; names of keys stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _deep(one, redact) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_deep(one, redact) for one in value]
    return value
