"""Cutting evidence to a token budget and rendering it for a prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from memforest.display import escaped, escaped_lines, one_line
from memforest.tokens import count_tokens
from memforest.types import Spoken

_PLAIN_NAME = re.compile(r'[^"\\():\[\]]+')


def render(
    number: int,
    said: datetime,
    speaker: str,
    text: str,
    quote: str,
    stated: str = "",
    note: str = "",
    *,
    names_quoted: bool = False,
) -> str:
    r"""Return one numbered line of evidence that a model or a person worded: the day it was said, the statement, and who said it how.

    `note` tells what became of it since.

    Nothing in a statement, name or quotation can end the line or its part of it: quotation marks in them have a
    backslash in front, and a name that holds a bracket, colon or quotation mark stands in quotation marks, as every name
    does with `names_quoted`.

    >>> print(render(1, datetime(2023, 5, 8), "Bob (work)", "Bob has a cat.", 'I said "cat".'))
    [1] 8 May 2023: Bob has a cat. ("Bob (work)" said: "I said \"cat\".")
    """
    statement, told = escaped(text), escaped_lines(quote)
    own = "" if escaped(quote) in statement else f'{_name(speaker, names_quoted)} said: "{told}"'
    return f"[{number}] {day_of(said)}: {statement}{_notes(_beside(stated, statement), note, own)}"


def render_quote(
    number: int,
    said: datetime,
    spoken: Sequence[Spoken],
    *,
    stated: str = "",
    statement: str = "",
    note: str = "",
    names_quoted: bool = False,
) -> str:
    r"""Return one numbered line of evidence that is what was said: the day, who said it, and the words.

    Args:
        number: of the line.
        said: when it was said, in the zone whose days are shown.
        spoken: a quotation, or a question and its bare answer; as in `render`, nothing in it can end its part of the line.
        stated: the time that it states, in words; left out where the quotation has it.
        statement: what it is found by, if that is to be shown.
        note: what else is to be known of it.
        names_quoted: put every name in quotation marks, as a name may read like an instruction.

    >>> print(render_quote(1, datetime(2023, 5, 8), [Spoken("Bob", 'I said "cat" yesterday.')], stated="7 May 2023"))
    [1] 8 May 2023, Bob: "I said \"cat\" yesterday." (7 May 2023)
    """
    words = " – ".join(f'{_name(one.speaker, names_quoted)}: "{escaped_lines(one.text)}"' for one in spoken)
    found_by = f'statement: "{escaped(statement)}"' if statement else ""
    return f"[{number}] {day_of(said)}, {words}{_notes(_beside(stated, words), note, found_by)}"


def quotation(spoken: Sequence[Spoken]) -> str:
    """Return what was said in quotation marks; a question and its answer with their speakers.

    >>> print(quotation([Spoken("Ana", "Is it the 12th?"), Spoken("Bob", "Yes.")]), quotation([Spoken("Bob", "Hi.")]))
    Ana: "Is it the 12th?" – Bob: "Yes." "Hi."
    """
    if len(spoken) == 1:
        return f'"{spoken[0].text}"'
    return " – ".join(f'{one.speaker}: "{one.text}"' for one in spoken)


def _name(speaker: str, always_quoted: bool = False) -> str:
    name = one_line(speaker)
    plain = _PLAIN_NAME.fullmatch(name) and not always_quoted
    return name if plain else f'"{escaped(speaker)}"'


def _beside(stated: str, text: str) -> str:
    return "" if stated in text else stated


def _notes(*notes: str) -> str:
    told = "; ".join(note for note in notes if note)
    return f" ({told})" if told else ""


def render_summary(
    number: int, start: datetime, end: datetime | None, about: Sequence[str], turns: int, text: str
) -> str:
    """Return one numbered line of a summary: its days, what it is a summary of, and the text, which nobody said.

    Args:
        number: of the line.
        start: where the interval of the summary begins.
        end: where it ends, exclusive; None for an interval that goes on.
        about: its level, calendar window and the like.
        turns: how many turns it sums up.
        text: the summary; as in `render`, nothing in it can end the line.

    Example:
        >>> day = datetime(2024, 3, 4)
        >>> print(render_summary(2, day, day + timedelta(days=7), ["level 4", "2024-W10"], 12, "Ana moved."))
        [2] 4 Mar 2024 to 10 Mar 2024, level 4, 2024-W10, summary of 12 turns: Ana moved.
    """
    first, last = day_of(start), "" if end is None else day_of(max(start, end - timedelta(microseconds=1)))
    days = f"since {first}" if end is None else first if last == first else f"{first} to {last}"
    count = "1 turn" if turns == 1 else f"{turns} turns"
    names = [_name(one) for one in about]
    return f"[{number}] {', '.join([days, *names, f'summary of {count}'])}: {escaped(text)}"


def day_of(when: datetime) -> str:
    """Return a day as it is written in evidence."""
    return f"{when.day} {when:%b %Y}"


def fit(lines: Sequence[str], max_tokens: int, first: Sequence[int] = ()) -> list[int]:
    """Return the places of the longest prefix of lines whose estimated tokens stay within the budget.

    The lines in `first`, in order, get their tokens before all others, as far as they fit.
    """
    kept: set[int] = set()
    used = 0
    for group in (first, [at for at in range(len(lines)) if at not in first]):
        for at in group:
            tokens = count_tokens(lines[at]) + 1
            if used + tokens > max_tokens:
                break
            used += tokens
            kept.add(at)
    return sorted(kept)
