"""Reranking the best candidates of a search, explaining a result, and the order in which a reader gets the evidence.

The reranker's score is added to the ranking's. Where the words of a question show a time operator ("before", "first",
"now", a date) and no timeline leads, the answer is chosen by its time instead: of the candidates that the reranker finds
relevant, the one that was said when the question wants it (`memforest.search.scores.choose_by_time` chooses).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.config import Order
from memforest.errors import ModelError
from memforest.models.base import finite_scores
from memforest.ports import Reranker
from memforest.read.results import Evidence
from memforest.reading.clauses import asked_in
from memforest.records import QuestionPlan, TimeOperator
from memforest.search.as_of import Moment
from memforest.search.filters import NodeHit, RefineCandidate, Search, TurnHit, turn_places
from memforest.search.relevance import Judge
from memforest.search.scores import choose_by_time
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import asks, question_tokens, turn_text
from memforest.store.connections import Tx
from memforest.store.sessions import turns_with_ids
from memforest.text import count_tokens, cut, entity_key
from memforest.times import from_ms, to_ms

LeafKey = tuple[str, str, int | None, str | None]


@dataclass(frozen=True, slots=True)
class SearchOutcome:
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
    leads: Mapping[LeafKey, int] = field(default_factory=dict)
    """How far in front time order puts evidence (`TurnHit.lead`), of what it does."""
    leaves: Mapping[LeafKey, int] = field(default_factory=dict)
    """The leaf that evidence is a part of, where leaves are shown as a whole."""
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
    return *one.place, one.node_id, one.fact_id


def first_pieces(found: SearchOutcome, most: int) -> list[Evidence]:
    """Return the first pieces of evidence, the turns of a leaf that is shown as a whole as one piece."""
    pieces: set[int | LeafKey] = set()
    shown = []
    for one in found.evidence:
        key = leaf_key(one)
        pieces.add(found.leaves.get(key, key))
        if len(pieces) > most:
            break
        shown.append(one)
    return shown


def explanation(
    request: Search,
    moment: Moment | None,
    found: SearchOutcome,
    evidence: Sequence[Evidence],
    browse: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the plan, what was recalled and kept, and for each evidence the parts whose sum is its score.

    `browse` is the trace of browsing: the mode, and in the guided ones the planner and every tree. `explored` has,
    of an index that takes questions apart, by which entities each part was looked for.
    """
    said_by, known_at = (moment or Moment()).said_ms, (moment or Moment()).known_ms
    bounds = (("said_by", said_by), ("known_at", known_at))
    return {
        "plan": asdict(request.plan),
        "trees": found.trees,
        **browse,
        "filters": {
            "as_of": None if request.as_of_ms is None else from_ms(request.as_of_ms),
            "during": None if request.during_ms is None else tuple(map(from_ms, request.during_ms)),
            **{name: None if ms is None else from_ms(ms) for name, ms in bounds},
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


def _one(found: SearchOutcome, place: int, one: Evidence) -> dict[str, Any]:
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


def candidate(one: Evidence) -> RefineCandidate:
    """Return what an index sees of a piece of evidence."""
    said_ms, memory = to_ms(one.said), one.kind == "memory"
    return RefineCandidate(
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


def only(found: SearchOutcome, kept: Sequence[int]) -> SearchOutcome:
    """Return what was found with the evidence at some places alone, in their order."""
    before = [found.before[place] if place < len(found.before) else "" for place in kept]
    order = [found.order[place] if place < len(found.order) else -1 for place in kept]
    return replace(
        found,
        evidence=[found.evidence[place] for place in kept],
        before=before if found.before else (),
        order=order if found.order else (),
    )


def relevant(found: SearchOutcome, least: float) -> SearchOutcome:
    """Return what was found without evidence of less relevance; what is pinned, leads by its time or has none stays."""
    pinned = {one.fact_id for one in found.pinned}
    return only(
        found,
        [
            place
            for place, one in enumerate(found.evidence)
            if one.relevance is None or one.relevance >= least or one.why or one.fact_id in pinned
        ],
    )


def by_level(evidence: Sequence[Evidence], reference: datetime) -> tuple[Evidence, ...]:
    """Return evidence, best first, in the order ``"level"``, eq. 11 of TiMem (arXiv 2601.02845).

    The lowest level is first, and on each what is nearest in time to the question, whose present is `reference`. What was said is
    of level 0. An interval is as near as the nearer of its ends, and nothing is away from a question within it; of what is equally
    near the better comes first.
    """
    asked_ms = to_ms(reference)

    def key(one: Evidence) -> tuple[int, int]:
        seen = candidate(one)
        away = max(seen.start_ms - asked_ms, asked_ms - seen.end_ms, 0)
        return seen.level or 0, away

    return tuple(sorted(evidence, key=key))


OF_CHANGE = frozenset(("current", "first", "last", "predecessor", "successor", "changed_back"))
"""Operators with which a question mostly asks for a state; dates and beginnings stand in as many about events."""
_FEWEST = 3
"""Fewest candidates about a person for the others to be left out."""
_COVERED = 0.5
"""Least share of an anchor's words that a turn has which tells of it."""
_WHY = {
    "predecessor": "said last of what answers before {anchor}",
    "successor": "said first of what answers after {anchor}",
    "first": "said first of what answers",
}


def operator_of(plan: QuestionPlan, found: SearchOutcome) -> TimeOperator | None:
    """Return the operator by which a question's answer is to be chosen: None if it shows none, or a timeline leads.

    None also if the operator is one with which as many questions ask for an event ("What did Ana paint in May?").
    """
    operator = plan.operator or plan.kind_operator
    if plan.core is None or operator is None or operator.kind not in OF_CHANGE:
        return None
    if any(one.why for one in found.evidence):
        return None
    return operator


def answer_by_time(
    plan: QuestionPlan, operator: TimeOperator, found: SearchOutcome, relevance: NDArray[np.float64]
) -> tuple[LeafKey, str] | None:
    """Return which evidence answers by its time, and why; None if none does.

    Args:
        plan: of the question, with a core.
        operator: see `operator_of`.
        found: the candidates, best first, with the order in which they were said.
        relevance: logits of how well the first of them answer the core.
    """
    read = found.evidence[: len(relevance)]
    anchor = (plan.anchor if plan.kind == operator.kind else None) or operator.anchor
    turn = np.array([one.kind != "memory" for one in read], dtype=np.bool_)
    within = turn & _about(plan.entities, read)
    row = choose_by_time(
        operator.kind,
        relevance,
        np.array(found.order[: len(read)], dtype=np.int64),
        asks=np.array([asks(one.quote) for one in read], dtype=np.bool_),
        within=within,
        anchored=_anchored(anchor, read),
    )
    if row is None:
        return None
    why = _WHY.get(operator.kind, "said last of what answers").format(anchor=anchor)
    return leaf_key(read[row]), f"{operator.kind}: {why}"


def led(found: SearchOutcome, key: LeafKey, why: str) -> SearchOutcome:
    """Return what was found with one evidence in front, for a reason."""
    chosen = next(one for one in found.evidence if leaf_key(one) == key)
    return replace(
        found,
        evidence=[replace(chosen, why=why), *(one for one in found.evidence if one is not chosen)],
        notes={**found.notes, "time_order": {"why": why, "turns": 1}},
    )


def _about(entities: Sequence[str], read: Sequence[Evidence]) -> NDArray[np.bool_]:
    """Return what the first person of a question says or is named in; everything where that is little."""
    every = np.ones(len(read), dtype=np.bool_)
    if not entities:
        return every
    name, key = entities[0].casefold(), entity_key(entities[0])
    found = np.array(
        [entity_key(one.speaker) == key or name in f"{one.text} {one.quote}".casefold() for one in read],
        dtype=np.bool_,
    )
    return found if found.sum() >= _FEWEST else every


def _anchored(anchor: str, read: Sequence[Evidence]) -> NDArray[np.bool_]:
    """Return what has most of an anchor's words: as many as any, and at least half."""
    wanted = set(question_tokens(anchor))
    if not wanted:
        return np.zeros(len(read), dtype=np.bool_)
    share = np.array(
        [len(wanted & set(question_tokens(f"{one.text} {one.quote}"))) / len(wanted) for one in read]
    )
    covered: NDArray[np.bool_] = share >= max(_COVERED, share.max(initial=0.0))
    return covered


WARNING_CHARS = 600
"""Most of an error in a warning: what a server said is cut shorter, and the setting to mend comes after it."""
BEFORE_CHARS = 120
"""Most of the turn before, from its end: it says what "it" is, and costs as much to read as the candidate."""
READ_CHARS = 1_500
"""Most of a turn: what a cross-encoder has room for. Of a longer one it reads what was found."""
_FRAME = 3
"""Tokens that a cross-encoder puts around the two texts of a pair: [CLS] and two [SEP]."""


def said_before(tx: Tx, snapshot: Snapshot, hits: Sequence[TurnHit | NodeHit]) -> list[str]:
    """Return, for each hit, the turn before it in its session with its speaker; "" for a session's first and a node.

    So it is where that turn says what is hidden.
    """
    turns = snapshot.turns
    before = [int(turns.previous[hit.turn]) if isinstance(hit, TurnHit) else -1 for hit in hits]
    previous = [row if row >= 0 and not turns.muted[row] else -1 for row in before]
    texts = turns_with_ids(tx, [int(snapshot.turns.ids[row]) for row in previous if row >= 0])
    found = []
    for row in previous:
        turn = texts[int(snapshot.turns.ids[row])] if row >= 0 else None
        found.append("" if turn is None else turn_text(turn.speaker, turn.text))
    return found


def said_order(snapshot: Snapshot, hits: Sequence[TurnHit | NodeHit]) -> list[int]:
    """Return the place of each hit's turn in the order in which turns were said; -1 for a node."""
    places = turn_places(snapshot)
    return [int(places[hit.turn]) if isinstance(hit, TurnHit) else -1 for hit in hits]


def rerank_text(before: str, one: Evidence) -> str:
    """Return what the reranker reads of a candidate: the turn, after the one before it.

    The turn before says what "it" and "there" are. Measured against the turn alone, and against the statement
    extracted from it: docs/ranking.md. A summary is read as it is.
    """
    if one.kind == "memory":
        return one.text
    read = one.read if len(one.read) <= READ_CHARS else one.text
    return f"{before[-BEFORE_CHARS:]} {turn_text(one.speaker, read)}".strip()


def within_tokens(question: str, texts: Sequence[str], most: int) -> int:
    """Return how many texts, from the first on, are read with a question each in `most` tokens; one at least.

    Tokens are estimated (`count_tokens`), with the frame of a pair.
    """
    each = np.array([count_tokens(question) + count_tokens(text) + _FRAME for text in texts])
    return max(1, int(np.searchsorted(np.cumsum(each), most, side="right")))


async def second_look(
    reranker: Reranker,
    question: str,
    plan: QuestionPlan,
    found: SearchOutcome,
    *,
    top: int,
    tokens: int,
    weight: float,
    by_time: bool,
    judge: Judge | None = None,
) -> tuple[SearchOutcome, list[str]]:
    """Order the best candidates by their score plus the reranker's, and let one lead that answers by its time.

    Where the answer is to be chosen by its time, the core of the question and each turn alone are read, else the question and each
    turn behind the one before it. A reranker that fails leaves the order as it is, with a warning.

    Args:
        reranker: scores the candidates.
        question: as it was asked.
        plan: of the question.
        found: the candidates, best first.
        top: most candidates to read (`Config.rerank_top`).
        tokens: about the most tokens to read (`Config.rerank_tokens`).
        weight: of the reranker's score (`Ranking.rerank`).
        by_time: whether an answer may be chosen by its time.
        judge: joins the relevance of candidates and logits of the reranker, if those are what it gives.
    """
    tells = bool(getattr(reranker, "logits", False))
    operator = operator_of(plan, found) if by_time and tells else None
    asked = asked_in(question) if operator is None or plan.core is None else plan.core
    pool = found.evidence[:top]
    before = found.before[: len(pool)] if operator is None else [""] * len(pool)
    texts = [rerank_text(*pair) for pair in zip(before, pool, strict=True)]
    texts = texts[: within_tokens(asked, texts, tokens)]
    try:
        told = await reranker.score(asked, texts)
        scores = finite_scores(told, len(texts), f"reranker {reranker.model_id!r}")
    except ModelError as exc:
        return found, [f"{cut(str(exc), WARNING_CHARS)}: ranked without the reranker"]
    first = pool[: len(texts)]
    if tells and judge is not None:
        known = np.array([np.nan if one.relevance is None else one.relevance for one in first])
        first = [
            one if one.relevance is None else replace(one, relevance=own)
            for one, own in zip(first, judge.seen(known, scores).tolist(), strict=True)
        ]
    done = replace(
        found,
        evidence=[*reranked(first, scores, weight, found.leads), *found.evidence[len(first) :]],
        reranker=reranker.model_id,
        places={leaf_key(one): place for place, one in enumerate(first, 1)},
    )
    chosen = None if operator is None else answer_by_time(plan, operator, found, scores)
    if chosen is not None:
        done = led(done, *chosen)
    return done, []


def reranked(
    first: Sequence[Evidence],
    scores: NDArray[np.float64],
    weight: float,
    leads: Mapping[LeafKey, int] = MappingProxyType({}),
) -> list[Evidence]:
    """Return candidates by their score plus the weighted reranker's, which becomes a part of the score.

    The part is the distance to the worst of these candidates, in standard deviations: it takes nothing from
    anyone, so that no candidate that was not read comes to stand before one that was. What leads stays in front, and ties keep
    their order.
    """
    spread = float(scores.std()) if len(scores) else 0.0
    if spread < 1e-9:
        return list(first)
    parts = weight * (scores - scores.min()) / spread
    joined = [
        replace(one, score=one.score + part, scores={**one.scores, "rerank": part})
        for one, part in zip(first, parts.tolist(), strict=True)
    ]
    return sorted(joined, key=lambda one: (-leads.get(leaf_key(one), 0), -round(one.score, 9)))
