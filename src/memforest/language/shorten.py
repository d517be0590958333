"""Cutting a sentence to a number of words, in any script, without losing its numbers and transitions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from memforest.language.counting import WORD, count_words

__all__ = ["find_transition", "shorten"]

_TRANSITION = re.compile(
    r"\b(?i:from)\b.{1,60}?\b(?i:to)\b \S{1,40}|\b(?i:desde)\b.{1,60}?\b(?i:a|hasta)\b \S{1,40}"
    r"|\S{1,40} (?:→|->|⇒) \S{1,40}"
    r"|\b(?i:no longer|used to|instead of|ya no|en vez de)\b(?: \S{1,40}){1,2}"
)
_TRIGGERS = ("from ", "desde ", " longer ", "used to ", "instead of ", "ya no ", "en vez ", "→", "->", "⇒")
_CLAUSE_END = (",", ";", ":", ")", "—", "–", "，", "、", "；", "،")


def shorten(text: str, limit: int) -> str:
    """Return the text in at most `limit` words, with ``…`` where something is left out.

    The beginning is kept up to a clause boundary (a word boundary if there is none in its second half); up to
    two thirds of the words are spent on later transitions and numbers. A text within the limit is returned
    as it is.

    >>> shorten("Caroline went with two friends and her sister to the support group on 7 May 2023.", 8)
    'Caroline went with two friends … 7 May 2023.'
    """
    if count_words(text) <= limit:
        return text
    if limit <= 0:
        return ""
    spans = [match.span() for match in WORD.finditer(text)]
    return _join_runs(text, spans, sorted(_kept(text, spans, limit)))


def find_transition(text: str) -> re.Match[str] | None:
    """Return the first "from … to …" of a text; the plain words are looked for first, which is much cheaper."""
    lowered = text.lower()
    return _TRANSITION.search(text) if any(trigger in lowered for trigger in _TRIGGERS) else None


def _salient_groups(text: str, spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return runs of word indices worth keeping from a long sentence: transitions, then numbers."""
    groups: list[list[int]] = []
    match = find_transition(text)
    if match is not None:
        inside = [i for i, (start, end) in enumerate(spans) if start < match.end() and end > match.start()]
        groups.append(inside)
    run: list[int] = []
    for index, (start, end) in enumerate(spans):
        if (
            text[start].isdigit()
            or text[end - 1].isdigit()
            or (text[start] in "$€£¥#(" and text[start + 1 : start + 2].isdigit())
        ):
            if run and index > run[-1] + 1:
                groups.append(run)
                run = []
            run.extend(at for at in _around(text, spans, index) if not run or at > run[-1])
    if run:
        groups.append(run)
    return groups


def _around(text: str, spans: Sequence[tuple[int, int]], index: int) -> Iterable[int]:
    """Yield a number's index with its neighbours: a capital before it, the word it counts after it."""
    start, end = spans[index]
    if index and text[spans[index - 1][0]].isupper():
        yield index - 1
    yield index
    year = end - start == 4 and text[start:end].isdecimal()
    if index + 1 < len(spans) and not year and text[end - 1].isalnum():
        yield index + 1


def _kept(text: str, spans: Sequence[tuple[int, int]], limit: int) -> set[int]:
    """Return the indices of the words a shortened sentence keeps.

    A third of the limit is for the beginning; then come whole salient groups that fit; then the first gap is
    filled. The beginning ends at a clause boundary if there is one in its second half.
    """
    groups = _salient_groups(text, spans)
    kept = set(range(min(limit, max(2, limit // 3))))
    for group in groups:
        if len(kept.union(group)) <= limit:
            kept.update(group)
    # Half a date misleads: the filling stops before a group that is not kept whole.
    barred = {index for group in groups for index in group if not kept.issuperset(group)}
    run = 0
    while run in kept or (len(kept) < limit and run not in barred):
        kept.add(run)
        run += 1
    whole = {index for group in groups for index in group if index not in barred}
    for index in range(run - 1, run // 2 - 1, -1):
        if text[: spans[index][1]].endswith(_CLAUSE_END):
            return {at for at in kept if at <= index or at >= run or at in whole}
    return kept


def _join_runs(text: str, spans: Sequence[tuple[int, int]], kept: Sequence[int]) -> str:
    """Return the kept words as they stand, runs of neighbours joined by an ellipsis."""
    pieces: list[str] = []
    begin = 0
    for at in range(1, len(kept) + 1):
        if at < len(kept) and kept[at] == kept[at - 1] + 1:
            continue
        start, end = spans[kept[begin]][0], spans[kept[at - 1]][1]
        while end < len(text) and end > start and unicodedata.category(text[end]).startswith("M"):
            end -= 1  # never part a letter from its mark
        pieces.append(text[start:end].rstrip(" ,;:—–，、；،"))
        begin = at
    cut = kept[-1] < len(spans) - 1
    return " … ".join(piece for piece in pieces if piece) + ("…" if cut else "")
