"""Entities, how they are linked, and decisions on who is who."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from memforest.forest.knowing import MOST_HOPS
from memforest.memory.results import Entity, EntityChoice, EntityPage, GraphPicture, PathView, RelationView
from memforest.rest.answers import answer
from memforest.rest.bodies import MergeEntitiesBody, SplitEntityBody
from memforest.rest.params import Cursor, EntityId, Memory, NameText, PageSize, TimeText
from memforest.rest.routing import operation, strict_router
from memforest.types import EntityKind

router = strict_router("entities", "/v1/users/{user_id}")


@router.get("/entities", **operation("entities", EntityPage, "read"))
async def entities(
    memory: Memory,
    kind: Annotated[EntityKind | None, Query(description="only of this kind")] = None,
    query: Annotated[NameText | None, Query(description="words that one name must hold")] = None,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Response:
    """Return whom and what statements name, those that most statements name first."""
    return answer(await memory.entities(kind, query, limit=limit, cursor=cursor))


@router.post("/entities/merge", **operation("merge_entities", Entity, "write", body=True, writes=True))
async def merge_entities(memory: Memory, body: MergeEntitiesBody) -> Response:
    """Decide that two names are one entity, and return it. What was said stays; `split_entity` takes it back."""
    return answer(await memory.merge_entities(body.a, body.b))


@router.post("/entities/split", **operation("split_entity", Entity, "write", body=True, writes=True))
async def split_entity(memory: Memory, body: SplitEntityBody) -> Response:
    """Decide that a name is not one with the others of an entity, and return what it is now."""
    return answer(await memory.split_entity(body.entity, body.name))


@router.get("/entities/choices", **operation("entity_choices", list[EntityChoice], "read"))
async def entity_choices(memory: Memory) -> Response:
    """Return what was decided of names and counts, the oldest first."""
    return answer(await memory.entity_choices())


@router.get("/relations/{entity}", **operation("relations", list[RelationView], "read"))
async def relations(entity: EntityId, memory: Memory, as_of: TimeText | None = None) -> Response:
    """Return what was said of an entity and another one: those that hold first, then by weight."""
    return answer(await memory.relations(entity, as_of=as_of))


@router.get("/path", **operation("path", PathView, "read"))
async def path(
    memory: Memory,
    a: NameText,
    b: NameText,
    hops: Annotated[int, Query(ge=1, le=MOST_HOPS, description="most steps")] = 4,
) -> Response:
    """Return the shortest way from one entity to another, each step with what says so."""
    return answer(await memory.path(a, b, hops=hops))


@router.get("/graph", **operation("graph", GraphPicture, "read"))
async def graph(memory: Memory) -> Response:
    """Return a picture of the graph: its most named entities and the heaviest edges between them."""
    return answer(await memory.graph())
