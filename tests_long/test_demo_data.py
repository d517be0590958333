"""The demo conversation that ships with the package."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from itertools import pairwise
from typing import Any

from tests.table import each

FILE = files("memforest.data") / "demo" / "nora_and_mateo.json"
DEMO: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
TURNS: dict[tuple[str, str], dict[str, Any]] = {
    (session["session_id"], str(number)): turn
    for session in DEMO["sessions"]
    for number, turn in enumerate(session["turns"])
}
KINDS = {
    *("current", "as_of", "predecessor", "successor", "since"),
    *("corrected", "who_said", "when", "simple", "spanish", "unanswerable"),
}


def test_file_has_the_documented_keys_and_no_others() -> None:
    """A reader may rely on the format: user, title, sessions of turns, questions."""
    assert set(DEMO) == {"user", "title", "sessions", "questions"}
    for session in DEMO["sessions"]:
        assert set(session) <= {"session_id", "timestamp", "turns"}
        assert all(set(turn) == {"speaker", "text", "timestamp"} for turn in session["turns"])
    required = {"kind", "question", "reference_date", "answer", "holds", "expects"}
    for question in DEMO["questions"]:
        assert required <= set(question) <= {*required, "as_of"}


def test_conversation_has_the_promised_size_and_two_speakers() -> None:
    """14 to 18 sessions of 8 to 16 turns over about eight months, two people."""
    assert 14 <= len(DEMO["sessions"]) <= 18
    assert all(8 <= len(session["turns"]) <= 16 for session in DEMO["sessions"])
    assert {turn["speaker"] for turn in TURNS.values()} == {"Nora", "Mateo"}
    times = [datetime.fromisoformat(turn["timestamp"]) for turn in TURNS.values()]
    assert timedelta(days=210) < max(times) - min(times) < timedelta(days=270)


def test_times_are_aware_and_increase() -> None:
    """Every turn has a time with an offset, later than the turn before, over all sessions."""
    times = [datetime.fromisoformat(turn["timestamp"]) for turn in TURNS.values()]
    assert all(time.tzinfo is not None for time in times)
    assert all(one < other for one, other in pairwise(times))


def test_session_ids_are_unique() -> None:
    """No two sessions share an id, and no turn is empty."""
    ids = [session["session_id"] for session in DEMO["sessions"]]
    assert len(set(ids)) == len(ids)
    assert all(turn["text"].strip() == turn["text"] != "" for turn in TURNS.values())


def test_part_of_it_is_spanish() -> None:
    """Whole turns are in Spanish, and most are in English."""
    marks = re.compile(r"[¿¡]|\b(que|muy|el|la|los|las|un|una|y|de|en|se|lo|te|con|sin)\b", re.IGNORECASE)
    spanish = sum(len(marks.findall(turn["text"])) >= 2 for turn in TURNS.values())
    assert 15 <= spanish <= len(TURNS) // 3


@each("question", DEMO["questions"])
def test_expected_turns_exist_and_hold_the_answer(question: dict[str, Any]) -> None:
    """Each expected turn is there, was said by the reference date, and contains what it is to hold."""
    reference = datetime.fromisoformat(question["reference_date"])
    assert reference.tzinfo is not None
    assert question["kind"] in KINDS
    unanswerable = question["kind"] == "unanswerable"
    assert (question["answer"] is None) == (question["holds"] is None) == unanswerable
    assert (question["expects"] == []) == unanswerable
    for expected in question["expects"]:
        turn = TURNS[expected["session_id"], expected["turn_id"]]
        assert question["holds"].casefold() in turn["text"].casefold()
        assert datetime.fromisoformat(turn["timestamp"]) < reference


def test_questions_show_every_kind() -> None:
    """There are about 16 to 20 questions, at least one of each kind; as-of ones say of when."""
    questions = DEMO["questions"]
    assert 16 <= len(questions) <= 20
    assert {question["kind"] for question in questions} == KINDS
    assert all(("as_of" in question) == (question["kind"] == "as_of") for question in questions)
    for question in questions:
        if "as_of" in question:
            assert datetime.fromisoformat(question["as_of"]).astimezone(timezone.utc).year == 2025


def test_weekdays_named_beside_a_date_are_right() -> None:
    """A date said as "Saturday 31 May" is a Saturday in 2025, wherever a turn or an answer says so."""
    texts = [turn["text"] for turn in TURNS.values()]
    texts += [question["answer"] or "" for question in DEMO["questions"]]
    pattern = re.compile(r"\b([A-Z][a-z]+day) (\d{1,2} [A-Z][a-z]+)\b")
    found = [match.groups() for text in texts for match in pattern.finditer(text)]
    assert len(found) >= 3
    for weekday, day in found:
        moment = datetime.strptime(f"{day} 2025", "%d %B %Y").replace(tzinfo=timezone.utc)
        assert f"{moment:%A}" == weekday
