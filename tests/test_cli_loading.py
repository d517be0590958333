"""From chat files into memories: whose sessions, in which batches, what is counted, and what an error says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memforest import Budget, Config, MemForest
from memforest.cli.formats import FileMemory, FileSession, read_chat
from memforest.cli.loading import (
    DEFAULT_USER,
    TURNS_TOGETHER,
    IngestOptions,
    Loaded,
    Plan,
    _batches,
    load,
    name_user,
    plan_memories,
    read_file,
)
from memforest.errors import InputError
from memforest.memory.results import ChunkReport, FlushResult, IngestResult, Usage
from memforest.models import HashEmbedder
from memforest.testing import FunctionChat, local_reply
from memforest.types import Refused, StepUsage

HI = {"speaker": "Ann", "content": "I live in Oslo.", "timestamp": "2024-05-01T10:00:00Z"}
YO = {"speaker": "Ann", "content": "I own a boat.", "timestamp": "2024-05-01T10:01:00Z"}


def session(session_id: str, turns: int = 1, **more: Any) -> FileSession:
    """Return a session of so many turns."""
    return FileSession(session_id, (HI,) * turns, **more)


def memory(user: str | None, *ids: str, source: str = "a.json") -> FileMemory:
    """Return what a file holds for a user."""
    return FileMemory(source, tuple(session(one) for one in ids), user)


def no_input() -> bytes:
    """Stand for a standard input that must not be read."""
    raise AssertionError("standard input was read")


# -- files ----------------------------------------------------------------------------------------


def test_a_file_names_its_only_session(tmp_path: Path) -> None:
    """By its name without the ending, unless the session or the caller has another."""
    path = tmp_path / "our chat.v2.json"
    path.write_text(json.dumps([HI]), encoding="utf-8")
    (found,) = read_file(path, stdin=no_input)
    assert (found.source, found.sessions[0].session_id) == ("our chat.v2.json", "our chat.v2")
    (found,) = read_file(path, session_id="other", stdin=no_input)
    assert found.sessions[0].session_id == "other"
    path.write_text(json.dumps({"session_id": "own", "user": "ann", "turns": [HI]}), encoding="utf-8")
    (found,) = read_file(path, session_id="other", stdin=no_input)
    assert (found.sessions[0].session_id, found.sessions[0].turns, found.user) == ("other", (HI,), "ann")


def test_standard_input_has_no_name_to_give() -> None:
    """Its session has to be named; messages about it say what it was."""
    data = json.dumps([HI]).encode()
    (found,) = read_file(Path("-"), session_id="s", stdin=lambda: data)
    assert (found.source, found.sessions[0].session_id) == ("standard input", "s")
    with pytest.raises(InputError, match=r"^standard input.*--session"):
        read_file(Path("-"), stdin=lambda: data)


@pytest.mark.parametrize(
    ("value", "session_id"),
    [
        ([{"session_id": "a", "turns": [HI]}, {"session_id": "b", "turns": [HI]}], "s"),
        ([{"sample_id": n, "conversation": {"session_1": [HI]}} for n in ("x", "y")], "s"),
    ],
)
def test_one_name_is_not_for_several_sessions(tmp_path: Path, value: Any, session_id: str) -> None:
    """Of one memory or of two; without it they are read."""
    path = tmp_path / "f.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(InputError, match=r"f\.json holds several sessions, which --session cannot name"):
        read_file(path, session_id=session_id, stdin=no_input)
    assert sum(len(one.sessions) for one in read_file(path, stdin=no_input)) == 2


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A directory with what to do, anything else with the system's words."""
    with pytest.raises(InputError, match=rf"{tmp_path.name} is a directory; name the files in it"):
        read_file(tmp_path, stdin=no_input)
    with pytest.raises(InputError, match=r"cannot read '.*gone\.json': No such file") as caught:
        read_file(tmp_path / "gone.json", stdin=no_input)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


# -- whose they are -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("users", "user", "fallback", "planned"),
    [
        ([None], None, None, [DEFAULT_USER]),
        ([None], None, "env", ["env"]),
        ([None], "ann", "env", ["ann"]),
        (["bo"], None, "env", ["bo"]),
        (["bo"], "ann", None, ["ann"]),
        (["bo", "cy"], None, None, ["bo", "cy"]),
        (["cy", "bo"], None, None, ["cy", "bo"]),
        (["bo", None], None, None, ["bo", DEFAULT_USER]),
        (["bo", "bo", None], "ann", None, ["ann"]),
        ([None, None], None, None, [DEFAULT_USER]),
    ],
)
def test_what_is_asked_goes_before_what_files_say(
    users: list[str | None], user: str | None, fallback: str | None, planned: list[str]
) -> None:
    """Then comes the environment, then "me"; memories stand in the order in which they come."""
    found = [memory(one, f"s{at}") for at, one in enumerate(users)]
    plans = plan_memories(found, user=user, fallback=fallback)
    assert [plan.user for plan in plans] == planned
    assert sorted(one.session_id for plan in plans for _, one in plan.sessions) == [
        f"s{at}" for at in range(len(users))
    ]


def test_several_memories_are_not_mixed_into_one() -> None:
    """Whoever asks for it; the number tells how many there are."""
    found = [memory("bo", "a"), memory("cy", "b"), memory("bo", "c"), memory(None, "d")]
    with pytest.raises(InputError, match="the memories of 2 users; leave --user out"):
        plan_memories(found, user="ann")


def test_two_files_cannot_have_one_session() -> None:
    """Of one user: both are named; of two users it is two sessions."""
    one, other = memory("bo", "a", "b"), memory("bo", "c", "b", source="b.json")
    with pytest.raises(
        InputError, match=r"^a\.json and b\.json both have the session 'b'; ingest them one by one"
    ):
        plan_memories([one, other], user=None)
    assert len(plan_memories([one, memory("cy", "b", source="b.json")], user=None)) == 2


def test_a_plan_keeps_files_and_order() -> None:
    """Each session with the file that it is from."""
    (plan,) = plan_memories([memory(None, "b", "a"), memory(None, "c", source="z.json")], user=None)
    assert [(source, one.session_id) for source, one in plan.sessions] == [
        ("a.json", "b"), ("a.json", "a"), ("z.json", "c")]  # fmt: skip
    assert plan.turns == 3


@given(st.lists(st.integers(1, TURNS_TOGETHER + 200), max_size=8), st.booleans())
@settings(max_examples=30, deadline=None)
def test_batches_are_all_sessions_in_order(sizes: list[int], together: bool) -> None:
    """One by one without a model; else as many turns as go together, a larger session by itself, none split."""
    plan = Plan("u", tuple(("f", session(f"s{at}", size)) for at, size in enumerate(sizes)))
    batches = _batches(plan, together=together)
    assert [one for batch in batches for one in batch] == list(plan.sessions)
    counts = [sum(len(one.turns) for _, one in batch) for batch in batches]
    assert all(
        len(batch) == 1 or (together and count <= TURNS_TOGETHER)
        for batch, count in zip(batches, counts, strict=True)
    )
    if together:
        firsts = [len(batch[0][1].turns) for batch in batches]
        assert all(count + first > TURNS_TOGETHER for count, first in zip(counts, firsts[1:], strict=False))


# -- counts ---------------------------------------------------------------------------------------


def usage(calls: int = 0, failures: int = 0, prompt: int = 0, completion: int = 0, **embeds: int) -> Usage:
    """Return what was spent."""
    return Usage(embeds, steps={"extract": StepUsage(calls, failures, 0, prompt, completion)})


def test_results_are_added_up() -> None:
    """Sessions, turns, facts, chunks and models; the dirty nodes are those of the last."""
    failed = ChunkReport(("1",), "failed", (("1", "question"),), "no JSON")
    again = ChunkReport(("2",), "failed", (), "gone")
    left, read = (
        ChunkReport(("3",), "left"),
        ChunkReport(("4",), "extracted", (("4", "question"), ("4", "empty"))),
    )
    refused = Refused(0, "5", "too long")
    loaded = Loaded("u")
    loaded.count(
        IngestResult(
            "a",
            4,
            ("f", "g"),
            ("h",),
            ("i",),
            (failed, left),
            (refused,),
            nodes_dirty=9,
            usage=usage(2, 1, 30, 4, turn=3),
        )
    )
    loaded.count(
        IngestResult(
            "b", 1, (), (), (), (read, again), nodes_dirty=5, usage=usage(1, 0, 5, 1, turn=1, fact=2)
        )
    )
    assert (loaded.sessions_new, loaded.sessions_unchanged, loaded.turns_added, loaded.turns_refused) == (
        2,
        0,
        5,
        1,
    )
    assert (loaded.facts_added, loaded.facts_merged, loaded.facts_superseded) == (2, 1, 1)
    assert (loaded.failed_chunks, loaded.failure, loaded.left_chunks) == (2, "no JSON", 1)
    assert loaded.skipped == Counter(question=2, empty=1)
    assert (loaded.model_calls, loaded.model_tokens, loaded.model_failures, loaded.nodes_dirty) == (
        3,
        40,
        1,
        5,
    )
    assert loaded.embedded == Counter(turn=4, fact=2)


@pytest.mark.parametrize(
    ("result", "new"),
    [
        (IngestResult("a", 0), False),
        (IngestResult("a", 1), True),
        (IngestResult("a", 0, replaced=True), True),
        (IngestResult("a", 0, chunks=(ChunkReport(("1",), "extracted"),)), True),
    ],
)
def test_a_session_is_new_where_something_was_done(result: IngestResult, new: bool) -> None:
    """Chunks that were left from before count; a session that is stored as it came does not."""
    loaded = Loaded("u")
    loaded.count(result)
    assert (loaded.sessions_new, loaded.sessions_unchanged) == ((1, 0) if new else (0, 1))


def test_a_warning_is_kept_once() -> None:
    """From sessions and from summaries made behind them, in the order in which they came."""
    loaded = Loaded("u")
    loaded.count(IngestResult("a", 1, warnings=("one", "two")))
    loaded.count(IngestResult("b", 1, warnings=("two",)))
    loaded.add(FlushResult(3, 2, usage(4, 0, 6, 7), ("three", "one")))
    assert loaded.warnings == ["one", "two", "three"]
    assert (loaded.nodes_dirty, loaded.model_calls, loaded.model_tokens) == (2, 4, 13)


# -- into a memory --------------------------------------------------------------------------------


def loaded_from(
    forest: MemForest, sessions: Sequence[FileSession], **options: Any
) -> tuple[Loaded, list[str]]:
    """Load sessions into the memory of "u"; return what became of them, and those that were told of."""
    told: list[str] = []
    loaded = Loaded("u")
    plan = Plan("u", tuple(("f.json", one) for one in sessions))
    load(forest, plan, IngestOptions(**options), loaded, lambda one: told.append(one.session_id))
    return loaded, told


@pytest.fixture
def forest(tmp_path: Path) -> Any:
    """A forest of local steps."""
    with MemForest(tmp_path / "m", Config(embedder=HashEmbedder())) as made:
        yield made


def test_a_bad_session_is_named_and_the_rest_goes_on(forest: MemForest) -> None:
    """With its file and its place in it, and the words of the command's own options."""
    bad = FileSession("bad", ({"speaker": "Ann", "content": "No time."},), where="sessions[1]")
    loaded, told = loaded_from(forest, [session("a"), bad, FileSession("b", (YO,))])
    assert told == ["a", "bad", "b"]
    assert (loaded.sessions_new, loaded.sessions_failed, loaded.turns_added) == (2, 1, 2)
    (error,) = loaded.errors
    assert error.startswith("f.json, session 'bad' (sessions[1]): ")
    assert "--timestamp" in error
    assert "timestamp=" not in error
    assert loaded.bytes > 0
    assert loaded.embedder == "hash-words-1@64"


def test_a_conflict_names_the_option(forest: MemForest) -> None:
    """And with it the stored session is overwritten."""
    changed = FileSession("a", ({**HI, "content": "I live in Rome."},))
    loaded_from(forest, [session("a")])
    loaded, _ = loaded_from(forest, [changed])
    assert loaded.errors[0].startswith("f.json, session 'a': ")
    assert "give --replace to overwrite it" in loaded.errors[0]
    assert "replace=True" not in loaded.errors[0]
    assert (loaded.sessions_failed, loaded.sessions_new) == (1, 0)
    loaded, _ = loaded_from(forest, [changed], replace=True)
    assert (loaded.errors, loaded.sessions_new) == ([], 1)
    assert loaded_from(forest, [changed])[0].sessions_unchanged == 1


def test_times_of_the_file_go_before_that_of_the_command(forest: MemForest) -> None:
    """The one that is given is for sessions that have none."""
    bare = ({"speaker": "Ann", "content": "I own a boat."},)
    sessions = [FileSession("own", bare, timestamp=100_000_000), FileSession("given", bare)]
    loaded, _ = loaded_from(forest, sessions, timestamp="2024-05-01", infer=False)
    assert loaded.errors == []
    found = {one.session_id: f"{one.start:%Y-%m-%d}" for one in forest.user("u").sessions()}
    assert found == {"own": "1973-03-03", "given": "2024-05-01"}


def test_metadata_of_a_session_is_kept(forest: MemForest) -> None:
    """As the file has it; that of a message is what facts are filtered by."""
    tagged = FileSession("b", ({**YO, "channel": "mail"},))
    loaded_from(forest, [session("a", metadata={"channel": ["sms", 7]}), tagged])
    assert [dict(one.metadata) for one in forest.user("u").sessions()] == [{"channel": ["sms", 7]}, {}]
    assert len(forest.user("u").list(filters={"channel": "mail"}).facts) == 1


def test_nothing_stored_makes_no_memory(forest: MemForest) -> None:
    """All sessions of a first ingest are bad: no file, and no counts of one."""
    loaded, told = loaded_from(forest, [FileSession("bad", ({"content": 7},))])
    assert (told, loaded.sessions_failed, loaded.bytes) == (["bad"], 1, 0)
    assert not forest.has_user("u")


def test_sessions_share_the_budget(tmp_path: Path) -> None:
    """What the first batch spent, the summaries behind it may not."""
    chat = FunctionChat(local_reply)
    with MemForest(tmp_path, Config(chat=chat, embedder=HashEmbedder())) as forest:
        loaded, _ = loaded_from(forest, [session("a"), FileSession("b", (YO,))], budget=Budget(max_calls=1))
        assert (loaded.model_calls, loaded.left_chunks) == (1, 1)
        assert loaded.sessions_new == 2, "their turns are stored"


def by_role(session_id: str, content: Any) -> FileSession:
    """Return a session of one message whose speaker has no name."""
    return FileSession(session_id, ({"role": "user", "content": content, "timestamp": "2024-05-01"},))


@pytest.mark.parametrize(("content", "known"), [("I sail.", True), (7, False)])
def test_a_name_makes_no_memory_for_nothing(forest: MemForest, content: Any, known: bool) -> None:
    """A new user is registered where one of the sessions can be read."""
    plan = Plan("u", (("f", FileSession("bad", ({"content": 7},))), ("f", by_role("s", content))))
    name_user(forest, plan, IngestOptions(), "Ann")
    assert forest.has_user("u") is known


def test_a_time_of_the_command_makes_a_session_readable(forest: MemForest) -> None:
    """Where its messages have none."""
    bare = FileSession("s", ({"role": "user", "content": "I sail."},))
    name_user(forest, Plan("u", (("f", bare),)), IngestOptions(), "Ann")
    assert not forest.has_user("u")
    name_user(forest, Plan("u", (("f", bare),)), IngestOptions(timestamp="2024-05-01"), "Ann")
    assert forest.has_user("u")


@pytest.mark.parametrize(("chat", "stored"), [(None, [1, 2]), (FunctionChat(local_reply), [2, 2])])
def test_a_model_gets_sessions_together(tmp_path: Path, chat: Any, stored: list[int]) -> None:
    """Without one each is told of as soon as it is stored; summaries that a model makes behind them are waited for."""
    seen: list[int] = []
    loaded = Loaded("u")
    with MemForest(tmp_path, Config(chat=chat, embedder=HashEmbedder())) as forest:
        plan = Plan("u", (("f", session("a")), ("f", FileSession("b", (YO,)))))
        load(
            forest, plan, IngestOptions(), loaded, lambda _one: seen.append(len(forest.user("u").sessions()))
        )
        assert loaded.nodes_dirty == forest.user("u").stats().dirty_nodes
    assert seen == stored
    assert (loaded.nodes_dirty == 0) == (chat is not None)
    assert 0 <= loaded.seconds < 300


def test_a_new_name_holds_from_then_on(forest: MemForest) -> None:
    """Also in a memory that is open; who was named before keeps that name."""
    loaded_from(forest, [by_role("a", "I like tea.")])
    for session_id, name in (("b", "Ann"), ("c", "Anna")):
        name_user(forest, Plan("u", ()), IngestOptions(), name)
        loaded_from(forest, [by_role(session_id, "I like tea.")])
    named = {one.session_id: one.participants for one in forest.user("u").sessions()}
    assert named == {"a": ("u",), "b": ("Ann",), "c": ("Anna",)}


# -- more of the formats --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        ({"id": 7, "turns": [HI]}, ["7"]),
        ({"session_id": "a", "id": "b", "turns": [HI]}, ["a"]),
        ({"sessions": [{"turns": [HI]}, {"turns": [HI]}]}, ["chat-1", "chat-2"]),
        ({"sessions": [{"turns": [HI]}]}, ["chat"]),
        ({"content": "Hi"}, ["chat"]),
        ({"text": "Hi", "session_id": 0}, ["0"]),
        ([{"message": "Hi"}, {"content": "Hi", "session_id": "x"}], ["chat", "x"]),
        ([{"turns": [HI]}], ["chat"]),
        ([{"turns": [HI], "id": "z"}, {"messages": [HI]}], ["z", "chat-2"]),
    ],
)
def test_sessions_get_their_own_ids_or_the_files(value: Any, ids: list[str]) -> None:
    """Numbered from 1 where there are several; numbers are ids, nought too."""
    (found,) = read_chat(json.dumps(value).encode(), name="chat.json", session_id="chat")
    assert [one.session_id for one in found.sessions] == ids


@pytest.mark.parametrize(
    ("value", "user"),
    [({"user": "bo"}, "bo"), ({"user_id": "cy", "user": "bo"}, "cy"), ({"user_id": 7}, "7"), ({"user": None}, None), ({}, None)],
)  # fmt: skip
def test_a_file_may_say_whose_it_is(value: Any, user: str | None) -> None:
    """By an id or a name."""
    (found,) = read_chat(json.dumps({**value, "turns": [HI]}).encode(), name="c", session_id="s")
    assert found.user == user


@pytest.mark.parametrize("key", ["timestamp", "date"])
@pytest.mark.parametrize("when", ["2024-05-01", 0, 1.5, None])
def test_a_session_has_its_time_as_it_stands(key: str, when: Any) -> None:
    """What it means is decided where it is stored."""
    (found,) = read_chat(json.dumps({key: when, "turns": [HI]}).encode(), name="c", session_id="s")
    assert found.sessions[0].timestamp == when


def test_an_error_says_which_line() -> None:
    """Blank ones count; the line of the first message that is wrong, and no other."""
    text = "\n" + json.dumps(HI) + "\n\n" + json.dumps({**HI, "session_id": []}) + "\n" + json.dumps(YO)
    with pytest.raises(InputError, match=r"^c\.jsonl, line 4: the id is a list"):
        read_chat(text.encode(), name="c.jsonl", session_id="s")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=5)), min_size=1, max_size=8))
@settings(max_examples=40)
def test_no_message_of_json_lines_is_lost(said: list[tuple[str, str]]) -> None:
    """Sessions in the order of their first message, messages in the order of the file."""
    lines = [json.dumps({"session_id": one, "content": text}, ensure_ascii=False) for one, text in said]
    (found,) = read_chat("\n".join([*lines, ""]).encode(), name="c", session_id=None)
    expected = {one: [text for other, text in said if other == one] for one, _ in said}
    assert {one.session_id: [turn["content"] for turn in one.turns] for one in found.sessions} == expected
    assert [one.session_id for one in found.sessions] == list(expected)
