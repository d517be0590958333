"""What a caller has understood is kept as if it had been said so: it ends what it replaces, and can be taken back."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.contract.talk import INDEXES, fact, failures, holding, opened, picture, said, shown, statements

from memforest import MemForest, UserMemory
from memforest.errors import CorrectionError, IdempotencyError, InputError, NotFoundError
from memforest.testing import FrozenClock

CHANGES = (
    ("residence", "I live in Leeds.", "Boxes unpacked at last, York it is.", "York"),
    ("gym", "My gym is Ironworks.", "Corehouse gets my morning sweat these days.", "Corehouse"),
    ("car", "My car is a Polo.", "The dealer took the Polo, the Fabia keys hang on the hook.", "Fabia"),
    ("dentist", "My dentist is Dr. Okafor.", "First drill by Dr. Lund, no complaints.", "Dr. Lund"),
    ("bank", "My bank is Norvik.", "Salary goes to Zandberg from here on.", "Zandberg"),
    ("phone", "My phone is a Pixel.", "The lake ate the Pixel; hello, Fairphone.", "Fairphone"),
    ("landlord", "My landlord is Mr. Pratt.", "Ms. Iqbal collects the rent after the sale.", "Ms. Iqbal"),
    ("manager", "My manager is Denise.", "Denise went over to Sales, Rajiv signs things.", "Rajiv"),
    (
        "instrument",
        "My instrument is the cello.",
        "The cello found a new home, hurdy-gurdy time.",
        "hurdy-gurdy",
    ),
    ("editor", "My editor is Kakoune.", "Deleted Kakoune, muscle memory relearns Helix.", "Helix"),
)
"""What changes, told in words that the rules read and later in words that they do not, and what holds since."""
BEFORE, AFTER = "2024-03-04T09:00:00+00:00", "2024-05-06T09:00:00+00:00"


def agent(memory: UserMemory) -> None:
    """Do what the tool's description says, for each change: add the words, search for what was so, remember what replaces it."""
    for at, (attribute, before, after, value) in enumerate(CHANGES):
        memory.add(said(before, start=BEFORE), session_id=f"old-{at}")
        memory.add(said(after, start=AFTER), session_id=f"new-{at}")
        hits = memory.search(f"What is Anna's {attribute}?", top_k=50).evidence
        was = next(one.fact_id for one in hits if one.quote == before)
        memory.remember(
            f"Anna's {attribute} is {value} now.",
            attribute=attribute,
            value=value,
            replaces=was,
            source=(f"new-{at}", "0"),
        )


def test_an_agent_keeps_ten_things_right(folder: Path) -> None:
    """By timeline, search and answer, on every index, now and as of before."""
    with opened(folder, indexes=INDEXES, embedder="minilm-l6-v2-int8") as forest:
        forest.register_user("anna", display_name="Anna")
        memory = forest.user("anna")
        wrong: list[tuple[Any, ...]] = []
        agent(memory)
        for attribute, before, _, value in CHANGES:
            old = before.removesuffix(".").split()[-1]
            line = memory.timeline("Anna", attribute=attribute)
            if [one.end for one in line] != [datetime.fromisoformat(AFTER), None] or line[1].value != value:
                wrong.append((attribute, "timeline", list(line)))
            question = f"What is Anna's {attribute}?" if attribute != "residence" else "Where does Anna live?"
            if value not in memory.search(question).evidence[0].text:
                wrong.append((attribute, "search"))
            answers = [memory.ask(question, as_of=when).answer or "" for when in ("2024-04-01", None)]
            if old not in answers[0] or value not in answers[1]:
                wrong.append((attribute, "ask", answers))
            for index in INDEXES:
                was, now = (
                    [one.text for one in memory.search(question, index=index, as_of=when, top_k=50)]
                    for when in ("2024-04-01", "2024-06-01")
                )
                if value not in now[0] or old not in was[0] or f"Anna's {attribute} is {value} now." in was:
                    wrong.append((attribute, index, now, was))
        assert wrong == []
        assert memory.verify().ok


@pytest.fixture
def leeds(anna: UserMemory) -> UserMemory:
    """Anna's memory, in which she lives in Lille, and has told in passing that it is York."""
    anna.add(said("Boxes unpacked at last, York it is.", start=AFTER), session_id="told")
    return anna


def moved(memory: UserMemory, **options: Any) -> Any:
    """Remember that Anna lives in York, as the turn says it."""
    how = {"attribute": "residence", "value": "York", "source": ("told", "0"), **options}
    return memory.remember("Anna lives in York.", replaces=fact(memory, "Lille").fact_id, **how)


def residences(memory: UserMemory) -> list[tuple[str | None, datetime | None]]:
    """Return the values of Anna's residence with their ends."""
    return [(one.value, one.end) for one in memory.timeline("Anna", attribute="residence")]


def test_it_ends_what_it_replaces(leeds: UserMemory) -> None:
    """At the time of its turn, or from when on it is so; what was said stays as it was said."""
    before = shown(leeds)
    done = moved(leeds)
    assert residences(leeds)[1:] == [("Lille", datetime.fromisoformat(AFTER)), ("York", None)]
    best = leeds.search("Where does Anna live?").evidence[0]
    assert (best.text, best.quote) == ("Anna lives in York.", "Boxes unpacked at last, York it is.")
    assert best.corrected is None
    assert shown(leeds) == before
    assert (done.kind, done.new_fact_id) == ("remember", fact(leeds, "York.").fact_id)
    leeds.undo(done.key)
    moved(leeds, since="2024-05-01")
    assert residences(leeds)[1][1] == datetime(2024, 5, 1, tzinfo=timezone.utc)
    assert leeds.verify().ok


def test_what_it_replaces_reads_as_it_was_said(leeds: UserMemory) -> None:
    """A prompt has the words of the turn and the days; nobody corrected them."""
    moved(leeds)
    [line] = [one for one in leeds.search("Where does Anna live?").context().splitlines() if "Lille" in one]
    assert 'Anna: "' in line
    assert "\\" not in line
    assert "corrected" not in line


def test_what_was_not_yet_so_is_forgotten(leeds: UserMemory) -> None:
    """Where the change came before the statement that it replaces, that was never so."""
    moved(leeds, since="2024-03-20")
    assert residences(leeds) == [("Ghent", datetime(2024, 3, 20, tzinfo=timezone.utc)), ("York", None)]


def test_the_attribute_is_that_of_what_is_replaced(leeds: UserMemory) -> None:
    """Whatever the caller calls it, or if it says none."""
    for how in ({"attribute": "home", "value": "York"}, {"attribute": None, "value": None}):
        done = moved(leeds, **how)
        assert residences(leeds)[-1][0] in ("York", "Anna lives in York.")
        leeds.undo(done.key)


def test_what_asserts_nothing_ends_too(leeds: UserMemory) -> None:
    """With the attribute that is given, and without one."""
    dulcimer = fact(leeds, "dulcimer").fact_id
    done = leeds.remember(
        "Ruth plays the oud.", about="Ruth", attribute="lesson", value="oud", replaces=dulcimer
    )
    assert [one.value for one in leeds.timeline("Ruth", attribute="lesson")][-1] == "oud"
    assert not holding(leeds.list(as_of="2024-06-02"), "dulcimer")
    leeds.undo(done.key)
    leeds.remember("Ruth takes no lessons.", replaces=dulcimer)
    assert not holding(leeds.list(as_of="2024-06-02"), "dulcimer")
    assert holding(leeds.list(as_of="2024-05-25"), "dulcimer")


def test_without_a_source_it_is_itself_what_was_said(anna: UserMemory) -> None:
    """One turn of the user, in the session of the day; nothing else is made of it."""
    done = anna.remember("Anna is allergic to walnuts.", until="2024-12-01")
    [turn] = anna.turns("live-2024-06-01-verbatim")
    assert (turn.text, turn.role) == ("Anna is allergic to walnuts.", "user")
    [one] = holding(anna.list(), "walnuts")
    assert (one.fact_id, one.end) == (done.new_fact_id, datetime(2024, 12, 1, tzinfo=timezone.utc))
    anna.add("Walnuts again.", infer=False)
    assert len(holding(anna.list(), "walnuts")) == 2
    assert anna.verify().ok


def test_undo_makes_it_as_if_it_had_not_been(leeds: UserMemory) -> None:
    """The end of what it replaced too."""
    before = picture(leeds)
    done = moved(leeds)
    assert picture(leeds) != before
    leeds.undo(done.key)
    assert picture(leeds) == before
    with pytest.raises(CorrectionError):
        leeds.undo(done.key)


def test_of_two_the_later_one_is_undone_first(leeds: UserMemory) -> None:
    """What stands on another is named by its key."""
    first = moved(leeds)
    second = leeds.remember("Anna lives in Bath.", replaces=first.new_fact_id)
    with pytest.raises(CorrectionError, match=second.key):
        leeds.undo(first.key)
    with pytest.raises(CorrectionError, match=second.new_fact_id):
        leeds.forget(first.new_fact_id or "")
    leeds.undo(second.key)
    leeds.undo(first.key)
    assert residences(leeds)[-1] == ("Lille", None)


def test_history_tells_of_it(leeds: UserMemory, clock: FrozenClock) -> None:
    """By either fact: said, remembered, undone, superseded."""
    lille = fact(leeds, "Lille").fact_id
    clock.advance(days=1)
    done = moved(leeds)
    kinds = [one.kind for one in leeds.history(lille)]
    assert kinds == ["said", "remembered", "superseded"]
    clock.advance(days=1)
    leeds.undo(done.key)
    assert [one.kind for one in leeds.history(lille)] == ["said", "remembered", "undone"]


def test_known_at_and_said_by(leeds: UserMemory, clock: FrozenClock) -> None:
    """It is held since it was remembered, and told since its turn was said."""
    clock.advance(days=1)
    moved(leeds)
    known = leeds.timeline("Anna", attribute="residence", known_at="2024-06-01T13:00:00Z")
    assert [(one.value, one.end) for one in known][1:] == [("Lille", None)]
    assert not holding(leeds.list(said_by="2024-05-01"), "York")


def test_it_survives_reopening_rebuild_and_a_new_reading(world: Path) -> None:
    """It holds for whatever is made anew, and goes with its turn."""
    with opened(world) as forest:
        memory = forest.user("anna")
        memory.add(said("Boxes unpacked at last, York it is.", start=AFTER), session_id="told")
        moved(memory)
        before = picture(memory)
    with opened(world, chunk_turns=1) as forest:
        memory = forest.user("anna")
        assert picture(memory) == before
        memory.rebuild()
        memory.rebuild(stale=True)
        assert picture(memory)["facts"] == before["facts"]
        memory.add(said("I own a kiln."), session_id="told")
        forest.ingest_session(
            "anna", "told", said("Boxes unpacked at last, York it is.", start=AFTER), replace=True
        )
        assert set(statements(memory)) == {text for text, *_ in before["facts"] if text}
        assert memory.verify().ok
        memory.delete(turn=("told", "0"))
        assert residences(memory)[-1] == ("Lille", None)
        assert memory.verify(deleted=["York"]).ok


def test_what_it_replaces_can_be_deleted(leeds: UserMemory) -> None:
    """No word of that is left, and what is so stays."""
    lille = fact(leeds, "Lille")
    moved(leeds)
    leeds.delete(turn=("april", lille.sources[0].turn_ids[0]))
    assert residences(leeds)[-1] == ("York", None)
    assert leeds.verify(deleted=["Lille"]).ok


def test_it_goes_with_export_and_merge(leeds: UserMemory, forest: MemForest, folder: Path) -> None:
    """As everything that was decided."""
    moved(leeds)
    leeds.remember("Anna is allergic to walnuts.")
    leeds.export(folder / "all.jsonl")
    copy = forest.user("copy")
    copy.import_(folder / "all.jsonl")
    assert residences(copy) == residences(leeds)
    other = forest.user("other")
    other.add("I like rain.")
    other.merge("copy", same_person=False)
    assert residences(other) == residences(leeds)
    assert holding(other.list(), "walnuts")
    assert copy.verify().ok
    assert other.verify().ok


def test_statements_come_with_messages(anna: UserMemory) -> None:
    """Nothing else is made of a message of which one is given, and a call that comes again makes none."""
    messages = [
        {"role": "user", "content": "York it is.", "id": "m1", "timestamp": AFTER},
        {"role": "assistant", "content": "How nice.", "id": "m2", "timestamp": AFTER},
    ]
    given = {"statement": "Anna lives in York.", "attribute": "residence", "value": "York", "source": "m1"}
    how: dict[str, Any] = {
        "statements": [{**given, "replaces": fact(anna, "Lille").fact_id}],
        "idempotency_key": "k",
    }
    done = anna.add(messages, **how)
    assert ("m1", "statement given") in done.skipped
    assert residences(anna)[-2:] == [("Lille", datetime.fromisoformat(AFTER)), ("York", None)]
    assert done.remembered[0].new_fact_id == fact(anna, "in York").fact_id
    before = picture(anna)
    assert anna.add(messages, **how).replayed
    assert anna.add(messages, statements=[given]).turns_added == 0
    assert picture(anna) == before
    with pytest.raises(IdempotencyError):
        anna.add(messages, statements=[given], idempotency_key="k")
    anna.undo(done.remembered[0].key)
    assert residences(anna)[-1] == ("Lille", None)


def test_bad_input_is_refused_whole(leeds: UserMemory, forest: MemForest) -> None:
    """And nothing is stored."""
    before, lille = picture(leeds), fact(leeds, "Lille").fact_id
    forgotten, dentist = fact(leeds, "ferrets").fact_id, fact(leeds, "dentist")
    key = leeds.forget(forgotten).key
    calls = {
        "empty": (lambda: leeds.remember("  "), InputError),
        "long": (lambda: leeds.remember("x" * 5000), InputError),
        "no attribute": (lambda: leeds.remember("It is York.", value="York"), InputError),
        "no value": (lambda: leeds.remember("It is York.", attribute="residence"), InputError),
        "backwards": (
            lambda: leeds.remember("It is York.", since="2024-05-02", until="2024-05-01"),
            InputError,
        ),
        "over before": (lambda: leeds.remember("It is York.", until="2024-05-01"), InputError),
        "time": (lambda: leeds.remember("It is York.", since="some day"), InputError),
        "unknown fact": (lambda: leeds.remember("It is York.", replaces="f1:no"), NotFoundError),
        "forgotten": (lambda: leeds.remember("It is York.", replaces=forgotten), CorrectionError),
        "itself": (
            lambda: leeds.remember(dentist.statement, replaces=dentist.fact_id),
            InputError,
        ),
        "unknown turn": (lambda: leeds.remember("It is York.", source=("told", "9")), NotFoundError),
        "no message": (
            lambda: leeds.add("Hm.", statements=[{"statement": "A b.", "source": "9"}]),
            InputError,
        ),
        "no statement": (lambda: leeds.add("Hm.", statements=[{"about": "Anna"}]), InputError),
        "more": (lambda: leeds.add("Hm.", statements=[{"statement": "A b.", "mood": "x"}]), InputError),
        "nobody": (lambda: forest.user("nobody").remember("A b.", replaces=lille), NotFoundError),
    }
    assert failures(calls) == []
    leeds.undo(key)
    assert picture(leeds) == before
    assert forest.list_users() == []


def test_redaction_reaches_statements(folder: Path) -> None:
    """As it does messages."""
    with opened(folder, redact_patterns=("email",)) as forest:
        memory = forest.user("anna")
        memory.remember("Ask bo@fell.example.", about="Bo", attribute="address", value="bo@fell.example")
        assert memory.verify(deleted=["bo@fell.example"]).ok


def test_add_names_what_may_have_ended(folder: Path) -> None:
    """Only where it is asked for, and by the same speaker; one call says so."""
    with opened(folder, embedder="minilm-l6-v2-int8") as forest:
        memory = forest.user("anna")
        memory.add(
            said("I use VS Code for everything.", "My sister plays chess.", start=BEFORE), session_id="a"
        )
        change = said("I uninstalled VS Code last night.", start=AFTER)
        assert memory.add(change, session_id="b").doubtful == ()
        [doubt] = memory.add(change, session_id="c", doubtful=True).doubtful
        assert doubt.text == "I use VS Code for everything."
        assert [one.session_id for one in doubt.by] == ["b", "c"]
        memory.remember("Anna uses no VS Code any more.", replaces=doubt.fact_id, source=("b", "0"))
        assert memory.add(change, session_id="d", doubtful=True).doubtful == ()
