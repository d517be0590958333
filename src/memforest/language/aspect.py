"""The wording by which English tells whether something is so, begins, ends or is only thought of.

Patterns and word lists of ``data/stance/en.toml``, compiled once. They name classes of wording, no attributes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from memforest.language.language import load_word_lists
from memforest.language.lexicon import load_lexicon

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["kin", "listed", "past_forms", "roles", "rules", "word_list"]


def word_list(name: str) -> frozenset[str]:
    """Return one of the word lists of English; they are read at the first use, as importing should cost nothing."""
    return load_word_lists("en").lists[name]


def kin() -> frozenset[str]:
    """Return words for relatives."""
    return load_lexicon("en").words["kin"]


def roles() -> frozenset[str]:
    """Return words for occupations."""
    return load_lexicon("en").kinds["role"]


@lru_cache(maxsize=1)
def past_forms() -> frozenset[str]:
    """Return past forms that do not end in -ed."""
    return word_list("irregular_past") | frozenset(("was", "were", "had", "did"))


@lru_cache(maxsize=1)
def _raw() -> Mapping[str, Any]:
    path = resources.files("memforest") / "data" / "stance" / "en.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def rules() -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of every class of wording."""
    found = {}
    for name, sources in _raw().items():
        if isinstance(sources, str) or name == "clause":
            continue
        joined = "|".join(f"(?:{source})" for source in sources)
        found[name] = re.compile(rf"(?<![\w-])(?:{joined})(?![\w-])", re.IGNORECASE)
    clauses = "|".join(re.escape(mark) for mark in _raw()["clause"])
    found["clause"] = re.compile(clauses)
    return found


@lru_cache(maxsize=8)
def listed(name: str) -> frozenset[str]:
    """Return one of the plain word lists of the file."""
    return frozenset(_raw()[name].split())
