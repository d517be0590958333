"""Trees of the index hmem as they are stored, to compare, and as they must be, worked out one event after the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.worlds import fast_config, file_of

from memforest import Config, UserMemory
from memforest.calendar import window_of, zone_named
from memforest.interval import from_ms
from memforest.store.packing import unpack_ids, unpack_text, unpack_vectors
from memforest.systems.hmem.settings import SCHEDULES

__all__ = ["NAME", "Event", "configured", "events", "expected", "rows", "shape", "sound", "texts"]

NAME = "hmem"
SCHEDULE = tuple(SCHEDULES["loose"])
UNITS = ("week_of_month", "month", "year")
Vector = Any
Shape = dict[tuple[int, str], tuple[str | None, float | None, str, int, int]]


class Event(NamedTuple):
    """A statement as it is stored: its identity, when it was told, and its vector."""

    name: str
    place: tuple[int, str]
    last_ms: int
    times: int
    vector: Vector


def configured(own: Mapping[str, Any] | None = None, **more: Any) -> Config:
    """Return the configuration of a memory with this index, with settings of the index."""
    settings = {"schedule": "loose", **(own or {})}
    return fast_config(**{"indexes": (NAME,), "index_settings": {NAME: settings}, **more})


def events(folder: Path) -> list[Event]:
    """Return all statements that are shown and have a vector, in the order in which they were told."""
    with closing(sqlite3.connect(file_of(folder))) as db:
        found = db.execute(
            """SELECT f.fact_id, f.said_ms, f.tie, v.vector, (SELECT max(said_ms) FROM occurrence WHERE fact = f.id),
               (SELECT count(*) FROM occurrence WHERE fact = f.id)
               FROM fact f JOIN derived_fact_vector v ON v.item = f.id WHERE f.verdict < 2"""
        ).fetchall()
    made = [
        Event(name, (said, f"{tie} {name}"), last, times, unpack_vectors(vector)[0])
        for name, said, tie, vector, last, times in found
    ]
    return sorted(made, key=lambda one: one.place)


def expected(told: list[Event], zone: str, alphas: tuple[float, ...], top: int, linkage: str) -> Shape:
    """Return where every node must be: (level, event that began it) -> what that stands for above it, likeness, window, n, leaves."""
    made: Shape = {}
    nodes = [(one, [one]) for one in told]
    for level in range(top):
        unit = UNITS[level]
        above: list[tuple[Event, list[Event]]] = []
        of_window: dict[str, list[tuple[Event, list[tuple[Event, list[Event]]]]]] = {}
        for founder, leaves in nodes:
            key = window_of(from_ms(founder.place[0]), unit, zone_named(zone)).key  # type: ignore[arg-type]
            clusters = of_window.setdefault(key, [])
            best, at = -2.0, None
            for number, (_, members) in enumerate(clusters):
                near = _likeness([one for one, _ in members], founder, linkage)
                if near > best + 1e-6:
                    best, at = near, number
            if at is None or best < alphas[level]:
                clusters.append((founder, [(founder, leaves)]))
                joined, likeness = founder, None
            else:
                clusters[at][1].append((founder, leaves))
                joined, likeness = clusters[at][0], round(best, 4)
            made[level, founder.name] = (joined.name, likeness, key, _times(leaves), len(leaves))
        for clusters in of_window.values():
            above += [
                (founder, [leaf for _, leaves in members for leaf in leaves]) for founder, members in clusters
            ]
        nodes = sorted(above, key=lambda one: one[0].place)
    for founder, leaves in nodes:
        key = window_of(from_ms(founder.place[0]), UNITS[min(top, 2)], zone_named(zone)).key  # type: ignore[arg-type]
        made[top, founder.name] = (None, None, key, _times(leaves), len(leaves))
    return made


def _times(leaves: list[Event]) -> int:
    return sum(one.times for one in leaves) - 1


def _likeness(members: list[Event], new: Event, linkage: str) -> float:
    near = [float(one.vector @ new.vector) for one in members]
    if linkage == "member":
        return max(near)
    if linkage == "mean":
        return sum(near) / len(near)
    total = np.sum([one.vector for one in members], axis=0, dtype=np.float64)
    return sum(near) / float(np.linalg.norm(total))


def rows(folder: Path) -> list[Any]:
    """Return the rows of the index's table, the lowest level first."""
    with closing(sqlite3.connect(file_of(folder))) as db:
        return db.execute("SELECT * FROM ix_hmem_node ORDER BY level, within, said_ms, tie").fetchall()


def shape(folder: Path) -> Shape:
    """Return where every node is, as `expected` has it."""
    with closing(sqlite3.connect(file_of(folder))) as db:
        found = db.execute(
            """SELECT i.level, f.fact_id, g.fact_id, i.likeness, i.within, i.n, i.leaves FROM ix_hmem_node i
               JOIN fact f ON f.id = i.founder LEFT JOIN ix_hmem_node p ON p.node = i.parent
               LEFT JOIN fact g ON g.id = p.founder WHERE i.level < 4"""
        ).fetchall()
    return {
        (level, name): (above, None if near is None else round(near, 4), within, n, leaves)
        for level, name, above, near, within, n, leaves in found
    }


def sound(
    memory: UserMemory,
    folder: Path,
    zone: str = "UTC",
    *,
    alphas: tuple[float, ...] = SCHEDULE,
    linkage: str = "member",
) -> Shape:
    """Check that the trees are what the statements make of them, and what verify says; return them."""
    report = memory.verify()
    assert report.ok, report.problems
    found = shape(folder)
    top = max((level for level, _ in found), default=1)
    want = expected(events(folder), zone, alphas, top, linkage)
    assert found == want
    return found


def texts(folder: Path) -> dict[tuple[int, str], str]:
    """Return what is told of each memory: (level, event that began it) -> text."""
    with closing(sqlite3.connect(file_of(folder))) as db:
        found = db.execute(
            """SELECT i.level, f.fact_id, d.text FROM ix_hmem_node i JOIN fact f ON f.id = i.founder
               JOIN derived_summary d ON d.node = i.node"""
        ).fetchall()
        trees = db.execute(
            """SELECT n.children FROM node n JOIN tree t ON t.id = n.tree AND t.owner = 'hmem'"""
        ).fetchall()
    assert all(unpack_ids(children) for (children,) in trees)
    return {(level, name): unpack_text(text) for level, name, text in found}
