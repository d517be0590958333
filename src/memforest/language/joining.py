"""The words by which a clause joins two names, by their part: ``data/relations``, and the lists of ``data/language``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from memforest.language.language import load_word_lists
from memforest.text import word_set

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LANGUAGES = ("en", "es")
"""Languages with a table."""


@dataclass(frozen=True, slots=True)
class Words:
    """One language's words, lower case, by the part that they play in a clause."""

    parts: Mapping[str, frozenset[str]]
    endings: Mapping[str, tuple[str, ...]]
    adverbs: frozenset[str]
    verbs: frozenset[str]
    """Told by themselves: "went", "loves"."""
    bases: frozenset[str]
    """Behind a plural subject or "did": "love"."""
    participles: frozenset[str]
    no_verbs: frozenset[str]

    def is_(self, part: str, word: str) -> bool:
        """Return whether a word plays a part."""
        return word in self.parts[part]

    def is_any(self, word: str, *parts: str) -> bool:
        """Return whether a word plays one of some parts."""
        return any(word in self.parts[part] for part in parts)

    def is_adverb(self, word: str) -> bool:
        """Return whether a word may stand between a subject and its verb."""
        return word in self.adverbs or (len(word) > 4 and word.endswith(self.endings["adverb"]))

    def is_past(self, word: str) -> bool:
        """Return whether a word is surely a verb, and told in the past."""
        return word in self.verbs or (word not in self.no_verbs and self._ends(word, "past"))

    def is_told(self, word: str) -> bool:
        """Return whether a word is a verb that a single subject takes, in the past or present."""
        if word in self.verbs:
            return True
        if (
            word in self.no_verbs
            or len(word) < 3
            or "'" in word
            or self._ends(word, "no_verb")
            or self._ends(word, "future")
        ):
            return False
        return self._ends(word, "verb")

    def is_verb(self, word: str) -> bool:
        """Return whether a word is a verb that a subject takes, be it one or several."""
        return word in self.bases or self.is_told(word)

    def is_done(self, word: str) -> bool:
        """Return whether a word is a participle behind "have"."""
        return word in self.participles or (len(word) > 3 and self._ends(word, "done"))

    def is_doing(self, word: str) -> bool:
        """Return whether a word is the form of what goes on: "visiting"."""
        return len(word) > 4 and self._ends(word, "doing")

    def noun_of(self, words: Sequence[str]) -> str:
        """Return the name of what somebody is to somebody, without "new": "best friend" of "new best friend"."""
        dropped = self.parts["determiners"] | self.parts["called"]
        return " ".join(word for word in words if word not in dropped)

    def _ends(self, word: str, name: str) -> bool:
        return word.endswith(self.endings[name])


@lru_cache(maxsize=len(LANGUAGES))
def load_words(code: str) -> Words:
    """Return the words of one of `LANGUAGES`, read once per process from the package's data."""
    path = resources.files("memforest") / "data" / "relations" / f"{code}.toml"
    raw: Mapping[str, Mapping[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    parts = {name: word_set(text) for name, text in raw["words"].items()}
    lists = load_word_lists(code).lists
    base = lists.get("common_verbs", frozenset())
    helping = parts["be"] | parts["have"] | parts["do"]
    closed = ("determiners", "prepositions", "particles", "pronouns", "nouns", "joins", "owners")
    return Words(
        parts=parts | {"unreal": parts["unreal"] | parts["denied"]},
        endings={name: tuple(text.split()) or ("\0",) for name, text in raw["endings"].items()},
        adverbs=(lists["adverbs"] | parts["fillers"]) - parts["denied"],
        verbs=(parts["verbs"] | lists.get("irregular_past", frozenset())) - helping,
        bases=base,
        participles=lists.get("participles", frozenset()) | lists.get("irregular_past", frozenset()),
        no_verbs=frozenset().union(*(parts[name] for name in closed))
        | lists.get("not_verbs", frozenset())
        | helping,
    )
