"""Whose words a question asks for: what *you* recommended to me, what *I* told you, what *Ana* asked.

Who speaks is the subject of an act of speech ("tell", "recommend", "promise"), or whoever is not told in the passive.
A question without such an act wants nobody's words in particular where both sides of the dialogue are in it. The words
are data (`memforest/data/language/*.toml`, in English, Spanish and Chinese).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from memforest.language.language import load_word_lists
from memforest.steps.local.mentions import MASK, MaskedQuestion
from memforest.text import STOP_WORDS, snowball_stem, strip_accents, words

Language = Literal["en", "es", "zh"]
Kind = Literal["subject", "object", "owner", "act", "light", "content"]

_REACH = 4
"""Words between an act of speech and its subject, or whom it is said to."""
_HAN = re.compile("[\u3400-\u9fff]")
_CLITICS = frozenset(("s", "ve", "d", "m", "ll", "re"))


@dataclass(frozen=True, slots=True)
class Asked:
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


def read_asked(question: MaskedQuestion, names: Mapping[str, str], code: str) -> Asked:
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
    return Asked(
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
    asked: MaskedQuestion, who: Asked, names: Mapping[str, str]
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


# -- the words of a question ----------------------------------------------------------------------


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


# -- who speaks -----------------------------------------------------------------------------------


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
