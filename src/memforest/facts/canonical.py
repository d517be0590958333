"""Canonical facts: candidates that say the same become one fact with several occurrences (paper §4.1).

Two stages. *Exact*: equal folded text and equal stated time are one identity, a tagged hash. *Near*:
without a model to judge, a high cosine is not enough ("lent Caroline" and "lent Melanie" are .990), so a
merge also needs every guard of `may_merge` to hold. What guards forbid stays two facts: a false merge
destroys a memory, a missed one costs a line of context.

The plan is a pure function of what it is given and does not depend on the order of the candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from memforest.interval import to_ms
from memforest.text import entity_key, fold, lexical_tokens, numbers
from memforest.types import Candidate

__all__ = ["FactPlan", "Said", "Signature", "fact_identity", "may_merge", "plan_facts", "signature"]


@dataclass(frozen=True, slots=True)
class Said:
    """A candidate together with where it was said."""

    candidate: Candidate
    cell: int
    turns: tuple[int, ...]
    """Row ids of the supporting turns."""
    said_ms: int
    place: str
    """Session id and ordinals: orders what was said at one instant."""

    @property
    def fact_id(self) -> str:
        """The identity of the fact that this says."""
        return fact_identity(self.candidate.text, self.candidate.start, self.candidate.end)

    @property
    def tie(self) -> str:
        """`place` made unique by the fact's identity."""
        return f"{self.place}\x1f{self.fact_id}"


@dataclass(frozen=True, slots=True)
class Signature:
    """What two statements must share before they may be one fact."""

    numbers: tuple[str, ...]
    negated: bool
    start: int | None
    end: int | None
    parts: frozenset[tuple[str, str]]
    """(entity key, role) of every mention: who did it, and to whom."""
    content: frozenset[str]
    """Content tokens, stemmed."""


@dataclass(slots=True)
class FactPlan:
    """One canonical fact to be written: where it was said, and the stored fact it joins, if any."""

    fact_id: str
    candidate: Candidate
    said: list[Said] = field(default_factory=list)
    joins: int | None = None
    """Row id of the stored fact that all of this becomes occurrences of."""
    cosine: float | None = None
    """Cosine to the fact it was merged into; None for an exact match or a new fact."""


def fact_identity(text: str, start: datetime | None, end: datetime | None) -> str:
    """Return the tagged content hash that identifies a statement: ``f1:`` and 32 hex digits.

    The digest is over the folded text and the stated interval in ms, joined by NUL.
    """
    stated = [str(to_ms(t)) if t is not None else "" for t in (start, end)]
    return "f1:" + blake2b("\0".join((fold(text), *stated)).encode(), digest_size=16).hexdigest()


def signature(candidate: Candidate) -> Signature:
    """Return a candidate's merge signature."""
    return Signature(
        numbers=tuple(sorted(numbers(candidate.text))),
        negated=candidate.negated,
        start=None if candidate.start is None else to_ms(candidate.start),
        end=None if candidate.end is None else to_ms(candidate.end),
        parts=frozenset((key, m.role) for m in candidate.mentions if (key := entity_key(m.name))),
        content=frozenset(lexical_tokens(candidate.text)),
    )


def may_merge(a: Signature, b: Signature) -> bool:
    """Return whether nothing forbids that two similar statements are one fact.

    Numbers, polarity, stated time and mentions with their roles must be equal, and at most one of the two
    may have content words that the other lacks: "a red car" and "a blue car" never merge.
    """
    return (
        a.numbers == b.numbers
        and a.negated == b.negated
        and (a.start, a.end) == (b.start, b.end)
        and a.parts == b.parts
        and (a.content <= b.content or b.content <= a.content)
    )


def plan_facts(
    said: Iterable[Said],
    *,
    stored_ids: Mapping[str, int],
    vectors: Mapping[str, NDArray[np.float32]],
    stored: Sequence[tuple[int, Signature, NDArray[np.float32]]] = (),
    threshold: float | None,
) -> list[FactPlan]:
    """Group what was said into canonical facts.

    Args:
        said: candidates in any order.
        stored_ids: fact id -> row id of facts that the memory has.
        vectors: fact id -> unit vector of a candidate's text.
        stored: (row id, signature, unit vector) of stored facts that may be near one of the candidates.
        threshold: least cosine of a near merge, in [0, 1]; None merges exact matches only.

    Returns:
        The facts, ordered by identity; each with its occurrences in the order they were said.
    """
    plans: dict[str, FactPlan] = {}
    for one in sorted(said, key=lambda s: (s.said_ms, s.tie)):
        plan = plans.setdefault(
            one.fact_id, FactPlan(one.fact_id, one.candidate, joins=stored_ids.get(one.fact_id))
        )
        plan.said.append(one)
    if threshold is not None:
        _merge_near(plans, vectors, stored, threshold)
    return [plans[key] for key in sorted(plans)]


def _merge_near(
    plans: dict[str, FactPlan],
    vectors: Mapping[str, NDArray[np.float32]],
    stored: Sequence[tuple[int, Signature, NDArray[np.float32]]],
    threshold: float,
) -> None:
    """Fold near-duplicates into stored facts, then into one another; the earliest identity stays."""
    new = [key for key in sorted(plans) if plans[key].joins is None and key in vectors]
    signatures = {key: signature(plans[key].candidate) for key in new}
    for key in new:
        found = [
            (float(vector @ vectors[key]), -row)
            for row, other, vector in stored
            if may_merge(signatures[key], other)
        ]
        if found and max(found)[0] >= threshold:
            plans[key].cosine, row = max(found)
            plans[key].joins = -row
    loose = [key for key in new if plans[key].joins is None]
    if len(loose) < 2:
        return
    matrix = np.stack([vectors[key] for key in loose])
    cosines = matrix @ matrix.T
    kept: list[int] = []
    for i, key in enumerate(loose):
        near = [(float(cosines[i, j]), -j) for j in kept if may_merge(signatures[key], signatures[loose[j]])]
        if near and max(near)[0] >= threshold:
            cosine, j = max(near)
            target = plans[loose[-j]]
            target.said = sorted([*target.said, *plans.pop(key).said], key=lambda s: (s.said_ms, s.tie))
            target.cosine = cosine
        else:
            kept.append(i)
