"""Plans a question by rule: whom it is about, which state it asks for, and which time operator it applies.

The operator is the one that the question's words show (`memforest.reading.question_parts`), whatever they ask about. "before",
"first" or "last" stand in many questions about events as well, so the plan has the operator for its *kind* only where it
asks for a state of somebody's, too; else the kind is ``when``, ``list`` or ``simple``, and the operator is for an index that
looks whether its memory has a timeline that fits. Words are known of English, Spanish, French and German; a question in
another language gets a ``simple`` plan with its entities and window.


Recognises a question about a time as a whole: "What did we talk about last week?", "What happened on 4 May?".

Such a question shares no word with its answer. It is told by what is left of it without names and dates: nothing but
words of talking or happening, and words without content. Which words those are is a table per language.


Whose words a question asks for: what *you* recommended to me, what *I* told you, what *Ana* asked.

Who speaks is the subject of an act of speech ("tell", "recommend", "promise"), or whoever is not told in the passive.
A question without such an act wants nobody's words in particular where both sides of the dialogue are in it. The words
are data (`memforest/data/language/*.toml`, in English, Spanish and Chinese).

"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone, tzinfo
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Literal

from memforest.reading.clauses import asked_in
from memforest.reading.date_phrases import QuestionTime, question_time
from memforest.reading.question_parts import (
    MASK,
    MaskedQuestion,
    asks_for_list,
    asks_how,
    asks_since,
    asks_when,
    language_of,
    read_mentions,
    read_operator,
    with_wording,
)
from memforest.reading.states import asked_state
from memforest.reading.tokens import load_word_lists
from memforest.records import QuestionKind, QuestionPlan, TimeOperator
from memforest.text import STOP_WORDS, fold, snowball_stem, strip_accents, words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_APOSTROPHES = re.compile("['’ʼ]")


def without_dates(text: str, dates: Iterable[str]) -> str:
    """Return a text with the first of each of the given stretches taken out, whatever their case.

    >>> without_dates("Did Ana bake on 4 March?", ["4 March"])
    'Did Ana bake on  ?'
    """
    for date in dates:
        text = re.sub(re.escape(date), " ", text, count=1, flags=re.IGNORECASE)
    return text


def as_talk(plan: QuestionPlan, masked: str) -> QuestionPlan:
    """Return a plan as one of the kind ``sessions`` or ``events`` if its question is one, else as it is.

    Args:
        plan: with its window and the stretches that name it.
        masked: the question with `MASK` for each name.
    """
    dated = plan.start is not None or plan.end is not None
    text = strip_accents(fold(_APOSTROPHES.sub(" ", without_dates(masked, plan.dates).replace(MASK, " "))))
    for table in _tables():
        if any(ch.isalnum() for ch in table.all.sub(" ", text)):
            continue
        if table.talk.search(text):
            end = "first" if table.first.search(text) else "last" if table.last.search(text) else None
            if dated or end:
                operator = TimeOperator("first" if end == "first" else "last") if end else None
                return _about(plan, "sessions", operator)
        elif dated and table.happen.search(text):
            return _about(plan, "events", None)
    return plan


def _about(plan: QuestionPlan, kind: QuestionKind, operator: TimeOperator | None) -> QuestionPlan:
    """Return a plan of a kind that asks for no topic and no attribute."""
    return replace(
        plan,
        kind=kind,
        operator=operator,
        attribute=None,
        anchor=None,
        topic=(),
        keywords=(),
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """The words of one language, each set as a pattern."""

    talk: re.Pattern[str]
    happen: re.Pattern[str]
    first: re.Pattern[str]
    last: re.Pattern[str]
    all: re.Pattern[str]


@cache
def _tables() -> Sequence[_Table]:
    raw = tomllib.loads(files("memforest.data").joinpath("talk.toml").read_text(encoding="utf-8"))
    return tuple(map(_table, raw.values()))


def _table(raw: dict[str, Any]) -> _Table:
    frame = r"(?<!\w)(?:%s)(?!\w)" if raw.pop("spaces", True) else "(?:%s)"
    words = {name: text.split() for name, text in raw.items()}
    words["all"] = [word for part in words.values() for word in part]
    return _Table(
        **{name: re.compile(frame % _any_of(part)) for name, part in words.items() if name != "rest"}
    )


def _any_of(words: Iterable[str]) -> str:
    """Return a pattern of words, the longest first."""
    return "|".join(re.escape(word).replace(r"\-", r"\W+") for word in sorted(words, key=len, reverse=True))


Language = Literal["en", "es", "zh"]
Kind = Literal["subject", "object", "owner", "act", "light", "content"]

_REACH = 4
"""Words between an act of speech and its subject, or whom it is said to."""
_HAN = re.compile("[\u3400-\u9fff]")
_CLITICS = frozenset(("s", "ve", "d", "m", "ll", "re"))


@dataclass(frozen=True, slots=True)
class AskedSpeakers:
    """Whom a question asks for.

    `speakers` are those whose words are wanted: nobody in particular if empty, None if the question does not say.
    `asker` is who says "I", None if the memory does not know. `about` are the asker and who is asked, as far as the
    question is about them and not only put by or to them. `acts` are its words for acts of speech.
    """

    speakers: tuple[str, ...] | None
    asker: str | None
    about: tuple[str, ...]
    acts: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a question: what it is there, and whom it means."""

    text: str
    kind: Kind
    who: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sides:
    """The two sides of a dialogue, as far as they are known: who asks, and who is asked."""

    asker: tuple[str, ...]
    asked: tuple[str, ...]

    @property
    def both(self) -> tuple[str, ...]:
        """Both sides."""
        return self.asker + self.asked

    def other(self, who: Sequence[str]) -> tuple[str, ...]:
        """Return the side that `who` is not on; nobody for somebody who is on none."""
        return tuple(one for one in self.both if one not in who) if set(who) & set(self.both) else ()


def read_asked(question: MaskedQuestion, names: Mapping[str, str], code: str) -> AskedSpeakers:
    """Return whom a question asks for.

    Args:
        question: with its names found.
        names: case-folded surface form -> display name; "i" and "you" are who asks and who is asked.
        code: of the question's language, "en" or "es".
    """
    language = "zh" if _HAN.search(question.text) else code
    asker = next((names[key] for key in ("i", "me", "user") if key in names), None)
    sides = _Sides(*(() if one is None else (one,) for one in (asker, names.get("you"))))
    everything = list(_read(question, sides, language))
    found = _without_lead(everything, language)
    acts = [at for at, word in enumerate(found) if word.kind == "act"]
    told = next((who for at in acts if (who := _teller(found, at, sides, language)) is not None), None)
    spoken = [word for word in found if word.who and set(word.who) <= set(sides.both)]
    if told is None:
        acts = []
        told = () if _is_between(found, spoken, _lists(language)) else None
    own = [word for at, word in enumerate(found) if word in spoken and not _serves(word, at, acts)]
    said = {found[at].text for at in acts} | {
        word.text for word in everything[: len(everything) - len(found)]
    }
    return AskedSpeakers(
        speakers=None if told is None else _namesakes(told, question, names),
        asker=asker,
        about=tuple(dict.fromkeys(one for word in own if word.kind != "object" for one in word.who)),
        acts=frozenset(said - {""}),
    )


def _is_between(found: Sequence[_Word], spoken: Sequence[_Word], lists: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a question without an act of speech may be answered by either side: "good for me", "should I"."""
    advice = any(before.text in lists["modals"] and one in spoken for before, one in pairwise(found))
    return advice or any(word.kind == "object" or word.text in lists["both"] for word in spoken)


def _serves(word: _Word, at: int, acts: Sequence[int]) -> bool:
    """Return whether a pronoun only says who tells whom."""
    return word.kind == "subject" and any(-1 <= act - at <= _REACH for act in acts)


def asked_entities(
    asked: MaskedQuestion, who: AskedSpeakers, names: Mapping[str, str]
) -> tuple[tuple[str, int], ...]:
    """Return the entities of a question with their places: whom it names, and who asks or is asked if it is about them.

    A first name that several are called by names all of them.
    """
    named = [(name, at) for name, at in asked.entities if name in who.about or not _is_pronoun(asked, at)]
    found = [(one, at) for name, at in named for one in _namesakes((name,), asked, names)]
    first = next((at for name, at in asked.entities if name == who.asker), 0)
    found += [(one, first) for one in who.about if not any(one == name for name, _ in found)]
    return tuple(sorted(found, key=lambda pair: pair[1]))


def _is_pronoun(asked: MaskedQuestion, at: int) -> bool:
    return asked.text[at] == "I" and not asked.text[at + 1 : at + 2].isalnum()


def _namesakes(wanted: Sequence[str], asked: MaskedQuestion, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return display names, with everybody else whom a first name of the question may mean."""
    found = list(wanted)
    for name, at in asked.entities:
        first = name.split()[0].casefold()
        if name in wanted and first != name.casefold() and not asked.text[at:].startswith(name):
            others = {one for one in names.values() if " " in one and one.split()[0].casefold() == first}
            found += sorted(others - set(found)) if asked.text[at:].casefold().startswith(first) else []
    return tuple(found)


@lru_cache(maxsize=4)
def _lists(code: str) -> Mapping[str, frozenset[str]]:
    """Return the word lists of a language for what is read here, empty where it has none."""
    own = load_word_lists(code).lists
    found = {name: own.get(name, frozenset()) for name in _NAMES}
    return found | {"modals": found["asking_modals"] | found["advice_modals"]}


_NAMES = (
    "asker", "addressee", "both", "not_subject", "owning", "speech", "recall", "passive", "third_party", "to", "between",
    "asking_modals", "advice_modals", "question_words",
)  # fmt: skip


@lru_cache(maxsize=4)
def _acts(code: str) -> frozenset[str]:
    return frozenset(_stem(word, code) for word in _lists(code)["speech"])


@lru_cache(maxsize=2048)
def _stem(word: str, code: str) -> str:
    if code == "zh":
        return word
    return snowball_stem(strip_accents(word), "english" if code == "en" else "spanish")


@lru_cache(maxsize=1)
def _chinese() -> re.Pattern[str]:
    """Return what finds the known words of a text without spaces; what stands between them is content."""
    known = {word for words in _lists("zh").values() for word in words}
    return re.compile(f"({'|'.join(sorted(known, key=len, reverse=True))}|[^\\w]+)")


def _read(question: MaskedQuestion, sides: _Sides, code: str) -> Iterator[_Word]:
    """Yield the words of a question, its names among them."""
    for place, piece in enumerate(question.masked.split(MASK)):
        if place:
            yield _Word(
                "", "owner" if piece.startswith("'s") else "subject", question.entities[place - 1][:1]
            )
        found = _chinese().split(piece) if code == "zh" else words(piece)
        before = ""
        for number, word in enumerate(found):
            if any(ch.isalnum() for ch in word) and not (place and number == 0 and word in _CLITICS):
                yield _word(word, before, sides, code)
            before = word or before


def _word(word: str, before: str, sides: _Sides, code: str) -> _Word:
    """Return a word with what it is by the lists of its language."""
    lists = _lists(code)
    for name, who in (("asker", sides.asker), ("addressee", sides.asked), ("both", sides.asker)):
        if word in lists[name]:
            moved = word in lists["not_subject"] or before in lists["to"]
            return _Word(word, "owner" if word in lists["owning"] else "object" if moved else "subject", who)
    if _stem(word, code) in _acts(code):
        return _Word(word, "act")
    light = any(word in lists[name] for name in ("between", "to", "question_words")) or word in STOP_WORDS
    light = light or (code == "en" and word.endswith("ly"))
    return _Word(word, "light" if light else "content")


def _without_lead(found: list[_Word], code: str) -> list[_Word]:
    """Return a question without "can you tell me", "remind me", "do you remember": they only ask."""
    lists = _lists(code)
    for at, word in enumerate(found[: _REACH + 1]):
        before = found[:at]
        if (word.kind == "content" and word.text not in lists["recall"]) or word.text in lists[
            "question_words"
        ]:
            break
        alone = not any(one.kind == "subject" for one in before)
        modal = any(one.text in lists["modals"] for one in before)
        if word.text in lists["recall"] or (word.kind == "act" and (alone or modal)):
            rest = found[at + 1 :]
            return _without_lead(rest[1:] if rest and rest[0].kind == "object" else rest, code)
    return found


def _teller(found: Sequence[_Word], at: int, sides: _Sides, code: str) -> tuple[str, ...] | None:
    """Return who performs the act of speech at `at`; None if it is none that this memory has heard."""
    lists = _lists(code)
    place = _subject(found, at, lists)
    if place is None:
        return None
    first = max(0, at - _REACH) if place < 0 else max(0, place - 1)
    auxiliaries = {one.text for one in found[first:at]}
    if auxiliaries & lists["modals"]:
        return None  # "what should I tell my doctor?"
    if place < 0:
        return _unsaid(found, at, sides, code)
    passive = auxiliaries & lists["passive"] and found[place].kind == "subject"
    told = passive and not found[at].text.endswith("ing")
    return sides.other(found[place].who) if told else found[place].who


def _subject(found: Sequence[_Word], at: int, lists: Mapping[str, frozenset[str]]) -> int | None:
    """Return where the subject of an act stands, -1 if there is none, None if it is somebody else's act."""
    for place in range(at - 1, max(-1, at - 1 - _REACH), -1):
        word = found[place]
        if word.kind == "subject" or (word.kind == "owner" and place == at - 1):
            return place
        if word.kind in ("owner", "content"):
            # "which book was recommended", but "what did the doctor recommend"
            return -1 if found[place + 1].text in lists["passive"] else None
    return -1


def _unsaid(found: Sequence[_Word], at: int, sides: _Sides, code: str) -> tuple[str, ...] | None:
    """Return who performs an act without a subject: by its form, or the other side than whom it is told to."""
    if found[at + 1 : at + 2] and found[at + 1].text in _lists(code)["third_party"]:
        return None  # "¿qué me recomendó el médico?"
    if code == "es" and found[at].text.endswith(("ste", "steis")):
        return sides.asked
    near = found[at + 1 : at + 1 + _REACH] if code == "en" else found[max(0, at - _REACH) : at + 1 + _REACH]
    by = next((one for before, one in pairwise(near) if before.text == "by" and one.who), None)
    told = next((one for one in near if one.kind == "object"), None)
    return by.who if by is not None else None if told is None else sides.other(told.who)


TimeReader = Callable[[str, datetime, tzinfo], QuestionTime]
"""Reads what a question, asked at a reference in a zone, says about time."""

_QUOTED = re.compile(r'"[^"]*"|“[^“”]*”|«[^«»]*»|「[^「」]*」')
_POSSESSOR = re.compile(rf"{MASK}'s \w+ (?={MASK})")
_OF_CHANGE = ("changed_back", "since", "predecessor", "successor", "last", "first")


class RulePlanner:
    """Plans questions without a model, deterministically."""

    name = "rule-planner-1"

    def __init__(self, *, zone: tzinfo = timezone.utc, window: TimeReader = question_time) -> None:
        """Make a planner.

        Args:
            zone: in which "last May" begins and ends.
            window: reads the dates of a question.
        """
        self._zone = zone
        self._window = window

    async def plan(self, question: str, *, reference: datetime, names: Mapping[str, str]) -> QuestionPlan:
        """Return the plan of a question; see `Planner.plan`."""
        return plan_question(question, reference=reference, names=names, zone=self._zone, window=self._window)


def plan_question(
    question: str,
    *,
    reference: datetime,
    names: Mapping[str, str],
    zone: tzinfo = timezone.utc,
    window: TimeReader = question_time,
) -> QuestionPlan:
    """Return the plan of a question.

    Args:
        question: as it was typed.
        reference: aware UTC; what "now" and "last month" are relative to.
        names: case-folded surface form -> display name.
        zone: in which days begin.
        window: reads the dates of a question.
    """
    question = asked_in(question)
    asked = read_mentions(question, names, _common_names())
    who = read_asked(asked, names, _language(question))
    time = window(asked.text, reference, zone)
    entities = asked_entities(asked, who, names)
    reading = _QuestionReading(asked, entities, time)
    plan = replace(
        reading.plan(),
        start=time.window.start if time.window else None,
        end=time.window.end if time.window else None,
        as_of=time.as_of,
        dates=time.words,
        open_year=time.open_year,
        speakers=who.speakers,
        asker=who.asker,
    )
    plan = with_wording(plan, question, [name for name, _ in entities], asked.without(time.places), who.acts)
    return as_talk(plan, asked.masked)


def _language(question: str) -> str:
    """Return the language in which a question is read for whose words it asks: Spanish by any word that asks, else English."""
    asks = load_word_lists("es").lists["question_words"]
    spanish = "¿" in question or not asks.isdisjoint(words(question)) or language_of(question) == "es"
    return "es" if spanish else "en"


def _common_names() -> frozenset[str]:
    """Return words that are a name only with a capital inside the question."""
    return frozenset[str]().union(*(load_word_lists(code).lists["names_too"] for code in ("en", "es")))


@dataclass(frozen=True, slots=True)
class _QuestionReading:
    """One question, its entities with their places, and what it says about time."""

    asked: MaskedQuestion
    entities: tuple[tuple[str, int], ...]
    time: QuestionTime

    def plan(self) -> QuestionPlan:
        """Return the plan, its time and its wording still to be filled in."""
        asked = _QUOTED.sub(lambda found: "\0" * len(found.group()), self.asked.text)
        operator = self._operator(asked) if self.entities else None
        start, end = self._anchor(operator)
        attribute = asked_state(self._main_clause(start, end), MASK) if self.entities else None
        kind = self._kind(asked, attribute, operator)
        return QuestionPlan(
            kind=kind,
            entities=self._kept(start, end),
            attribute=attribute if operator is not None else None,
            anchor=operator.anchor or None if operator is not None and kind == operator.kind else None,
            operator=operator,
        )

    def _operator(self, asked: str) -> TimeOperator | None:
        """Return the time operator that the question's words show."""
        found = read_operator(asked, dated=self.time.window is not None or self.time.as_of is not None)
        if found is None:
            return None
        return replace(found, begins=found.kind == "since" and not asks_since(asked), manner=asks_how(asked))

    def _kind(self, asked: str, attribute: str | None, operator: TimeOperator | None) -> QuestionKind:
        """Return the operator's kind where the question asks for a state, else whether it asks for a time or a list."""
        state = operator is not None and attribute is not None and not operator.manner
        if state and operator is not None and operator.kind in _OF_CHANGE:
            return operator.kind
        if asks_when(asked):
            return "last" if operator is not None and operator.kind == "last" else "when"
        if asks_for_list(asked):
            return "list"
        if state and operator is not None:
            return operator.kind
        return "as_of" if self.time.as_of and self.entities else "simple"

    def _anchor(self, operator: TimeOperator | None) -> tuple[int, int]:
        """Return where the text that a question is relative to stands; an empty stretch if it is relative to none."""
        anchor = (
            operator.anchor if operator is not None and operator.kind in ("predecessor", "successor") else ""
        )
        at = self.asked.text.find(anchor) if anchor else -1
        return (at, at + len(anchor)) if at >= 0 else (0, 0)

    def _main_clause(self, start: int, end: int) -> str:
        """Return the masked question with its anchor and its quotations blanked: "where did § live before      ?"."""
        masked = [
            " " if start <= origin < end else ch
            for ch, origin in zip(self.asked.masked, self.asked.origin, strict=False)
        ]
        return _QUOTED.sub(" ", "".join(masked))

    def _kept(self, start: int, end: int) -> tuple[str, ...]:
        """Return the entities that the question is about.

        One inside the anchor is none if there is another, nor is one who only says whose brother another is: "Bob's
        brother Tom".
        """
        whose = {self.asked.origin[found.start()] for found in _POSSESSOR.finditer(self.asked.masked)}
        outside = [(name, at) for name, at in self.entities if not start <= at < end]
        kept = [name for name, at in outside if at not in whose]
        return tuple(dict.fromkeys(kept or [name for name, _ in outside or self.entities]))
