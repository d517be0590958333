"""Whose a phrase is: which person a sentence is about, and what in it belongs to somebody else.

"Bob's dentist trains at Ironworks" is no news of Bob's gym, "half of Ana's rye bread" is Ana's, and "her boss at
Acme" puts her at Acme too.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from memforest.language.aspect import is_person, past_forms, rules, word_list
from memforest.language.phrases import TOKEN, Phrase, Statement


def answers_about(statement: Statement, who: str, others: Collection[str]) -> str:
    """Return whom the question is about that a statement answers."""
    asked = statement.asked
    if place_of(asked, who) >= 0:
        return who
    named = [name for name in others if place_of(asked, name) >= 0]
    if named:
        return named[0]
    return statement.speaker if re.search(r"\byou(?:r|rs|'re|'ve)?\b", asked, re.IGNORECASE) else ""


def place_of(text: str, name: str) -> int:
    """Return where a name stands in a text, or -1."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if (at == 0 or not text[at - 1].isalnum()) and (end == len(text) or not text[end].isalnum()):
            return at
        at = text.find(name, at + 1)
    return -1


def subject_of(text: str, who: str, others: Collection[str], previous: str) -> str:
    """Return the name of the person that a sentence is about, "?" for somebody unnamed, "" for nobody."""
    first = text.split(" ", 1)[0].rstrip(",.;:").lower()
    if first in ("he", "she", "he's", "she's", "his", "her"):
        return previous or "?"
    places = [(at, name) for name in (who, *others) if (at := place_of(text, name)) >= 0]
    found = _FOUND.search(text)
    if found is not None and any(name == found.group(1) for _, name in places):
        return found.group(1)
    person = 32
    if first not in ("as", "being", "still"):
        person = next((m.start() for m in TOKEN.finditer(text, 0, 32) if is_person(m.group())), 32)
    if not places:
        return "?" if person < 24 else ""
    at, name = min(places, key=lambda pair: (pair[0], -len(pair[1])))
    return "?" if person < min(at, 16) else name


_FOUND = re.compile(r"\b(?:find|catch|meet|reach) ([^\W\d_][\w-]*(?: [^\W\d_a-z][\w-]*)?) (?:at|in|on)\b")


def mentioned(text: str, who: str, others: Collection[str], previous: str) -> str:
    """Return the one person that a sentence names, else whom the one before was about."""
    places = [name for name in (who, *others) if place_of(text, name) >= 0]
    return places[0] if len(places) == 1 else previous


def is_elliptical(text: str) -> bool:
    """Return whether a sentence without a person leaves out its speaker: "Still in Davis", "Here in Davis …"."""
    return rules()["elliptical"].match(text) is not None


def owner_of(text: str, phrase: Phrase, names: Collection[str]) -> str:
    """Return whose a phrase is by the name right in front of it: "half of *Ana's* rye bread"."""
    found = _OWNER.search(text[: phrase.start])
    if found is None:
        return ""
    ending = re.compile(
        "|".join(rf"(?<!\w){re.escape(name)}$" for name in sorted(names, key=len, reverse=True))
    )
    owner = ending.search(text[: found.start()])
    return owner.group() if owner else ""


_OWNER = re.compile(r"'s (?:[a-z-]+ ){0,2}$")


def is_affected(text: str, who: str, subject: str) -> bool:
    """Return whether the person is what somebody unnamed acts on: "The shelter brought Bob a dog"."""
    return subject == "?" and place_of(text, who) > 0


def is_joined(text: str, who: str, subject: str) -> bool:
    """Return whether a person is the second of two subjects: "Ana and *Bob* live in Leeds"."""
    joined = rf"{re.escape(subject)}(?:, [^\W\d_][\w-]*)?,? and {re.escape(who)}(?!\w|'s)"
    return subject not in ("", "?") and re.match(joined, text) is not None


def is_somebody_elses(text: str, who: str, phrase: Phrase) -> bool:
    """Return whether a phrase belongs to somebody whom the person only has: "Bob's dentist trains at …"."""
    owner = text.find(f"{who}'s ")
    if owner < 0 or owner > phrase.start:
        return False
    between = text[owner + len(who) + 3 : phrase.start].lower()
    if _APPOSED.fullmatch(between) or rules()["sharing"].fullmatch(between.strip()):
        return False
    words = [token.group() for token in TOKEN.finditer(between)]
    for i, word in enumerate(words[:4]):
        if is_person(word):
            return who.lower() not in words[i + 1 :] and not (phrase.named and _NAMED.search(between))
        if word in word_list("finite") or word in past_forms() or word in word_list("prepositions"):
            return False
    return False


_NAMED = re.compile(
    r"\b(?:is|was|became|been)(?: (?:now|still|again|currently|an?|the|certain|some|guy|man|woman|one|someone|called|named))*\s*$"
)
"""What stands between a role and the name of who has it: "Bob's doctor *is still* Dr Sun"."""
_APPOSED = re.compile(r"(?:[\w-]+ ){0,3}[\w-]+, ")
"""What stands between an owner and the name of what is owned: "Bob's *new doctor,* Dr Sun"."""
