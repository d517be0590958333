"""Trees of the index hmem as they are stored, to compare, and as they must be, worked out one event after the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tests_long.worlds import fast_config, file_of

from memforest import Config, UserMemory
from memforest.reading.periods import window_of
from memforest.reading.timestamps import zone_named
from memforest.store.database import Database
from memforest.store.derived import unpack_ids, unpack_text, unpack_vectors
from memforest.store.snapshot import muted_turns
from memforest.times import from_ms
from memforest.trees.hmem_rows import CAP, SCHEDULES

__all__ = [
    "CAP",
    "NAME",
    "Event",
    "Near",
    "Shape",
    "configured",
    "events",
    "expected",
    "rows",
    "shape",
    "sound",
    "texts",
]

NAME = "hmem"
SCHEDULE = tuple(SCHEDULES["loose"])
UNITS = ("week_of_month", "month", "year")
Vector = Any
Shape = dict[tuple[int, str], tuple[str | None, float | None, str, int, int]]


class Near(float):
    """A likeness; two that only how they were added up tells apart are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and abs(self - other) < 1e-5

    __hash__ = None  # type: ignore[assignment]


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


_FACTS = """SELECT f.id, f.fact_id, f.said_ms, f.tie || ' ' || f.fact_id, v.vector,
    (SELECT max(said_ms) FROM occurrence WHERE fact = f.id), (SELECT count(*) FROM occurrence WHERE fact = f.id)
    FROM fact f JOIN derived_fact_vector v ON v.item = f.id WHERE f.verdict < 2"""
_TURNS = """SELECT t.id, s.session_id || '/' || t.turn_id, t.said_ms, s.session_id || char(31) || printf('%06d', t.ordinal), v.vector,
    t.said_ms, 1 FROM turn t JOIN session s ON s.id = t.session JOIN derived_turn_vector v ON v.item = t.id"""


def events(folder: Path, kind: str = "facts") -> list[Event]:
    """Return all statements that are shown and have a vector, or all turns that have, in the order in which they were told.

    Of turns those count that no correction hides.
    """
    with closing(Database(file_of(folder), readonly=True)) as db, db.read() as tx:
        found = tx.execute(_FACTS if kind == "facts" else _TURNS).fetchall()
        muted = set(muted_turns(tx)) if kind == "turns" else set()
    made = [
        Event(name, (said, tie), last, times, unpack_vectors(vector)[0])
        for row, name, said, tie, vector, last, times in found
        if row not in muted
    ]
    return sorted(made, key=lambda one: one.place)


def expected(told: list[Event], zone: str, alphas: tuple[float, ...], top: int, cap: int = CAP) -> Shape:
    """Return where every node must be: (level, event that began it) -> what that stands for above it, likeness, window, n, leaves."""
    made: Shape = {}
    nodes = [(one, [one]) for one in told]
    for level in range(top):
        unit = UNITS[level]
        above: list[tuple[Event, list[Event]]] = []
        of_window: dict[str, list[tuple[Event, list[tuple[Event, list[Event]]]]]] = {}
        reach: dict[str, list[str]] = {}
        for founder, leaves in nodes:
            key = window_of(from_ms(founder.place[0]), unit, zone_named(zone)).key  # type: ignore[arg-type]
            clusters = of_window.setdefault(key, [])
            best, at = -2.0, None
            near_by = reach.setdefault(key, [])[-cap:]
            reach[key].append(founder.name)
            for number, (_, members) in enumerate(clusters):
                near = _likeness([one for one, _ in members if one.name in near_by], founder)
                if near > best + 1e-6:
                    best, at = near, number
            if at is None or round(best, 6) < alphas[level]:
                clusters.append((founder, [(founder, leaves)]))
                joined, likeness = founder, None
            else:
                clusters[at][1].append((founder, leaves))
                joined, likeness = clusters[at][0], best
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


def _likeness(members: list[Event], new: Event) -> float:
    near = [float(one.vector @ new.vector) for one in members]
    return max(near, default=-2.0)


def rows(folder: Path) -> list[Any]:
    """Return the rows of the index's table, the lowest level first."""
    with closing(sqlite3.connect(file_of(folder))) as db:
        return db.execute("SELECT * FROM ix_hmem_node ORDER BY level, within, said_ms, tie").fetchall()


_FACT_NAMES = "(SELECT id, fact_id AS name FROM fact)"
_TURN_NAMES = (
    "(SELECT t.id, s.session_id || '/' || t.turn_id AS name FROM turn t JOIN session s ON s.id = t.session)"
)


def _names(kind: str) -> str:
    """Return the table of the names of what begins a node."""
    return _FACT_NAMES if kind == "facts" else _TURN_NAMES


def shape(folder: Path, kind: str = "facts") -> Shape:
    """Return where every node is, as `expected` has it."""
    with closing(sqlite3.connect(file_of(folder))) as db:
        found = db.execute(
            f"""SELECT i.level, f.name, g.name, i.likeness, i.within, i.n, i.leaves FROM ix_hmem_node i
                JOIN {_names(kind)} f ON f.id = i.founder LEFT JOIN ix_hmem_node p ON p.node = i.parent
                LEFT JOIN {_names(kind)} g ON g.id = p.founder WHERE i.level < 4"""
        ).fetchall()
    return {
        (level, name): (above, None if near is None else Near(near), within, n, leaves)
        for level, name, above, near, within, n, leaves in found
    }


def places(folder: Path, kind: str = "facts") -> dict[tuple[int, str], tuple[int, str]]:
    """Return what orders every node; check that the rows of trees say the same, and that roots tell of nothing that was said."""
    with closing(sqlite3.connect(file_of(folder))) as db:
        assert set(db.execute("SELECT said_ms, tie FROM ix_hmem_node WHERE level = 4").fetchall()) <= {
            (0, "")
        }
        found = db.execute(
            f"""SELECT i.level, f.name, i.said_ms, i.tie, coalesce(n.key_tie, i.tie) FROM ix_hmem_node i
                LEFT JOIN {_names(kind)} f ON f.id = i.founder LEFT JOIN node n ON n.id = i.node WHERE i.level < 4"""
        ).fetchall()
    assert all(tie == key for *_, tie, key in found)
    return {(level, name): (said_ms, tie) for level, name, said_ms, tie, _ in found}


def sound(
    memory: UserMemory,
    folder: Path,
    zone: str = "UTC",
    *,
    alphas: tuple[float, ...] = SCHEDULE,
    kind: str = "facts",
    cap: int = CAP,
) -> Shape:
    """Check that the trees are what the statements make of them, and what verify says; return them."""
    report = memory.verify()
    assert report.ok, report.problems
    found = shape(folder, kind)
    top = max((level for level, _ in found), default=1)
    told = events(folder, kind)
    want = expected(told, zone, alphas, top, cap)
    place_of = {one.name: one.place for one in told}
    differ = {at: (found.get(at), want.get(at)) for at in {**found, **want} if found.get(at) != want.get(at)}
    assert not differ, differ
    assert places(folder, kind) == {(level, name): place_of[name] for level, name in found}
    return found


def texts(folder: Path, kind: str = "facts") -> dict[tuple[int, str], str]:
    """Return what is told of each memory: (level, event that began it) -> text."""
    with closing(sqlite3.connect(file_of(folder))) as db:
        found = db.execute(
            f"""SELECT i.level, f.name, d.text FROM ix_hmem_node i JOIN {_names(kind)} f ON f.id = i.founder
                JOIN derived_summary d ON d.node = i.node JOIN node n ON n.id = i.node WHERE NOT n.dirty"""
        ).fetchall()
        trees = db.execute(
            """SELECT n.children FROM node n JOIN tree t ON t.id = n.tree AND t.owner = 'hmem'"""
        ).fetchall()
    assert all(unpack_ids(children) for (children,) in trees)
    return {(level, name): unpack_text(text) for level, name, text in found}
