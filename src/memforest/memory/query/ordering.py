"""What an index sees of evidence before it is cut, and the order in which a reader gets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memforest.interval import to_ms
from memforest.memory.query.explain import Searched
from memforest.memory.results import Evidence
from memforest.recall import Order
from memforest.systems.base import Candidate


def candidate(one: Evidence) -> Candidate:
    """Return what an index sees of a piece of evidence."""
    said_ms, memory = to_ms(one.said), one.kind == "memory"
    return Candidate(
        text=one.text,
        quote=one.read,
        speaker=one.speaker,
        said_ms=said_ms,
        score=one.score,
        level=one.level,
        window=one.window,
        start_ms=to_ms(one.start) if memory else said_ms,
        end_ms=to_ms(one.end) if memory and one.end is not None else said_ms,
        tells_time=one.stated is not None,
    )


def only(found: Searched, kept: Sequence[int]) -> Searched:
    """Return what was found with the evidence at some places alone, in their order."""
    before = [found.before[place] if place < len(found.before) else "" for place in kept]
    order = [found.order[place] if place < len(found.order) else -1 for place in kept]
    return replace(
        found,
        evidence=[found.evidence[place] for place in kept],
        before=before if found.before else (),
        order=order if found.order else (),
    )


def in_order(evidence: Sequence[Evidence], order: Order, reference: datetime) -> tuple[Evidence, ...]:
    """Return evidence as a reader gets it.

    ``"level"`` is eq. 11 of TiMem (arXiv 2601.02845): the lowest level first, and on each what is nearest in time to the question.
    What was said is of level 0. An interval is as near as the nearer of its ends, and nothing is away from a question within it; of what is equally near the better comes first.

    Args:
        evidence: best first.
        order: ``"score"`` leaves it as it is.
        reference: the present of the question.
    """
    if order == "score":
        return tuple(evidence)
    asked_ms = to_ms(reference)

    def key(one: Evidence) -> tuple[int, int]:
        seen = candidate(one)
        away = max(seen.start_ms - asked_ms, asked_ms - seen.end_ms, 0)
        return seen.level or 0, away

    return tuple(sorted(evidence, key=key))
