"""A paced index for tests: a tree a session, every turn a leaf with a text of its own, and all texts made by `advance` alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

from memforest.errors import ModelError
from memforest.nodes import Node, TreeHead
from memforest.records import SummaryRequest
from memforest.store import trees as tree_rows
from memforest.store.connections import Tx
from memforest.store.indexes import Items, Kind
from memforest.store.trees import SqliteArena, placements
from memforest.times import from_ms
from memforest.trees.flat import FlatIndex
from memforest.trees.index import Host, Placed, Placing
from memforest.trees.node import delete, insert
from memforest.trees.refresh import NodeWork, inputs_of

__all__ = ["Diary", "DiaryPlacing", "Prompted", "dirty_nodes", "make_all", "works"]

Act = Callable[[Host], Awaitable[None]]
PROMPTS = ("segment", "session", "day", "week", "profile")


class Prompted:
    """Answers with the first words of what it is given; notes what it was asked, and fails where it is told to."""

    name = "prompted"
    remote = False

    def __init__(self) -> None:
        self.asked: list[SummaryRequest] = []
        self.versions = Counter(dict.fromkeys(PROMPTS, 1))
        self.fails: dict[str, ModelError] = {}
        self.kind: type[str] = str

    def maker_of(self, request: SummaryRequest) -> str:
        """Return the name of a prompt with its version."""
        return f"{request.prompt}@{self.versions[request.prompt]}:prompted" if request.prompt else self.name

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Answer each; an error stands for what contains its key."""
        self.asked += requests
        found: list[str | ModelError] = []
        for one in requests:
            said = " ".join(one.inputs)
            wrong = [error for word, error in self.fails.items() if word in said or word == one.prompt]
            found.append(wrong[0] if wrong else self.kind(f"{one.prompt}: {said[:60]}"))
        return found


class DiaryPlacing(Placing):
    """Places turns; see `Diary`."""

    def __init__(self, tx: Tx) -> None:
        self._tx, self._arena = tx, SqliteArena(tx, ("turn",))
        self._heads: dict[int, TreeHead] = {}

    def leave(self, items: Items) -> None:
        """Take turns out."""
        for turn in items.get("turn", ()):
            for tree, leaf in placements(self._tx, "diary", "turn", turn):
                scope = tree_rows.head_of(self._tx, tree)[1]
                self._heads[scope] = delete(self._arena, self._head(scope), self._arena.get(leaf).key)

    def place(self, items: Items) -> None:
        """Place those that have no place yet."""
        for turn in items.get("turn", ()):
            row = self._tx.execute(
                "SELECT session, ordinal, said_ms FROM turn WHERE id = ?", (turn,)
            ).fetchone()
            if row is None or placements(self._tx, "diary", "turn", turn):
                continue
            session, ordinal, said = row
            [sid] = self._tx.execute("SELECT session_id FROM session WHERE id = ?", (session,)).fetchone()
            key = (said, f"{sid}\x1f{ordinal:06}")
            self._heads[session], _ = insert(
                self._arena,
                self._head(session),
                key=key,
                start_ms=said,
                end_ms=said + 1,
                item_kind="turn",
                item=turn,
            )

    def _head(self, scope: int) -> TreeHead:
        if scope not in self._heads:
            found = tree_rows.find_head(self._tx, "diary", "talk", scope)
            self._heads[scope] = found or tree_rows.put_head(self._tx, "diary", "talk", scope, TreeHead(0, 3))
        return self._heads[scope]

    def close(self) -> Placed:
        """Write everything back."""
        self._arena.flush()
        for scope, head in self._heads.items():
            tree_rows.put_head(self._tx, "diary", "talk", scope, head)
        return Placed(self._arena.written, frozenset(head.tree for head in self._heads.values()))


class Diary(FlatIndex):
    """A tree a session over its turns, each with a text; they are made by `advance`, or by what a test does there."""

    name, follows = "diary", frozenset[Kind]({"turn"})
    deferred = True
    paced = True
    act: ClassVar[Act | None] = None
    """Done once behind the next placing, in the place of making what is due."""
    reopened: ClassVar[list[set[int]]] = []
    occasions: ClassVar[list[str]] = []
    words: ClassVar[int] = 30

    def placing(self, tx: Tx) -> DiaryPlacing:
        """Begin to place."""
        return DiaryPlacing(tx)

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Return the requests of nodes, each with the prompt of its level."""
        return [
            NodeWork(
                node.id,
                SummaryRequest(
                    "talk",
                    "talk",
                    from_ms(node.start_ms),
                    from_ms(node.end_ms),
                    inputs[node.id],
                    max_words=Diary.words * (node.level + 1),
                    level=node.level,
                    prompt=PROMPTS[node.level],
                ),
                words=True,
            )
            for node in nodes
        ]

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return how many texts there are by level, and what is no number."""
        found = tx.execute(
            """SELECT n.level, count(*) FROM derived_summary d JOIN node n ON n.id = d.node
               JOIN tree t ON t.id = n.tree AND t.owner = 'diary' GROUP BY n.level"""
        )
        return {"texts": {PROMPTS[level]: count for level, count in found}, "state": "fine", "on": True}

    def reopen(self, tx: Tx, nodes: Collection[int]) -> None:
        """Note which nodes are to be made anew."""
        Diary.reopened.append(set(nodes))

    async def advance(self, host: Host, until: int) -> None:
        """Place, and make all texts, or do once what a test wants."""
        await super().advance(host, until)
        Diary.occasions.append(host.occasion)
        if (act := Diary.act) is not None:
            Diary.act = None
            await act(host)
        else:
            await make_all(host)


def dirty_nodes(tx: Tx) -> list[Node]:
    """Return the index's dirty nodes, from the leaves up."""
    ids = [
        row[0]
        for row in tx.execute(
            "SELECT n.id FROM node n JOIN tree t ON t.id = n.tree WHERE n.dirty AND t.owner = 'diary' ORDER BY n.level, n.id"
        )
    ]
    found = tree_rows.nodes_with_ids(tx, ids)
    return [found[node] for node in ids]


def works(tx: Tx, levels: Collection[int] = range(9)) -> list[NodeWork]:
    """Return the work of the dirty nodes of some levels, whatever is out of date below them."""
    nodes = [node for node in dirty_nodes(tx) if node.level in levels]
    return Diary().work(tx, nodes, inputs_of(tx, nodes))


async def make_all(host: Host) -> dict[int, str]:
    """Make everything that can be, level by level; return why the rest could not be."""
    reasons: dict[int, str] = {}
    for level in range(6):
        reasons |= await host.consolidate(lambda tx, level=level: works(tx, (level,)))  # type: ignore[misc]
    return reasons
