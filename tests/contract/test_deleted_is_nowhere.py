"""What was deleted is in no file, no answer, no history, no export, no later backup: for each kind of deletion."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.contract.talk import fact, files, found_in_files, opened, said
from tests.doubles import local_reply

from memforest import MemForest, UserMemory
from memforest.testing import FunctionChat

MARKS = ("zorvaldine", "quenthorpe")
"""Words that nobody else says: of a place and of a thing."""

DELETIONS: Mapping[str, Callable[[MemForest, UserMemory], Any]] = {
    "turn": lambda forest, memory: memory.delete(turn=("secret", memory.turns("secret")[1].id)),
    "session": lambda forest, memory: memory.delete(session_id="secret"),
    "facts": lambda forest, memory: [
        memory.delete(one.fact_id) for one in memory.list(limit=1000) if _marked(one.text)
    ],
    "entity": lambda forest, memory: memory.delete(entity="Zorvaldine"),
    "before": lambda forest, memory: memory.delete(during=(None, "2024-01-01")),
    "window": lambda forest, memory: memory.delete(during=("2023-05-01T10:00:30Z", "2023-05-01T10:01:30Z")),
    "after": lambda forest, memory: memory.delete(during=("2023-05-01T10:00:30Z", "9999-01-01")),
    "retention": lambda forest, memory: memory.expire(),
    "replacement and session": lambda forest, memory: (
        forest.ingest_session(
            "anna", "secret", said("I own a kiln.", start="2023-05-01T10:00:00+00:00"), replace=True
        ),
        memory.delete(session_id="secret"),
    ),
    "user": lambda forest, memory: forest.delete_user("anna"),
    "all": lambda forest, memory: memory.delete_all(),
}


def _marked(text: str) -> bool:
    return any(word in text.casefold() for word in MARKS)


def tell(forest: MemForest) -> UserMemory:
    """Say the marked words among others, in every place that there is: text, metadata, names, decisions, summaries."""
    memory = forest.user("anna")
    talk = said(
        "I own a kiln.",
        "I moved to Zorvaldine and bought a quenthorpe there.",
        "It rained.",
        start="2023-05-01T10:00:00+00:00",
    )
    talk[1]["caption"] = "a quenthorpe in Zorvaldine"
    forest.ingest_session("anna", "secret", talk, idempotency_key="k")
    forest.flush()
    memory.search("Where is the quenthorpe in Zorvaldine?")
    memory.ask("Who moved to Zorvaldine?")
    marked = [one for one in memory.list(limit=1000) if _marked(one.text)]
    assert marked
    memory.pin(marked[0].fact_id)
    memory.update(marked[0].fact_id, "Anna moved to Zorvaldine and sold the quenthorpe.")
    forest.flush()
    memory.advance(force=True)
    return memory


def everything_read(memory: UserMemory) -> str:
    """Return all that the readers of a memory return, as one text."""
    stream = io.BytesIO()
    memory.export(stream, vectors=False)
    held = [
        memory.list(limit=1000), *(memory.list(verdict=one) for one in ("pinned", "forgotten", "corrected")),
        memory.list(limit=1000, known_at="2024-06-01T12:00:00Z"), memory.sessions(), memory.entities(), memory.changes("2020-01-01", limit=1000),
        memory.diff("2023-01-01", "2024-06-01"), memory.profile(), memory.profile(as_of="2023-06-01"), memory.stats(), memory.graph(),
        *(memory.search(word, top_k=100) for word in ("Where does Anna live?", "What happened in May 2023?")),
        memory.ask("Where does Anna live?"),
        *memory.tree(depth=9), *(memory.turns(one.session_id) for one in memory.sessions()),
        *(memory.timeline(one.name) for one in memory.entities()), *(memory.relations(one.name)[0] for one in memory.entities() if memory.relations(one.name)),
        *(entry for one in memory.list(limit=1000) for entry in memory.history(one.fact_id)),
    ]  # fmt: skip
    return "\n".join(
        [*(json.dumps(one.to_dict(), ensure_ascii=False) for one in held), stream.getvalue().decode()]
    ).casefold()


INDEXED: dict[str, Any] = {"indexes": ("memforest", "segtree", "timem", "hmem")}


@pytest.fixture(scope="module")
def made_marked(made_world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of Anna's memory with the marked words in every place, closed; tests take copies."""
    place = Path(shutil.copytree(made_world, tmp_path_factory.mktemp("marked") / "marked"))
    with opened(place, **INDEXED) as forest:
        memory = tell(forest)
        assert found_in_files(place, MARKS[0])
        assert _marked(everything_read(memory))
    return place


@pytest.mark.parametrize("kind", DELETIONS)
def test_what_was_deleted_is_nowhere(made_marked: Path, folder: Path, kind: str) -> None:
    """Neither in the bytes of any file, open and closed, nor in what any reader, export or backup gives."""
    place = Path(shutil.copytree(made_marked, folder / "marked"))
    settings = {**INDEXED, "retention": "200 days"} if kind == "retention" else INDEXED
    with opened(place, **settings) as forest:
        memory = forest.user("anna")
        DELETIONS[kind](forest, memory)
        assert [word for word in MARKS if found_in_files(place, word)] == []
        if kind in ("user", "all"):
            assert files(place) == {}
            return
        assert memory.verify(deleted=MARKS).ok
        assert [word for word in MARKS if word in everything_read(memory)] == []
        memory.flush()
        memory.advance(force=True)
        forest.backup(folder / "backup")
        memory.export(folder / "out.jsonl", vectors=True)
    assert [word for word in MARKS if found_in_files(folder, word)] == []


def test_a_write_that_comes_again_brings_nothing_back(world: Path) -> None:
    """The retry of a write that has a key is known, though what it wrote was deleted."""
    with opened(world) as forest:
        memory = forest.user("anna")
        memory.add(said("I moved to Zorvaldine.", "I own a kiln."), session_id="secret", idempotency_key="k")
        memory.delete(entity="Zorvaldine")
        memory.add(said("I moved to Zorvaldine.", "I own a kiln."), session_id="secret", idempotency_key="k")
        assert memory.verify(deleted=["Zorvaldine"]).ok
        assert not found_in_files(world, "zorvaldine")


def test_what_a_model_made_of_it_goes_too(folder: Path) -> None:
    """Statements, summaries and replies of a chat model have no word of it left."""
    with opened(folder, chat=FunctionChat(local_reply)) as forest:
        memory = forest.user("u")
        memory.add(
            said("I own a kiln.", "I moved to Zorvaldine.", "I own a lute.", "It rained."), session_id="s"
        )
        forest.flush()
        assert found_in_files(folder, "zorvaldine")
        memory.delete(turn=("s", memory.turns("s")[1].id))
        forest.flush()
        assert memory.verify(deleted=["Zorvaldine"]).ok
        assert not found_in_files(folder, "zorvaldine")


@pytest.mark.parametrize("word", ["Žofínská", "Кировоград", "台北小巨蛋", "أسكندرية", "o'Brien\"x"])
def test_words_of_any_script_go(world: Path, word: str) -> None:
    """Whatever the letters and however they are folded."""
    with opened(world) as forest:
        memory = forest.user("anna")
        memory.add(said(f"I met {word} in the harbour café."), session_id="s")
        forest.flush()
        memory.delete(session_id="s")
        assert memory.verify(deleted=[word]).ok
    assert not found_in_files(world, word)


def test_a_deletion_holds_against_a_reader(world: Path) -> None:
    """While another forest reads, the receipt says what is still in the log; closed, nothing is."""
    with opened(world) as forest, opened(world) as reader:
        reader.query("anna", "What is the wifi password?")
        receipt = forest.user("anna").delete(fact(forest.user("anna"), "marmalade77").fact_id)
        assert receipt.wal_pending or not found_in_files(world, "marmalade77")
        assert "marmalade77" not in reader.query("anna", "What is the wifi password?").context()
    assert not found_in_files(world, "marmalade77")
