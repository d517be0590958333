"""What people have decided of statements goes along with a merge: corrections, their places, and what they decide."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.worlds import eager_config, fast_config, rows, said

from memforest import MemForest
from memforest.memory.directory import file_name
from memforest.store.db import Database
from memforest.store.provenance import Correction, put_correction, set_verdicts

KINDS = {"pin": 1, "forget": 2}
PLACES = "SELECT c.key, p.session_id, p.turn_id, p.quote FROM correction_place p JOIN correction c ON c.id = p.correction"


def of(folder: Path, user: str) -> Path:
    """Return the file of a user's memory."""
    return folder / file_name(user)


def decide(folder: Path, user: str, kind: str, statement: str, *, undone_ms: int | None = None) -> str:
    """Store a correction of a statement in a memory that is closed, and return the statement's identity."""
    db = Database(of(folder, user))
    with db.write() as tx:
        fact_id, session_id, turn_id, quote = tx.execute(
            """SELECT f.fact_id, s.session_id, t.turn_id, t.digest FROM fact f JOIN occurrence o ON o.fact = f.id
               JOIN occurrence_turn x ON x.occurrence = o.id JOIN turn t ON t.id = x.turn
               JOIN session s ON s.id = t.session WHERE f.text = ?""",
            (statement,),
        ).fetchone()
        one = Correction(0, f"c:{kind}", kind, fact_id, None, None, None, None, "unknown", 5_000, undone_ms)
        put_correction(tx, one._replace(places=((session_id, turn_id, quote),)), 5_000)
        set_verdicts(tx, {fact_id: 0 if undone_ms else KINDS[kind]})
    db.close()
    return str(fact_id)


def verdicts(folder: Path, user: str) -> dict[str, int]:
    """Return statement -> what was decided of it."""
    return dict(rows(of(folder, user), "SELECT text, verdict FROM fact"))


def fill(folder: Path, **texts: str) -> None:
    """Make memories in which one thing is said each, in a session called "s"."""
    with MemForest(folder, fast_config()) as forest:
        for day, (user, text) in enumerate(texts.items(), 1):
            forest.ingest_session(user, "s", said(text, speaker="Ana", day=day))


def merge(folder: Path, source: str, target: str) -> int:
    """Merge, and return how many corrections came."""
    with MemForest(folder, fast_config()) as forest:
        return forest.user(target).merge(source).corrections_added


@pytest.mark.parametrize("kind", KINDS)
def test_a_correction_comes_along(folder: Path, kind: str) -> None:
    """Its places are those of the session as that is called here; a second merge brings it no second time."""
    fill(folder, a="I live in Davis.", b="I live in Miami.")
    decide(folder, "b", kind, "Ana lives in Miami.")
    with MemForest(folder, fast_config()) as forest:
        assert forest.user("a").merge("b", dry_run=True).corrections_added == 1
        result = forest.user("a").merge("b")
        assert result.corrections_added == 1
        assert forest.user("a").merge("b").corrections_added == 0
        here = result.renamed["s"]
    ((key, session_id, turn_id, quote),) = rows(of(folder, "a"), PLACES)
    assert (session_id, rows(of(folder, "b"), PLACES)) == (here, [(key, "s", turn_id, quote)])
    assert verdicts(folder, "a") == {"Ana lives in Davis.": 0, "Ana lives in Miami.": KINDS[kind]}


def test_a_correction_made_after_the_first_merge_comes_with_the_next(folder: Path) -> None:
    """And so does that it was undone; nothing of the session itself is new then."""
    fill(folder, a="I live in Davis.", b="I live in Miami.")
    assert merge(folder, "b", "a") == 0
    decide(folder, "b", "forget", "Ana lives in Miami.")
    assert merge(folder, "b", "a") == 1
    assert verdicts(folder, "a")["Ana lives in Miami."] == KINDS["forget"]
    decide(folder, "b", "forget", "Ana lives in Miami.", undone_ms=6_000)
    assert merge(folder, "b", "a") == 0
    assert verdicts(folder, "a")["Ana lives in Miami."] == 0


def test_what_was_decided_here_holds_for_what_comes(folder: Path) -> None:
    """The same statement of the other memory is hidden here too, and stays as it is there."""
    fill(folder, a="I live in Miami.", b="I live in Miami.")
    decide(folder, "a", "forget", "Ana lives in Miami.")
    assert merge(folder, "b", "a") == 0
    assert verdicts(folder, "a") == {"Ana lives in Miami.": KINDS["forget"]}
    assert verdicts(folder, "b") == {"Ana lives in Miami.": 0}


def test_a_correction_follows_a_statement_that_is_called_otherwise(folder: Path) -> None:
    """Its identity is that of the statement with the names that people have here."""
    fill(folder, a="I live in Davis.", b="I live in Miami.")
    there = decide(folder, "b", "pin", "Ana lives in Miami.")
    with MemForest(folder, fast_config()) as forest:
        forest.user("a").merge("b", apart=["Ana"])
    ((identity,),) = rows(of(folder, "a"), "SELECT fact_id FROM correction")
    assert identity != there
    assert verdicts(folder, "a") == {"Ana lives in Davis.": 0, "Ana (b) lives in Miami.": KINDS["pin"]}


def test_trees_of_what_is_decided_otherwise_here_are_made_anew(folder: Path) -> None:
    """Their summaries may tell what is hidden here; those of other sessions are taken over."""
    with MemForest(folder, eager_config()) as forest:
        forest.ingest_session("a", "own", said("I live in Miami.", speaker="Ana"))
        forest.ingest_session("b", "told", said("I live in Miami.", "Good morning!", speaker="Ana", day=2))
        forest.ingest_session("b", "other", said("I bought a red kayak.", speaker="Bo", day=3))
    taken = {}
    for name in ("as it is", "forgotten"):
        if name == "forgotten":
            decide(folder, "a", "forget", "Ana lives in Miami.")
        target = folder / name
        target.mkdir()
        (target / file_name("a")).write_bytes(of(folder, "a").read_bytes())
        with MemForest(target, eager_config()) as forest:
            taken[name] = forest.user("a").merge("b", directory=folder).trees_copied
    assert taken["forgotten"] == taken["as it is"] - 1
