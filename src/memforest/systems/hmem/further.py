"""A further question without a model: one about an entity that a question describes, and whose name the graph has.

"What does Ana's sister study?" names nobody but Ana. Where a relation of hers is called so and leads to one entity alone, that
is asked for by name: "What does Lucía study?". Source: H-Mem (arXiv 2605.15701) §3.3, where a model asks; this is the plain case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from memforest.graph.known import Graph
from memforest.graph.near import seeds
from memforest.language.joining import LANGUAGES, load_words
from memforest.systems.base import Search
from memforest.systems.hmem.entry import names_in
from memforest.text import lexical_tokens

LINKS = 2
"""Words between what an entity is and whose: "the sister *of my* Ana"."""
_LINK = re.compile(r"[^\W\d_]{1,3}")
_POSSESSIVE = re.compile(r"(?:['’]s|s['’])$", re.IGNORECASE)


class Further(NamedTuple):
    """A further question, or why there is none although an entity is described."""

    text: str
    """Empty where it is refused."""
    names: tuple[str, ...]
    """What the entity that is meant may be called."""
    refused: str = ""


def described(graph: Graph, request: Search, text: str, at_ms: int) -> Further | None:
    """Return the question with the name in the place of a description; None if it describes nobody whom the graph knows.

    Args:
        graph: of the memory.
        request: the question as it is read.
        text: of the question.
        at_ms: the present of the question; relations that have ended by then count where no other does.
    """
    words = text.split()
    asked = {token for word in words for token in lexical_tokens(word)}
    named = {place for place, score in seeds(graph, names_in(request)).items() if score == 1}
    people = [place for place in named if graph.kinds[place] in ("participant", "person")]
    found: dict[tuple[int, str], list[int]] = {}
    labels: dict[str, bool] = {}
    for place in sorted(named, key=lambda one: int(graph.order[one])):
        for number in graph.relations_of[place]:
            one = graph.relations[number]
            if one.source != place or one.target in named:
                continue
            if one.label not in labels:
                told = lexical_tokens(one.label)
                labels[one.label] = bool(told) and asked.issuperset(told)
            if labels[one.label]:
                found.setdefault((place, one.label), []).append(number)
    for (place, label), numbers in found.items():
        alone = people in ([place], [])
        span = _span(words, lexical_tokens(label), _tokens(graph, place), alone=alone)
        if span is None:
            continue
        holding = [at for at in numbers if graph.relations[at].holds_at(at_ms)] or numbers
        targets = list(dict.fromkeys(graph.relations[at].target for at in holding))
        names = tuple(graph.labels[target] for target in targets)
        if len(targets) > 1:
            return Further("", names, f"{graph.labels[place]!r} has {len(targets)} of {label!r}")
        return Further(_named(words, span, names[0]), names)
    return None


def _tokens(graph: Graph, place: int) -> frozenset[str]:
    return frozenset(token for name in graph.names(place) for token in lexical_tokens(name))


def _span(
    words: Sequence[str], label: Sequence[str], name: frozenset[str], *, alone: bool
) -> tuple[int, int] | None:
    """Return the first and last of the words that describe an entity, None if they only have its label in them.

    They do with a name in the possessive in front of the label ("Ana's sister"), with one behind it and a small word between
    ("the sister of Ana"), and where nobody else is named (`alone`) with a word for whose it is ("my sister", "her sister").
    """
    spelled = [frozenset(lexical_tokens(word)) for word in words]
    of_name = [bool(tokens) and tokens <= name for tokens in spelled]
    for first in range(len(words)):
        last = first + len(label) - 1
        if last >= len(words) or [
            token for word in words[first : last + 1] for token in lexical_tokens(word)
        ] != list(label):
            continue
        before = first
        while before and of_name[before - 1]:
            before -= 1
        if before < first and _POSSESSIVE.search(words[first - 1]):
            return before, last
        behind = last + 1
        while (
            behind < len(words)
            and behind <= last + LINKS
            and not of_name[behind]
            and _LINK.fullmatch(words[behind])
        ):
            behind += 1
        if behind > last + 1 and behind < len(words) and of_name[behind]:
            while behind + 1 < len(words) and of_name[behind + 1]:
                behind += 1
            return first, behind
        if first and alone and _owns(words[first - 1]):
            return first - 1, last
    return None


def _owns(word: str) -> bool:
    """Return whether a word says whose something is, in one of the languages of `memforest/data/relations`."""
    return any(load_words(code).is_("owners", word.lower()) for code in LANGUAGES)


def _named(words: Sequence[str], span: tuple[int, int], name: str) -> str:
    """Return a text with a name in the place of some words; what ends the last one stays."""
    first, last = span
    end = words[last].rstrip("?!.,;:…")
    return " ".join([*words[:first], name + words[last][len(end) :], *words[last + 1 :]])
