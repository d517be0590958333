"""A memory is given another embedder: beside the old one, resumable, and switched in one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import differences, dump, fast_config, file_of, make_sessions, rows, said, summaries

from memforest import AsyncMemForest, EmbedderMismatchError, MemForest
from memforest.errors import InputError, ModelError, NotFoundError, SomeUsersFailedError, StoreLockedError
from memforest.models import HashEmbedder
from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, ChunkOutcome
from memforest.write import rebuild

SESSIONS = make_sessions(5, sessions=6)
OLD, NEW = HashEmbedder(32), HashEmbedder(48)


class Watched:
    """The new embedder, which calls a function before each of its blocks, and counts texts."""

    def __init__(self, before: Callable[[int], Any]) -> None:
        self._before = before
        self.model_id, self.dimension = NEW.model_id, NEW.dimension
        self.blocks = self.texts = 0

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed as the new embedder does."""
        self.blocks += 1
        await asyncio.to_thread(self._before, self.blocks)
        self.texts += len(texts)
        return await NEW.embed(texts)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few texts be made at a time."""
    monkeypatch.setattr(rebuild, "BLOCK", 16)
    monkeypatch.setattr(rebuild, "LEFT", 0)


def fill(folder: Path, embedder: Any = OLD, **settings: Any) -> Path:
    """Make a memory of the sessions."""
    with MemForest(folder, fast_config(embedder=embedder, **settings)) as forest:
        for session_id, turns in SESSIONS:
            forest.ingest_session("u", session_id, turns)
        forest.flush("u")
    return file_of(folder)


def give(folder: Path, embedder: Any = NEW, **options: Any) -> Any:
    """Give the memory an embedder, check it, and return what that took."""
    with MemForest(folder, fast_config(embedder=embedder)) as forest:
        used = forest.user("u").rebuild(embedder=True, **options)
        assert forest.user("u").verify().problems == ()
        forest.flush()
    return used


def lacking(path: Path) -> list[Any]:
    """Return what is left of the making of vectors."""
    return [
        *rows(path, "SELECT * FROM derived_next_vector"),
        *rows(path, "SELECT * FROM meta WHERE key = 'next_embedder'"),
    ]


def test_it_is_as_if_it_had_been_made_with_it(folder: Path, tmp_path: Path) -> None:
    """Vectors, scenes and all the rest; nothing is left over, and progress is told."""
    path, wanted = fill(folder), fill(tmp_path, NEW)
    told: list[tuple[str, int, int]] = []
    used = give(folder, progress=lambda *now: told.append(now))
    assert differences(dump(wanted), dump(path)) == {}
    assert summaries(wanted) == summaries(path)
    assert lacking(path) == []
    total = sum(used.embeds.values())
    assert (told[0], told[-1]) == (("vectors", 0, total), ("vectors", total, total))
    assert dict(rows(path, "SELECT key, value FROM meta"))["embedder"] == NEW.model_id


def test_twice_is_once(folder: Path) -> None:
    """Given the embedder that it has, a memory stays as it is, and nothing is embedded."""
    path = fill(folder)
    give(folder)
    before = dump(path)
    assert give(folder).embeds == {}
    assert dump(path) == before


def test_the_refusal_names_the_way(folder: Path) -> None:
    """In the library, and on the command line."""
    fill(folder)
    with MemForest(folder, fast_config(embedder=NEW)) as forest:
        with pytest.raises(EmbedderMismatchError):
            forest.query("u", "Where does Ana live?")
        forest.rebuild("u", embedder=True)
        assert forest.query("u", "Where does Ana live?").evidence


@pytest.mark.usefixtures("small_blocks")
def test_an_embedder_that_fails_is_gone_on_with(folder: Path, tmp_path: Path) -> None:
    """What was made before is kept, and the memory is what it was until then."""
    path, wanted = fill(folder), fill(tmp_path, NEW)
    before = dump(path)

    def fail(block: int) -> None:
        if block == 3:
            raise ModelError("gone")

    failing, working = Watched(fail), Watched(lambda _: None)
    with pytest.raises(ModelError, match="gone"):
        give(folder, failing)
    assert dump(path) == before
    give(folder, working)
    assert failing.texts
    assert working.texts
    vectors = sum(
        rows(path, f"SELECT count(*) FROM derived_{kind}_vector")[0][0] for kind in ("turn", "fact")
    )
    told = {text for (text,) in rows(path, "SELECT speaker || ': ' || text FROM turn")}
    own = {text for text, vector in summaries(path).values() if vector is not None} - told
    assert failing.texts + working.texts == vectors + len(own)
    assert differences(dump(wanted), dump(path)) == {}


@pytest.mark.usefixtures("small_blocks")
def test_readers_and_writers_go_on_meanwhile(folder: Path, tmp_path: Path) -> None:
    """What they write with the old embedder is caught up; what they overwrite leaves no vector behind."""
    path = fill(folder)
    later = make_sessions(77, sessions=9)[6:]
    with MemForest(folder, fast_config(embedder=OLD)) as old:

        def work(block: int) -> None:
            assert old.query("u", "Where does Ana live?").evidence
            if block == 1:
                old.ingest_session("u", *SESSIONS[0][:1], later[0][1], replace=True)
            elif block < 4:
                old.ingest_session("u", *later[block - 2])

        embedder = Watched(work)
        give(folder, embedder)
        assert embedder.blocks > 4
        with pytest.raises(EmbedderMismatchError):
            old.query("u", "Where does Ana live?")
        with pytest.raises(EmbedderMismatchError):
            old.ingest_session("u", "late", said("I live in Rome."))
    with MemForest(tmp_path, fast_config(embedder=NEW)) as forest:
        for session_id, turns in [*SESSIONS, *later[:2]]:
            forest.ingest_session("u", session_id, turns)
        forest.ingest_session("u", SESSIONS[0][0], later[0][1], replace=True)
    assert differences(dump(file_of(tmp_path)), dump(path)) == {}


@pytest.mark.usefixtures("small_blocks")
def test_a_vector_goes_with_its_text(folder: Path) -> None:
    """Of a text that goes or changes while vectors are made, none is left in the file."""
    path = fill(folder)
    texts = rows(path, "SELECT id FROM turn WHERE session = 1")

    def stop(block: int) -> None:
        if block == 3:
            raise ModelError("gone")

    with pytest.raises(ModelError):
        give(folder, Watched(stop))
    made = "SELECT item FROM derived_next_vector WHERE kind = 'turn'"
    assert set(texts) <= set(rows(path, made))
    with MemForest(folder, fast_config(embedder=OLD)) as forest:
        forest.ingest_session("u", SESSIONS[0][0], said("Nothing else."), replace=True)
    assert not set(texts) & set(rows(path, made))
    gone = "SELECT 1 FROM derived_next_vector n WHERE kind = 'fact' AND NOT EXISTS (SELECT 1 FROM fact WHERE id = n.item)"
    assert rows(path, gone) == []


class Waiting(LocalExtractor):
    """Gives the memory another embedder while a session is being extracted."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Extract as rules do."""
        await asyncio.to_thread(give, self._folder)
        return await super().extract(chunks)


def test_a_write_that_was_under_way_is_finished_with_the_new_one(folder: Path) -> None:
    """Its turns are stored; no vector of the old embedder comes in, and `resume` makes memory of them."""
    path = fill(folder)
    with (
        MemForest(folder, fast_config(embedder=OLD, extractor=Waiting(folder))) as forest,
        pytest.raises(EmbedderMismatchError),
    ):
        forest.ingest_session("u", "late", said("I live in Rome."))
    with MemForest(folder, fast_config(embedder=NEW)) as forest:
        assert [one.session_id for one in forest.resume("u")] == ["late"]
        assert forest.user("u").verify().ok
    assert {row[0] for row in rows(path, "SELECT length(vector) FROM derived_turn_vector")} == {2 * 48}


def test_a_memory_opened_with_its_own_opens_with_the_new_one(folder: Path) -> None:
    """With ``embedder="auto"`` another process sees one error, and goes on by itself."""
    fill(folder)
    with MemForest(folder, fast_config(embedder="auto")) as forest:
        assert forest.query("u", "Where does Ana live?").trace["embedder"] == OLD.model_id
        give(folder)
        with pytest.raises(EmbedderMismatchError):
            forest.query("u", "Where does Ana live?")
        assert forest.query("u", "Where does Ana live?").trace["embedder"] == NEW.model_id


def test_a_memory_of_words_alone_is_given_one(folder: Path, tmp_path: Path) -> None:
    """As `resume` with an embedder gives it one."""
    path, wanted = fill(folder, None), fill(tmp_path, NEW)
    give(folder)
    vectors = ("turn vectors", "fact vectors", "trees")
    assert differences(dump(wanted), dump(path), vectors) == {}


def test_another_model_under_the_same_name_is_told_by_its_dimension(folder: Path) -> None:
    """Whoever gave an embedder of his own the same name twice gets out of it."""

    def short(texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text)), 2.0] for text in texts]

    def vectors(texts: list[str]) -> list[list[float]]:
        return [[*row, 1.0] for row in short(texts)]

    fill(folder, short)
    vectors.__name__ = short.__name__
    with MemForest(folder, fast_config(embedder=vectors)) as forest:
        with pytest.raises(EmbedderMismatchError):
            forest.query("u", "Where does Ana live?")
        forest.rebuild("u", embedder=True)
        assert forest.user("u").verify().ok
        assert forest.query("u", "Where does Ana live?").evidence


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("DELETE FROM meta WHERE key = 'next_embedder'", "none is named"),
        ("UPDATE derived_next_vector SET vector = x'00' WHERE item = 2", "2 lengths"),
        (
            "UPDATE derived_next_vector SET kind = 'x' WHERE item = 2 AND kind = 'turn'",
            "'x', which is nothing",
        ),
    ],
)
@pytest.mark.usefixtures("small_blocks")
def test_damaged_vectors_of_the_next_one_are_named_and_dropped(folder: Path, damage: str, says: str) -> None:
    """They are made again by the next call."""

    def stop(block: int) -> None:
        if block == 3:
            raise ModelError("gone")

    path = fill(folder)
    with pytest.raises(ModelError):
        give(folder, Watched(stop))
    with sqlite3.connect(path) as conn:
        conn.execute(damage)
    conn.close()
    with MemForest(folder, fast_config(embedder=OLD)) as forest:
        assert [problem.part for problem in forest.user("u").verify() if says in problem.message] == [
            "vector"
        ]
        assert forest.user("u").repair().left == ()
    assert lacking(path) == []
    give(folder)


@pytest.mark.usefixtures("small_blocks")
def test_two_embedders_at_once(folder: Path) -> None:
    """Whoever began last goes on; the other one is told, and the vectors are of one model."""
    path = fill(folder)
    third = HashEmbedder(16)

    def other(block: int) -> None:
        if block == 2:
            give(folder, third)

    with pytest.raises(StoreLockedError):
        give(folder, Watched(other))
    assert dict(rows(path, "SELECT key, value FROM meta"))["embedder"] == third.model_id
    assert {row[0] for row in rows(path, "SELECT length(vector) FROM derived_fact_vector")} == {2 * 16}


def test_bad_calls(folder: Path) -> None:
    """No embedder to give, arguments that exclude each other, nobody's memory."""
    fill(folder)
    with MemForest(folder, fast_config(embedder=None)) as forest:
        user = forest.user("u")
        with pytest.raises(InputError):
            user.rebuild(embedder=True)
        for wrong in ({"stale": True}, {"index": "memforest"}):
            with pytest.raises(InputError):
                user.rebuild(embedder=True, **wrong)
        with pytest.raises(InputError, match="progress"):
            user.rebuild(progress=3)  # type: ignore[arg-type]
        with pytest.raises(NotFoundError):
            forest.rebuild("nobody", embedder=True)


def test_all_users_at_once(folder: Path) -> None:
    """One that fails keeps the others from nothing."""
    with MemForest(folder, fast_config()) as forest:
        for user in "abc":
            forest.ingest_session(user, "s", said("I live in Rome."))
    (folder / own_file("b")).write_bytes(b"no database at all")

    async def run() -> None:
        async with AsyncMemForest(folder, fast_config(embedder=NEW)) as forest:
            with pytest.raises(SomeUsersFailedError) as caught:
                await forest.rebuild(embedder=True)
            assert list(caught.value.files) == [own_file("b")]
            for user in "ac":
                assert (await forest.user(user).stats()).embedder == NEW.model_id

    asyncio.run(run())


def own_file(user: str) -> str:
    """Return the name of a user's file."""
    from memforest.store.directory import file_name

    return file_name(user)
