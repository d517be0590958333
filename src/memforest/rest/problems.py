"""Errors as ``application/problem+json`` (RFC 9457): one type for each class of `memforest.errors`.

Source: https://www.rfc-editor.org/rfc/rfc9457
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from memforest import errors

__all__ = ["MEDIA_TYPE", "install", "problem", "status_of"]

MEDIA_TYPE = "application/problem+json"

_STATUS: tuple[tuple[type[errors.MemForestError], int], ...] = (
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


def status_of(error: errors.MemForestError) -> int:
    """Return the HTTP status of an error."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def problem(status: int, name: str, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a problem.

    Args:
        status: of HTTP.
        name: of the error's class.
        detail: for people: what was wrong and what to do.
        headers: further ones.
    """
    body = {"type": f"urn:memforest:error:{name}", "title": name, "status": status, "detail": detail}
    return JSONResponse(body, status, headers, MEDIA_TYPE)


async def _answer(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.MemForestError)
    return problem(status_of(error), type(error).__name__, str(error))


def install(app: FastAPI) -> None:
    """Let an app answer the errors of memforest as problems."""
    app.add_exception_handler(errors.MemForestError, _answer)
