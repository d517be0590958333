"""The role that a thing or a person has for somebody: "Bob's new *physio* is a man called Piet", "Piet is my *physio*".

What fills the same role is of one kind, and a person who fills one is as much a value as a city or a tea. The noun is
whatever stands behind an owner; no role is listed.
"""

from __future__ import annotations

import re

from memforest.language.aspect import listed, word_list
from memforest.language.phrases import TOKEN, Phrase, is_content

_OWNER = r"(?:\b(?:his|her|their|my|our)|[\w-]{1,32}'s)"
_IS = r"(?:is|was|were|are|became|becomes|has been|had been|will be|'s)"
_FILLER = r"(?:now|still|again|currently|once more|an?|the|certain|some|guy|man|woman|girl|lady|one|someone|somebody|called|named|in|on|at)"
_BEFORE = re.compile(
    rf"(?<![\w-]){_OWNER} ((?:[\w-]{{1,24}} ){{1,4}}?){_IS}(?: {_FILLER}){{0,5}}\s{{1,4}}$", re.IGNORECASE
)
_BEHIND = re.compile(
    rf",? (?:{_IS}|as|for)(?: (?:now|still|again|currently|once more))? {_OWNER} ", re.IGNORECASE
)
_REACH = 64
"""Characters on either side of a phrase in which its role may stand."""


def held_by(text: str, phrase: Phrase) -> str:
    """Return what tells that a phrase holds a role, "'s new physio is a man called "; empty if nothing in front does."""
    found = _BEFORE.search(text[max(0, phrase.start - _REACH) : phrase.start])
    return found.group() if found else ""


def role_of(text: str, phrase: Phrase) -> str:
    """Return the noun of the role that a phrase has for somebody, lower case; empty if the sentence tells none."""
    found = _BEFORE.search(text[max(0, phrase.start - _REACH) : phrase.start])
    if found is not None:
        return _noun(found.group(1), last=True)
    behind = _BEHIND.match(text, phrase.end, phrase.end + _REACH)
    return _noun(text[behind.end() : phrase.end + _REACH], last=False) if behind else ""


def _noun(words: str, *, last: bool) -> str:
    """Return the noun of some words behind an owner: the last of all, or of those before the noun phrase ends."""
    noun = ""
    for token in TOKEN.finditer(words):
        word = token.group().lower()
        if is_content(word) and word not in listed("no_frame"):
            noun = word
        elif not last and word not in word_list("determiners") and noun:
            break
    return noun
