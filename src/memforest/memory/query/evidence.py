"""Making evidence of ranked hits: texts, quotes, sources and tree paths, without damaged rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

import numpy as np

from memforest.facts.canonical import fact_identity
from memforest.interval import Interval, from_ms
from memforest.language.quoting import PASSAGE_CHARS, passage
from memforest.language.requests import asked_in
from memforest.memory.inspect.stored import turn_sources
from memforest.memory.quoting import Quotes, joined
from memforest.memory.results import WHOLE_CHARS, Evidence
from memforest.search.forest import Forest
from memforest.search.forests import forest_of
from memforest.search.snapshot import OPEN, Snapshot
from memforest.store import evidence as rows
from memforest.store import trees as tree_rows
from memforest.store.digests import damaged_turns
from memforest.store.tx import Tx
from memforest.systems.base import Hit, Index, NodeHit, Search
from memforest.systems.filters import allowed, valid_end
from memforest.systems.places import fact_places, first_turns
from memforest.text import lexical_tokens
from memforest.types import Spoken

AnyHit = TypeVar("AnyHit", bound=Hit | NodeHit)
_BLOCK = 32
"""Hits checked at a time: about as many as a query shows."""


def once_per_fact(hits: Iterable[Hit]) -> Iterator[Hit]:
    """Yield the hits with each fact at its best turn only; its other turns are among its sources."""
    seen: set[int] = set()
    for hit in hits:
        if hit.fact < 0 or hit.fact not in seen:
            seen.add(hit.fact)
            yield hit


def speaking_hits(snapshot: Snapshot, hits: Iterable[Hit]) -> Iterator[Hit]:
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


def pinned_hits(snapshot: Snapshot, request: Search) -> list[Hit]:
    """Return the pinned facts that pass the time filters, those said last first."""
    keep, facts = allowed(snapshot, request), snapshot.facts
    rows = np.flatnonzero(facts.pinned & keep.facts)
    first, places = first_turns(snapshot), fact_places(snapshot)
    return [Hit(int(first[row]), int(row), 0.0) for row in rows[np.argsort(-places[rows], kind="stable")]]


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


def undamaged_hits(tx: Tx, snapshot: Snapshot, hits: Iterable[Hit], damage: dict[str, None]) -> Iterator[Hit]:
    """Yield the hits whose turn and fact match their digests, and add the names of damaged ones to `damage`.

    Nothing that was not said may be shown as evidence. Only what is looked at is checked, a few hits at a time.
    """
    source = iter(hits)
    while block := list(islice(source, _BLOCK)):
        turns = damaged_turns(tx, {int(snapshot.turns.ids[hit.turn]) for hit in block})
        facts = rows.fact_texts(tx, {int(snapshot.facts.ids[hit.fact]) for hit in block if hit.fact >= 0})
        for hit in block:
            turn = turns.get(int(snapshot.turns.ids[hit.turn]))
            fact = facts[int(snapshot.facts.ids[hit.fact])] if hit.fact >= 0 else None
            if turn is not None:
                damage[turn.name] = None
            elif fact is not None and not _matches_identity(fact):
                damage[f"fact {fact.fact_id}"] = None
            else:
                yield hit


def _fact_texts(tx: Tx, snapshot: Snapshot, facts: Collection[int]) -> dict[int, rows.FactText]:
    """Return facts by row id, as they are told in a snapshot."""
    found = rows.fact_texts(tx, facts)
    for row in found.keys() & snapshot.restated.keys():
        told = snapshot.restated[row]
        found[row] = found[row]._replace(text=told.text, said_ms=told.said_ms, dates=told.dates)
    return found


def _matches_identity(fact: rows.FactText) -> bool:
    """Return whether a fact's text and time match its identity."""
    times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
    return fact.fact_id == fact_identity(fact.text, times[0], times[1], fact.dates)


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows read for a set of hits."""

    turns: Mapping[int, rows.TurnText]
    facts: Mapping[int, rows.FactText]
    supports: Mapping[int, Sequence[tuple[str, str]]]
    quotes: Quotes
    paths: Mapping[int, tuple[str, ...]]
    """(Index, its forest's row of a leaf) -> the names on the way down to it."""

    def quote(self, fact: int, turn: int, *, muted: bool) -> str:
        """Return the turn of a fact, or of one that says what is hidden too what the fact was made from."""
        return self.quotes.alone(fact, turn) if muted else self.turns[turn].text


def make_evidence(
    tx: Tx, snapshot: Snapshot, index: Index, hits: Sequence[Hit], question: str = ""
) -> list[Evidence]:
    """Return the evidence of hits that an index ranked; of long turns what says the words of the question is quoted too."""
    wanted = frozenset(lexical_tokens(asked_in(question)))
    turn_ids = [int(snapshot.turns.ids[hit.turn]) for hit in hits]
    fact_ids = [int(snapshot.facts.ids[hit.fact]) for hit in hits if hit.fact >= 0]
    found = _Found(
        turns=rows.turn_texts(tx, turn_ids),
        facts=_fact_texts(tx, snapshot, fact_ids),
        supports=rows.fact_sources(tx, fact_ids, snapshot.without),
        quotes=Quotes.read(tx, fact_ids, snapshot),
        paths=_leaf_paths(tx, snapshot, index, hits),
    )
    until = valid_end(snapshot)
    ends = (int(until[hit.fact]) if hit.fact >= 0 else OPEN for hit in hits)
    return [_evidence(snapshot, hit, found, end, wanted) for hit, end in zip(hits, ends, strict=True)]


def _passage(turn: rows.TurnText, spoken: tuple[Spoken, ...], wanted: Collection[str]) -> tuple[Spoken, ...]:
    """Return what was said with the sentences of a long turn that say more of the question's words."""
    if not spoken or spoken[-1].speaker != turn.speaker:
        return spoken
    shown = None if spoken[-1].text == turn.text else spoken[-1].text
    if len(turn.text) <= (WHOLE_CHARS if shown is None else PASSAGE_CHARS):
        return spoken
    return (*spoken[:-1], Spoken(turn.speaker, passage(turn.text, wanted, shown)))


def tree_titles(tx: Tx, index: Index, trees: Iterable[int]) -> list[str]:
    """Return kind and scope ("entity Ana") of trees by id, in order."""
    wanted = list(trees)
    labels, scopes = index.labels(tx, wanted), tree_rows.scopes(tx, wanted)
    return [f"{scopes[tree][0]} {labels[tree]}" for tree in wanted]


def _evidence(snapshot: Snapshot, hit: Hit, found: _Found, until: int, wanted: Collection[str]) -> Evidence:
    turn = found.turns[int(snapshot.turns.ids[hit.turn])]
    own = (turn.session_id, turn.turn_id)
    whole = _passage(turn, (Spoken(turn.speaker, turn.text),), wanted)
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


def _stated(fact: rows.FactText) -> Interval | None:
    """Return the time that a fact states."""
    if fact.start_ms is None:
        return None
    end_ms = None if fact.end_ms is None else max(fact.end_ms, fact.start_ms + 1)
    return Interval(from_ms(fact.start_ms), None if end_ms is None else from_ms(end_ms))


def _leaf_paths(tx: Tx, snapshot: Snapshot, index: Index, hits: Sequence[Hit]) -> dict[int, tuple[str, ...]]:
    """Return how the leaves of hits are reached, by the row of the leaf in the index's forest."""
    leaves = {hit.leaf for hit in hits if hit.leaf >= 0}
    return path_names(tx, index, forest_of(tx, snapshot, index.name), leaves) if leaves else {}


def path_names(tx: Tx, index: Index, forest: Forest, nodes: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return, by forest row, the path from the root down to a node: the tree's title, then each node's days."""
    paths = {node: forest.path(node) for node in nodes}
    spans = rows.node_spans(tx, {int(forest.ids[row]) for path in paths.values() for row in path})
    days = {node: f"{_day(start)}..{_day(end)}" for node, (start, end) in spans.items()}
    trees = sorted({int(forest.tree_ids[forest.tree[node]]) for node in paths})
    titles = dict(zip(trees, tree_titles(tx, index, trees), strict=True))
    return {
        node: (titles[int(forest.tree_ids[forest.tree[node]])], *(days[int(forest.ids[row])] for row in path))
        for node, path in paths.items()
    }


def _day(ms: int) -> str:
    return from_ms(ms).date().isoformat()
