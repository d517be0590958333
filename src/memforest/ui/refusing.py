"""Errors as pages: which status, and what a person may read of them."""

from __future__ import annotations

from memforest import errors
from memforest.access.faults import status_of

_FIXED: tuple[tuple[type[errors.MemForestError], str], ...] = (
    (errors.StoreLockedError, "Another program is writing to this memory. Try again in a moment."),
    (errors.SchemaVersionError, "Another version of memforest wrote this memory; look at it with that one."),
    (
        errors.StoreKeyError,
        "This memory is encrypted, and not with the key that this server has, if it has one.",
    ),
    (
        errors.CorruptStoreError,
        "This memory is damaged; `memforest verify` says where, `memforest repair` mends.",
    ),
    (
        errors.IndexStateError,
        "An index of this memory could not be brought up to date; `memforest index list` says why.",
    ),
    (errors.StoreError, "This memory cannot be read just now; `memforest doctor` says why."),
    (errors.BudgetError, "What may be spent on models for one question is used up."),
    (errors.ModelError, "A model that this needs cannot be used just now; `memforest doctor` says why."),
    (errors.ConfigError, "The configuration of this server does not allow that."),
)
"""What is said of errors whose own message may hold a path or an address of the server."""


def sentence_of(error: errors.MemForestError) -> str:
    """Return what a person may read of an error: its message, or a sentence of ours where that may name the server's own."""
    said = next((text for kind, text in _FIXED if isinstance(error, kind)), None)
    if said is not None:
        return said
    return str(error) if status_of(error) < 500 else "Something went wrong on the server."
