"""What a memory has learnt since a time, a page at a time, and what was so at one time and not at another."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, make_sessions, said

from memforest import InputError, MemForest, NotFoundError
from memforest.cli.app import main
from memforest.errors import TimestampError
from memforest.memory.blocking import UserMemory
from memforest.read.changes import Change
from memforest.store.connections import Connection
from memforest.testing import FrozenClock


def turn(text: str, at: str, speaker: str = "Ana") -> dict[str, str]:
    """Return one turn."""
    return {"speaker": speaker, "content": text, "timestamp": at}


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[MemForest]:
    """A memory that was told of Davis on 1 June, of Miami on 2 June, and of Davis again on 3 June."""
    clock = FrozenClock("2024-06-01T00:00:00Z")
    with MemForest(tmp_path, fast_config(clock=clock)) as made:
        made.ingest_session("u", "a", [turn("I live in Davis.", "2024-01-05T00:00:00Z")])
        clock.advance(days=1)
        moved = [
            turn("I moved to Miami.", "2024-03-01T00:00:00Z"),
            turn("Nice!", "2024-03-01T00:01:00Z", "Bob"),
        ]
        made.ingest_session("u", "b", moved)
        clock.advance(days=1)
        made.ingest_session("u", "c", [turn("I live in Davis.", "2024-02-05T00:00:00Z")])
        made.save()
        yield made


def kinds(memory: UserMemory, *when: str, **how: Any) -> list[tuple[str, str]]:
    """Return what has changed, and about what."""
    return [(one.kind, one.text or str(one.session_id or one.what)) for one in memory.changes(*when, **how)]


def test_changes_are_told_in_the_order_in_which_they_were_stored(forest: MemForest) -> None:
    """Turns, then what was learnt of them; what is heard again is merged, and says where."""
    memory = forest.user("u")
    assert kinds(memory, "2024-01-01") == [
        ("stored", "a"),
        ("learnt", "I live in Davis."),
        ("stored", "b"),
        ("learnt", "I moved to Miami."),
        ("stored", "c"),
        ("merged", "I live in Davis."),
    ]
    stored, learnt = memory.changes("2024-06-02", "2024-06-03")
    assert (stored.count, f"{stored.at:%d %H:%M}") == (2, "02 00:00")
    assert learnt.superseded == ("I live in Davis.",)
    assert [(one.session_id, one.turn_ids) for one in learnt.sources] == [("b", ("0",))]
    merged = memory.changes("2024-06-03").changes[-1]
    assert [(one.session_id, one.turn_ids) for one in merged.sources] == [("c", ("0",))]
    assert merged.fact_id == memory.list().facts[0].fact_id


def test_the_window_is_half_open(forest: MemForest) -> None:
    """So whoever asks again from where the last answer ended misses nothing and hears nothing twice."""
    memory = forest.user("u")
    assert kinds(memory, "2024-06-02", "2024-06-02T00:00:00.001") == kinds(memory, "2024-06-02", "2024-06-03")
    assert not memory.changes("2024-06-02T00:00:00.001", "2024-06-03")
    assert len(memory.changes("2024-06-01", "2024-06-02")) == 2


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_together_are_all_changes(tmp_path: Path, limit: int) -> None:
    """However many things happen at one instant: nothing is left out and nothing comes twice."""
    clock = FrozenClock("2024-06-01T00:00:00Z")
    with MemForest(tmp_path, fast_config(clock=clock)) as forest:
        for number, (name, turns) in enumerate(make_sessions(limit, sessions=6)):
            forest.ingest_session("u", name, turns)
            clock.advance(hours=number % 2)
        with closing(sqlite3.connect(file_of(tmp_path))) as db:
            times = [moment for (moment,) in db.execute("SELECT DISTINCT stored_ms FROM turn")]
            random = Random(limit)
            for kind in ("turn", "fact", "turn", "session", "turn"):
                deleted = random.choice(times)
                db.execute(
                    "INSERT INTO tombstone (kind, count, stored_ms, deleted_ms) VALUES (?, 2, 0, ?)",
                    (kind, deleted),
                )
            made = [("pin", None), ("forget", times[-1]), ("update", times[0])]
            for number, (kind, undone) in enumerate(made):
                row = (str(number), kind, "f1:x", times[0], undone)
                db.execute(
                    "INSERT INTO correction (key, kind, fact_id, precision, made_ms, undone_ms) VALUES (?, ?, ?, 'day', ?, ?)",
                    row,
                )
            db.commit()
        memory = forest.user("u")
        whole = memory.changes("2024-01-01", limit=1000)
        assert whole.next is None
        assert {one.kind for one in whole} >= {"stored", "learnt", "corrected", "undone", "deleted"}
        assert sum(one.count for one in whole if one.kind == "deleted") == 10
        assert sum(one.count for one in whole if one.kind == "stored") == memory.stats().turns
        assert [one.at for one in whole] == sorted(one.at for one in whole)
        found: list[Change] = []
        after = None
        for _ in range(200):
            page = memory.changes("2024-01-01", limit=limit, after=after)
            assert 0 < len(page) <= limit
            found += page.changes
            after = page.next
            if after is None:
                break
        assert found == list(whole.changes)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"since": None}, InputError),
        ({"since": "never"}, TimestampError),
        ({"since": "2024-06-02", "until": "2024-06-02"}, InputError),
        ({"since": "2024-06-02", "until": "2024-06-01"}, InputError),
        ({"since": "2024-06-02", "limit": 0}, InputError),
        ({"since": "2024-06-02", "limit": 1001}, InputError),
        ({"since": "2024-06-02", "after": "x"}, InputError),
        ({"since": "2024-06-02", "after": "1.2"}, InputError),
        ({"since": "2024-06-02", "after": 3}, InputError),
    ],
)
def test_arguments_that_cannot_be_are_refused(forest: MemForest, wrong: Any, error: type[Exception]) -> None:
    """With an error that names them."""
    with pytest.raises(error, match=next(reversed(wrong))):
        forest.user("u").changes(**wrong)


def test_a_diff_tells_what_began_ended_and_changed(tmp_path: Path) -> None:
    """Each with where it was said; what is the same at both times is not told, whatever was so between."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session(
            "u", "a", said("I live in Davis.", "I work at Acme.", "I have a dog called Rex.")
        )
        forest.ingest_session("u", "b", said("I moved to Miami.", "I no longer work at Acme.", day=10))
        forest.ingest_session("u", "c", said("I moved to Davis.", "I have a cat called Tom.", day=20))
        memory = forest.user("u")

        def told(a: str, b: str) -> list[tuple[str, str, str | None, str | None]]:
            return [(one.attribute, one.change, one.before, one.after) for one in memory.diff(a, b)]

        assert ("residence", "changed", "Davis", "Miami") in told("2023-05-05", "2023-05-15")
        assert ("employer", "ended", "Acme", None) in told("2023-05-05", "2023-05-15")
        assert ("employer", "begun", None, "Acme") in told("2023-05-15", "2023-05-05")
        assert ("residence", "begun", None, "Davis") in told("2023-04-01", "2023-05-05")
        assert not any(one[0] == "residence" for one in told("2023-05-05", "2023-05-25"))
        assert not memory.diff("2023-05-05", "2023-05-05")
        [line] = [
            one
            for one in memory.diff("2023-05-05", "2023-05-15", entity="Ana")
            if one.attribute == "residence"
        ]
        assert (line.entity, f"{line.at:%d}") == ("Ana", "10")
        assert [one.session_id for one in line.sources] == ["b"]
        assert [one.session_id for one in line.sources_before] == ["a"]
        with pytest.raises(NotFoundError):
            memory.diff("2023-05-05", "2023-05-15", entity="Zoe")


@pytest.mark.parametrize("seed", range(4))
def test_a_diff_is_the_difference_of_two_timelines(tmp_path: Path, seed: int) -> None:
    """Of single values: what held at each time according to `timeline`, compared by hand."""
    with MemForest(tmp_path, fast_config()) as forest:
        for name, turns in make_sessions(seed, sessions=6):
            forest.ingest_session("u", name, turns)
        memory = forest.user("u")
        times = ("2023-03-01T00:00:00+00:00", "2023-07-01T00:00:00+00:00", "2023-12-01T00:00:00+00:00")
        for a, b in pairwise(times):
            for name in ("Ana", "Bob", "Melanie"):
                try:
                    lines = memory.timeline(name, attribute="residence")
                except NotFoundError:
                    continue
                held = [
                    [
                        one.value
                        for one in lines
                        if (one.start is None or one.start.isoformat() <= at)
                        and (one.end is None or at < one.end.isoformat())
                    ][-1:]
                    for at in (a, b)
                ]
                found = [
                    (one.before, one.after)
                    for one in memory.diff(a, b, entity=name)
                    if one.attribute == "residence"
                ]
                before, after = (values[0] if values else None for values in held)
                assert found == ([] if before == after else [(before, after)])


def test_a_diff_of_what_was_known(forest: MemForest) -> None:
    """On 1 June nobody had told of the move in March."""
    memory = forest.user("u")
    assert [one.after for one in memory.diff("2024-02-01", "2024-04-01")] == ["Miami"]
    assert not memory.diff("2024-02-01", "2024-04-01", known_at="2024-06-01T12:00:00Z")
    assert not memory.diff("2024-02-01", "2024-04-01", said_by="2024-02-20")


def shown(forest: MemForest, *args: str) -> str:
    """Return what a command prints."""
    done = CliRunner().invoke(main, [*args, "--dir", str(forest._async.directory)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_line_has_the_three_times(forest: MemForest) -> None:
    """On every command that reads statements."""
    june = "2024-06-01T12:00:00Z"
    assert "Miami" in shown(forest, "facts")
    assert "Miami" not in shown(forest, "facts", "--known-at", june)
    assert "Miami" not in shown(forest, "facts", "--during", "2024-01-01", "2024-02-01")
    assert "Miami" not in shown(forest, "timeline", "Ana", "--said-by", "2024-02-01")
    assert "Miami" not in shown(forest, "search", "Where does Ana live?", "--known-at", june)
    assert "Davis" in shown(forest, "ask", "Where does Ana live?", "--said-by", "2024-02-01")
    assert shown(forest, "diff", "2024-02-01", "2024-04-01").split("\t")[:5] == [
        "Ana",
        "residence",
        "changed",
        "Davis",
        "Miami",
    ]
    page = json.loads(shown(forest, "diff", "--stored", "2024-06-02", "--limit", "1", "--json"))["data"]
    assert [one["kind"] for one in page["changes"]] == ["stored"]
    more = shown(forest, "diff", "--stored", "2024-06-02", "--after", page["next"])
    assert more.splitlines()[0].split("\t")[1:4] == ["learnt", "I moved to Miami.", "I live in Davis."]


def test_what_has_changed_is_read_by_index(forest: MemForest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement of `changes`, `diff` or of the snapshot of a moment reads a whole table."""
    asked: dict[str, Any] = {}
    execute = Connection.execute

    def record(self: Connection, sql: str, args: Any = (), /) -> Any:
        asked.setdefault(sql, args)
        return execute(self, sql, args)

    memory = forest.user("u")
    assert memory.search("Where does Ana live?").evidence  # so that the snapshot of all is there
    with monkeypatch.context() as patched:
        patched.setattr(Connection, "execute", record)
        first = memory.changes("2024-06-01", limit=2)
        assert memory.changes("2024-06-01", after=first.next)
        assert memory.diff("2024-02-01", "2024-04-01", entity="Ana")
        assert not memory.diff("2024-02-01", "2024-04-01", known_at="2024-06-01T12:00:00Z")
    # What is given to the statement, and what people have decided.
    few = ("json_each", "correction", "SCAN c", "SCAN p", "fact_hidden")
    found = []
    with closing(sqlite3.connect(file_of(Path(forest._async.directory)))) as db:
        for sql, args in asked.items():
            if sql.lstrip().upper().startswith("SELECT"):
                plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", args)]
                found += [one for one in plan if one.startswith("SCAN") and not any(w in one for w in few)]
    assert len(asked) > 10
    assert found == []
