"""The base class of indexes, `Index`, and what passes between a memory and its indexes.

An index is a way to read what was said. It is listed in `memforest.trees.attached`; nothing else outside of this room names it.
Its trees are grown from a snapshot and stored nowhere. `Host` is its access to models, other threads and missing summaries, for
work that may wait. What a search passes is in `memforest.search.filters`.

Here are also the modes of a query, and the parts of a browse plan that are used (paper §4.3, §6.2). Inner nodes as
evidence are here too: their turns, and whether they pass the time filters.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from memforest.config import MODES
from memforest.errors import BudgetError, ConfigError, ModelRequestError, ModelUnavailableError, StepError
from memforest.ports import FoundLine
from memforest.reading.steps import Steps
from memforest.records import BrowsePlan, QuestionKind, QuestionPlan
from memforest.search.cache import digests_of, forest_of
from memforest.search.filters import IndexResult, Prepared, RefineCandidate, Refinement, Search, allowed
from memforest.search.forest import FACT, INNER, Digests, Forest, as_keys, once_per_forest
from memforest.search.snapshot import Snapshot, ranges
from memforest.settings import NoSettings
from memforest.store import artifacts
from memforest.store.connections import Tx
from memforest.text import cut, lexical_tokens
from memforest.trees.kernel import Growth, problems
from memforest.trees.refresh import IndexPlan, NodeWork
from memforest.trees.texts import Finish, node_digests, said_of, salts

T = TypeVar("T")

ChooseRows = Callable[[Tx, Snapshot, Forest], Collection[int]]
"""Names rows of an index's forest, in a read transaction of the snapshot's state."""


class Host(Protocol):
    """One memory, as an index may use it outside of a transaction. What it asks models counts for the operation."""

    @property
    def now(self) -> datetime:
        """The present, by the memory's clock."""

    @property
    def question(self) -> str:
        """The question's text, for steps that write for it; empty outside of a query."""

    @property
    def steps(self) -> Steps:
        """The steps that models do."""

    @property
    def embeds(self) -> bool:
        """Whether texts can be embedded here and now."""

    async def read(self, work: Callable[[Tx, Snapshot], T]) -> T:
        """Run work in a read transaction, with the snapshot of its state, in another thread."""

    async def look(self, work: Callable[[Tx], T]) -> T:
        """Run work in a read transaction alone, in another thread; for what needs no snapshot."""

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run work in a write transaction, in another thread; what it wrote is undone if it raises.

        Other writers come in between two of them, so each is to be short: a tenth of a second, or one leaf.
        """

    async def ensure_fresh(self, index: Index, choose: ChooseRows | None = None) -> list[str]:
        """Have the missing summaries of an index made before they are read, with all that they are made of.

        What it costs counts for the operation. What cannot be made is left.

        Args:
            index: whose summaries.
            choose: names the rows of its forest that are read, in a read transaction; all without it.

        Returns:
            Why some of them could not be made.
        """

    async def embed_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each text, as questions are embedded, shape (n, d).

        Raises:
            ModelError: if the embedder fails, or there is none.
        """

    async def read_questions(self, texts: Sequence[str]) -> list[Search]:
        """Return further questions as the one that is asked was read: planned by rules, embedded, with its options.

        Raises:
            InputError: outside of a query.
            StepError: if what the planner returns is no plan.
        """

    def timed(self, step: str) -> AbstractContextManager[None]:
        """Add the wall time of the block to a step of the operation's usage."""


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
    since: tuple[int, ...] = ()
    said_since: int = 0
    warnings: tuple[str, ...] = ()


MOST_ROUNDS = 4
"""Times that an index may rank anew for one question."""


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
    """One way to organise a memory and to find evidence in it. All indexes read the same stored items.

    An index is an object of settings alone: its trees are grown from a snapshot, and the snapshot keeps them.
    """

    name: str
    profiles = False
    """Whether it keeps profiles of those who take part; see `profile`."""
    paced = False
    """Whether its summaries are made at times of their own (`due`); they are no work that is left undone until then."""
    roots_differ = True
    """Whether the summary of a root is asked for otherwise than those of other nodes."""
    reads_store = False
    """Whether its requests are made of more than the texts below a node, in a transaction of the snapshot's state."""
    Settings: type[Any] = NoSettings
    """A frozen dataclass, of which the fields named in its ``KEPT`` are kept in the file from the first write on."""

    def __init__(self, settings: Any = None) -> None:
        self.settings = self.Settings() if settings is None else settings

    @abstractmethod
    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every candidate turn, best first; deterministic for equal inputs."""

    @property
    def grows_by_artifacts(self) -> bool:
        """Whether its trees depend on what was made of them, too; see `ready`."""
        return False

    def grow(self, tx: Tx, snapshot: Snapshot, old: Forest | None) -> Forest:
        """Return its trees of a snapshot, which follow from the snapshot alone; by default there are none.

        Args:
            tx: a read transaction of the snapshot's state.
            snapshot: the turns and facts.
            old: its trees of an earlier snapshot, of which it may take over what would be the same.
        """
        return Growth(self.name, snapshot, (), ()).forest()

    def names(self, snapshot: Snapshot, forest: Forest) -> list[str]:
        """Return the name of what each tree is of; by default the numbers of the scopes."""
        return [str(scope) for scope in forest.tree_scope.tolist()]

    def labels(self, snapshot: Snapshot, forest: Forest) -> list[str]:
        """Return what a summariser is told that each tree is of: the same in every memory that holds the same."""
        return self.names(snapshot, forest)

    def titles(self, tx: Tx, snapshot: Snapshot, forest: Forest) -> list[str]:
        """Return the titles of trees for lists: kind, name, and what sets each apart."""
        named = self.names(snapshot, forest)
        return [f"{kind} {name}" for kind, name in zip(forest.tree_kind, named, strict=True)]

    def asked(self) -> tuple[object, ...]:
        """Return the settings that change what a summary says, for its digest."""
        return ()

    def digests(self, tx: Tx, snapshot: Snapshot, forest: Forest) -> Digests:
        """Return what each node says, as far as that follows from what is stored, shape (N, 2)."""
        named = self.labels(snapshot, forest)
        salt = salts(forest, (self.name, *self.asked()), named, of_root=self.roots_differ)
        return node_digests(said_of(tx, snapshot), forest, salt, self.finish(tx, snapshot, forest))

    def finish(self, tx: Tx, snapshot: Snapshot, forest: Forest) -> Finish | None:
        """Return what mixes into digests what nodes are made of besides their children; None if that is nothing."""
        return None

    def asks_for(self, tx: Tx, snapshot: Snapshot) -> set[bytes]:
        """Return the digests of all artifacts that the trees of a snapshot may ask for."""
        forest = forest_of(tx, snapshot, self)
        return set(as_keys(digests_of(tx, snapshot, self)[forest.told]))

    def made_of(self, forest: Forest, row: int) -> Sequence[int]:
        """Return the rows whose texts a node's summary is made of; by default its children."""
        return forest.children[row]

    def due(self, forest: Forest, now_ms: int | None) -> NDArray[np.bool_] | None:
        """Return which summaries are to be made by an instant, or by what was said last if that is None; None for all."""
        return None

    def requests(self, tx: Tx, plan: IndexPlan, rows: Sequence[int], *, remote: bool) -> list[NodeWork]:
        """Return how to make the summaries of nodes, which all are to have one.

        Args:
            tx: a read transaction.
            plan: what the nodes are of, with the texts of all in `made_of`.
            rows: the nodes.
            remote: whether a model writes them.
        """
        return []

    async def ready(self, host: Host) -> Sequence[str]:
        """Have made what its trees are grown by, where that is more than what is stored; return why some could not be."""
        return ()

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Prepare a question outside of a transaction: ask models, browse, have summaries made.

        Returns:
            The question as it is to be ranked, and warnings. By default all of it as it was given.
        """
        return Prepared(request, warnings=not_browsed(request, self.name))

    async def refine(
        self, host: Host, request: Search, found: Sequence[RefineCandidate]
    ) -> Refinement | None:
        """Look at the first candidates, and rank again, or drop some; None leaves them as they are.

        It is asked again for what ranking again found, at most `MOST_ROUNDS` times.
        """
        return None

    def profile(self, tx: Tx, snapshot: Snapshot, request: ProfileRequest) -> FoundProfile:
        """Return the profile that is in force by the instants of a request; of an index with `profiles` alone.

        Raises:
            NotFoundError: if nobody of that name takes part.
        """
        return FoundProfile()

    def node_names(self, snapshot: Snapshot, forest: Forest, rows: Collection[int]) -> Mapping[int, str]:
        """Return the names of nodes for drawings, by row; nodes without a name are left out."""
        return {}

    def check(self, forest: Forest) -> list[str]:
        """Return everything that is wrong with its trees."""
        return problems(forest)

    def stats(self, tx: Tx, snapshot: Snapshot) -> dict[str, Any]:
        """Return its own counts, besides those that every index has."""
        return {}

    def notes(self, tx: Tx) -> list[str]:
        """Return notes for the user: what the index lacks, and why."""
        return []


Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def ready_rows(tx: Tx, snapshot: Snapshot, index: Index, rows: Sequence[int]) -> dict[int, str]:
    """Return the summaries of those of some nodes that have one, by row."""
    if not len(rows) or not artifacts.any_stored(tx):
        return {}
    keys = dict(
        zip(rows, as_keys(digests_of(tx, snapshot, index)[np.array(rows, dtype=np.int64)]), strict=True)
    )
    told = artifacts.texts(tx, set(keys.values()))
    return {row: told[key] for row, key in keys.items() if told.get(key)}


@once_per_forest
def leaf_of_turn(forest: Forest) -> Ints:
    """Return the row of the leaf that holds each turn, -1 for a turn in none; shape (n,). Leaves of facts hold none."""
    out = np.full(len(forest.turns.ids), -1, dtype=np.int64)
    leaves = np.flatnonzero((forest.kind != FACT) & (forest.kind != INNER))
    first, end = forest.item[leaves], forest.item_end[leaves]
    out[ranges(first, end)] = np.repeat(leaves, end - first)
    return out


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
    kept = np.ones(len(forest), dtype=np.bool_)
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
    every, some = np.zeros(len(forest), dtype=np.bool_), np.zeros(len(forest), dtype=np.bool_)
    leaf = forest.kind != INNER
    facts, chunks = np.flatnonzero(forest.kind == FACT), np.flatnonzero(leaf & (forest.kind != FACT))
    every[facts] = some[facts] = keep.facts[forest.item[facts]]
    length = forest.item_end[chunks] - forest.item[chunks]
    for flags, out, least in ((whole, every, length), (keep.turns, some, 1)):
        before = np.r_[0, np.cumsum(flags)]
        out[chunks] = before[forest.item_end[chunks]] - before[forest.item[chunks]] >= least
    return every, some
