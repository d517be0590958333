"""Cutting evidence to a token budget and rendering it for a prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

__all__ = ["count_tokens", "fit", "render"]

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
    plain = sum(ch.isascii() for ch in text)
    return math.ceil(plain / CHARS_PER_TOKEN) + (len(text) - plain)


def render(number: int, said: datetime, speaker: str, text: str, quote: str) -> str:
    """Return one numbered line of evidence: the day it was said, the statement, and who said it how."""
    day = f"{said.day} {said:%b %Y}"
    line = f"[{number}] {day}: {_one_line(text)}"
    if _one_line(quote) in line:
        return line
    return f'{line} ({speaker} said: "{_one_line(quote)}")'


def _one_line(text: str) -> str:
    return " ".join(text.split())


def fit(lines: Sequence[str], max_tokens: int) -> list[str]:
    """Return the longest prefix of lines whose estimated tokens stay within the budget."""
    kept, used = [], 0
    for line in lines:
        used += count_tokens(line) + 1
        if used > max_tokens:
            break
        kept.append(line)
    return kept
