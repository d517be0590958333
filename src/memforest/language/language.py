"""Word lists per language (`memforest/data/language/*.toml`) and the cheap guess which language a turn is in."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Literal

from memforest.text import word_set, words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Code = Literal["en", "es", "other"]
"""The languages with rules of their own; ``"other"`` is everything else."""

# Frequent words of other Latin-script languages that are no English or Spanish word.
_OTHER_LATIN = word_set("""
    je il nous vous est une dans avec pour sur pas mon ma mes ce cette j'ai c'est des ich nicht und der das ist wir
    sie ein eine mit auf für habe bin zu gli che sono non è per ho della nel uma não eu você mas com meu minha um ik
    het een niet och jag är på att w się jest nie ve bir ben bu için
    """)
_SAMPLE_CHARS = 600
_LAST_LATIN = 0x2FF


@dataclass(frozen=True, slots=True)
class WordLists:
    """The word lists and replacement tables of one language, all lower case."""

    code: str
    lists: Mapping[str, frozenset[str]]
    tables: Mapping[str, Mapping[str, str]]


@lru_cache(maxsize=8)
def load_word_lists(code: str) -> WordLists:
    """Return the word lists of `code`, read once per process from the package's data.

    Raises:
        FileNotFoundError: if the package carries no lists for `code`.
    """
    raw = (resources.files("memforest") / "data" / "language" / f"{code}.toml").read_text(encoding="utf-8")
    parsed = tomllib.loads(raw)
    return WordLists(
        code=code,
        lists=MappingProxyType({name: frozenset(text.split()) for name, text in parsed["lists"].items()}),
        tables=MappingProxyType({name: MappingProxyType(table) for name, table in parsed["tables"].items()}),
    )


@lru_cache(maxsize=1)
def _function_words() -> dict[str, str]:
    """Return function word -> the language it votes for."""
    english, spanish = (load_word_lists(code).lists["function_words"] for code in ("en", "es"))
    table = dict.fromkeys(_OTHER_LATIN, "other")
    table |= (
        dict.fromkeys(english, "en") | dict.fromkeys(spanish, "es") | dict.fromkeys(english & spanish, "both")
    )
    return table


@lru_cache(maxsize=1)
def _english_verbs() -> frozenset[str]:
    """Return past forms that no other language has, for sentences without a function word."""
    return load_word_lists("en").lists["irregular_past"]


def detect_language(text: str) -> Code:
    """Return the language whose function words `text` uses, looking at its first 600 characters.

    Without any function word, a text in plain ASCII counts as English when it is at most four words
    ("Pottery!"); everything else is ``"other"``, which means: quoted, never rewritten.
    """
    found = [word.lower().replace("’", "'") for word in words(text[:_SAMPLE_CHARS])]
    if not found:
        return "other"
    table = _function_words()
    votes = Counter(table[word] for word in found if word in table)
    english = votes["en"] + votes["both"]
    spanish = votes["es"] + votes["both"]
    other = votes["other"]
    if "¿" in text or "¡" in text:
        spanish += 3
    best = max(english, spanish, other)
    if best == 0:
        english_verb = not _english_verbs().isdisjoint(found)
        return "en" if text.isascii() and (len(found) <= 4 or english_verb) else "other"
    if best * 10 < len(found) or (other == best and other > english and other > spanish):
        return "other"
    return "en" if english >= spanish and english >= other else "es" if spanish >= other else "other"


def has_foreign_words(text: str) -> bool:
    """Return whether a text has a function word, or letters, of a language without rules."""
    found = words(text[:_SAMPLE_CHARS])
    return any(word.lower() in _OTHER_LATIN or ord(max(word)) > _LAST_LATIN for word in found)
