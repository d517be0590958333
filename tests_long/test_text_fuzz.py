"""No text breaks a function that reads text: stored statements, questions, replies of models.

A reader that raises on a stored statement makes a memory unusable for good, as the statement stays. So every public
function for text is tried on random token sequences, a few hundred each here and 2,000 in `make test-long`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.fuzzing import ADAPTED, EXEMPT, needs_more, random_text, readers, text_functions
from tests_long.worlds import fast_config

from memforest import MemForest
from memforest.reading.phrases import read_statement

LONG = "MEMFOREST_SOAK_SEEDS" in os.environ
CASES = 2_000 if LONG else 400
MEMORIES = 100 if LONG else 6

READERS = readers()
QUESTIONS = (
    "Where did Ann live before Porto?", "Where does Ann live now?", "What did Ann do first?", "When did Bob move?",
    "How long has Ann worked at Acme?", "Which gym did Bob switch to last?", "¿Dónde vive Ann?", "Who is Mario's?",
)  # fmt: skip


def test_every_public_function_that_reads_text_is_tried() -> None:
    """A new one is tried as it is, or must be said how: in `ADAPTED`, or in `EXEMPT` with the reason."""
    found = dict(text_functions())
    assert len(found) > 70
    assert [place for place in EXEMPT if place not in found] == []
    assert [place for place, function in found.items() if place not in READERS and place not in EXEMPT] == []
    assert all(place in ADAPTED or not needs_more(found[place]) for place in found if place not in EXEMPT)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", READERS)
def test_no_text_breaks_a_reader(place: str) -> None:
    """Nothing is raised, whatever the text; errors that a function documents are not counted."""
    random, read = Random(place), READERS[place]
    for _ in range(CASES):
        text = random_text(random)
        try:
            read(text)
        except Exception as exc:
            raise AssertionError(f"{place}({text!r}) raised {exc!r}") from exc


@pytest.mark.parametrize("text", ["We had dinner at Mario's", "Mario's", "Ann: That red bike is Bob's"])
def test_a_statement_may_end_with_an_owner(text: str) -> None:
    """A name in 's with nothing behind it, not even a full stop, is a phrase like others."""
    (sentence,) = read_statement(text).sentences
    assert sentence.phrases[-1].end == len(sentence.text)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(MEMORIES))
def test_a_memory_of_random_turns_answers_every_question(folder: Path, seed: int) -> None:
    """What was stored never makes a question fail, whichever way the turns were stored."""
    random = Random(seed)
    with MemForest(folder, fast_config()) as forest:
        for number in range(3):
            texts = ["Mario's", *(random_text(random) for _ in range(12))]
            turns = [
                {
                    "speaker": random.choice(("Ann", "Bob", "Mario's", "José García")),
                    "text": text,
                }
                for text in texts
            ]
            forest.ingest_session("u", f"s{number}", turns, timestamp="2024-01-02", infer=number > 0)
        for question in (*QUESTIONS, *(random_text(random) or "?" for _ in range(6))):
            if question.strip() and "\0" not in question:
                forest.query("u", question).context()
                forest.ask("u", question)
        assert forest.user("u").verify().ok
        forest.user("u").timeline("Ann")
