"""The values of a search: the question as an index gets it, its hits and nodes, and its refinements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.config import Ranking
from memforest.recall import Order
from memforest.types import QuestionPlan, SubQuery


@dataclass(frozen=True, slots=True)
class Part:
    """One of the questions that a question is made of, read as a question of its own.

    `answer` is what was answered to it from its own evidence, where a model was asked, else empty. `follows` is the id of the
    sub-query of which it asks for what was missing; empty for one of the plan.
    """

    sub: SubQuery
    request: Search
    answer: str = ""
    follows: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """A planned and embedded question for an index: tokens, vectors, plan, and the time filters in UTC ms; its text stays with the planner.

    `tokens` are the text's as the lexical index spells them. `vector` is the question's unit vector and
    `bare_vector` that of the question without participants' names; both are None in a memory without an embedder.
    `known` is the share of the question that the embedder has words for.
    `as_of_ms` keeps what was so at that instant; `during_ms` keeps what overlaps [start, end). `reference_ms` is
    the question's present.

    `mode` is one of `memforest.config.MODES`, `asked_mode` the one that the caller named, if any; `browse_calls`
    bounds what browsing may ask a model. `leaves` are those that a browse reached before the ranking, by node id, with
    their scores; None where none was made. `explain` asks for what the ranking itself does not need: which trees were
    recalled, and how near the path was by which a turn was reached. `parts`
    are the questions that an index has taken it apart into.
    """

    tokens: Sequence[str]
    plan: QuestionPlan
    reference_ms: int
    vector: NDArray[np.float32] | None = None
    bare_vector: NDArray[np.float32] | None = None
    known: float = 1.0
    as_of_ms: int | None = None
    during_ms: tuple[int, int] | None = None
    ranking: Ranking = field(default_factory=Ranking)
    explain: bool = False
    leaves: Mapping[int, float] | None = None
    mode: str = "emb"
    asked_mode: str | None = None
    browse_calls: int = 32
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranked turn with the fact that speaks best for it, as rows of the snapshot and of the index's forest.

    `fact` is -1 when the turn speaks for itself. `scores` are the parts of `score`, already weighted, whose sum
    it is. `leaf` is the forest row of the leaf it was found at, or -1: where browse reached it, if that counts, else
    where it was said. `browsed` is the mean similarity of the path by which browse reached the turn, or the leaf's score
    in `Search.leaves`; None when it did not come there.
    """

    turn: int
    fact: int
    score: float
    scores: dict[str, float] = field(default_factory=dict)
    leaf: int = -1
    why: str = ""
    browsed: float | None = None


@dataclass(frozen=True, slots=True)
class NodeHit:
    """One ranked node, by its id, whose summary is the evidence; `scores` and `why` as in `Hit`.

    A leaf is one only if it has a summary of its own: otherwise an index hands back the turns that it stands for. `window` is the
    calendar key of a node that stands for a day, a week and so on.
    """

    node: int
    score: float
    scores: dict[str, float] = field(default_factory=dict)
    window: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What an index found: every candidate turn, best first, each made when it is asked for.

    A turn may be there more than once, each time with another fact that speaks for it.

    `nodes` are the nodes it found, best first, on the same scale of scores; evidence is ranked from both. The reader
    applies the time filters to them and reads their summaries (`memforest.systems.nodes`). `spare` is how many pieces behind
    the first `top_k` `Index.refine` is to see, and `order` how the evidence stands behind all cuts.
    `trees` are the trees that were looked into, as (tree id, score), best first. `notes` say for
    `explain=True` what filters and time order did, as plain values. `warnings` go into the result.
    """

    hits: Iterable[Hit]
    trees: tuple[tuple[int, float], ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    nodes: Iterable[NodeHit] = ()
    warnings: tuple[str, ...] = ()
    spare: int = 0
    order: Order = "score"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question as an index has prepared it for its ranking.

    `trees` are the trees that were looked into, as (title, score); `trace` and `warnings` go into the result.
    """

    request: Search
    trees: tuple[tuple[str, float], ...] = ()
    trace: Mapping[str, Any] = field(default_factory=lambda: {"mode": "emb"})
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """One piece of ranked evidence that an index may refine, before the list is cut to `top_k`.

    Of a summary `level` and `window` are those of its node, and `start_ms` and `end_ms` its interval; of what was said both
    are `said_ms`. `tells_time` is whether a statement speaks for it that states a time of its own.
    """

    text: str
    quote: str
    speaker: str
    said_ms: int
    score: float
    level: int | None = None
    window: str | None = None
    start_ms: int = 0
    end_ms: int = 0
    tells_time: bool = False


@dataclass(frozen=True, slots=True)
class Refined:
    """The refinement of a ranking: a request to rank again, or the candidates to keep.

    `again` is a request to rank anew, for a question that has become another one. `kept` are the places of the
    candidates to keep, best first; None keeps all as they are.
    """

    again: Search | None = None
    kept: tuple[int, ...] | None = None
    trace: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
