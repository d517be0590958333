"""The public types as a user's type checker sees them. mypy reads this file; nothing ever runs it.

The blocking verbs are made from the async ones (`memforest._sync.blocking`), so it matters that a checker
still knows their arguments and results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from typing_extensions import assert_type

from memforest import (
    AskResult,
    AsyncMemForest,
    AsyncUserMemory,
    Budget,
    CallableEmbedder,
    CallableReranker,
    ChatEndpoint,
    Config,
    Embedder,
    EmbeddingEndpoint,
    Evidence,
    ImportResult,
    IngestResult,
    MemForest,
    MemForestError,
    QueryResult,
    Ranking,
    Reranker,
    Source,
    UserMemory,
    load_default_config,
)
from memforest.ports import Extractor
from memforest.read.entities import Entity, EntityChoice, EntityPage, GraphPicture, RelationView
from memforest.read.profiles import Profile
from memforest.read.stored import FactPage, FactView, SessionPage, Stats, TimelinePage, TreeView, VerifyReport


def settings(fn: Any) -> None:
    """Configurations are values."""
    config = Config(timezone="Europe/Madrid", embedder="minilm", ranking=Ranking(date=0.2))
    assert_type(config.top_k, int)
    assert_type(load_default_config(embedder="none"), Config)
    assert_type(load_default_config("default_4b", file="memforest.toml", environ={}), Config)
    chat = ChatEndpoint("m", base_url="http://127.0.0.1:8000/v1", steps={"judge": {"model": "n"}})
    assert_type(chat.for_step("judge"), ChatEndpoint)
    Config(chat=chat, embedder=EmbeddingEndpoint("m", dimensions=8), query_budget=Budget(max_calls=3))
    ChatEndpoint()  # type: ignore[call-arg]  # a model is named
    Config(extractor="llm")  # type: ignore[arg-type]  # a step is an object with its port
    Config(embedder=fn, indexes=["flat"], index_settings={"flat": {}})
    assert_type(config.extractor, Extractor | None)
    embedder: Embedder = CallableEmbedder(fn, model_id="mine")
    assert_type(embedder.dimension, int)
    reranker: Reranker = CallableReranker(fn, model_id="mine")
    assert_type(Config(reranker=reranker).rerank_top, int)
    Config(top="k")  # type: ignore[call-arg]  # an unknown setting is seen
    config.top_k = 3  # type: ignore[misc]  # frozen


def blocking(path: Path, turns: Sequence[dict[str, str]]) -> None:
    """Blocking verbs keep the arguments and the plain results of the async ones."""
    with MemForest(path, max_workers=2) as forest:
        assert_type(forest, MemForest)
        assert_type(forest.register_user("ana", display_name="Ana"), None)
        assert_type(forest.list_users(), list[str])
        assert_type(forest.has_user("ana"), bool)
        assert_type(
            forest.ingest_session("ana", "s1", turns, timestamp="2023-05-08", replace=True), IngestResult
        )
        assert_type(forest.ingest_parallel([{"user_id": "ana"}]), list[IngestResult | MemForestError])
        assert_type(forest.import_file("ana", path, dry_run=True), ImportResult)
        assert_type(forest.query("ana", "Where?", as_of="2023-05-08", top_k=5), QueryResult)
        assert_type(forest.query_parallel([]), list[QueryResult | MemForestError])
        assert_type(forest.ask("ana", "Where?"), AskResult)
        assert_type(forest.query("ana", "Where?", mode="llm", budget=Budget(max_calls=3)), QueryResult)
        assert_type(forest.resume(), list[IngestResult])
        assert_type(forest.save(), None)
        assert_type(forest.load("ana"), None)
        assert_type(forest.user("ana"), UserMemory)
        forest.query("ana", "Where?", top=5)  # type: ignore[call-arg]  # an unknown option is seen
        forest.query("ana")  # type: ignore[call-arg]  # a missing question is seen
        forest.has_user(3)  # type: ignore[arg-type]  # an id is text


def handle(memory: UserMemory) -> None:
    """So do the verbs of a handle."""
    assert_type(memory.user_id, str)
    assert_type(memory.add("I moved to Lisbon."), IngestResult)
    assert_type(memory.import_file(["chat.zip", "chat.txt"], day_first=True).problems, list[str])
    assert_type(memory.search("Where?", during=("2023-01-01", datetime(2024, 1, 1))), QueryResult)  # noqa: DTZ001
    assert_type(memory.ask("Where?", max_tokens=200), AskResult)
    assert_type(memory.sessions(limit=5), SessionPage)
    assert_type(memory.get("f1:00"), FactView)
    assert_type(memory.list(limit=10, filters={"channel": "mail"}), FactPage)
    assert_type(memory.timeline("Ana", attribute="residence"), TimelinePage)
    assert_type(memory.entities("person", limit=5), EntityPage)
    assert_type(memory.entities().entities[0].names, Mapping[str, int])
    assert_type(memory.relations("Ana", as_of="2024-01-01"), Sequence[RelationView])
    assert_type(memory.path("Ana", "Porto", hops=2).steps[0].texts, tuple[str, ...])
    assert_type(memory.profile("Ana", index="graph"), Profile)
    assert_type(memory.graph(), GraphPicture)
    assert_type(memory.merge_entities("Ana", "Anita"), Entity)
    assert_type(memory.split_entity("Ana", "Anita"), Entity)
    assert_type(memory.entity_choices(), Sequence[EntityChoice])
    memory.entities("animal")  # type: ignore[arg-type]  # a kind is one of a few
    assert_type(memory.tree("Ana", index="memforest", depth=2), list[TreeView])
    assert_type(memory.stats(), Stats)
    assert_type(memory.verify(), VerifyReport)


def results(result: QueryResult, answer: AskResult, stored: IngestResult) -> None:
    """Results are typed down to the turn ids."""
    best = result.evidence[0]
    assert_type(best, Evidence)
    assert_type(best.start, datetime)
    assert_type(best.end, datetime | None)
    assert_type(best.sources[0], Source)
    assert_type(best.sources[0].turn_ids, tuple[str, ...])
    assert_type(result.context(max_tokens=500), str)
    assert_type(answer.answer, str | None)
    assert_type(answer.citations, tuple[Evidence, ...])
    assert_type(stored.unchanged, bool)


async def awaited(path: Path, turns: Sequence[dict[str, str]]) -> None:
    """The async verbs are awaited and have the same results."""
    async with AsyncMemForest(path) as forest:
        assert_type(await forest.ingest_session("ana", "s1", turns), IngestResult)
        assert_type(await forest.query("ana", "Where?", index="flat"), QueryResult)
        memory = forest.user("ana")
        assert_type(memory, AsyncUserMemory)
        assert_type(await memory.list(), FactPage)
        assert_type(await memory.verify(), VerifyReport)
