"""The systems under comparison: each reads a world's sessions and ranks evidence for a question."""

from __future__ import annotations

import importlib
import math
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import snowballstemmer

from temporal.phrasing import fold
from temporal.score import Evidence
from temporal.worlds import Turn, World

__all__ = ["SYSTEMS", "Bm25", "Forest", "ForestSystem", "Recency", "System", "open_systems"]

DEPTH = 10

STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "before",
        "been",
        "but",
        "by",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "his",
        "how",
        "i",
        "in",
        "is",
        "it",
        "its",
        "just",
        "long",
        "me",
        "my",
        "now",
        "of",
        "on",
        "or",
        "s",
        "she",
        "since",
        "so",
        "that",
        "the",
        "their",
        "them",
        "these",
        "they",
        "this",
        "to",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "will",
        "with",
        "you",
        "your",
        "after",
    ]
)
"""Words too common to find anything by. In chats as short as these, BM25 without such a list ranks
"What's going on?" first for most questions."""


class System(Protocol):
    """What is compared; one object serves one world."""

    def rank(self, question: str, reference: datetime) -> list[Evidence]:
        """Return evidence, best first."""
        ...

    def close(self) -> None:
        """Give back what the system holds."""
        ...


class Bm25:
    """BM25 over single turns, each indexed as its date, its speaker and its text, stemmed.

    Source: S. Robertson, H. Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009);
    k1 = 0.9 and b = 0.4 are the usual values for short passages.
    """

    K1 = 0.9
    B = 0.4

    def __init__(self, world: World) -> None:
        self._stemmer = snowballstemmer.stemmer("english")
        self._turns: list[tuple[str, Turn]] = [(s.id, turn) for s in world.sessions for turn in s.turns]
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._lengths: list[int] = []
        for number, (_, turn) in enumerate(self._turns):
            counts = Counter(self._words(f"{turn.said:%d %B %Y} {turn.speaker}: {turn.text}"))
            self._lengths.append(counts.total())
            for word, count in counts.items():
                self._postings[word].append((number, count))
        self._mean = sum(self._lengths) / len(self._lengths)

    def rank(self, question: str, reference: datetime) -> list[Evidence]:
        """Return the ten best turns; the reference date is not used."""
        return [self._evidence(number) for number in self._best(question, DEPTH)]

    def close(self) -> None:
        """Nothing to give back."""

    def _words(self, text: str) -> list[str]:
        words = [word for word in re.findall(r"\w+", fold(text)) if word not in STOP_WORDS]
        stems: list[str] = self._stemmer.stemWords(words)
        return stems

    def _best(self, question: str, depth: int) -> list[int]:
        scores: dict[int, float] = defaultdict(float)
        total = len(self._turns)
        for word in self._words(question):
            found = self._postings.get(word, [])
            weight = math.log(1 + (total - len(found) + 0.5) / (len(found) + 0.5))
            for number, count in found:
                norm = self.K1 * (1 - self.B + self.B * self._lengths[number] / self._mean)
                scores[number] += weight * count * (self.K1 + 1) / (count + norm)
        return sorted(scores, key=lambda number: (-scores[number], self._key(number)))[:depth]

    def _key(self, number: int) -> tuple[str, str]:
        session, turn = self._turns[number]
        return session, turn.id

    def _said(self, number: int) -> datetime:
        return self._turns[number][1].said

    def _evidence(self, number: int) -> Evidence:
        return Evidence(self._turns[number][1].text, frozenset({self._key(number)}))


class Recency(Bm25):
    """The twenty best turns of BM25, newest first: what "take the latest mention" achieves."""

    POOL = 20

    def rank(self, question: str, reference: datetime) -> list[Evidence]:
        """Return the ten newest of the twenty best turns."""
        found = sorted(self._best(question, self.POOL), key=self._said, reverse=True)
        return [self._evidence(number) for number in found[:DEPTH]]


class Forest:
    """A memory of this package with one world in it, which several indexes may answer from.

    The package is looked up when the forest is opened, so that the other systems run without it.
    """

    def __init__(self, world: World, settings: Mapping[str, Any]) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="temporal-state-")
        package = importlib.import_module("memforest")
        config = package.load_default_config(**settings)
        self.forest: Any = package.MemForest(Path(self._directory.name), config)
        self._open = True
        started = perf_counter()
        for session in world.sessions:
            self.forest.ingest_session(world.id, session.id, session.as_input())
        self.ingest_seconds = perf_counter() - started
        self.embedder: str | None = self.forest.user(world.id).stats().embedder

    def close(self) -> None:
        """Close the forest and remove its files; closing it again does nothing."""
        if self._open:
            self._open = False
            self.forest.close()
            self._directory.cleanup()


class ForestSystem:
    """A forest, asked through one of its indexes."""

    def __init__(self, forest: Forest, world: World, index: str) -> None:
        self.forest = forest
        self._user, self._index = world.id, index

    def rank(self, question: str, reference: datetime) -> list[Evidence]:
        """Return the ten first evidence items; quotes count as text."""
        result = self.forest.forest.query(
            self._user, question, reference_date=reference, as_of=None, top_k=DEPTH, index=self._index
        )
        return [
            Evidence(
                f"{item.text}\n{item.quote or ''}",
                frozenset((source.session_id, turn) for source in item.sources for turn in source.turn_ids),
            )
            for item in result.evidence
        ]

    def close(self) -> None:
        """Close the forest."""
        self.forest.close()


SYSTEMS = ("memforest", "flat", "bm25", "recency")


def open_systems(
    names: Sequence[str], world: World, settings: Mapping[str, Any] | None = None
) -> dict[str, System]:
    """Open systems on a world, everything ingested; those of this package share one forest of `settings`.

    Raises:
        ValueError: there is no system of one of the names.
    """
    unknown = sorted(set(names) - set(SYSTEMS))
    if unknown:
        raise ValueError(f"no system {', '.join(unknown)}; there are {', '.join(SYSTEMS)}")
    systems: dict[str, System] = {}
    forest = Forest(world, settings or {}) if {"memforest", "flat"} & set(names) else None
    for name in names:
        if name == "bm25":
            systems[name] = Bm25(world)
        elif name == "recency":
            systems[name] = Recency(world)
        elif forest is not None:
            systems[name] = ForestSystem(forest, world, name)
    return systems
