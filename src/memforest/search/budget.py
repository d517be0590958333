"""Cutting evidence to a token budget and rendering it for a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memforest.tokens import count_tokens

__all__ = ["fit", "render"]


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
