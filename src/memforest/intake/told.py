"""What is said of an error: the core's message where it names only what the caller gave, else a sentence of ours."""

from __future__ import annotations

from memforest import errors

NOT_RECEIVED = "NotReceived"
"""In the place of an error's class: the server ended before it had received the session."""

_SENTENCES: dict[str, str] = {
    NOT_RECEIVED: "The server ended before it had received this session; send it again.",
    "InputError": "The session is malformed; nothing of it was stored.",
    "TimestampError": "A time of the session is missing, unreadable or out of range; nothing of it was stored.",
    "IdempotencyError": "The idempotency key came with another session before.",
    "SessionConflictError": "The session is stored with other turns; replace=true overwrites them.",
    "NotFoundError": "There is no such user.",
    "StoreLockedError": "Another process is writing to the memory; try again later.",
    "StoreWriteError": "The disk is full or cannot be written.",
    "ConfigError": "The server's configuration does not fit this memory.",
}
_STORE = "The memory cannot be used at the moment; the server's log says why."
_MODEL = "A model that the server needs cannot be used at the moment; the server's log says why."
_OTHER = "The server failed; its log says why."
_KIN: tuple[tuple[type[errors.MemForestError], str], ...] = (
    (errors.StoreError, _STORE),
    (errors.ModelError, _MODEL),
)
_SPEAKS = (errors.InputError, errors.NotFoundError)
"""Errors whose messages name only what came with the request."""


def sentence(name: str) -> str:
    """Return what an error's class says, without anything of the request.

    Args:
        name: of the class, or `NOT_RECEIVED`.

    Example:
        >>> sentence("StoreWriteError"), sentence("no such class") == sentence("MemForestError")
        ('The disk is full or cannot be written.', True)
    """
    if name in _SENTENCES:
        return _SENTENCES[name]
    kind = getattr(errors, name, None) if name in errors.__all__ else None
    for base, text in _KIN:
        if isinstance(kind, type) and issubclass(kind, base):
            return text
    return _OTHER


def told(error: errors.MemForestError) -> str:
    """Return what the caller is told of an error right away; the messages of the others may name files and endpoints."""
    return str(error) if isinstance(error, _SPEAKS) else sentence(type(error).__name__)
