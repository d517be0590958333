"""A snapshot brought up to date equals one that is read from nothing, whatever was written in between."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.arrays import assert_equal, assert_same, plain
from tests_long.worlds import PAPER, fast_config, file_of, make_sessions

from memforest import MemForest
from memforest.search.cache import advance, carry_forests, embedded_forest
from memforest.search.forest import EmbeddedForest, as_keys
from memforest.search.snapshot import load_snapshot
from memforest.store import artifacts, derived, meta
from memforest.store.database import Database
from memforest.trees.index import leaf_of_turn
from memforest.trees.memforest import MemForestIndex
from memforest.trees.memforest_grow import MemForestSettings
from memforest.trees.memforest_recall import fact_blocks, session_blocks

QUESTIONS = ("Where does Ana live?", "Who works at Acme?", "What did Bob buy before he moved to Oslo?")


def forest_contents(found: EmbeddedForest) -> dict[str, Any]:
    """Return all that a forest holds, with its vectors and what is computed on it, by name."""
    forest = found.forest
    told = {one.name: plain(getattr(forest, one.name)) for one in fields(forest)}
    del told["turns"], told["facts"], told["kept"]
    blocks = (session_blocks(forest), fact_blocks(forest))
    return told | {
        "vectors": plain(found.vectors),
        "digests": plain(found.digests),
        "children": plain(forest.children),
        "chunk_of_turn": plain(leaf_of_turn(forest)),
        "blocks": [plain(one) for one in blocks],
    }


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


@pytest.mark.parametrize("form", [{}, PAPER], ids=["default", "paper"])
def test_any_history_brings_a_snapshot_to_what_is_stored(
    folder: Path, soak_seed: int, form: dict[str, Any]
) -> None:
    """After each of many random writes, the advanced snapshot and forest equal those that are read as a whole."""
    random, index = Random(soak_seed), MemForestIndex(MemForestSettings(**form.get("memforest", {})))
    with MemForest(folder, fast_config(index_settings=form)) as forest:
        for session_id, turns in make_sessions(soak_seed, sessions=8, most_turns=12):
            forest.ingest_session("u", session_id, turns)
        db = Database(file_of(folder))
        with db.read() as tx:
            kept = load_snapshot(tx)
            embedded_forest(tx, kept, index)
        advanced = 0
        for step in range(12):
            for i in range(random.choice((1, 1, 1, 3))):
                write_something(forest, random, f"{step}.{i}")
            with db.read() as tx:
                made, read = advance(tx, kept), load_snapshot(tx)
                if made is not None:
                    assert_equal(made, read)
                    advanced += 1
                carry_forests(kept, kept := made or read)
                if random.random() < 0.7:  # else it is brought up to date from further back
                    now = forest_contents(embedded_forest(tx, kept, index))
                    assert_same(now, forest_contents(embedded_forest(tx, load_snapshot(tx), index)))
        db.close()
        assert advanced >= 3


@pytest.mark.parametrize("kind", ["turn", "fact", "node"])
def test_a_vector_that_was_taken_away_is_in_no_snapshot(folder: Path, kind: Any) -> None:
    """What is compared with questions by a vector that is stored no more would be found by what it does not say."""
    index = MemForestIndex()
    with MemForest(folder, fast_config()) as forest:
        for session_id, turns in make_sessions(4, sessions=4, most_turns=12):
            forest.ingest_session("u", session_id, turns)
        forest.user("u").flush()
    db = Database(file_of(folder))
    try:
        with db.read() as tx:
            old = load_snapshot(tx)
            before = embedded_forest(tx, old, index)
            table, own = ("artifact", "digest") if kind == "node" else (f"derived_{kind}_vector", "item")
            (item,) = tx.execute(f"SELECT max({own}) FROM {table} WHERE vector IS NOT NULL").fetchone()
        with db.write() as tx:
            if kind == "node":
                artifacts.put(
                    tx, "summary", [artifacts.found(tx, [item])[item]._replace(text="Another one.")]
                )
            else:
                derived.drop_vectors(tx, kind, (item,))
            meta.bump(tx)
        with db.read() as tx:
            new, read = advance(tx, old), load_snapshot(tx)
            assert new is not None
            carry_forests(old, new)
            assert_equal(new, read)
            made = embedded_forest(tx, new, index)
            assert_same(forest_contents(made), forest_contents(embedded_forest(tx, read, index)))
            row = as_keys(made.digests).index(item) if kind == "node" else 0
            tables = {
                "turn": (new.turns.ids, old.turns.vectors, new.turns.vectors),
                "fact": (new.facts.ids, old.facts.vectors, new.facts.vectors),
                "node": (np.array([]), before.vectors, made.vectors),
            }
            ids, had, has = tables[kind]
            row = row if kind == "node" else int(np.flatnonzero(ids == item)[0])
            assert had.rows[row].any()
            assert not has.rows[row].any()
    finally:
        db.close()
