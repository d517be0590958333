"""The explanation of a query result: what `explain=True` adds to its trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from memforest.interval import from_ms
from memforest.memory.results import Evidence
from memforest.recall import Order
from memforest.systems.base import Search
from memforest.systems.moments import Moment

LeafKey = tuple[str, str, int | None, str | None]


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found, best first.

    `trees` are the recalled ones as (title, score). `before` is the turn before each candidate for the reranker,
    `order` its place in the order in which turns were said. `browsed` is how near the path was by which browse reached evidence. `places` are the places of the candidates
    before the reranker ordered them, from 1.
    """

    evidence: list[Evidence]
    trees: list[tuple[str, float]]
    notes: Mapping[str, Any] = field(default_factory=dict)
    before: Sequence[str] = ()
    order: Sequence[int] = ()
    browsed: Mapping[LeafKey, float] = field(default_factory=dict)
    places: Mapping[LeafKey, int] = field(default_factory=dict)
    reranker: str | None = None
    pinned: Sequence[Evidence] = ()
    """The pinned facts that pass the time filters, those said last first."""
    warnings: tuple[str, ...] = ()
    """Of what was left out."""
    shown: Order = "score"
    """In which order the evidence is handed out."""


def leaf_key(one: Evidence) -> LeafKey:
    """Return the session and turn that evidence was found at, its node and its fact: no other evidence has all four."""
    return one.sources[0].session_id, one.sources[0].turn_ids[0], one.node_id, one.fact_id


def _bounds(moment: Moment | None) -> list[tuple[str, int | None]]:
    bounds = moment or Moment()
    return [("said_by", bounds.said_ms), ("known_at", bounds.known_ms)]


def explanation(
    request: Search,
    moment: Moment | None,
    found: Searched,
    evidence: Sequence[Evidence],
    browse: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the plan, what was recalled and kept, and for each evidence the parts whose sum is its score.

    `browse` is the trace of browsing: the mode, and in the guided ones the planner and every tree. `explored` has,
    of an index that takes questions apart, by which entities each part was looked for.
    """
    return {
        "plan": asdict(request.plan),
        "trees": found.trees,
        **browse,
        "filters": {
            "as_of": None if request.as_of_ms is None else from_ms(request.as_of_ms),
            "during": None if request.during_ms is None else tuple(map(from_ms, request.during_ms)),
            **{name: None if ms is None else from_ms(ms) for name, ms in _bounds(moment)},
            **found.notes.get("filters", {}),
        },
        "time_order": found.notes.get("time_order"),
        "propagation": found.notes.get("propagation"),
        **({"explored": found.notes["explored"]} if "explored" in found.notes else {}),
        "rerank": None
        if found.reranker is None
        else {"model": found.reranker, "candidates": len(found.places)},
        "evidence": [_one(found, place, one) for place, one in enumerate(evidence, 1)],
    }


def _one(found: Searched, place: int, one: Evidence) -> dict[str, Any]:
    session_id, turn_id, node_id, fact_id = key = leaf_key(one)
    return {
        "place": place,
        "place_before_rerank": found.places.get(key, place),
        "session_id": session_id,
        "turn_id": turn_id,
        "fact_id": fact_id,
        "node_id": node_id,
        "score": one.score,
        "parts": dict(sorted(one.scores.items(), key=lambda part: (-abs(part[1]), part[0]))),
        "path": one.path,
        "browsed": found.browsed.get(key),
        "why": one.why,
    }
