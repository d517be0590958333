"""What the index adds to writing, with a real embedder: the same sessions into memories with and without it, by turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

from memforest import Config, MemForest
from memforest.models import Embedder
from memforest.models.base import Vectors
from scaling.memories import INDEX, NOW, USER
from synthetic.chat import Chat

__all__ = ["PLACERS", "Ingested", "ingested"]

PLACERS = (None, "centroid", "cosine")
"""How the index places; None is a memory without it."""
FIRST = 4
"""Most sessions that do not count, as models and caches are not warm."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """Processor time of a session of 12 to 28 turns, statements and vectors included, in ms a turn."""

    placer: str
    ms_a_turn: float
    ratio: float
    """To the memory without the index."""
    renewed: float
    """What was embedded more than there, in ms a turn: what the policy renews."""
    without_renewed: float
    """The ratio without that."""


class Timed:
    """An embedder that adds up the processor time of its calls, in ms."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, self.ms = embedder, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts."""
        began = process_time()
        try:
            return await self._embedder.embed(texts)
        finally:
            self.ms += (process_time() - began) * 1000


def ingested(directory: Path, seed: int, sessions: int, embedder: Callable[[], Embedder]) -> list[Ingested]:
    """Ingest sessions into a memory for each way of placing, by turns, each with an embedder of its own: they remember texts."""
    chat, spent, turns = Chat(seed), [0.0] * len(PLACERS), 0
    timed = [Timed(embedder()) for _ in PLACERS]
    forests = [
        MemForest(directory / str(placer), _config(placer, one))
        for placer, one in zip(PLACERS, timed, strict=True)
    ]
    first = min(FIRST, sessions)
    try:
        for number in range(first + sessions):
            if number == first:
                spent, turns = [0.0] * len(PLACERS), 0
                for one in timed:
                    one.ms = 0.0
            name, said = chat.session(number)
            for step in range(len(PLACERS)):
                at = (number + step) % len(PLACERS)
                began = process_time()
                forests[at].ingest_session(USER, name, said)
                spent[at] += (process_time() - began) * 1000
            turns += len(said)
    finally:
        for forest in forests:
            forest.close()
    renewed = [one.ms - timed[0].ms for one in timed]
    return [
        Ingested(
            placer=str(placer or "without"),
            ms_a_turn=spent[at] / turns,
            ratio=spent[at] / spent[0],
            renewed=renewed[at] / turns,
            without_renewed=(spent[at] - renewed[at]) / spent[0],
        )
        for at, placer in enumerate(PLACERS)
    ]


def _config(placer: str | None, embedder: Timed) -> Config:
    own: dict[str, Any] = {} if placer is None else {INDEX: {"placer": placer}}
    indexes = ("memforest",) if placer is None else ("memforest", INDEX)
    return Config(embedder=embedder, clock=lambda: NOW, indexes=indexes, index_settings=own, refresh="lazy")
