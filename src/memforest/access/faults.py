"""Errors that nobody expected, as a log may tell of them: by their kind and place, never by their text."""

from __future__ import annotations

__all__ = ["place_of"]


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
