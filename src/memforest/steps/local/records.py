"""Records of a calendar's levels and of consolidated memories without a model: statements, whole sentences, or the lines of a profile.

- A segment holds the statements that its turns support; where none does, what was said, in whole sentences.
- A session, day or week holds whole sentences of what is below it, in its order, a statement a line: first of all the first and
  the last that tell of something that changed ("Ana lives in Porto", "Ana moved to Lisbon"), then what adds most, where a word
  counts less that a record before this one has told. Where no change is read, the first and the last thing told are kept.
- A memory, which is consolidated of things that are alike, is made as a session is; one thing alone stands as it is.
- A profile holds the lines that its request brings, by participant.

Nothing is cut within a sentence, but where not one sentence of all fits. Changes are read in English and Spanish
(`memforest.language.states`) and questions and pleasantries are known in English; in another language the rest holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

from memforest.language.counting import count_words, cut_words
from memforest.language.sentences import split_sentences
from memforest.language.states import find_states
from memforest.language.telling import UNSPECIFIED, holds_many
from memforest.profiles import join_sections
from memforest.profiles import split_sections as sections_of
from memforest.steps.base import Kept
from memforest.steps.local.coverage import MAX_READ_CHARS, Sentence, covering, key_of, sentence_of, speaker_of
from memforest.text import fold, shorten_runs, words
from memforest.types import SummaryRequest

MAKER = "local-records-1"
"""What records are stored as made by; another number for whatever changes their texts."""
MAX_INPUTS = 256
"""Inputs read of one request; of more, evenly spaced ones, with the first and the last."""
MAX_CHARS = 64_000
"""Characters read of all inputs together; of a longer input, whole sentences from its beginning and its end."""
WHOLE_WORDS = 40
"""Words up to which a line stands or goes as one: what it says in several sentences is said of one thing."""
STATES_SHARE = 2 / 3
"""Share of a record's words that the first and the last of what changed may take."""
MOST_READ = 512
"""Lines in which changes are looked for; of more, those with a name or a number that is rare."""


def record_of(request: SummaryRequest) -> Kept:
    """Return the record of a level's request, at most ``request.max_words`` words; what has nothing to tell gives ""."""
    if request.max_words <= 0:
        return Kept()
    if request.prompt == "memory":
        return Kept(_memory(request))
    if request.prompt == "profile":
        return Kept(_profile(request))
    if request.prompt == "segment":
        return Kept(_segment(request))
    return Kept(_chosen(request.inputs, request))


def _memory(request: SummaryRequest) -> str:
    """Return what is alike in whole sentences; of one text alone all of it, if it fits."""
    told = [text.strip() for text in request.inputs if text.strip()]
    if len(told) == 1 and len(told[0]) <= MAX_CHARS and count_words(told[0]) <= request.max_words:
        return told[0]
    return _chosen(request.inputs, request)


def _segment(request: SummaryRequest) -> str:
    """Return the statements of a segment, else its turns: all of it if it fits."""
    texts = request.statements if any(map(str.strip, request.statements)) else request.inputs
    lines = [" ".join(line.split()) for text in texts for line in text.splitlines()]
    whole = "\n".join(dict.fromkeys(filter(None, lines)))
    if len(whole) <= MAX_CHARS and count_words(whole) <= request.max_words:
        return whole
    return _chosen(texts, request)


# -- profiles -------------------------------------------------------------------------------------


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
    lines = [one for one in _units(request.inputs, request.participants) if one.tells]
    share = request.max_words // max(1, len(request.participants))
    found = []
    for name in request.participants:
        own = [one for one in lines if fold(one.speaker) == fold(name)]
        chosen = sorted(covering(own, (), share), key=lambda one: one.place)
        found.append((name, [one.text for one in chosen]))
    return found


def most_telling(texts: Sequence[str], most: int) -> list[int]:
    """Return the positions of the texts that tell most within so many words, ascending; questions only beside nothing else.

    A text of more than two thirds of these words is not among them.
    """
    units = [
        sentence_of(at, at, at, "", " ".join(text.split()), frozenset()) for at, text in enumerate(texts)
    ]
    units = [one for one in units if one.words and 3 * one.words <= 2 * most]
    telling = [one for one in units if one.tells] or units
    return sorted(one.place for one in covering(telling, (), most))


# -- choosing -------------------------------------------------------------------------------------


def _chosen(inputs: Sequence[str], request: SummaryRequest) -> str:
    """Return whole sentences of some texts, those that are new and tell most, a line each."""
    most = request.max_words
    units = _distinct(_units(inputs, request.participants))
    if not units:
        return ""
    before = _units(request.history, request.participants)
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
    """Return what stands in a record in any case: of all that changed the last and the first that tell it.

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


@dataclass(slots=True)
class _Line:
    """The first and the last that tell of one attribute of somebody, the values, and whether a change is told outright."""

    first: Sentence
    last: Sentence
    values: list[str]
    told: bool


def _changes(units: Sequence[Sentence], participants: Sequence[str]) -> Iterator[tuple[Sentence, Sentence]]:
    """Yield the first and the last that tell of each attribute that had more than one value, or began or ended."""
    names = tuple(dict.fromkeys([*participants, *(one.speaker for one in units if one.speaker)]))
    found: dict[tuple[str, str], _Line] = {}
    for one in _with_names(units):
        for state in find_states(one.text, subjects=names):
            if state.attribute == UNSPECIFIED or holds_many(state.attribute):
                continue
            key = (fold(state.entity), state.attribute)
            line = found.setdefault(key, _Line(one, one, [], told=False))
            line.last = one
            line.told |= state.change != "is" or state.previous is not None
            if not any(_alike(state.value, value) for value in line.values):
                line.values.append(state.value)
    for line in found.values():
        if line.told or len(line.values) > 1:
            yield line.first, line.last


def _with_names(units: Sequence[Sentence]) -> Sequence[Sentence]:
    """Return the units in which changes are looked for, in order."""
    if len(units) <= MOST_READ:
        return units
    telling = sorted(units, key=lambda one: (-len(one.named), one.place))[:MOST_READ]
    return sorted(telling, key=lambda one: one.place)


def _alike(one: str, other: str) -> bool:
    """Return whether the words of one value are among those of the other."""
    left, right = set(words(fold(one))), set(words(fold(other)))
    return left <= right or right <= left


# -- reading --------------------------------------------------------------------------------------


def _units(inputs: Sequence[str], participants: Collection[str]) -> list[Sentence]:
    """Return what texts say, in order: a short line as one, of a long one each sentence."""
    read = [
        (child, *speaker_of(line)) for child, text in enumerate(_read(inputs)) for line in text.splitlines()
    ]
    names = [*participants, *(speaker for _, speaker, _ in read)]
    people = frozenset(word.casefold() for name in names for word in words(name))
    found = [
        (child, speaker, text)
        for child, speaker, said in read
        for text in ([said] if count_words(said) <= WHOLE_WORDS else _sentences(said))
    ]
    return [_unit(place, child, speaker, text, people) for place, (child, speaker, text) in enumerate(found)]


def _sentences(text: str) -> list[str]:
    return [piece.text for piece in split_sentences(text)]


def _unit(place: int, child: int, speaker: str, text: str, people: frozenset[str]) -> Sentence:
    """Return a line without those of its sentences that tell nothing, if others do."""
    shorten = _telling if len(text) <= MAX_READ_CHARS else _telling.__wrapped__
    return sentence_of(place, child, 0, speaker, shorten(text, people), people)


@lru_cache(maxsize=4_096)
def _telling(text: str, people: frozenset[str]) -> str:
    """Return the sentences of a line that tell something; all if none does. Remembered, as a line is read on each level."""
    parts = _sentences(text)
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
    return [_within(text, share) for text in texts]


def _within(text: str, share: int) -> str:
    """Return a text with its white space folded, of a longer one than `share` whole sentences from both ends."""
    lines = [" ".join(shorten_runs(line[: 2 * MAX_CHARS]).split()) for line in text.splitlines()]
    lines = [line for line in lines if line]
    if sum(map(len, lines)) <= share:
        return "\n".join(lines)
    pieces = [
        f"{speaker}: {part}" if speaker else part
        for speaker, said in map(speaker_of, lines)
        for part in _sentences(said)
    ]
    return "\n".join(pieces[at] for at in sorted(_from_both_ends([len(piece) for piece in pieces], share)))


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


def _distinct(units: Sequence[Sentence]) -> list[Sentence]:
    """Return the units in order, of equal ones the last."""
    return sorted({key_of(one): one for one in units}.values(), key=lambda one: one.place)


def _lines(units: Sequence[Sentence]) -> str:
    return "\n".join(f"{one.speaker}: {one.text}" if one.speaker else one.text for one in units)
