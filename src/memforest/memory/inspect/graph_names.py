"""The names of a graph's entities: which one a name means, what each is called, and what is spelled like a name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from memforest.errors import NotFoundError
from memforest.facts.entities import speaker_key
from memforest.graph.graph import graph_of, names_of
from memforest.graph.known import Graph
from memforest.memory.inspect.views import ViewContext
from memforest.text import cut, entity_key, fold, strip_accents

NEAR, MOST_NEAR = 70.0, 5
"""How alike a name is that an error offers (of 100), and how many it offers."""
NAME_CHARS = 40


@dataclass(frozen=True, slots=True)
class Called:
    """What entities are called: each by one name, and all names with how often each was seen."""

    by: Mapping[int, str]
    names: Mapping[int, Mapping[str, int]]


def graph_in(context: ViewContext) -> Graph:
    """Return the graph of the memory as a view sees it."""
    return graph_of(context.tx, context.snapshot)


def called(context: ViewContext, graph: Graph, places: Collection[int]) -> Called:
    """Return what entities are called.

    Who speaks is called as they do. Others have the spelling that is seen most of the stored entity that stands for them: not
    the one that was stored first, so that the order of sessions does not matter.
    """
    names = names_of(context.tx, context.snapshot, graph, places)
    speakers: dict[str, str] = {}
    for name in sorted(context.snapshot.speakers, reverse=True):
        if key := speaker_key(name):
            speakers[key] = name
    by = {}
    for place in places:
        spoken = speakers.get(graph.keys[place]) if graph.kinds[place] == "participant" else None
        by[place] = spoken or most_seen(names[place], graph.keys[place], graph.labels[place])
    return Called(by, names)


def most_seen(names: Iterable[str], key: str, label: str) -> str:
    """Return the first of some names that is a spelling of a key, or the label that was stored with it where none is."""
    return next((name for name in names if entity_key(name) == key), label)


def most_named(graph: Graph) -> list[int]:
    """Return all places, those that most facts name first, of equal ones by key."""
    found: list[int] = np.lexsort((graph.order, -graph.supports)).tolist()
    return found


def has_words(graph: Graph, place: int, query: str) -> bool:
    """Return whether one name of a place holds all words of a text."""
    wanted = _plain(query).split()
    names = map(_plain, (*graph.names(place), graph.keys[place]))
    return any(all(word in name for word in wanted) for name in names)


def place_named(graph: Graph, name: str) -> int | None:
    """Return the place of the entity with a name, None if there is none."""
    return graph.by_key.get(entity_key(name) or "")


def require(graph: Graph, name: str) -> int:
    """Return the place of the entity with a name.

    Raises:
        NotFoundError: if nothing is known of it; the message has names that are near, else those of whom most is known.
    """
    found = place_named(graph, name)
    if found is None:
        near = _near(graph, name)
        others = near or [graph.labels[place] for place in most_named(graph)[:8]]
        told = ", ".join(repr(cut(one, NAME_CHARS)) for one in others)
        hint = "near are" if near else "known are for example"
        raise NotFoundError(f"nothing is known of {quoted(name)}; {hint}: {told or 'nobody yet'}")
    return found


def quoted(name: str) -> str:
    """Return a name as a message has it."""
    return cut(repr(name), 60)


def _near(graph: Graph, name: str) -> list[str]:
    """Return labels that are spelled alike, the nearest first."""
    from rapidfuzz import fuzz, process

    asked = _plain(name)[:200]
    if not asked:
        return []
    labels = [_plain(label) for label in graph.labels]
    found = process.extract(asked, labels, scorer=fuzz.WRatio, score_cutoff=NEAR, limit=MOST_NEAR)
    return list(dict.fromkeys(graph.labels[place] for _, _, place in found))


def _plain(text: str) -> str:
    return strip_accents(fold(text))
