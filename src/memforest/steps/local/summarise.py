"""Extractive summaries of tree nodes, without a model: whole sentences of the children, as they were said, in time order.

A summary begins with the first thing that was told and ends with the last: how it was, and how it is now. Between them
stands what adds most within the length that is left, by greedy coverage: a sentence is a set of terms (the tokens of the
lexical index), each term counts once, more if it is rare among the children, and more if it is a number or a name; a
child that has been quoted gives way to one that has not (`memforest.steps.local.coverage`). Questions and pleasantries stand back for what is told. No
sentence is cut, unless none of them fits.

In a stretch of conversation (kind ``"conversation"``) an answer that says little by itself stands together with what it
answers, and both are chosen, or left out, as one: "Figaro." is worth nothing without "What is the parrot called?".

It works in any script. Pleasantries are known in English (`memforest.language.pieces`); in another language they are
sentences like others, which add little.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from memforest.language.counting import count_words, cut_words
from memforest.language.pieces import is_clause, is_yes_no_answer
from memforest.language.quoting import ANSWER_WORDS, is_bare
from memforest.language.sentences import split_sentences
from memforest.steps.local import records
from memforest.steps.local.coverage import Sentence, covering, key_of, sentence_of, speaker_of
from memforest.text import negated, shorten_runs, words
from memforest.types import SummaryRequest

MAX_CHARS = 64_000
"""Characters read of all inputs of one request together; a longer input keeps its head and its tail."""
MAX_INPUTS = 256
"""Inputs read of one request; of more, evenly spaced ones, with the first and the last."""
MOST_JOINED = 4
"""Sentences that stand together at most: "I play again." "Since when?" "Since March." are three."""
SAYS_NOTHING = 2
"""Words of a question that means nothing by itself, whatever they are: "Since when?", "And music?"."""
_STRETCH = "conversation"
_REMARKS = frozenset(("pleasantry", "evaluation"))
"""Reasons for which a sentence is left out even where it answers a question."""

_ENDS = re.compile(r"[.!?…。！？｡؟।][\"')\]»”’」』”’）]*$")


class LocalSummariser:
    """Summarises inner nodes by extraction (port `Summariser`); deterministic, in any language.

    Time is linear in the characters read, which are at most `MAX_CHARS` per request.
    """

    name = "local-extractive-2"

    def maker_of(self, request: SummaryRequest) -> str:
        """Return what a summary of this request is stored as made by: records of a level that has a prompt are another matter."""
        return records.MAKER if request.prompt else self.name

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str]:
        """Return one summary per request, in order; the batch runs in one worker thread."""
        return await asyncio.to_thread(self._all, list(requests))

    def _all(self, requests: list[SummaryRequest]) -> list[str]:
        return [self.summarise_one(request) for request in requests]

    def summarise_one(self, request: SummaryRequest) -> str:
        """Return the summary of one node, at most ``request.max_words`` words (see `count_words`).

        It holds the children's own sentences in time order, without those of the history; a line for each run of one
        speaker, with the name. What a stretch of conversation has for a history is summarised with them. One child that
        fits is returned as it is, where that may be; no input, blank inputs or ``max_words <= 0`` give an empty string. A
        request of a level with a prompt of its own is answered as `memforest.steps.local.records` says.
        """
        if request.prompt:
            return records.record_of(request)
        stretch = request.kind == _STRETCH
        history = () if stretch else request.history
        inputs = _read((*request.history, *request.inputs) if stretch else request.inputs)
        if not inputs or request.max_words <= 0:
            return ""
        alone = len(inputs) == 1 and request.summarise == "kept" and not history
        if alone and count_words(inputs[0]) <= request.max_words:
            return inputs[0]
        known = {key_of(one) for one in _sentences(_read(history))}
        said = _sentences(inputs)
        said = _distinct(_joined(said) if stretch else said)
        said = [one for one in said if key_of(one) not in known] or said
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


def _sentences(inputs: Sequence[str]) -> list[Sentence]:
    """Return the sentences of all inputs; a speaker's name at a line's start goes with each of its sentences."""
    lines = [
        (child, *speaker_of(" ".join(line.split())))
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
    return [sentence_of(place, *one, people) for place, one in enumerate(found)]


def _turns(lines: Sequence[tuple[int, str, str]]) -> Iterator[int]:
    """Yield the number of each line's turn; a line without a speaker goes on with that of its child."""
    turn, before, who = -1, -1, ""
    for child, speaker, _ in lines:
        if (speaker and speaker != who) or (not speaker and child != before):
            turn, who = turn + 1, speaker
        before = child
        yield max(turn, 0)


# -- answers and what they answer -----------------------------------------------------------------


def _joined(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences in order, an answer together with what it answers in the turn right before it, as one.

    Where that says too little as well ("Since when?"), what stands before it goes with them.
    """
    made: list[Sentence] = []
    for _, group in groupby(sentences, key=lambda one: one.turn):
        turn = list(group)
        answer = _answer(turn)
        lead = _lead(made, turn[0].turn) if answer is not None else None
        for one in turn:
            if one is answer and lead is not None and _leans(one, made[lead]):
                one = _with_context(made, lead, one)
            made.append(one)
    return made


def _answer(turn: Sequence[Sentence]) -> Sentence | None:
    """Return the sentence with which a turn would answer: the first that says something, else a yes or no."""
    telling = (one for one in turn[:3] if not one.asks and one.reason not in _REMARKS)
    return next(telling, next((one for one in turn[:1] if is_yes_no_answer(one.text)), None))


def _lead(made: Sequence[Sentence], turn: int) -> int | None:
    """Return the place of what a turn replies to: a question that ends the one before, else the last that tells."""
    last = [at for at in range(max(0, len(made) - 3), len(made)) if made[at].turn == turn - 1]
    asking = (at for at in reversed(last[-2:]) if made[at].asks)
    return next(asking, next((at for at in reversed(last) if made[at].tells), None))


def _leans(answer: Sentence, lead: Sentence) -> bool:
    """Return whether an answer says too little without what it replies to."""
    if count_words(answer.text) > ANSWER_WORDS:
        return False
    if lead.asks and lead.terms:
        return True
    if lead.asks:  # "And you?" asks what was asked before
        return is_bare(answer.text)
    head = answer.text.partition(",")[0]
    return is_yes_no_answer(answer.text) or (head != answer.text and negated(head) and not is_clause(head))


def _with_context(made: list[Sentence], lead: int, answer: Sentence) -> Sentence:
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
    parts: Sequence[Sentence], more: Sequence[Sentence], made: list[Sentence]
) -> Sequence[Sentence]:
    """Return sentences with others before them, as many as may be joined; the rest of those goes back to what was made."""
    room = MOST_JOINED - len(parts)
    if len(more) > room:
        made.append(_unit(more[:-room]))
    return [*more[-room:], *parts]


def _unit(parts: Sequence[Sentence]) -> Sentence:
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


def _parts(one: Sentence) -> tuple[Sentence, ...]:
    return one.parts or (one,)


def _apart(unit: Sentence, most: int) -> list[Sentence]:
    """Return what of a unit has room within so many words: all of it, else those of its sentences that tell."""
    if unit.words <= most:
        return [unit]
    return [one for one in unit.parts if one.tells and one.words <= most]


# -- choosing ---------------------------------------------------------------------------------------


def _distinct(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences in order, of equal ones the last."""
    return sorted({key_of(one): one for one in sentences}.values(), key=lambda one: one.place)


def _chosen(sentences: Sequence[Sentence], most: int) -> list[Sentence]:
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
        taken += covering(rest, taken, room - first.words)
    return sorted(taken, key=lambda one: one.place)


def _render(sentences: Sequence[Sentence]) -> str:
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
