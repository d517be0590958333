"""The base class of indexes, `Index`, and what passes between a memory and its indexes.

An index is a view of what was said. It is listed in `memforest.trees.attached`; nothing else outside of this room names it.
What it has in the file are the trees that it owns, and tables of its own called ``ix_NAME_…``: they can be dropped and made
anew from what was said. `Host` is an index's access to the file, models and other threads, for work that may wait. What a
search passes is in `memforest.search.filters`.

Here are also the modes of a query, the parts of a browse plan that are used (paper §4.3, §6.2), and inner nodes as evidence:
the turns beneath them, and whether they pass the time filters.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from memforest.config import MODES
from memforest.errors import BudgetError, ConfigError, ModelRequestError, ModelUnavailableError, StepError
from memforest.nodes import Node
from memforest.ports import FoundLine
from memforest.reading.steps import Steps
from memforest.records import BrowsePlan, QuestionKind, QuestionPlan
from memforest.search.filters import IndexResult, Prepared, RefineCandidate, Refinement, Search, allowed
from memforest.search.flow import sums_below
from memforest.search.forest import FACT, INNER, Forest, once_per_forest
from memforest.search.snapshot import Snapshot, ranges
from memforest.settings import NoSettings
from memforest.store import derived, indexes
from memforest.store import trees as trees_rows
from memforest.store.connections import Tx
from memforest.store.indexes import Items, Kind
from memforest.store.trees import SqliteArena
from memforest.text import cut, lexical_tokens
from memforest.trees.node import ORDERED, Contract, check
from memforest.trees.refresh import NodeWork

T = TypeVar("T")

Occasion = Literal["write", "timer", "advance", "force"]
"""Why an index is advanced: behind a write; by a timer; because somebody asked for it, or has added, resumed or rebuilt something; or because
somebody asked that it does what is not due yet, too."""


class Host(Protocol):
    """One memory, as an index may use it outside of a transaction. What it asks models counts for the operation."""

    @property
    def now(self) -> datetime:
        """The present, by the memory's clock."""
        ...

    @property
    def occasion(self) -> Occasion:
        """Why the index is advanced; in a query, as behind a write."""
        ...

    @property
    def question(self) -> str:
        """The question's text, for steps that write for it; empty outside of a query."""
        ...

    @property
    def steps(self) -> Steps:
        """The steps that models do."""
        ...

    @property
    def embeds(self) -> bool:
        """Whether texts can be embedded here and now."""
        ...

    async def read(self, work: Callable[[Tx, Snapshot], T]) -> T:
        """Run work in a read transaction, with the snapshot of its state, in another thread."""
        ...

    async def look(self, work: Callable[[Tx], T]) -> T:
        """Run work in a read transaction alone, in another thread; for what needs no snapshot."""
        ...

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run work in a write transaction, in another thread; what it wrote is undone if it raises.

        Other writers come in between two of them, so each is to be short: a tenth of a second, or one leaf.
        """
        ...

    async def ensure_fresh(self, chosen: Callable[[Tx], Collection[int]]) -> list[str]:
        """Bring nodes up to date with what is dirty beneath them, before they are read.

        What it costs counts for the operation. What cannot be made stays as it is.

        Args:
            chosen: names the nodes, in a read transaction.

        Returns:
            Why some of them could not be made.
        """
        ...

    async def consolidate(self, choose: Callable[[Tx], Sequence[NodeWork]]) -> Mapping[int, str]:
        """Make the summaries of nodes whose children have theirs, and their vectors: one wave of a paced index.

        Each is written as soon as it is there, by compare-and-set. A node that has the summary of just this request is marked
        clean without a call. It is tried whatever has failed before, and several waves may be made at once; who
        chooses sees to it that no node is in two. What it costs counts for the operation.

        Args:
            choose: names the nodes, which are dirty, and their requests, in a read transaction.

        Returns:
            Why nodes were not made, by node. Those that are not in it are clean, or have changed meanwhile.

        Raises:
            ModelRefusedError: if no call can succeed; what was made before is written.
        """
        ...

    async def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each text, as stored texts are embedded, shape (n, d).

        A text that the memory has a vector of is not embedded again; the others count for the operation. The vectors
        are rounded as those in the file.

        Raises:
            ModelError: if the embedder fails, or there is none.
            EmbedderMismatchError: if the memory's vectors are of another embedder.
        """
        ...

    async def embed_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each text, as questions are embedded, shape (n, d).

        Raises:
            ModelError: if the embedder fails, or there is none.
        """
        ...

    async def read_questions(self, texts: Sequence[str]) -> list[Search]:
        """Return further questions as the one that is asked was read: planned by rules, embedded, with its options.

        Raises:
            InputError: outside of a query.
            StepError: if what the planner returns is no plan.
        """
        ...

    def timed(self, step: str) -> AbstractContextManager[None]:
        """Add the wall time of the block to a step of the operation's usage."""
        ...


@dataclass(frozen=True, slots=True)
class Placed:
    """The counts of a placing: node rows written, and the trees that changed."""

    nodes: int = 0
    trees: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """A problem that an index finds in its own trees or tables: the part, and what is wrong."""

    part: str
    message: str


@dataclass(frozen=True, slots=True)
class Copied:
    """What a merge has copied from another memory, row id there -> row id here.

    Only what is here just as it is there: new sessions with their chunks and turns; facts that were not here, with all
    of their occurrences, and so with the same place in time order; entities that nothing here named. `session_ids`
    are the ids of sessions that are called otherwise here. `source` is a read transaction of the other memory.
    """

    source: Tx
    sessions: Mapping[int, int]
    turns: Mapping[int, int]
    chunks: Mapping[int, int]
    facts: Mapping[int, int]
    entities: Mapping[int, int]
    session_ids: Mapping[str, str]


class Placing:
    """One index inside one write transaction. No model is asked, and nothing waits. This one places nothing."""

    def leave(self, items: Items) -> None:
        """Take items out of their places before they change or go, while they are stored with their vectors.

        Chunks and turns come here too when a fact of theirs is hidden or shown again; they are placed again then, so
        that summaries above them are made anew. Of entities only those that go, or take part no longer.
        """

    def place(self, items: Items) -> None:
        """Place items that are new or have changed; those that are not stored any more are gone, as are facts that are hidden.

        Placing an item again changes nothing. See `memforest.store.corrections.shown_facts`.
        """

    def close(self) -> Placed:
        """Write everything back; the last call of the transaction."""
        return Placed()


FALLS_BACK = (StepError, ModelUnavailableError, ModelRequestError, BudgetError)
"""What a call of a step may end in without anything being wrong with the others."""
KINDS = frozenset(get_args(QuestionKind))
MOST_QUERIES = 3
"""Most sub-queries of one tree: a comparison has two sides, a transition two and the event between."""
QUERY_CHARS = 500
"""A longer sub-query is cut: it is a text to compare with summaries, not a program."""


def choose_mode(asked: str | None, steps: Steps) -> str:
    """Choose the mode of a query: the one asked for, else the most guided one that the steps allow.

    Raises:
        ConfigError: if the mode needs a model and there is none.
    """
    able = {"+planner": steps.guide is not None, "llm": steps.browser is not None}
    if asked is None:
        return ("llm" if able["llm"] else "emb") + ("+planner" if able["+planner"] else "")
    if asked not in MODES:
        raise ConfigError(f"mode={asked!r}: give one of {', '.join(MODES)}")
    lacks = [
        step for part, step in (("+planner", "plan"), ("llm", "browse")) if part in asked and not able[part]
    ]
    if lacks:
        raise ConfigError(
            f"mode={asked!r} needs a chat model for {' and '.join(map(repr, lacks))}: give "
            "Config(chat=ChatEndpoint('MODEL', base_url='http://HOST/v1')) or set MEMFOREST_CHAT_MODEL, with these "
            "steps in chat_steps; mode='emb' needs none"
        )
    return asked


def sub_queries(made: BrowsePlan, question: str, trees: int) -> list[tuple[str, ...]]:
    """Check and bound the sub-queries that a plan has for each tree; a tree without any gets the question.

    Raises:
        StepError: if the plan is not one of that many trees.
    """
    if len(made.queries) != trees:
        raise StepError(f"the plan has sub-queries for {len(made.queries)} of {trees} trees")
    found = []
    for own in made.queries:
        kept = dict.fromkeys(text for query in own if (text := cut(" ".join(query.split()), QUERY_CHARS)))
        found.append(tuple(kept)[:MOST_QUERIES] or (question,))
    return found


def adopted(plan: QuestionPlan, made: BrowsePlan, question: str) -> QuestionPlan:
    """Add the fields that a browse planner found to a plan; fields that the plan has are kept.

    A kind is taken where the plan has none, an anchor where it has none and all its words are the question's. A kind
    that is taken decides on the time operator, too.
    """
    if plan.anchor is None and made.anchor is not None:
        words = set(lexical_tokens(made.anchor))
        if words and words <= set(lexical_tokens(question)):
            plan = replace(plan, anchor=made.anchor)
    if plan.kind == "simple" and made.kind in KINDS:
        plan = replace(plan, kind=cast("Any", made.kind))
        sure, read = plan.kind_operator, plan.operator
        if sure is None or read is None or read.kind != sure.kind:
            return replace(plan, operator=sure or read)
        # What the plan's operator of the same kind knows is kept.
        return replace(plan, operator=replace(read, anchor=read.anchor or sure.anchor))
    return plan


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Whose profile is asked for, None for all who took part, and by when: instants in ms, None for no bound."""

    now_ms: int
    participant: str | None = None
    as_of_ms: int | None = None
    said_by_ms: int | None = None

    @property
    def bound_ms(self) -> int | None:
        """The last instant that the profile may tell of."""
        bounds = [one for one in (self.as_of_ms, self.said_by_ms) if one is not None]
        return min(bounds, default=None)


@dataclass(frozen=True, slots=True)
class FoundProfile:
    """The profile in force. Without a `month` there is none yet, and `warnings` say why.

    `participants` are those whose profile it is, in the order of its lines. `unsupported` are lines of the text that no turn
    of the month supports, or that are of somebody else. `since` are the rows of what was said behind the month and may be
    told, in order: the last of `said_since`.
    """

    month: str | None = None
    start_ms: int = 0
    end_ms: int = 0
    participants: tuple[str, ...] = ()
    lines: tuple[FoundLine, ...] = ()
    unsupported: tuple[str, ...] = ()
    maker: str = ""
    out_of_date: bool = False
    since: tuple[int, ...] = ()
    said_since: int = 0
    warnings: tuple[str, ...] = ()


STEP = 512
"""Notes of the feed that are placed in one transaction when an index catches up: a tenth of a second's work."""

MOST_ROUNDS = 4
"""Times that an index may rank anew for one question."""


def is_behind(tx: Tx, name: str, until: int) -> bool:
    """Return whether an index has not placed the notes of the feed up to a number."""
    row = indexes.find(tx, name)
    return row is not None and row.cursor < until


def place_notes(
    tx: Tx, name: str, until: int, place: Callable[[Items], object], step: int | None = None
) -> bool:
    """Let an index place the next notes of the feed inside a write transaction; return whether more are left.

    If it is not behind any more, or was dropped, another process was quicker, and nothing is done.
    """
    row = indexes.find(tx, name)
    if row is None or row.cursor >= until:
        return False
    items, upto = indexes.read(tx, row.cursor, STEP if step is None else step, until)
    place(items)
    indexes.move(tx, name, upto)
    return upto < until


def place_next(tx: Tx, index: Index, until: int) -> bool:
    """Let an index that needs no model place the next notes of the feed; see `place_notes`."""

    def place(items: Items) -> None:
        placing = index.placing(tx)
        if followed := {kind: found for kind, found in items.items() if kind in index.follows}:
            placing.place(followed)
        placing.close()

    return place_notes(tx, index.name, until, place)


def not_browsed(request: Search, name: str) -> tuple[str, ...]:
    """Return the warning about a mode that asks an index to browse which does not."""
    if request.asked_mode in (None, "emb"):
        return ()
    return (f"mode {request.asked_mode!r} did what 'emb' does: the index {name!r} does not browse trees",)


def doer_of(option: str, asked: str, steps: Steps, step: str, *, forced: bool = False) -> str:
    """Return who does a part of a search: the one asked for; of "auto" the model where there is one, unless it is `forced`.

    Args:
        option: its class and name, such as ``"Recall.planner"``.
        asked: its value.
        steps: of the memory.
        step: what the model would do.
        forced: whether the outcome is set already.

    Raises:
        ConfigError: if the model is asked for, and there is none.
    """
    able = steps.calls is not None and step in steps.by_chat
    if asked == "auto":
        return "model" if able and not forced else "rules"
    if asked == "model" and not able:
        group, _, name = option.partition(".")
        raise ConfigError(
            f"{group}({name}='model') needs a chat model: give Config(chat=...) with {step!r} in chat_steps, or {name}='rules'"
        )
    return asked


@cache
def measured(name: str) -> dict[str, dict[str, Any]]:
    """Return what was measured per embedder, from a JSON file of `memforest.data`."""
    text = files("memforest.data").joinpath(name).read_text(encoding="utf-8")
    models: dict[str, dict[str, Any]] = json.loads(text)["models"]
    return models


class Index(ABC):
    """One way to organise a memory and to find evidence in it. All indexes read the same persistent state.

    A subclass sets `name` and overrides what differs from an index that places nothing and finds by itself.
    """

    name: str
    follows: frozenset[Kind] = frozenset()
    """The kinds of items that it places; none when it reads the memory as it is."""
    deferred = False
    """Whether it is placed by `advance` alone, because placing reads summaries or asks a model. Others are placed
    in the transaction that writes what they follow."""
    paced = False
    """Whether its summaries are made by `advance` alone, through `Host.consolidate`, at times of its own: no refresh makes or
    counts them, and they are shown as they stand. It is advanced whenever a deferred index is."""
    profiles = False
    """Whether it keeps profiles of those who take part; see `profile`."""
    Settings: type[Any] = NoSettings
    """A frozen dataclass, of which the fields named in its ``KEPT`` are kept in the file from the first write on."""
    numbered: frozenset[str] = frozenset()
    """The kinds of its trees whose scopes have numbers for names."""
    settled: frozenset[str] = frozenset()
    """The kinds of its trees that one session alone is in: their summaries need not wait for other writes to end."""
    contracts: Mapping[str, Contract] = MappingProxyType({})
    """What must hold of its trees, by their kind; those of a kind that is not in it are MemTrees."""
    carried: Mapping[str, str] | None = None
    """What its numbers refer to, so that an export can carry its trees and tables: kind of tree, whose scopes they are, or
    ``"table.column"`` -> ``"session"``, ``"turn"``, ``"chunk"``, ``"fact"``, ``"entity"``, or ``"node"`` of nodes and leaves.
    Numbers that are not in it are its own. None: an import places everything anew."""

    def __init__(self, settings: Any = None) -> None:
        self.settings = self.Settings() if settings is None else settings

    @staticmethod  # noqa: B027
    def make_tables(tx: Tx) -> None:
        """Make its own tables, called ``ix_NAME_…``; none by default."""

    @abstractmethod
    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every candidate turn, best first; deterministic for equal inputs."""

    def placing(self, tx: Tx) -> Placing:
        """Begin to edit its trees inside a write transaction; by default it places nothing."""
        return Placing()

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Return how to make the summaries of nodes; nodes that need none are left out.

        Args:
            tx: a read transaction.
            nodes: inner nodes of its trees whose children are up to date.
            inputs: the texts of each node's children, in order.
        """
        return []

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Prepare a question outside of a transaction: ask models, browse, bring nodes up to date.

        It runs inside the query's budget, ledger and trace. No transaction is open. By default the question is left as it is.
        """
        return Prepared(request, warnings=not_browsed(request, self.name))

    async def refine(
        self, host: Host, request: Search, found: Sequence[RefineCandidate]
    ) -> Refinement | None:
        """Look at the first candidates, and rank again, or drop some; None leaves them as they are.

        It is asked again about what it ranked again, `MOST_ROUNDS` times at most.
        """
        return None

    async def advance(self, host: Host, until: int) -> None:
        """Place what the feed has noted up to a number, and close the windows that have ended by `host.now`.

        It is asked after every write if the index is deferred, and else when it has fallen behind: because it was
        added or emptied. It is to come to its end, or to raise; other processes may do the same at once. So the
        cursor is moved in the transaction that places the notes, from where it is found there; who has read notes
        before, and asked a model, moves it by `memforest.store.indexes.move_from`, which tells who was first.

        Args:
            host: of the memory.
            until: a number of the feed; the cursor stands there in the end, or behind it.
        """
        while await host.write(lambda tx: place_next(tx, self, until)):
            pass

    async def ready(self, host: Host) -> Sequence[str]:
        """Make due summaries that cost no call, before trees or profiles are shown; return why some could not be made."""
        return ()

    def profile(self, tx: Tx, request: ProfileRequest) -> FoundProfile:
        """Return the profile that is in force by the instants of a request; of an index with `profiles` alone.

        Raises:
            NotFoundError: if nobody of that name ever spoke.
        """
        return FoundProfile()

    def reopen(self, tx: Tx, nodes: Collection[int]) -> None:  # noqa: B027  # of paced indexes alone
        """Schedule nothing: a refresh makes what is out of date."""

    def merge(self, copied: Copied) -> Iterator[Callable[[Tx], int]]:
        """Yield pieces of work that take over trees, with their summaries, from the same index of another memory.

        It has the same settings there, as far as they are kept, and has placed everything. Each piece of work runs in a
        write transaction of its own, and returns how many trees it took over; after each, the index must be as if it had
        placed some of its notes, as it may be the last one. What is not taken over is placed from the feed then.
        """
        return iter(())

    def labels(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return the names of the scopes of its trees; by default their numbers."""
        return {tree: str(scope) for tree, (_, scope) in trees_rows.scopes(tx, trees).items()}

    def titles(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return the titles of its trees for lists: kind, scope, and what sets each apart."""
        labels = self.labels(tx, trees)
        return {tree: f"{kind} {labels[tree]}" for tree, (kind, _) in trees_rows.scopes(tx, trees).items()}

    def node_names(self, tx: Tx, nodes: Collection[int]) -> Mapping[int, str]:
        """Return the names of inner nodes for drawings; nodes without a name are left out."""
        return {}

    def check(self, tx: Tx) -> list[IndexProblem]:
        """Return everything that is wrong with its trees and tables."""
        arena = SqliteArena(tx)
        return [
            IndexProblem("tree", f"{kind} tree {scope}: {message}")
            for kind, scope, head in trees_rows.heads(tx, self.name)
            for message in check(arena, head, self.contracts.get(kind, ORDERED))
        ]

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return its own counts, besides those that every index has."""
        return {}

    def notes(self, tx: Tx) -> list[str]:
        """Return notes for the user: what the index lacks, and why."""
        return []

    def clear(self, tx: Tx) -> None:
        """Delete its trees and the rows of its tables; then everything is to be placed from the start."""
        trees_rows.drop_trees(tx, self.name)
        indexes.empty_tables(tx, self.name)

    def reembed(self, tx: Tx) -> bool:
        """Make everything anew that depends on vectors, after the embedder was changed; part of that transaction.

        Returns:
            False if it is to be cleared instead, and to place everything from the start.
        """
        return not self.follows

    def outdated(self, tx: Tx) -> str | None:
        """Return why it would be made differently now, with the same settings; None if it would not."""
        return None


Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def ready_nodes(tx: Tx, nodes: Collection[int]) -> set[int]:
    """Return the ids of the nodes that have an up-to-date text."""
    texts = derived.summaries(tx, nodes)
    return {
        one
        for one, node in trees_rows.nodes_with_ids(tx, list(texts)).items()
        if not node.dirty and texts[one]
    }


@once_per_forest
def leaf_of_turn(forest: Forest) -> Ints:
    """Return the row of the leaf that holds each turn, -1 for a turn in none; shape (n,). Leaves of facts hold none."""
    out = np.full(len(forest.turns.ids), -1, dtype=np.int64)
    leaves = np.flatnonzero((forest.kind != FACT) & (forest.kind != INNER))
    first, end = forest.item[leaves], forest.item_end[leaves]
    out[ranges(first, end)] = np.repeat(leaves, end - first)
    return out


@once_per_forest
def leaf_counts(forest: Forest) -> Ints:
    """Return the number of leaves at or below every node."""
    leaf = (forest.kind != INNER).astype(np.float64)
    return sums_below(leaf, forest.parent, forest.level).astype(np.int64)


def turns_beneath(snapshot: Snapshot, forest: Forest, node: int) -> Ints:
    """Return the rows of the turns beneath a node, each once, by session and position.

    Beneath a leaf that stands for a fact are all turns that support the fact.

    Args:
        snapshot: of the memory.
        forest: one of its forests.
        node: row of the node in the forest.
    """
    leaves = leaves_beneath(forest, node)
    facts = forest.item[leaves[forest.kind[leaves] == FACT]]
    chunks = leaves[forest.kind[leaves] != FACT]
    told = snapshot.turns_of_fact.of_rows(facts)
    return np.unique(np.concatenate([told, ranges(forest.item[chunks], forest.item_end[chunks])]))


def leaves_beneath(forest: Forest, node: int) -> Ints:
    """Return the rows of the leaves beneath a node; the node itself if it is one."""
    below, nodes = forest.children, np.array([node], dtype=np.int64)
    found = [nodes[:0]]
    while len(nodes):
        found.append(nodes[forest.kind[nodes] != INNER])
        nodes = below.of_rows(nodes)
    return np.concatenate(found)


def allowed_nodes(snapshot: Snapshot, forest: Forest, request: Search) -> Flags:
    """Return which nodes of a forest pass the time filters, by the leaves beneath them; shape (N,).

    A summary tells of all of its leaves. So `as_of_ms` keeps a node only if every leaf was so at that instant: a node
    with one later leaf would tell what came after. `during_ms` keeps a node if a leaf of it overlaps the window.
    A leaf that holds turns was so if all its turns pass, and all the facts that they support. Of an earlier moment no node
    is kept whose summary tells more than was held then.
    """
    kept = np.ones(len(forest.ids), dtype=np.bool_)
    kept[forest.torn] = False
    leaf = forest.kind != INNER
    if request.as_of_ms is not None:
        every, _ = _leaves_that_pass(snapshot, forest, replace(request, during_ms=None))
        kept &= forest.ascent.sums((leaf & ~every).astype(np.float64)) == 0
    if request.during_ms is not None:
        _, some = _leaves_that_pass(snapshot, forest, request)
        kept &= forest.ascent.sums((leaf & some).astype(np.float64)) > 0
    return kept


def _leaves_that_pass(snapshot: Snapshot, forest: Forest, request: Search) -> tuple[Flags, Flags]:
    """Return the leaves that pass the filters in full, and those that pass in part; False for inner nodes."""
    keep, pairs = allowed(snapshot, request), snapshot.facts.pairs
    whole = keep.turns.copy()
    whole[pairs[~keep.facts[pairs[:, 0]], 1]] = False
    every, some = np.zeros(len(forest.ids), dtype=np.bool_), np.zeros(len(forest.ids), dtype=np.bool_)
    leaf = forest.kind != INNER
    facts, chunks = np.flatnonzero(forest.kind == FACT), np.flatnonzero(leaf & (forest.kind != FACT))
    every[facts] = some[facts] = keep.facts[forest.item[facts]]
    length = forest.item_end[chunks] - forest.item[chunks]
    for flags, out, least in ((whole, every, length), (keep.turns, some, 1)):
        before = np.r_[0, np.cumsum(flags)]
        out[chunks] = before[forest.item_end[chunks]] - before[forest.item[chunks]] >= least
    return every, some
