"""How many tokens a text has, estimated: the model that will read it is not known here."""

from __future__ import annotations

import math

CHARS_PER_TOKEN = 4
"""Latin text has about four characters a token in common vocabularies (OpenAI's rule of thumb:
https://help.openai.com/en/articles/4936856)."""


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text without knowing the model: four ASCII characters or one other.

    An over-estimate for accented text, so that a budget is kept rather than broken.

    Example:
        >>> count_tokens("twelve chars"), count_tokens("東京")
        (3, 2)
    """
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return math.ceil(plain / CHARS_PER_TOKEN) + (len(text) - plain)
