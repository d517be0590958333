"""The verbs of one user's memory on whom and what it knows: entities, their relations, and decisions on who is who."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from memforest.errors import InputError
from memforest.forest.options import TimeLike, check_text, read_count, read_time
from memforest.forest.reading import ReadsMemory
from memforest.forest.spanned import spanned
from memforest.interval import to_ms
from memforest.limits import MAX_PAGE
from memforest.memory.cursors import Listing
from memforest.memory.inspect import graph_views
from memforest.memory.inspect.entities import (
    Entity,
    EntityChoice,
    EntityPage,
    GraphPicture,
    PathView,
    RelationView,
)
from memforest.settings import brief
from memforest.types import EntityKind

MOST_HOPS = 8
"""Most hops of a way: further apart everything is linked with everything."""


class KnowsEntities(ReadsMemory):
    """The verbs of a handle on one user's memory that tell of its graph."""

    @spanned()
    async def entities(
        self,
        kind: EntityKind | None = None,
        query: str | None = None,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> EntityPage:
        """Return whom and what statements name, those that most statements name first. See docs/graph.md.

        Args:
            kind: only of this kind.
            query: only those of which one name holds all words of this text, whatever their case and accents.
            limit: most entities, up to 1,000; None for all.
            cursor: `EntityPage.next_cursor` of the page before. One that is named more or less often meanwhile may move.

        Raises:
            InputError: if there is no such kind, the query is blank, `limit` is out of range, or the cursor is none of this
                listing.
        """
        check_text("entities", "kind", kind)
        check_text("entities", "query", query)
        read_count("limit", limit, None, 1, MAX_PAGE)
        if kind is not None and kind not in get_args(EntityKind):
            raise InputError(
                f"entities(kind={brief(kind)}): there is no such kind; there are {', '.join(get_args(EntityKind))}"
            )
        if query is not None and not query.strip():
            raise InputError("entities(query=...) is blank; leave it out for all")
        listing = Listing.of("entities", self.user_id, kind, query)
        return await self._view(graph_views.entities, kind, query, limit, listing, cursor)

    @spanned()
    async def relations(self, entity: str, *, as_of: TimeLike | None = None) -> Sequence[RelationView]:
        """Return what was said of an entity and another one: those that hold first, then by weight. Nothing is left out that ended.

        Args:
            entity: its name, any of those that it was seen by.
            as_of: only what held at that time.

        Raises:
            NotFoundError: if nothing is known of the entity; the message has names that are near.
        """
        check_text("relations", "entity", entity, optional=False)
        when = read_time(as_of, self._pool.config, "as_of")
        return await self._view(
            graph_views.relations, entity, None if when is None else to_ms(when), nothing=()
        )

    @spanned()
    async def path(self, a: str, b: str, *, hops: int = 4) -> PathView:
        """Return the shortest way from one entity to another, each step with what says so; a false one where there is none.

        Args:
            a: the name of one.
            b: the name of the other.
            hops: most steps, 1 to 8.

        Raises:
            InputError: if `hops` is out of range.
            NotFoundError: if nothing is known of one of them; the message has names that are near.
        """
        check_text("path", "a", a, optional=False)
        check_text("path", "b", b, optional=False)
        if read_count("hops", hops, 4, 1) > MOST_HOPS or hops is None:
            raise InputError(f"hops={hops}: give a whole number of 1 to {MOST_HOPS}")
        return await self._view(graph_views.path_between, a, b, hops)

    @spanned()
    async def graph(self) -> GraphPicture:
        """Return a picture of the graph: its most named entities, 60 at most, and the heaviest 200 edges between them.

        Relations come before statements that only name both.
        """
        return await self._view(graph_views.picture)

    @spanned("update_memory")
    async def merge_entities(self, a: str, b: str) -> Entity:
        """Decide that two names are one entity, and return it. What was said stays; `split_entity` takes it back.

        It holds for what is said later too, and over every rule. What was decided before on the two counts no more.

        Args:
            a: one name.
            b: another one.

        Raises:
            InputError: if both names are one and the same already in what was said.
            NotFoundError: if nothing is known of one of them; the message has names that are near.
            StoreError: if the file cannot be written.
        """
        check_text("merge_entities", "a", a, optional=False)
        check_text("merge_entities", "b", b, optional=False)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.merge_entities(a, b))

    @spanned("update_memory")
    async def split_entity(self, entity: str, name: str) -> Entity:
        """Decide that a name is not one with the others of an entity, and return what it is now; `merge_entities` takes it back.

        It holds for what is said later too, and over every rule.

        Args:
            entity: any name of the entity.
            name: the one that is somebody or something else.

        Raises:
            InputError: if the name is none of the entity's, or the only one that it has; of a name that is spelled in several
                ways, these stay together.
            NotFoundError: if nothing is known of one of them; the message has names that are near.
            StoreError: if the file cannot be written.
        """
        check_text("split_entity", "entity", entity, optional=False)
        check_text("split_entity", "name", name, optional=False)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.split_entity(entity, name))

    @spanned()
    async def entity_choices(self) -> Sequence[EntityChoice]:
        """Return what was decided by `merge_entities` and `split_entity` and counts, the oldest first."""
        return await self._view(graph_views.choices)
