"""Values of a search, and what every index needs for one: time filters, the order of what was said, and facts for turns.

`as_of` keeps facts valid at an instant, `during` those that overlap a window. *Valid* time is a fact's stated interval, or
open from when it was first said. A fact that asserts a state holds until another value takes its place (see
`memforest.search.timeline`); an event, once it has happened, stays so. A raw turn counts from when it was said, and falls
out when all that it supports was not so. A turn that says what is hidden passes only with a fact that it supports and that
is shown.

Equal scores are put in the order in which things were said. Row ids tell in which order sessions arrived, which is no
property of what they say: a memory must answer alike whether a turn came with its session or later by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timezone, tzinfo
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.config import Order, Ranking
from memforest.errors import ConfigError
from memforest.reading.states import holds_many
from memforest.reading.timestamps import zone_named
from memforest.reading.tokens import split_sentences
from memforest.records import QuestionPlan, SubQuery
from memforest.search.forest import Forest
from memforest.search.scores import Groups, Scores, standardise
from memforest.search.snapshot import OPEN, Snapshot, joined_entities, members_of, once_per_snapshot
from memforest.search.timeline import Ending, Segment, fact_ends, segments_of, timelines, valid_until
from memforest.store import facts as facts_rows
from memforest.store import meta, reads
from memforest.store.connections import Tx
from memforest.text import fold, words


@once_per_snapshot
def turn_places(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return the place of every turn: by when it was said, then by its session's begin and id, and its position."""
    turns = snapshot.turns
    return _places(np.argsort(turns.said_ms, kind="stable"))  # rows stand by session and position


@once_per_snapshot
def first_turns(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return the row of the turn that said each fact first; every fact has one."""
    pairs = snapshot.facts.pairs
    ordered = pairs[np.lexsort((turn_places(snapshot)[pairs[:, 1]], pairs[:, 0]))]
    first: NDArray[np.int64] = ordered[np.searchsorted(ordered[:, 0], np.arange(len(snapshot.facts.ids))), 1]
    return first


@once_per_snapshot
def fact_places(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return the place of every fact: by when it was first said, then by its first turn, then by what it says."""
    facts = snapshot.facts
    first = np.full(len(facts.ids), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(first, facts.pairs[:, 0], turn_places(snapshot)[facts.pairs[:, 1]])
    ordered = np.lexsort((first, facts.said_ms))
    same = (np.diff(facts.said_ms[ordered]) == 0) & (np.diff(first[ordered]) == 0)
    tied = np.flatnonzero(np.r_[same, False] | np.r_[False, same]) if len(ordered) else ordered
    rows = ordered[tied]  # of one turn: few, and only these are put in order by what they say
    ordered[tied] = rows[np.lexsort((facts.key[rows], first[rows], facts.said_ms[rows]))]
    return _places(ordered)


def _places(ordered: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the place of each row, given the rows in order."""
    places = np.empty(len(ordered), dtype=np.int64)
    places[ordered] = np.arange(len(ordered))
    return places


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
    are the questions that an index has taken it apart into. `leaf_turns` is how many turns a leaf may have where the evidence
    is nodes: `top_k` counts a leaf as one piece, and no turn is left out of an answer because it only asks. Else it is 0.
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
    leaf_turns: int = 0


@dataclass(frozen=True, slots=True)
class TurnHit:
    """One ranked turn with the fact that speaks best for it, as rows of the snapshot and of the index's forest.

    `fact` is -1 when the turn speaks for itself. `scores` are the parts of `score`, already weighted, whose sum
    it is. `why` says why time order puts it in front of all that is only similar, `lead` how far: what has more stands first, whatever the scores are.
    `ordered` is whether that is the order in which values held by turns, or that of the time asked for, so that what was said later is
    counted in; `perhaps` whether it is no more than likely. `leaf` is the forest row of the leaf it was found at, or -1: where browse reached it, if that counts, else
    where it was said. `browsed` is the mean similarity of the path by which browse reached the turn, or the leaf's score
    in `Search.leaves`; None when it did not come there.
    """

    turn: int
    fact: int
    score: float
    scores: dict[str, float] = field(default_factory=dict)
    leaf: int = -1
    why: str = ""
    lead: int = 0
    ordered: bool = False
    perhaps: bool = False
    browsed: float | None = None


@dataclass(frozen=True, slots=True)
class NodeHit:
    """One ranked node, by its row in the index's forest, whose summary is the evidence; `scores` and `why` as in `Hit`.

    A leaf is one only if it has a summary of its own: otherwise an index hands back the turns that it stands for. `window` is the
    calendar key of a node that stands for a day, a week and so on.
    """

    node: int
    score: float
    scores: dict[str, float] = field(default_factory=dict)
    window: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class IndexResult:
    """What an index found: every candidate turn, best first, each made when it is asked for.

    A turn may be there more than once, each time with another fact that speaks for it.

    `nodes` are the nodes it found, best first, on the same scale of scores; evidence is ranked from both. The reader
    applies the time filters to them and reads their summaries (`memforest.trees.index`). `spare` is how many pieces behind
    the first `top_k` `Index.refine` is to see, and `order` how the evidence stands behind all cuts.
    `trees` are the trees that were looked into, as (tree, score), best first. `forest` is what rows of trees, nodes and leaves
    are of. `ended` is how facts (rows) ended, where the question is about values that are known to take each other's place. `notes` say for
    `explain=True` what filters and time order did, as plain values. `warnings` go into the result.
    """

    hits: Iterable[TurnHit]
    trees: tuple[tuple[int, float], ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    nodes: Iterable[NodeHit] = ()
    warnings: tuple[str, ...] = ()
    spare: int = 0
    order: Order = "score"
    forest: Forest | None = None
    ended: Mapping[int, Ending] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question as an index has prepared it for its ranking.

    `trees` are the trees that were looked into, as (title, score); `trace` and `warnings` go into the result.
    """

    request: Search
    trees: tuple[tuple[str, float], ...] = ()
    trace: Mapping[str, Any] = field(default_factory=partial(dict, mode="emb"))
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RefineCandidate:
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
class Refinement:
    """The refinement of a ranking: a request to rank again, or the candidates to keep.

    `again` is a request to rank anew, for a question that has become another one. `kept` are the places of the
    candidates to keep, best first; None keeps all as they are.
    """

    again: Search | None = None
    kept: tuple[int, ...] | None = None
    trace: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which turns and facts pass the filters: boolean arrays of shape (n,) and (m,)."""

    turns: NDArray[np.bool_]
    facts: NDArray[np.bool_]


def allowed(snapshot: Snapshot, request: Search) -> Allowed:
    """Return the turns and facts that pass `as_of_ms` and `during_ms`; all that may be shown when both are None."""
    turns, facts = snapshot.turns, snapshot.facts
    keep = Allowed(np.ones(len(turns.ids), dtype=np.bool_), np.ones(len(facts.ids), dtype=np.bool_))
    if request.as_of_ms is None and request.during_ms is None:
        keep.turns[turns.muted] = False
        keep.turns[facts.pairs[:, 1]] = True
        return keep
    keep.facts[:] = allowed_facts(snapshot, request.as_of_ms, request.during_ms)
    said = np.ones(len(turns.ids), dtype=np.bool_)
    if request.as_of_ms is not None:
        said &= turns.said_ms <= request.as_of_ms
    if request.during_ms is not None:
        start, end = request.during_ms
        said &= (turns.said_ms >= start) & (turns.said_ms < end)
    supports, passes = np.zeros(len(turns.ids), dtype=np.bool_), np.zeros(len(turns.ids), dtype=np.bool_)
    supports[facts.pairs[:, 1]] = True
    passes[facts.pairs[keep.facts[facts.pairs[:, 0]], 1]] = True
    keep.turns[:] = passes | (said & ~supports & ~turns.muted)
    return keep


def allowed_facts(
    snapshot: Snapshot, as_of_ms: int | None, during_ms: tuple[int, int] | None
) -> NDArray[np.bool_]:
    """Return which facts were so at an instant, and overlap a window."""
    facts, until = snapshot.facts, valid_until(snapshot)
    kept = np.ones(len(facts.ids), dtype=np.bool_)
    if as_of_ms is not None:
        kept &= (facts.start_ms <= as_of_ms) & (as_of_ms < until)
    if during_ms is not None:
        start, end = during_ms
        # An event without a stated end happened when it was said; only states go on.
        last = np.where(until == OPEN, np.where(is_state(snapshot), OPEN, facts.start_ms + 1), until)
        last = np.where(facts.stated & ~is_state(snapshot), facts.end_ms, last)
        kept &= (facts.start_ms < end) & (start < last)
    return kept


def filter_notes(keep: Allowed) -> dict[str, int]:
    """Return how many turns and facts there are and how many passed, for `explain=True`."""
    return {
        "turns": len(keep.turns),
        "turns_kept": int(keep.turns.sum()),
        "facts": len(keep.facts),
        "facts_kept": int(keep.facts.sum()),
    }


@once_per_snapshot
def valid_end(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return, per fact, the end of the time it was so, in ms, `OPEN` when there is none.

    A state ends when another value takes its place; an event at its stated end.
    """
    return np.where(is_state(snapshot), valid_until(snapshot), snapshot.facts.end_ms)


@once_per_snapshot
def is_state(snapshot: Snapshot) -> NDArray[np.bool_]:
    """Return, per fact, whether it asserts a state."""
    found = np.zeros(len(snapshot.facts.ids), dtype=np.bool_)
    facts = np.fromiter((seen.fact for seen in snapshot.states), dtype=np.int64, count=len(snapshot.states))
    found[np.searchsorted(snapshot.facts.ids, facts)] = True
    return found


LEXICAL = 0.35
"""What words count beside vectors where facts are compared with a question."""


def best_facts(snapshot: Snapshot, keep: Allowed, dense: Scores, lexical: Scores) -> NDArray[np.int64]:
    """Return, per turn, the row of the allowed fact that is nearest the question, or -1; shape (n,).

    Args:
        snapshot: of the memory.
        keep: what passes the time filters.
        dense: cosine of every fact, shape (m,).
        lexical: BM25 of every fact, shape (m,).
    """
    best = np.full(len(snapshot.turns.ids), -1, dtype=np.int64)
    told = told_by(snapshot)
    if not len(told.turns):
        return best
    scores = LEXICAL * standardise(lexical) + (1 - LEXICAL) * standardise(dense)
    scores[~keep.facts] = -np.inf
    own = scores[told.facts]
    highest = np.repeat(told.groups.best(own), told.groups.sizes)
    chosen = np.flatnonzero((own == highest) & (own > -np.inf))[::-1]
    best[told.turn_of[chosen]] = told.facts[chosen]  # the first one is written last
    return best


def known_words(snapshot: Snapshot, request: Search) -> Scores:
    """Return, per turn, how far vectors can tell how near it is to a question: the known shares of both, multiplied.

    Without vectors it is 1: there is nothing to take their place.
    """
    if request.vector is None:
        return np.ones(len(snapshot.turns.ids))
    return request.known * snapshot.turns.known.astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class TurnSupports:
    """The supports of a snapshot, turn by turn: which facts each turn supports."""

    turns: NDArray[np.int64]
    """Turns that support a fact; one per group."""
    turn_of: NDArray[np.int64]
    facts: NDArray[np.int64]
    groups: Groups
    """Positions in `facts` by turn."""

    def best(self, scores: Scores, otherwise: Scores) -> Scores:
        """Return, per turn, the best score of its facts (shape (m,)), and `otherwise` where it has none."""
        out = otherwise.copy()
        out[self.turns] = self.groups.best(scores[self.facts])
        return out


@once_per_snapshot
def told_by(snapshot: Snapshot) -> TurnSupports:
    """Return the supports of a snapshot by turn, then by the place of the fact."""
    pairs = snapshot.facts.pairs
    pairs = pairs[np.lexsort((fact_places(snapshot)[pairs[:, 0]], pairs[:, 1]))]
    groups = Groups.of(pairs[:, 1])
    return TurnSupports(pairs[groups.starts, 1], pairs[:, 1].copy(), pairs[:, 0].copy(), groups)


def unsaid(found: Sequence[RefineCandidate]) -> tuple[int, ...]:
    """Return the places of the candidates, without summaries whose every sentence stands in another kept candidate."""
    folded = [
        f" {' '.join(words(fold(one.text)))} " for one in found
    ]  # without case, a blank around each word
    dropped: set[int] = set()
    for place in range(len(found) - 1, -1, -1):
        if found[place].level is None:
            continue
        others = [text for at, text in enumerate(folded) if at != place and at not in dropped]
        sentences = [f" {' '.join(words(fold(one.text)))} " for one in split_sentences(found[place].text)]
        if all(any(one in text for text in others) for one in sentences):
            dropped.add(place)
    return tuple(place for place in range(len(found)) if place not in dropped)


def memory_zone(tx: Tx) -> tzinfo:
    """Return the zone of a memory's days; UTC before the first write, and where this machine does not know it (`zone_note`)."""
    name = meta.get(tx, "timezone")
    try:
        return timezone.utc if name is None else zone_named(name)
    except ConfigError:
        return timezone.utc


Ended = tuple[int, str, str, str]
"""When a value ended, of which entity (its key) and attribute, and the value that took its place."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How some facts stand; of those that are hidden only whom they name."""

    ends: Mapping[int, int | None]
    """When a fact that asserts a state ended, ms, None for not; others are not in it where they were read by themselves."""
    after: Mapping[int, str]
    """The value that took the place of a fact's; of several, where it held longest."""
    named: Mapping[int, Collection[int]]
    """The entities that a fact names."""

    @classmethod
    def read(cls, tx: Tx, facts: Collection[int]) -> Standing:
        """Read how facts stand now, at the cost of the attributes that they speak of."""
        ends: dict[int, int] = {}
        after: dict[int, Ended] = {}
        joined = joined_entities(tx)
        states = [
            one._replace(entity=joined.get(one.entity, one.entity)) for one in reads.states_seen(tx, facts)
        ]
        keys = facts_rows.entities(tx, {state.entity for state in states})
        for entity, attribute in sorted({(state.entity, state.attribute) for state in states}):
            told = reads.states_of_attribute(tx, members_of(joined, entity), attribute)
            for segments in segments_of(attribute, told):
                _note_successors(after, keys[entity].key, attribute, segments)
                for fact, end, _ in [] if holds_many(attribute) else fact_ends(segments):
                    ends[fact] = max(ends.get(fact, end), end)
        named: dict[int, list[int]] = {fact: [] for fact in facts}
        for fact, other in reads.mentions(tx, facts, hidden=True):
            named[fact].append(other)
        return cls(
            {state.fact: None if (end := ends.get(state.fact, OPEN)) == OPEN else end for state in states},
            {fact: ended[-1] for fact, ended in after.items()},
            named,
        )

    @classmethod
    def at_moment(cls, tx: Tx, snapshot: Snapshot, facts: Collection[int]) -> Standing:
        """Return how facts stand in a snapshot."""
        until, places = valid_end(snapshot), snapshot.fact_row
        ends = {fact: int(until[places[fact]]) for fact in facts if fact in places}
        return cls(
            {fact: None if end == OPEN else end for fact, end in ends.items()},
            _successors(snapshot),
            _named(tx, snapshot, facts),
        )


def _note_successors(found: dict[int, Ended], key: str, attribute: str, segments: Iterable[Segment]) -> None:
    for segment, following in pairwise(segments):
        ended = (segment.end_ms or 0, key, attribute, following.value)
        found.update((fact, max(found.get(fact, ended), ended)) for fact in segment.facts)


@once_per_snapshot
def _successors(snapshot: Snapshot) -> dict[int, str]:
    found: dict[int, Ended] = {}
    for (entity, attribute, _), segments in timelines(snapshot).items():
        _note_successors(found, snapshot.entities[entity].key, attribute, segments)
    return {fact: ended[-1] for fact, ended in found.items()}


def _named(tx: Tx, snapshot: Snapshot, facts: Collection[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {fact: [] for fact in facts}
    hidden = [fact for fact in facts if fact not in snapshot.fact_row]
    for fact, entity in reads.mentions(tx, hidden, hidden=True):
        found[fact].append(entity)
    for fact in found.keys() - set(hidden):
        row = snapshot.fact_row[fact]
        first, end = np.searchsorted(snapshot.mentions[:, 0], (row, row + 1))
        found[fact] = snapshot.mentions[first:end, 1].tolist()
    return found
