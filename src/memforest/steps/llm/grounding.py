"""Whether a statement is supported by the turns it claims to come from: its words, its names, its numbers.

Catches what a model made up, copied from the prompt's examples, or was talked into; it cannot tell a true reading from
a false one that uses the same words. A name or number has to be there as it was said; of the other words, which
may be paraphrased, a part has to be.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal

from memforest.language.entities import find_mentions
from memforest.language.language import Code
from memforest.language.sentences import MAX_PIECE_CHARS
from memforest.steps.llm.replies import Named
from memforest.steps.llm.source import Source, SourceTurn, folded, forms_of, plain_words, stands_in
from memforest.steps.local.draft import acting_names
from memforest.text import STOP_WORDS, numbers, word_set, words

__all__ = ["MIN_SHARED", "Lack", "is_name", "people_forms", "support_of", "unsupported"]

MIN_SHARED = 0.3
"""Part of a statement's content words that the chunk has to have. Chosen by hand: a paraphrase keeps a third or more."""

_SMALL = frozenset("0123")
"""Numbers that a statement may count by itself when it writes them out: "two cats, Tom and Kit"."""

_NO_NAMES = word_set("""
    mr mrs ms miss dr prof sir madam st
    january february march april may june july august september october november december
    monday tuesday wednesday thursday friday saturday sunday
    mondays tuesdays wednesdays thursdays fridays saturdays sundays
    lunes martes miércoles jueves viernes sábado domingo
""")


Lack = Literal["a name", "a number", "its words"]


def unsupported(text: str, language: Code, entities: Collection[Named], source: Source) -> Lack | None:
    """Return what of a statement the turns do not say, None if all of it is supported.

    Args:
        text: the statement without its dates, which are checked by themselves.
        language: of the statement.
        entities: what the model listed as named.
        source: the chunk.
    """
    if not all(_is_said(name, source) for name in _names(text, language, entities, source)):
        return "a name"
    if not all(_is_counted(one, text, source) for one in numbers(text) if one[0].isdigit()):
        return "a number"
    return None if _shared(text, language, source) >= MIN_SHARED else "its words"


def _names(text: str, language: Code, entities: Collection[Named], source: Source) -> list[str]:
    """Return the names in a text: those that its capitals show, and those of the model's that stand in it."""
    whole = folded(text)
    found: list[str] = []
    if language != "other":  # capitals tell no names in German, and other scripts have none
        found = [one.name for one in find_mentions(text, participants=source.participants, language=language)]
    if language == "en":
        found += acting_names(text)  # what opens a sentence as its subject is not told from a name
    listed = [one.name for one in entities if is_name(one) and stands_in(folded(one.name), whole)]
    return list(dict.fromkeys((*found, *listed)))


def is_name(entity: Named) -> bool:
    """Return whether what a model listed is a name, and not a common noun: it has a capital, or cannot have one.

    >>> [is_name(Named(name=n, type=t)) for n, t in (("Porto", ""), ("boat", "thing"), ("东京", "place"), ("船", "thing"))]
    [True, False, True, False]
    """
    name = entity.name.strip()
    if not any(ch.isalpha() for ch in name) or name.islower():
        return False
    cased = name.lower() != name.upper()
    return cased or entity.type.strip().lower() in ("person", "place", "organisation")


def _is_said(name: str, source: Source) -> bool:
    """Return whether a name is said as a whole, or every word of it somewhere."""
    whole = folded(name)
    if any(stands_in(whole, one.folded) for one in source.everything):
        return True
    return all(_is_word(word, source.words) for word in plain_words(name) if _tells(word))


def _tells(word: str) -> bool:
    return len(word) > 1 and word not in STOP_WORDS and word not in _NO_NAMES and not word[0].isdigit()


def _is_word(word: str, known: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a word is known, or one that it begins, or that begins it: "Mel", "Melanie"."""
    near = known.get(word[:3], frozenset())
    return any(one.startswith(word) or word.startswith(one) for one in near)


def _is_counted(number: str, text: str, source: Source) -> bool:
    """Return whether a number is said, or is a small one that the statement writes out in a word."""
    bare = re.sub(r"[.:,]0+$", "", number)
    if number in source.numbers or bare in source.numbers or bare.lstrip("0") in source.numbers:
        return True
    return number in _SMALL and number not in words(text)


def _shared(text: str, language: Code, source: Source) -> float:
    """Return which part of the content words is said in the chunk; 1 for a translation, where that cannot be told."""
    if language not in {one.language for one in source.said.values()}:
        return 1.0
    mine = forms_of(text) - people_forms(source)
    return sum(form in source.forms for form in mine) / len(mine) if mine else 0.0


def people_forms(source: Source) -> frozenset[str]:
    """Return the forms of the participants' names, which support nothing: everything is about them."""
    return frozenset(form for name in source.participants.values() for form in forms_of(name))


def support_of(text: str, said: SourceTurn, source: Source) -> str:
    """Return the sentences of a turn that a statement rests on, as they were said; all of it if none shows."""
    mine = forms_of(text) - people_forms(source)
    shared = [len(mine & forms) for _, forms in said.sentences]
    best = max(shared, default=0)
    if best == 0:
        return said.told.strip()[:MAX_PIECE_CHARS]
    return " ".join(
        text for (text, _), share in zip(said.sentences, shared, strict=True) if 2 * share >= best
    )
