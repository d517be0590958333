"""Canonical facts: candidates that say the same become one fact with several occurrences (paper §4.1).

Two stages. *Exact*: equal folded text and equal stated time are one identity, a tagged hash. *Near*:
without a model to judge, a high cosine is not enough ("lent Caroline" and "lent Melanie" are .990; no cosine
tells "will move" from "moved"), so a merge also needs every guard of `may_merge` to hold, the strictest of
which is the wording itself (`memforest.facts.wording`). What guards forbid stays two facts: a false merge
destroys a memory, a missed one costs a line of context.

The plan is a pure function of what it is given and does not depend on the order of the candidates.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from memforest.facts.wording import Wording, same_wording, wording
from memforest.interval import to_ms
from memforest.text import entity_key, fold
from memforest.types import Candidate, ResolvedDate


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
        one = self.candidate
        return fact_identity(one.text, one.start, one.end, one.dates)

    @property
    def start_ms(self) -> int | None:
        """Start of the stated time, UTC ms."""
        return None if self.candidate.start is None else to_ms(self.candidate.start)

    @property
    def end_ms(self) -> int | None:
        """End of the stated time, UTC ms."""
        return None if self.candidate.end is None else to_ms(self.candidate.end)

    @property
    def tie(self) -> str:
        """`place` made unique by the head of the fact's identity; it stands in every node above the fact."""
        return f"{self.place}{tie_end(self.fact_id)}"


@dataclass(frozen=True, slots=True)
class Signature:
    """What two statements must share before they may be one fact."""

    wording: Wording
    negated: bool
    start: int | None
    end: int | None
    dates: tuple[str, ...]
    """The days that its words of time mean, besides the stated time; see `stated_days`."""
    parts: frozenset[tuple[str, str]]
    """(entity key, role) of every mention: who did it, and to whom."""

    @property
    def bucket(self) -> Hashable:
        """Equal for any two that may merge, so that only few need to be compared."""
        return (self.wording.bag, self.negated, self.start, self.end, self.dates)

    @property
    def digest(self) -> bytes:
        """Return a digest of `bucket` in 8 bytes, the same in every process."""
        signs, clauses = self.wording.bag
        parts = (sorted(signs), clauses, self.negated, self.start, self.end, *self.dates)
        return blake2b(repr(parts).encode(), digest_size=16).digest()[:8]  # the half of what older files have


@dataclass(frozen=True, slots=True)
class Same:
    """A judge's verdict: the identity of the statement that says the same, and the cosine of the two."""

    fact_id: str
    cosine: float


@dataclass(slots=True)
class FactPlan:
    """One canonical fact to be written: where it was said, and the stored fact it joins, if any."""

    fact_id: str
    candidate: Candidate
    said: list[Said] = field(default_factory=list)
    joins: int | None = None
    """Row id of the stored fact that all of this becomes occurrences of."""
    cosines: dict[str, float] = field(default_factory=dict)
    """Fact id of what was said otherwise -> its cosine to the fact it was merged into."""


def tie_end(fact_id: str) -> str:
    """Return the end of the ties of a fact's occurrences: eight characters that tell the facts of one place apart."""
    return f"\x1f{fact_id[3:11]}"


@lru_cache(maxsize=512)  # a write asks for the same statements' identities again and again
def fact_identity(
    text: str, start: datetime | None, end: datetime | None, dates: tuple[ResolvedDate, ...] = ()
) -> str:
    """Return the tagged content hash that identifies a statement: ``f1:`` and 32 hex digits.

    The digest is over the folded text, the stated interval in ms, and other days that its words mean, joined by NUL.
    """
    stated = [str(to_ms(t)) if t is not None else "" for t in (start, end)]
    stated += stated_days(start, end, dates)
    return "f1:" + blake2b("\0".join((fold(text), *stated)).encode(), digest_size=16).hexdigest()


def stated_days(
    start: datetime | None, end: datetime | None, dates: tuple[ResolvedDate, ...]
) -> tuple[str, ...]:
    """Return the days that words of a statement mean, in ms, without those that are its stated time.

    "Until Friday" states no time from when it was so, and is another statement each week.
    """
    days = ((one.start, one.end) for one in dates if (one.start, one.end) != (start, end))
    return tuple(f"{to_ms(first)}-{'' if last is None else to_ms(last)}" for first, last in days)


def signature(candidate: Candidate) -> Signature:
    """Return a candidate's merge signature."""
    return Signature(
        wording=wording(candidate.text),
        negated=candidate.negated,
        start=None if candidate.start is None else to_ms(candidate.start),
        end=None if candidate.end is None else to_ms(candidate.end),
        dates=stated_days(candidate.start, candidate.end, candidate.dates),
        parts=frozenset((key, m.role) for m in candidate.mentions if (key := entity_key(m.name))),
    )


def may_merge(a: Signature, b: Signature) -> bool:
    """Return whether two similar statements may be merged into one fact.

    Polarity and stated time must be equal, the mentions the same with no role contradicting, and the
    wording the same: a "red car" is not a "blue car", and not a "car" either.
    """
    return (
        a.negated == b.negated
        and (a.start, a.end, a.dates) == (b.start, b.end, b.dates)
        and _roles_agree(a.parts, b.parts)
        and same_wording(a.wording, b.wording)
    )


def _roles_agree(a: frozenset[tuple[str, str]], b: frozenset[tuple[str, str]]) -> bool:
    """Return whether both mention the same entities, none as subject here and object there."""
    if a == b:
        return True
    left, right = _roles(a), _roles(b)
    return left.keys() == right.keys() and all(
        not roles or not right[key] or roles == right[key] for key, roles in left.items()
    )


def _roles(parts: frozenset[tuple[str, str]]) -> dict[str, set[str]]:
    """Return entity key -> its roles, without "other"."""
    found: dict[str, set[str]] = {}
    for key, role in parts:
        found.setdefault(key, set()).update({role} - {"other"})
    return found


def plan_facts(
    said: Iterable[Said],
    *,
    stored_ids: Mapping[str, int],
    vectors: Mapping[str, NDArray[np.float32]],
    stored: Sequence[tuple[int, Signature, NDArray[np.float32]]] = (),
    threshold: float | None,
    same: Mapping[str, Same] | None = None,
) -> list[FactPlan]:
    """Group what was said into canonical facts.

    Args:
        said: candidates in any order.
        stored_ids: fact id -> row id of facts that the memory has, those that `same` names included.
        vectors: fact id -> unit vector of a candidate's text.
        stored: (row id, signature, unit vector) of stored facts that may be near one of the candidates.
        threshold: least cosine of a near merge, in [0, 1]; None merges exact matches and what `same` says only.
        same: a judge's verdicts, by the identity of the later statement.

    Returns:
        The facts, ordered by identity; each with its occurrences in the order they were said.
    """
    plans: dict[str, FactPlan] = {}
    for one in sorted(said, key=lambda s: (s.said_ms, s.tie)):
        plan = plans.setdefault(
            one.fact_id, FactPlan(one.fact_id, one.candidate, joins=stored_ids.get(one.fact_id))
        )
        plan.said.append(one)
    if same:
        _merge_judged(plans, stored_ids, same)
    if threshold is not None:
        _merge_near(plans, vectors, stored, threshold)
    return [plans[key] for key in sorted(plans)]


def _merge_judged(
    plans: dict[str, FactPlan], stored_ids: Mapping[str, int], same: Mapping[str, Same]
) -> None:
    """Merge the statements that a judge found equal; verdicts about facts that are gone are skipped."""
    now: dict[str, str] = {}
    for key in list(plans):  # in the order they were said
        verdict = same.get(key)
        if verdict is None or plans[key].joins is not None:
            continue
        target = now.get(verdict.fact_id, verdict.fact_id)
        if target in plans and target != key:
            _fold(plans, key, target, verdict.cosine)
            now[key] = target
        elif target in stored_ids:
            plans[key].joins, plans[key].cosines[key] = stored_ids[target], verdict.cosine


def _fold(plans: dict[str, FactPlan], key: str, target: str, cosine: float) -> None:
    """Merge a plan into another: its statements become occurrences of that fact."""
    folded, into = plans.pop(key), plans[target]
    into.said = sorted([*into.said, *folded.said], key=lambda s: (s.said_ms, s.tie))
    into.cosines.update(folded.cosines)
    into.cosines[key] = cosine


def _merge_near(
    plans: dict[str, FactPlan],
    vectors: Mapping[str, NDArray[np.float32]],
    stored: Sequence[tuple[int, Signature, NDArray[np.float32]]],
    threshold: float,
) -> None:
    """Merge near-duplicates into stored facts, else into the earliest new one; nothing is merged into a merged one."""
    known: dict[Hashable, list[tuple[int, Signature, NDArray[np.float32]]]] = {}
    for one in stored:
        known.setdefault(one[1].bucket, []).append(one)
    kept: dict[Hashable, list[tuple[str, Signature]]] = {}
    for key in sorted(plans, key=lambda k: (plans[k].said[0].said_ms, plans[k].said[0].tie)):
        plan = plans[key]
        if plan.joins is not None or key not in vectors:
            continue
        mine = signature(plan.candidate)
        near = [
            (_cosine(v, vectors[key]), row) for row, s, v in known.get(mine.bucket, ()) if may_merge(mine, s)
        ]
        if near and (best := max(near, key=lambda pair: (pair[0], -pair[1])))[0] >= threshold:
            plan.cosines[key], plan.joins = best
            continue
        new = kept.setdefault(mine.bucket, [])
        others = [(_cosine(vectors[k], vectors[key]), k) for k, s in new if may_merge(mine, s)]
        if others and max(others)[0] >= threshold:
            cosine, other = max(others)
            _fold(plans, key, other, cosine)
        else:
            new.append((key, mine))


def _cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Return the cosine of two unit vectors; one pair at a time, so that it depends on nothing else."""
    return float(a @ b)
