"""Row ids are never given again, so a vector that is made while its text is replaced lands on nothing else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, rows, said

from memforest import AsyncMemForest, MemForest
from memforest.models import HashEmbedder

NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)
TABLES = ("session", "turn", "chunk", "fact", "entity")


class Gated(HashEmbedder):
    """Embeds when it is let; says when it has been asked."""

    def __init__(self) -> None:
        super().__init__(32)
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors once `go` is set."""
        self.asked.set()
        await self.go.wait()
        return await super().embed(texts)


@pytest.mark.parametrize("verb", ["resume", "rebuild", "repair"])
@pytest.mark.parametrize("turns", [("I bought a giraffe.",), ("I bought a giraffe.", "I paint in Lisbon.")])
def test_a_session_replaced_while_vectors_are_made_has_its_own(
    tmp_path: Path, verb: str, turns: Sequence[str]
) -> None:
    """The vectors of texts that are gone are thrown away; the new turns have theirs, in whatever number."""

    async def run() -> None:
        async with AsyncMemForest(tmp_path, fast_config(embedder="none")) as forest:
            await forest.ingest_session("u", "s1", said("I live in Porto.", day=1))
            await forest.ingest_session("u", "s2", said("I bought a zebra.", "I sold my old piano.", day=2))
        slow = Gated()
        async with (
            AsyncMemForest(tmp_path, fast_config(embedder=slow)) as filling,
            AsyncMemForest(tmp_path, fast_config()) as writing,
        ):
            # A verb may refuse to go on; what it must not do is write another text's vector.
            job = asyncio.create_task(
                getattr(filling, verb)("u") if verb != "repair" else filling.user("u").repair()
            )
            await slow.asked.wait()
            await writing.ingest_session("u", "s2", said(*turns, day=2), replace=True)
            slow.go.set()
            await job
            assert (await writing.user("u").verify()).problems == ()
            await writing.resume("u")
            assert (await writing.user("u").verify()).problems == ()
            best = (await writing.query("u", "giraffe")).evidence[0]
            assert "giraffe" in best.quote
            assert best.scores["turn"] > 0

    asyncio.run(run())
    assert rows(
        file_of(tmp_path), "SELECT count(*) FROM turn WHERE id NOT IN (SELECT item FROM derived_turn_vector)"
    ) == [(0,)]


def test_no_row_gets_the_id_of_a_deleted_one(tmp_path: Path) -> None:
    """After everything was overwritten, no table has an id that it had before."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", said("I live in Porto with Bob.", "I bought a zebra."))
        path = file_of(tmp_path)
        before = {table: rows(path, f"SELECT max(id) FROM {table}")[0][0] for table in TABLES}
        forest.ingest_session("u", "s", said("Carla sold a giraffe.", speaker="Eve"), replace=True)
    after = {table: rows(path, f"SELECT min(id) FROM {table}")[0][0] for table in TABLES}
    assert {table for table in TABLES if after[table] <= before[table]} == set()
