"""What people have decided of statements goes along with a merge: corrections, their places, and what they show and hide."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_memory_near import config as near_config
from tests_long.worlds import CLOCK, eager_config, fast_config, rows, said, summaries

from memforest import MemForest
from memforest.memory.blocking import UserMemory
from memforest.store.directory import file_name
from memforest.testing import FrozenClock

DAVIS, MIAMI, TAMPA = 'Ana: "I live in Davis."', 'Ana: "I live in Miami."', "Ana lives in Tampa."
PLACES = "SELECT c.key, p.session_id, p.turn_id, p.quote FROM correction_place p JOIN correction c ON c.id = p.correction"

Decide = Callable[[UserMemory, str], Any]
KINDS: dict[str, Decide] = {
    "pin": lambda user, fact_id: user.pin(fact_id),
    "forget": lambda user, fact_id: user.forget(fact_id),
    "update": lambda user, fact_id: user.update(fact_id, TAMPA),
}
SHOWN = {"pin": {DAVIS, MIAMI}, "forget": {DAVIS}, "update": {DAVIS, TAMPA}}
"""What is shown of both memories when one of these was decided of Miami."""


def of(folder: Path, user: str) -> Path:
    """Return the file of a user's memory."""
    return folder / file_name(user)


def fact(user: UserMemory, statement: str) -> str:
    """Return the identity of a statement that is shown."""
    [found] = [one.fact_id for one in user.list(limit=1000) if one.statement == statement]
    return found


def shown(user: UserMemory, **when: Any) -> set[str]:
    """Return the statements that are shown, after `verify` has found nothing wrong with them."""
    report = user.verify()
    assert report.problems == ()
    return {one.statement for one in user.list(limit=1000, **when)}


@contextmanager
def memories(folder: Path, **texts: str) -> Iterator[tuple[MemForest, UserMemory, UserMemory, FrozenClock]]:
    """Make memories of "a" and "b" in which one thing is said each, in a session called "s"; the clock is theirs."""
    clock = FrozenClock(CLOCK)
    with MemForest(folder, fast_config(clock=clock)) as forest:
        for day, (user, text) in enumerate({"a": DAVIS, "b": MIAMI, **texts}.items(), 1):
            words = text.removeprefix('Ana: "').removesuffix('"')
            forest.ingest_session(user, "s", said(words, speaker="Ana", day=day))
        clock.advance(days=1)
        yield forest, forest.user("a"), forest.user("b"), clock


@pytest.mark.parametrize("kind", KINDS)
def test_a_correction_comes_along(folder: Path, kind: str) -> None:
    """Its places are those of the session as that is called here; a second merge brings it no second time."""
    with memories(folder) as (_, a, b, _):
        KINDS[kind](b, fact(b, MIAMI))
        assert a.merge("b", dry_run=True).corrections_added == 1
        result = a.merge("b")
        assert result.corrections_added == 1
        assert shown(a) == SHOWN[kind]
        again = a.merge("b")
        assert (again.corrections_added, rows(of(folder, "a"), "SELECT count(*) FROM correction")) == (
            0,
            [(1,)],
        )
        assert shown(a) == SHOWN[kind]
        entries = ("kind", "fact_id", "text", "key")
        told = [[tuple(getattr(e, x) for x in entries) for e in u.history(fact(u, TAMPA))] for u in (a, b) if kind == "update"]  # fmt: skip
        assert told[1:] == told[:-1]
        a.undo(rows(of(folder, "a"), "SELECT key FROM correction")[0][0])
        a.merge("b")
        assert shown(a) == {DAVIS, MIAMI}  # what is undone here stays so
    [(key, session_id, turn_id, quote)] = rows(of(folder, "a"), PLACES)
    assert (session_id, rows(of(folder, "b"), PLACES)) == (result.renamed["s"], [(key, "s", turn_id, quote)])
    said_there = "SELECT said, text, made, made_ms FROM correction"
    assert rows(of(folder, "a"), said_there) == rows(of(folder, "b"), said_there)
    [(said_text, *_)] = rows(of(folder, "a"), said_there)
    assert said_text == MIAMI


@pytest.mark.parametrize("kind", KINDS)
def test_a_correction_made_after_the_first_merge_comes_with_the_next(folder: Path, kind: str) -> None:
    """And so does that it was undone; nothing of the session itself is new then."""
    with memories(folder) as (_, a, b, clock):
        assert a.merge("b").corrections_added == 0
        key = KINDS[kind](b, fact(b, MIAMI)).key
        clock.advance(days=1)
        result = a.merge("b")
        assert (result.corrections_added, result.turns_added) == (1, 0)
        assert shown(a) == SHOWN[kind]
        clock.advance(days=1)
        b.undo(key)
        assert a.merge("b").corrections_added == 0
        assert shown(a) == {DAVIS, MIAMI}
        assert all(one.fact_id and one.verdict == "" for one in a.list())


def test_an_update_that_was_undone_here_stays_undone_when_its_session_grows(folder: Path) -> None:
    """What it put there comes along with the chunk again, and does not stand here."""
    with memories(folder) as (forest, a, b, _):
        key = b.update(fact(b, MIAMI), TAMPA).key
        a.merge("b")
        a.undo(key)
        forest.ingest_session("b", "s", said("I live in Miami.", "I bought a tent.", speaker="Ana", day=2))
        assert a.merge("b").sessions_grown == 1
        assert shown(a) == {DAVIS, MIAMI, 'Ana: "I bought a tent."'}


@pytest.mark.parametrize("kind", KINDS)
def test_a_correction_that_was_undone_decides_nothing(folder: Path, kind: str) -> None:
    """It is in the history here too."""
    with memories(folder) as (_, a, b, clock):
        b.undo(KINDS[kind](b, fact(b, MIAMI)).key)
        clock.advance(days=1)
        a.merge("b")
        assert shown(a) == {DAVIS, MIAMI}
        assert [one.kind for one in a.history(fact(a, MIAMI))][-1] == "undone"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["here", "there"])
def test_what_was_decided_holds_for_what_the_other_memory_says(folder: Path, where: str, kind: str) -> None:
    """Of the same statement, said in another session of either memory; an update stands at both."""
    with memories(folder, a=MIAMI) as (_, a, b, _):
        user = a if where == "here" else b
        KINDS[kind](user, fact(user, MIAMI))
        assert a.merge("b").corrections_added == (where == "there")
        assert shown(a) == SHOWN[kind] - {DAVIS}
        assert shown(b) == ({MIAMI} if where == "here" else SHOWN[kind] - {DAVIS})
        if kind == "update":
            [made] = [one for one in a.history(fact(a, TAMPA)) if one.kind == "corrected"]
            assert made.replaced == MIAMI
            counts = "SELECT count(*) FROM occurrence WHERE correction IS NOT NULL"
            assert rows(of(folder, "a"), counts) == [(2,)]


def test_two_corrections_of_one_statement(folder: Path) -> None:
    """What either put in its place stands; of a pin and a later forget the later counts, whichever memory made it."""
    with memories(folder, a=MIAMI) as (forest, a, b, clock):
        key = a.update(fact(a, MIAMI), TAMPA).key
        clock.advance(days=1)
        b.update(fact(b, MIAMI), "Ana lives in Orlando.")
        a.merge("b")
        assert shown(a) == {TAMPA, "Ana lives in Orlando."}
        a.undo(key)
        assert shown(a) == {"Ana lives in Orlando."}
        forest.user("a").merge("b")
        assert shown(a) == {"Ana lives in Orlando."}
    for first, second in (("a", "b"), ("b", "a")):
        with memories(folder / first, a=MIAMI) as (forest, a, _, clock):
            forest.user(first).pin(fact(forest.user(first), MIAMI))
            clock.advance(days=1)
            forest.user(second).forget(fact(forest.user(second), MIAMI))
            a.merge("b")
            assert shown(a) == set()


def test_a_chain_of_corrections_comes_along(folder: Path) -> None:
    """Also when its first part is undone there after its second was made here."""
    with memories(folder) as (_, a, b, clock):
        first = b.update(fact(b, MIAMI), TAMPA).key
        a.merge("b")
        second = a.update(fact(a, TAMPA), "Ana lives in Orlando.").key
        assert shown(a) == {DAVIS, "Ana lives in Orlando."}
        b.merge("a")
        assert shown(b) == {DAVIS, "Ana lives in Orlando."}
        clock.advance(days=1)
        b.undo(second)
        b.undo(first)
        assert shown(b) == {DAVIS, MIAMI}
        a.merge("b")
        assert shown(a) == {DAVIS, MIAMI}


def test_a_statement_stays_corrected_when_its_session_is_read_anew_after_a_merge(folder: Path) -> None:
    """Places are those of the session as it is called here; the same session sent again, and a rebuild, change nothing."""
    with memories(folder) as (forest, a, b, _):
        b.update(fact(b, MIAMI), TAMPA)
        renamed = a.merge("b").renamed["s"]
        forest.ingest_session("a", renamed, said("I live in Miami.", speaker="Ana", day=2), replace=True)
        forest.ingest_session("a", "later", said("I live in Miami.", speaker="Ana", day=1))
        assert shown(a) == {DAVIS, TAMPA}
        a.rebuild()
        assert shown(a) == {DAVIS, TAMPA}


@pytest.mark.parametrize("kind", KINDS)
def test_a_correction_follows_a_statement_that_is_called_otherwise(folder: Path, kind: str) -> None:
    """Its identities and its texts are those of the statements with the names that people have here."""
    with memories(folder) as (_, a, b, _):
        there = fact(b, MIAMI)
        KINDS[kind](b, there)
        a.merge("b", apart=["Ana"])
        assert shown(a) == {DAVIS} | {one.replace("Ana", "Ana (b)") for one in SHOWN[kind] - {DAVIS}}
        a.merge("b")
        assert shown(a) == {DAVIS} | {one.replace("Ana", "Ana (b)") for one in SHOWN[kind] - {DAVIS}}
    [(identity, told)] = rows(of(folder, "a"), "SELECT fact_id, said FROM correction")
    assert (identity != there, told) == (True, 'Ana (b): "I live in Miami."')


def test_places_in_sessions_that_the_other_memory_does_not_have_stay_there(folder: Path) -> None:
    """A session of that id here is another one, and nothing of it is hidden."""
    with memories(folder, a=MIAMI) as (forest, a, b, _):
        forest.ingest_session("b", "t", said("I live in Miami.", speaker="Ana", day=3))
        b.forget(fact(b, MIAMI))
        rows_of = rows(of(folder, "b"), PLACES)
        assert {one[1] for one in rows_of} == {"s", "t"}
        forest.delete_session("b", "s")
        a.merge("b")
        assert {one[1] for one in rows(of(folder, "a"), PLACES)} >= {"t"}
        assert shown(a) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_was_merged_was_known_here_before(folder: Path, kind: str) -> None:
    """Sessions, occurrences of statements that were known, and corrections; `changes` tells of all of it at the merge."""
    with memories(folder, a=MIAMI) as (forest, a, b, clock):
        forest.ingest_session("b", "t", said("I bought a red kayak.", speaker="Ana", day=3))
        KINDS[kind](b, fact(b, MIAMI))
        clock.advance(days=1)
        before = clock()
        listed = [(one.statement, one.sources) for one in a.list()]
        clock.advance(days=1)
        a.merge("b")
        assert shown(a) == SHOWN[kind] - {DAVIS} | {'Ana: "I bought a red kayak."'}
        told = a.changes(clock())
        assert {"stored", "learnt", "merged", "corrected"} == {one.kind for one in told}
        assert not a.changes(before, until=clock())
        clock.advance(days=1)
        [key] = [one for (one,) in rows(of(folder, "b"), "SELECT key FROM correction")]
        b.undo(key)
        clock.advance(days=1)
        a.merge("b")
        assert [one.kind for one in a.changes(clock())] == ["undone"]
        assert shown(a, known_at=before) == {MIAMI}
        assert [(one.statement, one.sources) for one in a.list(known_at=before)] == listed
        found = a.search("Where does Ana live?", known_at=before, top_k=9)
        assert found.evidence
        assert {source.session_id for one in found for source in one.sources} == {"s"}


def test_summaries_of_what_is_decided_otherwise_here_stay_there(folder: Path) -> None:
    """They tell what is hidden here; those of other sessions are taken over."""
    with MemForest(folder, eager_config()) as forest:
        forest.ingest_session("a", "own", said("I live in Miami.", speaker="Ana"))
        told = ["I live in Miami.", "Good morning!", "How are you?", "It is a fine day."]
        forest.ingest_session("b", "told", said(*told, speaker="Ana", day=2))
        told = [f"I bought kayak number {n}." for n in range(9)]
        forest.ingest_session("b", "other", said(*told, speaker="Bo", day=3))
    with MemForest(folder, eager_config()) as forest:
        forest.user("a").forget(fact(forest.user("a"), MIAMI))
        before = {text for text, _ in summaries(of(folder, "a")).values()}
        assert forest.user("a").merge("b", refresh=False).summaries_copied > 0
        there = {text for text, _ in summaries(of(folder, "b")).values()}
        here = {text for text, _ in summaries(of(folder, "a")).values()} - before
        assert any("Miami" in text for text in there)
        assert here
        assert not any("Miami" in text for text in here)
        assert any("kayak" in text for text in here)
        assert forest.user("a").verify().problems == ()


def test_what_an_update_made_is_not_merged_with_what_is_near(folder: Path) -> None:
    """It stands as it was given, so that undoing takes just that back; what was said is merged with what is near."""
    near, made = "I bought 2 boats in Oslo.", 'Ana: "I bought two boats in Oslo!"'
    with MemForest(folder, near_config()) as forest:
        a, b = forest.user("a"), forest.user("b")
        forest.ingest_session("a", "s", said(near, speaker="Ana"))
        forest.ingest_session("b", "s", said("I live in Miami.", speaker="Ana", day=2))
        b.update(fact(b, MIAMI), made)
        a.merge("b")
        assert shown(a) == {f'Ana: "{near}"', made}
        forest.ingest_session("b", "t", said("I bought two boats in Oslo!", speaker="Ana", day=3))
        assert a.merge("b").facts_merged > 0
        assert shown(a) == {f'Ana: "{near}"', made}


def test_a_session_that_is_overwritten_leaves_no_word_in_a_correction(folder: Path) -> None:
    """Also where a sentence of it stays; what was corrected there is not shown."""
    with MemForest(folder, fast_config()) as forest:
        for user, text in (
            ("a", "I met Zoltan in Narvik. I own a kite."),
            ("b", "I own a kite. I like tea."),
        ):
            forest.ingest_session(user, "s", said(text, "Hello there.", speaker="Ana"))
        a = forest.user("a")
        a.update(next(one.fact_id for one in a.list() if "Zoltan" in one.statement), "I saw Zoltan in Rome.")
        forest.merge_user_forests(["b"], "a", overwrite=True)
        assert a.verify(deleted=["zoltan", "narvik", "rome"]).problems == ()
        assert [turn.text for turn in a.turns("s")] == ["I own a kite. I like tea.", "Hello there."]
