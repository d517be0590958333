"""Who takes part: ids, roles, "I" and "you", and whose words a question finds, through ingest and search."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests_long.worlds import fast_config, rows

from memforest import MemForest
from memforest.testing import FunctionChat
from memforest.text import snowball_stem

DAY = datetime(2024, 3, 4, 9, 0, tzinfo=timezone.utc)
UUID = "3f2c9a51-77aa-41d4-9b0e-0d2b6f1c8e11"


def chat(*lines: tuple[str, str], day: int = 0, **more: Any) -> list[dict[str, Any]]:
    """Return turns of (role or name, text), a minute apart."""
    at = [DAY + timedelta(days=day, minutes=i) for i in range(len(lines))]
    roles = ("user", "assistant", "system", "tool", "developer", "function")
    return [
        {"role" if who in roles else "speaker": who, "content": text, "timestamp": when, **more}
        for (who, text), when in zip(lines, at, strict=True)
    ]


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[MemForest]:
    """A directory of memories."""
    with MemForest(tmp_path / "m", fast_config()) as made:
        yield made


def test_systems_and_tools_say_nothing_and_are_found(forest: MemForest, tmp_path: Path) -> None:
    """Their turns are stored and searched; no statement is made of them, and they take no part."""
    turns = chat(
        ("system", "You are a support agent of Acme. Refunds need a manager."),
        ("user", "I want to return the samovar."),
        ("tool", '{"status": "order 5512 delivered on 2 March", "carrier": "PolarPost"}'),
        ("assistant", "Order 5512 came on 2 March with PolarPost."),
        ("developer", "Never mention the outage."),
    )
    for infer in (True, False):
        user = f"Nadia {infer}"
        report = forest.ingest_session(user, "s", turns, infer=infer)
        reasons = [reason for _, reason in report.skipped]
        assert {"role system", "role tool", "role developer"} <= set(reasons)
        said = {one.speaker for one in forest.user(user).list()}
        assert said <= {user, "assistant"}
        found = forest.query(user, "Who has to approve refunds, a manager?").evidence[0]
        assert (found.speaker, found.quote[:11]) == ("system", "You are a s")
    assert not any(
        label in ("system", "tool", "developer")
        for file in (tmp_path / "m").glob("*.db")
        for (label,) in rows(file, "SELECT label FROM entity WHERE kind = 'participant'")
    )
    assert forest.user("Nadia True").verify().ok


def test_a_model_is_not_shown_what_nobody_says(tmp_path: Path) -> None:
    """Neither as turns to read nor as what was said before; a chunk of nothing else costs no call."""
    model = FunctionChat(local_reply)
    turns = chat(
        ("system", "Refunds need a manager."),
        ("tool", "PolarPost delivered it."),
        ("user", "I want to return the samovar."),
        ("assistant", "Order 5512 is noted."),
    )
    with MemForest(tmp_path / "m", fast_config(chat=model, chat_steps=["extract"])) as forest:
        report = forest.ingest_session("Nadia", "s", turns)
    sent = " ".join(message.content for one in model.requests for message in one.messages[1:])
    assert "samovar" in sent
    assert "manager" not in sent
    assert "PolarPost" not in sent
    assert len(model.requests) == 1
    assert [reason for _, reason in report.skipped][:2] == ["role system", "role tool"]


def test_you_are_still_the_assistant_when_a_tool_speaks(forest: MemForest) -> None:
    """A session of two with a tool in it is a dialogue of two."""
    turns = chat(
        ("user", "Your parcel arrived."), ("tool", "{}"), ("assistant", "I put your teapot into box 4.")
    )
    forest.ingest_session("Nadia", "s", turns)
    named = {one.statement: one.entities for one in forest.user("Nadia").list()}
    assert "Nadia" in named['the assistant: "I put your teapot into box 4."']


@pytest.mark.parametrize("user", [UUID, "nadia@example.org", "user_123", "48213", "9f86d081884c7d65"])
def test_an_id_is_no_subject(forest: MemForest, user: str) -> None:
    """A user who is known by an id alone is "the user" in front of what they said, and "I" in questions."""
    forest.ingest_session(user, "s", chat(("user", "I live in Turku."), ("assistant", "Nice.")))
    assert [one.statement for one in forest.user(user).list()] == ['the user: "I live in Turku."']
    plan = forest.query(user, "Where do I live?").plan
    assert (plan.asker, plan.entities) == ("user", ("user",))


def test_an_id_that_is_given_as_a_speaker_stays_in_the_store(forest: MemForest) -> None:
    """The sentence says "the user", the turn who it was; a question may use the id, the role, or "I"."""
    turns = chat((UUID, "I live in Turku."), day=0, role="user") + chat(("assistant", "Noted."), day=1)
    forest.ingest_session("shop", "s", turns)
    (fact,) = forest.user("shop").list()
    assert (fact.statement, fact.speaker) == ('the user: "I live in Turku."', UUID)
    for question in (f"Where does {UUID} live?", "Where does the customer live?", "Where do I live?"):
        assert forest.query("shop", question).plan.entities == (UUID,)


def test_two_ids_are_not_made_one(forest: MemForest) -> None:
    """Where both would be "the user", what they say is quoted with who said it."""
    forest.ingest_session(
        "group", "s", chat(("+49 170 11", "I live in Turku."), ("+49 170 22", "I live in Oulu."))
    )
    texts = sorted(one.statement for one in forest.user("group").list())
    assert texts == ['+49 170 11: "I live in Turku."', '+49 170 22: "I live in Oulu."']


def test_a_companys_we_is_the_company(forest: MemForest) -> None:
    """What an agent says "we" of is their side's, and never the customer's."""
    turns = chat(
        ("user", "We are a family of five, and we need a bigger tent."),
        ("assistant", "We ship tents within 3 days, and our warehouse is in Gdansk."),
        ("user", "Good."),
        ("assistant", "You were sent the code QX71 by us."),
    )
    forest.ingest_session("Nadia", "s", turns)
    named = {one.statement: one.entities for one in forest.user("Nadia").list()}
    theirs = 'the assistant: "We ship tents within 3 days, and our warehouse is in Gdansk."'
    assert set(named[theirs]) == {"assistant", "Gdansk"}
    assert "Nadia" in named['the assistant: "You were sent the code QX71 by us."']
    assert named['Nadia: "We are a family of five, and we need a bigger tent."'] == ("Nadia",)


SESSIONS = [
    [
        ("user", "My lower back hurts after rowing."),
        (
            "assistant",
            "For a lower back that hurts after rowing, do the cat stretch, ten times every evening.",
        ),
        ("user", "I row on Mondays with my cousin Ulla."),
        ("assistant", "Row on Mondays with a lighter damper, about three, and Ulla can count the strokes."),
    ],
    [
        ("user", "The blue kettle leaks, I want the money back on my card."),
        ("assistant", "The money for the blue kettle is on your card within six days."),
        ("user", "My new address is Torikatu 4."),
        ("assistant", "I changed the address to Torikatu 4, and added a voucher of 10 euros."),
    ],
    [
        ("user", "I need a starter for my rye bread, the old one died."),
        ("assistant", "A new starter for rye bread takes five days: equal parts of flour and water."),
        ("user", "I only have spelt flour left."),
        ("assistant", "Spelt flour works for the starter as well, with a little less water."),
    ],
]


@pytest.mark.parametrize(
    ("question", "session", "turn"),
    [
        ("What did you recommend for my lower back?", "0", "1"),
        ("What did I tell you about my lower back?", "0", "0"),
        ("What did you advise about rowing on Mondays?", "0", "3"),
        ("What did I say about rowing on Mondays?", "0", "2"),
        ("What was I promised about the blue kettle?", "1", "1"),
        ("What did I tell you about the blue kettle?", "1", "0"),
        ("What did you say about Torikatu?", "1", "3"),
        ("What did the assistant suggest for a rye bread starter?", "2", "1"),
        ("Which flour did I mention?", "2", "2"),
        ("Can you tell me what you said about spelt flour?", "2", "3"),
    ],
)
def test_who_is_asked_for_chooses_the_side(tmp_path: Path, question: str, session: str, turn: str) -> None:
    """Of two turns about the same thing, the one whose speaker is asked for comes first."""
    with MemForest(tmp_path / "m", fast_config(embedder="none")) as forest:
        for number, lines in enumerate(SESSIONS):
            forest.ingest_session("Nadia", str(number), chat(*lines, day=number))
        best = forest.query("Nadia", question, reference_date=DAY + timedelta(days=9)).evidence[0].sources[0]
        assert (best.session_id, best.turn_ids[-1]) == (session, turn)


@pytest.mark.parametrize(
    ("turns", "asker", "asked"),
    [
        (chat(("user", "Hi there."), ("assistant", "Hello."), ("Otto", "Hi.")), "Nadia", "assistant"),
        (chat(("Nadia", "Hi there."), ("Otto", "Hello.")), "Nadia", "Otto"),
        (chat(("Nadia", "Hi."), ("Otto", "Hello."), ("Ida", "Hi.")), "Nadia", None),
        (chat(("Ida", "Hi."), ("Otto", "Hello.")), None, None),
    ],
)
def test_who_i_and_you_are(
    forest: MemForest, turns: list[dict[str, Any]], asker: str | None, asked: str | None
) -> None:
    """The memory's user asks; the assistant is asked, else the only other one; of strangers nobody."""
    forest.ingest_session("Nadia", "s", turns)
    plan = forest.query("Nadia", "What did you tell me about the tent?").plan
    assert (plan.asker, plan.speakers) == (asker, (asked,) if asked else ())


def test_first_names_of_participants_are_known(forest: MemForest) -> None:
    """Also before anybody has used them; one that two people share means both, in all their sessions."""
    forest.ingest_session("g", "1", chat(("Lena Voss", "I work at the zoo."), ("Otto Brandt", "I see.")))
    assert forest.query("g", "Where does Lena work?").plan.entities == ("Lena Voss",)
    forest.ingest_session(
        "g", "2", chat(("Lena Kraft", "I work at the mint."), ("Otto Brandt", "Ah."), day=1)
    )
    plan = forest.query("g", "Where does Lena work?").plan
    assert sorted(plan.entities) == ["Lena Kraft", "Lena Voss"]
    assert forest.query("g", "Where does Otto work?").plan.entities == ("Otto Brandt",)
    texts = {one.statement for one in forest.user("g").list()}
    assert {'Lena Voss: "I work at the zoo."', 'Lena Kraft: "I work at the mint."'} <= texts


def test_a_long_address_is_no_binary_data(forest: MemForest) -> None:
    """The session is stored, and what is said beside the address is a statement."""
    link = "https://example.org/?" + "&".join(f"utm{i}=%E2%82%AC{i}" for i in range(900))
    report = forest.ingest_session("Nadia", "s", chat(("user", f"I booked this tent: {link} for June.")))
    assert not report.refused
    assert any("tent" in one.statement for one in forest.user("Nadia").list())


def test_stemmers_are_not_shared_by_threads() -> None:
    """A stemmer keeps the word that it works on, so many threads at once get what one gets."""
    words = [
        f"{stem}{end}" for stem in ("camin", "recomend", "habl") for end in ("ando", "aciones", "aste")
    ] * 40
    alone = [snowball_stem(word, "spanish") for word in words]
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append([snowball_stem(word, "spanish") for word in words]))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 6
