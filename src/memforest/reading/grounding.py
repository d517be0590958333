"""Checks whether the turns that a fact names support it, and finds the days that it means.

Numbers, names, dates, denials and the person behind "I" are checked strictly, as a model must never make them up. Other
words may be paraphrased; the turns must have some of them. This catches what a model made up, copied from the prompt's
examples, or was talked into; it cannot tell a true reading from a false one that uses the same words.

A model's date arithmetic is not trusted. Its dates only choose among those that the turns state, and among the days that
their words may mean: "on Monday" is either of two Mondays, and the model has read which. The chosen date is resolved
against the turn that states it, as by the local extractor.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta, tzinfo
from typing import Literal

from memforest.reading.date_phrases import DateSpan
from memforest.reading.drafts import acting_names
from memforest.reading.entities import find_mentions
from memforest.reading.periods import to_utc, window_of
from memforest.reading.replies import EntityReply, FactReply
from memforest.reading.reply_source import (
    NOUN_CHARS,
    ChunkSource,
    SourceTurn,
    contradicts,
    dates_of,
    folded,
    misattributed,
    people_forms,
    plain_words,
    stands_in,
)
from memforest.reading.reply_text import Figure, converted, figures, forms_of
from memforest.reading.timestamps import resolved_dates
from memforest.reading.tokens import MAX_PIECE_CHARS, Code, detect_language, load_word_lists
from memforest.records import ResolvedDate
from memforest.text import STOP_WORDS, lexical_tokens, strip_accents, word_set, words
from memforest.times import Interval, local_time

_SMALL = frozenset("0123")
"""Numbers that a fact may count by itself if it writes them out: "two cats, Tom and Kit"."""
_MAX_NAME_CHARS = 24
_DOUBLED = re.compile(r"(.)\1")
_MENDED_CHARS = 4
"""Compared characters of a name and a word of the chunk, which may be misspelt there."""
_TELLING_FORMS = 4
"""A fact with fewer content words may be a paraphrase that shares none: "I'm vegetarian", "Ann eats no meat"."""
_FUNCTION_WORD_EVERY = 5
"""At least one in so many words of a sentence is a function word of its language."""
_STEM_CHARS = 3
"""Least characters of a stem that a compound begins with: "beekeeper", "bees"."""

_WEEKDAYS = (
    "monday lunes",
    "tuesday martes",
    "wednesday miercoles",
    "thursday jueves",
    "friday viernes",
    "saturday sabado",
    "sunday domingo",
)
_ABSTRACT = ("ing", "tion", "sion", "ness", "ment", "ity", "ship", "ism", "ance", "ence", "hood")
_DAYS = word_set("january february march april may june july august september october november december") | {
    word + end for row in _WEEKDAYS for word in row.split() for end in ("", "s")
}
_NO_NAMES = _DAYS | word_set("mr mrs ms miss dr prof sir madam st")

Lack = Literal["a number", "a name", "a date", "a denial", "who it is", "its words"]


def unsupported(
    text: str,
    plain: str,
    language: Code,
    entities: Collection[EntityReply],
    supports: Sequence[SourceTurn],
    source: ChunkSource,
) -> Lack | None:
    """Return the first kind of content of a fact that its turns do not support; None if they support all of it.

    Args:
        text: of the fact.
        plain: the text without its dates, which are checked by themselves.
        language: of the text.
        entities: those that the model listed.
        supports: the turns that the fact names.
        source: the chunk.
    """
    translated = source.is_translated(language, supports)
    names, numbers = _names(plain, language, entities, source), figures(plain)
    checks: Iterable[tuple[Lack, bool]] = (
        ("a name", all(_is_said(name, source, translated=translated) for name in names)),
        ("a number", all(_is_counted(one, source) for one in numbers)),
        ("a date", all(_is_told(day, source) for day in _day_words(plain))),
        ("a denial", not contradicts(text, language, supports, source)),
        ("who it is", not misattributed(text, language, supports, source)),
        ("its words", translated or _is_about(plain, names, numbers, source)),
    )
    return next((lack for lack, holds in checks if not holds), None)


def invented(
    text: str, language: Code, source: ChunkSource, *, translated: bool = False
) -> tuple[Lack, str] | None:
    """Return the first name, number or date word that the source lacks, with its kind; None if it has all of them.

    Args:
        text: a sentence without its dates, which are checked by themselves.
        language: of the sentence.
        source: what the sentence is checked against.
        translated: whether the source is in another language, so that names may end otherwise.
    """
    lacks: Iterable[tuple[Lack, str]] = (
        *(
            ("a name", name)
            for name in _names(text, language, (), source)
            if not (_is_abstract(name) or _is_said(name, source, translated=translated))
        ),
        *(("a number", one.text) for one in figures(text) if not _is_counted(one, source)),
        *(("a date", day) for day in _day_words(text) if not _is_told(day, source)),
    )
    return next(iter(lacks), None)


def _is_abstract(name: str) -> bool:
    """Return whether a single word has the ending of an abstract noun, so that it is no name: "Singing matters".

    >>> [_is_abstract(name) for name in ("Singing", "Dedication", "Marit", "Inging Lee")]
    [True, True, False, False]
    """
    return " " not in name and name.lower().endswith(_ABSTRACT)


def language_of(text: str, supports: Sequence[SourceTurn], source: ChunkSource) -> Code:
    """Return the language of a fact; if no word tells it, the language of its turns, where they share its words.

    In a chunk of a language without rules one word is not enough: "in" and "am" are German, too.
    """
    detected, spoken = detect_language(text), {one.language for one in supports}
    forms = forms_of(text)
    said = {form for one in supports for form in one.forms}
    if detected == "other" and len(spoken) == 1 and 2 * len(forms & said) >= len(forms):
        return spoken.pop()
    if source.language == "other" and detected != "other":
        known = load_word_lists(detected)["function_words"]
        own = [word.casefold() for word in words(text)]
        return detected if sum(word in known for word in own) * _FUNCTION_WORD_EVERY >= len(own) else "other"
    return detected


def _names(text: str, language: Code, entities: Collection[EntityReply], source: ChunkSource) -> list[str]:
    """Return the names in a text: capitalised ones, and those the model listed that occur in it."""
    whole = folded(text)
    found: list[str] = []
    if language != "other":  # in German capitals do not mark names, and other scripts have none
        found = [one.name for one in find_mentions(text, participants=source.participants, language=language)]
    if language == "en":
        # The subject that opens a sentence may be a name or not; a number ("Two") is none.
        found += [name for name in acting_names(text) if not figures(name)]
    listed = [one.name for one in entities if is_name(one) and stands_in(folded(one.name), whole)]
    return list(dict.fromkeys((*found, *listed)))


def is_name(entity: EntityReply) -> bool:
    """Return whether a listed entity is a name and no common noun: it has a capital, or its script has none.

    >>> [is_name(EntityReply(name=n, type=t)) for n, t in (("Porto", ""), ("boat", "thing"), ("东京", "place"), ("船", "thing"))]
    [True, False, True, False]
    """
    name = entity.name.strip()
    if not any(ch.isalpha() for ch in name) or name.islower():
        return False
    cased = name.lower() != name.upper()
    return cased or entity.type.strip().lower() in ("person", "place", "organisation")


def _is_said(name: str, source: ChunkSource, *, translated: bool) -> bool:
    """Return whether the source has a name: as a whole, word by word, joined into one word, or by its initials."""
    whole = folded(name)
    if any(stands_in(whole, one.folded) for one in source.everything):
        return True
    parts = plain_words(name)
    joined = ("".join(parts), "".join(part[:1] for part in parts)) if len(parts) > 1 else ()
    if any(short in source.words.get(short[:3], ()) for short in joined):
        return True
    return all(
        _is_told(word, source, translated=translated)
        for word in parts
        if len(word) > 1 and word not in STOP_WORDS and word not in _NO_NAMES and not word[0].isdigit()
    )


def _is_told(word: str, source: ChunkSource, *, translated: bool = False) -> bool:
    """Return whether the source has a word, another form of it, or a misspelling."""
    near = source.words.get(word[:3], ())
    return (
        any(one.startswith(word) or word.startswith(one) for one in near)  # "Mel", "Melanie"
        or not source.stems.isdisjoint(lexical_tokens(word))  # "Baking", "bake"
        or any(_is_typo(word, said, translated=translated) for said in _alike(word, source.words))
    )


def _alike(word: str, known: Mapping[str, frozenset[str]]) -> Iterable[str]:
    """Return the known words that begin with the same letter and are about as long."""
    return (
        one
        for key, several in known.items()
        if key[:1] == word[:1]
        for one in several
        if abs(len(one) - len(word)) <= 2 and one not in _DAYS
    )


def _is_typo(name: str, said: str, *, translated: bool) -> bool:
    """Return whether a name corrects a misspelt one.

    The ends must be the same, as "Maria" is not "Mario", and short names differ by a letter: "Martin" is not "Marvin".
    A translation may end otherwise.

    >>> [_is_typo(*pair, translated=False) for pair in (("ljubljana", "ljubjana"), ("melania", "melanie"), ("marvin", "martin"))]
    [True, False, False]
    """
    shorter, longer = sorted((len(name), len(said)))
    if longer > _MAX_NAME_CHARS:
        return False
    if _DOUBLED.sub(r"\1", name) == _DOUBLED.sub(r"\1", said):
        return True  # "Peggy", "Pegy"
    if translated and shorter >= 5 and name[:3] == said[:3]:
        return _edits(name, said) <= 2
    if shorter < 5 or name[-1] != said[-1]:
        return False
    swapped = sorted(name) == sorted(said)
    if len(name) == len(said) and not swapped and shorter < 8:
        return False
    return _edits(name, said) <= (1 if longer < 8 else 2)


def _edits(one: str, other: str) -> int:
    """Return the edit distance of two words; to swap neighbouring letters counts as one edit.

    Optimal string alignment, https://en.wikipedia.org/wiki/Damerau%E2%80%93Levenshtein_distance.
    """
    rows = [list(range(len(other) + 1))]
    for at, ch in enumerate(one, 1):
        row = [at]
        for to, there in enumerate(other, 1):
            row.append(min(rows[-1][to] + 1, row[-1] + 1, rows[-1][to - 1] + (ch != there)))
            if at > 1 and to > 1 and ch == other[to - 2] and one[at - 2] == there:
                row[-1] = min(row[-1], rows[-2][to - 2] + 1)
        rows.append(row)
    return rows[-1][-1]


def _is_counted(figure: Figure, source: ChunkSource) -> bool:
    """Return whether the source has a number, or the fact counts up to three in words and nothing contradicts it."""
    if not figure.readings.isdisjoint(source.numbers) or not converted(figure).isdisjoint(source.numbers):
        return True
    if figure.ordinal and not figure.readings.isdisjoint(source.days):
        return True
    counted = source.counted.get(figure.noun[:NOUN_CHARS], frozenset())
    return figure.written and not _SMALL.isdisjoint(figure.readings) and not counted


def _day_words(text: str) -> list[str]:
    """Return the names of months and weekdays in a text; "may" and "march" only with a capital."""
    found = ((word, strip_accents(word.casefold())) for word in words(text))
    return [
        plain
        for word, plain in found
        if plain in _DAYS and (word[0].isupper() or word not in ("may", "march"))
    ]


def date_is_spelt(text: str, supports: Sequence[SourceTurn]) -> bool:
    """Return whether one sentence of the turns has every word and number of a date, in any order.

    "9 October" is "the ninth of October", and "for three years" is "three years", the answer to "How long?".
    """
    numbers = figures(text)
    counted = {word for one in numbers for word in plain_words(one.text)}
    wanted = {
        word for word in plain_words(text) if word not in STOP_WORDS and not word[0].isdigit()
    } - counted
    return bool(wanted or numbers) and any(
        all(
            word in said or any(one not in _DAYS and _is_typo(word, one, translated=False) for one in said)
            for word in wanted
        )
        and all(any(one.readings & other.readings for other in counted_there) for one in numbers)
        for turn in supports
        for said, counted_there in turn.spelt
    )


def says_number(number: int, said: SourceTurn) -> bool:
    """Return whether a turn has a number."""
    return any(str(number) in one.readings for _, numbers in said.spelt for one in numbers)


def says_weekday(day: int, said: SourceTurn) -> bool:
    """Return whether a turn names a weekday (0 is Monday) outside the dates that were found in it."""
    names = set(_WEEKDAYS[day].split())
    read = " ".join(one.text for one in said.dates)
    in_text, in_dates = (
        sum(word.removesuffix("s") in names or word in names for word in plain_words(text))
        for text in (said.told, read)
    )
    return in_text > in_dates


def _is_about(text: str, names: Sequence[str], numbers: Sequence[Figure], source: ChunkSource) -> bool:
    """Return whether a fact shares a content word, name or number with the chunk, or is too short to tell.

    It is never too short where a turn gives orders to its reader.
    """
    mine = forms_of(text) - people_forms(source)
    counted = [one.text for one in numbers if not one.readings.isdisjoint(source.numbers)]
    checked = forms_of(" ".join((*names, *counted))) & mine
    mended = {form[:_MENDED_CHARS] for form in checked} & {form[:_MENDED_CHARS] for form in source.own}
    stems = [stem for stem in source.own if len(stem) >= _STEM_CHARS]  # a compound may begin with one
    said = (
        counted
        or mended
        or any(
            form in source.own or any(form.startswith(stem) or stem.startswith(form) for stem in stems)
            for form in mine
        )
    )
    short = 0 < len(mine) < _TELLING_FORMS and not any(one.has_order for one in source.everything)
    return bool(said) or short


def support_of(text: str, said: SourceTurn, source: ChunkSource) -> str:
    """Return the sentences of a turn that support a fact, as they were said; the whole turn if none stands out."""
    mine = forms_of(text) - people_forms(source)
    shared = [len(mine & forms) for _, forms in said.sentences]
    best = max(shared, default=0)
    if best == 0:
        return said.told.strip()[:MAX_PIECE_CHARS]
    return " ".join(
        text for (text, _), share in zip(said.sentences, shared, strict=True) if 2 * share >= best
    )


_PREPOSITION = re.compile(r"\b(?:on|in|at|by|from|el|en|am|im)\s+$", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:of |de |del )?\d{4}\b")
_WEEK, _FORTNIGHT, _MONTH = 7, 14, 31
_NOT_STATED = "a date that the turns do not state was left out"
_EXCLUDED = "a date that the words exclude was left out"


@dataclass(frozen=True, slots=True)
class Dated:
    """A fact's text without wrongly calculated dates, its date, and all dates of its words.

    `invented` is a date of the text that no turn states; `left_out` is a time that the model gave and that the turns do
    not state or their words exclude, with the reason.
    """

    text: str
    span: DateSpan | None
    dateless: str
    """The text without its dates, for the checks of its other words and numbers."""
    dates: tuple[ResolvedDate, ...] = ()
    invented: str | None = None
    left_out: tuple[str, str] | None = None


def date_statement(
    statement: FactReply, text: str, language: Code, supports: Sequence[SourceTurn], source: ChunkSource
) -> Dated:
    """Return a fact's text with its date.

    Args:
        statement: the fact as the model gave it.
        text: of the fact, already in the third person.
        language: of the text.
        supports: the turns that the fact names, at least one.
        source: the chunk.
    """
    own = _own_dates(text, language, supports, source)
    span, left_out = _chosen(statement, own, supports, source)
    days = [window_of(said.turn.said, "day", source.zone) for said in supports]
    translated = source.is_translated(language, supports)
    out, plain, found = text, text, []
    for one in sorted(own, key=lambda found: found.start_char, reverse=True):
        spoken = [Interval(day.start, day.end) for day in days]
        own_days = [] if one.direction == "for" else spoken  # a duration is no day
        known = any(meant.covers(other) for meant in one.readings for other in (*source.stated, *own_days))
        if not known and (one.direction == "for" or date_is_spelt(one.text, supports)):
            continue  # a duration is checked as a number, and words need not be a date
        plain = plain[: one.start_char] + " " + plain[one.end_char :]
        if not known and _may_be_meant(one, supports, source, translated=translated):
            continue
        if not known and (span is None or one.relative):
            return Dated(text, None, plain, invented=one.text)
        if not known:
            out = _without(out, one)  # the model calculated it wrongly; the chosen date replaces it
        elif span is not None and span.interval in one.readings:
            found.append(_read_as(one, span.interval))
        elif one.decided:
            found.append(one)
    if span is not None and all(one.interval != span.interval for one in found):
        found.append(replace(span, start_char=len(text)))
    return Dated(out, span, plain, resolved_dates(found), left_out=left_out)


def _may_be_meant(
    span: DateSpan, supports: Sequence[SourceTurn], source: ChunkSource, *, translated: bool
) -> bool:
    """Return whether words that the calendar cannot read may mean a date, so that nothing shows it to be wrong.

    A turn has its month or season and the year differs by one at most; or a turn has the number of its day, and its weekday,
    a time that covers it, or a distance of a month at most; or a turn has its weekday and it is two weeks away at most; or
    the language has no rules and it is a week away at most. Words that the calendar reads mean what the calendar says.
    """
    if span.relative or span.start is None:
        # The original words of a translated date are not known.
        return span.relative and source.language == "other" and translated
    yearless = _YEAR.sub("", span.text).strip(" ,")
    day = local_time(span.start, source.zone).date()
    named = any(days.covers(span.interval) for days in source.stated)
    for said in supports:
        on = local_time(said.turn.said, source.zone).date()
        away = abs((day - on).days)
        if abs(day.year - on.year) <= 1 and _is_unread(yearless, said) and date_is_spelt(yearless, (said,)):
            return True
        if span.precision != "day":
            continue
        weekday = says_weekday(day.weekday(), said)
        if says_number(day.day, said) and (weekday or named or away <= _MONTH):
            return True
        if (weekday and away <= _FORTNIGHT) or (source.language == "other" and away <= _WEEK):
            return True
    return False


def _is_unread(text: str, said: SourceTurn) -> bool:
    """Return whether no date of a turn has all words of a text."""
    wanted = set(plain_words(text))
    return not any(wanted <= set(plain_words(one.text)) for one in said.dates)


def _own_dates(
    text: str, language: Code, supports: Sequence[SourceTurn], source: ChunkSource
) -> list[DateSpan]:
    """Return the dates of a fact's text, relative ones as the turn with the same words means them."""
    beside = "\n".join(one.told for one in supports)

    def read(said: SourceTurn) -> tuple[DateSpan, ...]:
        return dates_of(text, language, said.turn.said, source.zone, source.day_first, beside=beside)

    found = []
    for span in read(supports[0]):
        words = folded(span.text)
        said = next(
            (one for one in supports if words in one.folded and words not in supports[0].folded), None
        )
        again = () if said is None else read(said)
        found.append(next((one for one in again if one.start_char == span.start_char), span))
    return found


def _chosen(
    statement: FactReply, own: Sequence[DateSpan], supports: Sequence[SourceTurn], source: ChunkSource
) -> tuple[DateSpan | None, tuple[str, str] | None]:
    """Return the date that the model points at, and a time it gave that was rejected, with the reason."""
    given, plan = _given(statement, source.zone), statement.kind == "plan"
    named = _meant(_by_own(own, supports), given, plan=plan)
    shown = f"{statement.start} - {statement.end}"
    if statement.when is not None:
        near = _by_words(statement.when, supports)
        if near or _says(statement.when, supports):  # the words may be no date: "when I was ten"
            excluded = given is not None and near and not any(_meets(one, given) for one in near)
            return _meant(near, given, plan=plan) or named, (shown, _EXCLUDED) if excluded else None
        given = given or _as_date(statement.when, supports[0], source)
    if given is not None:
        found = _covering(_stated(supports), given)
        if found is not None:
            return found, None
    if named is not None or (given is None and statement.when is None):
        return named, None
    return None, (statement.when or shown, _NOT_STATED)


def _meant(spans: Sequence[DateSpan], given: Interval | None, *, plan: bool) -> DateSpan | None:
    """Return the date that the model means: the one that covers the days it gave, else the first.

    A doubtful date counts only if the model gives its days or says that the fact is a plan, which takes the later reading.
    """
    found = None if given is None else _covering(spans, given)
    if found is not None or not spans:
        return found
    first = spans[0]
    if first.decided:
        return first
    return _read_as(first, max(first.readings, key=lambda days: days.start)) if plan else None


def _covering(spans: Iterable[DateSpan], given: Interval) -> DateSpan | None:
    """Return the first date with a reading that covers the given days, in that reading."""
    return next((_read_as(one, days) for one in spans for days in one.readings if days.covers(given)), None)


def _meets(span: DateSpan, given: Interval) -> bool:
    return any(days.overlaps(given) for days in span.readings)


def _read_as(span: DateSpan, days: Interval) -> DateSpan:
    """Return a date in one of its readings."""
    return replace(span, start=days.start, end=days.end or span.end, decided=True, other=None)


def _as_date(when: str, said: SourceTurn, source: ChunkSource) -> Interval | None:
    """Return the days of a date in the model's own words: "3 June 2024" for "3 June"."""
    found = dates_of(when, "en", said.turn.said, source.zone, source.day_first)
    return found[0].interval if found else None


def _says(when: str, supports: Sequence[SourceTurn]) -> bool:
    words = folded(when)
    return any(words in one.folded for one in supports)


def _by_words(when: str, supports: Sequence[SourceTurn]) -> list[DateSpan]:
    """Return the dates of some words in the first turn that has the words and a date in them."""
    words = folded(when)
    for said in supports:
        if words not in said.folded:
            continue
        # The words alone may read differently: "every Friday" is no date, but "Friday" is one.
        near = [one for one in said.dates if folded(one.text) in words or words in folded(one.text)]
        if near:
            return near
    return []


def _by_own(own: Sequence[DateSpan], supports: Sequence[SourceTurn]) -> list[DateSpan]:
    """Return the first date of the text that a supporting turn states as well, as the turn states it."""
    stated = list(_stated(supports))
    for one in own:
        same = next((other for other in stated if set(other.readings) & set(one.readings)), None)
        if same is not None:
            return [same]
    return []


def _stated(supports: Sequence[SourceTurn]) -> Iterable[DateSpan]:
    return (one for said in supports for one in said.dates)


def _given(statement: FactReply, zone: tzinfo) -> Interval | None:
    """Return the days that the model gave; None if it gave none, or invalid ones."""
    first, last = (_iso(text) for text in (statement.start, statement.end))
    first, last = first or last, last or first
    if first is None or last is None or not 1 < first.year <= last.year < 9999 or first > last:
        return None
    return Interval(to_utc(first, zone), to_utc(last + timedelta(days=1), zone))


def _iso(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text[:10])
    except ValueError:
        return None


def _without(text: str, span: DateSpan) -> str:
    """Return a text without a date, its preposition and the brackets around it."""
    before, behind = _PREPOSITION.sub("", text[: span.start_char]), text[span.end_char :]
    if (before[-1:], behind[:1]) in (("(", ")"), ("（", "）")):
        before, behind = _PREPOSITION.sub("", before[:-1]), behind[1:]
    return (
        f"{before.rstrip()}{behind}"
        if behind[:1] in ("", ".", ",", ";", "。", ")", "）")
        else f"{before}{behind.lstrip()}"
    )
