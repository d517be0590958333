"""Whether a statement is supported by the turns it claims to come from.

What must never be made up is held strictly: numbers, names, dates, what is denied, and who says "I". Of the other words,
which may be paraphrased, a part has to be there. This catches what a model made up, copied from the prompt's
examples, or was talked into; it cannot tell a true reading from a false one that uses the same words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from memforest.language.entities import find_mentions
from memforest.language.language import Code, detect_language, load_word_lists
from memforest.language.sentences import MAX_PIECE_CHARS
from memforest.steps.llm.clauses import forms_of
from memforest.steps.llm.figures import Figure, converted, figures
from memforest.steps.llm.polarity import contradicts
from memforest.steps.llm.replies import Named
from memforest.steps.llm.source import (
    NOUN_CHARS,
    Source,
    SourceTurn,
    folded,
    people_forms,
    plain_words,
    stands_in,
)
from memforest.steps.llm.subject import misattributed
from memforest.steps.local.draft import acting_names
from memforest.text import STOP_WORDS, lexical_tokens, strip_accents, word_set, words

_SMALL = frozenset("0123")
"""Numbers that a statement may count by itself when it writes them out: "two cats, Tom and Kit"."""
_MAX_NAME_CHARS = 24
_DOUBLED = re.compile(r"(.)\1")
_MENDED_CHARS = 4
"""How much of a name is compared to tell whether it is one of the chunk, as it may be misspelt there."""
_TELLING_FORMS = 4
"""A statement with fewer content words may well be a paraphrase that shares none: "I'm vegetarian", "Ann eats no meat"."""
_FUNCTION_WORD_EVERY = 5
"""A sentence of a language has a function word of it among so many words at least."""
_STEM_CHARS = 3
"""A longer word begins with so much of a word that is said: "beekeeper", "bees"."""

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
    entities: Collection[Named],
    supports: Sequence[SourceTurn],
    source: Source,
) -> Lack | None:
    """Return what of a statement the turns do not say, None if all of it is supported.

    Args:
        text: the statement.
        plain: the statement without its dates, which are checked by themselves.
        language: of the statement.
        entities: what the model listed as named.
        supports: the turns that it rests on.
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
    text: str, language: Code, source: Source, *, translated: bool = False
) -> tuple[Lack, str] | None:
    """Return the first name, number or word of a date that a source does not say, and which of them it is; None if all are said.

    Args:
        text: a sentence without its dates, which are checked by themselves.
        language: of the sentence.
        source: what it may be taken from.
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
    """Return whether a single word is no name by its ending, as what opens a sentence in a paraphrase: "Singing matters".

    >>> [_is_abstract(name) for name in ("Singing", "Dedication", "Marit", "Inging Lee")]
    [True, True, False, False]
    """
    return " " not in name and name.lower().endswith(_ABSTRACT)


def language_of(text: str, supports: Sequence[SourceTurn], source: Source) -> Code:
    """Return the language of a statement; without a word that tells it, that of its turns where it has their words.

    In a chunk of a language without rules a stray word tells none: "in" and "am" are German, too.
    """
    found, told = detect_language(text), {one.language for one in supports}
    forms = forms_of(text)
    said = {form for one in supports for form in one.forms}
    if found == "other" and len(told) == 1 and 2 * len(forms & said) >= len(forms):
        return told.pop()
    if source.language == "other" and found != "other":
        known = load_word_lists(found).lists["function_words"]
        own = [word.casefold() for word in words(text)]
        return found if sum(word in known for word in own) * _FUNCTION_WORD_EVERY >= len(own) else "other"
    return found


def _names(text: str, language: Code, entities: Collection[Named], source: Source) -> list[str]:
    """Return the names in a text: those that its capitals show, and those of the model's that stand in it."""
    whole = folded(text)
    found: list[str] = []
    if language != "other":  # capitals tell no names in German, and other scripts have none
        found = [one.name for one in find_mentions(text, participants=source.participants, language=language)]
    if language == "en":
        # What opens a sentence as its subject is not told from a name, but "Two" is none.
        found += [name for name in acting_names(text) if not figures(name)]
    listed = [one.name for one in entities if is_name(one) and stands_in(folded(one.name), whole)]
    return list(dict.fromkeys((*found, *listed)))


def is_name(entity: Named) -> bool:
    """Return whether what a model listed is a name, and not a common noun: it has a capital, or cannot have one.

    >>> [is_name(Named(name=n, type=t)) for n, t in (("Porto", ""), ("boat", "thing"), ("东京", "place"), ("船", "thing"))]
    [True, False, True, False]
    """
    name = entity.name.strip()
    if not any(ch.isalpha() for ch in name) or name.islower():
        return False
    cased = name.lower() != name.upper()
    return cased or entity.type.strip().lower() in ("person", "place", "organisation")


def _is_said(name: str, source: Source, *, translated: bool) -> bool:
    """Return whether a name is said as a whole, or every word of it somewhere, or in one word, or by its initials."""
    whole = folded(name)
    if any(stands_in(whole, one.folded) for one in source.everything):
        return True
    parts = plain_words(name)
    if len(parts) > 1 and any(
        _has(short, source.words) for short in ("".join(parts), "".join(part[:1] for part in parts))
    ):
        return True
    return all(_is_told(word, source, translated=translated) for word in parts if _tells(word))


def _is_told(word: str, source: Source, *, translated: bool = False) -> bool:
    """Return whether a word is said, in another form, or misspelt."""
    return (
        _is_word(word, source.words)
        or not source.stems.isdisjoint(lexical_tokens(word))  # "Baking", "bake"
        or any(_is_typo(word, said, translated=translated) for said in _alike(word, source.words))
    )


def _tells(word: str) -> bool:
    return len(word) > 1 and word not in STOP_WORDS and word not in _NO_NAMES and not word[0].isdigit()


def _has(word: str, known: Mapping[str, frozenset[str]]) -> bool:
    return word in known.get(word[:3], frozenset())


def _is_word(word: str, known: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a word is known, or one that it begins, or that begins it: "Mel", "Melanie"."""
    near = known.get(word[:3], frozenset())
    return any(one.startswith(word) or word.startswith(one) for one in near)


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
    """Return whether a name mends another, misspelt one.

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
    """Return how many letters to insert, delete, replace, or swap with the next one make one word the other.

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


def _is_counted(figure: Figure, source: Source) -> bool:
    """Return whether a number is said, or is a small one that the statement writes out in a word and nothing contradicts."""
    if not figure.readings.isdisjoint(source.numbers) or not converted(figure).isdisjoint(source.numbers):
        return True
    if figure.ordinal and not figure.readings.isdisjoint(source.days):
        return True
    counted = source.counted.get(figure.noun[:NOUN_CHARS], frozenset())
    return figure.written and not _SMALL.isdisjoint(figure.readings) and not counted


def _day_words(text: str) -> list[str]:
    """Return the months and days of the week in a text; "may" and "march" with a capital alone."""
    found = ((word, strip_accents(word.casefold())) for word in words(text))
    return [
        plain
        for word, plain in found
        if plain in _DAYS and (word[0].isupper() or word not in ("may", "march"))
    ]


def date_is_spelt(text: str, supports: Sequence[SourceTurn]) -> bool:
    """Return whether every word and number of a date stands in one sentence of the turns, which may order them otherwise.

    "9 October" is "the ninth of October", and "for three years" is "three years", the answer to "How long?".
    """
    numbers = figures(text)
    counted = {word for one in numbers for word in plain_words(one.text)}
    wanted = {word for word in plain_words(text) if _tells_time(word)} - counted
    return bool(wanted or numbers) and any(
        _stand(wanted, said)
        and all(any(one.readings & other.readings for other in counted_there) for one in numbers)
        for turn in supports
        for said, counted_there in turn.spelt
    )


def says_number(number: int, said: SourceTurn) -> bool:
    """Return whether a turn has a number, of whatever it is."""
    return any(str(number) in one.readings for _, numbers in said.spelt for one in numbers)


def says_weekday(day: int, said: SourceTurn) -> bool:
    """Return whether a turn names a day of the week, 0 being Monday, outside of what the calendar reads in it."""
    names = set(_WEEKDAYS[day].split())
    read = " ".join(one.text for one in said.dates)
    told, known = (
        sum(word.removesuffix("s") in names or word in names for word in plain_words(text))
        for text in (said.told, read)
    )
    return told > known


def _stand(wanted: Collection[str], said: Collection[str]) -> bool:
    """Return whether all words are said, or misspelt."""
    return all(
        word in said or any(one not in _DAYS and _is_typo(word, one, translated=False) for one in said)
        for word in wanted
    )


def _tells_time(word: str) -> bool:
    return word not in STOP_WORDS and not word[0].isdigit()


def _is_about(text: str, names: Sequence[str], numbers: Sequence[Figure], source: Source) -> bool:
    """Return whether a statement has a content word, name or number of the chunk itself, or is too short to tell.

    Where a turn gives orders to its reader, a short one tells enough.
    """
    mine = forms_of(text) - people_forms(source)
    counted = [one.text for one in numbers if not one.readings.isdisjoint(source.numbers)]
    checked = forms_of(" ".join((*names, *counted))) & mine
    mended = {form[:_MENDED_CHARS] for form in checked} & {form[:_MENDED_CHARS] for form in source.own}
    said = counted or mended or any(form in source.own or _is_compound(form, source.own) for form in mine)
    short = 0 < len(mine) < _TELLING_FORMS and not any(one.has_order for one in source.everything)
    return bool(said) or short


def _is_compound(form: str, stems: Collection[str]) -> bool:
    """Return whether a word begins with one that is said, or the other way round."""
    return any(
        len(stem) >= _STEM_CHARS and (form.startswith(stem) or stem.startswith(form)) for stem in stems
    )


def support_of(text: str, said: SourceTurn, source: Source) -> str:
    """Return the sentences of a turn that a statement rests on, as they were said; all of it if none shows."""
    mine = forms_of(text) - people_forms(source)
    shared = [len(mine & forms) for _, forms in said.sentences]
    best = max(shared, default=0)
    if best == 0:
        return said.told.strip()[:MAX_PIECE_CHARS]
    return " ".join(
        text for (text, _), share in zip(said.sentences, shared, strict=True) if 2 * share >= best
    )
