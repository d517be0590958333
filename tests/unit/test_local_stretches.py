"""The local summariser on stretches of conversation: an answer stays with what it answers, and a figure with its thing."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest
from tests.table import each

from memforest.reading.summarise_local import MOST_JOINED, LocalSummariser
from memforest.reading.tokens import count_words
from memforest.records import SummaryRequest

NOW = datetime(2031, 5, 7, tzinfo=timezone.utc)


def stretch(*inputs: str, max_words: int = 60, kind: str = "conversation") -> str:
    """Return the summary of a stretch."""
    asked = SummaryRequest(kind, "x", NOW, NOW, inputs, max_words, summarise="every")
    return LocalSummariser().summarise_one(asked)


# What the cases Q1 to Q3 of SegTreeMem (arXiv 2606.04555, App. C.4) ask for, in talk of our own: how a thing is done, told in
# reply to a remark; a name, told in reply to a question; a month, among other pastimes.
GAME = (
    "Mila: I downloaded the sailing game that you told me about last week.\nOdd: Great! We could play it together on Friday.",
    "Mila: Lovely idea! I hope it is not too fiddly.\nOdd: Not in the least, you only need a joystick and a light touch.",
    "Mila: Perfect! Then I will go and practise.\nOdd: My sister bakes bread on Thursdays, by the way.",
)
PARROT = (
    "Bo: Look at this photo, my aunt got a parrot from the rescue station in Lagos.\nIna: Such a sweet bird! What is it called?",
    "Bo: It is called Figaro.\nIna: How old is it?",
    "Bo: Nine years, they think. My aunt feeds it mango.\nIna: I once had a canary that sang all night long.",
)
CELLO = (
    "Ana: Do you have time for yourself these days?\nTom: A little, I swim before work and read about old ships.",
    "Ana: And music?\nTom: I took up the cello again.\nAna: Wonderful! Since when?\nTom: Since March, with a teacher.",
    "Ana: I want to learn how to bake this summer.\nTom: There is a course in the community centre, it begins soon.",
)


@pytest.mark.parametrize(
    ("talk", "words", "lines"),
    [
        (
            GAME,
            45,
            [
                "I hope it is not too fiddly.",
                "Odd: Not in the least, you only need a joystick and a light touch.",
            ],
        ),
        (PARROT, 45, ["Ina: Such a sweet bird! What is it called?", "Bo: It is called Figaro."]),
        (
            CELLO,
            60,
            ["Tom: I took up the cello again.", "Ana: Since when?", "Tom: Since March, with a teacher."],
        ),
    ],
    ids=["how", "name", "month"],
)
def test_question_answer_and_figure_stay_together(
    talk: tuple[str, ...], words: int, lines: list[str]
) -> None:
    """In a stretch, and in the stretch of which it is a part; elsewhere the question is left out."""
    told = stretch(*talk, max_words=words)
    assert "\n".join(lines) in told
    assert count_words(told) <= words < sum(map(count_words, talk))
    assert "\n".join(lines) in stretch(told, "Ana: Good night!", max_words=words)
    assert "\n".join(lines) not in stretch(*talk, max_words=words, kind="session")


@each("words", range(0, 90, 3))
@each("talk", [GAME, PARROT, CELLO])
def test_nothing_is_cut_and_no_bare_answer_stands_alone(talk: tuple[str, ...], words: int) -> None:
    """Whatever room there is: whole sentences, and the answers without their questions nowhere."""
    told = stretch(*talk, max_words=words)
    assert count_words(told) <= words
    for question, answer in (
        ("too fiddly.", "Not in the least"),
        ("What is it called?", "It is called"),
        ("Since when?", "Since March"),
        ("the cello again.", "Since when?"),
    ):
        if answer in told and words >= 20:
            assert question in told
    if words >= 20:
        said = " ".join(talk)
        pieces = [line.partition(": ")[2] for line in told.splitlines()]
        assert all(f"{one}." in f"{said}." or one in said for piece in pieces for one in piece.split(". "))


@each(
    ("turns", "kept"),
    [
        ("A: Who drives?\nB: Tom.", "A: Who drives?\nB: Tom."),
        ("A: Are you allergic to nuts?\nB: Yes.", "A: Are you allergic to nuts?\nB: Yes."),
        (
            "A: ¿Cómo se llama el loro?\nB: Se llama Figaro.",
            "A: ¿Cómo se llama el loro?\nB: Se llama Figaro.",
        ),
        ("A: 猫の名前は何ですか？\nB: ミケです。", "A: 猫の名前は何ですか？\nB: ミケです。"),
        (
            "A: How was it? I was so curious!\nB: Thanks! Forty euros.",
            "A: How was it? I was so curious!\nB: Forty euros.",
        ),
        ("A: How are you?\nB: Great, thanks!", None),
        ("A: What a day!\nB: I sold the boat.", "B: I sold the boat."),
        (
            "A: Where were you?\nB: I sold the boat to a fisherman from Braga who came all the way on his bicycle today.",
            "B: I sold the boat to a fisherman from Braga who came all the way on his bicycle today.",
        ),
        ("A: I sold the boat. How are you?\nA: We sail to Faro.", "A: I sold the boat. We sail to Faro."),
    ],
)
def test_what_an_answer_takes_with_it(turns: str, kept: str | None) -> None:
    """A short answer its question, in any language; small talk, a long answer and one's own next sentence do not."""
    told = stretch(turns, "C: The harbour was closed on 4 June.")
    lines = told.splitlines()
    assert lines[-1] == "C: The harbour was closed on 4 June."
    assert "\n".join(lines[:-1]) == (kept or "")


def test_what_has_no_room_together_is_told_apart() -> None:
    """The sentences that tell something by themselves, as ever."""
    long = "Do you, with all those rehearsals and trips and the two dogs, still find time to play the cello?"
    told = stretch(f"Ana: {long}\nTom: I play it in Porto.", "Tom: I swim.", max_words=12)
    assert told == "Tom: I play it in Porto. I swim."


def test_a_chain_of_short_answers_is_bounded() -> None:
    """So that a stretch of them is still chosen from, whatever answers whatever."""
    talk = [f"{'AB'[at % 2]}: No, word{at}, why?" for at in range(60)]
    told = stretch("\n".join(talk), max_words=5 * (MOST_JOINED + 1)).splitlines()
    assert MOST_JOINED <= len(told) <= MOST_JOINED + 1
    assert talk[-1] in told


@each("unit", ["A: x? \n", "A: No, x\nB: why?\n", "?\n", "A: When?\nB: Now.\n"])
def test_a_megabyte_of_questions_does_not_hang(unit: str) -> None:
    """Linear time, of the part that is read."""
    began = time.process_time()
    told = stretch(unit * (1_000_000 // len(unit)), "Ana: I moved.")
    assert time.process_time() - began < 3.0
    assert count_words(told) <= 60
