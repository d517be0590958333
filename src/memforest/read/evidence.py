"""Making evidence of ranked hits: texts, quotes, sources and tree paths, without damaged rows.

A hit is a turn or a fact (`make_evidence`), or a node of a tree (`Memories`): a summary, with the turns beneath it as its
sources.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from memforest.read.quoting import Quotes, joined
from memforest.read.results import WHOLE_CHARS, Evidence
from memforest.read.stored import turn_sources
from memforest.reading.canonical import fact_identity
from memforest.reading.clauses import PASSAGE_CHARS, asked_in, passage
from memforest.records import SpokenText
from memforest.search.filters import NodeHit, Search, TurnHit, allowed, fact_places, first_turns, valid_end
from memforest.search.forest import Forest
from memforest.search.snapshot import OPEN, Snapshot
from memforest.store import evidence
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.sessions import StoredTurn, damaged_turns, turns_with_ids
from memforest.text import lexical_tokens
from memforest.times import Interval, from_ms
from memforest.trees.index import Index, allowed_nodes, ready_rows, turns_beneath

_BLOCK = 32
"""Hits checked at a time: about as many as a query shows."""


def pinned_hits(snapshot: Snapshot, request: Search) -> list[TurnHit]:
    """Return hits for the pinned facts that pass the time filters, the latest said first."""
    keep, facts = allowed(snapshot, request), snapshot.facts
    rows = np.flatnonzero(facts.pinned & keep.facts)
    first, places = first_turns(snapshot), fact_places(snapshot)
    return [TurnHit(int(first[row]), int(row), 0.0) for row in rows[np.argsort(-places[rows], kind="stable")]]


def with_pinned(found: Sequence[Evidence], pinned: Sequence[Evidence], top_k: int) -> list[Evidence]:
    """Return the first `top_k` pieces of evidence, pinned facts that are not among them in the place of the last ones.

    The first place is that of what was found, if there is anything.
    """
    ids = {one.fact_id for one in pinned}
    best = [replace(one, pinned=one.fact_id in ids) if one.fact_id else one for one in found[:top_k]]
    while True:
        room = top_k - len(best)
        missing = [one for one in pinned if one.fact_id not in {other.fact_id for other in best}]
        last = next((at for at in range(len(best) - 1, 0, -1) if not best[at].pinned), None)
        if len(missing) <= room or last is None:
            least = min((one.score for one in best), default=0.0)
            return [*best, *(replace(one, pinned=True, score=least) for one in missing[:room])]
        del best[last]


def shown_hits(
    tx: Tx, snapshot: Snapshot, hits: Iterable[TurnHit], damage: dict[str, None]
) -> Iterator[TurnHit]:
    """Yield the hits that may be shown, each fact at its best turn only; its other turns are among its sources.

    A turn that says what is hidden does not speak for itself: the facts that it supports stand in its place, as an index
    need not know of that. The names of damaged turns and facts, whose digests do not match, are added to `damage`. Only
    what is looked at is checked, a few hits at a time.
    """
    pairs, muted = snapshot.facts.pairs, snapshot.turns.muted
    speaking = (
        one
        for hit in hits
        for one in (
            [hit]
            if hit.fact >= 0 or not muted[hit.turn]
            else [replace(hit, fact=fact) for fact in pairs[pairs[:, 1] == hit.turn, 0].tolist()]
        )
    )
    seen: set[int] = set()
    while block := list(islice(speaking, _BLOCK)):
        turns = damaged_turns(tx, {int(snapshot.turns.ids[hit.turn]) for hit in block})
        facts = facts_rows.facts_with_ids(
            tx, {int(snapshot.facts.ids[hit.fact]) for hit in block if hit.fact >= 0}
        )
        for hit in block:
            turn = turns.get(int(snapshot.turns.ids[hit.turn]))
            if turn is not None:
                damage[turn.name] = None
                continue
            if hit.fact >= 0:
                fact = facts[int(snapshot.facts.ids[hit.fact])]
                start, end = (None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms))
                if fact.fact_id != fact_identity(fact.text, start, end, fact.dates):
                    damage[f"fact {fact.fact_id}"] = None
                    continue
                if hit.fact in seen:
                    continue
                seen.add(hit.fact)
            yield hit


def make_evidence(
    tx: Tx,
    snapshot: Snapshot,
    index: Index,
    hits: Sequence[TurnHit],
    question: str = "",
    forest: Forest | None = None,
) -> list[Evidence]:
    """Return the evidence of hits that an index ranked in a forest; of long turns the sentences with the question's words are quoted too."""
    wanted = frozenset(lexical_tokens(asked_in(question)))
    turn_ids = [int(snapshot.turns.ids[hit.turn]) for hit in hits]
    fact_ids = [int(snapshot.facts.ids[hit.fact]) for hit in hits if hit.fact >= 0]
    turns, facts = turns_with_ids(tx, turn_ids), facts_rows.facts_with_ids(tx, fact_ids)
    facts |= {row: now for row, now in snapshot.restated.items() if row in facts}
    supports = evidence.fact_sources(tx, fact_ids, snapshot.without)
    quotes = Quotes.read(tx, fact_ids, snapshot)
    leaves = {hit.leaf for hit in hits if hit.leaf >= 0}
    paths = {} if forest is None else path_names(snapshot, index, forest, leaves)
    until = valid_end(snapshot)
    made = []
    for hit, turn_id in zip(hits, turn_ids, strict=True):
        turn = turns[turn_id]
        own = (turn.session_id, turn.turn_id)
        whole = _passage(turn, (SpokenText(turn.speaker, turn.text),), wanted)
        one = Evidence(
            text=whole[0].text,
            quote=turn.text,
            speaker=turn.speaker,
            kind="turn",
            score=hit.score,
            scores=hit.scores,
            said=from_ms(turn.said_ms),
            start=from_ms(turn.said_ms),
            end=None,
            sources=turn_sources([own]),
            path=paths.get(hit.leaf, ()),
            why=hit.why,
            metadata=json.loads(turn.metadata),
            spoken=whole,
        )
        if hit.fact < 0:
            made.append(one)
            continue
        fact_id, muted, end = (
            int(snapshot.facts.ids[hit.fact]),
            snapshot.turns.muted[hit.turn],
            until[hit.fact],
        )
        fact, spoken = facts[fact_id], quotes.of(fact_id, turn_id)
        corrected_ms = quotes.corrected_ms(fact_id, turn_id)
        if spoken == ():  # the answer is damaged, and this turn is the question
            spoken = whole
        elif spoken and not muted and corrected_ms is None:
            spoken = _passage(turn, spoken, wanted)
        stated = None
        if fact.start_ms is not None:
            last = None if fact.end_ms is None else from_ms(max(fact.end_ms, fact.start_ms + 1))
            stated = Interval(from_ms(fact.start_ms), last)
        one = replace(
            one,
            text=fact.text if spoken is None else joined(spoken),
            quote=quotes.alone(fact_id, turn_id) if muted else turn.text,
            kind="fact",
            start=from_ms(fact.said_ms if fact.start_ms is None else fact.start_ms),
            end=None if end == OPEN else from_ms(int(end)),
            sources=turn_sources([own, *supports[fact_id]]),
            fact_id=fact.fact_id,
            dates=fact.dates,
            statement=fact.text,
            spoken=spoken or (),
            precision=fact.precision,
            stated=stated,
            corrected=None if corrected_ms is None else from_ms(corrected_ms),
        )
        made.append(one)
    return made


def _passage(
    turn: StoredTurn, spoken: tuple[SpokenText, ...], wanted: Collection[str]
) -> tuple[SpokenText, ...]:
    """Return the spoken texts with the sentences of a long turn that hold more of the question's words."""
    if not spoken or spoken[-1].speaker != turn.speaker:
        return spoken
    shown = None if spoken[-1].text == turn.text else spoken[-1].text
    if len(turn.text) <= (WHOLE_CHARS if shown is None else PASSAGE_CHARS):
        return spoken
    return (*spoken[:-1], SpokenText(turn.speaker, passage(turn.text, wanted, shown)))


def path_names(
    snapshot: Snapshot, index: Index, forest: Forest, nodes: Collection[int]
) -> dict[int, tuple[str, ...]]:
    """Return, by forest row, the path from the root down to a node: the tree's kind and name, then each node's days."""
    if not nodes:
        return {}
    names = index.names(snapshot, forest)

    def days(row: int) -> str:
        span = (from_ms(int(ms[row])).date().isoformat() for ms in (forest.start_ms, forest.end_ms))
        return "..".join(span)

    return {
        node: (
            f"{forest.tree_kind[forest.tree[node]]} {names[forest.tree[node]]}",
            *(days(row) for row in forest.path(node)),
        )
        for node in nodes
    }


SOURCE_TURNS = 50
"""Most turns among the sources of a summary, the first ones; `Evidence.turns` counts them all."""


def falling_score(hit: TurnHit | NodeHit) -> float:
    """Return the key that puts the best hit first. Of equal keys `heapq.merge` takes the first ranking's first."""
    return -round(hit.score, 9)


@dataclass(slots=True)
class Memories:
    """Reads the ranked nodes of one query, and notes those that cannot be shown.

    `damage` has the names of damaged turns, in order. `unmade` has the nodes whose summary is missing or out of date:
    an old one may tell what has been deleted since.
    """

    tx: Tx
    snapshot: Snapshot
    index: Index
    request: Search
    damage: dict[str, None]
    unmade: set[int] = field(default_factory=set)
    forest: Forest | None = None
    """What the nodes are rows of."""
    _passing: NDArray[np.bool_] | None = None
    _told: dict[int, tuple[str, int, int, Sequence[tuple[str, str]]]] = field(default_factory=dict)
    """By node: its text, how many turns are beneath it, when the last was said (ms), and (session id, turn id) of the first ones."""
    _names: dict[int, tuple[str, str] | None] = field(default_factory=dict)
    """(Session id, turn id) by row of a turn; None of one that cannot be shown."""

    def shows(self, hit: NodeHit) -> bool:
        """Return whether a node passes the time filters, has a current summary, and has a source that is not damaged.

        Of the turns beneath it, those that are listed are checked for damage. A node is shown once.

        Raises:
            ValueError: if it is no node of the memory, or a leaf without a summary of its own.
        """
        forest, row = self.forest, hit.node
        if forest is None:
            raise ValueError(f"the index {self.index.name!r} found node {row} of no forest")
        at = int(np.searchsorted(forest.told, row))
        if at == len(forest.told) or forest.told[at] != row:
            raise ValueError(
                f"the index {self.index.name!r} found node {row}, which has no summary of its own"
            )
        if self._passing is None:
            self._passing = allowed_nodes(self.snapshot, forest, self.request)
        if not self._passing[row] or row in self._told:
            return False
        text = ready_rows(self.tx, self.snapshot, self.index, [row]).get(row)
        if not text:
            self.unmade.add(row)
            return False
        turns = self.snapshot.turns
        beneath = turns_beneath(self.snapshot, forest, row)
        pairs = self._shown(turns.ids[beneath[:SOURCE_TURNS]].tolist())
        if pairs:
            self._told[row] = text, len(beneath), int(turns.said_ms[beneath].max()), pairs
        return bool(pairs)

    def _shown(self, listed: Sequence[int]) -> list[tuple[str, str]]:
        """Return (session id, turn id) of the turns that can be shown; each is read once, though it is beneath several nodes."""
        new = [turn for turn in listed if turn not in self._names]
        if new:
            damaged = damaged_turns(self.tx, new)
            self.damage.update(dict.fromkeys(one.name for one in damaged.values()))
            names = evidence.turn_names(self.tx, [turn for turn in new if turn not in damaged])
            self._names |= {turn: names.get(turn) for turn in new}
        return [name for turn in listed if (name := self._names[turn]) is not None]

    def evidence(self, hits: Sequence[NodeHit]) -> list[Evidence]:
        """Return the evidence of hits that `shows` let pass."""
        made, forest = [], self.forest
        for hit in hits:
            assert forest is not None, "`shows` lets nothing pass without one"
            row = hit.node
            text, count, last_ms, pairs = self._told[row]
            one = Evidence(
                text=text,
                quote="",
                speaker="",
                kind="memory",
                score=hit.score,
                scores=hit.scores,
                said=from_ms(last_ms),
                start=from_ms(int(forest.start_ms[row])),
                end=from_ms(int(forest.end_ms[row])),
                sources=turn_sources(pairs),
                path=path_names(self.snapshot, self.index, forest, [row])[row],
                why=hit.why,
                level=int(forest.level[row]),
                window=hit.window,
                turns=count,
                node_id=int(forest.ids[row]),
                span=forest.span(row) if "conversation" in forest.tree_kind else None,
            )
            made.append(one)
        return made

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the nodes that were left out."""
        if not self.unmade:
            return ()
        which = "1 summary is" if len(self.unmade) == 1 else f"{len(self.unmade)} summaries are"
        return (f"{which} not made yet or out of date, and left out of the evidence; resume() makes them",)
