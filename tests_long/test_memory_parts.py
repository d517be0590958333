"""A long session is written in parts: other writers come in between, and what comes out is the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import dump, fast_config, file_of, make_sessions, rows, said

from memforest import MemForest
from memforest.errors import SessionConflictError, StoreWriteError
from memforest.write import commit as module

LONG = [f"I bought a {thing} in {city}." for thing in ("car", "bike", "tent") for city in ("Oslo", "Miami")]
LONG += ["I live in Oslo.", "I moved to Miami.", "I bought a car in Oslo.", "Bob works at Acme.", "Thanks!"]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of one chunk follow each other at once."""
    monkeypatch.setattr(module, "PART_CHUNKS", 1)
    monkeypatch.setattr(module, "PAUSE_S", 0.0)


def before_part(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], Any]) -> list[int]:
    """Do something before a part is written; returns a list that grows by one with each part."""
    parts: list[int] = []
    acted: list[bool] = []

    commit, original = module.commit, module._commit_part

    def counted(*args: Any) -> None:
        parts.append(len(parts) + 1)
        commit(*args)

    def acting(*args: Any, **named: Any) -> None:
        if len(parts) + 1 == number and not acted:
            acted.append(True)  # what it writes has parts of its own
            act()
        original(*args, **named)

    monkeypatch.setattr(module, "commit", counted)
    monkeypatch.setattr(module, "_commit_part", acting)
    return parts


def test_parts_make_what_one_transaction_makes(
    folder: Path, soak_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random conversations, grown and overwritten: the same facts, states, trees and results."""
    sessions = [*make_sessions(soak_seed, sessions=4, most_turns=14), ("long", said(*LONG))]
    results, dumps = [], []
    for at, chunks in enumerate((1, 10_000)):
        monkeypatch.setattr(module, "PART_CHUNKS", chunks)
        with MemForest(folder / str(at), fast_config()) as forest:
            made = [
                forest.ingest_session("u", name, turns[: len(turns) // 2 + 1]) for name, turns in sessions
            ]
            made += [forest.ingest_session("u", name, turns) for name, turns in sessions]
            made.append(forest.ingest_session("u", "long", said(*LONG[::-1]), replace=True))
            forest.flush("u")
            assert forest.user("u").verify().ok
        results.append([(sorted(r.added), sorted(r.merged), sorted(r.superseded), r.chunks) for r in made])
        dumps.append(dump(file_of(folder / str(at))))
    assert results[0] == results[1]
    assert dumps[0] == dumps[1]


def test_another_writer_comes_in_between(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process writes between two parts is there at once, and both sessions are whole."""
    with MemForest(folder, fast_config()) as forest, MemForest(folder, fast_config()) as other:
        seen: list[str] = []

        def between() -> None:
            other.ingest_session("u", "other", said("I bought a car in Oslo.", "I live in Oslo."))
            seen.extend(row[0] for row in rows(file_of(folder), "SELECT status FROM session WHERE id = 1"))

        parts = before_part(monkeypatch, 3, between)
        result = forest.ingest_session("u", "long", said(*LONG))
        assert seen == ["received"]
        assert len(parts) > 4
        assert all(chunk.status == "extracted" for chunk in result.chunks)
        assert forest.user("u").verify().ok
        assert {status for (status,) in rows(file_of(folder), "SELECT status FROM session")} == {"ingested"}


def test_what_was_overwritten_between_two_parts_is_a_conflict(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer of the old text learns of it, and nothing of the old text is left."""
    with MemForest(folder, fast_config()) as forest, MemForest(folder, fast_config()) as other:
        new = said("I sold the piano.", "I bought a harp.")
        before_part(
            monkeypatch, 3, lambda: other.ingest_session("u", "long", new, replace=True, refresh=False)
        )
        with pytest.raises(SessionConflictError, match="overwritten"):
            forest.ingest_session("u", "long", said(*LONG))
        forest.resume("u")
        assert forest.user("u").verify().ok
        facts = [text for (text,) in rows(file_of(folder), "SELECT text FROM fact")]
        assert not [text for text in facts if "Oslo" in text or "Miami" in text]


def test_resume_goes_on_where_a_write_was_cut_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All turns are stored, the parts that were written stay, and the result is that of an unbroken write."""
    with MemForest(folder / "whole", fast_config()) as forest:
        forest.ingest_session("u", "long", said(*LONG), refresh=True)

    def full() -> None:
        raise StoreWriteError("the disk is full")

    with MemForest(folder / "cut", fast_config()) as forest:
        with monkeypatch.context() as patched:
            before_part(patched, 4, full)
            with pytest.raises(StoreWriteError):
                forest.ingest_session("u", "long", said(*LONG))
        path = file_of(folder / "cut")
        assert rows(path, "SELECT status FROM session") == [("received",)]
        assert rows(path, "SELECT count(*) FROM turn") == [(len(LONG),)]
        assert rows(path, "SELECT count(*) FROM chunk WHERE status = 'extracted'") == [(3,)]
        assert forest.user("u").verify().ok
        forest.resume("u")
        assert forest.user("u").verify().ok
    assert dump(file_of(folder / "cut")) == dump(file_of(folder / "whole"))
