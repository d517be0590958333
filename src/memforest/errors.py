"""Every error memforest raises on purpose.

    MemForestError
    ├── ConfigError (ValueError)          a setting is wrong
    │   └── MissingPackageError               a framework of an adapter is not installed, or too old or new
    ├── InputError (ValueError)           what the caller handed in is wrong; nothing was stored
    │   ├── TimestampError                a time is missing, unreadable or out of range
    │   └── IdempotencyError              an idempotency key came again with another request
    ├── NotFoundError (LookupError)       no such user, session, fact or entity
    ├── AccessError                       a server does not let the caller do this
    │   ├── UnauthenticatedError          no key or token, or one that is unknown, expired or revoked
    │   ├── ForbiddenError                the key or token does not allow it
    │   ├── RateLimitError                too many requests, or too many ingests at once; has `retry_after_s`
    │   └── IssuerUnavailableError        the issuer of tokens cannot be reached, so none can be checked
    ├── SomeUsersFailedError              an operation over all users failed for some, and is done for the others
    ├── SessionConflictError              a session id came again with other turns
    ├── CorrectionError                   a statement or correction is not in the state that the call supposes
    ├── StoreError                        the database file
    │   ├── StoreLockedError              another process is writing
    │   ├── StoreClosedError              used after close()
    │   ├── SchemaVersionError             written by another version of memforest
    │   ├── ForeignStoreError             not a memforest database, or another user's
    │   ├── StoreKeyError                 an encrypted memory, or a plain one, and not the key for it
    │   ├── StoreReplacedError            the file was deleted or replaced while it was open
    │   ├── CorruptStoreError             the file is damaged
    │   ├── StoreWriteError               read-only or full disk, or another I/O failure
    │   └── IndexStateError               the trees of an index cannot be made
    └── ModelError                        a local or remote model
        ├── WeightsError                  weights are missing or fail their checksum
        ├── EmbedderMismatchError         the store was made with another embedder
        ├── ModelUnavailableError         rate limit, time-out, server error or lost connection, after retries
        ├── ModelRefusedError             key, permission or model is wrong: no other call can succeed
        ├── ModelRequestError             the endpoint does not accept this request (too long, for one)
        ├── BudgetError                   the calls or tokens allowed to an operation are used up
        └── StepError                     one step (extract, summarise, …) failed on one input
            └── ReplyError                a model's reply is unusable, after one repair

Messages say what was wrong and what to do about it. Values are shown with ``!r`` and cut, because
they come from transcripts.

"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


__all__ = [
    "AccessError",
    "BudgetError",
    "ConfigError",
    "CorrectionError",
    "CorruptStoreError",
    "EmbedderMismatchError",
    "ForbiddenError",
    "ForeignStoreError",
    "IdempotencyError",
    "IndexStateError",
    "InputError",
    "IssuerUnavailableError",
    "MemForestError",
    "MissingPackageError",
    "ModelError",
    "ModelRefusedError",
    "ModelRequestError",
    "ModelUnavailableError",
    "NotFoundError",
    "RateLimitError",
    "ReplyError",
    "SchemaVersionError",
    "SessionConflictError",
    "SomeUsersFailedError",
    "StepError",
    "StoreClosedError",
    "StoreError",
    "StoreKeyError",
    "StoreLockedError",
    "StoreReplacedError",
    "StoreWriteError",
    "TimestampError",
    "UnauthenticatedError",
    "WeightsError",
]


MOST_NAMED = 10
"""Most reasons that one message lists."""


class MemForestError(Exception):
    """The root of every error that memforest raises on purpose."""


class ConfigError(MemForestError, ValueError):
    """A setting is wrong."""


class MissingPackageError(ConfigError, ModuleNotFoundError):
    """The framework of an adapter is not installed, or not in a version that the adapter works with.

    Args:
        message: which, and the line that installs it.
        name: of the package.
    """

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class InputError(MemForestError, ValueError):
    """What the caller handed in is wrong; nothing of it was stored."""


class TimestampError(InputError):
    """A time is missing, unreadable or out of range."""


class IdempotencyError(InputError):
    """An idempotency key came again with another request; nothing of that was stored."""


class NotFoundError(MemForestError, LookupError):
    """There is no such user, session, fact or entity."""


class AccessError(MemForestError):
    """A server does not let the caller do this."""


class UnauthenticatedError(AccessError):
    """There is no key or token with the request, or one that is unknown, expired or revoked."""


class ForbiddenError(AccessError):
    """The key or token of the request does not allow this."""


class RateLimitError(AccessError):
    """Too many requests, or too many ingests at once.

    Args:
        message: which limit.
        retry_after_s: when to try again, in seconds from now.
    """

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class IssuerUnavailableError(AccessError):
    """The issuer of tokens cannot be reached, or says nothing usable: no token can be checked, and none is taken."""


class SomeUsersFailedError(MemForestError):
    """An operation over all users failed for some of them; for the others it is done.

    Args:
        operation: its name, for the message.
        errors: user id -> why it failed.
        files: name of a memory's file whose user could not be read -> why.
        results: what the operation returns of the others.
    """

    def __init__(
        self,
        operation: str,
        errors: Mapping[str, MemForestError],
        files: Mapping[str, StoreError],
        results: Sequence[Any],
    ) -> None:
        reasons = [f"user {user[:60]!r}: {error}" for user, error in errors.items()]
        reasons += [f"file {name!r}: {error}" for name, error in files.items()]
        more = (
            f"; and {len(reasons) - MOST_NAMED} more, see .errors and .files" if reasons[MOST_NAMED:] else ""
        )
        named = "; ".join(reasons[:MOST_NAMED]) + more
        super().__init__(f"{operation} is done for all users but {len(reasons)}: {named}")
        self.operation = operation
        self.errors = dict(errors)
        self.files = dict(files)
        self.results = list(results)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.operation, self.errors, self.files, self.results)


class SessionConflictError(MemForestError):
    """A session id came again with turns that differ from the stored ones."""


class CorrectionError(MemForestError):
    """A statement was corrected, forgotten or pinned already, or a correction undone; the message says what can be done."""


class StoreError(MemForestError):
    """The database file could not be used."""


class StoreLockedError(StoreError):
    """Another process is writing to this memory and did not finish in time."""


class StoreClosedError(StoreError):
    """The memory was used after it was closed."""


class SchemaVersionError(StoreError):
    """The database was written by another version of memforest."""


class ForeignStoreError(StoreError):
    """The file is not a memforest database, or belongs to another user id."""


class StoreKeyError(StoreError):
    """The key or the salt of a memory is missing or wrong, or a key is given for a memory without encryption."""


class StoreReplacedError(StoreError):
    """The file was deleted or replaced while it was open; the next call opens what is there now."""


class CorruptStoreError(StoreError):
    """The file is damaged: SQLite says so, or its rows contradict each other."""


class StoreWriteError(StoreError):
    """The disk is full or read-only, or the system failed a write or a read."""


class IndexStateError(StoreError):
    """The trees of an index cannot be made; the message names it. The memory's other indexes are not concerned."""


class ModelError(MemForestError):
    """A local or remote model could not be used.

    Args:
        message: what happened, and what to do.
        status: the HTTP status, if there was a reply.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class WeightsError(ModelError):
    """Model weights are missing or do not have the pinned checksum."""


class EmbedderMismatchError(ModelError):
    """The store was made with another embedder than the one configured."""


class ModelUnavailableError(ModelError):
    """A model could not be reached: rate limit, time-out, server error or lost connection, after all retries.

    Args:
        message: what happened.
        status: the HTTP status, if there was a reply.
        retries: how often the call was tried again.
    """

    def __init__(self, message: str, *, status: int | None = None, retries: int = 0) -> None:
        super().__init__(message, status=status)
        self.retries = retries


class ModelRefusedError(ModelError):
    """The endpoint refuses key, permission, address or model (401, 403, 404): no other call can succeed."""


class ModelRequestError(ModelError):
    """The endpoint does not accept this one request: it is too long, or asks for what is not offered."""


class BudgetError(ModelError):
    """The calls or tokens that an operation may spend are used up; what was made stays."""


class StepError(ModelError):
    """One step (extract, summarise, plan, answer) failed on one input."""


class ReplyError(StepError):
    """A model's reply is unusable, and so was the one that it was asked to repair.

    Args:
        message: what is wrong with the reply.
        reply: the last reply, cut.
    """

    def __init__(self, message: str, *, reply: str = "") -> None:
        super().__init__(message)
        self.reply = reply
