"""Memories of one talk, of every size, that are measured again and again."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from memforest import Config, MemForest
from memforest.models import HashEmbedder
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.directory import file_name
from memforest.trees.segtree_grow import SegTreeSettings
from synthetic.turning import TurningTalk

__all__ = [
    "INDEX",
    "NOW",
    "TAU",
    "USER",
    "config",
    "copied",
    "fill",
    "look",
    "opened",
    "path_of",
    "settings_of",
]

T = TypeVar("T")

USER = "ana"
NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)
BATCH = 100
"""Sessions handed over at once."""
INDEX = "segtree"
TAU = 0.4
"""How like a node a leaf must be with the embedder of the benchmark, whose cosines are of words: it gives trees of the
shape that MiniLM's calibrated threshold gives of conversations."""


def settings_of(**settings: Any) -> SegTreeSettings:
    """Return settings of the index: a leaf is a turn."""
    return SegTreeSettings(**{"leaves": "turns", "tau": TAU, **settings})


def config(dimension: int, **settings: Any) -> Config:
    """Return the configuration of memories that the index is added to with some settings."""
    return Config(
        embedder=HashEmbedder(dimension),
        clock=lambda: NOW,
        index_settings={INDEX: settings_of(**settings)},
        refresh="lazy",
    )


def opened(directory: Path, dimension: int, **settings: Any) -> MemForest:
    """Open the memories of a directory."""
    return MemForest(directory, config(dimension, **settings))


def path_of(directory: Path) -> Path:
    """Return the file of the memory in a directory."""
    return directory / file_name(USER)


def copied(directory: Path, name: str) -> Path:
    """Copy the memory of a directory into one beside it, and return that."""
    target = directory.with_name(f"{directory.name}-{name}")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(directory, target)
    return target


def look(path: Path, read: Callable[[Tx], T]) -> T:
    """Read in a connection of its own."""
    db = Database(path)
    try:
        with db.read() as tx:
            return read(tx)
    finally:
        db.close()


def fill(directory: Path, talk: TurningTalk, turns: int, dimension: int) -> int:
    """Ingest sessions, without extraction, until a memory has about so many turns; return how many sessions it has."""
    directory.mkdir(parents=True, exist_ok=True)
    with opened(directory, dimension) as forest:
        have, sessions = look(path_of(directory), _numbers) if path_of(directory).exists() else (0, 0)
        shown = time.perf_counter()
        while have < turns:
            requests = list[dict[str, Any]]()
            while have < turns and len(requests) < BATCH:
                name, said = talk.session(sessions)
                requests.append({"user_id": USER, "session_id": name, "turns": said, "infer": False})
                have, sessions = have + len(said), sessions + 1
            for result in forest.ingest_parallel(requests):
                if isinstance(result, Exception):
                    raise result
            if time.perf_counter() - shown > 20:
                shown = time.perf_counter()
                print(f"  {have} turns", file=sys.stderr, flush=True)
    return sessions


def _numbers(tx: Tx) -> tuple[int, int]:
    turns, sessions = tx.execute(
        "SELECT (SELECT count(*) FROM turn), (SELECT count(*) FROM session)"
    ).fetchone()
    return turns, sessions
