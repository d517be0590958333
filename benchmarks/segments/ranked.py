"""Questions asked of trees that are there already, in as many ways as there are, and what comes of them at equal context.

A ranking is walked from the top, as a query walks it. `MEASURES` says what is counted. Of a turn, that turn is shown. Of
a node, its summary is what is shown, and two things can be said of the turns below it: that they are *below* it (its sources, which
an agent could open), and how much of their own words its text has (*said*: whole sentences, as the local summariser keeps
them; of a turn of which the text has two sentences of three, by words, two thirds). A summary is an extract, so
"below" is what a node promises and "said" is what a reader gets.

A piece that does not fit into what is left of a budget ends it, as in `QueryResult.context`; a node that is too long for
a budget so ends it with nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timezone
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kept import KeptVectors
from locomo.conversations import Conversation
from memforest import Config
from memforest.calendar import parse_timestamp
from memforest.config import Ranking
from memforest.interval import to_ms
from memforest.language.counting import count_words
from memforest.language.sentences import split_sentences
from memforest.memory.known import known_shares
from memforest.memory.open import open_memory
from memforest.memory.query.evidence import make_evidence, once_per_fact
from memforest.memory.query.memories import Memories, by_score
from memforest.memory.query.reading import search_tokens
from memforest.memory.query.surface_names import surface_names
from memforest.ports import embed_questions
from memforest.search.cache import SnapshotCache
from memforest.search.forests import forest_of
from memforest.search.snapshot import Snapshot
from memforest.search.texts import without_names
from memforest.steps.choose import choose_steps
from memforest.store import evidence as evidence_rows
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.base import Found, Hit, MemoryIndex, NodeHit, Search
from memforest.systems.nodes import turns_beneath
from memforest.systems.segtree.index import SegTreeIndex
from memforest.systems.segtree.rank import Heard, hear
from memforest.systems.segtree.rank import rank as ranked_by_tree
from memforest.systems.segtree.settings import SegTreeSettings
from memforest.tokens import count_tokens

__all__ = [
    "BUDGETS",
    "LEVELS",
    "MEASURES",
    "PIECES",
    "Asked",
    "Cell",
    "Shown",
    "Walked",
    "World",
    "open_world",
    "rank",
    "rank_cells",
    "said_of",
    "walk",
]

BUDGETS = (256, 512, 1024, 2048)
"""Estimated tokens of context (`memforest.tokens`), each line counted as in `QueryResult.context`."""
PIECES = 10
"""Pieces of evidence of a default query, and nodes of the paper's budget K."""
LEVELS = 6
"""Levels that are told apart: the leaves, 1 to 4, and all above."""

MEASURES = (
    "R@10",
    "R@20",
    *(f"below {budget}" for budget in BUDGETS),
    *(f"said {budget}" for budget in BUDGETS),
    "10 below",
    "10 said",
    "10 tokens",
)
"""Recall of supporting turns: among the first 10 and 20 that the evidence has for sources; in the budgets, below what is shown and
in its own words; the same two for the first 10 pieces whatever their length, and the tokens of these."""

Row = NDArray[np.float64]


class Shown(NamedTuple):
    """A piece of evidence: its tokens, the turns that it lists, all below it, and what share of each is said in its text."""

    tokens: int
    turns: Sequence[str]
    below: frozenset[str]
    said: Mapping[str, float]
    level: int


class Cell(NamedTuple):
    """One way to rank: settings that are read when a question is asked, and the ranking's."""

    settings: SegTreeSettings
    ranking: Ranking


class Walked(NamedTuple):
    """One value per entry of `MEASURES`, and how many of the first `PIECES` nodes are of each level."""

    values: list[float]
    levels: list[int]


class Asked(NamedTuple):
    """A question as an index gets it, with its supporting turns."""

    text: str
    category: int
    request: Search
    gold: frozenset[str]


def said_of(text: str, shown: str) -> float:
    """Return which share of the words of a text stand in another one, by whole sentences."""
    sentences = [piece.text.strip() for piece in split_sentences(text)]
    words = [count_words(sentence) for sentence in sentences]
    kept = sum(n for n, sentence in zip(words, sentences, strict=True) if sentence and sentence in shown)
    return kept / total if (total := sum(words)) else 0.0


@dataclass(slots=True, eq=False)
class World:
    """One memory in a read transaction, its questions, and its pieces of evidence, each made once."""

    tx: Tx
    snapshot: Snapshot
    asked: Sequence[Asked]
    texts: Mapping[str, str]
    """What every turn says."""
    turn_ids: Sequence[str]
    """By row."""
    lines: Sequence[str]
    """What every turn says behind its speaker's name, by row."""
    shown: dict[int | tuple[int, int], Shown] = field(default_factory=dict)
    """By (turn, fact) and by the id of the node."""

    def piece(self, hit: Hit | NodeHit, index: MemoryIndex, request: Search) -> Shown | None:
        """Return what is shown of a hit; None of a node that cannot be shown."""
        key = hit.node if isinstance(hit, NodeHit) else (hit.turn, hit.fact)
        if key not in self.shown:
            made = self._node(hit, index, request) if isinstance(hit, NodeHit) else self._turn(hit, index)
            if made is None:
                return None
            self.shown[key] = made
        return self.shown[key]

    def _turn(self, hit: Hit, index: MemoryIndex) -> Shown:
        made = make_evidence(self.tx, self.snapshot, index, [replace(hit, leaf=-1)])[0]
        turns = [turn for source in made.sources for turn in source.turn_ids]
        return Shown(
            count_tokens(made.line(1)) + 1, turns, frozenset(turns), {self.turn_ids[hit.turn]: 1.0}, 0
        )

    def _node(self, hit: NodeHit, index: MemoryIndex, request: Search) -> Shown | None:
        reader = Memories(self.tx, self.snapshot, index, request, {})
        if not reader.shows(hit):
            return None
        made = reader.evidence([hit])[0]
        forest = forest_of(self.tx, self.snapshot, tree_rows.owner_of_node(self.tx, hit.node) or index.name)
        rows = turns_beneath(self.snapshot, forest, int(np.searchsorted(forest.ids, hit.node)))
        below = [self.turn_ids[row] for row in rows.tolist()]
        listed = [turn for source in made.sources for turn in source.turn_ids]
        return self.summed(made.text, made.line(1), listed, below, made.level or 1)

    def summed(self, text: str, line: str, listed: Sequence[str], below: Sequence[str], level: int) -> Shown:
        """Return what is shown of a node with a text."""
        said = {turn: share for turn in below if (share := said_of(self.texts[turn], text))}
        return Shown(count_tokens(line) + 1, listed, frozenset(below), said, level)


@contextmanager
def open_world(directory: Path, conversation: Conversation, embedder: KeptVectors) -> Iterator[World]:
    """Open a memory for rankings: its snapshot, and its questions planned and embedded as a query does it.

    Args:
        directory: of the memories.
        conversation: whose; asked at the time of its last session.
        embedder: of the memories.
    """
    config = Config(embedder=embedder)
    steps = choose_steps(config)
    memory = open_memory(directory, conversation.id, config, steps)
    try:
        with memory.db.read() as tx:
            snapshot = SnapshotCache().get(tx)
            found = evidence_rows.turn_texts(tx, snapshot.turns.ids.tolist())
            rows = [found[int(row)] for row in snapshot.turns.ids]
            asked = asyncio.run(_requests(conversation, snapshot, memory.label, embedder, config))
            yield World(
                tx,
                snapshot,
                asked,
                {one.turn_id: one.text for one in rows},
                [one.turn_id for one in rows],
                [f"{one.speaker}: {one.text}" for one in rows],
            )
    finally:
        memory.close()


async def _requests(
    conversation: Conversation, snapshot: Snapshot, label: str, embedder: KeptVectors, config: Config
) -> list[Asked]:
    said = parse_timestamp(conversation.sessions[-1].timestamp, timezone=timezone.utc, field="-")[0]
    names, planner = surface_names(snapshot, label), choose_steps(config).planner
    texts = [one.text for one in conversation.questions]
    vectors = await embed_questions(embedder, texts)
    bare_texts = [without_names(text, snapshot.speakers) for text in texts]
    bare = await embed_questions(embedder, bare_texts)
    known = known_shares(embedder, bare_texts)
    asked = []
    for at, one in enumerate(conversation.questions):
        plan = await planner.plan(one.text, reference=said, names=names)
        request = Search(
            tokens=search_tokens(one.text, plan, config.zone),
            plan=plan,
            reference_ms=to_ms(said),
            vector=vectors[at],
            bare_vector=bare[at],
            known=known[at],
        )
        asked.append(Asked(one.text, one.category, request, one.gold))
    return asked


@dataclass(slots=True)
class _Walk:
    """What has come of a ranking so far."""

    gold: frozenset[str]
    used: int = 0
    count: int = 0
    listed: dict[str, None] = field(default_factory=dict)
    below: set[str] = field(default_factory=set)
    said: dict[str, float] = field(default_factory=dict)
    nodes: dict[object, int] = field(default_factory=dict)
    at_budget: list[tuple[float, float]] = field(default_factory=list)
    at_pieces: tuple[float, float, float] | None = None

    @property
    def shares(self) -> tuple[float, float]:
        """The share of the supporting turns that is below what was shown, and that was said in it."""
        return len(self.below) / len(self.gold), sum(self.said.values()) / len(self.gold)

    @property
    def enough(self) -> bool:
        return len(self.at_budget) == len(BUDGETS) and len(self.listed) >= 20 and len(self.nodes) >= PIECES

    def close_budgets(self, tokens: int) -> None:
        """End the budgets into which a piece of so many tokens does not fit."""
        while len(self.at_budget) < len(BUDGETS) and self.used + tokens > BUDGETS[len(self.at_budget)]:
            self.at_budget.append(self.shares)

    def take(self, node: object, shown: Shown) -> None:
        """Count the next piece."""
        self.used, self.count = self.used + shown.tokens, self.count + 1
        if len(self.listed) < 20:
            self.listed.update(dict.fromkeys(shown.turns))
        if not self.gold.isdisjoint(shown.below):
            self.below |= self.gold & shown.below
            for turn in self.gold & shown.said.keys():
                self.said[turn] = max(self.said.get(turn, 0.0), shown.said[turn])
        if len(self.nodes) < PIECES:
            self.nodes.setdefault(node, shown.level)
        if self.count == PIECES:
            self.at_pieces = (*self.shares, float(self.used))

    def result(self) -> Walked:
        """Return the measures; what was not reached ends with everything that was found."""
        budgets = self.at_budget + [self.shares] * (len(BUDGETS) - len(self.at_budget))
        first = list(self.listed)
        recall = [len(self.gold.intersection(first[:k])) / len(self.gold) for k in (10, 20)]
        pieces = self.at_pieces or (*self.shares, float(self.used))
        levels = [0] * LEVELS
        for level in self.nodes.values():
            levels[min(level, LEVELS - 1)] += 1
        below, said = [one for one, _ in budgets], [one for _, one in budgets]
        return Walked([*recall, *below, *said, *pieces], levels)


def walk(pieces: Iterable[tuple[object, Shown]], gold: frozenset[str]) -> Walked:
    """Return what comes of a ranking.

    Args:
        pieces: of evidence, best first, each with the node that it is of: turns of one leaf are of one node.
        gold: the supporting turns, at least one.
    """
    walked = _Walk(gold)
    for node, shown in pieces:
        walked.close_budgets(shown.tokens)
        if walked.enough:
            break
        walked.take(node, shown)
    return walked.result()


def pieces_of(
    world: World, index: MemoryIndex, request: Search, found: Found
) -> Iterator[tuple[object, Shown]]:
    """Yield the evidence of a ranking, best first, in the order of a query."""
    for hit in by_score(once_per_fact(found.hits), found.nodes):
        shown = world.piece(hit, index, request)
        if shown is not None:
            node = hit.node if isinstance(hit, NodeHit) else ("leaf", hit.leaf if hit.leaf >= 0 else hit.turn)
            yield node, shown


def rank(world: World, index: MemoryIndex, asked: Asked) -> Walked:
    """Return the measures and levels of one ranking of a question by any index."""
    found = index.search(world.tx, world.snapshot, asked.request)
    return walk(pieces_of(world, index, asked.request, found), asked.gold)


def rank_cells(world: World, asked: Asked, cells: Sequence[Cell]) -> list[Walked]:
    """Return the measures and levels of a question ranked in many ways; how relevant everything is by itself is found once.

    What is done is what `SegTreeIndex.search` does, in its two steps.
    """
    heard: dict[str, Heard] = {}
    made = []
    for cell in cells:
        if cell.settings.scorer not in heard:
            heard[cell.settings.scorer] = hear(world.tx, world.snapshot, asked.request, cell.settings)
        request = replace(asked.request, ranking=cell.ranking)
        found = ranked_by_tree(world.tx, world.snapshot, request, cell.settings, heard[cell.settings.scorer])
        made.append(walk(pieces_of(world, SegTreeIndex(cell.settings), request, found), asked.gold))
    return made
