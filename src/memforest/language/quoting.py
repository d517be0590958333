"""Quoting a turn: finding the sentences that a statement was made from, and the question that a bare answer answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from memforest.language.pieces import (
    is_afterword,
    is_clause,
    is_question,
    is_yes_no_answer,
    opens_with_answer,
)
from memforest.language.sentences import Piece, split_sentences
from memforest.text import lexical_tokens
from memforest.types import Spoken

MARK = "…"
"""Stands where words were left out."""

ANSWER_WORDS = 14
"""Most words of a bare answer's sentence."""
QUESTION_WORDS = 25
READ_CHARS = 600
"""Characters at the end of a turn in which a question is looked for."""

PASSAGE_CHARS = 300
"""Characters of a long turn that are quoted around the words of a question, about."""
PASSAGES = 3
"""Sentences of a long turn that are quoted for words of a question which no other says."""

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


def passage(said: str, wanted: Collection[str], shown: str | None = None) -> str:
    """Return the sentences of a long text that say the words of a question best, `MARK` where others are left out.

    Args:
        said: all of the text.
        wanted: lexical tokens of the question.
        shown: what is quoted of the text already, as by `quoted`. It stays, and is all unless other sentences say half as much that it does not.

    >>> passage("I sail. The hut is at Elm Bay. Ida cooks. We dive.", {"ida"}, "I sail.")
    'I sail. … Ida cooks. We dive.'
    """
    spans = [] if shown is None else _find(said, [one.strip() for one in shown.split(MARK) if one.strip()])
    if shown and not spans:
        return shown
    pieces = split_sentences(said)
    words = [frozenset(wanted).intersection(lexical_tokens(one.text)) for one in pieces]
    times = Counter(token for own in words for token in own)

    def worth(tokens: Collection[str]) -> float:
        return sum(math.log1p(len(pieces) / times[token]) for token in tokens)

    told = {
        token
        for own, one in zip(words, pieces, strict=True)
        for token in own
        if any(start < one.end and one.start < end for start, end in spans)
    }
    least, taken = worth(told) / 2, list[int]()
    while len(taken) < PASSAGES and not told.issuperset(times):
        best = max(range(len(pieces)), key=lambda at: (worth(words[at] - told), -at))
        if worth(words[best] - told) < least:
            break
        taken.append(best)
        told |= words[best]
    if not taken:
        return _marked(said, spans) if spans else said
    spans += [(pieces[at].start, _reach(pieces, at, taken)) for at in taken]
    return _marked(said, _merged(said, spans))


def _reach(pieces: Sequence[Piece], at: int, taken: Sequence[int]) -> int:
    """Return where the passage ends that begins with a sentence: of the first that was taken, behind those that fit."""
    end = at
    used = sum(len(pieces[one].text) for one in taken)
    while end + 1 < len(pieces):
        used += len(pieces[end + 1].text)
        if not is_afterword(pieces[end + 1].text) and (at != taken[0] or used > PASSAGE_CHARS):
            break
        end += 1
    return pieces[end].end


def _merged(said: str, spans: Sequence[Span]) -> list[Span]:
    """Return passages in order, as one where they meet."""
    found: list[Span] = []
    for start, end in sorted(spans):
        meets = bool(found) and not any(ch.isalnum() for ch in said[found[-1][1] : start])
        found.append((found[-1][0], max(found.pop()[1], end)) if meets else (start, end))
    return found


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
