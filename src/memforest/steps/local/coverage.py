"""Sentences as sets of terms, and those of them that add most within a length: lazy greedy coverage.

Source: Lin & Bilmes, "A Class of Submodular Functions for Document Summarization" (ACL 2011), for greedy gain over cost
as a bounded approximation of the best coverage.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from memforest.language.counting import count_words
from memforest.language.pieces import is_question, skip_reason
from memforest.text import fold, lexical_words, words

NAMED = 2.0
"""Weight of a number or of a word with a capital inside a sentence; another word has 1."""
KNOWN = 0.25
"""Share of its weight that a term keeps which has been told before."""

MAX_READ_CHARS = 1_000
"""Longest sentence that is remembered as read."""

# "Ana: ", "Dr. Ana Silva: ": what a line of a transcript begins with.
_SPEAKER = re.compile(r"([^\s:：!?,\d][^:：!?,\n]{0,60}?)[:：] ")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of one child with its terms; `words` counts the speaker's name too.

    `turn` counts the turns, and `reason` is why it tells nothing. An answer that stands together with what it answers has
    those sentences and itself in `parts`, and words and terms of them all.
    """

    place: int
    child: int
    turn: int
    speaker: str
    text: str
    words: int
    terms: frozenset[str]
    named: frozenset[str]
    asks: bool
    reason: str | None
    parts: tuple[Sentence, ...] = ()

    @property
    def tells(self) -> bool:
        """Whether it says something, and is no question or pleasantry."""
        return bool(self.parts) or not (self.asks or self.reason)


def speaker_of(line: str) -> tuple[str, str]:
    """Return the speaker that a line of a transcript begins with, or "", and what is said.

    "She bought three things: …" has none: a name has at most three words, of several none is in lower case.
    """
    match = _SPEAKER.match(line)
    parts = match[1].split() if match else []
    if match is None or len(parts) > 3 or (len(parts) > 1 and any(part[0].islower() for part in parts)):
        return "", line
    return match[1], line[match.end() :]


def sentence_of(
    place: int, child: int, turn: int, speaker: str, text: str, people: frozenset[str]
) -> Sentence:
    """Return a sentence with its terms; the names of `people` (words, case folded) weigh no more than other words."""
    read = _read if len(text) <= MAX_READ_CHARS else _read.__wrapped__
    terms, named, asks, reason = read(text, people)
    return Sentence(
        place=place,
        child=child,
        turn=turn,
        speaker=speaker,
        text=text,
        words=count_words(f"{speaker}: {text}") if speaker else count_words(text),
        terms=terms,
        named=named,
        asks=asks,
        reason=reason,
    )


@lru_cache(maxsize=4_096)
def _read(text: str, people: frozenset[str]) -> tuple[frozenset[str], frozenset[str], bool, str | None]:
    """Return terms and names of a sentence, whether it asks, and why it tells nothing.

    Remembered, as a sentence stands in the texts of one level after the other, and in the history of their next ones.
    """
    found, asks = lexical_words(text), is_question(text)
    capitals = {word.casefold() for word in words(text)[1:] if word[0].isupper()}
    named = {
        token for word, tokens in found if word in capitals or word[0].isdigit() for token in tokens
    } - people
    return (
        frozenset(token for _, tokens in found for token in tokens),
        frozenset(named),
        asks,
        None if asks else skip_reason(text, people, assistant=False),
    )


def key_of(sentence: Sentence) -> tuple[tuple[str, str], ...]:
    """Return what equal sentences have in common: who says it, and the words, whatever their case and marks."""
    folded = ((one.speaker, fold(one.text)) for one in sentence.parts or (sentence,))
    return tuple((speaker, " ".join(words(text)) or text) for speaker, text in folded)


def covering(
    sentences: Sequence[Sentence], taken: Sequence[Sentence], room: int, known: Set[str] = frozenset()
) -> Iterator[Sentence]:
    """Yield the sentences that add most to those taken, within so many words: lazy greedy, as gains only shrink.

    Args:
        sentences: to choose from.
        taken: what stands beside them already.
        room: words that are left.
        known: terms that have been told before and count `KNOWN` times as much.
    """
    spread = Counter(term for one in (*sentences, *taken) for term in one.terms)
    total = len(sentences) + len(taken)
    covered = {term for one in taken for term in one.terms}
    quoted = Counter(one.child for one in taken)

    def gain(one: Sentence) -> float:
        # Sorted, as a sum of floats depends on its order, and that of a set on the process.
        new = sum(
            (NAMED if term in one.named else 1.0)
            * (KNOWN if term in known else 1.0)
            * math.log1p(total / spread[term])
            for term in sorted(one.terms - covered)
        )
        # The root stands between the gain alone, which prefers the longest, and the gain per word, which prefers scraps.
        return new / math.sqrt(max(1, one.words)) / (1 + quoted[one.child])

    heap = [(-gain(one), one.place, one) for one in sentences]
    heapq.heapify(heap)
    while heap and room > 0:
        _, place, one = heapq.heappop(heap)
        worth = gain(one)
        if one.words > room:
            continue
        if heap and -worth > heap[0][0]:
            heapq.heappush(heap, (-worth, place, one))
            continue
        if worth <= 0.0:
            return
        yield one
        covered |= one.terms
        quoted[one.child] += 1
        room -= one.words
