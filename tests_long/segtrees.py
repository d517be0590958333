"""Segment trees as they are grown, to compare: nested, with the turns of each leaf by name and without the numbers of rows."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests_long.worlds import dump, fast_config, fast_folder, file_of, rows

from memforest import Config, MemForest, UserMemory

__all__ = ["NAME", "anew", "configured", "fan_outs", "height", "leaves", "nodes", "sound", "tree"]

NAME = "segtree"


def configured(own: Mapping[str, Any] | None = None, **more: Any) -> Config:
    """Return the configuration of a memory with this index, with settings of the index."""
    return fast_config(**{"indexes": (NAME,), "index_settings": {NAME: dict(own or {})}, **more})


def tree(folder: Path) -> Any:
    """Return the tree, nested: the level of each node, nothing, and its children; of leaves their turns. None without one."""
    found = [shape for name, shape in dump(file_of(folder))["trees"].items() if name.startswith(NAME)]
    return found[0] if found else None


def nodes(shape: Any) -> Iterator[list[Any]]:
    """Yield all nodes and leaves of a tree, in order."""
    if shape:
        yield shape
        for child in shape[2:] if isinstance(shape[0], int) else ():
            yield from nodes(child)


def fan_outs(folder: Path) -> list[int]:
    """Return how many children each inner node has, ascending."""
    return sorted(len(one) - 2 for one in nodes(tree(folder)) if isinstance(one[0], int))


def height(folder: Path) -> int:
    """Return the height of the tree."""
    return max(one[0] for one in nodes(tree(folder)) if isinstance(one[0], int))


def leaves(folder: Path) -> list[list[str]]:
    """Return the turns of all leaves, in order."""
    return [one for one in nodes(tree(folder)) if isinstance(one[0], str)]


def sound(memory: UserMemory, folder: Path, *, waiting: int = 0) -> None:
    """Fail unless `verify` finds nothing, every turn is in one leaf, and as many exchanges wait as are said to."""
    report = memory.verify()
    assert report.ok, [str(one) for one in report.problems]
    assert memory.stats().indexes[NAME]["waiting"] == waiting
    said = Counter(turn for leaf in leaves(folder) for turn in leaf)
    stored = rows(
        file_of(folder),
        "SELECT s.session_id || '/' || turn_id FROM turn t JOIN session s ON s.id = t.session",
    )
    assert max(said.values(), default=1) == 1
    assert (
        said.keys() == {row[0] for row in stored} if not waiting else said.keys() < {row[0] for row in stored}
    )


def remaining(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the sessions that are stored, as they could be ingested."""
    found: dict[str, list[dict[str, Any]]] = {}
    sql = """SELECT s.id, t.ordinal, s.session_id, t.turn_id, t.speaker, t.text, t.said_ms FROM turn t
        JOIN session s ON s.id = t.session"""
    for _, _, session_id, turn_id, speaker, text, said_ms in sorted(rows(file_of(folder), sql)):
        turn = {"speaker": speaker, "content": text, "timestamp": said_ms / 1000, "id": turn_id}
        found.setdefault(session_id, []).append(turn)
    return found


def anew(folder: Path, config: Config) -> Any:
    """Return the tree of a memory made from scratch of the turns that are stored in a directory."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as fresh, MemForest(fresh, config) as forest:
        forest.register_user("u")
        for session_id, turns in remaining(folder).items():
            forest.ingest_session("u", session_id, turns, infer=False)
        forest.resume("u")
        return tree(Path(fresh))
