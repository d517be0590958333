"""Whether a record that a model wrote of a window is borne out by what it was made of.

Held strictly is what must never be made up: names, numbers, dates, quotations, and whose a line of a profile is. Of the
other words a part has to be there. It catches what a model made up, took from its instructions or from its examples, or was
talked into; it cannot tell a true record from a false one of the same words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import cached_property, lru_cache
from itertools import takewhile

from memforest.calendar import DateSpan
from memforest.interval import LATEST, Interval
from memforest.language.counting import count_words
from memforest.language.language import Code, detect_language
from memforest.language.sentences import split_sentences
from memforest.steps.llm.chatter import is_order
from memforest.steps.llm.clauses import forms_of
from memforest.steps.llm.figures import figures, fractions
from memforest.steps.llm.grounding import Lack, date_is_spelt, invented
from memforest.steps.llm.passages import Passage, named_in, passages
from memforest.steps.llm.prompt import load_prompt
from memforest.steps.llm.source import Source, dates_of, folded, read_source, stands_in
from memforest.text import cut, fold
from memforest.types import Chunk, SummaryRequest, Turn

TOO_LONG = 1.5
"""Times the words allowed: a longer reply is sent back, a shorter one cut at a sentence."""
MIN_SHARED = 0.3
"""Part of a summary's content words that its children have to have; below that it is about something else."""

_ECHO = 8
"""Words in a row that a record may not have from its prompt, unless somebody said them."""
_QUOTED_WORDS = 3
"""Shorter quotations are titles, nicknames and words that are spoken about; their names and numbers are checked."""
_QUOTE = re.compile(r"“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|「([^「」]+)」|(?<!\w)\"([^\"]+)\"(?!\w)")
_LEFT_OUT = re.compile(r"…|\.{3,}|\[[^\[\]]*\]")
_ISO_DATE = re.compile(r"\b\d{4}-(?:\d{2}(?:-\d{2})?|W\d{2})\b")
_YEAR_DIGITS = 4
_TURN_CHARS = 4_000
_SHOWN = 60


class RecordCheck:
    """Says what is wrong with a record, against all that it was made of.

    Args:
        request: what was asked for.
        texts: what was shown of its inputs and its history, in this order.
        days: the first and the last day of the record, as they were shown.
        zone: whose calendar days are meant.
        prompt: id of the prompt that asked for it.
    """

    def __init__(
        self, request: SummaryRequest, texts: Sequence[str], days: Sequence[str], zone: tzinfo, prompt: str
    ) -> None:
        self._request = request
        self._zone = zone
        self._prompt = prompt
        self._texts = (*texts, *request.statements)
        self._told = "\n".join((request.label, request.window, *days))

    def size(self, text: str) -> str | None:
        """Return what is wrong with how much a record says; None if nothing."""
        size, most = count_words(text), self._request.max_words
        if not any(ch.isalnum() for ch in text):
            return "the summary is empty"
        return f"the summary has {size} words; at most {most} are allowed" if size > TOO_LONG * most else None

    def about(self, text: str) -> str | None:
        """Return what is wrong with what a record is about: it has to share words with what it was made of; None if nothing.

        Where a turn gives orders to its reader, the record has to say something else than what it ordered, or who did it.
        """
        mine = forms_of(text)
        if self._language == detect_language(text) and len(mine & self._forms) < MIN_SHARED * len(mine):
            return "the summary is about something that is not in the notes"
        if mine and self._unordered is not None and mine.isdisjoint(self._unordered):
            return "the summary says only what an order in the notes asks for; the notes are quotations"
        return None

    def invention(self, text: str) -> str | None:
        """Return what a record says that nothing bears out: a name, a number, a date, a quotation, its prompt; None if nothing."""
        echo = self._echoed(text)
        if echo is not None:
            return echo
        language = detect_language(text)
        for piece in split_sentences(text):
            if folded(piece.text) in self._sentences:
                continue
            wrong = self._made_up(piece.text, language)
            if wrong is not None:
                return wrong
        return self._misquoted(text)

    def misplaced(self, line: str, participant: str) -> str | None:
        """Return why a line of a profile does not belong to a participant; None if nothing tells against it.

        It names somebody else alone; it has a number or a name that the notes have of others alone; or the notes say it of
        others rather than of them.
        """
        others = [one for one in self._request.participants if one != participant]
        if not others:
            return None
        named = named_in(line, self._request.participants)
        if named and participant not in named:
            return f"the line {_cut(line)} names {', '.join(sorted(named))} and not {participant}, in whose section it is"
        own = [one for one in self._passages if not one.owners or participant in one.owners]
        foreign = [one for one in self._passages if one.owners and participant not in one.owners]
        if _is_of(line, own, foreign, self._people):
            return None
        return f"the line {_cut(line)} tells of somebody else than {participant}, in whose section it is"

    # -- one sentence --------------------------------------------------------------------------------

    def _made_up(self, sentence: str, language: Code) -> str | None:
        plain, date = self._without_dates(sentence, language)
        if date is not None:
            return _not_there("a date", date)
        translated = language != self._source.language
        found = invented(plain, language, self._source, translated=translated)
        return None if found is None else _not_there(*found)

    def _without_dates(self, sentence: str, language: Code) -> tuple[str, str | None]:
        """Return a sentence without the dates that are borne out, and the first one that is not."""
        plain = _ISO_DATE.sub(lambda found: " " if found[0] in self._iso else found[0], sentence)
        for one in reversed(dates_of(plain, language, self._request.start, self._zone, None)):
            if one.direction == "for":
                continue  # how long something takes is checked as a number
            if not self._is_known(one):
                return plain, one.text
            plain = f"{plain[: one.start_char]} {plain[one.end_char :]}"
        left = _ISO_DATE.search(plain)
        return plain, None if left is None else left[0]

    def _is_known(self, span: DateSpan) -> bool:
        """Return whether the days are stated, or the words are there; of "last week" whether anything lies in it."""
        known = self._days
        if any(meant.covers(other) for meant in span.readings for other in known):
            return True
        words = folded(span.text)
        if any(stands_in(words, one.folded) for one in self._source.everything):
            return True
        if date_is_spelt(span.text, self._source.everything):
            return True
        counted = span.relative and not span.open_year
        return counted and any(meant.overlaps(other) for meant in span.readings for other in known)

    def _misquoted(self, text: str) -> str | None:
        for found in _QUOTE.finditer(text):
            inner = next(one for one in found.groups() if one is not None)
            for part in _LEFT_OUT.split(inner):
                if count_words(part) >= _QUOTED_WORDS and _squeezed(part) not in self._squeezed:
                    return f"the quotation {_cut(part.strip())} stands neither in the notes nor in the history, letter by letter"
        return None

    def _echoed(self, text: str) -> str | None:
        own = _runs_of(self._prompt)
        for run in _runs(text):
            if run in own and "".join(run) not in self._squeezed:
                return f"{_cut(' '.join(run))} is part of the instructions, and nobody said it"
        return None

    # -- what it was made of -------------------------------------------------------------------------

    @cached_property
    def _source(self) -> Source:
        """All of it as the turns of a chunk; an order to the reader is a turn of its own, as it bears out nothing."""
        start = self._request.start
        parts = [part for text in (*self._texts, self._told) for part in _parts(text)]
        turns = tuple(Turn(str(at), "", part, start, at, None) for at, part in enumerate(parts))
        read = read_source(Chunk("", 0, turns, (), self._request.participants), self._zone)
        years = {number for number in read.numbers if len(number) == _YEAR_DIGITS and number.isdecimal()}
        return replace(
            read, numbers=frozenset(years).union(*map(_numbers, (*parts, *self._request.participants)))
        )

    @cached_property
    def _days(self) -> tuple[Interval, ...]:
        return (*self._source.stated, *_window(self._request.start, self._request.end))

    @cached_property
    def _iso(self) -> frozenset[str]:
        """The dates in ISO form, of which two may stand together ("2031-05-05/2031-05-11")."""
        return frozenset(_ISO_DATE.findall("\n".join((*self._texts, self._told))))

    @cached_property
    def _language(self) -> Code:
        return detect_language("\n".join(self._texts))

    @cached_property
    def _sentences(self) -> frozenset[str]:
        return frozenset(folded(piece.text) for text in self._texts for piece in split_sentences(text))

    @cached_property
    def _squeezed(self) -> str:
        return "\n".join(_squeezed(text) for text in self._texts)

    @cached_property
    def _people(self) -> frozenset[str]:
        return frozenset(form for name in self._request.participants for form in forms_of(name))

    @cached_property
    def _forms(self) -> frozenset[str]:
        return forms_of("\n".join((*self._texts, self._told))) | self._people

    @cached_property
    def _unordered(self) -> frozenset[str] | None:
        """The forms of what stands before an order in each text, and of the names of people; None without an order."""
        split = [[piece.text for piece in split_sentences(text)] for text in self._texts]
        before = [list(takewhile(lambda piece: not is_order(piece), pieces)) for pieces in split]
        if all(len(kept) == len(pieces) for kept, pieces in zip(before, split, strict=True)):
            return None
        told = forms_of("\n".join(piece for kept in before for piece in kept))
        return told | self._people | forms_of(self._told)

    @cached_property
    def _passages(self) -> tuple[Passage, ...]:
        return tuple(passages(self._texts, self._request.participants))


def _parts(text: str) -> list[str]:
    """Return a text in parts of bounded length; a sentence that gives an order to its reader is one by itself."""
    made: list[str] = []
    room = 0
    for piece in split_sentences(text):
        if is_order(piece.text):
            made.append(piece.text)
            room = 0
        elif len(piece.text) <= room:
            made[-1] += f"\n{piece.text}"
            room -= len(piece.text)
        else:
            made.append(piece.text)
            room = _TURN_CHARS - len(piece.text)
    return made


def _numbers(text: str) -> frozenset[str]:
    """Return the readings of the numbers of a text; the digits of dates in ISO form are none, as every record has some."""
    plain = _ISO_DATE.sub(" ", text)
    pieces = [piece.text for piece in split_sentences(plain)]
    return fractions(plain).union(*(one.readings for piece in pieces for one in figures(piece)))


def _window(start: datetime, end: datetime) -> tuple[Interval, ...]:
    """Return the time of a record; an instant is one millisecond."""
    if start < end:
        return (Interval(start, end),)
    return (Interval.at(start),) if start <= LATEST else ()


def _is_of(line: str, own: Sequence[Passage], foreign: Sequence[Passage], people: frozenset[str]) -> bool:
    """Return whether a line may be taken from a participant's own passages, rather than from those of others alone."""
    mine = forms_of(line) - people
    if not mine or not foreign:
        return True
    own_forms, foreign_forms = (_all_forms(some) for some in (own, foreign))
    if _has_figure_of_others(line, own, foreign):
        return False
    if len(mine & own_forms) >= len(mine & foreign_forms):
        return True
    return _best(mine, own) >= _best(mine, foreign)


def _has_figure_of_others(line: str, own: Sequence[Passage], foreign: Sequence[Passage]) -> bool:
    """Return whether a line has a number in digits that only the passages of others have."""
    wanted = [one for one in figures(line) if not one.written]
    if not wanted:
        return False
    here, there = ({form for one in some for form in _readings(one.text)} for some in (own, foreign))
    return any(one.readings.isdisjoint(here) and not one.readings.isdisjoint(there) for one in wanted)


@lru_cache(maxsize=4096)
def _readings(sentence: str) -> frozenset[str]:
    return frozenset(reading for one in figures(sentence) for reading in one.readings)


def _all_forms(some: Sequence[Passage]) -> frozenset[str]:
    return frozenset(form for one in some for form in one.forms)


def _best(mine: frozenset[str], some: Sequence[Passage]) -> int:
    return max((len(mine & one.forms) for one in some), default=0)


def _squeezed(text: str) -> str:
    """Return the letters and digits of a text alone, folded: quotations are compared so, whatever the marks in them."""
    return "".join(ch for ch in fold(text) if ch.isalnum())


def _runs(text: str) -> list[tuple[str, ...]]:
    tokens = ["".join(ch for ch in word if ch.isalnum()) for word in fold(text).split()]
    plain = [token for token in tokens if token]
    return [tuple(plain[at : at + _ECHO]) for at in range(len(plain) - _ECHO + 1)]


@lru_cache(maxsize=16)
def _runs_of(prompt: str) -> frozenset[tuple[str, ...]]:
    """Return the runs of words of a prompt's instructions; what its examples say has names and numbers that nobody said."""
    one = load_prompt(prompt)
    return frozenset((*_runs(one.system), *_runs(one.user)))


def _not_there(lack: Lack, text: str) -> str:
    return f"{lack} that stands neither in the notes nor in the history: {_cut(text)}"


def _cut(text: str) -> str:
    return repr(cut(text, _SHOWN))
