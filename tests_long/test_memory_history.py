"""However a memory came to hold its sessions, it holds the same: order, growth, repetition, replacement."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import (
    Session,
    differences,
    dump,
    eager_config,
    file_of,
    make_history,
    make_sessions,
    rows,
    summaries,
)

from memforest import MemForest
from memforest.errors import InputError, SessionConflictError


def build(directory: Path, calls: Sequence[tuple[Any, ...]]) -> Path:
    """Make the calls (session, turns, replace) on a memory, check it, and return its file."""
    with MemForest(directory, eager_config()) as forest:
        for session_id, turns, *replace in calls:
            forest.ingest_session("u", session_id, turns, replace=bool(replace and replace[0]))
        forest.flush()
        report = forest.user("u").verify()
        assert report.ok, report.problems
    return file_of(directory)


def assert_equal(one: Path, other: Path) -> None:
    """Assert that two memories hold the same: trees, summaries and their vectors too."""
    assert differences(dump(one), dump(other)) == {}
    made = summaries(one)
    assert made == summaries(other)
    assert all(text for text, _ in made.values())


def said(*texts: str, speaker: str = "Ana", day: int = 1) -> list[dict[str, Any]]:
    """Return turns of one day, a minute apart, spoken in turn by `speaker` and Bob."""
    return [
        {"speaker": (speaker, "Bob")[i % 2], "content": text, "timestamp": f"2023-05-{day:02}T10:{i:02}:00Z"}
        for i, text in enumerate(texts)
    ]


def test_the_order_of_sessions_changes_nothing(folder: Path, soak_seed: int) -> None:
    """Turns, facts with their occurrences, entities, and the leaf order of every tree are the same."""
    sessions = make_sessions(soak_seed)
    other = sessions[::-1] if soak_seed % 2 else Random(soak_seed).sample(sessions, len(sessions))
    assert_equal(build(folder / "a", sessions), build(folder / "b", other))


def test_a_speaker_has_all_that_was_said_of_them_before(folder: Path) -> None:
    """Whoever is talked about first and speaks later has one tree, with both."""
    sessions: list[Session] = [
        ("s1", said("Carla adopted two cats.", "Carla works at Acme.")),
        ("s2", said("I bought a tent.", speaker="Carla", day=2)),
    ]
    one, other = build(folder / "a", sessions), build(folder / "b", sessions[::-1])
    assert_equal(one, other)
    assert len(dump(one)["trees"]["memforest/entity carla"]) == 2 + 3  # level, window, and three facts


def test_a_fact_said_twice_is_worded_as_at_first(folder: Path) -> None:
    """The wording of a merged fact is that of its earliest occurrence, in either order; what another says is their own."""
    early = ("s1", said("Carla adopted two cats."))
    late = ("s2", said("Carla adopted two CATS.", day=9))
    others = ("s3", said("Carla adopted two cats.", speaker="Dan", day=10))
    sessions = [early, late, others]
    one, other = build(folder / "a", sessions), build(folder / "b", sessions[::-1])
    assert_equal(one, other)
    facts = sorted(fact[1:3] for fact in dump(one)["facts"] if "adopted" in fact[1])
    assert facts == [(f'{who}: "Carla adopted two cats."', who) for who in ("Ana", "Dan")]


def test_any_history_ends_like_a_fresh_memory(folder: Path, soak_seed: int) -> None:
    """Ingests, longer versions, repetitions and replacements end where the final sessions alone would."""
    final = make_sessions(soak_seed + 50, sessions=3, short_forms=False)
    grown = build(folder / "grown", make_history(soak_seed + 50, final))
    assert_equal(build(folder / "fresh", final), grown)


@pytest.mark.parametrize("start", [1, 2, 3])
def test_a_session_that_grows_turn_by_turn_ends_like_the_whole(folder: Path, start: int) -> None:
    """Odd and even beginnings: a chunk that was half full is read again as a whole."""
    turns = said("I live in Oslo.", "Where do you work?", "I work at Acme.", "Great!", "I bought a red car.")
    calls = [("s", turns[:n]) for n in range(start, len(turns) + 1, start)] + [("s", turns)]
    assert_equal(build(folder / "fresh", [("s", turns)]), build(folder / "grown", calls))


def test_add_ends_like_one_session(folder: Path) -> None:
    """Turns added one by one are the session that ingesting them at once makes."""
    turns = said("I live in Oslo.", "Where do you work?", "I work at Acme.")
    with MemForest(folder / "added", eager_config()) as forest:
        for turn in turns:
            forest.user("u").add(turn, session_id="s")
        assert forest.user("u").verify().ok
    assert_equal(build(folder / "whole", [("s", turns)]), file_of(folder / "added"))


def test_replacing_takes_everything_of_the_old_version_away(folder: Path) -> None:
    """No turn, fact, entity, word or summary of it is left, and the rest of the memory is as it was."""
    kept = ("s1", said("I live in Oslo.", "I work at Acme."))
    wrong = ("s2", said("Zebulon bought a yacht in Reykjavik.", "I adopted a cat.", speaker="Quentin", day=2))
    right = ("s2", said("I bought a tent.", day=3))
    path = build(folder / "a", [kept, wrong, (*right, True)])
    assert_equal(build(folder / "b", [kept, right]), path)
    everything = repr([dump(path), summaries(path)]).lower()
    for word in ("zebulon", "yacht", "reykjavik", "quentin"):
        assert word not in everything


def test_a_fact_with_another_source_survives_a_replacement(folder: Path) -> None:
    """Replacing one of two sessions that said it leaves the fact with the other's date, words and speaker."""
    first = ("s1", said("Carla adopted two cats."))
    second = ("s2", said("Carla adopted two cats.", speaker="Dan", day=9))
    replaced = ("s1", said("I live in Oslo."))
    path = build(folder / "a", [first, second, (*replaced, True)])
    assert_equal(build(folder / "b", [replaced, second]), path)
    (fact,) = [fact for fact in dump(path)["facts"] if "cats" in fact[1]]
    assert fact[2] == "Dan"


def raw(path: Path) -> list[tuple[Any, ...]]:
    """Return every row of every table, rowids and generation included."""
    names = [
        row[0]
        for row in rows(
            path, "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%fts5vocab%'"
        )
    ]
    return [(name, *row) for name in names for row in rows(path, f"SELECT * FROM {name}")]


def test_the_same_sessions_again_change_no_row(folder: Path, soak_seed: int) -> None:
    """Repeating every ingest writes nothing at all."""
    sessions = make_sessions(soak_seed, sessions=2)
    path = build(folder, sessions)
    before = raw(path)
    with MemForest(folder, eager_config()) as forest:
        for session_id, turns in sessions:
            result = forest.ingest_session("u", session_id, turns)
            assert (result.turns_added, result.added, result.usage.embeds) == (0, (), {})
    assert raw(path) == before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda turns: [{**turns[0], "content": "I live in Rome."}, *turns[1:]], id="another text"
        ),
        pytest.param(lambda turns: turns[:-1], id="a turn less"),
        pytest.param(lambda turns: [{**turns[0], "speaker": "Eve"}, *turns[1:]], id="another speaker"),
        pytest.param(
            lambda turns: [{**turns[0], "timestamp": "2023-04-01T00:00:00Z"}, *turns[1:]], id="another time"
        ),
        pytest.param(lambda turns: [{**turns[0], "id": "x"}, *turns[1:]], id="another id"),
    ],
)
def test_a_conflict_names_itself_and_changes_no_row(folder: Path, change: Any) -> None:
    """A session that came otherwise is refused with the fix, and the memory is untouched."""
    turns = said("I live in Oslo.", "I work at Acme.", "I bought a tent.")
    path = build(folder, [("s", turns)])
    before = raw(path)
    with (
        MemForest(folder, eager_config()) as forest,
        pytest.raises(SessionConflictError, match="replace=True"),
    ):
        forest.ingest_session("u", "s", change(turns))
    assert raw(path) == before


def test_a_key_names_its_write_when_earlier_turns_came_since(folder: Path) -> None:
    """They move the turns of later writes to further places; a repeated write brings what it has brought, and no row changes."""
    writes = [said("I live in Oslo.", "I work at Acme.", day=5), said("I bought a tent.", day=6)]
    with MemForest(folder, eager_config()) as forest:
        memory = forest.user("u")
        first = [
            memory.add(turns, session_id="s", idempotency_key=f"k{at}") for at, turns in enumerate(writes)
        ]
        assert memory.add(said("I sold a boat.", day=2), session_id="s").turns_added == 1
        assert memory.add(said("I own a kiln.", day=4), session_id="s").turns_added == 1
        path = file_of(folder)
        before = raw(path)
        for at, (turns, one) in enumerate(zip(writes, first, strict=True)):
            again = memory.add(turns, session_id="s", idempotency_key=f"k{at}")
            assert (again.turns_added, again.added) == (one.turns_added, one.added)
            assert len(again.added) == len(turns)
        assert raw(path) == before


def test_replace_with_the_same_session_changes_no_row(folder: Path) -> None:
    """Nothing differs, so nothing is overwritten."""
    turns = said("I live in Oslo.", "I work at Acme.")
    path = build(folder, [("s", turns)])
    before = raw(path)
    with MemForest(folder, eager_config()) as forest:
        assert not forest.ingest_session("u", "s", turns, replace=True).replaced
    assert raw(path) == before


def test_an_appended_id_that_is_taken_is_refused(folder: Path) -> None:
    """Two turns of one session never share an id, in whatever calls they come."""
    path = build(folder, [("s", said("I live in Oslo."))])
    before = raw(path)
    with MemForest(folder, eager_config()) as forest, pytest.raises(InputError, match="already"):
        forest.user("u").add(
            {"role": "user", "content": "Hi there, Bob.", "id": "0"}, session_id="s", timestamp="2024-01-01"
        )
    assert raw(path) == before
