"""Calendar trees as they are grown, to compare, and as they must be, worked out from the turns alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests_long.worlds import fast_config, file_of, rows, transaction

from memforest import Config, UserMemory
from memforest.reading.periods import window_of
from memforest.reading.timestamps import zone_named
from memforest.search.cache import digests_of, forest_of
from memforest.search.forest import INNER, as_keys
from memforest.search.snapshot import load_snapshot
from memforest.store import artifacts
from memforest.times import from_ms
from memforest.trees.attached import Attached
from memforest.trees.timem_grow import LEVELS, SESSION, UNITS, windowed

__all__ = ["NAME", "Turn", "configured", "nodes", "shape_of", "sound", "tree", "turns", "waiting"]

NAME = "timem"
Shape = tuple[Any, ...]


class Turn(NamedTuple):
    """A turn as it is stored."""

    session: str
    turn: str
    ordinal: int
    said_ms: int


def configured(own: Mapping[str, Any] | None = None, **more: Any) -> Config:
    """Return the configuration of a memory with this index, with settings of the index."""
    return fast_config(**{"indexes": (NAME,), "index_settings": {NAME: dict(own or {})}, **more})


def turns(folder: Path) -> list[Turn]:
    """Return all turns, by session and position."""
    sql = (
        "SELECT s.session_id, t.turn_id, t.ordinal, t.said_ms FROM turn t JOIN session s ON s.id = t.session"
    )
    return sorted(
        (Turn(*row) for row in rows(file_of(folder), sql)), key=lambda one: (one.session, one.ordinal)
    )


def zone_of(folder: Path) -> str:
    """Return the zone of a memory."""
    found = rows(file_of(folder), "SELECT value FROM meta WHERE key = 'timezone'")
    return str(found[0][0]) if found else "UTC"


def shape_of(
    said: Sequence[Turn], zone: str, *, levels: Sequence[str] = LEVELS[:5], segment: int = 1
) -> Shape:
    """Return the tree that turns must have: (level, window or session, start, end, children), of segments the turns' names."""
    found = zone_named(zone)
    sessions: dict[str, list[Turn]] = {}
    for one in said:
        sessions.setdefault(one.session, []).append(one)
    top: dict[Any, Any] = {}
    for session, kept in sessions.items():
        begins = min(one.said_ms for one in kept)
        at = top
        for level in reversed(windowed(levels)):
            window = window_of(from_ms(begins), UNITS[level], found)
            at = at.setdefault((level, window.start, window.key), {})
        size = 2 * segment
        at[(1, begins, session)] = {first: kept[first : first + size] for first in range(0, len(kept), size)}
    return _nested(6, None, top) if top else ()


def _nested(level: int, name: Any, below: Mapping[Any, Any]) -> Shape:
    if level == 1:
        children: list[Shape] = [
            (
                0,
                None,
                min(t.said_ms for t in part),
                max(t.said_ms for t in part) + 1,
                tuple(t.turn for t in part),
            )
            for _, part in sorted(below.items())
        ]
    else:
        children = [_nested(key[0], key[2], value) for key, value in sorted(below.items())]
    return level, name, min(one[2] for one in children), max(one[3] for one in children), tuple(children)


def tree(folder: Path, *, texts: bool = False) -> Shape:
    """Return the tree as it is grown, as `shape_of` has it; with `texts` each node's text behind it, None where it has none."""
    path = file_of(folder)
    names = dict(rows(path, "SELECT id, turn_id FROM turn"))
    sessions = dict(rows(path, "SELECT t.id, s.session_id FROM turn t JOIN session s ON s.id = t.session"))
    with transaction(path) as tx:
        snapshot = load_snapshot(tx)
        index = Attached(Config()).get(snapshot.indexes, NAME)
        forest = forest_of(tx, snapshot, index)
        keys = as_keys(digests_of(tx, snapshot, index)[forest.told]) if len(forest) else []
        made = artifacts.texts(tx, set(keys))
        told = {row: made[key] for row, key in zip(forest.told.tolist(), keys, strict=True) if key in made}

    def shape(row: int) -> Shape:
        run = snapshot.turns.ids[forest.item[row] : forest.item_end[row]].tolist()
        below: Shape = (
            tuple(map(shape, forest.children[row]))
            if forest.kind[row] == INNER
            else tuple(names[one] for one in run)
        )
        name = forest.window_of(row)
        if forest.level[row] == SESSION:
            name = sessions[int(snapshot.turns.ids[forest.item[forest.first[row]]])]
        found = (int(forest.level[row]), name, int(forest.start_ms[row]), int(forest.end_ms[row]), below)
        return (*found, told.get(row)) if texts else found

    return shape(int(forest.tree_root[0])) if len(forest) else ()


def nodes(found: Shape) -> list[Shape]:
    """Return all nodes of a tree, from the top."""
    below = [one for one in found[4] if isinstance(one, tuple)] if found else []
    return [*([found] if found else []), *(node for one in below for node in nodes(one))]


def waiting(folder: Path, levels: Sequence[str] = LEVELS[:5]) -> list[tuple[str, str | None]]:
    """Return level and name of every node of some levels of which nothing is written; of what is hidden that is no word."""
    every = ((LEVELS[one[0]], one) for one in nodes(tree(folder, texts=True)))
    return [(level, one[1]) for level, one in every if level in levels and one[5] is None]


def sound(memory: UserMemory, folder: Path, **how: Any) -> None:
    """Fail unless `verify` finds nothing and the tree is the one that the stored turns must have."""
    report = memory.verify()
    assert report.ok, [one.message for one in report.problems]
    assert tree(folder) == shape_of(turns(folder), zone_of(folder), **how)
