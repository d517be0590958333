"""Cutting evidence to a token budget and rendering it for a prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from memforest.display import escaped, one_line
from memforest.tokens import count_tokens

__all__ = ["fit", "render"]


_PLAIN_NAME = re.compile(r'[^"\\():\[\]]+')


def render(number: int, said: datetime, speaker: str, text: str, quote: str) -> str:
    r"""Return one numbered line of evidence: the day it was said, the statement, and who said it how.

    Nothing in a statement, name or quotation can end the line or its part of it: quotation marks in them have a
    backslash in front, and a name that holds a bracket, colon or quotation mark stands in quotation marks.

    >>> print(render(1, datetime(2023, 5, 8), "Bob (work)", "Bob has a cat.", 'I said "cat".'))
    [1] 8 May 2023: Bob has a cat. ("Bob (work)" said: "I said \"cat\".")
    """
    statement, told, name = escaped(text), escaped(quote), one_line(speaker)
    line = f"[{number}] {said.day} {said:%b %Y}: {statement}"
    if told in statement:
        return line
    who = name if _PLAIN_NAME.fullmatch(name) else f'"{escaped(speaker)}"'
    return f'{line} ({who} said: "{told}")'


def fit(lines: Sequence[str], max_tokens: int) -> list[str]:
    """Return the longest prefix of lines whose estimated tokens stay within the budget."""
    kept, used = [], 0
    for line in lines:
        used += count_tokens(line) + 1
        if used > max_tokens:
            break
        kept.append(line)
    return kept
