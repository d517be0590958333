"""Quoting a turn: finding the sentences that a statement was made from, and the question that a bare answer answers."""

from __future__ import annotations

from collections.abc import Sequence

from memforest.language.pieces import is_clause, is_question, is_yes_no_answer, opens_with_answer
from memforest.language.sentences import split_sentences
from memforest.types import Spoken

__all__ = ["MARK", "in_full", "is_bare", "kept_quote", "open_question", "quoted"]

MARK = "…"
"""Stands where words were left out."""

ANSWER_WORDS = 14
"""Most words of a bare answer's sentence."""
QUESTION_WORDS = 25
READ_CHARS = 600
"""Characters at the end of a turn in which a question is looked for."""

_UNSPACED = "\u2e80"
"""Scripts from here on are written without spaces, two characters or so a word."""
_ENDS = frozenset(".!?…。！？।؟\n")
_GOES_ON = frozenset(",;:)-–—")

Span = tuple[int, int]


def kept_quote(said: str, pieces: Sequence[str]) -> str:
    r"""Return the pieces of a turn as they are stored: what stands together as it stands there, the rest on lines.

    >>> kept_quote("I moved. How are you? I like it.  A lot!", ["I moved.", "I like it.", "A lot!"])
    'I moved.\nI like it.  A lot!'
    """
    spans = _find(said, pieces)
    return "\n".join(said[start:end] for start, end in spans) if spans else " ".join(pieces)


def quoted(said: str, quote: str | None) -> str:
    r"""Return the words of a turn that a stored quote is of, with `MARK` where others are left out.

    A quote that cannot be found, or is None, is the whole turn: what is returned was said, whatever the quote is.

    >>> quoted("I moved. How are you? I like it.", "I moved.\nI like it.")
    'I moved. … I like it.'
    """
    if quote is None:
        return said
    lines = [line for line in quote.split("\n") if line.strip()]
    spans = _find(said, [quote]) or _find(said, lines)
    if not spans:  # of an older file, where sentences are joined by spaces
        spans = _find(said, [piece.text for line in lines for piece in split_sentences(line)])
    return _marked(said, spans) if spans else said


def in_full(spoken: Sequence[Spoken], speaker: str, said: str, limit: int) -> tuple[Spoken, ...]:
    """Return what was said with all of one speaker's turn in the place of its sentences, if that has `limit` characters at most.

    For a prompt: what the other sentences tell of the same thing is worth more than their tokens.
    """
    if len(said) > limit:
        return tuple(spoken)
    return tuple(Spoken(speaker, said) if one.speaker == speaker else one for one in spoken)


def is_bare(text: str) -> bool:
    """Return whether a text opens with an answer that needs its question to be understood; by the look of its first sentence.

    >>> is_bare("In Porto, I think. It rains."), is_bare("Yes I do."), is_bare("I have lived there for years.")
    (True, True, False)
    """
    first = next((piece.text for piece in split_sentences(text)), "")
    if max(len(first.split()), sum(ch > _UNSPACED for ch in first) // 2) > ANSWER_WORDS:
        return False
    return not is_clause(first) or is_yes_no_answer(first) or opens_with_answer(first)


def open_question(before: str) -> str | None:
    """Return the question that a turn ends with, or with one sentence behind it; None if there is none.

    >>> open_question("Nice! Is it the 12th? I forgot."), open_question("It is the 12th.")
    ('Is it the 12th?', None)
    """
    last = split_sentences(before[-READ_CHARS:])[-2:]
    for piece in reversed(last):
        if is_question(piece.text):
            words = piece.text.split(" ")
            cut = f"{MARK} {' '.join(words[-QUESTION_WORDS:])}"
            return piece.text if len(words) <= QUESTION_WORDS else cut
    return None


def _find(said: str, pieces: Sequence[str]) -> list[Span]:
    """Return where the pieces stand in a turn, in order, neighbours together; nothing unless all of them do."""
    spans: list[Span] = []
    for piece in pieces:
        behind = spans[-1][1] if spans else 0
        at = _place(said, piece, behind)
        if at < 0:
            return []
        joins = bool(spans) and not any(ch.isalnum() for ch in said[behind:at])
        spans.append((spans.pop()[0] if joins else at, at + len(piece)))
    return spans


def _place(said: str, piece: str, start: int) -> int:
    """Return where a piece begins in a turn, not within a word, or -1."""
    at = said.find(piece, start) if piece else -1
    while at > 0 and piece[0].isalnum() and said[at - 1].isalnum() and said[at - 1] < _UNSPACED:
        at = said.find(piece, at + 1)
    return at


def _marked(said: str, spans: Sequence[Span]) -> str:
    """Return passages of a turn with `MARK` between them, and where the first or last is only a part of a sentence."""
    (first, _), (_, last) = spans[0], spans[-1]
    before, behind = said[:first].rstrip(" \t"), said[last:].lstrip(" \t")
    begun = before[-1:].isalnum() or before[-1:] in (",", ";")
    goes_on = said[last - 1] not in _ENDS and (behind[:1].isalnum() or behind[:1] in _GOES_ON)
    text = f" {MARK} ".join(said[start:end] for start, end in spans)
    return f"{f'{MARK} ' if begun else ''}{text}{f' {MARK}' if behind and goes_on else ''}"
