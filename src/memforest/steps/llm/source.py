"""A chunk prepared for checking statements against it: its turns, words, numbers and dates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import takewhile

from memforest.calendar import DateSpan, find_dates
from memforest.interval import Interval, local_time
from memforest.language.dating import date_languages
from memforest.language.entities import names_inside
from memforest.language.language import Code, detect_language
from memforest.language.participants import is_assistant
from memforest.language.sentences import split_sentences
from memforest.steps.llm.chatter import is_order
from memforest.steps.llm.clauses import Clause, forms_of, is_question, split_clauses
from memforest.steps.llm.figures import Figure, figures, fractions
from memforest.text import (
    DATA_RUN,
    entity_key,
    fold,
    lexical_words,
    shorten_runs,
    strip_accents,
    words,
)
from memforest.types import Chunk, Turn

MAX_TURN_CHARS = 20_000
"""Characters of a turn that are read, as by the local extractor."""

NOUN_CHARS = 4
"""How much of two nouns is compared: "boats", "boat"."""

_JOINED = re.compile(r"\w{1,20}(?:-\w{1,20})+")  # "Wi-Fi" may be "wifi"
_TELLING_WORDS = 6
_TELLING_CHARS = 4
"""Shorter words are too many to tell another one by its beginning."""
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class SourceTurn:
    """One turn prepared for checks: its language, the forms of its words, and the dates that it states."""

    turn: Turn
    text: str
    told: str
    """The text up to the first order to its reader: that, and what it orders, are evidence of nothing."""
    folded: str
    """`told` as `folded` makes it, for finding phrases in it."""
    language: Code
    sentences: tuple[tuple[str, frozenset[str]], ...]
    """Each sentence with its forms; see `forms_of`."""
    spelt: tuple[tuple[frozenset[str], tuple[Figure, ...]], ...]
    """The words and numbers of each sentence; see `plain_words`."""
    clauses: tuple[Clause, ...]
    """Those of its sentences that are no questions."""
    dates: tuple[DateSpan, ...]
    """Also those of which it is in doubt which days they mean."""

    @property
    def forms(self) -> frozenset[str]:
        """The forms of all of it."""
        return frozenset(form for _, forms in self.sentences for form in forms)

    @property
    def by_assistant(self) -> bool:
        """Whether an AI assistant says it."""
        return is_assistant(self.turn.speaker, self.turn.role)

    @property
    def has_order(self) -> bool:
        """Whether it gives an order to its reader."""
        return self.told != self.text

    @property
    def only_asks(self) -> bool:
        """Whether it ends with a question and has no other sentence."""
        text = self.text.rstrip(" \"'”’»)")
        return text.endswith(("?", "？", "؟")) and not any(mark in text for mark in ".!。！\n")


@dataclass(frozen=True, slots=True)
class Source:
    """A chunk, and what may stand in a statement about it.

    `said` holds the turns to read, by ordinal, `context` those before, which say what "it" and "there" are. `words` (by
    their first three letters) and `numbers` (readings, see `figures`) are those of all of it, of the participants' names and
    of the years meant. `stems` are the content words.
    """

    said: Mapping[int, SourceTurn]
    context: tuple[SourceTurn, ...]
    participants: Mapping[str, str]
    """Entity key -> display name."""
    zone: tzinfo
    language: Code
    """Of the chunk as a whole."""
    words: Mapping[str, frozenset[str]]
    numbers: frozenset[str]
    days: frozenset[str]
    """The numbers of the days and months that are meant, or on which it is said."""
    counted: Mapping[str, frozenset[str]]
    """How many there are said to be: the beginning of a noun -> readings of the numbers in front of it."""
    stems: frozenset[str]
    own: frozenset[str]
    """The content words of the chunk itself, and of a question that it begins by answering."""
    names: frozenset[str]
    """Lower-case words that are names, by their capitals inside a sentence."""
    stated: tuple[Interval, ...]
    """The days that are named, or may be meant, each once."""
    day_first: bool | None
    """Whether numeric dates have the day first; None is not known."""

    @property
    def everything(self) -> tuple[SourceTurn, ...]:
        """The turns before, and the chunk's."""
        return (*self.context, *self.said.values())

    def before(self, turn: SourceTurn) -> SourceTurn | None:
        """Return the turn before one of the chunk's, None if none is shown."""
        everything = self.everything
        at = next(at for at, one in enumerate(everything) if one is turn)
        return everything[at - 1] if at else None

    def is_translated(self, language: Code, supports: Sequence[SourceTurn]) -> bool:
        """Return whether a language is another one than that of the chunk, and of the turns that a statement rests on.

        That of a short turn is a guess, and tells nothing. An order to the reader counts: a model that obeys it writes
        in its language.
        """
        own = {one.language for one in supports if len(words(one.text)) >= _TELLING_WORDS}
        return language not in (own | {self.language})

    @property
    def assistants(self) -> frozenset[str]:
        """Names of the AI assistants that speak."""
        return frozenset(one.turn.speaker for one in self.everything if one.by_assistant)


def read_source(chunk: Chunk, zone: tzinfo) -> Source:
    """Return what a chunk says. Turns that are blank or no language are not among `Source.said`."""
    said = {
        turn.ordinal: _read(turn, zone, chunk.day_first) for turn in chunk.turns if is_readable(turn.text)
    }
    context = tuple(_read(turn, zone, chunk.day_first) for turn in chunk.before if is_readable(turn.text))
    people = tuple(
        dict.fromkeys((*chunk.participants, *(turn.speaker for turn in (*chunk.before, *chunk.turns))))
    )
    everything = (*context, *said.values())
    found = [one for name in people for one in figures(name)]
    found += [one for turn in everything for _, numbers in turn.spelt for one in numbers]
    years, days = _days(everything, zone)
    told = [*said.values(), *(one for one in context[-1:] if is_question(one.text))]
    return Source(
        said=said,
        context=context,
        participants={key: name for name in people if (key := entity_key(name)) is not None},
        zone=zone,
        language=detect_language("\n".join(one.text[:400] for one in said.values())),
        words=_by_beginning((*people, *(one.told for one in everything))),
        numbers=years.union(*(one.readings for one in found), *(fractions(one.told) for one in everything)),
        days=days,
        counted=_counted(found),
        stems=frozenset(
            token
            for one in everything
            for word, tokens in lexical_words(one.told)
            if len(word) >= _TELLING_CHARS
            for token in tokens
        ),
        own=frozenset(form for one in told for form in one.forms),
        stated=tuple(
            dict.fromkeys(days for one in everything for span in one.dates for days in span.readings)
        ),
        day_first=chunk.day_first,
        names=names_inside(" . ".join(one.told[:4000] for one in everything)),
    )


def people_forms(source: Source) -> frozenset[str]:
    """Return the forms of the participants' names, which support nothing: everything is about them."""
    return frozenset(form for name in source.participants.values() for form in forms_of(name))


def is_readable(text: str) -> bool:
    """Return whether a turn has words at all, beside runs of data."""
    return any(ch.isalnum() for ch in DATA_RUN.sub(" ", text)[:MAX_TURN_CHARS])


def _read(turn: Turn, zone: tzinfo, day_first: bool | None) -> SourceTurn:
    text = shorten_runs(turn.text)[:MAX_TURN_CHARS]
    pieces = [piece.text for piece in split_sentences(text)]
    told = list(takewhile(lambda piece: not is_order(piece), pieces))  # what follows is what it orders
    plain = text if len(told) == len(pieces) else "\n".join(told)
    language = detect_language(text)
    dates = dates_of(plain, language, turn.said, zone, day_first)
    sentences = tuple((piece, forms_of(piece)) for piece in told)
    clauses = tuple(clause for piece in told if not is_question(piece) for clause in split_clauses(piece))
    spelt = tuple((frozenset(plain_words(piece)), figures(piece)) for piece in told)
    return SourceTurn(turn, text, plain, folded(plain), language, sentences, spelt, clauses, dates)


def dates_of(
    text: str, language: Code, said: datetime, zone: tzinfo, day_first: bool | None, *, beside: str = ""
) -> tuple[DateSpan, ...]:
    """Return the dates that a text states, those in doubt included.

    They are read in the words of its own language first, which the text `beside` it may tell, too. A short turn's language
    is a guess, and what is found here is used only where the model points at it.
    """
    own = date_languages(f"{text}\n{beside}", language)
    others = () if language == "other" else ("en", "es")
    languages = tuple(dict.fromkeys((*own, *others)))
    return tuple(find_dates(text, said, zone, languages, day_first=day_first, doubtful=True))


def folded(text: str) -> str:
    """Return a text in the form in which `stands_in` compares it."""
    return fold(text).replace("’", "'")


def stands_in(phrase: str, text: str) -> bool:
    """Return whether a phrase stands in a text, both `folded`, as whole words where the script has them.

    >>> stands_in("al", "al is also here"), stands_in("al", "also here"), stands_in("東京", "昨日東京に行った")
    (True, False, True)
    """
    at = text.find(phrase) if phrase else -1
    while at >= 0:
        end = at + len(phrase)
        if not (_is_joined(text, at) or _is_joined(text, end)):
            return True
        at = text.find(phrase, at + 1)
    return False


def _is_joined(text: str, at: int) -> bool:
    """Return whether a word goes on at a position; in scripts without spaces none does."""
    before, behind = text[at - 1 : at], text[at : at + 1]
    return before.isalnum() and behind.isalnum() and before < "\u2e80" and behind < "\u2e80"


def _by_beginning(texts: Iterable[str]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for text in texts:
        for word in (*plain_words(text), *("".join(plain_words(one)) for one in _JOINED.findall(text))):
            found.setdefault(word[:3], set()).add(word)
    return {key: frozenset(several) for key, several in found.items()}


def plain_words(text: str) -> list[str]:
    """Return the words of a text without case, accents and possessive."""
    found = (strip_accents(word.casefold()).replace("’", "'") for word in words(text))
    return [word.removesuffix("'s") for word in found]


def _counted(found: Iterable[Figure]) -> Mapping[str, frozenset[str]]:
    counted: dict[str, frozenset[str]] = {}
    for one in found:
        if forms_of(one.noun):
            noun = one.noun[:NOUN_CHARS]
            counted[noun] = counted.get(noun, frozenset()) | one.readings
    return counted


def _days(everything: Sequence[SourceTurn], zone: tzinfo) -> tuple[frozenset[str], frozenset[str]]:
    """Return the years of the days that are meant or on which it is said, and the numbers of their months and days."""
    days = [one.turn.said for one in everything]
    for meant in (dates.interval for one in everything for dates in one.dates if dates.decided):
        days += [meant.start, *([meant.end - timedelta(microseconds=1)] if meant.end else [])]
    local = [local_time(day, zone) for day in days]
    return (
        frozenset(str(day.year) for day in local),
        frozenset(str(part) for day in local for part in (day.month, day.day)),
    )


def show_time(said: datetime, zone: tzinfo) -> str:
    """Return when something was said, with the day of the week: "last Friday" is counted from it.

    Without a locale: the names of strftime would follow the process's.
    """
    local = local_time(said, zone)
    return f"{_WEEKDAYS[local.weekday()]} {local:%Y-%m-%d %H:%M}"
