"""A correction stands beside what was said: it holds everywhere, survives everything, and can be taken back."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests.contract.talk import ANNA, fact, failures, holding, opened, picture, said, shown, statements, texts

from memforest import MemForest, UserMemory
from memforest.errors import CorrectionError, InputError, NotFoundError
from memforest.testing import FrozenClock


def test_an_update_holds_instead(anna: UserMemory) -> None:
    """Search, ask, list and timeline show the new statement; what was said stays as it was said."""
    before = shown(anna)
    done = anna.update(fact(anna, "Kestrel").fact_id, "Anna works at Harbour Press.")
    best = anna.search("Where does Anna work?").evidence[0]
    assert (best.text, best.quote) == ("Anna works at Harbour Press.", "I work at Kestrel Books now.")
    assert best.corrected is not None
    assert "Harbour Press" in (anna.ask("Where does Anna work?").answer or "")
    assert not holding(anna.list(), "Kestrel")
    assert [one.value for one in anna.timeline("Anna", attribute="employer")] == ["Harbour Press"]
    assert (done.kind, done.text) == ("update", "Anna works at Harbour Press.")
    assert done.new_fact_id == fact(anna, "Harbour Press").fact_id
    assert shown(anna) == before
    assert anna.verify().ok


def test_a_correction_of_a_move_holds_on(anna: UserMemory) -> None:
    """Where only the place was wrong, she lives there since that week, and still."""
    anna.update(fact(anna, "Lille").fact_id, "Anna lives in Bruges.")
    assert [(one.value, one.end) for one in anna.timeline("Anna", attribute="residence")][1:] == [
        ("Bruges", None)
    ]
    assert "Bruges" in (anna.ask("Where does Anna live?").answer or "")


def test_an_update_may_correct_the_time_alone(anna: UserMemory) -> None:
    """From when and until when it was so; a state ends there, for timelines and for `as_of`."""
    anna.update(fact(anna, "dentist").fact_id, valid_from="2024-01-01", valid_to="2024-05-01")
    [line] = anna.timeline("Anna", attribute="dentist")
    assert (line.start, line.end) == (
        datetime(2024, 1, 1, tzinfo=timezone.utc),
        datetime(2024, 5, 1, tzinfo=timezone.utc),
    )
    assert holding(anna.list(as_of="2024-02-01"), "dentist")
    assert not holding(anna.list(as_of="2024-05-01"), "dentist")


def test_what_is_forgotten_is_not_shown(anna: UserMemory) -> None:
    """No reader shows it but `get` and the list of verdicts; the turn itself is kept."""
    one = fact(anna, "dentist")
    anna.forget(one.fact_id)
    assert not holding(anna.list(limit=1000), "dentist")
    assert "Okafor" not in anna.search("Who is Anna's dentist?", top_k=50).context(10_000)
    assert anna.ask("Who is Anna's dentist?").abstained
    assert not anna.timeline("Anna", attribute="dentist")
    assert texts(anna.list(verdict="forgotten")) == ["My dentist is Dr. Okafor."]
    assert anna.get(one.fact_id).verdict == "forgotten"
    assert "My dentist is Dr. Okafor." in [text for *_, text in shown(anna)["april"]]
    assert anna.verify().ok


def test_forgetting_a_change_opens_what_it_had_ended(anna: UserMemory) -> None:
    """What is hidden supersedes nothing."""
    anna.forget(fact(anna, "Lille").fact_id)
    assert [(one.value, one.end) for one in anna.timeline("Anna", attribute="residence")] == [("Ghent", None)]


def test_what_is_pinned_is_among_all_evidence(anna: UserMemory) -> None:
    """Of any question, but never in the place of the best; times still filter it."""
    anna.pin(fact(anna, "ferrets").fact_id)
    found = anna.search("What is the wifi password?", top_k=2)
    assert found.evidence[0].quote == "The wifi password is marmalade77."
    assert [one.pinned for one in found] == [False, True]
    assert "ferrets" in found.evidence[1].text
    assert not [one for one in anna.search("wifi password", top_k=2, as_of="2024-03-01") if one.pinned]
    assert texts(anna.list(verdict="pinned")) == ["My brother Milo adopted two ferrets."]


def test_a_pin_goes_on_to_the_correction(anna: UserMemory) -> None:
    """What corrects a pinned statement is pinned."""
    one = fact(anna, "ferrets")
    anna.pin(one.fact_id)
    anna.update(one.fact_id, "Milo adopted three ferrets.")
    found = anna.search("What is the wifi password?", top_k=2)
    assert found.evidence[1].text == "Milo adopted three ferrets."
    assert found.evidence[1].pinned


@pytest.mark.parametrize("kind", ["update", "forget", "pin"])
def test_undo_makes_it_as_if_it_had_not_been(anna: UserMemory, kind: str) -> None:
    """Everything that is read is as it was before."""
    before, one = picture(anna), fact(anna, "Lille").fact_id
    if kind == "update":
        done = anna.update(one, "Anna lives in Bruges.")
    else:
        done = {"forget": anna.forget, "pin": anna.pin}[kind](one)
    assert picture(anna) != before
    undone = anna.undo(done.key)
    assert undone.undone is not None
    assert picture(anna) == before
    assert anna.verify().ok


def test_history_tells_all_of_it_in_order(anna: UserMemory, clock: FrozenClock) -> None:
    """Said, corrected, undone, superseded: by either id, each with the time at which the memory recorded it."""
    one = fact(anna, "Lille")
    clock.advance(days=1)
    done = anna.update(one.fact_id, "Anna lives in Bruges.")
    clock.advance(days=1)
    history = list(anna.history(one.fact_id))
    assert [entry.kind for entry in history] == ["said", "corrected"]
    assert history == list(anna.history(done.new_fact_id or ""))
    assert (history[0].quote, history[1].text) == ("I moved to Lille last week.", "Anna lives in Bruges.")
    anna.undo(done.key)
    assert [entry.kind for entry in anna.history(one.fact_id)] == ["said", "corrected", "undone"]
    ghent = [entry for entry in anna.history(fact(anna, "Ghent").fact_id) if entry.kind == "superseded"]
    assert len(ghent) == 1
    assert "Lille" in ghent[0].text
    times = [entry.at for entry in anna.history(one.fact_id)]
    assert times == sorted(times)


def test_corrections_survive_reopening_rebuild_and_a_new_reading(world: Path, folder: Path) -> None:
    """They hold for whatever is made anew from what was said."""
    with opened(world) as forest:
        memory = forest.user("anna")
        memory.update(fact(memory, "Lille").fact_id, "Anna lives in Bruges.")
        memory.forget(fact(memory, "dentist").fact_id)
        memory.pin(fact(memory, "ferrets").fact_id)
        before = picture(memory)
    with opened(world) as forest:
        memory = forest.user("anna")
        assert picture(memory) == before
        memory.rebuild()
        assert picture(memory) == before
        turns = [{"speaker": who, "timestamp": at, "content": text} for who, at, text in ANNA["april"]]
        forest.ingest_session(
            "anna", "april", [*turns, *said("I own a kiln.", start="2024-04-15T19:00:00+00:00")]
        )
        assert not holding(memory.list(), "dentist")
        assert not holding(memory.list(), "Lille")
        assert holding(memory.list(), "Bruges")
        forest.ingest_session("anna", "april", turns, replace=True)
        assert set(statements(memory)) == {text for text, *_ in before["facts"] if text}
        assert memory.verify().ok


def test_what_is_forgotten_stays_so_when_it_is_said_again(anna: UserMemory) -> None:
    """It is hidden there too, and the write that says it again warns."""
    anna.forget(fact(anna, "dentist").fact_id)
    again = anna.add(
        {"speaker": "Anna", "content": "My dentist is Dr. Okafor.", "timestamp": "2024-06-02T10:00:00Z"},
        session_id="x",
    )
    assert not holding(anna.list(), "dentist")
    assert again.warnings


def test_known_at_tells_what_was_held_before_the_correction(anna: UserMemory, clock: FrozenClock) -> None:
    """Corrections hold from when they were made until they were undone."""
    clock.advance(days=1)
    done = anna.update(fact(anna, "Lille").fact_id, "Anna lives in Bruges.")
    clock.advance(days=1)
    assert holding(anna.list(known_at="2024-06-01T13:00:00Z"), "Lille")
    assert holding(anna.list(known_at="2024-06-03"), "Bruges")
    anna.undo(done.key)
    assert holding(anna.list(), "Lille")


def test_a_correction_is_made_once(anna: UserMemory) -> None:
    """To correct, forget, pin or undo what is so already is a CorrectionError that changes nothing."""
    one, other = fact(anna, "Lille").fact_id, fact(anna, "dentist").fact_id
    done = anna.update(one, "Anna lives in Bruges.")
    anna.pin(other)
    before = picture(anna)
    calls = {
        "update": lambda: anna.update(one, "Anna lives in Metz."),
        "forget": lambda: anna.forget(one),
        "pin": lambda: anna.pin(one),
        "pin again": lambda: anna.pin(other),
    }
    assert failures({name: (call, CorrectionError) for name, call in calls.items()}) == []
    assert picture(anna) == before
    anna.undo(done.key)
    with pytest.raises(CorrectionError):
        anna.undo(done.key)


def test_of_two_updates_the_later_one_is_undone_first(anna: UserMemory) -> None:
    """One cannot be taken back while another stands on it."""
    first = anna.update(fact(anna, "Lille").fact_id, "Anna lives in Bruges.")
    second = anna.update(first.new_fact_id or "", "Anna lives in Metz.")
    assert statements(anna).count("Anna lives in Metz.") == 1
    with pytest.raises(CorrectionError):
        anna.undo(first.key)
    anna.undo(second.key)
    anna.undo(first.key)
    assert holding(anna.list(), "Lille")
    assert not holding(anna.list(), "Bruges")


def test_what_cannot_be_corrected_is_named(anna: UserMemory, forest: MemForest) -> None:
    """Unknown ids, an unknown user, an empty text, a time that ends before it begins: nothing is written."""
    before, one = picture(anna), fact(anna, "Lille").fact_id
    for unknown in (anna.forget, anna.pin, anna.undo, anna.history, forest.user("nobody").forget):
        with pytest.raises(NotFoundError):
            unknown("f1:nothing")
    with pytest.raises(NotFoundError):
        anna.update("f1:nothing", "Anna lives in Bruges.")
    for wrong in ({"text": "  "}, {}, {"valid_from": "2024-05-01", "valid_to": "2024-04-01"}):
        with pytest.raises(InputError):
            anna.update(one, **wrong)
    assert picture(anna) == before
    assert forest.list_users() == []


def test_a_corrected_statement_goes_with_its_sentence(anna: UserMemory) -> None:
    """To delete what was said, or what holds instead, deletes both."""
    for at, by_new in enumerate((False, True)):
        anna.add(said(f"My bank is Norvik{at}."), session_id=f"x{at}")
        done = anna.update(fact(anna, f"Norvik{at}").fact_id, f"Anna's bank is Zandberg{at}.")
        anna.delete((done.new_fact_id if by_new else done.fact_id) or "")
        assert anna.verify(deleted=[f"Norvik{at}", f"Zandberg{at}"]).ok
