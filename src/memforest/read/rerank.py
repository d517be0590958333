"""Reranking the best candidates of a search, explaining a result, and the order in which a reader gets the evidence."""

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
from memforest.ports import STANDS, ReadsStates, Reranker
from memforest.read.results import Evidence
from memforest.reading.answer_local import weights_for
from memforest.reading.clauses import asked_in
from memforest.search.as_of import Moment
from memforest.search.filters import RefineCandidate, Search
from memforest.search.succession import standing_by
from memforest.search.vectors import turn_text
from memforest.text import count_tokens, cut
from memforest.times import from_ms, to_ms

LeafKey = tuple[str, str, int | None, str | None]
Known = Mapping[LeafKey, Mapping[str, Any]]
"""Fields of `AnswerEvidence` that evidence does not have, of turns and facts."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What a search found, best first.

    `trees` are the recalled ones as (title, score). `browsed` is how near the path was by which browse reached evidence. `places` are the places of the candidates
    before the reranker ordered them, from 1.
    """

    evidence: list[Evidence]
    trees: list[tuple[str, float]]
    notes: Mapping[str, Any] = field(default_factory=dict)
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
    known: Known = field(default_factory=dict)
    statements: int = 0
    """How many the memory has."""
    earlier: LeafKey | None = None
    """The first piece of all, if anything that was said later may tell how that stands since."""
    later: Mapping[LeafKey, float] = field(default_factory=dict)
    """What may, with how sure the vectors are (`memforest.search.succession.said_later`)."""
    stands: Mapping[LeafKey, Sequence[float]] = field(default_factory=dict)
    """How what is asked about stands by what a cross-encoder has read: `memforest.ports.STANDS`."""
    seeks: float = 1.0
    """How likely the question asks for something that was told, in [0, 1]."""


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
    return replace(found, evidence=[found.evidence[place] for place in kept])


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


WARNING_CHARS = 600
"""Most of an error in a warning: what a server said is cut shorter, and the setting to mend comes after it."""
BEFORE_CHARS = 120
"""Most of the turn before, from its end: it says what "it" is, and costs as much to read as the candidate."""
READ_CHARS = 1_500
"""Most of a turn: what a cross-encoder has room for. Of a longer one it reads what was found."""
_FRAME = 3
"""Tokens that a cross-encoder puts around the two texts of a pair: [CLS] and two [SEP]."""


def rerank_text(one: Evidence, before: tuple[str, str] = ("", "")) -> str:
    """Return what the reranker reads of a candidate: the turn, after the one before it; a summary as it is.

    The turn before says what "it" and "there" are. Measured against the turn alone, and against the statement
    extracted from it: docs/research/ranking.md. What somebody or a model worded stands behind the turn, as it says more.
    """
    if one.kind == "memory":
        return one.text
    text = one.read if len(one.read) <= READ_CHARS else one.text
    if not one.spoken and one.text not in text:
        text = f"{text} {one.text}"
    return pair_text(before, one.speaker, text)


def pair_text(before: tuple[str, str], speaker: str, text: str) -> str:
    """Return a turn behind the end of the one before it, which is (speaker, text), as a cross-encoder reads it.

    What the same speaker said before stands alone: it is no question that the turn answers, and may be the better answer.
    """
    front = turn_text(before[0], before[1][-BEFORE_CHARS:]) if before[1] and before[0] != speaker else ""
    return f"{front} {turn_text(speaker, text)}".strip()


def within_tokens(question: str, texts: Sequence[str], most: int) -> int:
    """Return how many texts, from the first on, are read with a question each in `most` tokens; one at least.

    Tokens are estimated (`count_tokens`), with the frame of a pair.
    """
    each = np.array([count_tokens(question) + count_tokens(text) + _FRAME for text in texts])
    return max(1, int(np.searchsorted(np.cumsum(each), most, side="right")))


async def second_look(
    reranker: Reranker,
    question: str,
    found: SearchOutcome,
    *,
    top: int,
    tokens: int,
    weight: float,
) -> tuple[SearchOutcome, list[str]]:
    """Read the best candidates with a reranker: its logits, if there are weights for them, are for the ranker, else its scores are added.

    A reranker that fails leaves the order as it is, with a warning.

    Args:
        reranker: scores the candidates, each turn behind the one before it.
        question: as it was asked.
        found: the candidates, best first.
        top: most candidates to read (`Config.rerank_top`).
        tokens: about the most tokens to read (`Config.rerank_tokens`).
        weight: of the reranker's score (`Ranking.rerank`).
    """
    asked, pool = asked_in(question), found.evidence[:top]
    texts = [rerank_text(one, found.known.get(leaf_key(one), {}).get("before", ("", ""))) for one in pool]
    texts = texts[: within_tokens(asked, texts, tokens)]
    who = f"reranker {reranker.model_id!r}"
    try:
        if reads := isinstance(reranker, ReadsStates):
            told = finite_scores(await reranker.read_states(asked, texts), len(texts), who, 1 + len(STANDS))
        else:
            told = finite_scores(await reranker.score(asked, texts), len(texts), who)[:, None]
    except ModelError as exc:
        return found, [f"{cut(str(exc), WARNING_CHARS)}: ranked without the reranker"]
    first, scores = pool[: len(texts)], told[:, 0]
    local = weights_for(reranker.model_id) is not None and all(one.relevance is not None for one in first)
    keys = list(map(leaf_key, first))
    more = {at: {"logit": logit} for at, logit in zip(keys, scores.tolist(), strict=True)} if local else {}
    if reads and any(one["succeeds"] for one in found.known.values()):  # it asks how something stands now
        standings = standing_by([to_ms(one.said) for one in first], told[:, 1:])
        for at, (succeeds, ended) in zip(keys, standings, strict=True):
            more.setdefault(at, {}).update(succeeds=succeeds, ended=ended)
    known = {at: {**one, **more.get(at, {})} for at, one in found.known.items()}
    evidence = first if local else reranked(first, scores, weight, found.leads)
    done = replace(
        found,
        evidence=[*evidence, *found.evidence[len(first) :]],
        reranker=reranker.model_id,
        places={leaf_key(one): place for place, one in enumerate(first, 1)},
        known=known,
        stands=dict(zip(keys, told[:, 1:].tolist(), strict=True)) if reads else {},
    )
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
