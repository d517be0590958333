"""Summaries and records without a model: whole sentences of the children, as they were said, in time order; in any script.

A summary begins with the first thing that was told and ends with the last: how it was, and how it is now. Between them
stands what adds most within the length that is left, by lazy greedy coverage: a sentence is a set of terms (the tokens of the
lexical index), each term counts once, more if it is rare among the children, and more if it is a number or a name; a
child that has been quoted gives way to one that has not. Questions and pleasantries stand back for what is told. No
sentence is cut, unless none of them fits. Source: Lin & Bilmes, "A Class of Submodular Functions for Document Summarization"
(ACL 2011), for greedy gain over cost as a bounded approximation of the best coverage.

In a stretch of conversation (kind ``"conversation"``) an answer that says little by itself stands together with what it
answers, and both are chosen, or left out, as one: "Figaro." is worth nothing without "What is the parrot called?".

Records of a calendar's levels and of consolidated memories:

- A segment holds the statements that its turns support; where none does, what was said, in whole sentences.
- A session, day or week holds whole sentences of what is below it, in its order, a statement a line: first of all the first and
  the last that tell of something that changed ("Ana lives in Porto", "Ana moved to Lisbon"), then what adds most, where a word
  counts less that a record before this one has told. Where no change is read, the first and the last thing told are kept.
- A memory, which is consolidated of things that are alike, is made as a session is; one thing alone stands as it is.
- A profile holds the lines that its request brings, by participant.

Changes are read in English and Spanish (`memforest.reading.states`) and questions and pleasantries are known in English; in
another language they are sentences like others, which add little.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, zip_longest

from memforest.ports import UnchangedText, join_sections
from memforest.ports import split_sections as sections_of
from memforest.reading.clauses import (
    ANSWER_WORDS,
    is_bare,
    is_clause,
    is_question,
    is_yes_no_answer,
    skip_reason,
)
from memforest.reading.states import UNSPECIFIED, find_states, holds_many
from memforest.reading.tokens import count_words, cut_words, split_sentences
from memforest.records import SummaryRequest
from memforest.text import fold, lexical_words, negated, shorten_runs, words

NAMED = 2.0
"""Weight of a number or of a word with a capital inside a sentence; another word has 1."""
KNOWN = 0.25
"""Share of its weight that a term keeps which has been told before."""

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
    size = count_words(f"{speaker}: {text}" if speaker else text)
    return Sentence(place, child, turn, speaker, text, size, *_read_sentence(text, people))


@lru_cache(maxsize=4_096)
def _read_sentence(
    text: str, people: frozenset[str]
) -> tuple[frozenset[str], frozenset[str], bool, str | None]:
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
    """Return the key that equal sentences share: the speaker and the words, without case and marks."""
    folded = ((one.speaker, fold(one.text)) for one in sentence.parts or (sentence,))
    return tuple((speaker, " ".join(words(text)) or text) for speaker, text in folded)


def covering(
    sentences: Sequence[Sentence], taken: Sequence[Sentence], room: int, known: Set[str] = frozenset()
) -> Iterator[Sentence]:
    """Yield the sentences that add most to those taken, within so many words: lazy greedy, as gains only shrink.

    Args:
        sentences: to choose from.
        taken: the sentences already chosen.
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


MAKER = "local-records-1"
"""What records are stored as made by; another number for whatever changes their texts."""
WHOLE_WORDS = 40
"""Most words of a line that is kept or left out as a whole, as its sentences are about one thing."""
STATES_SHARE = 2 / 3
"""Share of a record's words that the first and the last of what changed may take."""
MOST_READ = 512
"""Lines in which changes are looked for; of more, those with a name or a number that is rare."""


def record_of(request: SummaryRequest) -> UnchangedText:
    """Return the record of a level's request in at most ``request.max_words`` words; "" if there is nothing to tell.

    A segment holds the statements that its turns support, else its turns: all of them if they fit. A memory of one text alone
    is that text, if it fits.
    """
    texts, whole = request.inputs, ""
    if request.max_words <= 0:
        return UnchangedText()
    if request.prompt == "profile":
        return UnchangedText(_profile(request))
    if request.prompt == "segment":
        texts = request.statements if any(map(str.strip, request.statements)) else request.inputs
        lines = [" ".join(line.split()) for text in texts for line in text.splitlines()]
        whole = "\n".join(dict.fromkeys(filter(None, lines)))
    elif request.prompt == "memory":
        filled = [text.strip() for text in request.inputs if text.strip()]
        whole = filled[0] if len(filled) == 1 else ""
    kept = request.prompt == "segment" or whole
    if kept and len(whole) <= MAX_CHARS and count_words(whole) <= request.max_words:
        return UnchangedText(whole)
    return UnchangedText(_chosen_records(texts, request))


def _profile(request: SummaryRequest) -> str:
    """Return the lines of a profile by participant, as many as fit, every participant's first ones before anybody's last.

    Without lines of its own it has what the participants said, as far as the texts below tell who did.
    """
    given = [(name, lines) for name, lines in sections_of("\n".join(request.statements)) if name]
    given = given or _said_by(request)
    kept: dict[str, list[str]] = {}
    left = request.max_words
    for row in zip_longest(*([(name, line) for line in lines] for name, lines in given)):
        for name, line in filter(None, row):
            size = count_words(join_sections([(name, [line])] if name not in kept else [("", [line])]))
            if size <= left:
                kept.setdefault(name, []).append(line)
                left -= size
    return join_sections([(name, kept[name]) for name, _ in given if name in kept])


def _said_by(request: SummaryRequest) -> list[tuple[str, list[str]]]:
    """Return the lines of each participant among the inputs' ("name: what was said"), those that tell most, in order."""
    lines = [one for one in _units(request.inputs, request.participants, lines=True) if one.tells]
    share = request.max_words // max(1, len(request.participants))
    found = []
    for name in request.participants:
        own = [one for one in lines if fold(one.speaker) == fold(name)]
        chosen = sorted(covering(own, (), share), key=lambda one: one.place)
        found.append((name, [one.text for one in chosen]))
    return found


def most_telling(texts: Sequence[str], most: int) -> list[int]:
    """Return the positions of the texts that tell most in `most` words, ascending; questions only if there is nothing else.

    A text of more than two thirds of these words is not among them.
    """
    units = [
        sentence_of(at, at, at, "", " ".join(text.split()), frozenset()) for at, text in enumerate(texts)
    ]
    units = [one for one in units if one.words and 3 * one.words <= 2 * most]
    telling = [one for one in units if one.tells] or units
    return sorted(one.place for one in covering(telling, (), most))


def _chosen_records(inputs: Sequence[str], request: SummaryRequest) -> str:
    """Return the sentences of some texts that are new and tell most, one a line."""
    most = request.max_words
    units = _distinct(_units(inputs, request.participants, lines=True))
    if not units:
        return ""
    before = _units(request.history, request.participants, lines=True)
    known = {key_of(one) for one in before}
    units = [one for one in units if one.tells] or units
    new = [one for one in units if key_of(one) not in known]
    if sum(one.words for one in new) <= most and new:
        return _lines(new)
    fitting = [one for one in units if one.words <= most]
    if not fitting:
        return cut_words(_lines(units[-1:]), most)
    kept = _kept(fitting, request.participants, most)
    room = most - sum(one.words for one in kept)
    rest = [one for one in fitting if one not in kept and key_of(one) not in known]
    terms = frozenset(term for one in before for term in one.terms)
    return _lines(sorted([*kept, *covering(rest, kept, room, terms)], key=lambda one: one.place))


def _kept(units: Sequence[Sentence], participants: Sequence[str], most: int) -> list[Sentence]:
    """Return the sentences that a record always has: the last and the first about each change.

    Where no change is read, the last thing told, if it leaves room for others, and the first.
    """
    changed = list(_changes(units, participants))
    wanted = [last for _, last in changed] + [first for first, _ in changed]
    share = int(STATES_SHARE * most)
    if not wanted:
        wanted, share = [units[-1], units[0]], most
    kept: list[Sentence] = []
    for one in wanted:
        if one not in kept and one.words + sum(other.words for other in kept) <= share:
            kept.append(one)
    return kept


def _changes(units: Sequence[Sentence], participants: Sequence[str]) -> Iterator[tuple[Sentence, Sentence]]:
    """Yield the first and the last sentence about each attribute that changed, began or ended."""
    names = tuple(dict.fromkeys([*participants, *(one.speaker for one in units if one.speaker)]))
    read = sorted(units, key=lambda one: (-len(one.named), one.place))[:MOST_READ]
    lines_of: dict[tuple[str, str], list[Sentence]] = {}
    values: dict[tuple[str, str], list[str]] = {}
    changed: set[tuple[str, str]] = set()
    for one in sorted(read, key=lambda one: one.place):
        for state in find_states(one.text, subjects=names):
            if state.attribute == UNSPECIFIED or holds_many(state.attribute):
                continue
            key = (fold(state.entity), state.attribute)
            lines_of.setdefault(key, []).append(one)
            known = values.setdefault(key, [])
            if state.change != "is" or state.previous is not None:
                changed.add(key)
            mine = set(words(fold(state.value)))
            others = (set(words(fold(value))) for value in known)
            if not any(mine <= other or other <= mine for other in others):
                known.append(state.value)
    for key, lines in lines_of.items():
        if key in changed or len(values[key]) > 1:
            yield lines[0], lines[-1]


def _units(
    inputs: Sequence[str], participants: Collection[str] = (), *, lines: bool = False
) -> list[Sentence]:
    """Return the sentences of texts, in order; a speaker's name at a line's start goes with each of its sentences.

    With `lines` a short line is one, without the sentences in it that tell nothing; `participants` are named in the texts.
    """
    read = [
        (child, *speaker_of(line)) for child, text in enumerate(_read(inputs)) for line in text.splitlines()
    ]
    names = [*participants, *(speaker for _, speaker, _ in read)]
    people = frozenset(word.casefold() for name in names for word in words(name))
    units: list[Sentence] = []
    for (child, speaker, said), turn in zip(read, _turns(read), strict=True):
        whole = lines and count_words(said) <= WHOLE_WORDS
        for text in [said] if whole else [piece.text for piece in split_sentences(said)]:
            told = _telling(text, people) if lines else text
            units.append(sentence_of(len(units), child, turn, speaker, told, people))
    return units


@lru_cache(maxsize=4_096)
def _telling(text: str, people: frozenset[str]) -> str:
    """Return the sentences of a line that tell something; all if none does. Remembered, as a line is read on each level."""
    parts = [piece.text for piece in split_sentences(text)]
    if len(parts) <= 1:
        return text
    telling = [part for part in parts if sentence_of(0, 0, 0, "", part, people).tells]
    return " ".join(telling) if telling and len(telling) < len(parts) else text


def _read(inputs: Sequence[str]) -> list[str]:
    """Return the lines of the inputs that are not blank, within `MAX_INPUTS` and `MAX_CHARS`."""
    texts = [text for text in inputs if text.strip()]
    if len(texts) > MAX_INPUTS:
        step = (len(texts) - 1) / (MAX_INPUTS - 1)
        texts = [texts[round(index * step)] for index in range(MAX_INPUTS)]
    share = MAX_CHARS // max(1, len(texts)) if sum(map(len, texts)) > MAX_CHARS else MAX_CHARS
    read: list[str] = []
    for text in texts:
        text = text if len(text) <= 2 * share else f"{text[:share]}\n{text[-share:]}"
        lines = [" ".join(shorten_runs(line).split()) for line in text.splitlines()]
        pieces = [line for line in lines if line]
        if sum(map(len, pieces)) > share:  # whole sentences from both ends
            pieces = [
                f"{speaker}: {piece.text}" if speaker else piece.text
                for speaker, said in map(speaker_of, pieces)
                for piece in split_sentences(said)
            ]
            pieces = [pieces[at] for at in sorted(_from_both_ends([len(piece) for piece in pieces], share))]
        read.append("\n".join(pieces))
    return read


def _from_both_ends(sizes: Sequence[int], share: int) -> Set[int]:
    """Return the positions that fit within so many characters: the last, the first, the last but one and so on."""
    taken: set[int] = set()
    half = (len(sizes) + 1) // 2
    order = zip_longest(range(len(sizes) - 1, half - 1, -1), range(half))
    for at in (place for pair in order for place in pair if place is not None):
        if sizes[at] <= share:
            taken.add(at)
            share -= sizes[at]
    return taken or ({len(sizes) - 1} if sizes else set())


def _lines(units: Sequence[Sentence]) -> str:
    return "\n".join(f"{one.speaker}: {one.text}" if one.speaker else one.text for one in units)


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
        """Return the maker that is stored with a request's summary; records of levels with a prompt have their own."""
        return MAKER if request.prompt else self.name

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str]:
        """Return one summary per request, in order; the batch runs in one worker thread."""
        return await asyncio.to_thread(list, map(self.summarise_one, requests))

    def summarise_one(self, request: SummaryRequest) -> str:
        """Return the summary of one node, at most ``request.max_words`` words (see `count_words`).

        It holds the children's own sentences in time order, without those of the history; a line for each run of one
        speaker, with the name. One child that fits is returned as it is, where that may be; no input, blank inputs or
        ``max_words <= 0`` give an empty string. A request of a level with a prompt of its own gets a record (`record_of`).
        """
        if request.prompt:
            return record_of(request)
        stretch = request.kind == _STRETCH
        inputs = [text.strip() for text in request.inputs if text.strip()]
        if not inputs or request.max_words <= 0:
            return ""
        alone = len(inputs) == 1 and request.summarise == "kept" and not request.history
        if alone and count_words(kept := shorten_runs(inputs[0])) <= request.max_words:
            return kept
        known = {key_of(one) for one in _units(request.history)}
        said = _units(inputs)
        said = _distinct(_joined(said) if stretch else said)
        said = [one for one in said if key_of(one) not in known] or said
        said = [one for one in said if one.tells] or said
        if sum(one.words for one in said) <= request.max_words:
            return _render(said)
        most = request.max_words  # of a unit that has no room, those of its sentences that tell
        fitting = [
            one
            for unit in said
            for one in ((unit,) if unit.words <= most else unit.parts)
            if one is unit or (one.tells and one.words <= most)
        ]
        if not fitting:
            return cut_words(_render(said[-1:]), request.max_words)
        return _render(_chosen(fitting, request.max_words))


def _turns(lines: Sequence[tuple[int, str, str]]) -> Iterator[int]:
    """Yield the number of each line's turn; a line without a speaker goes on with that of its child."""
    turn, before, who = -1, -1, ""
    for child, speaker, _ in lines:
        if (speaker and speaker != who) or (not speaker and child != before):
            turn, who = turn + 1, speaker
        before = child
        yield max(turn, 0)


def _joined(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences in order, an answer together with what it answers in the turn right before it, as one.

    If that says too little as well ("Since when?"), the sentence before it is joined, too.
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
    """Return the sentence of a turn that may be an answer: the first that says something, else a yes or no."""
    telling = (one for one in turn[:3] if not one.asks and one.reason not in _REMARKS)
    return next(telling, next((one for one in turn[:1] if is_yes_no_answer(one.text)), None))


def _lead(made: Sequence[Sentence], turn: int) -> int | None:
    """Return the place of the sentence that a turn replies to: the question at the end of the turn before, else its last."""
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
    """Return an answer joined with its lead and the context of that; these are removed from `made`."""
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
    """Return sentences with as many of `more` before them as may be joined; the rest goes back to `made`."""
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
