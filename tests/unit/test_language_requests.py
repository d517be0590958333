"""Requests are kept as what was asked; questions, encouragement and offers are none."""

from __future__ import annotations

from datetime import datetime, timezone

from tests.table import each

from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, ChunkOutcome, Turn

SAID = datetime(2024, 5, 8, 13, 0, tzinfo=timezone.utc)


def extract(*lines: tuple[str, str | None, str]) -> ChunkOutcome:
    """Return what becomes of lines of (speaker, role, text)."""
    turns = tuple(Turn(str(i), name, text, SAID, i, role=role) for i, (name, role, text) in enumerate(lines))
    people = tuple(dict.fromkeys(turn.speaker for turn in turns))
    return LocalExtractor(timezone="UTC").extract_chunk(Chunk("s", 0, turns, participants=people))


def to_assistant(text: str) -> ChunkOutcome:
    """Return what becomes of a text that a user says to an assistant."""
    return extract(("Nadia", "user", text), ("assistant", "assistant", "Ok."))


def to_friend(text: str) -> ChunkOutcome:
    """Return what becomes of a text that one person says to another."""
    return extract(("Nadia", None, text), ("Otto", None, "Ok."))


@each(
    "text",
    [
        "Remember that I am allergic to cashews.",
        "Don't use exclamation marks.",
        "Do not send me newsletters.",
        "Never call me before nine.",
        "Please keep your answers short.",
        "From now on, reply in French.",
        "Call me Captain.",
        "Cancel my subscription.",
        "Could I get a refund after all?",
        "Can you deliver it to my office?",
        "Would you mind waiting until noon?",
        "Is it possible to pay by invoice?",
    ],
)
def test_a_user_asks_an_assistant(text: str) -> None:
    """The statement says who asked, and for what, in the words in which it was said."""
    (made,) = to_assistant(text).candidates
    assert made.text == f'Nadia asked: "{text}"'
    assert (made.quote, made.speaker) == (text, "Nadia")


@each(
    "text",
    [
        "Remember that I can't run on Mondays.",
        "Don't skip the cool-down.",
        "Please bring the mats.",
        "Send me the plan for next week.",
        "Could you move the session to the park?",
        "Remind me to stretch.",
    ],
)
def test_people_ask_each_other(text: str) -> None:
    """An imperative with the speaker in it, a polite one, one that forbids, and a modal with a verb of doing."""
    (made,) = to_friend(text).candidates
    assert made.text.startswith("Nadia asked: ")


@each(
    "text",
    [
        "Enjoy your run!",
        "Keep up the good work!",
        "Don't worry about it!",
        "Don't give up!",
        "Let me know how it goes!",
        "Tell me more!",
        "Take care!",
    ],
)
def test_encouragement_is_no_request(text: str) -> None:
    """Nobody asks for anything with it."""
    assert to_friend(text).candidates == ()


@each(
    "text",
    [
        "Can you tell me where my parcel is?",
        "Could you explain how the discount works?",
        "What can I do about the noise?",
        "Which plan should we take?",
        "Can you recommend a stretch for the hip?",
        "Would you like a receipt?",
        "Can you believe it?",
        "¿Puedes decirme dónde está el paquete?",
        "¿Cuándo podemos quedar?",
        "Wann können wir reden, bei euch oder bei uns?",
        "可以告诉我包裹在哪里吗？",
        "Pouvez-vous m'expliquer la facture ?",
    ],
)
def test_who_asks_for_information_asks_a_question(text: str) -> None:
    """Questions still are none of the statements."""
    outcome = to_assistant(text)
    assert outcome.candidates == ()
    assert "question" in [one.reason for one in outcome.skipped]


@each(
    ("text", "statement"),
    [
        ("Recuerda que no como pescado.", 'Nadia pidió: "Recuerda que no como pescado."'),
        ("¿Podemos cambiarlo al viernes?", 'Nadia pidió: "¿Podemos cambiarlo al viernes?"'),
        ("Llámame después de las seis.", 'Nadia pidió: "Llámame después de las seis."'),
        ("No uses emojis por favor.", 'Nadia: "No uses emojis por favor."'),
        ("Können wir das auf Freitag verschieben?", 'Nadia asked: "Können wir das auf Freitag verschieben?"'),
        ("我们能不能改到周五？", 'Nadia asked: "我们能不能改到周五？"'),
        ("Pourriez-vous annuler ma commande ?", 'Nadia asked: "Pourriez-vous annuler ma commande ?"'),
    ],
)
def test_requests_of_other_languages_are_quoted(text: str, statement: str) -> None:
    """Nothing is conjugated there, and nothing is lost."""
    (made,) = to_assistant(text).candidates
    assert made.text.startswith(statement.rstrip('"'))


def test_what_comes_before_a_request_is_kept_as_well() -> None:
    """A statement and the request behind it are two."""
    outcome = to_assistant("I'm moving to Turku in June, can you cancel my contract?")
    assert [one.text for one in outcome.candidates] == [
        'Nadia: "I\'m moving to Turku in June"',
        'Nadia asked: "can you cancel my contract?"',
    ]
    assert not outcome.skipped[:-1]
