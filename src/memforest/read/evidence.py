"""Making evidence of ranked hits: texts, quotes, sources and tree paths, without damaged rows.

Evidence that is a node of a tree: a summary, with the turns beneath it as its sources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.read.quoting import Quotes, joined
from memforest.read.results import WHOLE_CHARS, Evidence
from memforest.read.stored import turn_sources
from memforest.reading.canonical import fact_identity
from memforest.reading.clauses import PASSAGE_CHARS, asked_in, passage
from memforest.records import SpokenText
from memforest.search.cache import forest_of
from memforest.search.filters import NodeHit, Search, TurnHit, allowed, fact_places, first_turns, valid_end
from memforest.search.forest import Forest
from memforest.search.snapshot import OPEN, Snapshot
from memforest.store import derived, evidence
from memforest.store import trees as trees_rows
from memforest.store.connections import Tx
from memforest.store.sessions import damaged_turns
from memforest.text import lexical_tokens
from memforest.times import Interval, from_ms
from memforest.trees.index import Index, allowed_nodes, turns_beneath

AnyHit = TypeVar("AnyHit", bound=TurnHit | NodeHit)
_BLOCK = 32
"""Hits checked at a time: about as many as a query shows."""


def once_per_fact(hits: Iterable[TurnHit]) -> Iterator[TurnHit]:
    """Yield the hits with each fact at its best turn only; its other turns are among its sources."""
    seen: set[int] = set()
    for hit in hits:
        if hit.fact < 0 or hit.fact not in seen:
            seen.add(hit.fact)
            yield hit


def speaking_hits(snapshot: Snapshot, hits: Iterable[TurnHit]) -> Iterator[TurnHit]:
    """Yield the hits, with the facts that it supports in the place of a turn that says what is hidden and was to speak for itself.

    An index need not know of that.
    """
    for hit in hits:
        if hit.fact >= 0 or not snapshot.turns.muted[hit.turn]:
            yield hit
            continue
        pairs = snapshot.facts.pairs
        for fact in pairs[pairs[:, 1] == hit.turn, 0].tolist():
            yield replace(hit, fact=fact)


def pinned_hits(snapshot: Snapshot, request: Search) -> list[TurnHit]:
    """Return the pinned facts that pass the time filters, those said last first."""
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


def left_out(pinned: Sequence[Evidence], shown: Sequence[Evidence]) -> list[str]:
    """Return a warning about pinned facts for which there was no room."""
    left = len({one.fact_id for one in pinned} - {one.fact_id for one in shown})
    return [f"{left} pinned statement(s) are left out; raise top_k or max_tokens"] if left else []


def undamaged_hits(
    tx: Tx, snapshot: Snapshot, hits: Iterable[TurnHit], damage: dict[str, None]
) -> Iterator[TurnHit]:
    """Yield the hits whose turn and fact match their digests, and add the names of damaged ones to `damage`.

    Nothing that was not said may be shown as evidence. Only what is looked at is checked, a few hits at a time.
    """
    source = iter(hits)
    while block := list(islice(source, _BLOCK)):
        turns = damaged_turns(tx, {int(snapshot.turns.ids[hit.turn]) for hit in block})
        facts = evidence.fact_texts(tx, {int(snapshot.facts.ids[hit.fact]) for hit in block if hit.fact >= 0})
        for hit in block:
            turn = turns.get(int(snapshot.turns.ids[hit.turn]))
            fact = facts[int(snapshot.facts.ids[hit.fact])] if hit.fact >= 0 else None
            if turn is not None:
                damage[turn.name] = None
            elif fact is not None and not _matches_identity(fact):
                damage[f"fact {fact.fact_id}"] = None
            else:
                yield hit


def _fact_texts(tx: Tx, snapshot: Snapshot, facts: Collection[int]) -> dict[int, evidence.FactText]:
    """Return facts by row id, as they are told in a snapshot."""
    found = evidence.fact_texts(tx, facts)
    for row in found.keys() & snapshot.restated.keys():
        told = snapshot.restated[row]
        found[row] = found[row]._replace(text=told.text, said_ms=told.said_ms, dates=told.dates)
    return found


def _matches_identity(fact: evidence.FactText) -> bool:
    """Return whether a fact's text and time match its identity."""
    times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
    return fact.fact_id == fact_identity(fact.text, times[0], times[1], fact.dates)


@dataclass(frozen=True, slots=True)
class _EvidenceRows:
    """Rows read for a set of hits."""

    turns: Mapping[int, evidence.TurnText]
    facts: Mapping[int, evidence.FactText]
    supports: Mapping[int, Sequence[tuple[str, str]]]
    quotes: Quotes
    paths: Mapping[int, tuple[str, ...]]
    """(Index, its forest's row of a leaf) -> the names on the way down to it."""

    def quote(self, fact: int, turn: int, *, muted: bool) -> str:
        """Return the turn of a fact, or of one that says what is hidden too what the fact was made from."""
        return self.quotes.alone(fact, turn) if muted else self.turns[turn].text


def make_evidence(
    tx: Tx, snapshot: Snapshot, index: Index, hits: Sequence[TurnHit], question: str = ""
) -> list[Evidence]:
    """Return the evidence of hits that an index ranked; of long turns what says the words of the question is quoted too."""
    wanted = frozenset(lexical_tokens(asked_in(question)))
    turn_ids = [int(snapshot.turns.ids[hit.turn]) for hit in hits]
    fact_ids = [int(snapshot.facts.ids[hit.fact]) for hit in hits if hit.fact >= 0]
    found = _EvidenceRows(
        turns=evidence.turn_texts(tx, turn_ids),
        facts=_fact_texts(tx, snapshot, fact_ids),
        supports=evidence.fact_sources(tx, fact_ids, snapshot.without),
        quotes=Quotes.read(tx, fact_ids, snapshot),
        paths=_leaf_paths(tx, snapshot, index, hits),
    )
    until = valid_end(snapshot)
    ends = (int(until[hit.fact]) if hit.fact >= 0 else OPEN for hit in hits)
    return [_evidence(snapshot, hit, found, end, wanted) for hit, end in zip(hits, ends, strict=True)]


def _passage(
    turn: evidence.TurnText, spoken: tuple[SpokenText, ...], wanted: Collection[str]
) -> tuple[SpokenText, ...]:
    """Return what was said with the sentences of a long turn that say more of the question's words."""
    if not spoken or spoken[-1].speaker != turn.speaker:
        return spoken
    shown = None if spoken[-1].text == turn.text else spoken[-1].text
    if len(turn.text) <= (WHOLE_CHARS if shown is None else PASSAGE_CHARS):
        return spoken
    return (*spoken[:-1], SpokenText(turn.speaker, passage(turn.text, wanted, shown)))


def tree_titles(tx: Tx, index: Index, trees: Iterable[int]) -> list[str]:
    """Return kind and scope ("entity Ana") of trees by id, in order."""
    wanted = list(trees)
    labels, scopes = index.labels(tx, wanted), trees_rows.scopes(tx, wanted)
    return [f"{scopes[tree][0]} {labels[tree]}" for tree in wanted]


def _evidence(
    snapshot: Snapshot, hit: TurnHit, found: _EvidenceRows, until: int, wanted: Collection[str]
) -> Evidence:
    turn = found.turns[int(snapshot.turns.ids[hit.turn])]
    own = (turn.session_id, turn.turn_id)
    whole = _passage(turn, (SpokenText(turn.speaker, turn.text),), wanted)
    path = found.paths.get(hit.leaf, ())
    if hit.fact < 0:
        return Evidence(
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
            path=path,
            why=hit.why,
            metadata=turn.metadata,
            spoken=whole,
        )
    fact_id, turn_id = int(snapshot.facts.ids[hit.fact]), int(snapshot.turns.ids[hit.turn])
    fact = found.facts[fact_id]
    spoken = found.quotes.of(fact_id, turn_id)
    corrected_ms = found.quotes.corrected_ms(fact_id, turn_id)
    muted = bool(snapshot.turns.muted[hit.turn])
    if spoken == ():  # the answer is damaged, and this turn is the question
        spoken = whole
    elif spoken and not muted and corrected_ms is None:
        spoken = _passage(turn, spoken, wanted)
    return Evidence(
        text=fact.text if spoken is None else joined(spoken),
        quote=found.quote(fact_id, turn_id, muted=muted),
        speaker=turn.speaker,
        kind="fact",
        score=hit.score,
        scores=hit.scores,
        said=from_ms(turn.said_ms),
        start=from_ms(fact.said_ms if fact.start_ms is None else fact.start_ms),
        end=None if until == OPEN else from_ms(until),
        sources=turn_sources([own, *found.supports[fact_id]]),
        path=path,
        fact_id=fact.fact_id,
        dates=fact.dates,
        why=hit.why,
        metadata=turn.metadata,
        statement=fact.text,
        spoken=spoken or (),
        precision=fact.precision,
        stated=_stated(fact),
        corrected=None if corrected_ms is None else from_ms(corrected_ms),
    )


def _stated(fact: evidence.FactText) -> Interval | None:
    """Return the time that a fact states."""
    if fact.start_ms is None:
        return None
    end_ms = None if fact.end_ms is None else max(fact.end_ms, fact.start_ms + 1)
    return Interval(from_ms(fact.start_ms), None if end_ms is None else from_ms(end_ms))


def _leaf_paths(
    tx: Tx, snapshot: Snapshot, index: Index, hits: Sequence[TurnHit]
) -> dict[int, tuple[str, ...]]:
    """Return how the leaves of hits are reached, by the row of the leaf in the index's forest."""
    leaves = {hit.leaf for hit in hits if hit.leaf >= 0}
    return path_names(tx, index, forest_of(tx, snapshot, index.name), leaves) if leaves else {}


def path_names(tx: Tx, index: Index, forest: Forest, nodes: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return, by forest row, the path from the root down to a node: the tree's title, then each node's days."""
    paths = {node: forest.path(node) for node in nodes}
    spans = evidence.node_spans(tx, {int(forest.ids[row]) for path in paths.values() for row in path})
    days = {node: f"{_day(start)}..{_day(end)}" for node, (start, end) in spans.items()}
    trees = sorted({int(forest.tree_ids[forest.tree[node]]) for node in paths})
    titles = dict(zip(trees, tree_titles(tx, index, trees), strict=True))
    return {
        node: (titles[int(forest.tree_ids[forest.tree[node]])], *(days[int(forest.ids[row])] for row in path))
        for node, path in paths.items()
    }


def _day(ms: int) -> str:
    return from_ms(ms).date().isoformat()


SOURCE_TURNS = 50
"""Most turns among the sources of a summary, the first ones; `Evidence.turns` counts them all."""


def by_score(hits: Iterable[TurnHit], nodes: Iterable[NodeHit]) -> Iterator[TurnHit | NodeHit]:
    """Yield two rankings as one, best first; a turn before a node of the same score."""
    return merge(hits, nodes, key=lambda hit: -round(hit.score, 9))


class _Beneath(NamedTuple):
    """The turns beneath a node: how many, when the last was said (ms), and (session id, turn id) of the first ones."""

    turns: int
    last_ms: int
    pairs: Sequence[tuple[str, str]]


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
    _places: dict[int, tuple[Forest, int]] = field(default_factory=dict)
    _passing: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    _texts: dict[int, str] = field(default_factory=dict)
    _beneath: dict[int, _Beneath] = field(default_factory=dict)
    _names: dict[int, tuple[str, str] | None] = field(default_factory=dict)
    """(Session id, turn id) by row of a turn; None of one that cannot be shown."""

    def shows(self, hit: NodeHit) -> bool:
        """Return whether a node passes the time filters, has a current summary, and has a source that is not damaged.

        Of the turns beneath it, those that are listed are checked for damage. A node is shown once.

        Raises:
            ValueError: if it is no node of the memory, or a leaf without a summary of its own.
        """
        forest, row = self._place(hit)
        if forest.owner not in self._passing:
            self._passing[forest.owner] = allowed_nodes(self.snapshot, forest, self.request)
        if not self._passing[forest.owner][row] or hit.node in self._beneath:
            return False
        node = trees_rows.nodes_with_ids(self.tx, [hit.node])[hit.node]
        text = derived.summaries(self.tx, [hit.node]).get(hit.node)
        if node.dirty or not text:
            self.unmade.add(hit.node)
            return False
        self._texts[hit.node] = text
        return self._has_source(hit)

    def _place(self, hit: NodeHit) -> tuple[Forest, int]:
        """Return the forest that a node is of, and its row there."""
        if hit.node not in self._places:
            owner = trees_rows.owner_of_node(self.tx, hit.node)
            if owner is None:
                raise ValueError(
                    f"an index found node {hit.node}, which has no summary of its own in the memory"
                )
            forest = forest_of(self.tx, self.snapshot, owner)
            self._places[hit.node] = forest, int(np.searchsorted(forest.ids, hit.node))
        return self._places[hit.node]

    def _has_source(self, hit: NodeHit) -> bool:
        """Return whether a turn beneath a node can be shown as its source; note the damaged ones."""
        turns = self.snapshot.turns
        beneath = turns_beneath(self.snapshot, *self._place(hit))
        pairs = self._shown(turns.ids[beneath[:SOURCE_TURNS]].tolist())
        if pairs:
            self._beneath[hit.node] = _Beneath(len(beneath), int(turns.said_ms[beneath].max()), pairs)
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
        nodes = trees_rows.nodes_with_ids(self.tx, [hit.node for hit in hits])
        paths = {hit.node: self._path(hit) for hit in hits}
        return [
            Evidence(
                text=self._texts[hit.node],
                quote="",
                speaker="",
                kind="memory",
                score=hit.score,
                scores=hit.scores,
                said=from_ms(beneath.last_ms),
                start=from_ms(nodes[hit.node].start_ms),
                end=from_ms(nodes[hit.node].end_ms),
                sources=turn_sources(beneath.pairs),
                path=paths[hit.node],
                why=hit.why,
                level=nodes[hit.node].level,
                window=hit.window,
                turns=beneath.turns,
                node_id=hit.node,
                span=nodes[hit.node].span,
            )
            for hit in hits
            for beneath in [self._beneath[hit.node]]
        ]

    def _path(self, hit: NodeHit) -> tuple[str, ...]:
        forest, row = self._place(hit)
        return path_names(self.tx, self.index, forest, [row])[row]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the nodes that were left out."""
        if not self.unmade:
            return ()
        which = "1 summary is" if len(self.unmade) == 1 else f"{len(self.unmade)} summaries are"
        return (f"{which} not made yet or out of date, and left out of the evidence; resume() makes them",)
