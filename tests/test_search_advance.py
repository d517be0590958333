"""A snapshot brought up to date equals one that is read from nothing, whatever was written in between."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.worlds import fast_config, file_of, make_sessions

from memforest import MemForest
from memforest.search.advance import advance
from memforest.search.load import load_snapshot
from memforest.search.snapshot import Lists, Snapshot
from memforest.search.vectors import VectorTable
from memforest.store.db import Database

QUESTIONS = ("Where does Ana live?", "Who works at Acme?", "What did Bob buy before he moved to Oslo?")


def plain(value: Any) -> Any:
    """Return a part of a snapshot as plain values."""
    if isinstance(value, VectorTable):
        return value.rows.tolist()
    if isinstance(value, Lists):
        return [value[row] for row in range(len(value))]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value


def contents(snapshot: Snapshot) -> dict[str, Any]:
    """Return all that a snapshot holds, by name."""
    found: dict[str, Any] = {}
    for field in fields(snapshot):
        value = getattr(snapshot, field.name)
        if field.name in ("turns", "facts", "forest"):
            found |= {f"{field.name}.{one.name}": plain(getattr(value, one.name)) for one in fields(value)}
        else:
            found[field.name] = plain(value)
    for name in ("turn_row", "fact_row", "cell_of_turn", "session_blocks", "fact_blocks", "turns_of_fact"):
        found[name] = plain(getattr(snapshot, name))
    return found


def assert_equal(made: Snapshot, read: Snapshot) -> None:
    """Compare part by part, so that a failure names the part."""
    left, right = contents(made), contents(read)
    assert [name for name in right if left[name] != right[name]] == []


def write_something(forest: MemForest, random: Random, step: str) -> None:
    """Make one of the writes that there are: old and new sessions, longer ones, live turns, replacements."""
    sessions = make_sessions(random.randint(0, 10_000), sessions=1)
    _, turns = sessions[0]
    kind = random.choice(("new", "new", "grow", "live", "live", "replace", "later", "again"))
    known = [session.session_id for session in forest.user("u").sessions()]
    if kind == "new" or not known:
        forest.ingest_session("u", f"n{step}", turns)
    elif kind == "live":
        forest.user("u").add(random.choice(turns)["content"], session_id="live")
    elif kind == "grow":
        said = [{"speaker": turn["speaker"], "content": turn["content"]} for turn in turns]
        forest.user("u").add(said, session_id=known[0])
    elif kind == "replace":
        forest.ingest_session("u", random.choice(known), turns, replace=True)
    elif kind == "later":
        forest.ingest_session("u", f"n{step}", turns, refresh=False)
    else:
        forest.resume("u")


def test_any_history_brings_a_snapshot_to_what_is_stored(folder: Path, soak_seed: int) -> None:
    """After each of many random writes, the advanced snapshot equals the one that is read as a whole."""
    random = Random(soak_seed)
    with MemForest(folder, fast_config()) as forest:
        for session_id, turns in make_sessions(soak_seed, sessions=8, most_turns=12):
            forest.ingest_session("u", session_id, turns)
        db = Database(file_of(folder))
        with db.read() as tx:
            kept = load_snapshot(tx)
        advanced = 0
        for step in range(12):
            for i in range(random.choice((1, 1, 1, 3))):
                write_something(forest, random, f"{step}.{i}")
            with db.read() as tx:
                made, read = advance(tx, kept), load_snapshot(tx)
            if made is not None:
                assert_equal(made, read)
                advanced += 1
            kept = made or read
        db.close()
        assert advanced >= 3
