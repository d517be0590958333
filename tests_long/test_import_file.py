"""From chat files into memories: whose sessions, in which batches, what is counted, and what an error says."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests.table import each
from tests_long.worlds import file_of, rows

from memforest import AsyncMemForest, Budget, Config, ImportResult, MemForest
from memforest.errors import InputError
from memforest.memory.importing import TURNS_TOGETHER
from memforest.models import HashEmbedder
from memforest.read.receipts import ImportedMemory, ImportProgress
from memforest.read.results import ChunkReport, FlushResult, IngestResult, Usage
from memforest.records import Refused, StepUsage
from memforest.testing import FunctionChat

HI = {"speaker": "Ann", "content": "I live in Oslo.", "timestamp": "2024-05-01T10:00:00Z"}
YO = {"speaker": "Ann", "content": "I own a boat.", "timestamp": "2024-05-01T10:01:00Z"}


@pytest.fixture
def forest(tmp_path: Path) -> Any:
    """A forest of local steps."""
    with MemForest(tmp_path / "m", Config(embedder=HashEmbedder())) as made:
        yield made


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a value as a JSON file and return its path."""

    def write(name: str, value: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    return write


def sessions_of(*ids: str, **more: Any) -> list[dict[str, Any]]:
    """Return session objects of one turn."""
    return [{"session_id": one, "turns": [HI], **more} for one in ids]


def test_a_file_names_its_only_session(forest: MemForest, write: Any) -> None:
    """By its name without the ending, unless the session or the caller has another."""
    path = write("our chat.v2.json", [HI])
    forest.import_file("u", path)
    forest.import_file("u", path, session_id="other")
    forest.import_file("u", write("own.json", {"session_id": "own", "turns": [HI]}))
    forest.import_file("u", write("own.json", {"session_id": "own", "turns": [HI]}), session_id="third")
    assert {one.session_id for one in forest.user("u").sessions()} == {"our chat.v2", "other", "own", "third"}


def test_an_open_file_has_no_name_to_give(forest: MemForest, write: Any) -> None:
    """Of what comes from elsewhere than a file the session has to be named; an open file has its name."""
    data = json.dumps([HI]).encode()
    with pytest.raises(InputError):
        forest.import_file("u", io.BytesIO(data))
    forest.import_file("u", io.BytesIO(data), session_id="s")
    with write("open.json", [HI]).open("rb") as file:
        assert forest.import_file("u", file).files[0].source == "open.json"
    with write("open.json", [HI]).open() as text, pytest.raises(InputError):
        forest.import_file("u", text)
    assert {one.session_id for one in forest.user("u").sessions()} == {"s", "open"}


@pytest.mark.parametrize("value", [
    sessions_of("a", "b"),
    [{"sample_id": n, "conversation": {"session_1": [HI]}} for n in ("x", "y")],
])  # fmt: skip
def test_one_name_is_not_for_several_sessions(forest: MemForest, write: Any, value: Any) -> None:
    """Of one memory or of two; without it they are read."""
    path = write("f.json", value)
    with pytest.raises(InputError):
        forest.import_file(None, path, session_id="s", default_user="u")
    assert forest.list_users() == []
    assert sum(one.sessions_new for one in forest.import_file(None, path, default_user="u").memories) == 2


def test_what_cannot_be_read_is_named(forest: MemForest, tmp_path: Path) -> None:
    """A directory with what to do, anything else with the system's words."""
    with pytest.raises(InputError, match=rf"{tmp_path.name} is a directory; name the files in it"):
        forest.import_file("u", tmp_path)
    with pytest.raises(InputError) as caught:
        forest.import_file("u", tmp_path / "gone.json")
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    wrongs: list[Any] = [7, [], b"[]", {}]
    for wrong in wrongs:
        with pytest.raises(InputError):
            forest.import_file("u", wrong)
    with pytest.raises(InputError):
        forest.import_file("u", tmp_path / "gone.json", format="word")


@pytest.mark.parametrize(
    ("users", "user", "default", "expected"),
    [
        ([None], None, "env", ["env"]),
        ([None], "ann", "env", ["ann"]),
        (["bo"], None, "env", ["bo"]),
        (["bo"], "ann", None, ["ann"]),
        (["cy", "bo"], None, None, ["cy", "bo"]),
        (["bo", None], None, "me", ["bo", "me"]),
        (["bo", "bo", None], "ann", None, ["ann"]),
    ],
)
def test_what_is_asked_goes_before_what_files_say(
    forest: MemForest, write: Any, users: list[Any], user: Any, default: Any, expected: list[str]
) -> None:
    """Then comes the default; memories stand in the order in which they come."""
    files = [
        write(f"f{at}.json", {"session_id": f"s{at}", "turns": [HI], **({"user": one} if one else {})})
        for at, one in enumerate(users)
    ]
    result = forest.import_file(user, files, default_user=default)
    assert [one.user for one in result.memories] == expected
    assert sum(one.sessions_new for one in result.memories) == len(users)
    assert forest.list_users() == sorted(expected)


def test_nobodys_memory_is_not_guessed(forest: MemForest, write: Any) -> None:
    """Neither the file nor the caller says whose it is."""
    with pytest.raises(InputError):
        forest.import_file(None, write("f.json", [HI]))


def test_several_memories_are_not_mixed_into_one(forest: MemForest, write: Any) -> None:
    """Whoever asks for it; the number tells how many there are, and nothing was stored."""
    files = [write(f"{user}.json", {"user": user, "turns": [HI]}) for user in ("bo", "cy")]
    with pytest.raises(InputError):
        forest.import_file("ann", files)
    with pytest.raises(InputError):
        forest.user("ann").import_file(files)
    assert forest.list_users() == []


def test_two_files_cannot_have_one_session(forest: MemForest, write: Any) -> None:
    """Of one user: both are named; of two users it is two sessions."""
    one, other = write("a.json", sessions_of("a", "b")), write("b.json", sessions_of("c", "b"))
    with pytest.raises(InputError):
        forest.import_file("u", [one, other], replace=True)
    assert forest.list_users() == []
    third = write("c.json", {"user": "cy", "sessions": sessions_of("b")})
    assert len(forest.import_file(None, [one, third], default_user="bo").memories) == 2


def test_a_bad_session_is_named_and_the_rest_goes_on(forest: MemForest, write: Any) -> None:
    """With its file and its place in it; those around it are stored."""
    untimed = {"session_id": "bad", "turns": [{"speaker": "Ann", "content": "No time."}]}
    told: list[str] = []

    def tell(progress: ImportProgress) -> None:
        told.append(progress.session.session_id)

    path = write("f.json", {"sessions": [*sessions_of("a"), untimed, *sessions_of("b")]})
    result = forest.import_file("u", path, on_session=tell)
    (memory,) = result.memories
    assert told == ["a", "bad", "b"]
    assert (memory.sessions_new, memory.sessions_failed, memory.turns_added) == (2, 1, 2)
    assert memory.errors == result.problems
    assert result.problems[0].startswith("f.json, session 'bad' (sessions[1]): turn 0 has no timestamp")
    assert (memory.embedder, memory.bytes > 0) == ("hash-words-1@64", True)


@pytest.mark.parametrize("wrong", [
    {**HI, "timestamp": "soon"}, {**HI, "role": "owl"}, {**HI, "id": " "}, {"content": "Who said so?", "timestamp": "2024-05-02"},
    "no message", {**YO, "id": "1"},
])  # fmt: skip
def test_a_wrong_message_is_named_and_the_others_are_stored(
    forest: MemForest, write: Any, wrong: Any
) -> None:
    """Of the same session too; `ingest_session` would refuse it whole."""
    later = {**YO, "timestamp": "2024-05-02T10:00:00Z"}
    path = write("f.json", {"session_id": "s", "turns": [HI, {**YO, "id": "1"}, wrong, later]})
    for dry_run in (True, False):
        result = forest.import_file("u", path, dry_run=dry_run)
        (problem,) = result.problems
        assert problem.startswith("f.json, turns[2]: ")
        assert (result.files[0].turns, result.files[0].wrong_count) == (3, 1)
    assert [one.turns for one in forest.user("u").sessions()] == [3]


def test_a_conflict_is_named(forest: MemForest, write: Any) -> None:
    """And with `replace` the stored session is overwritten; the same file again changes nothing."""
    forest.import_file("u", write("a.json", [HI]))
    changed = write("a.json", [{**HI, "content": "I live in Rome."}])
    (memory,) = forest.import_file("u", changed).memories
    assert (memory.sessions_failed, memory.sessions_new) == (1, 0)
    assert "pass replace=True to overwrite it" in memory.errors[0]
    assert forest.import_file("u", changed, replace=True).problems == []
    assert forest.import_file("u", changed).memories[0].sessions_unchanged == 1


def test_times_of_the_file_go_before_that_of_the_caller(forest: MemForest, write: Any) -> None:
    """The one that is given is for sessions that have none."""
    bare = [{"speaker": "Ann", "content": "I own a boat."}]
    value = {
        "sessions": [
            {"session_id": "own", "timestamp": 100_000_000, "turns": bare},
            {"session_id": "given", "turns": bare},
        ]
    }
    assert forest.import_file("u", write("a.json", value), timestamp="2024-05-01", infer=False).problems == []
    found = {one.session_id: f"{one.start:%Y-%m-%d}" for one in forest.user("u").sessions()}
    assert found == {"own": "1973-03-03", "given": "2024-05-01"}


def test_metadata_of_a_session_is_kept(forest: MemForest, write: Any) -> None:
    """As the file has it; that of a message is what facts are filtered by."""
    value = [
        *sessions_of("a", metadata={"channel": ["sms", 7]}),
        {"session_id": "b", "turns": [{**YO, "channel": "mail"}]},
    ]
    forest.import_file("u", write("a.json", value))
    assert [dict(one.metadata) for one in forest.user("u").sessions()] == [{"channel": ["sms", 7]}, {}]
    assert len(forest.user("u").list(filters={"channel": "mail"}).facts) == 1


@pytest.mark.parametrize("more", [{}, {"display_name": "Ann"}])
def test_nothing_stored_makes_no_memory(forest: MemForest, write: Any, more: Any) -> None:
    """All sessions of a first import are bad: no file, and no counts of one."""
    result = forest.import_file("u", write("a.json", [{"role": "user", "content": "When?"}]), **more)
    assert (result.memories[0].sessions_failed, result.memories[0].bytes) == (1, 0)
    assert not forest.has_user("u")


def test_the_owner_is_the_user(forest: MemForest, write: Any) -> None:
    """A display name names what says only "role: user", and marks that participant's turns among named speakers."""
    bare = {"role": "user", "content": "I sail.", "timestamp": "2024-05-01"}
    forest.import_file("u", write("a.json", [bare]), display_name="Ann")
    assert [one.participants for one in forest.user("u").sessions()] == [("Ann",)]
    sent: list[Any] = []
    talk = [HI, {**YO, "speaker": "Bo"}]
    forest.import_file(
        "v", write("b.json", talk), display_name="ann", on_session=lambda one: sent.extend(one.session.turns)
    )
    assert [(turn["speaker"], turn.get("role")) for turn in sent] == [("Ann", "user"), ("Bo", None)]


def test_a_dry_run_stores_nothing_and_says_what_would_be(forest: MemForest, write: Any) -> None:
    """Per file: format, memories, sessions, turns, time span; and the same sums as the import itself."""
    path = write(
        "f.json", {"user": "bo", "sessions": [{"session_id": "a", "turns": [HI, YO]}, *sessions_of("b")]}
    )
    result = forest.import_file(None, path, dry_run=True)
    assert forest.list_users() == []
    (file,) = result.files
    assert (file.format, file.users, file.sessions, file.turns) == ("messages", ["bo"], 2, 3)
    assert f"{file.start} {file.end}" == "2024-05-01 10:00:00+00:00 2024-05-01 10:01:00+00:00"
    assert json.loads(json.dumps(result.to_dict()))["files"][0]["source"] == "f.json"
    stored = forest.import_file(None, path)
    assert stored.files == result.files
    assert stored.memories[0].turns_added == result.memories[0].turns == 3


def test_the_async_verb_is_the_same(tmp_path: Path, write: Any) -> None:
    """And reads files in worker threads, while the loop goes on."""
    path = write("a.json", sessions_of(*map(str, range(20))))

    async def run() -> tuple[ImportResult, int]:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0)
                beats += 1

        async with AsyncMemForest(tmp_path / "async", Config(embedder=HashEmbedder())) as forest:
            task = asyncio.create_task(beat())
            result = await forest.user("u").import_file(path)
            task.cancel()
            return result, beats

    result, beats = asyncio.run(run())
    assert result.memories[0].sessions_new == 20
    assert beats > 20


def test_sessions_share_the_budget(tmp_path: Path, write: Any) -> None:
    """What the first batch spent, the summaries behind it may not."""
    value = [*sessions_of("a"), {"session_id": "b", "turns": [YO]}]
    with MemForest(tmp_path / "m", Config(chat=FunctionChat(local_reply), embedder=HashEmbedder())) as forest:
        (memory,) = forest.import_file("u", write("a.json", value), budget=Budget(max_calls=1)).memories
        assert (memory.model_calls, memory.left_chunks) == (1, 1)
        assert memory.sessions_new == 2, "their turns are stored"


@pytest.mark.parametrize(("chat", "stored"), [(None, [1, 2, 3]), (FunctionChat(local_reply), [2, 2, 3])])
def test_a_model_gets_sessions_together(tmp_path: Path, write: Any, chat: Any, stored: list[int]) -> None:
    """As many as go together; without one each is told of as soon as it is stored. Summaries behind them are waited for."""
    seen: list[int] = []
    large = [{**HI, "id": str(n), "content": "Hello."} for n in range(TURNS_TOGETHER)]
    value = [*sessions_of("a"), {"session_id": "b", "turns": [YO]}, {"session_id": "c", "turns": large}]
    with MemForest(tmp_path / "m", Config(chat=chat, embedder=HashEmbedder())) as forest:

        def tell(progress: ImportProgress) -> None:
            assert (progress.sessions_total, progress.turns_total) == (3, 2 + TURNS_TOGETHER)
            [(count,)] = rows(file_of(tmp_path / "m"), "SELECT count(*) FROM session")
            seen.append(count)

        (memory,) = forest.import_file("u", write("a.json", value), on_session=tell).memories
        assert (forest.user("u").stats().dirty_nodes == 0) == (chat is not None)
    assert seen == stored
    assert memory.nodes_dirty == 0  # without a model they are made when they are read


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
    loaded = ImportedMemory("u")
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


@each(
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
    loaded = ImportedMemory("u")
    loaded.count(result)
    assert (loaded.sessions_new, loaded.sessions_unchanged) == ((1, 0) if new else (0, 1))


def test_a_warning_is_kept_once() -> None:
    """From sessions and from summaries made behind them, in the order in which they came."""
    loaded = ImportedMemory("u")
    loaded.count(IngestResult("a", 1, warnings=("one", "two")))
    loaded.count(IngestResult("b", 1, warnings=("two",)))
    loaded.add(FlushResult(3, 2, usage(4, 0, 6, 7), ("three", "one")))
    assert loaded.warnings == ["one", "two", "three"]
    assert (loaded.nodes_dirty, loaded.model_calls, loaded.model_tokens) == (2, 4, 13)
