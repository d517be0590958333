"""Checks whether the turns that a fact names support it, and finds the days that it means.

What a model must never make up is checked: numbers, names, dates, denials and the person behind "I". Other words may be
paraphrased; the turns must have one of them. This catches what a model made up, copied from the prompt's examples, or was
talked into; it cannot tell a true reading from a false one that uses the same words.

A model's date arithmetic is not trusted. Its dates only choose among those that the turns state, and among the days that
their words may mean: "on Monday" is either of two Mondays, and the model has read which. The chosen date is resolved
against the turn that states it, as by the local extractor.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta, tzinfo
from decimal import Decimal
from difflib import get_close_matches
from itertools import groupby, islice
from typing import Literal, TypeAlias

from memforest.reading.date_phrases import DateSpan
from memforest.reading.periods import iso_day, to_utc, window_of
from memforest.reading.replies import EntityReply, FactReply
from memforest.reading.reply_source import ChunkSource, SourceTurn, dates_of, plain_words
from memforest.reading.reply_text import (
    Clause,
    Figure,
    figures,
    folded,
    forms_of,
    is_question,
    split_clauses,
    stands_in,
)
from memforest.reading.timestamps import resolved_dates
from memforest.reading.tokens import MAX_PIECE_CHARS, Code, Token, split_sentences, tokenise
from memforest.records import Mention, Relation, ResolvedDate, State
from memforest.text import STOP_WORDS, cut, entity_key, fold, lexical_tokens, negated, word_set
from memforest.times import Interval, local_time

_HOUR = Decimal("0.6")
"""An hour, as minutes stand behind a point: half of it is 7.30."""
_MOST_DIVIDED = 10**15
"""A larger number is an identifier, of which there are no parts."""
_SMALL = range(4)
"""Numbers that a fact may count by itself if it writes them out: "two cats, Tom and Kit"."""
_NO_NAMES = word_set("mr mrs ms miss dr prof sir madam st i ai tv ok am pm ad bc mom mum dad mama papa god")
_ABSTRACT = ("ing", "tion", "sion", "ness", "ment", "ity", "ship", "ism", "ance", "ence", "hood")
_LIKE, _LIKE_TRANSLATED = 0.86, 0.72
"""How alike a name and a misspelt one are at least, as `difflib` measures it: "Marvin" is not "Martin"."""
_TELLING_FORMS = 4
"""A fact with fewer content words may be a paraphrase that shares none: "I'm vegetarian", "Ann eats no meat"."""

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
    found = invented(plain, language, source, entities, translated=translated)
    if found is not None:
        return found[0]
    if contradicts(text, language, supports, source):
        return "a denial"
    if misattributed(text, language, supports, source):
        return "who it is"
    return None if translated or _is_about(plain, source) else "its words"


def invented(
    text: str,
    language: Code,
    source: ChunkSource,
    entities: Collection[EntityReply] = (),
    *,
    translated: bool = False,
) -> tuple[Lack, str] | None:
    """Return the first name or number that the source lacks, with its kind; None if it has all of them.

    Args:
        text: a sentence without its dates, which are checked by themselves.
        language: of the sentence.
        source: what the sentence is checked against.
        entities: those that a model listed.
        translated: whether the source is in another language, so that names may end otherwise.
    """
    for name in _names(text, language, entities):
        if not _is_said(name, source, translated=translated):
            return "a name", name
    return next((("a number", one.text) for one in figures(text) if not _is_counted(one, source)), None)


def _names(text: str, language: Code, entities: Collection[EntityReply]) -> Iterator[str]:
    """Yield the names in a text: those that the model listed and that occur in it, and words with a capital.

    In German, and in scripts without capitals, those listed count alone.
    """
    whole = folded(text)
    for one in entities:
        if is_name(one) and stands_in(folded(one.name), whole):
            yield one.name
    for piece in split_sentences(text) if language != "other" else ():
        tokens = [token for token in tokenise(piece.text) if token.kind == "word"]
        yield from (token.bare for token in tokens[:1] if _acts(token, tokens[1:2]))
        for capital, run in groupby(tokens[1:], key=lambda token: token.text[0].isupper()):
            if capital:
                yield " ".join(token.bare for token in run)


def _acts(first: Token, behind: Sequence[Token]) -> bool:
    """Return whether the word that opens a sentence may be a name: it owns something, or a verb is behind it."""
    if not first.capital or first.lower in STOP_WORDS or first.lower.endswith(_ABSTRACT):
        return False
    return first.possessive or any(
        one.verb or (one.text.islower() and one.text.endswith("s")) for one in behind
    )


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
    """Return whether the source has a name: as a whole, joined into one word or by its initials, or word by word."""
    whole = folded(name)
    if any(stands_in(whole, one.folded) for one in source.everything):
        return True
    parts = plain_words(name)
    if len(parts) > 1 and not source.words.isdisjoint(("".join(parts), "".join(one[0] for one in parts))):
        return True
    return all(
        _is_told(word, source, translated=translated)
        for word in parts
        if len(word) > 1 and word not in STOP_WORDS and word not in _NO_NAMES and not figures(word)
    )


def _is_told(word: str, source: ChunkSource, *, translated: bool) -> bool:
    """Return whether the source has a word, another form of it, or a misspelling, which begins and ends alike."""
    if word in source.words or not source.stems.isdisjoint(lexical_tokens(word)):
        return True
    near = [one for one in source.words if one[0] == word[0]]
    if any(min(len(one), len(word)) > 2 and (one.startswith(word) or word.startswith(one)) for one in near):
        return True  # "Mel", "Melanie"
    if translated:
        return bool(get_close_matches(word, near, 1, _LIKE_TRANSLATED))
    return _is_spelt(word, [one for one in near if one[-1] == word[-1]])


def _is_spelt(word: str, said: Collection[str]) -> bool:
    return word in said or bool(get_close_matches(word, said, 1, _LIKE))


def _is_counted(figure: Figure, source: ChunkSource) -> bool:
    """Return whether the source has a number, its parts ("a cup and a half", "half past seven") or its digits ("61 cents", "0.61").

    Up to three a fact may count by itself, in words, if nobody counts the same.
    """
    known = source.numbers
    if not known.isdisjoint(figure.readings):
        return True
    for one in figure.readings:
        if one >= _MOST_DIVIDED:
            continue
        whole, rest = divmod(one, 1)
        if rest and (whole < 2 or whole in known) and not known.isdisjoint((rest, rest * 100, rest / _HOUR)):
            return True
        units = (one / 100, one / 1000) + ((one * 100, one * 1000) if rest else ())
        if any(unit in known for unit in units if rest or unit % 1):
            return True
    return (
        figure.written and figure.noun not in source.counted and any(one in _SMALL for one in figure.readings)
    )


def _is_about(text: str, source: ChunkSource) -> bool:
    """Return whether a fact shares a content word with the chunk, or is too short to tell.

    It is never too short where a turn gives orders to its reader.
    """
    mine = forms_of(text) - source.people
    if mine & source.own or any(one.readings & source.numbers for one in figures(text)):
        return True
    return 0 < len(mine) < _TELLING_FORMS and not any(one.has_order for one in source.everything)


def date_is_spelt(text: str, supports: Sequence[SourceTurn]) -> bool:
    """Return whether one sentence of the turns has every word and number of a date, in any order.

    "9 October" is "the ninth of October", and "for three years" is "three years", the answer to "How long?".
    """
    return any(_spells(text, sentence) for turn in supports for sentence, _ in turn.sentences)


def _spells(text: str, sentence: str) -> bool:
    numbers = figures(text)
    counted = {word for one in numbers for word in plain_words(one.text)}
    wanted = {
        word for word in plain_words(text) if word not in STOP_WORDS and not word[0].isdigit()
    } - counted
    if not wanted and not numbers:
        return False
    said, there = plain_words(sentence), figures(sentence)
    return all(_is_spelt(word, said) for word in wanted) and all(
        any(one.readings & other.readings for other in there) for one in numbers
    )


_SOFT = re.compile(
    r"\b(?:stop|quit|gave up|giv|refus|hat|avoid|los[est]|fail|lack|hardly|too|instead|used|left|only|until|bad|if|non-|"
    r"un(?!der|til|ion|iver|iq|it)\w{4})\w*",
    re.IGNORECASE,
)
"""What may be said with a "not" or without one: "stopped smoking", "no longer smokes"."""


def contradicts(text: str, language: Code, supports: Sequence[SourceTurn], source: ChunkSource) -> bool:
    """Return whether a fact denies what its turns assert, or asserts what they deny, in the clause nearest to it.

    Args:
        text: of the fact.
        language: of the text.
        supports: the turns that the fact names.
        source: the chunk.
    """
    if language == "other" or any(one.language == "other" for one in supports):
        return False
    people = source.people
    said = [
        replace(clause, forms=clause.forms - people) for one in supports for clause in _answering(one, source)
    ]
    return any(_is_opposed(one, one.forms - people, said) for one in split_clauses(text))


def _is_opposed(clause: Clause, mine: frozenset[str], said: Sequence[Clause]) -> bool:
    """Return whether a clause of a fact, with the content words `mine`, is opposed to the nearest of those that were said."""
    shared = [(len(mine & one.forms), one) for one in said if mine & one.forms]
    if clause.denies:
        # A paraphrase may deny in other words: "mornings are useless" is "cannot work in the morning".
        most = max((count for count, _ in shared), default=0)
        agrees = any(one.denies or _SOFT.search(one.text) for _, one in shared)
        return not agrees and 0 < 2 * len(mine) <= 3 * most
    if _SOFT.search(clause.text):
        return False
    asserted = denied = 0.0  # the largest share of a clause that is repeated
    for count, one in shared:
        share = count / len(one.forms)
        if not one.denies or _SOFT.search(one.text):
            asserted = max(asserted, share)
        elif 2 * count > min(len(mine), len(one.forms)):
            denied = max(denied, share)
    return denied > asserted


def _answering(turn: SourceTurn, source: ChunkSource) -> Iterator[Clause]:
    """Yield the clauses of a turn; the first with the words of the question it answers, a short one with those before it."""
    previous = source.before(turn)
    asked = previous is not None and bool(previous.sentences) and is_question(previous.sentences[-1][0])
    before = previous.sentences[-1][1] if previous is not None and asked else frozenset[str]()
    for at, clause in enumerate(turn.clauses):
        before = clause.forms | before if at == 0 or len(clause.forms) <= 1 else clause.forms
        yield replace(clause, forms=before)


_MYSELF = re.compile(r"\b(?:i|my|mine|me|myself)\b", re.IGNORECASE)
_OTHERS = re.compile(r"\b(?:you|yours?|yourself|we|us|ours?|let['’]?s)\b", re.IGNORECASE)


def misattributed(text: str, language: Code, supports: Sequence[SourceTurn], source: ChunkSource) -> bool:
    """Return whether a fact opens with one participant and says what another one says of themselves ("I") (English).

    Only if nothing else explains it: the clauses nearest to it are all of another speaker, who is not named in the fact, and
    concern neither the participant nor the listener.

    Args:
        text: of the fact.
        language: of the text.
        supports: the turns that the fact names.
        source: the chunk.
    """
    whole = folded(text)
    opening = (one for one in source.participants.values() if _is_named(one, whole.split(" ")[0]))
    subject = next(opening, None) if language == "en" else None
    mine = forms_of(text) - source.people
    shared = [(len(mine & clause.forms), clause, one) for one in supports for clause in one.clauses]
    most = max((count for count, _, _ in shared), default=0)
    if subject is None or not 0 < len(mine) <= 2 * most:
        return False
    return all(
        _speaks_of_self(clause, one, subject) and not _is_named(one.turn.speaker, whole)
        for count, clause, one in shared
        if count == most
    )


def _speaks_of_self(clause: Clause, said: SourceTurn, subject: str) -> bool:
    """Return whether a clause is what somebody else than a participant says of themselves, and of nobody else."""
    if said.turn.speaker == subject or said.language != "en" or said.by_assistant:
        return False
    mine = _MYSELF.search(clause.sentence) is not None and _OTHERS.search(clause.text) is None
    return mine and not _is_named(subject, folded(clause.sentence))


def _is_named(name: str, whole: str) -> bool:
    """Return whether a folded text has a name, or its first word."""
    called = folded(name).removeprefix("the ")
    return stands_in(called, whole) or stands_in(called.split(" ")[0], whole)


def support_of(text: str, said: SourceTurn, source: ChunkSource) -> str:
    """Return the sentences of a turn that support a fact, as they were said; the whole turn if none stands out."""
    mine = forms_of(text) - source.people
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
_WEEKDAYS = (
    "monday lune",
    "tuesday marte",
    "wednesday miercole",
    "thursday jueve",
    "friday vierne",
    "saturday sabado",
    "sunday domingo",
)
"""In English and Spanish, without the "s" of a plural."""
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
    days = (window_of(said.turn.said, "day", source.zone) for said in supports)
    spoken = [Interval(day.start, day.end) for day in days]
    out, plain, found = text, text, []
    for one in sorted(own, key=lambda found: found.start_char, reverse=True):
        own_days = [] if one.direction == "for" else spoken  # a duration is no day
        known = any(meant.covers(other) for meant in one.readings for other in (*source.stated, *own_days))
        if not known and (one.direction == "for" or date_is_spelt(one.text, supports)):
            continue  # a duration is checked as a number, and words need not be a date
        plain = plain[: one.start_char] + " " + plain[one.end_char :]
        if not known and _may_be_meant(one, supports, source):
            continue
        if not known and (span is None or one.relative):
            return Dated(text, None, plain, invented=one.text)
        if not known:
            out = _without(out, one)  # the model calculated it wrongly; the chosen date replaces it
        elif span is not None and span.interval in one.readings:
            found.append(one.read_as(span.interval))
        elif one.decided:
            found.append(one)
    if span is not None and all(one.interval != span.interval for one in found):
        found.append(replace(span, start_char=len(text)))
    return Dated(out, span, plain, resolved_dates(found), left_out=left_out)


def _may_be_meant(span: DateSpan, supports: Sequence[SourceTurn], source: ChunkSource) -> bool:
    """Return whether words that the calendar cannot read may mean a date, so that nothing shows it to be wrong.

    A turn has all of it but the year, which differs by one at most; or the number of its day, and a time that covers it or a
    distance of a month at most; or its weekday, two weeks away at most. In a language without rules a week is near enough.
    Words that the calendar reads mean what the calendar says.
    """
    if span.relative:
        return source.language == "other"
    yearless, day = _YEAR.sub("", span.text).strip(" ,"), local_time(span.start, source.zone).date()
    weekday = _WEEKDAYS[day.weekday()].split()
    named = any(days.covers(span.interval) for days in source.stated)
    for said in supports:
        on = local_time(said.turn.said, source.zone).date()
        away, unread = abs((day - on).days), said.told
        for one in said.dates:
            unread = unread.replace(one.text, " ")
        if abs(day.year - on.year) <= 1 and yearless != span.text and _spells(yearless, unread):
            return True
        if span.precision == "day" and (
            (away <= _WEEK and source.language == "other")
            or (away <= _FORTNIGHT and any(word.removesuffix("s") in weekday for word in plain_words(unread)))
            or ((named or away <= _MONTH) and any(day.day in one.readings for one in figures(said.told)))
        ):
            return True
    return False


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
        if near or any(
            folded(statement.when) in one.folded for one in supports
        ):  # the words may be no date: "when I was ten"
            met = (days for one in near for days in one.readings if given and days.overlaps(given))
            excluded = given is not None and near and next(met, None) is None
            return _meant(near, given, plan=plan) or named, (shown, _EXCLUDED) if excluded else None
        if given is None:  # "3 June 2024" for "3 June"
            written = dates_of(statement.when, "en", supports[0].turn.said, source.zone, source.day_first)
            given = written[0].interval if written else None
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
    return first.read_as(max(first.readings, key=lambda days: days.start)) if plan else None


def _covering(spans: Iterable[DateSpan], given: Interval) -> DateSpan | None:
    """Return the first date with a reading that covers the given days, in that reading."""
    return next((one.read_as(days) for one in spans for days in one.readings if days.covers(given)), None)


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
    same = (other for one in own for other in stated if set(other.readings) & set(one.readings))
    return list(islice(same, 1))


def _stated(supports: Sequence[SourceTurn]) -> Iterable[DateSpan]:
    return (one for said in supports for one in said.dates)


def _given(statement: FactReply, zone: tzinfo) -> Interval | None:
    """Return the days that the model gave; None if it gave none, or invalid ones."""
    first, last = (iso_day(text) for text in (statement.start, statement.end))
    first, last = first or last, last or first
    if first is None or last is None or not 1 < first.year <= last.year < 9999 or first > last:
        return None
    return Interval(to_utc(first, zone), to_utc(last + timedelta(days=1), zone))


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


Refused: TypeAlias = tuple[tuple[str, str], ...]
"""Texts that were left out, each with the reason."""

_MAX_ATTRIBUTE_CHARS, _MAX_LABEL_CHARS = 40, 40
_MAX_END_CHARS = 80
_MOST_RELATIONS = 12
_LABEL = re.compile(r"[^\W_](?:[^\W_]|[ '’.-](?=[^\W_]))*")
"""A few words without other marks, so that a label is shown as it is anywhere."""


def check_states(statement: FactReply, text: str, mentions: Sequence[Mention]) -> tuple[State, ...]:
    """Return the listed states of mentioned entities whose value stands in the text; none of a plan or a denial."""
    if statement.kind == "plan" or statement.negated:
        return ()
    names, whole = _by_key(mentions), folded(text)
    found: dict[State, None] = {}
    for one in statement.relations:
        entity, value = names.get(entity_key(one.entity) or ""), " ".join(one.value.split())
        attribute = " ".join(fold(one.attribute).replace("_", " ").split())
        if (
            entity is not None
            and 0 < len(attribute) <= _MAX_ATTRIBUTE_CHARS
            and len(value) <= _MAX_END_CHARS
            and stands_in(folded(value), whole)
            and entity_key(value) != entity_key(entity)
        ):
            before = one.previous if one.previous and stands_in(folded(one.previous), whole) else None
            found[State(entity, attribute, value, before, one.change)] = None
    return tuple(found)


def check_relations(
    statement: FactReply, text: str, mentions: Sequence[Mention], states: Sequence[State]
) -> tuple[tuple[Relation, ...], Refused]:
    """Return the listed relations that the text supports, and the refused ones with the reason.

    The text must have both names, and the verb in some form. The relations of a plan or a denial are left out without a
    reason, like its states, and so are relations of two names that a state joins.
    """
    listed = [one for one in statement.relations if one.verb and not one.attribute]
    if not listed or statement.kind == "plan" or statement.negated or negated(text):
        return (), ()
    whole = folded(text)
    names = {key: name for key, name in _by_key(mentions).items() if stands_in(folded(name), whole)}
    joined = {frozenset((entity_key(one.entity), entity_key(one.value))) for one in states}
    found: dict[Relation, None] = {}
    refused: list[tuple[str, str]] = []
    for one in listed:
        source, target = (names.get(entity_key(end) or "") for end in (one.entity, one.value))
        label = " ".join(one.verb.replace("_", " ").split())
        shown = cut(f"{one.entity} / {one.verb} / {one.value}", 3 * _MAX_END_CHARS)
        if source is None or target is None:
            refused.append((shown, "a relation of what the statement does not name was left out"))
        elif entity_key(source) == entity_key(target):
            refused.append((shown, "a relation of something to itself was left out"))
        elif not _is_label(label, text):
            refused.append((shown, "a relation that the statement does not tell was left out"))
        elif len(found) == _MOST_RELATIONS:
            refused.append((shown, "over the limit"))
        elif frozenset((entity_key(source), entity_key(target))) not in joined:
            found[Relation(source, label.lower(), target)] = None
    return tuple(found), tuple(refused)


def _by_key(mentions: Sequence[Mention]) -> dict[str, str]:
    return {key: one.name for one in mentions if (key := entity_key(one.name)) is not None}


def _is_label(label: str, text: str) -> bool:
    """Return whether a label is a few words of a text, in some form."""
    if len(label) > _MAX_LABEL_CHARS or _LABEL.fullmatch(label) is None:
        return False
    forms = forms_of(label)
    return not forms.isdisjoint(forms_of(text)) if forms else stands_in(folded(label), folded(text))
