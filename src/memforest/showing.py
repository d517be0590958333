"""Values that came from outside, made fit for a message, a terminal or a file."""

from __future__ import annotations

import re

from memforest.text import cut

__all__ = ["printable", "shown"]

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return `text` without control characters other than tab and line breaks, and without lone surrogates.

    A terminal obeys the former, and no file or database takes the latter, or NUL.

    Example:
        >>> printable("Ann\x00 lives\x1b[2J in\ud800 Porto.\n")
        'Ann lives[2J in Porto.\n'
    """
    return _UNPRINTABLE.sub("", text)


def shown(value: object, n: int = 60) -> str:
    """Return any value for a message, in at most about `n` characters; by its type, when Python cannot write it.

    Example:
        >>> shown("Ann"), shown(10**5000)
        ("'Ann'", 'a value of type int')
    """
    try:
        return cut(repr(value), n)
    except (RecursionError, ValueError):  # nested too deep, or too many digits
        return f"a value of type {type(value).__name__}"
