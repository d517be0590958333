"""Prepares a chunk for checks of facts against it: what each turn says, and the words, numbers and dates of all of them.

An order to the reader, and what stands behind it in its turn, supports nothing. A sentence of a record belongs to its speaker,
to the participants it names or continues about, or to the owner of its section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal
from itertools import takewhile

from memforest.reading.date_phrases import DateSpan, find_dates
from memforest.reading.entities import is_assistant, names_inside
from memforest.reading.reply_text import (
    Clause,
    figures,
    folded,
    forms_of,
    is_order,
    is_question,
    split_clauses,
    stands_in,
)
from memforest.reading.timestamps import date_languages
from memforest.reading.tokens import Code, detect_language, split_sentences
from memforest.records import Chunk, Turn
from memforest.text import DATA_RUN, entity_key, lexical_tokens, shorten_runs, strip_accents, words
from memforest.times import Interval, local_time

MAX_TURN_CHARS = 20_000
"""Characters of a turn that are read, as by the local extractor."""

_TELLING_WORDS = 6
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class SourceTurn:
    """A turn prepared for checks: its language, the forms of its words, and its dates."""

    turn: Turn
    text: str
    told: str
    """The text up to the first order to its reader; an order and the words behind it support nothing."""
    folded: str
    """`told` as `folded` makes it, for finding phrases in it."""
    language: Code
    sentences: tuple[tuple[str, frozenset[str]], ...]
    """Each sentence with its forms; see `forms_of`."""
    clauses: tuple[Clause, ...]
    """The clauses of its sentences that are no questions."""
    dates: tuple[DateSpan, ...]
    """Doubtful dates included."""

    @property
    def forms(self) -> frozenset[str]:
        """The forms of all its words."""
        return frozenset(form for _, forms in self.sentences for form in forms)

    @property
    def by_assistant(self) -> bool:
        """Whether the speaker is an AI assistant."""
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
class ChunkSource:
    """A chunk, and the words, numbers and dates that a fact about it may have.

    `said` holds the turns to read, by ordinal; `context` holds those before, which explain "it" and "there". `words`,
    `stems` and `numbers` (readings, see `figures`) are those of all turns and of the participants' names.
    """

    said: Mapping[int, SourceTurn]
    context: tuple[SourceTurn, ...]
    participants: Mapping[str, str]
    """Entity key -> display name."""
    zone: tzinfo
    language: Code
    """Of the chunk as a whole."""
    words: frozenset[str]
    stems: frozenset[str]
    numbers: frozenset[Decimal]
    counted: frozenset[str]
    """The words behind numbers; see `Figure.noun`."""
    own: frozenset[str]
    """The content words of the chunk itself, and of a question right before it."""
    names: frozenset[str]
    """Lower-case words that are names, by their capitals inside a sentence."""
    stated: tuple[Interval, ...]
    """The days that are named, or may be meant, each once."""
    day_first: bool | None
    """Whether numeric dates have the day first; None is not known."""

    @property
    def everything(self) -> tuple[SourceTurn, ...]:
        """The turns of the context and of the chunk."""
        return (*self.context, *self.said.values())

    @property
    def assistants(self) -> frozenset[str]:
        """The names of the AI assistants among the speakers."""
        return frozenset(one.turn.speaker for one in self.everything if one.by_assistant)

    @property
    def people(self) -> frozenset[str]:
        """The forms of the participants' names, which support no fact, as every fact is about them."""
        return frozenset(form for name in self.participants.values() for form in forms_of(name))

    def before(self, turn: SourceTurn) -> SourceTurn | None:
        """Return the turn before another one; None if it is the first."""
        everything = self.everything
        at = next(at for at, one in enumerate(everything) if one is turn)
        return everything[at - 1] if at else None

    def is_translated(self, language: Code, supports: Sequence[SourceTurn]) -> bool:
        """Return whether a language differs from that of the chunk and of the turns that support a fact.

        The language of a short turn is a guess and does not count. Orders to the reader count, as a model that obeys one
        writes in its language.
        """
        own = {one.language for one in supports if len(words(one.text)) >= _TELLING_WORDS}
        return language not in (own | {self.language})


def read_source(chunk: Chunk, zone: tzinfo) -> ChunkSource:
    """Return a chunk prepared for checks; `ChunkSource.said` has no blank turns and none of mere data."""
    said = {
        turn.ordinal: _read(turn, zone, chunk.day_first) for turn in chunk.turns if is_readable(turn.text)
    }
    context = tuple(_read(turn, zone, chunk.day_first) for turn in chunk.before if is_readable(turn.text))
    people = tuple(
        dict.fromkeys((*chunk.participants, *(turn.speaker for turn in (*chunk.before, *chunk.turns))))
    )
    everything = (*context, *said.values())
    texts = (*people, *(one.told for one in everything))
    numbers = [one for text in texts for one in figures(text)]
    own_turns = [*said.values(), *(one for one in context[-1:] if is_question(one.text))]
    return ChunkSource(
        said=said,
        context=context,
        participants={key: name for name in people if (key := entity_key(name)) is not None},
        zone=zone,
        language=detect_language("\n".join(one.text[:400] for one in said.values())),
        words=frozenset(word for text in texts for word in plain_words(text)),
        stems=frozenset(stem for text in texts for stem in lexical_tokens(text)),
        numbers=frozenset(reading for one in numbers for reading in one.readings),
        counted=frozenset(one.noun for one in numbers) - {""},
        own=frozenset(form for one in own_turns for form in one.forms),
        names=names_inside(" . ".join(one.told[:4000] for one in everything)),
        stated=tuple(
            dict.fromkeys(days for one in everything for span in one.dates for days in span.readings)
        ),
        day_first=chunk.day_first,
    )


def is_readable(text: str) -> bool:
    """Return whether a turn has words besides runs of data."""
    return any(ch.isalnum() for ch in DATA_RUN.sub(" ", text)[:MAX_TURN_CHARS])


def _read(turn: Turn, zone: tzinfo, day_first: bool | None) -> SourceTurn:
    text = shorten_runs(turn.text)[:MAX_TURN_CHARS]
    pieces = [piece.text for piece in split_sentences(text)]
    kept = list(takewhile(lambda piece: not is_order(piece), pieces))  # the rest is what an order asks for
    plain = text if len(kept) == len(pieces) else "\n".join(kept)
    language = detect_language(text)
    return SourceTurn(
        turn,
        text,
        plain,
        folded(plain),
        language,
        sentences=tuple((piece, forms_of(piece)) for piece in kept),
        clauses=tuple(one for piece in kept if not is_question(piece) for one in split_clauses(piece)),
        dates=dates_of(plain, language, turn.said, zone, day_first),
    )


def dates_of(
    text: str, language: Code, said: datetime, zone: tzinfo, day_first: bool | None, *, beside: str = ""
) -> tuple[DateSpan, ...]:
    """Return the dates of a text, doubtful ones included.

    The text's own language, which the text `beside` it helps to detect, is tried first, then the others: a short turn's
    language is a guess, and a date counts only where the model points at it.
    """
    own = date_languages(f"{text}\n{beside}", language)
    others = () if language == "other" else ("en", "es")
    languages = tuple(dict.fromkeys((*own, *others)))
    return tuple(find_dates(text, said, zone, languages, day_first=day_first, doubtful=True))


def plain_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents and possessive."""
    found = (strip_accents(word.casefold()).replace("’", "'") for word in words(text))
    return [word.removesuffix("'s") for word in found]


def show_time(said: datetime, zone: tzinfo) -> str:
    """Return the time of a turn with its weekday, from which "last Friday" is counted.

    The weekday is English, whatever the locale of the process.
    """
    local = local_time(said, zone)
    return f"{_WEEKDAYS[local.weekday()]} {local:%Y-%m-%d %H:%M}"


_SPEAKER = re.compile(r"([^\s:：][^:：\n]{0,80}?)[:：] ")
_HEADING, _DASH = "## ", "- "


Passage = tuple[str, frozenset[str], frozenset[str]]
"""A sentence, its content words, and the participants it is about; none where it may be about anybody."""


def passages(texts: Iterable[str], participants: Sequence[str]) -> Iterator[Passage]:
    """Yield the sentences of texts in order, each with the participants it is about.

    A line of a transcript ("Ana: I sing.") belongs to its speaker and those it names; a line of a section of a profile, to those
    whose section it is; another sentence, to those it names, or else to those of the sentence before it.
    """
    calls = _calls_by_name(participants)
    for text in texts:
        section: frozenset[str] | None = None
        before: frozenset[str] = frozenset()
        for line in text.splitlines():
            if line.startswith(_HEADING):
                section = _only(participant_named(line.removeprefix(_HEADING), participants))
                continue
            said = _SPEAKER.match(line)
            speaker = None if said is None else participant_named(said[1], participants)
            own = section if section is not None else _only(speaker)
            for piece in split_sentences(line.removeprefix(_DASH)):
                named = _named(piece.text, calls)
                owners = own if section is not None else own | named or before
                yield piece.text, forms_of(piece.text), owners
                before = own | named or before


def participant_named(name: str, participants: Sequence[str]) -> str | None:
    """Return the participant with a name, whatever its case and accents; None if there is none.

    >>> participant_named(" josé ", ["Ana", "José"]), participant_named("Eva", ["Ana"])
    ('José', None)
    """
    key = entity_key(name)
    return next((one for one in participants if key is not None and entity_key(one) == key), None)


def named_in(text: str, participants: Sequence[str]) -> frozenset[str]:
    """Return the participants that a text names, in full or by a first name that only one of them has.

    >>> sorted(named_in("Ana told Bo of it.", ["Ana Lima", "Bo", "Eva"]))
    ['Ana Lima', 'Bo']
    """
    return _named(text, _calls_by_name(participants))


def _named(text: str, calls: Mapping[str, str]) -> frozenset[str]:
    whole = folded(text)
    return frozenset(name for call, name in calls.items() if stands_in(call, whole))


def _calls_by_name(participants: Sequence[str]) -> dict[str, str]:
    """Return the participants by full name and by first name, without first names that several have."""
    firsts = [folded(parts[0]) if (parts := words(name)) else "" for name in participants]
    single = {
        first: name
        for first, name in zip(firsts, participants, strict=True)
        if len(first) > 1 and firsts.count(first) == 1
    }
    return single | {folded(name): name for name in participants if folded(name)}


def _only(name: str | None) -> frozenset[str]:
    return frozenset() if name is None else frozenset((name,))
