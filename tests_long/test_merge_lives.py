"""Memories are merged whatever they have been through: deletions, encryption, imports of chats, exports."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.merging_lives import live
from tests_long.test_encryption import KEY, OTHER, encrypted
from tests_long.worlds import CLOCK, differences, dump, fast_config, file_of, rows, said

from memforest import MemForest
from memforest.errors import NotFoundError, StoreKeyError
from memforest.memory.blocking import UserMemory
from memforest.testing import FrozenClock

TOLD = ("I live in Davis.", "I met Zoltan in Bergen.", "I bought a tent.")


@contextmanager
def merged(folder: Path, **settings: Any) -> Iterator[tuple[MemForest, UserMemory, UserMemory]]:
    """Make a memory "b" of one session, and an "a" into which it is merged once."""
    with MemForest(folder, fast_config(**settings)) as forest:
        forest.ingest_session("b", "s", said(*TOLD, speaker="Ana", day=2))
        forest.ingest_session("a", "own", said("I live in Lima.", speaker="Bob"))
        forest.user("a").merge("b")
        yield forest, forest.user("a"), forest.user("b")


def texts(user: UserMemory) -> list[str]:
    """Return what was said in the merged session, after `verify` has found nothing wrong."""
    assert user.verify().problems == ()
    return [turn.text for turn in user.turns("s")]


@pytest.mark.parametrize("what", ["turn", "fact"])
def test_what_was_deleted_there_does_not_come(folder: Path, what: str) -> None:
    """A session of which something was deleted is merged as it is now, and is known as such here."""
    with MemForest(folder, fast_config()) as forest:
        a, b = forest.user("a"), forest.user("b")
        forest.ingest_session("b", "s", said(*TOLD, speaker="Ana", day=2))
        fact = next(one.fact_id for one in b.list() if "Zoltan" in one.text)
        b.delete(turn=("s", "1")) if what == "turn" else b.delete(fact)
        forest.register_user("a")
        a.merge("b")
        assert a.verify(deleted=["zoltan", "bergen"]).ok
        assert texts(a) == texts(b) == [TOLD[0], TOLD[2]]
        assert forest.ingest_session("a", "s", said(*TOLD, speaker="Ana", day=2)).turns_added > 0
        assert texts(a) == list(TOLD)


def test_what_was_deleted_here_does_not_come_back(folder: Path) -> None:
    """Not of a session that is left, nor of one that was deleted as a whole; what was never here comes."""
    with merged(folder) as (forest, a, b):
        a.delete(turn=("s", "1"))
        again = a.merge("b")
        assert (again.sessions_same, again.turns_added) == (1, 0)
        assert a.verify(deleted=["zoltan", "bergen"]).ok
        assert texts(a) == [TOLD[0], TOLD[2]]
        assert texts(b) == list(TOLD)
        forest.ingest_session("b", "s", said(*TOLD, "I sold it.", speaker="Ana", day=2))
        a.merge("b")
        assert a.verify(deleted=["zoltan", "bergen"]).ok
        assert [turn.text for turn in a.turns("s")] == [TOLD[0], TOLD[2], "I sold it."]
        forest.delete_session("a", "s")
        forest.ingest_session("b", "s", said(*TOLD, "I sold it.", "I own a kite.", speaker="Ana", day=2))
        assert a.merge("b").turns_added == 1
        assert texts(a) == ["I own a kite."]
        assert a.verify(deleted=["zoltan", "bergen", "davis", "a tent"]).ok


def test_whose_memory_it_was_goes_with_the_last_of_its_turns(folder: Path) -> None:
    """Deleting a session that was merged leaves nothing of it here, and all of it there."""
    with merged(folder) as (forest, a, b):
        a.delete(session_id="s")
        assert rows(_file(folder, "own"), "SELECT * FROM origin") == []
        assert a.verify(deleted=["zoltan", "bergen", "davis"]).ok
        assert texts(b) == list(TOLD)
        with pytest.raises(NotFoundError):
            forest.user("a").turns("s")


@encrypted
def test_encrypted_memories_are_merged(folder: Path) -> None:
    """Under the one key of the forest; what is merged is encrypted too."""
    with merged(folder / "x", key=KEY) as (_, a, _):
        assert texts(a) == list(TOLD)
    with MemForest(folder / "y", fast_config(key=KEY)) as forest:
        assert forest.user("a").merge("a", directory=folder / "x", same_person=True).sessions_added == 2
        assert texts(forest.user("a")) == list(TOLD)
    found = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file()).lower()
    assert b"zoltan" not in found


@encrypted
@pytest.mark.parametrize(
    ("there", "here"), [(OTHER, KEY), (None, KEY), (KEY, None)], ids=["two", "one", "other"]
)
def test_memories_of_two_keys_are_not_merged(folder: Path, there: bytes | None, here: bytes | None) -> None:
    """The error says what to do, nothing is written on either side, and a memory that was not here is not made."""
    with merged(folder / "there", key=there):
        pass
    before = {path: path.read_bytes() for path in (folder / "there").iterdir()}
    with MemForest(folder / "here", fast_config(key=here)) as forest:
        forest.ingest_session("a", "own", said("I live in Lima.", speaker="Bob"))
        for user in ("a", "new"):
            with pytest.raises(StoreKeyError):
                forest.user(user).merge("b", directory=folder / "there")
        assert not forest.has_user("new")
        assert forest.user("a").stats().sessions == 1
    assert {path: path.read_bytes() for path in (folder / "there").iterdir()} == before


def test_a_chat_that_was_imported_is_merged(folder: Path) -> None:
    """Turns of tools, metadata and times that the file gave are as they were there, and it is the same chat when imported here."""
    chat = folder / "chat.json"
    messages = [
        {"role": "user", "content": "I live in Davis. What is the weather?"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Davis"}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "Sunny in Davis."},
        {"role": "assistant", "content": "It is sunny."},
    ]  # fmt: skip
    chat.write_text(json.dumps(messages), encoding="utf-8")
    with MemForest(folder / "m", fast_config()) as forest:
        forest.import_file("b", chat, session_id="talk", timestamp="2024-05-01T10:00:00Z")
        forest.register_user("a")
        a, b = forest.user("a"), forest.user("b")
        assert a.merge("b").turns_added == len(b.turns("talk")) > 2
        kept = ("id", "speaker", "role", "text", "said", "time_source", "metadata")
        assert [[getattr(one, x) for x in kept] for one in a.turns("talk")] == [
            [getattr(one, x) for x in kept] for one in b.turns("talk")
        ]
        assert [one.text for one in a.list()] == [one.text for one in b.list()]
        assert a.verify().problems == ()
        forest.import_file("a", chat, session_id="talk", timestamp="2024-05-01T10:00:00Z")
        assert len(a.turns("talk")) == len(b.turns("talk"))
        assert a.merge("b").sessions_same == 1


def test_an_import_of_a_merged_memory_is_merged_with_on(folder: Path) -> None:
    """Origins, names and corrections are in the export: the next merge finds all of it and asks nothing."""
    clock = FrozenClock(CLOCK)
    with merged(folder / "x", clock=clock) as (forest, a, b):
        forest.ingest_session("a", "mine", said("I live in Oslo.", speaker="Ana", day=4))
        clock.advance(days=1)
        b.forget(next(one.fact_id for one in b.list() if "tent" in one.text))
        a.merge("b")
        a.export(folder / "a.jsonl", vectors=True)
        shown = [one.statement for one in a.list()]
        before = [one.statement for one in a.list(known_at=CLOCK)]
        with MemForest(folder / "y", fast_config(clock=clock)) as other:
            here = other.user("a")
            here.import_(folder / "a.jsonl")
            assert [one.statement for one in here.list()] == shown
            assert [one.statement for one in here.list(known_at=CLOCK)] == before
            result = here.merge("b", directory=folder / "x")
            assert (result.sessions_same, result.turns_added, result.corrections_added) == (1, 0, 0)
            assert [(one.session_id, one.origin) for one in here.sessions()] == [
                (one.session_id, one.origin) for one in a.sessions()
            ]
            assert here.verify().problems == ()
            del b
        assert differences(dump(_file(folder / "x", "mine")), dump(file_of(folder / "y"))) == {}


def _file(folder: Path, session_id: str) -> Path:
    """Return the memory that has a session."""
    held = f"SELECT 1 FROM session WHERE session_id = '{session_id}'"
    return next(path for path in folder.glob("*.db") if rows(path, held))


@pytest.mark.parametrize("seed", range(1_000, 1_003))
def test_a_short_life_of_three_memories(seed: int) -> None:
    """Whatever they went through: after each merge all is sound, nothing is twice, and nothing comes back."""
    live(seed, steps=15)


def test_a_life_of_three_memories(soak_seed: int) -> None:
    """The same over a longer life."""
    live(soak_seed)


def test_both_go_on_with_a_session(folder: Path) -> None:
    """The turns of both stand in it, each once, whichever is merged first and however often."""
    with MemForest(folder, fast_config()) as forest:
        for number, (user, text) in enumerate(
            (("c", "I live in Porto."), ("a", "I own a kite."), ("c", "I have a dog."))
        ):
            if number == 1:
                for name in "ab":
                    forest.user(name).merge("c", same_person=False)
            forest.user(user).add(text, session_id="live", timestamp=f"2024-05-0{number + 1}")
        for here, there in ("ac", "ba", "ca", "bc", "ab", "ca", "ac"):
            forest.user(here).merge(there, same_person=False)
            assert forest.user(here).verify().problems == ()
        found = {name: forest.user(name).sessions() for name in "abc"}
        assert all([one.session_id for one in every] == ["live"] for every in found.values())
        for name in "abc":
            said_there = sorted(turn.text for turn in forest.user(name).turns("live"))
            assert said_there == ["I have a dog.", "I live in Porto.", "I own a kite."]


def test_a_session_that_shares_nothing_but_its_id_stays_apart(folder: Path) -> None:
    """Also when the turns that it shared were all deleted here: what it says since comes, once."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("b", "s", said("I met Zoltan.", speaker="Ana"))
        forest.user("a").merge("b")
        forest.user("a").delete(session_id="s")
        forest.ingest_session("a", "s", said("I own a kite.", speaker="Bob", day=9))
        forest.user("b").add(
            [{"speaker": "Ana", "content": "I have a dog."}], session_id="s", timestamp="2024-01-01"
        )
        for _ in range(2):
            forest.user("a").merge("b")
            texts_here = [
                turn.text
                for one in forest.user("a").sessions()
                for turn in forest.user("a").turns(one.session_id)
            ]
            assert sorted(texts_here) == ["I have a dog.", "I own a kite."]
            assert forest.user("a").verify(deleted=["zoltan"]).problems == ()


def test_a_deleted_sentence_does_not_come_back(folder: Path) -> None:
    """Of a turn whose other sentence stays: not in its words, nor in a statement that tells of it."""
    told = ("I met Zoltan in Bergen. I own a kite.", "He lives there.")
    with MemForest(folder, fast_config()) as forest:
        a = forest.user("a")
        forest.ingest_session("b", "s", said(*told, speaker="Ana"))
        a.merge("b")
        a.delete(next(one.fact_id for one in a.list() if "Zoltan" in one.text))
        kept = texts(a)
        forest.ingest_session("b", "s", said(*told, "I have a dog.", speaker="Ana"))
        a.merge("b")
        assert texts(a) == [*kept, "I have a dog."]
        assert a.verify(deleted=["zoltan", "bergen"]).problems == ()


@pytest.mark.parametrize("kind", ["pin", "forget", "update"])
@pytest.mark.parametrize("gone", ["turn", "fact", "session", "entity", "during", "replace"])
def test_no_decision_tells_of_what_was_deleted(folder: Path, kind: str, gone: str) -> None:
    """Neither here, nor after a merge of a memory in which it was decided of."""
    turns = [
        {"speaker": "Ana", "content": "I live in Davis.", "timestamp": "2024-05-02T10:00:00Z"},
        {"speaker": "Bob", "content": "I work at Zqzebra now.", "timestamp": "2024-05-01T10:00:00Z"},
    ][::-1]
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("a", "s", turns)
        a, b = forest.user("a"), forest.user("b")
        b.merge("a", same_person=False)
        for memory in (b, a):
            fact = next(one.fact_id for one in memory.list() if "Zqzebra" in one.text)
            getattr(memory, kind)(fact, *(["I work at Zqzebra Ltd now."] if kind == "update" else []))
        if gone == "replace":
            forest.ingest_session("a", "s", turns[1:], replace=True)
        else:
            targets: dict[str, Any] = {
                "turn": {"turn": ("s", "0")},
                "fact": {"fact_id": fact},
                "session": {"session_id": "s"},
                "entity": {"entity": "Bob"},
                "during": {"during": (None, "2024-05-02T00:00:00Z")},
            }
            a.delete(**targets[gone])
        for _ in range(2):
            path = folder / "a.jsonl"
            a.export(path, overwrite=True)
            assert "zqzebra" not in path.read_text(encoding="utf-8").lower()
            assert a.verify().problems == ()
            a.merge("b", same_person=False)
        assert a.verify(deleted=["zqzebra"]).problems == ()


def test_an_import_knows_what_was_deleted(folder: Path) -> None:
    """What was deleted before an export does not come back by a merge into what was made of it."""
    with merged(folder / "x") as (_, a, _):
        a.delete(turn=("s", "1"))
        a.export(folder / "a.jsonl")
        with MemForest(folder / "y", fast_config()) as other:
            here = other.user("a")
            here.import_(folder / "a.jsonl")
            here.merge("b", directory=folder / "x")
            assert texts(here) == [TOLD[0], TOLD[2]]
            assert here.verify(deleted=["zoltan", "bergen"]).ok
