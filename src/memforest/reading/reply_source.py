"""Prepares a chunk for checks of facts against it, and checks their denials, their participants, states and relations.

*Denials* (English and Spanish): a clause of a fact is compared with the clauses of its turns that share words with it; the
nearest decides. A doubtful case is no error: "gave up" may be said with a "not" or without, and a question denies nothing.

*Participants*: a fact must not say of one participant what another one says of themselves (English); a sentence of a record
belongs to its speaker, to the participants it names or continues about, or to the owner of its section.

*States and relations*: a fact's text must have the values of its states and the names and verbs of its relations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice, takewhile
from typing import TypeAlias

from memforest.reading import replies
from memforest.reading.date_phrases import DateSpan, find_dates
from memforest.reading.entities import is_assistant, names_inside
from memforest.reading.relations import MAX_LABEL_CHARS, MAX_RELATIONS
from memforest.reading.replies import FactReply
from memforest.reading.reply_text import (
    Clause,
    Figure,
    figures,
    forms_of,
    fractions,
    is_order,
    is_question,
    split_clauses,
)
from memforest.reading.timestamps import date_languages
from memforest.reading.tokens import Code, detect_language, load_word_lists, split_sentences
from memforest.records import Chunk, Mention, Relation, State, Turn
from memforest.text import (
    DATA_RUN,
    cut,
    entity_key,
    fold,
    lexical_words,
    negated,
    shorten_runs,
    strip_accents,
    words,
)
from memforest.times import Interval, local_time

MAX_TURN_CHARS = 20_000
"""Characters of a turn that are read, as by the local extractor."""

NOUN_CHARS = 4
"""Compared characters of two nouns: "boats", "boat"."""

_JOINED = re.compile(r"\w{1,20}(?:-\w{1,20})+")  # "Wi-Fi" may be "wifi"
_TELLING_WORDS = 6
_TELLING_CHARS = 4
"""Least characters of a word whose stem counts; shorter beginnings are shared by too many words."""
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
    spelt: tuple[tuple[frozenset[str], tuple[Figure, ...]], ...]
    """The words and numbers of each sentence; see `plain_words`."""
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

    `said` holds the turns to read, by ordinal; `context` holds those before, which explain "it" and "there". `words` (by
    their first three letters) and `numbers` (readings, see `figures`) are those of all turns, of the participants' names and
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
    """The numbers of the days and months that turns mean or were said on."""
    counted: Mapping[str, frozenset[str]]
    """The beginning of a noun -> readings of the numbers in front of it."""
    stems: frozenset[str]
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

    @property
    def assistants(self) -> frozenset[str]:
        """The names of the AI assistants among the speakers."""
        return frozenset(one.turn.speaker for one in self.everything if one.by_assistant)


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
    numbers = [one for name in people for one in figures(name)]
    numbers += [one for turn in everything for _, spelt in turn.spelt for one in spelt]
    years, days = _days(everything, zone)
    own_turns = [*said.values(), *(one for one in context[-1:] if is_question(one.text))]
    return ChunkSource(
        said=said,
        context=context,
        participants={key: name for name in people if (key := entity_key(name)) is not None},
        zone=zone,
        language=detect_language("\n".join(one.text[:400] for one in said.values())),
        words=_by_beginning((*people, *(one.told for one in everything))),
        numbers=years.union(*(one.readings for one in numbers), *(fractions(one.told) for one in everything)),
        days=days,
        counted=_counted(numbers),
        stems=frozenset(
            token
            for one in everything
            for word, tokens in lexical_words(one.told)
            if len(word) >= _TELLING_CHARS
            for token in tokens
        ),
        own=frozenset(form for one in own_turns for form in one.forms),
        stated=tuple(
            dict.fromkeys(days for one in everything for span in one.dates for days in span.readings)
        ),
        day_first=chunk.day_first,
        names=names_inside(" . ".join(one.told[:4000] for one in everything)),
    )


def people_forms(source: ChunkSource) -> frozenset[str]:
    """Return the forms of the participants' names, which support no fact, as every fact is about them."""
    return frozenset(form for name in source.participants.values() for form in forms_of(name))


def is_readable(text: str) -> bool:
    """Return whether a turn has words besides runs of data."""
    return any(ch.isalnum() for ch in DATA_RUN.sub(" ", text)[:MAX_TURN_CHARS])


def _read(turn: Turn, zone: tzinfo, day_first: bool | None) -> SourceTurn:
    text = shorten_runs(turn.text)[:MAX_TURN_CHARS]
    pieces = [piece.text for piece in split_sentences(text)]
    kept = list(takewhile(lambda piece: not is_order(piece), pieces))  # the rest is what an order asks for
    plain = text if len(kept) == len(pieces) else "\n".join(kept)
    language = detect_language(text)
    dates = dates_of(plain, language, turn.said, zone, day_first)
    sentences = tuple((piece, forms_of(piece)) for piece in kept)
    clauses = tuple(clause for piece in kept if not is_question(piece) for clause in split_clauses(piece))
    spelt = tuple((frozenset(plain_words(piece)), figures(piece)) for piece in kept)
    return SourceTurn(turn, text, plain, folded(plain), language, sentences, spelt, clauses, dates)


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


def folded(text: str) -> str:
    """Return a text case-folded and with straight apostrophes, as `stands_in` compares it."""
    return fold(text).replace("’", "'")


def stands_in(phrase: str, text: str) -> bool:
    """Return whether a text has a phrase, both `folded`; as whole words where the script has spaces.

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
    """Return whether a position is inside a word; never in a script without spaces."""
    before, behind = text[at - 1 : at], text[at : at + 1]
    return before.isalnum() and behind.isalnum() and before < "\u2e80" and behind < "\u2e80"


def _by_beginning(texts: Iterable[str]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for text in texts:
        for word in (*plain_words(text), *("".join(plain_words(one)) for one in _JOINED.findall(text))):
            found.setdefault(word[:3], set()).add(word)
    return {key: frozenset(several) for key, several in found.items()}


def plain_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents and possessive."""
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
    """Return the years of all days that turns mean or were said on, and the numbers of their months and days."""
    days = [one.turn.said for one in everything]
    for meant in (dates.interval for one in everything for dates in one.dates if dates.decided):
        days += [meant.start, *([meant.end - timedelta(microseconds=1)] if meant.end else [])]
    local = [local_time(day, zone) for day in days]
    return (
        frozenset(str(day.year) for day in local),
        frozenset(str(part) for day in local for part in (day.month, day.day)),
    )


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


_MOST_CLAUSES = 12
"""Most clauses of a fact that are compared."""
_POINTS_BACK = re.compile(r"\b(?:it|one|any|that|them|those|this|so)\b", re.IGNORECASE)


def contradicts(text: str, language: Code, supports: Sequence[SourceTurn], source: ChunkSource) -> bool:
    """Return whether a fact denies what its turns assert, or asserts what they deny.

    Args:
        text: of the fact.
        language: of the text.
        supports: the turns that the fact names.
        source: the chunk.
    """
    if language == "other" or any(one.language == "other" for one in supports):
        return False
    people = people_forms(source)
    said = [clause for one in supports for clause in _answering(one, source, people)]
    clauses = islice(split_clauses(text, relative=False), _MOST_CLAUSES)
    mine = (replace(one, forms=one.forms - people) for one in clauses)
    return any(one.forms and _opposed(one, said) for one in mine)


def _opposed(clause: Clause, said: Sequence[Clause]) -> bool:
    """Return whether the clauses of the turns deny what a clause asserts, or assert what it denies."""
    if clause.denies and "" in clause.soft:
        return False  # a contrast; its other side asserts something: "the small one, not the big one"
    related = [one for one in said if one.forms & clause.forms]
    if not clause.denies and clause.soft - {word for one in related for word in one.soft}:
        return False
    agree = [one for one in related if _agrees(clause, one)]
    if clause.denies:
        # A paraphrase may deny in other words: "mornings are useless" is "cannot work in the morning".
        most = max((len(one.forms & clause.forms) for one in related), default=0)
        return not agree and 3 * most >= 2 * len(clause.forms)
    against = [one for one in related if not _agrees(clause, one) and _is_same(clause, one)]
    return _nearest(clause, against) > _nearest(clause, agree)


def _agrees(clause: Clause, said: Clause) -> bool:
    return said.denies == clause.denies or bool(said.soft - clause.soft)


def _is_same(clause: Clause, said: Clause) -> bool:
    """Return whether two clauses share more than half the words of the shorter one."""
    return 2 * len(clause.forms & said.forms) > min(len(clause.forms), len(said.forms))


def _nearest(clause: Clause, said: Sequence[Clause]) -> float:
    """Return the largest share of a turn's clause that the fact's clause repeats; 0 if there is none."""
    return max((len(one.forms & clause.forms) / len(one.forms) for one in said), default=0.0)


def _answering(turn: SourceTurn, source: ChunkSource, people: frozenset[str]) -> Iterator[Clause]:
    """Yield the clauses of a turn, each with the words of the question or clause that it continues.

    The first clause gets the words of the question before it, or of the sentence before it if it is short ("I can't", "Tried
    that"); a later clause of one word or none that points back gets those of the clause before it: "We don't even have one".
    """
    previous = source.before(turn)
    before = frozenset[str]()
    if previous is not None:
        before = frozenset(form for _, said in previous.sentences[-1:] for form in said) - people
    asked = previous is not None and bool(previous.sentences) and is_question(previous.sentences[-1][0])
    for at, clause in enumerate(turn.clauses):
        size = len(clause.forms)
        back = size == 0 or (size == 1 and _POINTS_BACK.search(clause.text) is not None)
        joined = asked or size <= 2 if at == 0 else back
        yield replace(clause, forms=clause.forms | before if joined else clause.forms)
        before = clause.forms | (before if size <= 1 else frozenset())


_MYSELF = re.compile(r"\b(?:i|my|mine|me|myself)\b", re.IGNORECASE)
_OTHERS = re.compile(r"\b(?:you|yours?|yourself|we|us|ours?|let['’]?s)\b", re.IGNORECASE)
_THIRD = re.compile(r"\b(?:he|she|they|him|hers?|his|them|theirs?)\b", re.IGNORECASE)
_POSSESSED = re.compile(r"[^']{1,80}'s (\w+)")
# Introduces what a speaker says of somebody else: "I hope the party was fun".
_SUPPOSES = re.compile(
    r"\bi(?:['’]m| am|['’]d)? (?:hope|think|thought|hear|heard|guess|bet|see|suppose|know|sure|glad|sorry|happy|suggest|recommend)\b",
    re.IGNORECASE,
)


def misattributed(text: str, language: Code, supports: Sequence[SourceTurn], source: ChunkSource) -> bool:
    """Return whether a fact says of one participant what another one says of themselves ("I").

    Only if there is no other explanation: the nearest clauses are those of another speaker, who speaks of themselves there,
    mentions nobody who could be the subject, and is not named in the fact.

    Args:
        text: of the fact.
        language: of the text.
        supports: the turns that the fact names.
        source: the chunk.
    """
    subject = None if language != "en" else _subject(text, source)
    if subject is None:
        return False
    whole = folded(text)
    theirs = _POSSESSED.match(whole)
    kin = forms_of(theirs[1]) if theirs is not None and theirs[1] in _kin() else frozenset[str]()
    best = _nearest_subject(text, people_forms(source), supports)
    return bool(best) and not any(
        one.turn.speaker == subject
        or one.language != "en"
        or one.by_assistant
        or _names(one.turn.speaker, whole)
        or kin - clause.forms  # "Ana's mother" may be the speaker
        or _may_be_about(clause, subject, source)
        for clause, one in best
    )


def _subject(text: str, source: ChunkSource) -> str | None:
    """Return the participant whose name opens a fact; None if there is none."""
    start = folded(text).removeprefix("the ")
    found = [
        name
        for name in source.participants.values()
        if any(stands_in(call, start[: len(call) + 1]) for call in _calls(name))
    ]
    return max(found, key=len, default=None)


@lru_cache(maxsize=1)
def _kin() -> frozenset[str]:
    lists = load_word_lists("en")
    return lists["kinship_male"] | lists["kinship_female"] | lists["kinship_other"]


def _calls(name: str) -> tuple[str, ...]:
    """Return a name and its first word, folded."""
    whole = folded(name).removeprefix("the ")
    return whole, whole.split(" ")[0]


def _names(name: str, whole: str) -> bool:
    return any(stands_in(call, whole) for call in _calls(name))


def _nearest_subject(
    text: str, people: frozenset[str], supports: Sequence[SourceTurn]
) -> list[tuple[Clause, SourceTurn]]:
    """Return the clauses that share most words with a fact, with their turns; none if they share less than half of its words."""
    mine = forms_of(text) - people
    shared = [(len(mine & clause.forms), clause, one) for one in supports for clause in one.clauses]
    most = max((count for count, _, _ in shared), default=0)
    return [(clause, one) for count, clause, one in shared if count == most and 2 * most >= len(mine)]


def _may_be_about(clause: Clause, subject: str, source: ChunkSource) -> bool:
    """Return whether a clause may be about somebody other than its speaker."""
    if _MYSELF.search(clause.sentence) is None or _OTHERS.search(clause.text):
        return True
    if len(source.participants) > 2 and _THIRD.search(clause.text):
        return True
    return _SUPPOSES.search(clause.sentence) is not None or _names(subject, folded(clause.sentence))


Refused: TypeAlias = tuple[tuple[str, str], ...]
"""Texts that were left out, each with the reason."""

_MAX_ATTRIBUTE_CHARS = 40
_MAX_VALUE_CHARS = 80
_MAX_END_CHARS = 80
_WORDS = re.compile(r"[^\W\d_]+(?:['’.-]?[^\W\d_]+)*(?: [^\W\d_]+(?:['’-][^\W\d_]+)*)*")


def check_states(statement: FactReply, text: str, mentions: Sequence[Mention]) -> tuple[State, ...]:
    """Return the listed states that the text supports; none of a plan or a denial."""
    if statement.kind == "plan" or statement.negated:
        return ()
    names = _joined_names(mentions)
    listed = (one for one in statement.relations if one.attribute or not one.verb)
    found = (_state(one, text, names) for one in listed)
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _joined_names(mentions: Sequence[Mention]) -> dict[str, str]:
    return {key: one.name for one in mentions if (key := entity_key(one.name)) is not None}


def _state(relation: replies.Relation, text: str, names: Mapping[str, str]) -> State | None:
    """Return a listed state if its entity is mentioned and the text has its value, else None."""
    entity = names.get(entity_key(relation.entity) or "")
    attribute = " ".join(fold(relation.attribute).replace("_", " ").split())
    value, whole = " ".join(relation.value.split()), folded(text)
    if entity is None or not attribute or len(attribute) > _MAX_ATTRIBUTE_CHARS:
        return None
    if (
        len(value) > _MAX_VALUE_CHARS
        or not stands_in(folded(value), whole)
        or entity_key(value) == entity_key(entity)
    ):
        return None
    before = relation.previous
    previous = before if before is not None and stands_in(folded(before), whole) else None
    return State(entity, attribute, value, previous, relation.change)


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
    names, whole = _joined_names(mentions), folded(text)
    joined = {frozenset((entity_key(one.entity), entity_key(one.value))) for one in states}
    found: dict[Relation, None] = {}
    refused: list[tuple[str, str]] = []
    for one in listed:
        source, target = (_end(end, names, whole) for end in (one.entity, one.value))
        label = " ".join(one.verb.replace("_", " ").split())
        shown = cut(f"{one.entity} / {one.verb} / {one.value}", 3 * _MAX_END_CHARS)
        if source is None or target is None:
            refused.append((shown, "a relation of what the statement does not name was left out"))
        elif entity_key(source) == entity_key(target):
            refused.append((shown, "a relation of something to itself was left out"))
        elif not _is_label(label) or not _is_told(label, text):
            refused.append((shown, "a relation that the statement does not tell was left out"))
        elif len(found) == MAX_RELATIONS:
            refused.append((shown, "over the limit"))
        elif frozenset((entity_key(source), entity_key(target))) not in joined:
            found[Relation(source, label.lower(), target)] = None
    return tuple(found), tuple(refused)


def _end(name: str, names: Mapping[str, str], whole: str) -> str | None:
    """Return the mention at an end of a relation; None if the text does not have it."""
    known = names.get(entity_key(name) or "")
    return known if known is not None and stands_in(folded(known), whole) else None


def _is_label(label: str) -> bool:
    """Return whether a text consists of a few words only."""
    return len(label) <= MAX_LABEL_CHARS and _WORDS.fullmatch(label) is not None


def _is_told(label: str, text: str) -> bool:
    """Return whether a text has a verb in some form; a verb of function words only has to occur as it is."""
    forms = forms_of(label)
    return not forms.isdisjoint(forms_of(text)) if forms else stands_in(folded(label), folded(text))
