"""However corrections came about, the memory is the one that its turns and its corrections make, extracted anew."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import (
    differences,
    dump,
    eager_config,
    file_of,
    make_history,
    make_sessions,
    rows,
    summaries,
)

from memforest import MemForest
from memforest.errors import CorrectionError, InputError

WRITTEN = (
    "Ana lives in Lisbon.",
    "Bob moved from Oslo to Kyoto in May 2023.",
    "Carla works at Globex now.",
    "Melanie has a tent.",
    "Ana works at Acme.",
    "Bob lives in Davis.",
    "I live in Miami.",
)
INDEXES = ("memforest", "segtree")
ASKED = ("Where does Ana live?", "Where did Bob work in March 2023?", "What happened to Melanie?")


def correct(forest: MemForest, path: Path, random: Random) -> None:
    """Correct something at random; what cannot be done is refused by an error of ours."""
    user = forest.user("u")
    shown = [one.fact_id for one in user.list(limit=1000)]
    made = rows(path, "SELECT id, key FROM correction")
    keys = [key for _, key in sorted(made)]
    action = random.choice(["update", "update", "again", "forget", "pin", "undo", "undo"])
    try:
        if action == "undo" and keys:
            user.undo(random.choice(keys))
        elif action == "again" and keys:
            user.update(random.choice(shown), random.choice(user.list(verdict="corrected").facts).statement)
        elif action == "forget":
            user.forget(random.choice(shown))
        elif action == "pin":
            user.pin(random.choice(shown))
        elif random.random() < 0.7:
            user.update(random.choice(shown), random.choice(WRITTEN))
        else:
            times = {"valid_from": "2022-03-01", "valid_to": random.choice(["2023-02-01", None])}
            user.update(random.choice(shown), random.choice([*WRITTEN, None]), **times)
    except (CorrectionError, InputError, IndexError):
        pass


def copy_corrections(source: Path, target: Path) -> None:
    """Copy what people have decided into another memory."""
    with closing(sqlite3.connect(target, isolation_level=None)) as conn:
        conn.execute("ATTACH ? AS other", (str(source),))
        for table in ("correction", "correction_place"):
            conn.execute(f"INSERT INTO main.{table} SELECT * FROM other.{table}")


def told(forest: MemForest) -> list[object]:
    """Return what questions and views show."""
    user = forest.user("u")
    found: list[object] = []
    for index in (*INDEXES, "flat", "facts"):
        for question in ASKED:
            result = user.search(question, index=index, top_k=50)
            found.append(sorted((one.text, one.quote, one.pinned, repr(one.sources)) for one in result))
    found += [[(e.text, e.start, e.end, e.value) for e in user.timeline(who)] for who in ("Ana", "Bob")]
    return found


@pytest.mark.timeout(300)
def test_a_corrected_memory_equals_one_that_is_extracted_anew(folder: Path, soak_seed: int) -> None:
    """Ingested, grown, overwritten, updated, forgotten, pinned and undone in any order, or its turns ingested once."""
    random = Random(soak_seed)
    final = make_sessions(soak_seed, sessions=3, most_turns=5)
    with MemForest(folder / "a", eager_config(indexes=INDEXES)) as forest:
        for session_id, turns, replace in make_history(soak_seed, final):
            forest.ingest_session("u", session_id, turns, replace=replace)
            for _ in range(random.randint(0, 3)):
                correct(forest, file_of(folder / "a"), random)
        forest.flush("u")
        report = forest.user("u").verify()
        assert report.ok, report.problems
        seen = told(forest) if {"Ana", "Bob"} <= names(file_of(folder / "a")) else None
    with MemForest(folder / "b", eager_config(indexes=INDEXES)) as forest:
        forest.register_user("u")
    copy_corrections(file_of(folder / "a"), file_of(folder / "b"))
    with MemForest(folder / "b", eager_config(indexes=INDEXES)) as forest:
        for session_id, turns in final:
            forest.ingest_session("u", session_id, turns)
        forest.flush("u")
        assert forest.user("u").verify().ok
        if seen is not None:
            assert told(forest) == seen
    one, other = file_of(folder / "a"), file_of(folder / "b")
    assert differences(dump(one), dump(other)) == {}
    assert summaries(one) == summaries(other)


def names(path: Path) -> set[str]:
    """Return whom a memory names."""
    return {label for (label,) in rows(path, "SELECT label FROM entity")}
