"""Extractive summaries of tree nodes, without a model: whole sentences of the children, as they were said, in time order.

A summary begins with the first thing that was told and ends with the last: how it was, and how it is now. Between them
stands what adds most within the length that is left, by greedy coverage: a sentence is a set of terms (the tokens of the
lexical index), each term counts once, more if it is rare among the children, and more if it is a number or a name; a
child that has been quoted gives way to one that has not. Questions and pleasantries stand back for what is told. No
sentence is cut, unless none of them fits.

In a stretch of conversation (kind ``"conversation"``) an answer that says little by itself stands together with what it
answers, and both are chosen, or left out, as one: "Figaro." is worth nothing without "What is the parrot called?".

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
from dataclasses import dataclass, replace
from itertools import groupby

from memforest.language.counting import count_words, cut_words
from memforest.language.pieces import is_clause, is_question, is_yes_no_answer, skip_reason
from memforest.language.quoting import ANSWER_WORDS, is_bare
from memforest.language.sentences import split_sentences
from memforest.text import fold, lexical_words, negated, shorten_runs, words
from memforest.types import SummaryRequest

__all__ = ["MAX_CHARS", "MAX_INPUTS", "LocalSummariser"]

MAX_CHARS = 64_000
"""Characters read of all inputs of one request together; a longer input keeps its head and its tail."""
MAX_INPUTS = 256
"""Inputs read of one request; of more, evenly spaced ones, with the first and the last."""
NAMED = 2.0
"""Weight of a number or of a word with a capital inside a sentence; another word has 1."""

MOST_JOINED = 4
"""Sentences that stand together at most: "I play again." "Since when?" "Since March." are three."""
SAYS_NOTHING = 2
"""Words of a question that means nothing by itself, whatever they are: "Since when?", "And music?"."""
_STRETCH = "conversation"
_REMARKS = frozenset(("pleasantry", "evaluation"))
"""Reasons for which a sentence is left out even where it answers a question."""

# "Ana: ", "Dr. Ana Silva: ": what a line of a transcript begins with.
_SPEAKER = re.compile(r"([^\s:：!?,\d][^:：!?,\n]{0,60}?)[:：] ")
_ENDS = re.compile(r"[.!?…。！？｡؟।][\"')\]»”’」』”’）]*$")


@dataclass(frozen=True, slots=True)
class _Sentence:
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
    parts: tuple[_Sentence, ...] = ()

    @property
    def tells(self) -> bool:
        return bool(self.parts) or not (self.asks or self.reason)


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
        speaker, with the name. What a stretch of conversation has for a history is summarised with them. One child that
        fits is returned as it is, where that may be; no input, blank inputs or ``max_words <= 0`` give an empty string.
        """
        stretch = request.kind == _STRETCH
        history = () if stretch else request.history
        inputs = _read((*request.history, *request.inputs) if stretch else request.inputs)
        if not inputs or request.max_words <= 0:
            return ""
        alone = len(inputs) == 1 and request.summarise == "kept" and not history
        if alone and count_words(inputs[0]) <= request.max_words:
            return inputs[0]
        known = {_key(one) for one in _sentences(_read(history))}
        said = _sentences(inputs)
        said = _distinct(_joined(said) if stretch else said)
        said = [one for one in said if _key(one) not in known] or said
        said = [one for one in said if one.tells] or said
        if sum(one.words for one in said) <= request.max_words:
            return _render(said)
        fitting = [one for unit in said for one in _apart(unit, request.max_words)]
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
    turns = _turns(lines)
    found = (
        (child, turn, speaker, piece.text)
        for (child, speaker, said), turn in zip(lines, turns, strict=True)
        for piece in split_sentences(said)
    )
    return [_sentence(place, *one, people) for place, one in enumerate(found)]


def _turns(lines: Sequence[tuple[int, str, str]]) -> Iterator[int]:
    """Yield the number of each line's turn; a line without a speaker goes on with that of its child."""
    turn, before, who = -1, -1, ""
    for child, speaker, _ in lines:
        if (speaker and speaker != who) or (not speaker and child != before):
            turn, who = turn + 1, speaker
        before = child
        yield max(turn, 0)


def _speaker(line: str) -> tuple[str, str]:
    """Return the speaker that a line of a transcript begins with, or "", and what is said.

    "She bought three things: …" has none: a name has at most three words, of several none is in lower case.
    """
    match = _SPEAKER.match(line)
    parts = match[1].split() if match else []
    if match is None or len(parts) > 3 or (len(parts) > 1 and any(part[0].islower() for part in parts)):
        return "", line
    return match[1], line[match.end() :]


def _sentence(
    place: int, child: int, turn: int, speaker: str, text: str, people: frozenset[str]
) -> _Sentence:
    found, asks = lexical_words(text), is_question(text)
    capitals = {word.casefold() for word in words(text)[1:] if word[0].isupper()}
    named = {
        token for word, tokens in found if word in capitals or word[0].isdigit() for token in tokens
    } - people
    return _Sentence(
        place=place,
        child=child,
        turn=turn,
        speaker=speaker,
        text=text,
        words=count_words(f"{speaker}: {text}") if speaker else count_words(text),
        terms=frozenset(token for _, tokens in found for token in tokens),
        named=frozenset(named),
        asks=asks,
        reason=None if asks else skip_reason(text, people, assistant=False),
    )


# -- answers and what they answer -----------------------------------------------------------------


def _joined(sentences: Sequence[_Sentence]) -> list[_Sentence]:
    """Return the sentences in order, an answer together with what it answers in the turn right before it, as one.

    Where that says too little as well ("Since when?"), what stands before it goes with them.
    """
    made: list[_Sentence] = []
    for _, group in groupby(sentences, key=lambda one: one.turn):
        turn = list(group)
        answer = _answer(turn)
        lead = _lead(made, turn[0].turn) if answer is not None else None
        for one in turn:
            if one is answer and lead is not None and _leans(one, made[lead]):
                one = _with_context(made, lead, one)
            made.append(one)
    return made


def _answer(turn: Sequence[_Sentence]) -> _Sentence | None:
    """Return the sentence with which a turn would answer: the first that says something, else a yes or no."""
    telling = (one for one in turn[:3] if not one.asks and one.reason not in _REMARKS)
    return next(telling, next((one for one in turn[:1] if is_yes_no_answer(one.text)), None))


def _lead(made: Sequence[_Sentence], turn: int) -> int | None:
    """Return the place of what a turn replies to: a question that ends the one before, else the last that tells."""
    last = [at for at in range(max(0, len(made) - 3), len(made)) if made[at].turn == turn - 1]
    asking = (at for at in reversed(last[-2:]) if made[at].asks)
    return next(asking, next((at for at in reversed(last) if made[at].tells), None))


def _leans(answer: _Sentence, lead: _Sentence) -> bool:
    """Return whether an answer says too little without what it replies to."""
    if count_words(answer.text) > ANSWER_WORDS:
        return False
    if lead.asks and lead.terms:
        return True
    if lead.asks:  # "And you?" asks what was asked before
        return is_bare(answer.text)
    head = answer.text.partition(",")[0]
    return is_yes_no_answer(answer.text) or (head != answer.text and negated(head) and not is_clause(head))


def _with_context(made: list[_Sentence], lead: int, answer: _Sentence) -> _Sentence:
    """Return an answer joined with its lead and with what that needs, which are taken out of those made."""
    replied_to = [one for at, one in enumerate(made[lead:]) if not at or one.tells]
    del made[lead:]
    parts = _put_before([answer], [part for one in replied_to for part in _parts(one)], made)
    while made and len(parts[0].terms) < 2 and len(parts) < MOST_JOINED:
        before, whole = made[-1], len(parts) + len(_parts(made[-1])) <= MOST_JOINED
        if parts[0].turn - before.turn > 1 or not (whole or count_words(parts[0].text) <= SAYS_NOTHING):
            break
        made.pop()
        if before.parts or before.reason != "pleasantry":
            parts = _put_before(parts, _parts(before), made)
    return _unit(parts)


def _put_before(
    parts: Sequence[_Sentence], more: Sequence[_Sentence], made: list[_Sentence]
) -> Sequence[_Sentence]:
    """Return sentences with others before them, as many as may be joined; the rest of those goes back to what was made."""
    room = MOST_JOINED - len(parts)
    if len(more) > room:
        made.append(_unit(more[:-room]))
    return [*more[-room:], *parts]


def _unit(parts: Sequence[_Sentence]) -> _Sentence:
    """Return sentences joined, in the place of the last."""
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[-1],
        words=sum(one.words for one in parts),
        terms=frozenset().union(*(one.terms for one in parts)),
        named=frozenset().union(*(one.named for one in parts)),
        parts=tuple(parts),
    )


def _parts(one: _Sentence) -> tuple[_Sentence, ...]:
    return one.parts or (one,)


def _apart(unit: _Sentence, most: int) -> list[_Sentence]:
    """Return what of a unit has room within so many words: all of it, else those of its sentences that tell."""
    if unit.words <= most:
        return [unit]
    return [one for one in unit.parts if one.tells and one.words <= most]


# -- choosing ---------------------------------------------------------------------------------------


def _key(sentence: _Sentence) -> tuple[tuple[str, str], ...]:
    """Return what equal sentences have in common: who says it, and the words, whatever their case and marks."""
    folded = ((one.speaker, fold(one.text)) for one in _parts(sentence))
    return tuple((speaker, " ".join(words(text)) or text) for speaker, text in folded)


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
    for one in (part for unit in sentences for part in _parts(unit)):
        if lines and one.speaker == speaker and _ENDS.search(lines[-1][-8:]):
            lines[-1] += f" {one.text}"
        else:
            lines.append(f"{one.speaker}: {one.text}" if one.speaker else one.text)
        speaker = one.speaker
    return "\n".join(lines)
