"""A memory whose only index is the segment tree: every verb, ways of asking, encryption, and many who read and write at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests_long.test_encryption import encrypted
from tests_long.worlds import KEYS, differences, dump, fast_config, file_of, make_sessions

from memforest import Config, MemForest, UserMemory
from memforest.testing import FunctionChat

SESSIONS = make_sessions(3, sessions=5, short_forms=False)
QUESTION = "Where does Ana live?"
ALONE = ("segtree",)
MODES = ("emb", "emb+planner", "llm", "llm+planner")


def config(**settings: Any) -> Config:
    """Return a configuration with this index alone."""
    return fast_config(**{"indexes": ALONE, **settings})


def fill(forest: MemForest, **how: Any) -> UserMemory:
    """Return a memory with a few sessions."""
    for session_id, turns in SESSIONS:
        forest.ingest_session("u", session_id, turns, **how)
    return forest.user("u")


def shown(memory: UserMemory, question: str = QUESTION, **how: Any) -> list[tuple[Any, ...]]:
    """Return what is found, in order, with scores."""
    return [(one.kind, one.text, round(one.score, 9)) for one in memory.search(question, **how)]


def test_every_verb(tmp_path: Path) -> None:
    """Stored, found, answered, corrected, deleted, exported, made anew and repaired: sound, and as it was where nothing changes."""
    with MemForest(tmp_path / "a", config()) as forest:
        memory = fill(forest)
        everything = shown(memory, top_k=1000)
        memory.rebuild()
        memory.rebuild(index="segtree")
        assert shown(memory, top_k=1000) == everything
        memory.export(tmp_path / "u.jsonl")
        assert memory.repair().ok
        [index] = memory.indexes()
        assert (index.name, index.trees) == ("segtree", 1)
        [tree] = memory.tree(depth=1)
        assert tree.summary
        with MemForest(tmp_path / "b", config()) as other:
            other.user("u").import_(tmp_path / "u.jsonl")
            assert shown(other.user("u"), top_k=1000) == everything
            other.user("w").add(SESSIONS[0][1], session_id="of w")
            other.user("u").merge("w")
            assert other.user("u").verify().ok
        memory.update(memory.list().facts[0].fact_id, "Ana lives in Porto.")
        memory.forget(memory.list().facts[-1].fact_id)
        memory.delete(session_id="s2")
        memory.delete(turn=("s1", "0"))
        memory.delete(during=(None, "2023-05-03"))
        assert memory.verify().ok
        sources = {
            (one.session_id, turn)
            for piece in memory.search(QUESTION, top_k=1000)
            for one in piece.sources
            for turn in one.turn_ids
        }
        assert {session for session, _ in sources} == {one.session_id for one in memory.sessions()}


def test_without_statements_evidence_is_what_was_said(tmp_path: Path) -> None:
    """Of a memory into which nothing but the turns is written."""
    with MemForest(tmp_path, config()) as forest:
        memory = fill(forest, infer=False)
        found = memory.search("a red car", top_k=1000)
        said = {turn["content"] for _, turns in SESSIONS for turn in turns}
        assert {one.text for one in found if one.kind != "memory"} <= said
        assert found.evidence
        assert "memory" not in {one.kind for one in found}
        assert memory.verify().ok


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_that_browses_says_that_there_is_nothing_to_browse(tmp_path: Path, mode: str) -> None:
    """The answer is that of `emb`."""
    with MemForest(
        tmp_path, config(indexes=("memforest", "segtree"), chat=FunctionChat(local_reply))
    ) as forest:
        memory = fill(forest)
        found = memory.search(QUESTION, index="segtree", mode=mode)  # type: ignore[arg-type]
        assert found.trace["mode"] == "emb"
        assert any("'segtree' does not browse trees" in one for one in found.warnings) == (mode != "emb")
        assert shown(memory, index="segtree", mode=mode) == shown(memory, index="segtree", mode="emb")
        assert memory.ask(QUESTION, index="segtree", mode=mode).answer  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "question", ["?!", "где живёт Ana? 安娜住在哪里 อานา", "Where does Ana live? " * 500, "😀"]
)
def test_any_question_is_answered(tmp_path: Path, question: str) -> None:
    """Without words, in other scripts, of 10,000 characters; what stands first is the same however much is asked for."""
    with MemForest(tmp_path, config()) as forest:
        memory = fill(forest)
        everything = shown(memory, question, top_k=1000)
        assert len(everything) > 10
        assert shown(memory, question, top_k=1) == everything[:1]
        context = memory.search(question, max_tokens=60, top_k=1000).context()
        assert 0 < len(context) < 400
        memory.pin(memory.list().facts[0].fact_id)
        assert any(one.pinned for one in memory.search(question, top_k=2))


@encrypted
def test_an_encrypted_memory_finds_the_same(tmp_path: Path) -> None:
    """Encrypted, with another key, backed up and restored: the same evidence, and not a word in the files."""
    with MemForest(tmp_path / "m", config()) as forest:
        plain = shown(fill(forest), top_k=1000)
    with MemForest(tmp_path / "m", config(key=KEYS[0])) as forest:
        forest.encrypt()
        forest.rekey(KEYS[1])
    with MemForest(tmp_path / "m", config(key=KEYS[1])) as forest:
        assert shown(forest.user("u"), top_k=1000) == plain
        forest.user("u").backup(tmp_path / "u.backup")
        salt = next((tmp_path / "m").glob("*-salt"))
        (tmp_path / "u.backup-salt").write_bytes(salt.read_bytes())
    with MemForest(tmp_path / "again", config(key=KEYS[1])) as forest:
        forest.restore(tmp_path / "u.backup")
        assert shown(forest.user("u"), top_k=1000) == plain
        assert forest.user("u").verify().ok
    assert b"Kyoto" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def ingest(folder: Path, sessions: Sequence[Any]) -> None:
    """Store sessions by a forest of one's own."""
    with MemForest(folder, config()) as forest:
        for session_id, turns in sessions:
            forest.ingest_session("u", session_id, turns)


def test_who_write_and_read_at_once_do_what_one_does(tmp_path: Path) -> None:
    """Two forests ingest into one memory while others ask: nobody fails, and the tree is that of one who wrote alone."""
    sessions = make_sessions(11, sessions=10, most_turns=5, short_forms=False)
    ingest(tmp_path / "alone", sessions)
    with MemForest(tmp_path / "at once", config()) as forest, ThreadPoolExecutor(4) as pool:
        forest.register_user("u")
        writers = [pool.submit(ingest, tmp_path / "at once", sessions[at::2]) for at in range(2)]
        memory, asked = forest.user("u"), 0
        while not all(writer.done() for writer in writers):
            results = pool.map(lambda _: memory.search(QUESTION, top_k=1000), range(2))
            for found in results:
                stored = {session for session, _ in sessions}
                assert {source.session_id for one in found for source in one.sources} <= stored
                asked += 1
        for writer in writers:
            writer.result()
        assert asked
        forest.resume("u")
        assert memory.verify().ok
    one, other = (dump(file_of(tmp_path / name)) for name in ("alone", "at once"))
    assert differences(one, other, parts=("turns", "trees")) == {}
