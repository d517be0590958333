"""Other memories as systems of `memforest eval`: mem0, Graphiti and LangMem, some twenty lines each.

    memforest eval run locomo --data locomo10.json --system memforest --system examples.eval_systems:Mem0

Each wants its own package, models and services; see their documentation. A piece names the turns that it tells of, where the
package keeps where a memory came from: recall counts those alone.

Each was run on 1 December 2026 with Python 3.11, on two sessions and three questions of our own, against a server on this machine
that speaks as OpenAI's does (``OPENAI_BASE_URL``), with replies and vectors by rules: mem0ai 2.2.1 with Qdrant in files,
graphiti-core 0.31.2 with kuzu 0.11.3 in memory, langmem 0.0.30 with langgraph 1.2.24. That shows that they are written and asked,
not how well they find. Not tried: real models, Neo4j, mem0's words beside vectors (``mem0ai[extras]``), and whole benchmarks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memforest.evaluation.cases import Case, Question, Turn
from memforest.evaluation.systems import Piece


class Mem0:
    """mem0 (``pip install mem0ai``): a message is added with its turn's name as metadata, which its memories keep."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        from mem0 import Memory

        store = {"provider": "qdrant", "config": {"path": str(folder / "mem0"), "on_disk": True}}
        self._memory = Memory.from_config({"vector_store": store, **settings})
        self._written: set[str] = set()

    def write(self, case: Case) -> None:
        """Add every turn."""
        if case.id not in self._written:
            for turn in case.turns:
                message = {"role": "user", "content": f"{turn.said:%Y-%m-%d} {turn.speaker}: {turn.text}"}
                self._memory.add([message], user_id=case.id, metadata={"turn": turn.key})
            self._written.add(case.id)

    def find(self, case: Case, question: Question, most: int) -> Sequence[Piece]:
        """Search its memories."""
        found = self._memory.search(question.text, filters={"user_id": case.id}, top_k=most, threshold=0.0)[
            "results"
        ]
        return [
            Piece(one["memory"], (one["metadata"]["turn"],))
            for one in found
            if one.get("metadata", {}).get("turn")
        ]


class Graphiti:
    """Graphiti (``pip install graphiti-core[kuzu]``): an episode is a turn, and facts name their episodes.

    The graph is Neo4j's at ``uri``, or without one a Kuzu database in memory.
    """

    def __init__(self, folder: Path, *, uri: str = "", user: str = "neo4j", password: str = "") -> None:
        from graphiti_core import Graphiti as Client

        self._loop, self._turns = asyncio.new_event_loop(), dict[str, str]()
        if uri:
            self._client = Client(uri, user, password)
        else:
            from graphiti_core.driver.kuzu_driver import KuzuDriver

            driver = KuzuDriver()
            driver._database = ""  # Graphiti 0.31.2 reads it, and this driver lacks it
            self._client = Client(graph_driver=driver)
            self._loop.run_until_complete(driver.graph_ops.build_indices_and_constraints(driver))
        self._loop.run_until_complete(self._client.build_indices_and_constraints())

    def write(self, case: Case) -> None:
        """Add every turn as an episode, once a run."""

        async def add(turn: Turn) -> None:
            about = {
                "source_description": turn.session,
                "reference_time": turn.said,
                "group_id": _plain(case.id),
            }
            made = await self._client.add_episode(
                name=turn.key, episode_body=f"{turn.speaker}: {turn.text}", **about
            )
            self._turns[made.episode.uuid] = turn.key

        for turn in case.turns:
            if turn.key not in self._turns.values():
                self._loop.run_until_complete(add(turn))

    def find(self, case: Case, question: Question, most: int) -> Sequence[Piece]:
        """Search its facts."""
        edges = self._loop.run_until_complete(
            self._client.search(question.text, group_ids=[_plain(case.id)], num_results=most)
        )
        known = (
            (one.fact, tuple(self._turns[key] for key in one.episodes if key in self._turns)) for one in edges
        )
        return [Piece(text, turns) for text, turns in known if turns]


class LangMem:
    """LangMem (``pip install langmem langgraph``): its store manager writes memories of a session, under the session's name."""

    def __init__(
        self, folder: Path, *, model: str = "openai:gpt-4o-mini", embed: str = "openai:text-embedding-3-small"
    ) -> None:
        from langchain.embeddings import init_embeddings
        from langgraph.store.memory import InMemoryStore
        from langmem import create_memory_store_manager

        # Text is sent as text: tokens, which OpenAI's client sends otherwise, are for OpenAI's own server alone.
        plain = {"check_embedding_ctx_length": False} if embed.startswith("openai:") else {}
        self._store = InMemoryStore(index={"dims": 1536, "embed": init_embeddings(embed, **plain)})
        self._manager = create_memory_store_manager(
            model, namespace=("{case}", "{session}"), store=self._store
        )

    def write(self, case: Case) -> None:
        """Hand it session by session."""
        if self._store.search((case.id,), limit=1):
            return
        for session in case.sessions:
            said = [turn for turn in case.turns if turn.session == session.session_id]
            messages = [
                {"role": "user", "content": f"{turn.said:%Y-%m-%d} {turn.speaker}: {turn.text}"}
                for turn in said
            ]
            place = {"configurable": {"case": case.id, "session": session.session_id}}
            self._manager.invoke({"messages": messages}, config=place)

    def find(self, case: Case, question: Question, most: int) -> Sequence[Piece]:
        """Search its memories; each stands for the turns of its session, so that only sessions compare."""
        found = self._store.search((case.id,), query=question.text, limit=most)
        of = {
            s.session_id: tuple(t.key for t in case.turns if t.session == s.session_id) for s in case.sessions
        }
        return [Piece(str(one.value), of[one.namespace[-1]]) for one in found]


def _plain(name: str) -> str:
    return "".join(ch if ch.isalnum() else "_" for ch in name)
