"""Which of the first pieces of evidence say something that the others do not."""

from __future__ import annotations

from collections.abc import Sequence

from memforest.language.sentences import split_sentences
from memforest.systems.base import Candidate
from memforest.text import fold, words


def unsaid(found: Sequence[Candidate]) -> tuple[int, ...]:
    """Return the places of the candidates without the memories of which every sentence stands in other kept ones."""
    folded = [_folded(one.text) for one in found]
    dropped: set[int] = set()
    for place in range(len(found) - 1, -1, -1):
        if found[place].level is None:
            continue
        others = [text for at, text in enumerate(folded) if at != place and at not in dropped]
        sentences = [_folded(one.text) for one in split_sentences(found[place].text)]
        if all(any(one in text for text in others) for one in sentences):
            dropped.add(place)
    return tuple(place for place in range(len(found)) if place not in dropped)


def _folded(text: str) -> str:
    """Return the words of a text without case, a blank around each."""
    return f" {' '.join(words(fold(text)))} "
