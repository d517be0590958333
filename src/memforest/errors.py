"""Every error memforest raises on purpose.

    MemForestError
    ├── ConfigError (ValueError)          a setting is wrong
    ├── InputError (ValueError)           what the caller handed in is wrong; nothing was stored
    │   └── TimestampError                a time is missing, unreadable or out of range
    ├── NotFoundError (LookupError)       no such user, session, fact or entity
    ├── SessionConflictError              a session id came again with other turns
    ├── StoreError                        the database file
    │   ├── StoreLockedError              another process is writing
    │   ├── StoreClosedError              used after close()
    │   ├── SchemaTooNewError             written by a newer memforest
    │   ├── ForeignStoreError             not a memforest database, or another user's
    │   ├── CorruptStoreError             SQLite says the file is damaged
    │   └── StoreWriteError               read-only or full disk, or another I/O failure
    └── ModelError                        a local or remote model
        ├── WeightsError                  weights are missing or fail their checksum
        ├── EmbedderMismatchError         the store was made with another embedder
        └── StepError                     one step (extract, summarise, …) failed on one input

Messages say what was wrong and what to do about it. Values are shown with ``!r`` and cut, because
they come from transcripts.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "CorruptStoreError",
    "EmbedderMismatchError",
    "ForeignStoreError",
    "InputError",
    "MemForestError",
    "ModelError",
    "NotFoundError",
    "SchemaTooNewError",
    "SessionConflictError",
    "StepError",
    "StoreClosedError",
    "StoreError",
    "StoreLockedError",
    "StoreWriteError",
    "TimestampError",
    "WeightsError",
]


class MemForestError(Exception):
    """The root of every error that memforest raises on purpose."""


class ConfigError(MemForestError, ValueError):
    """A setting is wrong."""


class InputError(MemForestError, ValueError):
    """What the caller handed in is wrong; nothing of it was stored."""


class TimestampError(InputError):
    """A time is missing, unreadable or out of range."""


class NotFoundError(MemForestError, LookupError):
    """There is no such user, session, fact or entity."""


class SessionConflictError(MemForestError):
    """A session id came again with turns that differ from the stored ones."""


class StoreError(MemForestError):
    """The database file could not be used."""


class StoreLockedError(StoreError):
    """Another process is writing to this memory and did not finish in time."""


class StoreClosedError(StoreError):
    """The memory was used after it was closed."""


class SchemaTooNewError(StoreError):
    """The database was written by a newer memforest."""


class ForeignStoreError(StoreError):
    """The file is not a memforest database, or belongs to another user id."""


class CorruptStoreError(StoreError):
    """SQLite reports that the file is damaged."""


class StoreWriteError(StoreError):
    """The disk is full or read-only, or the system failed a write."""


class ModelError(MemForestError):
    """A local or remote model could not be used."""


class WeightsError(ModelError):
    """Model weights are missing or do not have the pinned checksum."""


class EmbedderMismatchError(ModelError):
    """The store was made with another embedder than the one configured."""


class StepError(ModelError):
    """One step (extract, summarise, plan, answer) failed on one input."""
