"""Export and import: an equal memory from one file, whatever the memory has been through; and turns as they were said."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sqlite3
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests_long.shelf import ShelfIndex
from tests_long.test_encryption import KEY, encrypted
from tests_long.worlds import (
    CLOCK,
    PAPER,
    differences,
    dump,
    eager_config,
    fast_config,
    file_of,
    make_history,
    make_sessions,
    said,
    summaries,
)

from memforest import AsyncMemForest, Config, MemForest
from memforest.errors import CorruptStoreError, InputError, NotFoundError
from memforest.memory.blocking import UserMemory
from memforest.models import HashEmbedder
from memforest.store.transfer import MEMORY, SUMMARIES, VECTORS
from memforest.testing import FrozenClock, FunctionChat
from memforest.trees import attached
from memforest.write.transfer import SETTINGS

UNCARRIED_SETTINGS = (
    "user_id",
    "memory_id",
    "generation",
    "artifact_stamp",
    "words",
    "expired_ms",
    "next_embedder",
    "next:",
)
"""Keys of `meta`, or their beginnings, that are of one file, or are named apart in the header."""

QUESTIONS = (
    "Where does Ana live?",
    "Where did Melanie live before Oslo?",
    "What did Bob buy?",
    "Who works at Acme?",
    "¿Dónde vive Carla?",
)


def written(folder: Path, seed: int = 3, config: Config | None = None) -> Path:
    """Make a memory with a history: sessions that grew, came again and were overwritten."""
    with MemForest(folder, config or eager_config()) as forest:
        for name, turns, over in make_history(seed, make_sessions(seed, sessions=4)):
            forest.ingest_session("u", name, turns, replace=over)
    return file_of(folder)


def lived(folder: Path, config: Config) -> Path:
    """Make a memory to which everything has happened: merges, corrections, deletions, writes with keys, and costs."""
    clock = FrozenClock(CLOCK)
    config = replace(config, clock=clock)
    written(folder, config=config)
    with MemForest(folder, config) as forest:
        user, vera = forest.user("u"), forest.user("vera")
        forest.ingest_session(
            "vera", "s0", said("I live in Davis.", "I bought a tent.", speaker="Ana", day=3)
        )
        for owner, day in (("u", 4), ("vera", 5)):
            forest.ingest_session(owner, "tea", said("I like green tea.", speaker="Zoe", day=day))
        vera.pin(next(iter(vera.list())).fact_id)
        user.add("I moved to Oslo.", session_id="live", idempotency_key="once")
        clock.advance(days=1)
        user.merge("vera", apart=["Ana"])
        first, second, third, *_ = [one.fact_id for one in user.list()]
        user.update(first, "Ana lives in Lima.")
        user.forget(second)
        clock.advance(days=1)
        user.undo(user.update(third, "Bob sold it.").key)
        user.delete(turn=("s1", "0"))
        forest.delete_user("vera")
    with closing(sqlite3.connect(file_of(folder))) as conn, conn:
        conn.execute("INSERT INTO spent VALUES ('ingest', 'extract', 3, 0, 1, 100, 50, 0, 0, 1.25)")
    return file_of(folder)


def found(memory: UserMemory, **options: Any) -> list[list[tuple[Any, ...]]]:
    """Return the evidence for each of the questions, to the last bit of every score."""
    results = (memory.search(question, top_k=50, **options) for question in QUESTIONS)
    return [
        [(one.text, one.quote, one.kind, one.score.hex(), one.sources, one.start, one.end) for one in result]
        for result in results
    ]


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of an export."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize(
    "settings", [{}, {"index_settings": PAPER}, {"embedder": "none"}, {"chunk_turns": 3}], ids=str
)
def test_an_import_finds_the_same_evidence(folder: Path, vectors: bool, settings: dict[str, Any]) -> None:
    """Texts, scores to the last bit, order and sources; every row that is not of one file alone; and `verify` is ok."""
    for seed in (3, 4):
        config = eager_config(**settings)
        made = written(folder / f"a{seed}", seed, config)
        with MemForest(folder / f"a{seed}", config) as forest:
            forest.user("u").export(folder / "x.jsonl", vectors=vectors, overwrite=True)
            before = found(forest.user("u"))
        with MemForest(folder / f"b{seed}", config) as forest:
            done = forest.user("u").import_(folder / "x.jsonl")
            assert found(forest.user("u")) == before
            assert forest.user("u").verify().problems == ()
            assert forest.resume() == []
        copy = file_of(folder / f"b{seed}")
        assert differences(dump(made), dump(copy)) == {}
        assert summaries(made) == summaries(copy)
        assert (done.embedded > 0) == (not vectors and settings != {"embedder": "none"})
        assert (done.warnings, done.damaged) == ((), ())


def test_an_export_of_an_import_is_the_same_file(folder: Path) -> None:
    """But for its header and its digest: numbers are of the file, and row ids with their gaps are not in it."""
    made = lived(folder / "a", eager_config())
    with MemForest(folder / "a", eager_config()) as forest:
        forest.user("u").export(folder / "x.jsonl", vectors=True)
    with MemForest(folder / "b", eager_config()) as forest:
        done = forest.user("someone else").import_(folder / "x.jsonl")
        forest.user("someone else").export(folder / "y.jsonl", vectors=True)
        assert forest.user("someone else").verify().problems == ()
    one, other = lines(folder / "x.jsonl"), lines(folder / "y.jsonl")
    assert one[1:-1] == other[1:-1]
    assert one[-1]["rows"] == other[-1]["rows"] == done.rows
    names = {line["record"] for line in one[1:]}
    assert names >= {"origin", "correction", "correction_place", "tombstone", "write_key", "spent"}
    for name in ("occurrence.stored_ms", "occurrence.correction", "correction.stored_ms", "correction.said", "session.erased",
                 "origin.names", "turn.origin", "fact.verdict"):  # fmt: skip
        record, column = name.split(".")
        assert any(line[column] for line in one[1:] if line["record"] == record), name
    assert differences(dump(made), dump(file_of(folder / "b"))) == {}
    assert (one[0]["user_id"], other[0]["user_id"]) == ("u", "someone else")
    assert one[0]["memory"] != other[0]["memory"]


def test_a_memory_goes_on_after_an_import_as_the_exported_one_does(folder: Path) -> None:
    """The same sessions, one that grew among them, make equal memories of both; `chunk_turns` and the name are kept."""
    config = eager_config(chunk_turns=3)
    with MemForest(folder / "a", config) as forest:
        forest.register_user("u", display_name="Ana María")
        for name, turns in make_sessions(5, sessions=4):
            forest.ingest_session("u", name, turns[:-1] or turns)
        forest.user("u").export(folder / "x.jsonl")
    with MemForest(folder / "b", eager_config()) as forest:  # chunks of another length
        forest.user("u").import_(folder / "x.jsonl")
        for where in (MemForest(folder / "a", config), forest):
            for name, turns in make_sessions(5, sessions=5):
                where.ingest_session("u", name, turns, replace=True)
            where.user("u").add("I moved to Oslo.", session_id="live")
            assert where.user("u").turns("live")[0].speaker == "Ana María"
            assert where.user("u").verify().problems == ()
            if where is not forest:
                where.close()
    assert differences(dump(file_of(folder / "a")), dump(file_of(folder / "b"))) == {}


def test_a_memory_of_nothing_but_its_embedder_can_be_imported_into(folder: Path) -> None:
    """However often it was given another one."""
    written(folder / "a")
    with MemForest(folder / "a", eager_config()) as forest:
        forest.user("u").export(folder / "x.jsonl")
    with MemForest(folder / "b", eager_config()) as forest:
        forest.register_user("u")
    for dimension in (24, 48, 24):
        with MemForest(folder / "b", eager_config(embedder=HashEmbedder(dimension))) as forest:
            forest.rebuild("u", embedder=True)
    with MemForest(folder / "b", eager_config(embedder=HashEmbedder(24))) as forest:
        assert forest.user("u").import_(folder / "x.jsonl").facts > 0


def test_no_model_is_asked_by_an_import(folder: Path) -> None:
    """Statements, verdicts and summaries that a model made are taken along with their makers; work left stays left."""
    asked: list[str] = []

    def reply(request: Any) -> str:
        asked.append(request.step)
        return local_reply(request)

    config = fast_config(chat=FunctionChat(reply), refresh="path", index_settings=PAPER)
    with MemForest(folder / "a", config) as forest:
        for name, turns in make_sessions(6, sessions=3):
            forest.ingest_session("u", name, turns)
        forest.user("u").export(folder / "x.jsonl")
        makers = forest.user("u").stats().makers
    assert set(asked) >= {"extract", "summarise"}
    asked.clear()
    with MemForest(folder / "b", config) as forest:
        forest.user("u").import_(folder / "x.jsonl")
        forest.flush()
        assert forest.user("u").stats().makers == makers
    assert asked == []


def test_summaries_can_be_left_out(folder: Path) -> None:
    """They are derived; the import marks them as out of date, and whoever reads them has them made."""
    made = written(folder / "a")
    with MemForest(folder / "a", eager_config()) as forest:
        rows_written = forest.user("u").export(folder / "x.jsonl", summaries=False, vectors=True).rows
        assert rows_written.keys().isdisjoint({"artifacts"})
    with MemForest(folder / "b", eager_config()) as forest:
        forest.user("u").import_(folder / "x.jsonl")
        assert forest.user("u").stats().dirty_nodes > 0
        forest.flush()
    assert differences(dump(made), dump(file_of(folder / "b"))) == {}
    assert summaries(made) == summaries(file_of(folder / "b"))


def test_chunks_that_failed_come_along_and_can_be_resumed(folder: Path) -> None:
    """A session that was not read to its end is not read by the import either, but by `resume`."""
    with MemForest(folder / "a", eager_config()) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo.", "I bought a tent.", "Bob works at Acme."))
    with closing(sqlite3.connect(file_of(folder / "a"))) as conn, conn:
        conn.execute("UPDATE chunk SET status = 'failed', reason = 'no reply' WHERE ordinal = 1")
    with MemForest(folder / "a", eager_config()) as forest:
        forest.user("u").export(folder / "x.jsonl")
    with MemForest(folder / "b", eager_config()) as forest:
        forest.user("u").import_(folder / "x.jsonl")
        assert forest.user("u").sessions()[0].failed_chunks == 1
        [resumed] = forest.resume("u")
        assert (resumed.session_id, forest.user("u").sessions()[0].failed_chunks) == ("s", 0)


@pytest.fixture
def shelf() -> Iterator[None]:
    """An index that this test adds."""
    attached.INDEXES[ShelfIndex.name] = ShelfIndex
    yield
    attached.INDEXES.pop(ShelfIndex.name, None)


def test_every_index_comes_along(folder: Path, shelf: None) -> None:
    """With the settings that it had and with its summaries; one that there is not is refused."""
    config = eager_config(indexes=("memforest", "shelf", "flat"))
    made = written(folder / "a", config=config)
    with MemForest(folder / "a", config) as forest:
        forest.user("u").export(folder / "x.jsonl")
        before = found(forest.user("u"), index="shelf")
    with MemForest(folder / "b", eager_config()) as forest:
        assert forest.user("u").import_(folder / "x.jsonl").warnings == ()
        assert {one.name for one in forest.user("u").indexes()} == {"memforest", "shelf", "flat"}
        assert found(forest.user("u"), index="shelf") == before
        assert forest.flush().nodes_refreshed == 0  # their vectors are made, and nothing else
        assert forest.user("u").verify().problems == ()
    assert summaries(made) == summaries(file_of(folder / "b"))
    assert differences(dump(made), dump(file_of(folder / "b"))) == {}
    attached.INDEXES.pop("shelf")
    with (
        MemForest(folder / "c", eager_config()) as forest,
        pytest.raises(InputError, match="is of an index 'shelf'"),
    ):
        forest.user("u").import_(folder / "x.jsonl")
    attached.INDEXES["shelf"] = ShelfIndex


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("here", [HashEmbedder(48), "none"], ids=["another embedder", "none"])
def test_with_another_embedder_everything_derived_is_made_anew(
    folder: Path, here: Any, vectors: bool
) -> None:
    """What was said and learnt is the same; the memory is then as one that was written with that embedder."""
    written(folder / "a")
    with MemForest(folder / "a", eager_config()) as forest:
        forest.user("u").export(folder / "x.jsonl", vectors=vectors)
    with MemForest(folder / "b", eager_config(embedder=here)) as forest:
        done = forest.user("u").import_(folder / "x.jsonl")
        assert "made anew" in done.warnings[0]
        stats = forest.user("u").stats()
        assert stats.embedder == (None if here == "none" else here.model_id)
        assert forest.user("u").verify().problems == ()
        assert found(forest.user("u"))[0]
    same = (
        "sessions",
        "turns",
        "chunks",
        "facts",
        "occurrences",
        "entities",
        "aliases",
        "mentions",
        "states",
        "relations",
        "names",
    )
    assert differences(dump(file_of(folder / "a")), dump(file_of(folder / "b")), same) == {}


DERIVED = {
    "change", "derived_fact_terms", "derived_fact_words", "derived_next_vector", "derived_turn_terms", "derived_turn_words",
    "derived_word_change", "index_", "meta",
}  # fmt: skip
"""Tables that an export does not carry as they are: what is made anew, the logs of one file, and those of which the header
and the records "index" say what is to be said."""


def test_every_column_is_carried(folder: Path) -> None:
    """A table or a column that is added to the schema must be added to `memforest.store.transfer`, or named here."""
    parts = {part.table: part for part in (*MEMORY, SUMMARIES, *VECTORS)}
    with closing(sqlite3.connect(lived(folder, eager_config(retention=timedelta(days=36_500))))) as conn:
        tables = [
            row[0]
            for row in conn.execute(
                "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')"
            )
            if not row[0].startswith("sqlite_")
        ]
        assert set(tables) == parts.keys() | DERIVED
        for table, part in parts.items():
            columns = {row[1] for row in conn.execute(f"PRAGMA table_info({table})")}
            made = {"id", "vector"} if part is SUMMARIES else {"id"}  # from the texts
            assert columns - made == {one.name for one in part.columns}, table
        keys = [row[0] for row in conn.execute("SELECT key FROM meta")]
    for key in keys:
        assert key in SETTINGS or key.startswith(UNCARRIED_SETTINGS)


def test_an_export_is_of_one_moment(folder: Path) -> None:
    """What is written while it runs is not in it."""
    written(folder / "a")

    class Slow(io.BytesIO):
        def write(self, line: Any) -> int:
            if not started.is_set():
                started.set()
                assert go_on.wait(30)
            return super().write(line)

    started, go_on, out = threading.Event(), threading.Event(), Slow()

    async def run() -> int:
        async with AsyncMemForest(folder / "a", eager_config()) as forest:
            before = (await forest.user("u").stats()).turns
            export = asyncio.create_task(forest.user("u").export(out))
            await asyncio.to_thread(started.wait, 30)
            await forest.ingest_session("u", "late", said("I sold the tent."))
            go_on.set()
            assert (await export).turns == before
            return before

    turns = asyncio.run(run())
    assert sum(b'"record":"turn"' in line for line in out.getvalue().splitlines()) == turns
    assert b"I sold the tent." not in out.getvalue()


@pytest.mark.parametrize("key", [None, pytest.param(KEY, marks=encrypted)])
def test_a_cancelled_export_leaves_no_file_and_an_import_no_memory(folder: Path, key: bytes | None) -> None:
    """The call ends when its thread has ended. An encrypted memory leaves no salt either."""
    written(folder / "a")
    with MemForest(folder / "a", eager_config()) as forest:
        forest.user("u").export(folder / "x.jsonl")
    started, go_on = threading.Event(), threading.Event()

    class Slow(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 2_000:
                started.set()
                assert go_on.wait(30)
            return super().readline(size)

    async def run() -> None:
        async with AsyncMemForest(folder / "b", eager_config(key=key)) as forest:
            job = asyncio.create_task(forest.user("u").import_(Slow((folder / "x.jsonl").read_bytes())))
            await asyncio.to_thread(started.wait, 30)
            job.cancel()
            await asyncio.sleep(
                0.05
            )  # a turn of the loop, in which the call hears of it: before, the import may end
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await job
            assert not await forest.has_user("u")

    asyncio.run(run())
    assert list((folder / "b").iterdir()) == []


def test_an_export_is_private_and_never_overwrites_unasked(folder: Path) -> None:
    """Mode 0600 whatever the umask; a file or a link that is there stays; overwriting replaces the link, not its target."""
    written(folder / "a")
    taken, link = folder / "x.jsonl", folder / "link.jsonl"
    taken.write_text("mine")
    link.symlink_to(taken)
    with MemForest(folder / "a", eager_config()) as forest:
        memory = forest.user("u")
        for target in (taken, link):
            with pytest.raises(InputError):
                memory.export(target)
        with pytest.raises(InputError):
            memory.export(folder, overwrite=True)
        with pytest.raises(InputError):
            memory.export(folder / "nowhere" / "x.jsonl")
        with pytest.raises(NotFoundError):
            forest.user("nobody").export(folder / "n.jsonl")
        before = os.umask(0)
        try:
            memory.export(link, overwrite=True)
        finally:
            os.umask(before)
    assert taken.read_text() == "mine"
    assert not link.is_symlink()
    if os.name == "posix":
        assert stat.S_IMODE(link.stat().st_mode) == 0o600
    assert sorted(one.name for one in folder.iterdir()) == ["a", "link.jsonl", "x.jsonl"]


def test_rows_that_point_at_nothing_are_not_exported(folder: Path) -> None:
    """A number of another row in their place would be believed."""
    with closing(sqlite3.connect(written(folder / "a"))) as conn, conn:
        conn.execute("UPDATE state SET entity = 99999")
    damaged = pytest.raises(CorruptStoreError)
    with MemForest(folder / "a", eager_config()) as forest, damaged:
        forest.user("u").export(folder / "x.jsonl")
    assert [one.name for one in folder.iterdir()] == ["a"]


def test_turns_read_back_what_was_said(forest: MemForest) -> None:
    """To the letter, with ids, roles, metadata, and where the time came from."""
    text = "  I live in\nPorto — “ok”?\t\U0001f600 "
    turns = [
        {"id": "a", "speaker": "Ana", "role": "user", "text": text, "timestamp": "2024-05-01T10:00:00+02:00", "n": [1]},
        {"speaker": "Bob", "text": "And you?"},
    ]  # fmt: skip
    forest.ingest_session("u", "s", turns, timestamp="2024-05-01T09:00:00Z")
    first, second = forest.user("u").turns("s")
    assert (first.id, first.speaker, first.role, first.text) == ("a", "Ana", "user", text)
    assert (first.said.isoformat(), first.time_source) == ("2024-05-01T08:00:00+00:00", "given")
    assert (first.metadata, first.damaged) == ({"n": [1]}, False)
    assert (second.id, second.speaker, second.role, second.time_source) == ("1", "Bob", None, "session")
    assert second.stored == forest.config.clock()
    with pytest.raises(NotFoundError):
        forest.user("u").turns("x")


def test_a_damaged_turn_is_marked_and_stays_so_through_an_import(folder: Path) -> None:
    """It is not what was said, and an import must not make it look sound."""
    with MemForest(folder / "a", fast_config()) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo.", "I bought a tent."))
    with closing(sqlite3.connect(file_of(folder / "a"))) as conn, conn:
        conn.execute("UPDATE turn SET text = 'I live in Rome.' WHERE turn_id = '0'")
    with MemForest(folder / "a", fast_config()) as forest:
        forest.user("u").export(folder / "x.jsonl")
    with MemForest(folder / "b", fast_config()) as forest:
        assert forest.user("u").import_(folder / "x.jsonl").damaged == ("turn '0' (number 0) of session 's'",)
        assert [one.damaged for one in forest.user("u").turns("s")] == [True, False]
        assert all("Rome" not in one.quote for one in forest.query("u", "Who lives in Rome?").evidence)
        assert any("turn '0'" in one.message for one in forest.user("u").verify().problems)
