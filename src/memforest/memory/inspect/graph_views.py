"""Views of a memory's graph: entities with their names, relations, the way from one to another, and what was decided of names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memforest.errors import InputError
from memforest.graph.edges import RELATION, TOGETHER
from memforest.graph.known import Graph
from memforest.graph.paths import path
from memforest.graph.relations import KnownRelation
from memforest.interval import from_ms, to_ms
from memforest.memory.cursors import Listing
from memforest.memory.inspect.entities import (
    EdgeKind,
    Entity,
    EntityChoice,
    EntityDecision,
    EntityPage,
    GraphEdge,
    GraphNode,
    GraphPicture,
    PathStep,
    PathView,
    RelationView,
)
from memforest.memory.inspect.graph_names import (
    Called,
    called,
    graph_in,
    has_words,
    most_named,
    most_seen,
    quoted,
    require,
)
from memforest.memory.inspect.stored import Source, turn_sources
from memforest.memory.inspect.views import ViewContext
from memforest.memory.quoting import Quotes
from memforest.store import choices as choice_rows
from memforest.store import evidence as texts
from memforest.store import facts as fact_rows
from memforest.text import cut, entity_key
from memforest.types import EntityKind

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
    page = behind[:limit]
    following = listing.cursor(key(page[-1])) if len(page) < len(behind) else None
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
    evidence = _Evidence.of(context, {fact for one in known for fact in one.facts})
    names = called(context, graph, {end for one in known for end in (one.source, one.target)})
    return [_relation(names, one, evidence, at_ms) for one in known]


def _relation(names: Called, one: KnownRelation, evidence: _Evidence, at_ms: int | None) -> RelationView:
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
        source=names.by[one.source],
        label=one.label,
        target=names.by[one.target],
        weight=one.weight,
        start=start,
        end=end,
        sources=evidence.sources(one.facts),
        fact_ids=evidence.ids(one.facts),
    )


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
    evidence = _Evidence.of(context, {*telling, *shown}, shown)
    names = called(context, graph, {one, other, *(step.target for step in steps)})
    return PathView(
        source=names.by[one],
        target=names.by[other],
        found=found is not None,
        steps=tuple(
            PathStep(
                source=names.by[step.source],
                target=names.by[step.target],
                kind=_kind(step.kind),
                labels=step.labels,
                weight=step.weight,
                sources=evidence.sources(facts),
                fact_ids=evidence.ids(facts),
                texts=evidence.texts(facts),
                relations=tuple(_relation(names, one, evidence, None) for one in step.relations),
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
    names = called(context, graph, shown).by
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


# -- who is who -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Named:
    """The stored entity that a name names, and all that are one with it."""

    row: int
    group: tuple[int, ...]


def two_named(context: ViewContext, a: str, b: str) -> tuple[Named, Named]:
    """Return what two names name.

    Raises:
        NotFoundError: if nothing is known of one of them.
        InputError: if both name the same stored entity.
    """
    graph = graph_in(context)
    one, other = _named(context, graph, a), _named(context, graph, b)
    if one.row == other.row:
        raise InputError(f"{quoted(a)} and {quoted(b)} are one already: what was said has them as one name")
    return one, other


def name_within(context: ViewContext, entity: str, name: str) -> Named:
    """Return what a name names, which is one of several of an entity.

    Raises:
        NotFoundError: if nothing is known of one of them.
        InputError: if the name is none of the entity's, or the only one.
    """
    graph = graph_in(context)
    whole, part = _named(context, graph, entity), _named(context, graph, name)
    names = ", ".join(cut(context.snapshot.entities[row].label, 40) for row in whole.group[:MOST_NAMES])
    if part.row not in whole.group:
        raise InputError(f"{quoted(name)} is no name of {quoted(entity)}, whose names are: {names}")
    if len(whole.group) == 1:
        raise InputError(f"{quoted(entity)} is one in what was said, as: {names}; nothing was joined with it")
    return part


def choices(context: ViewContext) -> list[EntityChoice]:
    """Return what was decided of names and counts, the oldest first."""
    labels = {one.row: one.label for one in fact_rows.entities(context.tx)}
    return [
        EntityChoice(one.verdict, labels[one.entity], labels[one.other], from_ms(one.made_ms))
        for one in choice_rows.read(context.tx)
    ]


def _named(context: ViewContext, graph: Graph, name: str) -> Named:
    place = require(graph, name)
    return Named(context.snapshot.names[entity_key(name) or ""], graph.members[place])


# -- entities as they are shown -----------------------------------------------------------------------


def _views(context: ViewContext, graph: Graph, places: Sequence[int]) -> list[Entity]:
    names = called(context, graph, places)
    shown = {row: place for place in places for row in graph.members[place]}
    decided: dict[int, list[EntityDecision]] = {place: [] for place in places}
    stored = context.snapshot.entities
    for one in graph.resolution.decisions:
        if (place := shown.get(one.entity)) is not None:
            own, other = (
                most_seen(names.names[place], stored[row].key, stored[row].label)
                for row in (one.entity, one.into)
            )
            decided[place].append(EntityDecision(own, other, one.rule, one.score))
    most = max(graph.supports.tolist(), default=0)
    return [
        Entity(
            name=names.by[place],
            kind=graph.kinds[place],
            names=names.names[place],
            role="speaker" if graph.kinds[place] == "participant" else "named",
            supports=int(graph.supports[place]),
            salience=round(int(graph.supports[place]) / max(most, 1), 4),
            decisions=tuple(decided[place]),
        )
        for place in places
    ]


# -- what says so -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The facts behind relations and steps, by row, with where they were said and as they are shown."""

    facts: Mapping[int, str]
    """Row -> public id."""
    said: Mapping[int, Sequence[tuple[str, str]]]
    """Row -> (session id, turn id) of each turn."""
    words: Mapping[int, str]
    """Row -> what people read of it; none where that was not asked for."""

    @classmethod
    def of(cls, context: ViewContext, rows: Collection[int], shown: Collection[int] = ()) -> _Evidence:
        """Read what some facts rest on, and what people read of those that are to be shown."""
        facts = {one.row: one for one in context.told(fact_rows.facts_with_ids(context.tx, rows).values())}
        words = {}
        if here := facts.keys() & set(shown):
            quotes = Quotes.read(context.tx, here, context.snapshot)
            words = {row: quotes.text(row, facts[row].text) for row in here}
        said = texts.fact_sources(context.tx, facts, context.snapshot.without)
        return cls({row: one.fact_id for row, one in facts.items()}, said, words)

    def sources(self, rows: Iterable[int]) -> tuple[Source, ...]:
        """Return the turns behind some facts; of many the first and the last ones."""
        pairs = list(dict.fromkeys(pair for row in rows for pair in self.said.get(row, ())))
        if len(pairs) > MOST_SOURCES:
            half = MOST_SOURCES // 2
            pairs = [*pairs[:half], *pairs[-half:]]
        return turn_sources(pairs)

    def ids(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Return the public ids of some facts."""
        return tuple(self.facts[row] for row in rows if row in self.facts)

    def texts(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Return some of them as people read them."""
        found = dict.fromkeys(self.words[row] for row in rows if self.words.get(row))
        return tuple(found)[:MOST_TEXTS]
