"""Taking memories with the hmem index elsewhere: export and import, merging, encryption, and several processes at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long import hmems
from tests_long.test_graph import plain, reading
from tests_long.test_hmem_tree import TALK, said
from tests_long.worlds import KEYS, file_of, make_sessions
from tests_long.writing_double import Writer

from memforest import MemForest

LOOSE: dict[str, Any] = {"schedule": (0.3, 0.2, 0.1)}


def filled(folder: Path, sessions: Sequence[int] = (0, 1, 2), **more: Any) -> MemForest:
    """Return a forest with a memory of some sessions, of which one came before and is gone, so that row ids have gaps."""
    forest = MemForest(folder, hmems.configured(LOOSE, **more))
    forest.ingest_session("ana", "gone", said(9))
    for session in sessions:
        forest.ingest_session("ana", f"s{session}", said(session))
    forest.delete_session("ana", "gone")
    return forest


@pytest.mark.parametrize("summaries", [True, False])
def test_an_export_has_the_same_trees_elsewhere(tmp_path: Path, summaries: bool) -> None:
    """With texts, which nobody is asked for again, or without them; and what is said later joins them as it would have there."""
    export = tmp_path / "x.jsonl"
    with filled(tmp_path / "a", summariser=Writer()) as forest:
        forest.flush()
        forest.user("ana").export(export, summaries=summaries)
        before = hmems.shape(tmp_path / "a"), hmems.texts(tmp_path / "a")
        forest.ingest_session("ana", "s3", said(3))
        forest.flush()
        later = hmems.shape(tmp_path / "a"), hmems.texts(tmp_path / "a")
    writer = Writer()
    with MemForest(tmp_path / "b", hmems.configured(LOOSE, summariser=writer)) as forest:
        memory = forest.user("ana")
        memory.import_(export)
        assert hmems.sound(memory, tmp_path / "b", alphas=LOOSE["schedule"]) == before[0]
        forest.flush()
        assert bool(writer.counts()) is not summaries
        assert hmems.texts(tmp_path / "b") == before[1]
        forest.ingest_session("ana", "s3", said(3))
        forest.flush()
        assert (hmems.shape(tmp_path / "b"), hmems.texts(tmp_path / "b")) == later
        assert memory.verify().ok


def test_a_merge_has_the_trees_of_what_was_said_in_both(tmp_path: Path) -> None:
    """Into a memory with events before and behind those that come, and ones that both have."""
    for name, sessions in (("a", (0, 3, 4)), ("b", (1, 3, 2)), ("both", (0, 3, 4, 1, 2))):
        filled(tmp_path / name, sessions).close()
    with MemForest(tmp_path / "a", hmems.configured(LOOSE)) as forest:
        memory = forest.user("ana")
        memory.merge("ana", directory=tmp_path / "b", same_person=True)
        found = hmems.sound(memory, tmp_path / "a", alphas=LOOSE["schedule"])
        forest.flush()
        told = hmems.texts(tmp_path / "a")
    with MemForest(tmp_path / "both", hmems.configured(LOOSE)) as forest:
        forest.flush()
    assert found == hmems.shape(tmp_path / "both")
    assert told == hmems.texts(tmp_path / "both")


def test_an_encrypted_memory_has_the_same_trees(tmp_path: Path) -> None:
    """What is placed under a key is what is placed without; no name is readable in the file."""
    pytest.importorskip("sqlcipher3")
    filled(tmp_path / "a").close()
    with MemForest(tmp_path / "a", hmems.configured(LOOSE, key=KEYS[0])) as forest:
        forest.encrypt()
        forest.ingest_session("ana", "s3", said(3, (*TALK, "I met Quentin Abara.")))
        memory = forest.user("ana")
        forest.flush()
        assert memory.verify().ok
        assert memory.indexes()[0].counts["L1"] > 0
        before = memory.indexes()[0].counts
        assert b"Quentin" not in file_of(tmp_path / "a").read_bytes()
        forest.decrypt()
    with MemForest(tmp_path / "a", hmems.configured(LOOSE)) as forest:
        hmems.sound(forest.user("ana"), tmp_path / "a", alphas=LOOSE["schedule"])
        assert forest.user("ana").indexes()[0].counts == before


WRITE = """
import json, sys
from memforest import MemForest
from tests_long import hmems
folder, sessions = sys.argv[1], json.loads(sys.stdin.readline())
with MemForest(folder, hmems.configured()) as forest:
    print("ready", flush=True)
    sys.stdin.readline()
    for name, turns in sessions:
        forest.ingest_session("ana", name, turns)
"""


def at_once(folder: Path, shares: Sequence[Sequence[Any]]) -> None:
    """Ingest sessions in a process for each share, all beginning at one moment."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
        )
        for _ in shares
    ]
    for process, share in zip(running, shares, strict=True):
        assert process.stdin is not None
        process.stdin.write(json.dumps(share) + "\n")
        process.stdin.flush()
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        process.communicate(timeout=120)
        assert process.returncode == 0


def test_processes_that_ingest_at_once_place_and_name_everything_once(tmp_path: Path) -> None:
    """Three processes, each with sessions of its own that name the same new people: one entity each, trees as from one process."""
    sessions = make_sessions(5, sessions=9, short_forms=False)
    new = [
        (f"n{at}", said(at, ("I met Quentin Abara in Ghent.", "Quentin Abara works at Orrin Labs.")))
        for at in range(3)
    ]
    shares = [[new[at], *sessions[at::3]] for at in range(3)]
    at_once(tmp_path / "many", shares)
    with MemForest(tmp_path / "one", hmems.configured()) as forest:
        for share in shares:
            for name, turns in share:
                forest.ingest_session("ana", name, turns)
        hmems.sound(forest.user("ana"), tmp_path / "one")
    with MemForest(tmp_path / "many", hmems.configured()) as forest:
        assert hmems.sound(forest.user("ana"), tmp_path / "many") == hmems.shape(tmp_path / "one")
    with reading(tmp_path / "many") as (_, mine, many), reading(tmp_path / "one") as (_, own, one):
        assert plain(many, mine) == plain(one, own)
        assert sum("abara" in key for key in many.keys) == 1
