"""Extractive summaries of tree nodes, without a model: whole sentences of the children, as they were said, in time order.

A summary begins with the first thing that was told and ends with the last: how it was, and how it is now. Between them
stands what adds most within the length that is left, by greedy coverage: a sentence is a set of terms (the tokens of the
lexical index), each term counts once, more if it is rare among the children, and more if it is a number or a name; a
child that has been quoted gives way to one that has not. Questions and pleasantries stand back for what is told. No
sentence is cut, unless none of them fits.

It works in any script. Pleasantries are known in English (`memforest.language.pieces`); in another language they are
sentences like others, which add little.

Source: Lin & Bilmes, "A Class of Submodular Functions for Document Summarization" (ACL 2011), for greedy gain over cost
as a bounded approximation of the best coverage.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memforest.language.counting import count_words, cut_words
from memforest.language.pieces import is_question, skip_reason
from memforest.language.sentences import split_sentences
from memforest.text import fold, lexical_words, shorten_runs, words
from memforest.types import SummaryRequest

__all__ = ["MAX_CHARS", "MAX_INPUTS", "LocalSummariser"]

MAX_CHARS = 64_000
"""Characters read of all inputs of one request together; a longer input keeps its head and its tail."""
MAX_INPUTS = 256
"""Inputs read of one request; of more, evenly spaced ones, with the first and the last."""
NAMED = 2.0
"""Weight of a number or of a word with a capital inside a sentence; another word has 1."""

# "Ana: ", "Dr. Ana Silva: ": what a line of a transcript begins with.
_SPEAKER = re.compile(r"([^\s:：!?,\d][^:：!?,\n]{0,60}?)[:：] ")
_ENDS = re.compile(r"[.!?…。！？｡؟।][\"')\]»”’」』”’）]*$")


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of one child with its terms; `words` counts the speaker's name too."""

    place: int
    child: int
    speaker: str
    text: str
    words: int
    terms: frozenset[str]
    named: frozenset[str]
    tells: bool


class LocalSummariser:
    """Summarises inner nodes by extraction (port `Summariser`); deterministic, in any language.

    Time is linear in the characters read, which are at most `MAX_CHARS` per request.
    """

    name = "local-extractive-2"

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str]:
        """Return one summary per request, in order; the batch runs in one worker thread."""
        return await asyncio.to_thread(self._all, list(requests))

    def _all(self, requests: list[SummaryRequest]) -> list[str]:
        return [self.summarise_one(request) for request in requests]

    def summarise_one(self, request: SummaryRequest) -> str:
        """Return the summary of one node, at most ``request.max_words`` words (see `count_words`).

        It holds the children's own sentences in time order, without those of the history; a line for each run of one
        speaker, with the name. One child that fits is returned as it is, where that may be; no input, blank inputs or
        ``max_words <= 0`` give an empty string.
        """
        inputs = _read(request.inputs)
        if not inputs or request.max_words <= 0:
            return ""
        alone = len(inputs) == 1 and request.summarise == "kept" and not request.history
        if alone and count_words(inputs[0]) <= request.max_words:
            return inputs[0]
        known = {_key(one) for one in _sentences(_read(request.history))}
        said = _distinct(_sentences(inputs))
        said = [one for one in said if _key(one) not in known] or said
        said = [one for one in said if one.tells] or said
        if sum(one.words for one in said) <= request.max_words:
            return _render(said)
        fitting = [one for one in said if one.words <= request.max_words]
        if not fitting:
            return cut_words(_render(said[-1:]), request.max_words)
        return _render(_chosen(fitting, request.max_words))


def _read(inputs: Sequence[str]) -> list[str]:
    """Return the inputs that are not blank, within `MAX_INPUTS` and `MAX_CHARS`."""
    texts = [shorten_runs(stripped) for text in inputs if (stripped := text.strip())]
    if len(texts) > MAX_INPUTS:
        step = (len(texts) - 1) / (MAX_INPUTS - 1)
        texts = [texts[round(index * step)] for index in range(MAX_INPUTS)]
    if sum(map(len, texts)) <= MAX_CHARS:
        return texts
    share = MAX_CHARS // len(texts)
    return [
        text if len(text) <= share else f"{text[: share // 2]}…\n{text[-(share // 2) :]}" for text in texts
    ]


def _sentences(inputs: Sequence[str]) -> list[_Sentence]:
    """Return the sentences of all inputs; a speaker's name at a line's start goes with each of its sentences."""
    lines = [
        (child, *_speaker(" ".join(line.split())))
        for child, text in enumerate(inputs)
        for line in text.splitlines()
    ]
    people = frozenset(word.casefold() for _, speaker, _ in lines for word in words(speaker))
    found = (
        (child, speaker, piece.text) for child, speaker, said in lines for piece in split_sentences(said)
    )
    return [_sentence(place, *one, people) for place, one in enumerate(found)]


def _speaker(line: str) -> tuple[str, str]:
    """Return the speaker that a line of a transcript begins with, or "", and what is said.

    "She bought three things: …" has none: a name has at most three words, of several none is in lower case.
    """
    match = _SPEAKER.match(line)
    parts = match[1].split() if match else []
    if match is None or len(parts) > 3 or (len(parts) > 1 and any(part[0].islower() for part in parts)):
        return "", line
    return match[1], line[match.end() :]


def _sentence(place: int, child: int, speaker: str, text: str, people: frozenset[str]) -> _Sentence:
    found = lexical_words(text)
    capitals = {word.casefold() for word in words(text)[1:] if word[0].isupper()}
    named = {
        token for word, tokens in found if word in capitals or word[0].isdigit() for token in tokens
    } - people
    return _Sentence(
        place=place,
        child=child,
        speaker=speaker,
        text=text,
        words=count_words(f"{speaker}: {text}") if speaker else count_words(text),
        terms=frozenset(token for _, tokens in found for token in tokens),
        named=frozenset(named),
        tells=not is_question(text) and skip_reason(text, people, assistant=False) is None,
    )


def _key(sentence: _Sentence) -> tuple[str, str]:
    """Return what equal sentences have in common: who says it, and the words, whatever their case and marks."""
    folded = fold(sentence.text)
    return sentence.speaker, " ".join(words(folded)) or folded


def _distinct(sentences: Sequence[_Sentence]) -> list[_Sentence]:
    """Return the sentences in order, of equal ones the last."""
    return sorted({_key(one): one for one in sentences}.values(), key=lambda one: one.place)


def _chosen(sentences: Sequence[_Sentence], most: int) -> list[_Sentence]:
    """Return the sentences of a summary in order: the last, the first, and what adds most to them.

    The last has two thirds of the words if one of its child's sentences is that short, so that the first has room.
    """
    recent = [one for one in reversed(sentences) if one.child == sentences[-1].child]
    last = next((one for one in recent if 3 * one.words <= 2 * most), recent[0])
    taken = [last]
    room = most - last.words
    first = next((one for one in sentences if one is not last and one.words <= room), None)
    if first is not None:
        taken.append(first)
        rest = [one for one in sentences if one is not last and one is not first]
        taken += _covering(rest, taken, room - first.words)
    return sorted(taken, key=lambda one: one.place)


def _covering(sentences: Sequence[_Sentence], taken: Sequence[_Sentence], room: int) -> Iterator[_Sentence]:
    """Yield the sentences that add most to those taken, within so many words: lazy greedy, as gains only shrink."""
    spread = Counter(term for one in (*sentences, *taken) for term in one.terms)
    total = len(sentences) + len(taken)
    covered = {term for one in taken for term in one.terms}
    quoted = Counter(one.child for one in taken)

    def gain(one: _Sentence) -> float:
        # Sorted, as a sum of floats depends on its order, and that of a set on the process.
        new = sum(
            (NAMED if term in one.named else 1.0) * math.log1p(total / spread[term])
            for term in sorted(one.terms - covered)
        )
        # The root stands between the gain alone, which prefers the longest, and the gain per word, which prefers scraps.
        return new / math.sqrt(one.words) / (1 + quoted[one.child])

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


def _render(sentences: Sequence[_Sentence]) -> str:
    """Return the sentences as lines: one for each run of one speaker, begun anew behind a sentence without an end."""
    lines: list[str] = []
    speaker: str | None = None
    for one in sentences:
        if lines and one.speaker == speaker and _ENDS.search(lines[-1][-8:]):
            lines[-1] += f" {one.text}"
        else:
            lines.append(f"{one.speaker}: {one.text}" if one.speaker else one.text)
        speaker = one.speaker
    return "\n".join(lines)
