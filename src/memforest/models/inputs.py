"""What every embedder demands of the texts it is handed."""

from __future__ import annotations

from collections.abc import Sequence

from memforest.errors import InputError

__all__ = ["checked_texts"]


def checked_texts(texts: Sequence[str]) -> Sequence[str]:
    """Return the texts as they are, after checking that they are a sequence of strings.

    Raises:
        InputError: if `texts` is one string, whose characters would pass for texts, or holds anything else.
    """
    if isinstance(texts, str):
        raise InputError("embed() takes a sequence of texts, not one string; pass [text]")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {index} is not a string but {type(text).__name__}")
    return texts
