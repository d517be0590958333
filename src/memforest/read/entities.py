"""What the graph of a memory says, as values: entities with their names, relations, ways between them, and decisions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

import numpy as np

from memforest.errors import InputError, NotFoundError
from memforest.graph.graph import RELATION, TOGETHER, Graph, graph_of, names_of
from memforest.graph.paths import path
from memforest.graph.relations import KnownRelation
from memforest.plain import Listing, Result, Several
from memforest.read.facts import ToldFacts
from memforest.read.stored import Source, turn_sources
from memforest.read.views import ViewContext
from memforest.reading.canonical import speaker_key
from memforest.records import EntityKind
from memforest.store import corrections
from memforest.store import facts as facts_rows
from memforest.text import cut, entity_key, fold, strip_accents
from memforest.times import from_ms, html_table, to_ms

EdgeKind: TypeAlias = Literal["relation", "mention", "overlap"]
"""What joins two entities: something that was said of both, statements that name both, or a name that may be short for the other."""
Verdict: TypeAlias = Literal["same", "apart"]
"""What a person has decided of two names."""


@dataclass(frozen=True, slots=True, repr=False)
class EntityDecision(Result):
    """Why a name is one entity with another: by which rule, and how alike the rule found them (0 to 1).

    `into` is the name that stands for both. The rule ``"same"`` is a person's decision (`merge_entities`).
    """

    name: str
    into: str
    rule: str
    score: float

    def _line(self) -> str:
        return f"{cut(self.name, 40)} is {cut(self.into, 40)}: {self.rule} {self.score:.2f}"


@dataclass(frozen=True, slots=True, repr=False)
class Entity(Result):
    """Somebody or something that statements name.

    `names` are the names that it was seen by, with how often, the most frequent first. `role` is ``"speaker"`` of who takes
    part in a conversation, else ``"named"``. `supports` is the number of statements that name it, and `salience` their share
    of those that name the most named entity, 0 to 1. `decisions` say why names that differ are one entity; `split_entity` keeps one of them apart. `perhaps` are the names of others
    that may be the same, as "Fabia" and "Skoda Fabia": a person who knows it says so by `merge_entities`.
    """

    name: str
    kind: EntityKind
    names: Mapping[str, int]
    role: Literal["speaker", "named"]
    supports: int
    salience: float
    decisions: tuple[EntityDecision, ...] = ()
    perhaps: tuple[str, ...] = ()

    def _line(self) -> str:
        also = [name for name in self.names if name != self.name]
        return f"{cut(self.name, 60)}, {self.kind}, {self.supports} facts" + (
            f", also {cut(', '.join(also), 80)}" if also else ""
        )


@dataclass(frozen=True, slots=True, repr=False)
class EntityPage(Several[Entity]):
    """Entities, those that most statements name first; `total` is how many there are in all, `next_cursor` that of the next page.

    Iterating gives them, and a page without any is false.
    """

    _of = "entities"
    entities: tuple[Entity, ...]
    total: int
    next_cursor: str | None = None

    def _line(self) -> str:
        return f"{len(self)} of {self.total} entities"

    def _repr_html_(self) -> str:
        rows = ((one.name, one.kind, str(one.supports), ", ".join(one.names)) for one in self)
        return html_table(("name", "kind", "facts", "names"), rows)


@dataclass(frozen=True, slots=True, repr=False)
class RelationView(Result):
    """What was said of two entities: `source` `label` `target`, seen `weight` times.

    It held from `start` to `end`; None is not known, or still so. `sources` are the turns that say so, of more than 32 the
    first and the last 16, and `fact_ids` the statements. A relation that ended stays, with its end.
    """

    source: str
    label: str
    target: str
    weight: int
    start: datetime | None
    end: datetime | None
    sources: tuple[Source, ...]
    fact_ids: tuple[str, ...]

    def _line(self) -> str:
        told = f"{cut(self.source, 40)} {cut(self.label, 40)} {cut(self.target, 40)}"
        since = "" if self.start is None else f" from {self.start:%Y-%m-%d}"
        until = "" if self.end is None else f" to {self.end:%Y-%m-%d}"
        return f"{told}{since}{until}, {self.weight} times"


@dataclass(frozen=True, slots=True, repr=False)
class PathStep(Result):
    """One edge of a path, from the entity `source` to the next one, `target`, and what says so.

    ``"relation"``: `relations` are what was said of the two, in either direction, and `labels` their labels. ``"mention"``: they are named
    in the same statements. ``"overlap"``: one name may be short for the other, which is a guess.
    """

    source: str
    target: str
    kind: EdgeKind
    labels: tuple[str, ...]
    weight: float
    sources: tuple[Source, ...]
    fact_ids: tuple[str, ...]
    texts: tuple[str, ...] = ()
    """Some of the statements, as they are shown."""
    relations: tuple[RelationView, ...] = ()

    def _line(self) -> str:
        by = ", ".join(self.labels) or self.kind
        return f"{cut(self.source, 40)} – {cut(by, 60)} – {cut(self.target, 40)}"


@dataclass(frozen=True, slots=True, repr=False)
class PathView(Several[PathStep]):
    """The shortest way from one entity to another; of several, the one whose edges weigh most.

    Without one it is false, `found` is false and there are no steps. From an entity to itself there is nothing to go: `found`
    is true, without steps. Iterating gives the steps.
    """

    _of = "steps"
    source: str
    target: str
    found: bool
    steps: tuple[PathStep, ...] = ()

    def __bool__(self) -> bool:
        return self.found

    def _line(self) -> str:
        if not self.found:
            return f"no way from {cut(self.source, 40)} to {cut(self.target, 40)}"
        return " → ".join(cut(name, 40) for name in (self.source, *(one.target for one in self.steps)))


@dataclass(frozen=True, slots=True, repr=False)
class EntityChoice(Result):
    """A person's decision on two names: that they are the ``"same"``, or that they stay ``"apart"``, and since when."""

    verdict: Verdict
    name: str
    other: str
    made: datetime

    def _line(self) -> str:
        return f"{cut(self.name, 40)} and {cut(self.other, 40)}: {self.verdict}"


@dataclass(frozen=True, slots=True, repr=False)
class GraphNode(Result):
    """An entity of a picture of the graph."""

    name: str
    kind: EntityKind
    supports: int


@dataclass(frozen=True, slots=True, repr=False)
class GraphEdge(Result):
    """An edge of a picture, between two of its nodes by their places; the labels of a relation say what was said."""

    source: int
    target: int
    kind: EdgeKind
    labels: tuple[str, ...]
    weight: float


@dataclass(frozen=True, slots=True, repr=False)
class GraphPicture(Result):
    """The most named entities of a memory and the heaviest edges between them; `entities` and `all_edges` count what there is.

    `all_edges` are those between the entities that are shown.
    """

    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()
    entities: int = 0
    all_edges: int = 0

    @property
    def left_out(self) -> str:
        """What is not in the picture, in words; empty when all is."""
        parts = []
        if len(self.nodes) < self.entities:
            parts.append(
                f"{self.entities - len(self.nodes):,} of {self.entities:,} entities, the least named"
            )
        if len(self.edges) < self.all_edges:
            parts.append(
                f"{self.all_edges - len(self.edges):,} of {self.all_edges:,} edges between the others, the lightest"
            )
        return " and ".join(parts)

    def _line(self) -> str:
        return f"{len(self.nodes)} entities, {len(self.edges)} edges"


NEAR, MOST_NEAR = 70.0, 5
"""How alike a name is that an error offers (of 100), and how many it offers."""
NAME_CHARS = 40


def graph_in(context: ViewContext) -> Graph:
    """Return the graph of the memory as a view sees it."""
    return graph_of(context.snapshot)


def called(
    context: ViewContext, graph: Graph, places: Collection[int]
) -> tuple[dict[int, str], Mapping[int, Mapping[str, int]]]:
    """Return the name of each entity, and all its names with how often each was seen.

    A speaker has the name that they speak by. Other entities have the most frequent spelling of the stored entity that
    stands for them, not the one that was stored first, so that the order of sessions does not matter.
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
    return by, names


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


MOST_SOURCES = 32
"""Turns that are named of one relation or step; of more, the first and the last half."""
MOST_TEXTS = 3
"""Statements that are shown of one step."""
MOST_NODES, MOST_EDGES = 60, 200
"""What a picture holds: more of either is a knot in which nobody finds anything."""
MOST_NAMES = 5
"""Names of an entity that a message has."""


def entities(
    context: ViewContext,
    kind: EntityKind | None,
    query: str | None,
    limit: int | None,
    listing: Listing,
    cursor: str | None = None,
) -> EntityPage:
    """Return a page of entities, the most named first.

    Args:
        context: the transaction.
        kind: only of this kind.
        query: only those of which one name holds all words of this text.
        limit: most entities; None for all.
        listing: what the cursor has to be of.
        cursor: of the page before; None for the first.

    Raises:
        InputError: if the cursor is none of this listing.
    """
    after, graph = listing.key(cursor, int, str), graph_in(context)
    wanted = [
        place
        for place in most_named(graph)
        if kind in (None, graph.kinds[place]) and (query is None or has_words(graph, place, query))
    ]

    def key(place: int) -> tuple[int, str]:
        return -int(graph.supports[place]), graph.keys[place]

    behind = wanted if after is None else [place for place in wanted if key(place) > after]
    page, following = listing.page(behind, limit, key)
    return EntityPage(tuple(_views(context, graph, page)), len(wanted), following)


def entity_named(context: ViewContext, name: str) -> Entity:
    """Return the entity with a name.

    Raises:
        NotFoundError: if nothing is known of it.
    """
    graph = graph_in(context)
    [found] = _views(context, graph, [require(graph, name)])
    return found


def relations(context: ViewContext, name: str, at_ms: int | None) -> list[RelationView]:
    """Return the relations of an entity: those that hold first, then by weight; at a time, only what held then.

    Raises:
        NotFoundError: if nothing is known of the entity.
    """
    graph = graph_in(context)
    known = [graph.relations[at] for at in graph.relations_of[require(graph, name)]]
    if at_ms is not None:
        known = [one for one in known if one.holds_at(at_ms)]
    now_ms = to_ms(context.config.clock())
    known.sort(key=lambda one: (not one.holds_at(now_ms), -one.weight))
    told = ToldFacts.read(context, {fact for one in known for fact in one.facts})
    names, _ = called(context, graph, {end for one in known for end in (one.source, one.target)})
    return [_relation(names, one, told, at_ms) for one in known]


def _relation(
    names: Mapping[int, str], one: KnownRelation, told: ToldFacts, at_ms: int | None
) -> RelationView:
    """Return a relation with its whole time, or, at an instant, the part of it in which that lies."""
    held = (one.start_ms, one.end_ms)
    if at_ms is not None:
        held = next(
            (start, end)
            for start, end in one.spans
            if (start is None or start <= at_ms) and (end is None or at_ms < end)
        )
    start, end = (None if ms is None else from_ms(ms) for ms in held)
    return RelationView(
        source=names[one.source],
        label=one.label,
        target=names[one.target],
        weight=one.weight,
        start=start,
        end=end,
        sources=_sources(told, one.facts),
        fact_ids=told.ids(one.facts),
    )


def _sources(told: ToldFacts, rows: Iterable[int]) -> tuple[Source, ...]:
    """Return the turns behind some facts; of many the first and the last ones."""
    pairs = told.pairs(rows)
    if len(pairs) > MOST_SOURCES:
        half = MOST_SOURCES // 2
        pairs = [*pairs[:half], *pairs[-half:]]
    return turn_sources(pairs)


def path_between(context: ViewContext, a: str, b: str, hops: int) -> PathView:
    """Return the shortest way between two entities, with what says so.

    Raises:
        NotFoundError: if nothing is known of one of them.
    """
    graph = graph_in(context)
    one, other = require(graph, a), require(graph, b)
    found = path(graph, context.snapshot, one, other, hops)
    steps = () if found is None else found.steps
    ids = context.snapshot.facts.ids
    rows: list[list[int]] = [ids[list(step.facts)].tolist() for step in steps]
    telling = [fact for step in steps for relation in step.relations for fact in relation.facts]
    shown = {fact for some in rows for fact in some}
    told = ToldFacts.read(context, {*telling, *shown}, shown)
    names, _ = called(context, graph, {one, other, *(step.target for step in steps)})
    return PathView(
        source=names[one],
        target=names[other],
        found=found is not None,
        steps=tuple(
            PathStep(
                source=names[step.source],
                target=names[step.target],
                kind=_kind(step.kind),
                labels=step.labels,
                weight=step.weight,
                sources=_sources(told, facts),
                fact_ids=told.ids(facts),
                texts=tuple(dict.fromkeys(told.text(row) for row in facts if row in told.facts))[:MOST_TEXTS],
                relations=tuple(_relation(names, one, told, None) for one in step.relations),
            )
            for step, facts in zip(steps, rows, strict=True)
        ),
    )


def picture(context: ViewContext) -> GraphPicture:
    """Return the most named entities and what joins them: relations first, then by weight."""
    graph = graph_in(context)
    shown = most_named(graph)[:MOST_NODES]
    at = {place: number for number, place in enumerate(shown)}
    labels: dict[tuple[int, int], list[str]] = {}
    for one in graph.relations:
        if one.source in at and one.target in at:
            labels.setdefault(_pair(at[one.source], at[one.target]), []).append(one.label)
    found = [
        GraphEdge(
            source=at[place],
            target=at[target],
            kind=_kind(kind),
            labels=tuple(dict.fromkeys(labels.get(_pair(at[place], at[target]), ()))),
            weight=weight,
        )
        for place in shown
        for target, kind, weight in _edges_of(graph, place)
        if at[place] < at.get(target, -1)
    ]
    found.sort(key=lambda one: (not one.labels, -one.weight, one.source, one.target))
    names, _ = called(context, graph, shown)
    nodes = (GraphNode(names[place], graph.kinds[place], int(graph.supports[place])) for place in shown)
    return GraphPicture(tuple(nodes), tuple(found[:MOST_EDGES]), len(graph), len(found))


def _edges_of(graph: Graph, place: int) -> Iterable[tuple[int, int, float]]:
    """Return target, kind and weight of the edges of a place."""
    edges, span = graph.edges, graph.edges.span(place)
    columns = (edges.targets[span], edges.kinds[span], edges.weights[span])
    return zip(*(column.tolist() for column in columns), strict=True)


def _pair(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)


def _kind(bits: int) -> EdgeKind:
    """Return what counts of all that an edge is made of."""
    return "relation" if bits & RELATION else "mention" if bits & TOGETHER else "overlap"


NamedRow = tuple[int, tuple[int, ...]]
"""The stored entity that a name names, and all that are one with it."""


def two_named(context: ViewContext, a: str, b: str) -> tuple[NamedRow, NamedRow]:
    """Return what two names name.

    Raises:
        NotFoundError: if nothing is known of one of them.
        InputError: if both name the same stored entity.
    """
    graph = graph_in(context)
    one, other = _named(context, graph, a), _named(context, graph, b)
    if one[0] == other[0]:
        raise InputError(
            f"{quoted(a)} and {quoted(b)} are one entity already: the turns have them as one name"
        )
    return one, other


def name_within(context: ViewContext, entity: str, name: str) -> NamedRow:
    """Return what a name names, which is one of several of an entity.

    Raises:
        NotFoundError: if nothing is known of one of them.
        InputError: if the name is none of the entity's, or the only one.
    """
    graph = graph_in(context)
    (_, group), part = _named(context, graph, entity), _named(context, graph, name)
    entities = context.snapshot.unjoined.entities
    names = ", ".join(cut(entities[row].label, 40) for row in group[:MOST_NAMES])
    if part[0] not in group:
        raise InputError(f"{quoted(name)} is no name of {quoted(entity)}, whose names are: {names}")
    if len(group) == 1:
        raise InputError(
            f"{quoted(entity)} is one entity in the turns, as: {names}; nothing was merged with it"
        )
    return part


def choices(context: ViewContext) -> list[EntityChoice]:
    """Return what was decided of names and counts, the oldest first."""
    labels = {row: one.label for row, one in facts_rows.entities(context.tx).items()}
    return [
        EntityChoice(one.verdict, labels[one.entity], labels[one.other], from_ms(one.made_ms))
        for one in corrections.read(context.tx)
    ]


def _named(context: ViewContext, graph: Graph, name: str) -> NamedRow:
    place = require(graph, name)
    return context.snapshot.unjoined.names[entity_key(name) or ""], graph.members[place]


def _views(context: ViewContext, graph: Graph, places: Sequence[int]) -> list[Entity]:
    proposed = _proposed(graph, places)
    names, spelled = called(context, graph, {*places, *(one for some in proposed.values() for one in some)})
    shown = {row: place for place in places for row in graph.members[place]}
    decided: dict[int, list[EntityDecision]] = {place: [] for place in places}
    stored = context.snapshot.unjoined.entities
    for one in graph.resolution.decisions:
        if (place := shown.get(one.entity)) is not None:
            own, other = (
                most_seen(spelled[place], stored[row].key, stored[row].label)
                for row in (one.entity, one.into)
            )
            decided[place].append(EntityDecision(own, other, one.rule, one.score))
    most = max(graph.supports.tolist(), default=0)
    return [
        Entity(
            name=names[place],
            kind=graph.kinds[place],
            names=spelled[place],
            role="speaker" if graph.kinds[place] == "participant" else "named",
            supports=int(graph.supports[place]),
            salience=round(int(graph.supports[place]) / max(most, 1), 4),
            decisions=tuple(decided[place]),
            perhaps=tuple(names[one] for one in proposed.get(place, ())),
        )
        for place in places
    ]


def _proposed(graph: Graph, places: Collection[int]) -> dict[int, list[int]]:
    """Return, of each place, those that it may be one with: the name of one begins or ends the name of the other, and of no third.

    "York" is no part of "New York": a place has its words for itself.
    """
    longer: dict[int, list[int]] = {}
    for short, long, _ in graph.resolution.overlaps:
        one, other = np.searchsorted(graph.ids, (short, long)).tolist()
        words = [(entity_key(name) or "-").split() for name in graph.names(other)]
        is_part = any(graph.keys[one] in (some[0], some[-1]) for some in words)
        if is_part and "place" not in (graph.kinds[one], graph.kinds[other]):
            longer.setdefault(one, []).append(other)
    found: dict[int, list[int]] = {}
    for one, others in longer.items():
        if len(others) == 1:
            for place, other in ((one, others[0]), (others[0], one)):
                if place in places:
                    found.setdefault(place, []).append(other)
    return found
