"""Asking a judge which near statements are one fact, before anything is written (paper §4.1).

Rules merge what is worded the same (`memforest.facts.canonical`). What is only near is put to a model: each new
statement with the few stored or earlier ones that are nearest. Statements that differ in polarity, stated time or
numbers are never asked about: they are two facts, whatever a model says. Verdicts are by the statements'
identities, so they hold whatever another process writes in the meantime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import to_thread
from memforest.facts.canonical import Said, Same, signature
from memforest.facts.thresholds import judge_threshold
from memforest.memory.ingest.restate import fact_signature
from memforest.search.cache import SnapshotCache
from memforest.search.texts import digest
from memforest.steps.base import Judge
from memforest.store import facts as fact_rows
from memforest.store.db import Database
from memforest.text import numbers
from memforest.types import Equivalence

MAX_KNOWN = 4
"""Most statements that a new one is compared with (reference configuration: max_llm_pairs_per_item 4)."""
NEAREST = 8
"""Stored facts that are looked at for each new one (reference configuration: fact_manager.top_k 8)."""


class Told(Protocol):
    """Statements that are about to be written."""

    @property
    def statements(self) -> Sequence[Said]:
        """The statements."""

    @property
    def vectors(self) -> Mapping[bytes, NDArray[np.float32]]:
        """Digest of a text -> its unit vector."""


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement as it is compared: `key` is equal for those that a judge may be asked about together."""

    fact_id: str
    text: str
    key: tuple[object, ...]
    wording: bytes
    """Equal for statements that rules may merge."""
    vector: NDArray[np.float32]


async def find_same(
    judge: Judge,
    db: Database,
    cache: SnapshotCache,
    works: Sequence[Told],
    model: str | None,
    *,
    among: bool = True,
) -> Mapping[str, Same]:
    """Return identity of a new statement -> the stored or earlier one that says the same.

    Args:
        judge: is asked once, with all questions.
        db: the memory.
        cache: of its snapshots.
        works: what is about to be written.
        model: the embedder's id; without an embedder nothing is near.
        among: whether new statements are compared with one another too.
    """
    if model is None:
        return {}
    asked = await to_thread(_questions, db, cache, works, judge_threshold(model), among)
    if not asked:
        return {}
    verdicts = await judge.judge(
        [Equivalence(new.text, tuple(one.text for one, _ in known)) for new, known in asked]
    )
    same = {}
    for (new, known), verdict in zip(asked, verdicts, strict=True):
        if verdict is not None and 0 <= verdict < len(known):
            other, cosine = known[verdict]
            same[new.fact_id] = Same(other.fact_id, cosine)
    return same


_Asked = tuple[_Statement, list[tuple[_Statement, float]]]


def _questions(
    db: Database, cache: SnapshotCache, works: Sequence[Told], threshold: float, among: bool
) -> list[_Asked]:
    """Return the new statements with those near them, nearest first, the stored before the new at equal nearness."""
    new = _new(works)
    with db.read() as tx:
        snapshot = cache.get(tx)
        stored = {one.fact_id for one in new if fact_rows.fact_by_id(tx, one.fact_id) is not None}
        new = [one for one in new if one.fact_id not in stored]
        near: list[list[tuple[_Statement, float]]] = []
        for one in new:
            rows = (
                _nearest(snapshot.facts.vectors.cosines(one.vector), threshold) if snapshot.dimension else []
            )
            facts = fact_rows.facts_with_ids(tx, [int(snapshot.facts.ids[row]) for row, _ in rows])
            vectors = snapshot.facts.vectors
            found = []
            for row, cosine in rows:
                fact = facts[int(snapshot.facts.ids[row])]
                key = _key(fact.text, fact.negated, fact.start_ms, fact.end_ms)
                wording = fact_signature(fact).digest
                found.append((_Statement(fact.fact_id, fact.text, key, wording, vectors[row]), cosine))
            near.append(found)
    asked = []
    for at, one in enumerate(new):
        before = new[:at] if among else ()
        earlier = [(other, float(other.vector @ one.vector)) for other in before if other.key == one.key]
        known = [pair for pair in (*near[at], *earlier) if pair[0].key == one.key and pair[1] >= threshold]
        if known and all(other.wording != one.wording for other, _ in known):
            asked.append((one, sorted(known, key=lambda pair: -pair[1])[:MAX_KNOWN]))
    return asked


def _new(works: Sequence[Told]) -> list[_Statement]:
    """Return the new statements, each once, in the order in which they were said."""
    said: dict[str, tuple[Said, Told]] = {}
    every = [(one, work) for work in works for one in work.statements]
    for one, work in sorted(every, key=lambda pair: (pair[0].said_ms, pair[0].tie)):
        if digest(one.candidate.text) in work.vectors:
            said.setdefault(one.fact_id, (one, work))
    return [
        _Statement(
            fact_id,
            one.candidate.text,
            _key(one.candidate.text, one.candidate.negated, one.start_ms, one.end_ms),
            signature(one.candidate).digest,
            work.vectors[digest(one.candidate.text)],
        )
        for fact_id, (one, work) in said.items()
    ]


def _key(text: str, negated: bool, start_ms: int | None, end_ms: int | None) -> tuple[object, ...]:
    return (negated, start_ms, end_ms, tuple(sorted(numbers(text))))


def _nearest(cosines: NDArray[np.float64], threshold: float) -> list[tuple[int, float]]:
    """Return the rows of the nearest stored facts, best first; ties by row."""
    rows = np.flatnonzero(cosines >= threshold)
    best = rows[np.lexsort((rows, -cosines[rows]))][:NEAREST]
    return [(int(row), float(cosines[row])) for row in best]
