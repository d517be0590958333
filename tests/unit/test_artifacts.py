"""What models made is kept under its request, goes with what it was made of, and is made anew when it cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memforest import Config, MemForest
from memforest.models import HashEmbedder
from memforest.store import artifacts
from memforest.store.artifacts import Artifact
from memforest.store.connections import Connection, Tx, connect
from memforest.store.database import make_schema
from memforest.write.batch import SessionWriter

AXES = np.eye(4, dtype=np.float32)
KEYS = [bytes([n]) * 16 for n in range(6)]
A, B = Artifact(KEYS[0], "one", "a", "own"), Artifact(KEYS[1], "one", "b", "mean")
C, D = Artifact(KEYS[2], "two", "c"), Artifact(KEYS[3], "two", "d", "own")
CONFIG = Config(embedder=HashEmbedder(32), refresh="path")


@pytest.fixture
def tx() -> Iterator[Connection]:
    """An empty memory that is in no file."""
    with closing(connect(":memory:", 1.0)) as made:
        make_schema(made)
        yield made


def test_what_was_made_is_found_under_its_digest(tx: Tx) -> None:
    """With who made it; a vector goes with another text, and stays with the same one."""
    artifacts.put(tx, "summary", [A, B, C])
    assert artifacts.found(tx, [*KEYS, KEYS[0]]) == {one.digest: one for one in (A, B, C)}
    assert artifacts.put_vectors(tx, [(KEYS[0], AXES[1]), (KEYS[1], AXES[1]), (KEYS[5], AXES[1])]) == 1
    assert artifacts.known(tx) == dict.fromkeys(KEYS[:3], "summary")
    artifacts.put(tx, "summary", [A])
    assert artifacts.vectors(tx, KEYS)[KEYS[0]].tolist() == AXES[1].tolist()
    artifacts.put(tx, "summary", [A._replace(text="other")])
    assert (artifacts.vectors(tx, KEYS), artifacts.without_vector(tx)) == ({}, [(KEYS[0], "other")])


def test_what_others_made_goes_by_itself(tx: Tx) -> None:
    """Of summaries alone: where a leaf was placed is nobody's wording."""
    artifacts.put(tx, "summary", [A, B, C])
    artifacts.put(tx, "place", [D])
    assert artifacts.of_others(tx, {"one"}) == {"two": 1}
    assert artifacts.drop_of_others(tx, {"one"}) == 1
    assert artifacts.known(tx) == {A.digest: "summary", B.digest: "summary", D.digest: "place"}
    assert artifacts.known(tx, ["place"]).keys() == {D.digest}
    assert (artifacts.count(tx), len(artifacts.known(tx, ["place"]))) == (3, 1)


KEPT = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(["a", "b"])), max_size=8)


@settings(max_examples=25)
@given(KEPT, st.sets(st.sampled_from(KEYS)))
def test_a_sweep_keeps_just_what_is_asked_for(made: list[tuple[bytes, str]], wanted: set[bytes]) -> None:
    """What was put last, under its digest; readers of vectors hear of every write and of every deletion."""
    with closing(connect(":memory:", 1.0)) as tx:
        make_schema(tx)
        for key, text in made:
            before, had = artifacts.state(tx), artifacts.texts(tx, [key])
            artifacts.put(tx, "summary", [Artifact(key, "m", text)])
            assert (artifacts.state(tx) > before) is (had != {key: text})
        before, left = artifacts.state(tx), {key: text for key, text in dict(made).items() if key in wanted}
        gone = artifacts.keep(tx, wanted)
        assert artifacts.texts(tx, KEYS) == left
        assert gone == len(dict(made)) - len(left)
        assert (artifacts.state(tx) > before) is (gone > 0)


@pytest.mark.parametrize(
    ("damage", "told"),
    [(f"{column} = x'00'", "cannot be read") for column in ("text", "digest")]
    + [("vector = x'003c00'", "unit length")],
)
def test_a_damaged_row_is_named_and_dropped(tx: Tx, damage: str, told: str) -> None:
    """Never shown meanwhile, and alone; a sound memory has none."""
    artifacts.put(tx, "summary", [A, D])
    artifacts.put_vectors(tx, [(A.digest, AXES[0]), (D.digest, AXES[0])])
    assert artifacts.damaged(tx) == []
    tx.execute(f"UPDATE artifact SET {damage} WHERE id = 1")
    assert [told in one for one in artifacts.damaged(tx)] == [True]
    assert "vector" in damage or A.digest not in artifacts.texts(tx, KEYS)
    assert artifacts.drop_damaged(tx) == 1
    assert artifacts.known(tx).keys() == {D.digest}


def say(forest: MemForest, session: str, word: str, day: int) -> None:
    """Store a session of many statements about a thing."""
    at = f"2024-03-{day:02}T10:00:00Z"
    turns = [
        {"speaker": "Ana", "content": f"I bought {n} {word}s in Oslo.", "timestamp": at} for n in range(2, 40)
    ]
    forest.ingest_session("u", session, turns)


def changed(folder: Path, sql: str) -> list[str]:
    """Run a statement on the only memory, if any, and return all stored texts."""
    (path,) = folder.glob("*.db")
    with closing(connect(path, 1.0)) as tx:
        tx.execute(sql)
        tx.commit()
        return [text for _, _, _, text, _, _ in artifacts.everything(tx)]


def test_what_was_made_of_deleted_text_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All else stays as it is; a deletion that was interrupted is finished when the memory is opened."""

    def killed(*_: object) -> int:
        raise KeyboardInterrupt

    with MemForest(tmp_path, CONFIG) as forest:
        say(forest, "s", "tent", 1)
        alone = sorted(changed(tmp_path, "SELECT 1"))
        say(forest, "t", "zither", 9)
        assert forest.user("u").delete(session_id="t").gone["summaries"] > 0
        assert "zither" not in str(changed(tmp_path, "SELECT 1"))
        say(forest, "t", "zither", 9)
    monkeypatch.setattr(SessionWriter, "sweep", killed)
    with MemForest(tmp_path, CONFIG) as forest, pytest.raises(KeyboardInterrupt):
        forest.user("u").delete(session_id="t")
    monkeypatch.undo()
    assert "zither" in str(changed(tmp_path, "SELECT 1"))
    with MemForest(tmp_path, CONFIG) as forest:
        forest.load("u")
        assert set(changed(tmp_path, "SELECT 1")) <= set(alone)
        forest.resume("u")
        assert sorted(changed(tmp_path, "SELECT 1")) == alone


@pytest.mark.parametrize("verb", ["tree", "flush", "repair", "rebuild"])
def test_a_damaged_summary_is_never_shown_and_made_anew(tmp_path: Path, verb: str) -> None:
    """Nor is anything made of what is left beside it: with the nodes above gone, all are what they were."""
    with MemForest(tmp_path, CONFIG) as forest:
        say(forest, "s", "tent", 1)
        before, low = sorted(changed(tmp_path, "SELECT 1")), "(SELECT min(id) FROM artifact)"
        changed(tmp_path, f"DELETE FROM artifact WHERE id > 2 + {low}")
        changed(tmp_path, f"UPDATE artifact SET text = x'00' WHERE id = {low}")
        getattr(forest.user("u"), verb)(**{"depth": 99} if verb == "tree" else {})
        assert sorted(changed(tmp_path, "SELECT 1")) == before
        assert forest.user("u").verify().ok
