"""A chunk prepared for checking statements against it: its turns, words, numbers and dates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from memforest.calendar import DateSpan, find_dates
from memforest.interval import Interval, local_time
from memforest.language.dating import date_languages
from memforest.language.entities import names_inside
from memforest.language.language import Code, detect_language
from memforest.language.sentences import split_sentences
from memforest.steps.llm.chatter import is_order
from memforest.text import (
    DATA_RUN,
    entity_key,
    fold,
    lexical_tokens,
    numbers,
    shorten_runs,
    strip_accents,
    words,
)
from memforest.types import Chunk, Turn

__all__ = [
    "MAX_TURN_CHARS",
    "Source",
    "SourceTurn",
    "dates_of",
    "forms_of",
    "is_readable",
    "plain_words",
    "read_source",
    "show_time",
]

MAX_TURN_CHARS = 20_000
"""Characters of a turn that are read, as by the local extractor."""

_FORM_CHARS = 5
_ROLE_ASSISTANTS = frozenset(("assistant", "ai", "bot", "model"))
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class SourceTurn:
    """One turn prepared for checks: its language, the forms of its words, and the dates that it states."""

    turn: Turn
    text: str
    told: str
    """The text without orders to its reader, which are evidence of nothing."""
    folded: str
    """`told` as `folded` makes it, for finding phrases in it."""
    language: Code
    sentences: tuple[tuple[str, frozenset[str]], ...]
    """Each sentence with its forms; see `forms_of`."""
    dates: tuple[DateSpan, ...]
    """Also those of which it is in doubt which days they mean."""

    @property
    def forms(self) -> frozenset[str]:
        """The forms of all of it."""
        return frozenset(form for _, forms in self.sentences for form in forms)

    @property
    def by_assistant(self) -> bool:
        """Whether an AI assistant says it."""
        return (self.turn.role or self.turn.speaker).lower() in _ROLE_ASSISTANTS

    @property
    def only_asks(self) -> bool:
        """Whether it ends with a question and has no other sentence."""
        text = self.text.rstrip(" \"'”’»)")
        return text.endswith(("?", "？", "؟")) and not any(mark in text for mark in ".!。！\n")


@dataclass(frozen=True, slots=True)
class Source:
    """A chunk, and what may stand in a statement about it.

    `said` holds the turns to read, by ordinal, `context` those before. `words` (by their first three letters) and
    `numbers` are those of all of it, of the participants' names and of the dates meant. `forms` are the content
    words of the chunk itself, and of a question that it begins by answering; see `forms_of`.
    """

    said: Mapping[int, SourceTurn]
    context: tuple[SourceTurn, ...]
    participants: Mapping[str, str]
    """Entity key -> display name."""
    zone: tzinfo
    words: Mapping[str, frozenset[str]]
    numbers: frozenset[str]
    forms: frozenset[str]
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
    told = list(said.values())
    if context and context[-1].text.rstrip().endswith(("?", "？", "؟")):
        told.append(context[-1])  # a bare answer takes its words from the question
    return Source(
        said=said,
        context=context,
        participants={key: name for name in people if (key := entity_key(name)) is not None},
        zone=zone,
        words=_by_beginning((*people, *(one.told for one in everything))),
        numbers=frozenset(_numbers(everything, people, zone)),
        forms=frozenset(form for one in told for form in one.forms),
        stated=tuple(
            dict.fromkeys(days for one in everything for span in one.dates for days in span.readings)
        ),
        day_first=chunk.day_first,
        names=names_inside(" . ".join(one.told[:4000] for one in everything)),
    )


def is_readable(text: str) -> bool:
    """Return whether a turn has words at all, beside runs of data."""
    return any(ch.isalnum() for ch in DATA_RUN.sub(" ", text)[:MAX_TURN_CHARS])


def _read(turn: Turn, zone: tzinfo, day_first: bool | None) -> SourceTurn:
    text = shorten_runs(turn.text)[:MAX_TURN_CHARS]
    pieces = [piece.text for piece in split_sentences(text)]
    told = [piece for piece in pieces if not is_order(piece)]
    plain = text if len(told) == len(pieces) else "\n".join(told)
    language = detect_language(text)
    dates = dates_of(plain, language, turn.said, zone, day_first)
    sentences = tuple((piece, forms_of(piece)) for piece in told)
    return SourceTurn(turn, text, plain, folded(plain), language, sentences, dates)


def dates_of(
    text: str, language: Code, said: datetime, zone: tzinfo, day_first: bool | None
) -> tuple[DateSpan, ...]:
    """Return the dates that a text states, those in doubt included.

    They are read in the words of its own language first. A short turn's language is a guess, and what is found here is
    used only where the model points at it.
    """
    own = date_languages(text, language)
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


def forms_of(text: str) -> frozenset[str]:
    """Return the content words of a text, cut to what forms of one word share: "relocate", "relocation".

    >>> sorted(forms_of("Relocating costs 640 euros")), sorted(forms_of("A relocation, at the cost of 640 euro"))
    (['640', 'cost', 'euro', 'reloc'], ['640', 'cost', 'euro', 'reloc'])
    """
    return frozenset(token if token[0].isdigit() else token[:_FORM_CHARS] for token in lexical_tokens(text))


def _by_beginning(texts: Iterable[str]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for text in texts:
        for word in plain_words(text):
            found.setdefault(word[:3], set()).add(word)
    return {key: frozenset(several) for key, several in found.items()}


def plain_words(text: str) -> list[str]:
    """Return the words of a text without case, accents and possessive."""
    found = (strip_accents(word.casefold()).replace("’", "'") for word in words(text))
    return [word.removesuffix("'s") for word in found]


def _numbers(everything: Sequence[SourceTurn], people: Iterable[str], zone: tzinfo) -> Iterable[str]:
    """Yield the numbers that are said, and those of the days that are meant or on which it is said."""
    for text in (*people, *(one.told for one in everything)):
        yield from numbers(text)
    days_meant = [one.turn.said for one in everything]
    for one in everything:
        for span in one.dates:
            starts = (days.start for days in span.readings)
            ends = (days.end - timedelta(microseconds=1) for days in span.readings if days.end)
            days_meant += [*starts, *ends]
    for day in days_meant:
        local = local_time(day, zone)
        for part in (local.year, local.month, local.day):
            yield from (str(part), f"{part:02d}")


def show_time(said: datetime, zone: tzinfo) -> str:
    """Return when something was said, with the day of the week: "last Friday" is counted from it.

    Without a locale: the names of strftime would follow the process's.
    """
    local = local_time(said, zone)
    return f"{_WEEKDAYS[local.weekday()]} {local:%Y-%m-%d %H:%M}"
