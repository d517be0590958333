"""A chunk prepared for checking statements against it, and the checks of what they deny, whose they are, and what they join.

*Denial* (English and Spanish): a clause of a statement is held against those of its turns that share words with it; the nearest
decides. Where it cannot be decided, nothing is wrong: "gave up" may be put with a "not" or without, and a question denies
nothing.

*Whose*: a statement must not give to one participant what another one says of themselves (English); a sentence of a record is
somebody's who says it, whom it names, whom it goes on about, or in whose section it stands.

*What it joins*: the states of its entities, and the relations between two of them, have to stand in it.
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
    """Including dates whose days are in doubt."""

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
class ChunkSource:
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


def read_source(chunk: Chunk, zone: tzinfo) -> ChunkSource:
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
    return ChunkSource(
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


def people_forms(source: ChunkSource) -> frozenset[str]:
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


_SPEAKER = re.compile(r"([^\s:：][^:：\n]{0,80}?)[:：] ")
_HEADING, _DASH = "## ", "- "


@dataclass(frozen=True, slots=True)
class Passage:
    """A sentence, its content words, and the participants it belongs to; none where it may be anybody's."""

    text: str
    forms: frozenset[str]
    owners: frozenset[str]


def passages(texts: Iterable[str], participants: Sequence[str]) -> Iterator[Passage]:
    """Yield the sentences of texts in order, each with the participants it belongs to.

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
                yield Passage(piece.text, forms_of(piece.text), owners)
                before = own | named or before


def participant_named(name: str, participants: Sequence[str]) -> str | None:
    """Return the participant of a name, however it is spelt; None if it is none of them.

    >>> participant_named(" josé ", ["Ana", "José"]), participant_named("Eva", ["Ana"])
    ('José', None)
    """
    key = entity_key(name)
    return next((one for one in participants if key is not None and entity_key(one) == key), None)


def named_in(text: str, participants: Sequence[str]) -> frozenset[str]:
    """Return the participants whom a text names: in full, or by the first name, where only one of them has it.

    >>> sorted(named_in("Ana told Bo of it.", ["Ana Lima", "Bo", "Eva"]))
    ['Ana Lima', 'Bo']
    """
    return _named(text, _calls_by_name(participants))


def _named(text: str, calls: Mapping[str, str]) -> frozenset[str]:
    whole = folded(text)
    return frozenset(name for call, name in calls.items() if stands_in(call, whole))


def _calls_by_name(participants: Sequence[str]) -> dict[str, str]:
    """Return what participants are called by -> who it is; a first name that several have tells nobody."""
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
"""Clauses of a statement that are compared."""
_POINTS_BACK = re.compile(r"\b(?:it|one|any|that|them|those|this|so)\b", re.IGNORECASE)


def contradicts(text: str, language: Code, supports: Sequence[SourceTurn], source: ChunkSource) -> bool:
    """Return whether a statement denies what its turns assert, or asserts what they deny.

    Args:
        text: the statement.
        language: of the statement.
        supports: the turns that it rests on.
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
    """Return whether the turns deny what a clause asserts, or assert what it denies."""
    if clause.denies and "" in clause.soft:
        return False  # a contrast, whose other side says what is so: "the small one, not the big one"
    related = [one for one in said if one.forms & clause.forms]
    if not clause.denies and clause.soft - {word for one in related for word in one.soft}:
        return False
    agree = [one for one in related if _agrees(clause, one)]
    if clause.denies:
        # In other words the same may be meant: "mornings are useless" is "cannot work in the morning".
        most = max((len(one.forms & clause.forms) for one in related), default=0)
        return not agree and 3 * most >= 2 * len(clause.forms)
    against = [one for one in related if not _agrees(clause, one) and _is_same(clause, one)]
    return _nearest(clause, against) > _nearest(clause, agree)


def _agrees(clause: Clause, said: Clause) -> bool:
    return said.denies == clause.denies or bool(said.soft - clause.soft)


def _is_same(clause: Clause, said: Clause) -> bool:
    """Return whether two clauses share more than half of the words of the shorter one."""
    return 2 * len(clause.forms & said.forms) > min(len(clause.forms), len(said.forms))


def _nearest(clause: Clause, said: Sequence[Clause]) -> float:
    """Return the greatest part of a clause that is said that is in the statement's, 0 without one."""
    return max((len(one.forms & clause.forms) / len(one.forms) for one in said), default=0.0)


def _answering(turn: SourceTurn, source: ChunkSource, people: frozenset[str]) -> Iterator[Clause]:
    """Yield the clauses of a turn, each with the words of what it answers or goes on with.

    The first has those of the question before it, or of what was said before if it is short ("I can't", "Tried that");
    a later one of hardly a word that points back has those of the clause before it: "We don't even have one".
    """
    previous = source.before(turn)
    before = frozenset[str]()
    if previous is not None:
        before = frozenset(form for _, said in previous.sentences[-1:] for form in said) - people
    asked = previous is not None and bool(previous.sentences) and is_question(previous.sentences[-1][0])
    for at, clause in enumerate(turn.clauses):
        few = len(clause.forms)
        back = few == 0 or (few == 1 and _POINTS_BACK.search(clause.text) is not None)
        joined = asked or few <= 2 if at == 0 else back
        yield replace(clause, forms=clause.forms | before if joined else clause.forms)
        before = clause.forms | (before if few <= 1 else frozenset())


_MYSELF = re.compile(r"\b(?:i|my|mine|me|myself)\b", re.IGNORECASE)
_OTHERS = re.compile(r"\b(?:you|yours?|yourself|we|us|ours?|let['’]?s)\b", re.IGNORECASE)
_THIRD = re.compile(r"\b(?:he|she|they|him|hers?|his|them|theirs?)\b", re.IGNORECASE)
_POSSESSED = re.compile(r"[^']{1,80}'s (\w+)")
# What the speaker says of somebody else: "I hope the party was fun".
_SUPPOSES = re.compile(
    r"\bi(?:['’]m| am|['’]d)? (?:hope|think|thought|hear|heard|guess|bet|see|suppose|know|sure|glad|sorry|happy|suggest|recommend)\b",
    re.IGNORECASE,
)


def misattributed(text: str, language: Code, supports: Sequence[SourceTurn], source: ChunkSource) -> bool:
    """Return whether the participant who is the subject of a statement is not the one who says "I" in what it rests on.

    Only where nothing else may explain it: the clauses nearest to the statement are somebody else's, who speaks of
    themselves there and of nobody who could be the subject, and whom the statement does not name.

    Args:
        text: the statement.
        language: of the statement.
        supports: the turns that it rests on.
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
        or kin - clause.forms  # "Ana's mother" may be who speaks
        or _may_be_about(clause, subject, source)
        for clause, one in best
    )


def _subject(text: str, source: ChunkSource) -> str | None:
    """Return the participant with whose name a statement begins; None if it is none."""
    start = folded(text).removeprefix("the ")
    found = [
        name
        for name in source.participants.values()
        if any(stands_in(call, start[: len(call) + 1]) for call in _calls(name))
    ]
    return max(found, key=len, default=None)


@lru_cache(maxsize=1)
def _kin() -> frozenset[str]:
    lists = load_word_lists("en").lists
    return lists["kinship_male"] | lists["kinship_female"] | lists["kinship_other"]


def _calls(name: str) -> tuple[str, ...]:
    """Return what somebody is called: the name, and its first word."""
    whole = folded(name).removeprefix("the ")
    return whole, whole.split(" ")[0]


def _names(name: str, whole: str) -> bool:
    return any(stands_in(call, whole) for call in _calls(name))


def _nearest_subject(
    text: str, people: frozenset[str], supports: Sequence[SourceTurn]
) -> list[tuple[Clause, SourceTurn]]:
    """Return the clauses that share most words with a statement, with their turns; none when it is less than half of its words."""
    mine = forms_of(text) - people
    shared = [(len(mine & clause.forms), clause, one) for one in supports for clause in one.clauses]
    most = max((count for count, _, _ in shared), default=0)
    return [(clause, one) for count, clause, one in shared if count == most and 2 * most >= len(mine)]


def _may_be_about(clause: Clause, subject: str, source: ChunkSource) -> bool:
    """Return whether a clause may be about somebody else than its speaker."""
    if _MYSELF.search(clause.sentence) is None or _OTHERS.search(clause.text):
        return True
    if len(source.participants) > 2 and _THIRD.search(clause.text):
        return True
    return _SUPPOSES.search(clause.sentence) is not None or _names(subject, folded(clause.sentence))


Refused: TypeAlias = tuple[tuple[str, str], ...]
"""What was left out, and why."""

_MAX_ATTRIBUTE_CHARS = 40
_MAX_VALUE_CHARS = 80
_MAX_END_CHARS = 80
_WORDS = re.compile(r"[^\W\d_]+(?:['’.-]?[^\W\d_]+)*(?: [^\W\d_]+(?:['’-][^\W\d_]+)*)*")


def check_states(statement: FactReply, text: str, mentions: Sequence[Mention]) -> tuple[State, ...]:
    """Return the states that the model listed and the text supports; of a plan or a denial none."""
    if statement.kind == "plan" or statement.negated:
        return ()
    names = _joined_names(mentions)
    listed = (one for one in statement.relations if one.attribute or not one.verb)
    found = (_state(one, text, names) for one in listed)
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _joined_names(mentions: Sequence[Mention]) -> dict[str, str]:
    return {key: one.name for one in mentions if (key := entity_key(one.name)) is not None}


def _state(relation: replies.Relation, text: str, names: Mapping[str, str]) -> State | None:
    """Return a listed state whose entity is mentioned and whose value stands in the text."""
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
    """Return the relations that the model listed and the text supports, and the others with the reason.

    Both ends are names that stand in the text, and so does the verb, in some form. Those of a plan or a denial are left out
    without a word, as its states are, and so are two that a state joins.
    """
    listed = [one for one in statement.relations if one.verb and not one.attribute]
    if not listed or statement.kind == "plan" or statement.negated or negated(text):
        return (), ()
    names, whole = _joined_names(mentions), folded(text)
    told = {frozenset((entity_key(one.entity), entity_key(one.value))) for one in states}
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
        elif frozenset((entity_key(source), entity_key(target))) not in told:
            found[Relation(source, label.lower(), target)] = None
    return tuple(found), tuple(refused)


def _end(name: str, names: Mapping[str, str], whole: str) -> str | None:
    """Return the mention that an end of a relation is, if it stands in the text."""
    known = names.get(entity_key(name) or "")
    return known if known is not None and stands_in(folded(known), whole) else None


def _is_label(label: str) -> bool:
    """Return whether a text is a few words, and nothing else."""
    return len(label) <= MAX_LABEL_CHARS and _WORDS.fullmatch(label) is not None


def _is_told(label: str, text: str) -> bool:
    """Return whether a text has a verb in some form; one of small words alone has to stand there."""
    forms = forms_of(label)
    return not forms.isdisjoint(forms_of(text)) if forms else stands_in(folded(label), folded(text))
