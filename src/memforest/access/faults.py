"""Errors as servers answer and log them: the status of each class, and the place of one that nobody expected, never its text."""

from __future__ import annotations

from memforest import errors

STATUS: tuple[tuple[type[errors.MemForestError], int], ...] = (
    (errors.UnauthenticatedError, 401),
    (errors.ForbiddenError, 403),
    (errors.RateLimitError, 429),
    (errors.IssuerUnavailableError, 503),
    (errors.NotFoundError, 404),
    (errors.SessionConflictError, 409),
    (errors.CorrectionError, 409),
    (errors.IdempotencyError, 409),
    (errors.InputError, 422),
    (errors.ConfigError, 422),
    (errors.StoreLockedError, 423),
    (errors.StoreError, 503),
    (errors.ModelError, 503),
    (errors.MemForestError, 500),
)
"""Class of an error -> HTTP status, the first that fits."""


def status_of(error: errors.MemForestError) -> int:
    """Return the HTTP status of an error: 500 for one without its own."""
    return next(status for kind, status in STATUS if isinstance(error, kind))


def place_of(error: BaseException) -> str:
    """Return the innermost line of ours that an error came through, as module and number.

    Example:
        >>> place_of(ValueError("never raised"))
        '?'
    """
    found, trace = "?", error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", "?"))
        if found == "?" or module.startswith("memforest"):
            found = f"{module}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
