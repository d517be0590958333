"""Plans a question by rule: its entities, the speakers it asks for, the state it asks for, and its time operator.

The operator is the one that the question's words show (`memforest.reading.question_parts`), whatever they ask about. "before",
"first" or "last" stand in many questions about events as well, so the plan has the operator for its *kind* only where it
asks for a state of somebody's, too; else the kind is ``when``, ``list`` or ``simple``, and the operator is for an index that
looks whether its memory has a timeline that fits. Words are known of English, Spanish, French and German; a question in
another language gets a ``simple`` plan with its entities and window.

A question about a time as a whole ("What did we talk about last week?", "What happened on 4 May?") shares no word with its
answer. It is recognised by what is left of it without names and dates: nothing but words of talking or happening, and words
without content (`memforest/data/talk.toml`).

Whose words a question wants (what *you* recommended to me, what *Ana* asked): who speaks is the subject of an act of speech
("tell", "recommend", "promise"), or in the passive whoever is not addressed. A question without such an act wants nobody's
words in particular where both sides of the dialogue are in it. The words are data (`memforest/data/language/*.toml`, in
English, Spanish and Chinese).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone, tzinfo
from functools import cache, lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Literal

from memforest.reading.clauses import asked_in
from memforest.reading.date_phrases import QuestionTime, question_time
from memforest.reading.question_parts import (
    MASK,
    MaskedQuestion,
    asks,
    language_of,
    read_mentions,
    read_operator,
    with_wording,
)
from memforest.reading.states import asked_state
from memforest.reading.tokens import load_word_lists, read_toml
from memforest.records import OperatorKind, QuestionKind, QuestionPlan, TimeOperator
from memforest.text import STOP_WORDS, fold, snowball_stem, strip_accents, words

_APOSTROPHES = re.compile("['’ʼ]")


def without_dates(text: str, dates: Iterable[str]) -> str:
    """Return a text without the first occurrence of each date, whatever its case.

    >>> without_dates("Did Ana bake on 4 March?", ["4 March"])
    'Did Ana bake on  ?'
    """
    for date in dates:
        text = re.sub(re.escape(date), " ", text, count=1, flags=re.IGNORECASE)
    return text


def as_talk(plan: QuestionPlan, masked: str) -> QuestionPlan:
    """Return a plan with the kind ``sessions`` or ``events`` if its question is about a time as a whole, else unchanged.

    Args:
        plan: with its window and the stretches that name it.
        masked: the question with `MASK` for each name.
    """
    dated = plan.start is not None or plan.end is not None
    text = strip_accents(fold(_APOSTROPHES.sub(" ", without_dates(masked, plan.dates).replace(MASK, " "))))
    for table in _tables():
        if any(ch.isalnum() for ch in table["all"].sub(" ", text)):
            continue
        ends: Iterator[OperatorKind] = (end for end in _ENDS if table[end].search(text))
        operator = next((TimeOperator(end) for end in ends), None)
        talk = table["talk"].search(text) is not None
        if talk and not (dated or operator):
            continue
        if talk or (dated and table["happen"].search(text)):
            return replace(
                plan,
                kind="sessions" if talk else "events",
                operator=operator if talk else None,
                attribute=None,
                anchor=None,
                topic=(),
                keywords=(),
            )
    return plan


_ENDS: tuple[OperatorKind, ...] = ("first", "last")


@cache
def _tables() -> Sequence[Mapping[str, re.Pattern[str]]]:
    """Return the words of each language, each set as a pattern, and ``all`` of them as one."""
    tables: list[Mapping[str, re.Pattern[str]]] = []
    for table in read_toml("data", "talk.toml").values():
        frame = r"(?<!\w)(?:%s)(?!\w)" if table.pop("spaces", True) else "(?:%s)"
        words = {name: text.split() for name, text in table.items()}
        words["all"] = [word for part in words.values() for word in part]
        tables.append(
            {
                name: re.compile(
                    frame
                    % "|".join(
                        re.escape(one).replace(r"\-", r"\W+") for one in sorted(part, key=len, reverse=True)
                    )
                )
                for name, part in words.items()
            }
        )
    return tables


Language = Literal["en", "es", "zh"]
Kind = Literal["subject", "object", "owner", "act", "light", "content"]
Sides = Sequence[tuple[str, ...]]
"""The two sides of a dialogue, as far as they are known: who asks, and who is asked."""

_REACH = 4
"""Most words between an act of speech and its subject or listener."""
_HAN = re.compile("[\u3400-\u9fff]")
_CLITICS = frozenset(("s", "ve", "d", "m", "ll", "re"))


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a question, its part in it, and the people it means."""

    text: str
    kind: Kind
    who: tuple[str, ...] = ()


def read_asked(
    question: MaskedQuestion, names: Mapping[str, str], code: str
) -> tuple[tuple[str, ...] | None, str | None, tuple[str, ...], frozenset[str]]:
    """Return whose words a question wants, who asks, whom of the two sides it is about, and its words for acts of speech.

    The speakers are empty where nobody's words in particular are wanted, None where the question does not say. The asker is
    None where the memory does not know who says "I". The question is about a side only where it is not just put by or to it.

    Args:
        question: with its names found.
        names: case-folded surface form -> display name; "i" and "you" are who asks and who is asked.
        code: of the question's language, "en" or "es".
    """
    language = "zh" if _HAN.search(question.text) else code
    lists = _lists(language)
    asker = next((names[key] for key in ("i", "me", "user") if key in names), None)
    sides = tuple((one,) if one else () for one in (asker, names.get("you")))
    both = sides[0] + sides[1]
    every = _read(question, sides, language)
    found = _without_lead(every, language)
    acts = [at for at, word in enumerate(found) if word.kind == "act"]
    tellers = (_teller(found, at, sides, language) for at in acts)
    speakers = next((who for who in tellers if who is not None), None)
    spoken = [word for word in found if word.who and set(word.who) <= set(both)]
    if speakers is None:
        acts = []
        # Without an act of speech either side may answer: "good for me", "should I".
        advice = any(one.text in lists["modals"] and word in spoken for one, word in pairwise(found))
        if advice or any(word.kind == "object" or word.text in lists["both"] for word in spoken):
            speakers = ()
    about: list[str] = []
    for at, word in enumerate(found):  # a subject near an act only says who tells whom
        serves = word.kind == "subject" and any(-1 <= act - at <= _REACH for act in acts)
        if word in spoken and word.kind != "object" and not serves:
            about += word.who
    said = {found[at].text for at in acts} | {word.text for word in every[: len(every) - len(found)]}
    wanted = None if speakers is None else _namesakes(speakers, question, names)
    return wanted, asker, tuple(dict.fromkeys(about)), frozenset(said - {""})


def asked_entities(
    asked: MaskedQuestion, asker: str | None, about: Sequence[str], names: Mapping[str, str]
) -> tuple[tuple[str, int], ...]:
    """Return the entities of a question with their places: whom it names, and who asks or is asked if it is about them.

    A first name that several are called by names all of them.
    """
    found: list[tuple[str, int]] = []
    for name, at in asked.entities:
        pronoun = asked.text[at] == "I" and not asked.text[at + 1 : at + 2].isalnum()
        if name in about or not pronoun:
            found += [(one, at) for one in _namesakes((name,), asked, names)]
    first = next((at for name, at in asked.entities if name == asker), 0)
    found += [(one, first) for one in about if not any(one == name for name, _ in found)]
    return tuple(sorted(found, key=itemgetter(1)))


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
    """Return the word lists of a language that this module reads, empty where it has none; ``acts`` are stems."""
    own = load_word_lists(code)
    found = {name: own.get(name, frozenset()) for name in _NAMES}
    found["modals"] = found["asking_modals"] | found["advice_modals"]
    found["light"] = STOP_WORDS.union(*(found[name] for name in ("between", "to", "question_words")))
    found["acts"] = frozenset(_stem(word, code) for word in found["speech"])
    return found


_NAMES = (
    "asker", "addressee", "both", "not_subject", "owning", "speech", "recall", "passive", "third_party", "to", "between",
    "asking_modals", "advice_modals", "question_words",
)  # fmt: skip


@lru_cache(maxsize=2048)
def _stem(word: str, code: str) -> str:
    if code == "zh":
        return word
    return snowball_stem(strip_accents(word), "english" if code == "en" else "spanish")


def _read(question: MaskedQuestion, sides: Sides, code: str) -> list[_Word]:
    """Return the words of a question, names included, each with its kind by the lists of the language."""
    lists, found = _lists(code), list[_Word]()
    persons = (("asker", sides[0]), ("addressee", sides[1]), ("both", sides[0]))
    for place, piece in enumerate(question.masked.split(MASK)):
        if place:
            kind: Kind = "owner" if piece.startswith("'s") else "subject"
            found.append(_Word("", kind, question.entities[place - 1][:1]))
        before = ""
        for number, word in enumerate(_split(piece) if code == "zh" else words(piece)):
            last, before = before, word or before
            if not any(ch.isalnum() for ch in word) or (place and number == 0 and word in _CLITICS):
                continue
            who = next((who for name, who in persons if word in lists[name]), None)
            if who is not None:
                moved = word in lists["not_subject"] or last in lists["to"]
                kind = "owner" if word in lists["owning"] else "object" if moved else "subject"
            elif _stem(word, code) in lists["acts"]:
                kind = "act"
            else:
                light = word in lists["light"] or (code == "en" and word.endswith("ly"))
                kind = "light" if light else "content"
            found.append(_Word(word, kind, who or ()))
    return found


def _split(text: str) -> list[str]:
    """Return a Chinese text cut at its known words; the pieces between them are content."""
    known = {word for name in _NAMES for word in _lists("zh")[name]}
    return re.split(f"({'|'.join(sorted(known, key=len, reverse=True))}|[^\\w]+)", text)


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


def _teller(found: Sequence[_Word], at: int, sides: Sides, code: str) -> tuple[str, ...] | None:
    """Return the performers of the act of speech at `at`; None if nobody in this memory performed it."""
    lists = _lists(code)
    first, subject = max(0, at - _REACH), None
    for place in range(at - 1, first - 1, -1):
        word = found[place]
        if word.kind == "subject" or (word.kind == "owner" and place == at - 1):
            first, subject = max(0, place - 1), word
            break
        if word.kind in ("owner", "content"):
            # "which book was recommended", but "what did the doctor recommend"
            if found[place + 1].text not in lists["passive"]:
                return None
            break
    auxiliaries = {one.text for one in found[first:at]}
    if auxiliaries & lists["modals"]:
        return None  # "what should I tell my doctor?"
    if subject is not None:
        passive = auxiliaries & lists["passive"] and subject.kind == "subject"
        addressed = passive and not found[at].text.endswith("ing")
        return _other(subject.who, sides) if addressed else subject.who
    if found[at + 1 : at + 2] and found[at + 1].text in lists["third_party"]:
        return None  # "¿qué me recomendó el médico?"
    if code == "es" and found[at].text.endswith(("ste", "steis")):
        return sides[1]
    # Without a subject: by its form, or the side that is not the listener.
    near = found[at + 1 : at + 1 + _REACH] if code == "en" else found[max(0, at - _REACH) : at + 1 + _REACH]
    by = next((one for before, one in pairwise(near) if before.text == "by" and one.who), None)
    addressee = next((one for one in near if one.kind == "object"), None)
    return by.who if by is not None else None if addressee is None else _other(addressee.who, sides)


def _other(who: Sequence[str], sides: Sides) -> tuple[str, ...]:
    """Return the other side of a dialogue than `who` is on; nobody if `who` is on neither."""
    both = sides[0] + sides[1]
    return tuple(one for one in both if one not in who) if set(who) & set(both) else ()


_QUOTED = re.compile(r'"[^"]*"|“[^“”]*”|«[^«»]*»|「[^「」]*」')
_POSSESSOR = re.compile(rf"{MASK}'s \w+ (?={MASK})")
_OF_CHANGE = ("changed_back", "since", "predecessor", "successor", "last", "first")


class RulePlanner:
    """Plans questions without a model, deterministically."""

    name = "rule-planner-1"

    def __init__(self, *, zone: tzinfo = timezone.utc) -> None:
        """Make a planner that reads "last May" as the days of a zone."""
        self._zone = zone

    async def plan(self, question: str, *, reference: datetime, names: Mapping[str, str]) -> QuestionPlan:
        """Return the plan of a question; see `Planner.plan`."""
        return plan_question(question, reference=reference, names=names, zone=self._zone)


def plan_question(
    question: str,
    *,
    reference: datetime,
    names: Mapping[str, str],
    zone: tzinfo = timezone.utc,
) -> QuestionPlan:
    """Return the plan of a question.

    Args:
        question: as it was typed.
        reference: aware UTC; what "now" and "last month" are relative to.
        names: case-folded surface form -> display name.
        zone: in which days begin.
    """
    question = asked_in(question)
    # Spanish if it has a Spanish question word, else English; `common` are words that are names only with a capital.
    spanish = not load_word_lists("es")["question_words"].isdisjoint(words(question))
    code = "es" if spanish or "¿" in question or language_of(question) == "es" else "en"
    common = load_word_lists("en")["names_too"] | load_word_lists("es")["names_too"]
    asked = read_mentions(question, names, common)
    speakers, asker, about, acts = read_asked(asked, names, code)
    time = question_time(asked.text, reference, zone)
    entities = asked_entities(asked, asker, about, names)
    plan = replace(
        _planned(asked, entities, time),
        start=time.window.start if time.window else None,
        end=time.window.end if time.window else None,
        as_of=time.as_of,
        dates=time.words,
        open_year=time.open_year,
        speakers=speakers,
        asker=asker,
    )
    plan = with_wording(plan, question, [name for name, _ in entities], asked.without(time.places), acts)
    return as_talk(plan, asked.masked)


def _planned(
    asked: MaskedQuestion, entities: tuple[tuple[str, int], ...], time: QuestionTime
) -> QuestionPlan:
    """Return the plan of a question, its time and its wording still to be filled in."""
    text = _QUOTED.sub(lambda found: "\0" * len(found.group()), asked.text)
    dated = time.window is not None or time.as_of is not None
    operator = read_operator(text, dated=dated) if entities else None
    start = end = 0  # the text that a question is relative to
    if operator is not None:
        begins = operator.kind == "since" and not asks("span", text)
        operator = replace(operator, begins=begins, manner=asks("manner", text))
        anchor = operator.anchor if operator.kind in ("predecessor", "successor") else ""
        if anchor and (at := asked.text.find(anchor)) >= 0:
            start, end = at, at + len(anchor)
    # Anchor and quotations are blanked: "where did § live before      ?".
    main = "".join(
        " " if start <= origin < end else ch for ch, origin in zip(asked.masked, asked.origin, strict=False)
    )
    attribute = asked_state(_QUOTED.sub(" ", main), MASK) if entities else None
    state = operator if operator is not None and attribute is not None and not operator.manner else None
    kind: QuestionKind = "as_of" if time.as_of and entities else "simple"
    if state is not None and state.kind in _OF_CHANGE:
        kind = state.kind
    elif asks("asks_when", text):
        kind = "last" if operator is not None and operator.kind == "last" else "when"
    elif asks("asks_list", text):
        kind = "list"
    elif state is not None:
        kind = state.kind
    # An entity inside the anchor is not asked about if there is another, nor who only says whose brother another is.
    whose = {asked.origin[found.start()] for found in _POSSESSOR.finditer(asked.masked)}
    outside = [(name, at) for name, at in entities if not start <= at < end]
    kept = [name for name, at in outside if at not in whose] or [name for name, _ in outside or entities]
    return QuestionPlan(
        kind=kind,
        entities=tuple(dict.fromkeys(kept)),
        attribute=attribute if operator is not None else None,
        anchor=operator.anchor or None if operator is not None and kind == operator.kind else None,
        operator=operator,
    )
