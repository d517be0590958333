"""Doubles that place and summarise by tags ("#kayak"), and the tree and the texts that they are to lead to."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.doubles import placing_reply
from tests_long.worlds import fast_config, file_of, rows

from memforest import Config, MemForest
from memforest.errors import ModelError
from memforest.memory.results import VerifyReport
from memforest.testing import FunctionChat
from memforest.tree import DictArena, TreeHead, outline
from memforest.tree.segment import NewLeaf, choices, frontier, insert
from memforest.types import PlaceRequest, SummaryRequest

POLICIES = ("lazy", "path", "selected", "append")
MODELS = ("pointwise", "batch", "own")
"""Placers that are asked."""


def tags(text: str) -> tuple[str, ...]:
    """Return the tags of a text, in the order of their first places."""
    return tuple(dict.fromkeys(re.findall(r"#\w+", text)))


def told(*texts: str) -> str:
    """Return what a stretch of these texts says."""
    return f"It is about {' '.join(tags(' '.join(texts)))}."


def by_tag(request: PlaceRequest) -> int | None:
    """Return the narrowest candidate that shares a tag."""
    said = set(tags(request.text))
    return next((at for at, text in enumerate(request.candidates) if said & set(tags(text))), None)


def talk(count: int, seed: int = 1, *, topics: int = 12) -> list[str]:
    """Return what is said, a turn each: a subject goes on for some turns, and old ones come back."""
    random, said, at = Random(seed), [], 0
    for number in range(count):
        if random.random() < 0.3:
            at = random.randrange(topics)
        said.append(f"Remark {number} on #topic{at}.")
    return said


def turns_of(texts: Sequence[str], *, hour: int = 0) -> list[dict[str, Any]]:
    """Return turns of two speakers, a minute apart."""
    base = 1_700_000_000 + 3600 * hour
    return [
        {"id": f"t{at}", "speaker": "AB"[at % 2], "content": text, "timestamp": base + 60 * at}
        for at, text in enumerate(texts)
    ]


class Teller:
    """A summariser that tells of the tags; counts its requests, and fails on what it is told to."""

    name = "teller@1"
    remote = True

    def __init__(self, fails: Callable[[SummaryRequest], ModelError | None] = lambda _: None) -> None:
        self.requests: list[SummaryRequest] = []
        self.fails = fails
        self.words = ""
        """What is told as well where it was said."""

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Tell what each is about."""
        self.requests += requests
        return [self.fails(one) or self._tell((*one.history, *one.inputs)) for one in requests]

    def _tell(self, texts: Sequence[str]) -> str:
        found = told(*texts)
        return f"{found} {self.words}" if self.words and any(self.words in text for text in texts) else found


@dataclass
class Choosing:
    """A `Placer` by a rule, which keeps what it was asked."""

    rule: Callable[[PlaceRequest], Any] = by_tag
    name: str = "chooser@1"
    asked: list[PlaceRequest] = field(default_factory=list)

    async def place(self, request: PlaceRequest) -> Any:
        """Choose."""
        self.asked.append(request)
        await asyncio.sleep(0)
        found = self.rule(request)
        return await found if inspect.isawaitable(found) else found


@dataclass
class Setup:
    """The doubles of one memory, and its configuration."""

    placer: str = "own"
    annotate: str = "lazy"
    rule: Callable[[PlaceRequest], Any] = by_tag
    teller: Teller = field(default_factory=Teller)
    settings: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chooser = Choosing(self.rule)
        self.chat = FunctionChat(placing_reply(self._chosen))

    def _chosen(self, request: PlaceRequest) -> int | None:
        self.chooser.asked.append(request)
        found: int | None = self.rule(request)
        return found

    @property
    def asked(self) -> list[PlaceRequest]:
        """What was asked so far, a call each."""
        return self.chooser.asked

    @property
    def config(self) -> Config:
        """A memory with this index alone, a leaf a turn."""
        own = {"placer": self.placer, "annotate": self.annotate, "leaves": "turns", "fan_out_max": 0}
        return fast_config(
            **{
                "indexes": ("segtree",),
                "index_settings": {"segtree": own | self.settings},
                "summariser": self.teller,
                "refresh": "lazy",
                "chat": self.chat,
                "chat_steps": ("place",),
                "placer": self.chooser,
                **self.more,
            }
        )

    def open(self, folder: Path) -> MemForest:
        """Open the memory."""
        return MemForest(folder, self.config)


def say(forest: MemForest, texts: Sequence[str], session: str = "s", *, hour: int = 0) -> tuple[str, ...]:
    """Store turns, and return the warnings."""
    return forest.ingest_session("u", session, turns_of(texts, hour=hour), infer=False).warnings


def shape(folder: Path) -> str:
    """Return the stored tree as nested brackets around the numbers in the turns' texts ("Remark 7")."""
    kids = {row[0]: row[1] for row in rows(file_of(folder), _CHILDREN)}
    said = {row[0]: re.findall(r"\d+", row[1])[0] for row in rows(file_of(folder), _LEAVES)}
    return _drawn(kids, said, folder)


_LEAVES = "SELECT l.id, t.text FROM leaf l JOIN tree x ON x.id = l.tree AND x.owner = 'segtree' JOIN turn t ON t.id = l.turn"
_CHILDREN = "SELECT n.id, n.children FROM node n JOIN tree x ON x.id = n.tree AND x.owner = 'segtree' WHERE n.level > 0"


def _drawn(kids: dict[int, bytes], said: dict[int, str], folder: Path) -> str:
    from memforest.store.packing import unpack_ids

    def draw(node: int) -> str:
        if node in said:
            return said[node]
        return "[" + " ".join(draw(kid) for kid in unpack_ids(kids[node])) + "]"

    [root] = rows(file_of(folder), "SELECT root FROM tree WHERE owner = 'segtree'")
    return draw(root[0])


def makers(folder: Path) -> dict[str | None, int]:
    """Return how many exchanges each has placed; None are those that wait."""
    return dict(rows(file_of(folder), "SELECT maker, count(*) FROM ix_segtree_exchange GROUP BY 1"))


def leaves(folder: Path) -> list[int]:
    """Return the turns of the leaves, in no order: each is to be there once."""
    return sorted(row[0] for row in rows(file_of(folder), "SELECT turn FROM leaf"))


def checked(forest: MemForest) -> VerifyReport:
    """Return the report of a memory that is to be sound."""
    report = forest.user("u").verify()
    assert report.ok, report.problems[:3]
    return report


def expected(
    texts: Sequence[str], annotate: str, rule: Callable[[PlaceRequest], int | None] = by_tag
) -> tuple[str, list[PlaceRequest]]:
    """Return the tree that a rule leads to, as `shape` does, and what a placer is asked on the way, by the definition."""
    arena, head = DictArena(), TreeHead(tree=1, k=0)
    says: dict[int, str] = {}
    asked: list[PlaceRequest] = []
    for at, text in enumerate(texts):
        line = f"{'AB'[at % 2]}: {text}"
        open_ = choices(frontier(arena, head))
        picked = None
        if open_:
            asked.append(PlaceRequest(line, tuple(says[one.node.id] for one in open_)))
            picked = rule(asked[-1])
        level = None if picked is None else open_[picked].level
        if level is None and head.height >= 12:
            level = head.height
        number = int(re.findall(r"\d+", text)[0])
        grown = insert(arena, head, NewLeaf((number, ""), at, at + 1, "turn", at), level)
        head = grown.head
        says[grown.leaf.id] = line
        for node in grown.above[:1] if annotate == "selected" else grown.above:
            says[node.id] = told(*(says[kid] for kid in node.children))
    return outline(arena, head), asked
