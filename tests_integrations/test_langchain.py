"""LangChain: its own tests of retrievers, and documents that know when and by whom."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests

from memforest import AsyncMemForest, Config
from memforest.errors import InputError
from memforest.integrations.langchain import MemForestRetriever
from memforest.testing import FrozenClock, HashEmbedder


class TestRetriever(RetrieversIntegrationTests):
    """LangChain's conformance suite."""

    @property
    def retriever_constructor(self) -> Any:
        """Return the class."""
        return MemForestRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        """Return its arguments: a forest with some memories."""
        forest = AsyncMemForest(tempfile.mkdtemp(prefix="memforest-suite-"), Config(embedder=HashEmbedder()))
        said = [f"I planted tree number {n} in the garden in Porto." for n in range(6)]
        asyncio.run(forest.user("bob").add([{"role": "user", "content": one} for one in said]))
        return {"forest": forest, "user": "bob"}

    @property
    def retriever_query_example(self) -> str:
        """Return a question."""
        return "Which trees are in the garden?"


async def test_documents_have_time_and_sources(forest: AsyncMemForest, clock: FrozenClock) -> None:
    """Now and then: what a document says was so at the time that was asked for."""
    await forest.user("bob").add("I live in Porto.", session_id="t1")
    clock.advance(days=150)
    await forest.user("bob").add("I moved to Lisbon.", session_id="t2")
    retriever = MemForestRetriever(forest=forest, user="bob", strict=True)
    now = await retriever.ainvoke("Where does bob live?")
    assert now[0].page_content == "I moved to Lisbon."
    assert now[0].metadata["sources"][0]["session_id"] == "t2"
    assert now[0].metadata["end"] is None
    assert now[0].id == now[0].metadata["fact_id"]
    scores = [one.metadata["score"] for one in now]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < one <= 1 for one in scores)
    then = await retriever.ainvoke("Where does bob live?", as_of="2023-02-01")
    assert [one.page_content for one in then] == ["I live in Porto."]
    window = await retriever.ainvoke("Where does bob live?", during=("2023-01-01", "2023-03-01"), k=1)
    assert [one.page_content for one in window] == ["I live in Porto."]


async def test_bad_input(forest: AsyncMemForest) -> None:
    """No user, a blank question, an unknown user, a wrong option."""
    with pytest.raises(ValueError, match="user must be a non-empty string"):
        MemForestRetriever(forest=forest, user=" ")
    retriever = MemForestRetriever(forest=forest, user="nobody")
    assert await retriever.ainvoke("  ") == []
    assert await retriever.ainvoke("Where?") == []
    with pytest.raises(InputError, match="colour"):
        await retriever.ainvoke("Where?", colour="red")
