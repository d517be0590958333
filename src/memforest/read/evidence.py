"""Making evidence of ranked hits: texts, quotes, sources and tree paths, without damaged rows.

A hit is a turn or a fact, or a node of a tree: a summary, with the turns beneath it as its sources.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from memforest.read.quoting import adds_nothing, joined, read_sayings, repeats, saying_at
from memforest.read.results import WHOLE_CHARS, Evidence
from memforest.read.stored import turn_sources
from memforest.reading.canonical import fact_identity
from memforest.reading.clauses import PASSAGE_CHARS, asked_in, passage
from memforest.reading.entities import is_assistant
from memforest.records import SpokenText
from memforest.search.filters import NodeHit, Search, TurnHit, allowed, fact_places, first_turns, valid_end
from memforest.search.forest import Forest
from memforest.search.snapshot import OPEN, Snapshot
from memforest.search.timeline import Ending, latest_endings
from memforest.store import facts as facts_rows
from memforest.store import reads
from memforest.store.connections import Tx
from memforest.store.facts import FactRow
from memforest.store.sessions import AGAIN, StoredTurn, damaged_turns, turns_with_ids
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


def _passage(
    turn: StoredTurn, spoken: tuple[SpokenText, ...], wanted: Collection[str]
) -> tuple[SpokenText, ...]:
    """Return the spoken texts with the sentences of a long turn that hold more of the question's words."""
    if spoken[-1].speaker != turn.speaker:
        return spoken
    shown = None if spoken[-1].text == turn.text else spoken[-1].text
    if shown is None and len(turn.text) <= WHOLE_CHARS:
        return spoken
    return (*spoken[:-1], SpokenText(turn.speaker, passage(turn.text, wanted, shown)))


def path_names(
    snapshot: Snapshot, index: Index, forest: Forest, nodes: Collection[int]
) -> dict[int, tuple[str, ...]]:
    """Return, by forest row, the path from the root down to a node: the tree's kind and name, then each node's days."""
    names = index.names(snapshot, forest) if nodes else []
    found = {}
    for node in nodes:
        tree, rows = forest.tree[node], forest.path(node)
        first, last = (
            [from_ms(int(ms)).date().isoformat() for ms in bound[rows]]
            for bound in (forest.start_ms, forest.end_ms)
        )
        days = (f"{start}..{end}" for start, end in zip(first, last, strict=True))
        found[node] = (f"{forest.tree_kind[tree]} {names[tree]}", *days)
    return found


SOURCE_TURNS = 50
"""Most turns among the sources of a summary, the first ones; `Evidence.turns` counts them all."""


def falling_score(hit: TurnHit | NodeHit) -> float:
    """Return the key that puts the best hit first. Of equal keys `heapq.merge` takes the first ranking's first."""
    return -round(hit.score, 9)


@dataclass(slots=True)
class EvidenceReader:
    """Reads the ranked hits of one query as evidence, and notes those that cannot be shown.

    `damage` has the names of damaged turns and facts, in order. `unmade` has the nodes whose summary is missing or out of
    date: an old one may tell what has been deleted since.
    """

    tx: Tx
    snapshot: Snapshot
    index: Index
    request: Search
    question: str = ""
    """As it was asked: of long turns the sentences with its words are quoted too."""
    forest: Forest | None = None
    """What leaves and nodes are rows of."""
    ended: dict[int, Ending] = field(default_factory=dict)
    """How facts (rows) ended; of others what the states say."""
    damage: dict[str, None] = field(default_factory=dict)
    unmade: set[int] = field(default_factory=set)
    _facts: dict[int, FactRow] = field(default_factory=dict)
    """Those that were checked, by row id."""
    _turns: dict[int, StoredTurn] = field(default_factory=dict)
    """Likewise."""
    _equal: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """See `_with_equal_words`."""
    _echoed: dict[int, int] = field(default_factory=dict)
    """By row of an assistant's turn: that of the turn whose words it repeats, and adds none."""
    _passing: NDArray[np.bool_] | None = None
    _told: dict[int, tuple[str, int, int, Sequence[tuple[str, str]]]] = field(default_factory=dict)
    """By node: its text, how many turns are beneath it, when the last was said (ms), and (session id, turn id) of the first ones."""
    _names: dict[int, tuple[str, str] | None] = field(default_factory=dict)
    """(Session id, turn id) by row of a turn; None of one that cannot be shown."""

    def shown(self, hits: Iterable[TurnHit]) -> Iterator[TurnHit]:
        """Yield the hits that may be shown, each fact at its best turn only; its other turns are among its sources.

        So are those of a turn that speaks for itself and was said in the same words before or since. What a person said stands in
        front of an assistant's turn that repeats it.

        A turn that says what is hidden does not speak for itself: the facts that it supports stand in its place, as an index
        need not know of that. Turns and facts whose digests do not match are damaged. Only what is looked at is checked, a
        few hits at a time.
        """
        turn_ids, fact_ids = self.snapshot.turns.ids, self.snapshot.facts.ids
        pairs, muted = self.snapshot.facts.pairs, self.snapshot.turns.muted
        previous = self.snapshot.turns.previous
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
        repeated: set[int] = set()
        while block := list(islice(speaking, _BLOCK)):
            near = {hit.turn for hit in block} | {int(previous[hit.turn]) for hit in block}
            self._turns |= turns_with_ids(
                self.tx, set(turn_ids[sorted(near - {-1})].tolist()) - self._turns.keys()
            )
            wanted = {int(fact_ids[hit.fact]) for hit in block if hit.fact >= 0} - self._facts.keys()
            self._facts |= facts_rows.facts_with_ids(self.tx, wanted)
            self._equal |= self._with_equal_words(block)
            kept = []
            for hit in block:
                turn = self._turns[int(turn_ids[hit.turn])]
                if turn.is_damaged:
                    self.damage[turn.name] = None
                    continue
                if hit.fact >= 0:
                    fact = self._facts[int(fact_ids[hit.fact])]
                    start, end = (None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms))
                    if fact.fact_id != fact_identity(fact.text, start, end, fact.dates):
                        self.damage[f"fact {fact.fact_id}"] = None
                        continue
                    if hit.fact in seen:
                        continue
                    seen.add(hit.fact)
                elif hit.turn in repeated:
                    continue
                else:
                    repeated.update(self._equal[hit.turn, hit.fact])
                kept.append(hit)
            yield from self._own_words_first(kept)

    def _own_words_first(self, hits: Sequence[TurnHit]) -> Iterator[TurnHit]:
        """Yield hits, what a person said in front of an assistant's turn that repeats it; of both places the better one is its."""
        places = {hit.turn: hit for hit in reversed(hits)}
        told: set[int] = set()
        for hit in hits:
            own = self._repeated(hit)
            first = places.get(own)
            if first is not None and own not in told:
                better = hit.score - first.score
                yield replace(first, score=hit.score, scores={**first.scores, "repeated": better})
                told.add(own)
            if hit.turn not in told or hit is not places[hit.turn]:
                told.add(hit.turn)
                yield hit

    def before(self, hit: TurnHit) -> tuple[str, str]:
        """Return speaker and text of the turn before that of a hit, which was shown; both empty for none that may be read."""
        turns = self.snapshot.turns
        row = int(turns.previous[hit.turn])
        told = self._turns[int(turns.ids[row])] if row >= 0 and not turns.muted[row] else None
        return ("", "") if told is None or told.is_damaged else (told.speaker, told.text)

    def _repeated(self, hit: TurnHit) -> int:
        """Return the row of the turn of which an assistant's is an echo; -1 for none."""
        turns = self.snapshot.turns
        own = int(turns.previous[hit.turn])
        said, reply = (self._turns.get(int(turns.ids[row])) for row in (own, hit.turn))
        if own < 0 or said is None or reply is None or turns.asks[own] or turns.muted[[own, hit.turn]].any():
            return -1
        if not is_assistant(reply.speaker, reply.role) or is_assistant(said.speaker, said.role):
            return -1
        if not repeats(reply.text, said.text):
            return -1
        if adds_nothing(reply.text, said.text):
            self._echoed[hit.turn] = own
        return own

    def _with_equal_words(self, hits: Sequence[TurnHit]) -> dict[tuple[int, int], list[int]]:
        """Return, by turn and fact of a hit, the rows of the turns by the same speaker with the same text, itself among them.

        Where a fact speaks for it, only those that support it, as "yesterday" is another day each time. Else none that answers a
        question: what a "Yes" says is not in its words.
        """
        snapshot, keep = self.snapshot, allowed(self.snapshot, self.request).turns
        same, previous = snapshot.turns.same, snapshot.turns.previous
        rows = np.flatnonzero(np.isin(same, same[[hit.turn for hit in hits]]) & keep)
        asked = {int(row) for row in rows if previous[row] >= 0 and snapshot.turns.asks[previous[row]]}
        equal = {}
        for hit in hits:
            turns = set(rows[same[rows] == same[hit.turn]].tolist())
            if hit.fact >= 0:
                turns.intersection_update(snapshot.turns_of_fact[hit.fact])
            else:
                turns = set() if hit.turn in asked else turns - asked
            equal[hit.turn, hit.fact] = sorted({hit.turn, *turns})
        return equal

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
            names = reads.turn_names(self.tx, [turn for turn in new if turn not in damaged])
            self._names |= {turn: names.get(turn) for turn in new}
        return [name for turn in listed if (name := self._names[turn]) is not None]

    def evidence(self, hits: Sequence[TurnHit | NodeHit]) -> list[Evidence]:
        """Return the evidence of hits that may be shown, in their order."""
        snapshot, forest = self.snapshot, self.forest
        said = [hit for hit in hits if isinstance(hit, TurnHit)]
        fact_ids = {int(snapshot.facts.ids[hit.fact]) for hit in said if hit.fact >= 0}
        until, by_states = valid_end(snapshot), latest_endings(snapshot)[:, 1]
        ends = {
            hit.fact: self.ended.get(hit.fact, (int(until[hit.fact]), int(by_states[hit.fact])))
            for hit in said
            if hit.fact >= 0
        }
        supports = reads.fact_sources(self.tx, fact_ids | {by for _, by in ends.values()}, snapshot.without)
        equal = {(hit.turn, hit.fact): self._equal[hit.turn, hit.fact] for hit in said}
        beside = {row for (turn, _), rows in equal.items() for row in rows if row != turn} | {
            *self._echoed.values()
        }
        names = reads.turn_names(self.tx, snapshot.turns.ids[sorted(beside)].tolist()) if beside else {}
        sayings = read_sayings(self.tx, fact_ids, snapshot, self._turns)
        places = {hit.leaf if isinstance(hit, TurnHit) else hit.node for hit in hits}
        paths = {} if forest is None else path_names(snapshot, self.index, forest, places - {-1})
        wanted = frozenset(lexical_tokens(asked_in(self.question)))
        made = []
        for hit in hits:
            if isinstance(hit, NodeHit):
                made.append(self._summary(hit, paths[hit.node]))
                continue
            turn, muted = self._turns[int(snapshot.turns.ids[hit.turn])], snapshot.turns.muted[hit.turn]
            own, is_long = (turn.session_id, turn.turn_id), len(turn.text) > PASSAGE_CHARS
            spoken: tuple[SpokenText, ...] | None = (SpokenText(turn.speaker, turn.text),)
            if hit.fact >= 0:
                fact_id = int(snapshot.facts.ids[hit.fact])
                fact, one = (
                    snapshot.restated.get(fact_id, self._facts[fact_id]),
                    saying_at(sayings[fact_id], turn.row),
                )
                if (
                    one is None or muted or one.shown != ()
                ):  # else the answer is damaged, and this turn is the question
                    spoken = None if one is None else one.shown
            if spoken and is_long and not muted:
                spoken = _passage(turn, spoken, wanted)
            same = equal[hit.turn, hit.fact]
            echoed = self._echoed.get(hit.turn)
            piece = Evidence(
                text=joined(spoken or ()),
                quote=turn.text,
                speaker=turn.speaker,
                kind="turn",
                score=hit.score,
                scores=hit.scores,
                said=from_ms(turn.said_ms),
                start=from_ms(turn.said_ms),
                end=None,
                sources=turn_sources(
                    [own, *(names[int(snapshot.turns.ids[row])] for row in same if row != hit.turn)]
                ),
                path=paths.get(hit.leaf, ()),
                why=hit.why,
                perhaps=hit.perhaps,
                metadata=json.loads(turn.metadata),
                spoken=spoken or (),
                said_each=tuple(from_ms(ms) for ms in sorted(snapshot.turns.said_ms[same].tolist())),
                echoes=turn_sources([] if echoed is None else [names[int(snapshot.turns.ids[echoed])]]),
            )
            if hit.fact >= 0:
                stated = None
                if fact.start_ms is not None:
                    last = None if fact.end_ms is None else from_ms(max(fact.end_ms, fact.start_ms + 1))
                    stated = Interval(from_ms(fact.start_ms), last)
                end, by = ends[hit.fact]
                corrected_ms = None if one is None else one.of.corrected_ms
                piece = replace(
                    piece,
                    text=piece.text or fact.text,
                    quote=turn.text if not muted else "" if one is None else one.words,
                    kind="fact",
                    start=from_ms(fact.said_ms if fact.start_ms is None else fact.start_ms),
                    end=None if end == OPEN else from_ms(end),
                    sources=turn_sources([own, *supports[fact_id]]),
                    ended_by=turn_sources(supports.get(by, ())),
                    fact_id=fact.fact_id,
                    dates=fact.dates,
                    statement=fact.text,
                    precision=fact.precision,
                    stated=stated,
                    corrected=None if corrected_ms is None else from_ms(corrected_ms),
                )
            made.append(piece)
        return made

    def _summary(self, hit: NodeHit, path: tuple[str, ...]) -> Evidence:
        """Return the evidence of a node that `shows` let pass."""
        forest, row = self.forest, hit.node
        assert forest is not None, "`shows` lets nothing pass without one"
        text, count, last_ms, pairs = self._told[row]
        return Evidence(
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
            path=path,
            why=hit.why,
            level=int(forest.level[row]),
            window=hit.window,
            turns=count,
            node_id=int(forest.ids[row]),
            span=forest.span(row) if "conversation" in forest.tree_kind else None,
        )

    @property
    def warnings(self) -> list[str]:
        """Warnings about what was left out."""
        found = [f"{name} is damaged and left out of the evidence; {AGAIN}" for name in self.damage]
        if self.unmade:
            which = "1 summary is" if len(self.unmade) == 1 else f"{len(self.unmade)} summaries are"
            found.append(
                f"{which} not made yet or out of date, and left out of the evidence; resume() makes them"
            )
        return found
