"""Deferred indexes: whatever verb writes, they are advanced behind it, and what goes leaves them at once, also when they lag."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.dummy_index.index import Dummy
from tests_long.shelf import ShelfIndex
from tests_long.worlds import CLOCK, fast_config, file_of, rows, said

from memforest import MemForest
from memforest.memory.blocking import UserMemory
from memforest.models import HashEmbedder
from memforest.store.connections import Tx
from memforest.store.indexes import Items
from memforest.trees import attached
from memforest.trees.index import Host, Placed, Placing

NAMES = ("dummy", "shelf")


@dataclass
class Watch:
    """Whether advancing fails, how often it was asked for, and what placings did: (index, call, kinds)."""

    away: bool = False
    advanced: int = 0
    calls: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)


@dataclass
class Watched(Placing):
    """A placing that notes what is done with it."""

    name: str
    inner: Placing
    watch: Watch

    def leave(self, items: Items) -> None:
        """Take items out."""
        self.watch.calls.append((self.name, "leave", tuple(items)))
        self.inner.leave(items)

    def place(self, items: Items) -> None:
        """Place items."""
        self.watch.calls.append((self.name, "place", tuple(items)))
        self.inner.place(items)

    def close(self) -> Placed:
        """Write back."""
        self.watch.calls.append((self.name, "close", ()))
        return self.inner.close()


def deferred(kind: type[Any], watch: Watch) -> type[Any]:
    """Return an index that is placed by `advance` alone, and watched."""

    class Deferred(kind):  # type: ignore[misc]
        deferred = True

        def placing(self, tx: Tx) -> Placing:
            return Watched(self.name, super().placing(tx), watch)

        async def advance(self, host: Host, until: int) -> None:
            watch.advanced += 1
            if watch.away:
                raise RuntimeError("the model is away")
            await super().advance(host, until)

    return Deferred


@pytest.fixture(autouse=True)
def watch() -> Iterator[Watch]:
    """The tree of all facts, with summaries, and the trees of turns, chunks and facts are known as deferred indexes."""
    state = Watch()
    for kind in (Dummy, ShelfIndex):
        made = deferred(kind, state)
        attached.INDEXES[made.name] = made
    yield state
    for name in NAMES:
        attached.INDEXES.pop(name, None)


def config(**settings: Any) -> Any:
    """Return a configuration with these indexes beside the package's own."""
    return fast_config(indexes=("memforest", *NAMES), **settings)


def fill(forest: MemForest, user: str = "u") -> UserMemory:
    """Return a memory with two sessions, and summaries."""
    bought = [f"I bought {n + 2} tents of kind {n} in Oslo." for n in range(9)]
    forest.ingest_session(user, "s0", said(*bought, "Bob lives in Davis.", "I live in Miami."))
    forest.ingest_session(user, "s1", said("I work at Acme.", "Bob bought a boat.", day=9))
    forest.flush()
    return forest.user(user)


def fact(memory: UserMemory, text: str) -> str:
    """Return the id of the statement with some words."""
    return next(one.fact_id for one in memory.list(limit=99).facts if text in one.text)


VERBS: dict[str, Callable[[UserMemory], object]] = {
    "add": lambda memory: memory.add(said("I moved to Lisbon.", day=20)[0]),
    "delete fact": lambda memory: memory.delete(fact(memory, "kind 3")),
    "delete turn": lambda memory: memory.delete(turn=("s0", "2")),
    "delete session": lambda memory: memory.delete(session_id="s1"),
    "delete entity": lambda memory: memory.delete(entity="Bob"),
    "delete during": lambda memory: memory.delete(during=(None, "2023-05-02")),
    "update": lambda memory: memory.update(fact(memory, "kind 4"), "Ana bought a lamp."),
    "forget": lambda memory: memory.forget(fact(memory, "kind 5")),
    "undo": lambda memory: memory.undo(memory.forget(fact(memory, "kind 6")).key),
    "pin": lambda memory: memory.pin(fact(memory, "kind 7")),
    "rebuild": lambda memory: memory.rebuild(),
    "rebuild scopes": lambda memory: memory.rebuild(scopes=True),
    "rebuild stale": lambda memory: memory.rebuild(stale=True),
    "rebuild own": lambda memory: memory.rebuild(index="dummy"),
    "resume": lambda memory: memory.advance(),
    "repair": lambda memory: memory.repair(),
}


def lags(memory: UserMemory) -> dict[str, int]:
    """Return how many notes the indexes have not placed."""
    return {one.name: one.lag for one in memory.indexes()}


LEVEL = dict.fromkeys(("memforest", *NAMES), 0)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_writes_advances_them(folder: Path, watch: Watch, verb: str) -> None:
    """When it returns they are up to date, and sound."""
    with MemForest(folder, config()) as forest:
        memory = fill(forest)
        watch.advanced = 0
        VERBS[verb](memory)
        assert watch.advanced
        assert lags(memory) == LEVEL
        report = memory.verify()
        assert report.ok, report.problems


def test_what_takes_in_another_memory_advances_them(folder: Path, watch: Watch) -> None:
    """A merge, and an import whose trees are made anew here; a session that is overwritten, and one that expires."""
    now = [CLOCK]
    with MemForest(folder, config(clock=lambda: now[0], retention="500 days")) as forest:
        memory = fill(forest)
        forest.ingest_session("other", "s7", said("I live in Kyoto.", "I sold the boat.", day=20))
        for write in (
            lambda: memory.merge("other"),
            lambda: forest.ingest_session("u", "s1", said("I work at Globex.", day=9), replace=True),
            lambda: now.__setitem__(0, CLOCK + timedelta(days=120)),
            memory.expire,
        ):
            write()
            assert lags(memory) == LEVEL
            assert memory.verify().ok
        assert [one.session_id for one in memory.sessions()] == ["s7"]
        memory.export(folder / "x.jsonl")
        copy = forest.user("copy")
        copy.import_(folder / "x.jsonl")
        assert lags(copy) == LEVEL
        assert copy.verify().ok


def test_vectors_that_come_later_advance_them(folder: Path) -> None:
    """Facts are noted when they get vectors: by another index's rebuild, and with another embedder."""
    with MemForest(folder, config(embedder="none")) as forest:
        fill(forest)
    for embedder, how in ((HashEmbedder(32), {"index": "memforest"}), (HashEmbedder(48), {"embedder": True})):
        with MemForest(folder, config(embedder=embedder)) as forest:
            forest.user("u").rebuild(**how)
            assert lags(forest.user("u")) == LEVEL
            assert forest.user("u").verify().ok


def test_their_summaries_are_made_with_the_write(folder: Path) -> None:
    """Where the policy is to make those above what a write wrote, although they are placed behind it."""
    with MemForest(folder, config(refresh="path")) as forest:
        fill(forest)
        result = forest.ingest_session("u", "s2", said("I sold the lamp.", day=10))
        assert (result.nodes_dirty, forest.user("u").stats().dirty_nodes) == (0, 0)


def test_one_that_lags_is_told_what_goes(folder: Path, watch: Watch) -> None:
    """In the deleting transaction: `leave`, then `close`, and no `place`; what it has placed of it is gone with the commit.

    The summaries above it are deleted too, and it goes on later from where it stood.
    """
    with MemForest(folder, config()) as forest:
        memory = fill(forest)
        cursors = "SELECT name, cursor FROM index_ WHERE name != 'memforest' ORDER BY name"
        watch.away = True
        forest.ingest_session("u", "s2", said("I sold the tents.", day=11))
        behind = rows(file_of(folder), cursors)
        assert all(lags(memory)[name] for name in NAMES)
        gone = fact(memory, "kind 3")
        watch.calls.clear()
        memory.delete(gone)
        for name in NAMES:
            calls = [call for index, call, _ in watch.calls if index == name]
            assert set(calls[:-1]) == {"leave"}
            assert calls[-1] == "close"
        assert rows(file_of(folder), cursors) == behind
        assert all(lags(memory)[name] for name in NAMES)
        assert memory.verify(deleted=["of kind 3"]).ok
        told = """SELECT count(*), count(d.node) FROM node n JOIN tree t ON t.id = n.tree AND t.owner = 'dummy'
            LEFT JOIN derived_summary d ON d.node = n.id WHERE n.dirty"""
        [(dirty, summaries)] = rows(file_of(folder), told)
        assert dirty > 0 == summaries
        watch.away = False
        forest.resume("u")
        assert lags(memory) == LEVEL
        assert memory.verify(deleted=["of kind 3"]).ok
