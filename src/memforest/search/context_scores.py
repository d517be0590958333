"""How relevant turns, and the nodes of any forest, are to a question before trees come in: steps 2 to 7 of docs/research/ranking.md.

`fused`: BM25, the cosine of the turn, and the best cosine of it and its facts, each standardised over the memory and
weighted by `Ranking`. What the embedder does not know of a question and a text, the lexical leg has.

`as_said` adds leaf order (relevance flows to a turn from its neighbours in the session, more of it to a reply), scope (who
said it), nearness to the window of the question, and three priors of the turn itself (length, asking, telling a time).

`nearness`: a statement that tells its own time counts by that time, another one by the day it was said; a turn counts by
the nearest of its statements. Outside the window nearness falls off by a factor e over a time in proportion to the
length of the window: beside a day that is asked for, the next day is far, and beside a month it is near. (One scale for
all windows, which 14 days were, told the days of a week hardly apart.) A statement about a longer time than is asked for
tells less of it: "in 2023" counts as 1 / 365 on a day. Source of the shape: exponential decay in units of the asked
precision, as H-Mem's overlap (`memforest.search.scores.time_overlap`) also measures time in the length of the intervals.

`along_stretches` needs no stored trees: sessions are cut into stretches of 6 and 18 turns, what each speaker told into
stretches of 8, 64 and 512 statements in the order of time. A stretch is as relevant as its best piece, and hands that
down, level by level, as the trees of the index `memforest` do; other lengths, and stretches of equal length, were as good.

Nodes are relevant by cosine, as in the paper, or by the relevance of turns without a summary being read. Source: SegTreeMem
(arXiv 2606.04555) §4.3.1; fused relevance, and leaves that are facts, are this package's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memforest.records import TURN_ROLES, QuestionPlan
from memforest.search.filters import Search, fact_places, known_words, told_by
from memforest.search.forest import CHUNK, FACT, TURNS, EmbeddedForest, Forest, once_per_forest
from memforest.search.lexical import bm25
from memforest.search.scores import Groups, Levels, Scores, standardise
from memforest.search.snapshot import OPEN, Snapshot, once_per_snapshot, ranges
from memforest.store.connections import Tx
from memforest.times import DAY_MS, EARLIEST

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Base:
    """Raw relevance: BM25 per turn and fact, cosines per turn and fact (zeros without an embedder).

    `turn` is compared with the question, `turn_bare` and `fact` with the question without participants' names.
    """

    lexical: Scores
    turn: Scores
    turn_bare: Scores
    fact: Scores
    fact_lexical: Scores


@dataclass(slots=True)
class LeafScores:
    """The score of every turn and its weighted parts, each of shape (n,)."""

    total: Scores
    parts: dict[str, Scores] = field(default_factory=dict)

    def add(self, name: str, values: Scores) -> None:
        """Add a part, unless it is all zero."""
        if values.any():
            self.parts[name] = self.parts[name] + values if name in self.parts else values
            self.total = self.total + values


def read_base(tx: Tx, snapshot: Snapshot, request: Search) -> Base:
    """Return the raw relevance of turns and facts; their words are read from the file."""
    lexical = bm25(tx, snapshot, "turn", request.tokens)
    return base_scores(snapshot, request, lexical, bm25(tx, snapshot, "fact", request.tokens))


def base_scores(snapshot: Snapshot, request: Search, lexical: Scores, fact_lexical: Scores) -> Base:
    """Return the raw relevance of turns and facts, of which the lexical one is known: shapes (n,) and (m,)."""
    turns, facts = snapshot.turns, snapshot.facts
    if request.vector is None or snapshot.dimension == 0:
        n, m = np.zeros(len(turns.ids)), np.zeros(len(facts.ids))
        return Base(lexical, n, n, m, fact_lexical)
    bare = request.vector if request.bare_vector is None else request.bare_vector
    compared = (bare,) if np.array_equal(request.vector, bare) else (request.vector, bare)
    found, [fact] = turns.vectors.cosines_of(*compared), facts.vectors.cosines_of(bare)
    return Base(lexical, turn=found[0], turn_bare=found[-1], fact=fact, fact_lexical=fact_lexical)


def fused(snapshot: Snapshot, request: Search, base: Base) -> LeafScores:
    """Return the sum of the weighted, standardised legs of every turn, with the parts ``"lexical"``, ``"turn"`` and ``"fact"``."""
    weights = request.ranking
    scores = LeafScores(np.zeros(len(snapshot.turns.ids)))
    unknown = 1.0 - known_words(snapshot, request)
    scores.add(
        "lexical", (weights.lexical + (weights.turn + weights.fact) * unknown) * standardise(base.lexical)
    )
    scores.add("turn", weights.turn * (1.0 - unknown) * standardise(base.turn))
    told = told_by(snapshot).best(base.fact, np.full(len(base.turn_bare), -np.inf))
    best = np.maximum(base.turn_bare, told)  # of the turn itself and the facts it supports
    scores.add("fact", weights.fact * (1.0 - unknown) * standardise(best))
    return scores


FALL = 0.5
"""Share of the window's length over which nearness falls by a factor e. It is the same before and after the window: with
the days that statements tell, later talk needs no more room (recall was the same with a third to all of it)."""
OPEN_DAYS = 14.0
"""The time of that fall in days for a window that is open on one side, as in "since March"; such a window has no length."""


def nearness(snapshot: Snapshot, plan: QuestionPlan) -> Scores:
    """Return how near each turn lies to the window of a plan, which has one: 1 inside, towards 0 far from it."""
    start, end = _bounds(plan)
    facts, told = snapshot.facts, told_by(snapshot)
    said = snapshot.turns.said_ms.astype(np.float64)
    near = _near(said, said, start, end)
    if len(told.turns):
        own, of = facts.stated[told.facts], told.facts
        first = np.where(own, facts.start_ms[of], said[told.turn_of])
        last = np.where(own & (facts.end_ms[of] != OPEN), facts.end_ms[of], first)
        near[told.turns] = told.groups.best(_near(first, last, start, end))
    return near


def said_within(snapshot: Snapshot, plan: QuestionPlan) -> NDArray[np.bool_]:
    """Return which turns were said in the window of a plan; all of them if it has none."""
    start, end = _bounds(plan)
    said = snapshot.turns.said_ms
    return (said >= start) & (said < end)


def _bounds(plan: QuestionPlan) -> tuple[float, float]:
    """Return the window of a plan in ms; a bound that is open is infinite."""
    start = -np.inf if plan.start is None or plan.start == EARLIEST else plan.start.timestamp() * 1000
    return start, np.inf if plan.end is None else plan.end.timestamp() * 1000


def _near(first: Scores, last: Scores, start: float, end: float) -> Scores:
    """Return how near times [first, last) lie to [start, end); a time is an instant where both are the same."""
    length = max(end - start, DAY_MS)
    scale = FALL * length if np.isfinite(length) else OPEN_DAYS * DAY_MS
    share = np.minimum(1.0, length / np.maximum(last - first, DAY_MS))
    middle = (first + last) / 2
    inside = (middle >= start) & (middle < end)
    # Days count whole, by their middle: what was said past midnight was said on the next day, and not just outside.
    days = np.where(inside, 0.0, np.floor(np.maximum(middle - end, start - middle) / DAY_MS) + 0.5)
    near: Scores = share * np.exp(-days * DAY_MS / scale)
    return near


_USER, _ASSISTANT = TURN_ROLES.index("user"), TURN_ROLES.index("assistant")


def as_said(snapshot: Snapshot, request: Search, base: Base) -> LeafScores:
    """Return the score of every turn, as z-scores, with its weighted parts."""
    scores, turns = fused(snapshot, request, base), snapshot.turns
    weights, plan = request.ranking, request.plan
    later, before, asked, helped, earlier, after = _beside(snapshot)
    positive = np.maximum(scores.total, 0.0)
    order = np.zeros(len(positive))
    reply = np.maximum(weights.reply * asked, weights.assistant_reply * helped)
    order[later] += (weights.before + reply) * positive[before]
    order[earlier] += weights.after * positive[after]
    scores.add("leaf_order", order)
    # Those whose words are asked for, else the one participant who is asked about.
    wanted = plan.entities if plan.speakers is None else plan.speakers
    speakers = [i for i, name in enumerate(snapshot.speakers) if name in wanted]
    if plan.speakers is not None or len(speakers) == 1:
        scores.add("speaker", weights.speaker * np.isin(turns.speaker, speakers).astype(np.float64))
    if plan.start is not None or plan.end is not None:
        scores.add("date", weights.date * nearness(snapshot, plan))
    scores.add("length", weights.length * _turn_lengths(snapshot))
    scores.add("question", -weights.question * turns.asks_last.astype(np.float64))
    if plan.kind in ("when", "since"):
        scores.add("temporal", weights.temporal * turns.dated.astype(np.float64))
    # As z-scores: what an average turn has is a part of its own. Of a total without differences nothing is left, and its parts
    # cancel out.
    raw, total = scores.total, standardise(scores.total)
    scale = float(raw.std()) if total.any() else 1.0
    parts = {name: part / scale for name, part in scores.parts.items()}
    return LeafScores(total, {**parts, "mean": np.full(len(raw), -float(raw.mean()) / scale)})


@once_per_snapshot
def _turn_lengths(snapshot: Snapshot) -> Scores:
    return standardise(np.log1p(snapshot.turns.length.astype(np.float64)))


@once_per_snapshot
def _beside(snapshot: Snapshot) -> tuple[Ints, Ints, Flags, Flags, Ints, Ints]:
    """Return the turns that have a neighbour in their session, and those neighbours.

    Returns:
        The turns that have a predecessor, and it; whether it is another speaker's and asks, and whether it is a user's
        and the turn an assistant's; the turns that have a successor, and it.
    """
    turns = snapshot.turns
    later, earlier = np.flatnonzero(turns.previous >= 0), np.flatnonzero(turns.following >= 0)
    before = turns.previous[later]
    asked = turns.asks[before] & (turns.speaker[before] != turns.speaker[later])
    helped = (turns.role[before] == _USER) & (turns.role[later] == _ASSISTANT)
    return later, before, asked, helped, earlier, turns.following[earlier]


OF_SESSIONS = (6, 18)
"""Turns of the stretches of a session, below the session itself."""
OF_SPEAKERS = (8, 64, 512)
"""Statements of the stretches of what a speaker told."""


def along_stretches(snapshot: Snapshot, request: Search, values: Scores) -> dict[str, Scores]:
    """Return what every turn gets from the stretches that it is in, by part: ``"session_stretch"``, ``"speaker_stretch"``.

    Args:
        snapshot: of the memory, which is not empty.
        request: the question; its ranking has the weights, those of sessions' and participants' trees.
        values: how relevant every turn is by itself, shape (n,).
    """
    (sessions, speakers), weights, told = _stretches(snapshot), request.ranking, told_by(snapshot)
    share = weights.session_tree_of_lists if request.plan.kind == "list" else weights.session_tree
    parts = {}
    if share:
        parts["session_stretch"] = sessions.flow(values) * (share / len(sessions.groups))
    if weights.participant_tree and speakers is not None:
        down = speakers.flow(values[told.turn_of]) * (weights.participant_tree / len(speakers.groups))
        out = np.zeros(len(values))
        out[told.turns] = told.groups.best(down)
        parts["speaker_stretch"] = out
    return parts


@once_per_snapshot
def _stretches(snapshot: Snapshot) -> tuple[Levels, Levels | None]:
    """Return turns by the stretches of their session, and what turns support by the stretches of who told it.

    The latter, support by support, is None without statements.
    """
    turns, told = snapshot.turns, told_by(snapshot)
    rows = np.arange(len(turns.ids))
    sessions = np.array([_stretch_blocks(turns.session, rows, size) for size in (*OF_SESSIONS, 0)])
    if not len(told.facts):
        return Levels.of(sessions), None
    places = fact_places(snapshot)
    speakers = np.array([_stretch_blocks(snapshot.facts.speaker, places, size) for size in OF_SPEAKERS])
    return Levels.of(sessions), Levels.of(speakers[:, told.facts])


def _stretch_blocks(owner: Ints, places: Ints, size: int) -> Ints:
    """Return the number of the stretch of each row: so many rows of one owner in the order of places; all of them with 0."""
    ordered = np.lexsort((places, owner))
    starts = np.flatnonzero(np.diff(owner[ordered], prepend=-2))
    counts = np.diff(starts, append=len(ordered))
    within = np.arange(len(ordered)) - np.repeat(starts, counts)
    begins = within % size == 0 if size else within == 0
    out = np.empty(len(ordered), dtype=np.int64)
    out[ordered] = np.cumsum(begins) - 1
    return out


_BLOCK = 1024
"""Leaves whose sums of vectors are held at once."""


def cosine_relevance(
    found: EmbeddedForest, vector: NDArray[np.float32], turn: Scores, fact: Scores
) -> Scores:
    """Return max(0, cosine) of every node with a question, shape (N,).

    An inner node is compared by the vector of its summary, and has 0 without one, or if that tells of what came after the
    moment that is asked about. A leaf that is a run of turns is compared by the mean of its turns' vectors, which is the sum
    of their cosines over the length of the sum of their vectors; a leaf that is a fact by the fact's.

    Args:
        found: the trees with the vectors of their summaries.
        vector: of the question, of unit length.
        turn: cosine of every turn with it, shape (n,), such as `Base.turn`.
        fact: cosine of every fact, shape (m,).
    """
    forest = found.forest
    rows, turns, starts, _ = _runs(forest)
    out = np.zeros(len(forest))
    if len(found.vectors):
        out[forest.told] = found.vectors.cosines(vector)  # that of a leaf's summary is written over below
    if len(rows):
        length = _lengths(forest)
        total = np.add.reduceat(turn[turns], starts)
        out[rows] = np.divide(total, length, out=np.zeros(len(total)), where=length > 0)
    facts = _fact_leaves(forest)
    out[facts] = fact[forest.item[facts]]
    return np.maximum(out, 0.0)


def fused_relevance(forest: Forest, turn: Scores) -> Scores:
    """Return how relevant every node is by the scores of turns, shape (N,): at least 0, and without a summary being read.

    A leaf that is a run of turns has that of its best turn, a leaf that is a fact that of the best turn that supports it, and an
    inner node the mean of the leaves below it. What is below 0, the average of all turns, counts as 0.

    Args:
        forest: the trees.
        turn: a standardised score of every turn, shape (n,), such as the total of `memforest.search.context_scores.fused`.
    """
    (rows, turns, starts, _), facts = _runs(forest), _fact_leaves(forest)
    out = np.zeros(len(forest))
    if len(rows):
        out[rows] = np.maximum.reduceat(turn[turns], starts)
    if len(facts):
        out[facts] = best_turns(forest, turn)[forest.item[facts]]
    return forest.ascent.means(np.maximum(out, 0.0))


def best_turns(forest: Forest, turn: Scores) -> Scores:
    """Return the best score of the turns that support each fact, shape (m,); -inf for a fact without any."""
    out, groups = np.full(len(forest.facts.ids), -np.inf), _supports(forest)
    out[forest.facts.pairs[groups.first, 0]] = groups.best(turn[forest.facts.pairs[:, 1]])
    return out


@once_per_forest
def _runs(forest: Forest) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the leaves that are runs of turns: their rows, their turns leaf by leaf, and where those begin and how many they are."""
    rows = np.flatnonzero((forest.kind == CHUNK) | (forest.kind == TURNS))
    first, end = forest.item[rows], forest.item_end[rows]
    counts = end - first
    return rows, ranges(first, end), np.cumsum(counts) - counts, counts


@once_per_forest
def _lengths(forest: Forest) -> Scores:
    """Return the length of the sum of the turns' vectors of each run of turns, in the order of `_runs`.

    Turn by turn, block by block of leaves: what is held is the sums of one block, and of its turns those at one place.
    """
    (rows, turns, begins, lengths), vectors = _runs(forest), forest.turns.vectors
    out = np.zeros(len(rows), dtype=np.float32)
    for begin in range(0, len(out), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        starts, counts = begins[part], lengths[part]
        total = vectors[turns[starts]]
        for place in range(1, int(counts.max())):
            longer = np.flatnonzero(counts > place)
            total[longer] += vectors[turns[starts[longer] + place]]
        out[part] = np.sqrt(np.einsum("nd,nd->n", total, total))
    return out.astype(np.float64)


@once_per_forest
def _fact_leaves(forest: Forest) -> Ints:
    return np.flatnonzero(forest.kind == FACT)


@once_per_forest
def _supports(forest: Forest) -> Groups:
    """Return the rows of `Facts.pairs` by fact."""
    return Groups.of(forest.facts.pairs[:, 0])
