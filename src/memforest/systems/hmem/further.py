"""A further question without a model: one about an entity that a question describes, and whose name the graph has.

"What does Ana's sister study?" names nobody but Ana. Where a relation of hers is called so and leads to one entity alone, that
is asked for by name: "What does Lucía study?". Source: H-Mem (arXiv 2605.15701) §3.3, where a model asks; this is the plain case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memforest.graph.graph import Graph
from memforest.graph.near import seeds
from memforest.systems.base import Search
from memforest.systems.hmem.entry import names_in
from memforest.text import lexical_tokens

__all__ = ["SPAN", "Further", "described"]

SPAN = 5
"""Words from the first to the last one that describe an entity: "the sister of my friend Ana"."""


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
    spelled = [tuple(lexical_tokens(word)) for word in words]
    asked = {token for tokens in spelled for token in tokens}
    named = {place for place, score in seeds(graph, names_in(request)).items() if score == 1}
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
        span = _span(spelled, tuple(lexical_tokens(label)), _tokens(graph, place))
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
    spelled: Sequence[tuple[str, ...]], label: Sequence[str], name: frozenset[str]
) -> tuple[int, int] | None:
    """Return the first and last of the words that describe an entity: its label and the name beside it; None if they stand apart.

    Without a name ("my sister") the label alone describes it.
    """
    at = [place for place, tokens in enumerate(spelled) if tokens and set(tokens) <= set(label)]
    whose = [place for place, tokens in enumerate(spelled) if tokens and set(tokens) <= name]
    if not at:
        return None
    if not whose:
        return at[0], at[-1]
    pairs = [(min(one, other), max(one, other)) for one in at for other in whose]
    first, last = min(pairs, key=lambda pair: pair[1] - pair[0])
    between = [
        tokens for tokens in spelled[first + 1 : last] if tokens and not set(tokens) <= name | set(label)
    ]
    return None if last - first >= SPAN or between else (first, last)


def _named(words: Sequence[str], span: tuple[int, int], name: str) -> str:
    """Return a text with a name in the place of some words; what ends the last one stays."""
    first, last = span
    end = words[last].rstrip("?!.,;:…")
    return " ".join([*words[:first], name + words[last][len(end) :], *words[last + 1 :]])
