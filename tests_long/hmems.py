"""Trees of the index hmem as they are, and as they must be, worked out one event after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests_long.worlds import fast_config, file_of, transaction

from memforest import Config, UserMemory
from memforest.reading.periods import window_of
from memforest.reading.timestamps import zone_named
from memforest.search.cache import digests_of, forest_of
from memforest.search.forest import FACT, Forest, as_keys
from memforest.search.snapshot import load_snapshot
from memforest.store import artifacts
from memforest.store.derived import unpack_vectors
from memforest.store.reads import muted_turns
from memforest.times import from_ms
from memforest.trees.attached import Attached
from memforest.trees.hmem_grow import CAP, SCHEDULES

__all__ = [
    "CAP",
    "NAME",
    "Event",
    "Node",
    "Shape",
    "configured",
    "events",
    "expected",
    "live",
    "shape",
    "sound",
    "texts",
]

NAME = "hmem"
SCHEDULE = tuple(SCHEDULES["loose"])
UNITS = ("week_of_month", "month", "year")
DAY_MS = 86_400_000
Node = tuple[int, str]
"""A level, and the event that began the node."""
Shape = dict[Node, tuple[str | None, str | None]]
"""Node -> the event that began the node above it, and its window."""


class Event(NamedTuple):
    """A statement or turn as it is stored: its identity, its place in the order of telling, and its vector."""

    name: str
    place: tuple[int, int, str]
    vector: Any


def configured(own: Mapping[str, Any] | None = None, **more: Any) -> Config:
    """Return the configuration of a memory with this index, with settings of the index."""
    settings = {"schedule": "loose", **(own or {})}
    return fast_config(**{"indexes": (NAME,), "index_settings": {NAME: settings}, **more})


_PLACES = """WITH place AS (SELECT id, row_number() OVER (ORDER BY said_ms, begin, session_id, ordinal) AS place FROM
    (SELECT t.*, s.session_id, min(t.said_ms) OVER (PARTITION BY s.id) AS begin FROM turn t JOIN session s ON s.id = t.session))"""
_FACTS = f"""{_PLACES} SELECT f.id, f.fact_id, f.said_ms, min(p.place), v.vector FROM fact f
    JOIN derived_fact_vector v ON v.item = f.id JOIN occurrence o ON o.fact = f.id JOIN occurrence_turn x ON x.occurrence = o.id
    JOIN place p ON p.id = x.turn WHERE f.verdict < 2 GROUP BY f.id"""
_TURNS = f"""{_PLACES} SELECT t.id, s.session_id || '/' || t.turn_id, t.said_ms, p.place, v.vector FROM turn t
    JOIN session s ON s.id = t.session JOIN place p ON p.id = t.id JOIN derived_turn_vector v ON v.item = t.id"""


def events(folder: Path, kind: str = "facts") -> list[Event]:
    """Return the statements, or the turns, that may be shown and have a vector, in the order in which they were told."""
    with transaction(file_of(folder)) as tx:
        hidden = set(muted_turns(tx)) if kind == "turns" else set()
        found = tx.execute(_FACTS if kind == "facts" else _TURNS).fetchall()
    made = [
        Event(name, (said, place, name[-15:]), unpack_vectors(vector)[0].astype(float))
        for row, name, said, place, vector in found
        if row not in hidden
    ]
    return sorted(made, key=lambda one: one.place)


def expected(told: list[Event], zone: str, alphas: tuple[float, ...], cap: int = CAP) -> Shape:
    """Return where every node must be."""

    def window(one: Event, level: int) -> str:
        return window_of(from_ms(one.place[0]), UNITS[level], zone_named(zone)).key  # type: ignore[arg-type]

    if not told:
        return {}
    days = (told[-1].place[0] - told[0].place[0]) / DAY_MS
    top = 1 if days < 7 else 2 if days <= 30 else 3
    made, nodes = Shape(), told
    for level in range(top):
        founders: list[Event] = []
        of_window: dict[str, list[tuple[Event, Event]]] = {}
        for one in nodes:
            near = of_window.setdefault(window(one, level), [])
            best: tuple[float, tuple[int, int, str], Event] | None = None
            for other, founder in near[-cap:]:
                likeness = -round(float(one.vector @ other.vector), 6)
                if -likeness >= alphas[level]:
                    best = min(best or (likeness, founder.place, founder), (likeness, founder.place, founder))
            founder = one if best is None else best[2]
            near.append((one, founder))
            founders += [one] if best is None else []
            made[level, one.name] = founder.name, window(one, level - 1) if level else None
        nodes = founders
    years: dict[str, Event] = {}
    for one in nodes:
        made[top, one.name] = years.setdefault(window(one, 2), one).name, window(one, top - 1)
    made |= {(4, one.name): (None, None) for one in years.values()}
    return made


@contextmanager
def _grown(folder: Path) -> Iterator[tuple[Any, Any, Any, Forest]]:
    """Read a memory's trees from its file: the transaction, the snapshot, the index, and its forest."""
    with transaction(file_of(folder)) as tx:
        snapshot = load_snapshot(tx)
        (index,) = (one for one in Attached(Config()).of(tx) if one.name == NAME)
        yield tx, snapshot, index, forest_of(tx, snapshot, index)


def _names(tx: Any, forest: Forest) -> list[Node]:
    """Return the level of every node and the event that began it."""
    facts = dict(tx.execute("SELECT id, fact_id FROM fact"))
    turns = dict(
        tx.execute(
            "SELECT t.id, s.session_id || '/' || t.turn_id FROM turn t JOIN session s ON s.id = t.session"
        )
    )
    return [
        (level, facts[int(forest.facts.ids[item])] if kind == FACT else turns[int(forest.turns.ids[item])])
        for level, item, kind in zip(
            forest.level.tolist(),
            forest.item[forest.first].tolist(),
            forest.kind[forest.first].tolist(),
            strict=True,
        )
    ]


def shape(folder: Path) -> Shape:
    """Return where every node is."""
    with _grown(folder) as (tx, _, _, forest):
        named = _names(tx, forest)
        found = {
            one: (None if above < 0 else named[above][1], forest.window_of(row))
            for row, (one, above) in enumerate(zip(named, forest.parent.tolist(), strict=True))
        }
        assert len(found) == len(named)
        return found


def texts(folder: Path) -> dict[Node, str]:
    """Return what memories say."""
    with _grown(folder) as (tx, snapshot, index, forest):
        named, keys = _names(tx, forest), as_keys(digests_of(tx, snapshot, index))
        told = artifacts.texts(tx, set(keys))
        return {named[row]: told[keys[row]] for row in forest.told.tolist() if keys[row] in told}


def live(memory: UserMemory, folder: Path) -> None:
    """Check that the open memory, which takes over parts of the trees it had, has those that its file gives."""

    def viewed(one: Any) -> Any:
        return one.node_id, one.level, one.window, one.leaves, [viewed(child) for child in one.children]

    with _grown(folder) as (_, _, _, forest):

        def read(row: int) -> Any:
            below = [read(child) for child in forest.children[row]]
            return (
                int(forest.ids[row]),
                int(forest.level[row]),
                forest.window_of(row),
                int(forest.counts[row]),
                below,
            )

        wanted = sorted(read(int(row)) for row in forest.tree_root)
    assert sorted(map(viewed, memory.tree(index=NAME, depth=9))) == wanted


def sound(
    memory: UserMemory,
    folder: Path,
    zone: str = "UTC",
    *,
    alphas: tuple[float, ...] = SCHEDULE,
    kind: str = "facts",
    cap: int = CAP,
) -> Shape:
    """Check that the trees are what the events make of them, and what verify says; return them."""
    report = memory.verify()
    assert report.ok, report.problems
    found, want = shape(folder), expected(events(folder, kind), zone, alphas, cap)
    differ = {at: (found.get(at), want.get(at)) for at in {**found, **want} if found.get(at) != want.get(at)}
    assert not differ, differ
    live(memory, folder)
    return found
