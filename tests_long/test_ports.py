"""The ports of `Config`: plain objects will do, and the optional parts are found where an object has them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests_long.worlds import fast_config

from memforest import MemForest
from memforest.models import HashEmbedder
from memforest.models.base import Vectors
from memforest.ports import Embedder, EmbedsQuestions, Remote, embed_questions, is_remote
from memforest.search.vectors import read_text

TURNS = [
    {"speaker": name, "text": text, "timestamp": "2024-01-01"}
    for name, text in (("Ann", "I live in Porto."), ("Bo", "I work at Acme."), ("Ann", "I have a cat."))
]


class Plain:
    """An embedder with the attributes that the port asks for, and no others."""

    def __init__(self) -> None:
        self.model_id, self.dimension = "plain", 16
        self.calls: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed by words."""
        self.calls.append(list(texts))
        return await HashEmbedder(16).embed(texts)


class Asks(Plain):
    """One with an instruction for questions."""

    async def embed_questions(self, texts: Sequence[str]) -> Vectors:
        """Embed with the instruction in front."""
        return await self.embed([f"question: {text}" for text in texts])


class Away(Plain):
    """One that asks a server."""

    remote = True


def test_the_optional_parts_have_defaults() -> None:
    """An object that lacks them is local, and embeds a question like any text."""
    plain, asks, away = Plain(), Asks(), Away()
    assert (is_remote(plain), is_remote(away), is_remote(None)) == (False, True, False)
    for embedder in (plain, asks):
        asyncio.run(embed_questions(embedder, ["Where?"]))
    assert (plain.calls, asks.calls) == ([["Where?"]], [["question: Where?"]])
    declared: tuple[Embedder, EmbedsQuestions, Remote] = (plain, asks, away)
    assert declared


@pytest.mark.parametrize(("embedder", "mark"), [(Plain(), ""), (Asks(), "question: ")])
def test_questions_are_embedded_as_the_embedder_says(tmp_path: Path, embedder: Plain, mark: str) -> None:
    """A memory asks for them so, and for nothing else."""
    with MemForest(tmp_path, fast_config(embedder=embedder)) as forest:
        forest.ingest_session("u", "s", TURNS)
        assert not any(text.startswith("question:") for call in embedder.calls for text in call)
        embedder.calls.clear()
        assert forest.query("u", "Where does Ann live?").evidence
    assert f"{mark}Where does Ann live?" in embedder.calls[0]


def test_what_is_remote_gets_its_statements_at_once(tmp_path: Path) -> None:
    """A server's wait is paid once for a session, where a local embedder works beside the extractor."""
    with MemForest(tmp_path, fast_config(embedder=(away := Away()))) as forest:
        turns = [{**turn, "text": f"{turn['text']} What do you think?"} for turn in TURNS]
        result = forest.ingest_session("u", "s", turns)
    read = set(map(read_text, result.added))
    stated = [read & set(call) for call in away.calls]
    assert sorted(map(len, stated))[-1] == len(result.added) > 1
