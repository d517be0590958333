"""What a statement may not turn round: what is denied, and who says "I"."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.table import each
from tests.unit.test_llm_source import lack, source

from memforest.reading.reply_checks import split_clauses

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import model_statements

ASKED = [("Bo", "Do you smoke?"), ("Ana", "No, I gave it up. But I drink coffee."), ("Bo", "Any allergies?"), ("Ana", "Penicillin.")]  # fmt: skip
TOLD = [("Ana", "I can't come on Saturday, Bruno has a fever. I don't eat meat, fish or eggs. I refused the job in Oslo, not the flat.")]  # fmt: skip


@each(
    ("text", "turn", "missing"),
    [
        ("Ana does not smoke.", 1, None), ("Ana smokes.", 1, "a denial"), ("Ana no longer smokes.", 1, None), ("Ana drinks coffee.", 1, None),
        ("Ana does not drink coffee.", 1, "a denial"), ("Ana is allergic to penicillin.", 3, None), ("Ana is not allergic to penicillin.", 3, "a denial"),
    ],
)  # fmt: skip
def test_an_answer_is_read_with_its_question(text: str, turn: int, missing: str | None) -> None:
    """A bare "No" denies what was asked, and a bare word asserts it."""
    assert lack(text, source(*ASKED), turn=turn) == missing


@each(
    ("text", "missing"),
    [
        ("Ana cannot come on Saturday.", None), ("Ana can come on Saturday.", "a denial"), ("Bruno has a fever.", None), ("Bruno has no fever.", "a denial"),
        ("Ana does not eat fish.", None), ("Ana did not take the job in Oslo.", None), ("Ana took the job in Oslo.", None),
        ("Ana refused the job in Oslo.", None), ("Ana cannot come because Bruno has a fever.", None),
    ],
)  # fmt: skip
def test_a_denial_is_that_of_its_clause(text: str, missing: str | None) -> None:
    """What is "refused" may be put with a "not" or without."""
    assert lack(text, source(*TOLD)) == missing


@each(
    ("text", "missing"),
    [("Ana no recoge el dinero del regalo.", None), ("Edurne recoge el dinero y no el regalo.", None), ("A Ana no le gusta el turno de noche.", None), ("A Ana le gusta el turno de noche.", "a denial"), ("Ana trabaja en el puerto.", None)],
)  # fmt: skip
def test_spanish_denies_likewise(text: str, missing: str | None) -> None:
    """By its own words."""
    assert (
        lack(
            text,
            source(
                (
                    "Ana",
                    "Trabajo en el puerto, pero no me gusta el turno de noche. El dinero lo recoge Edurne, no yo.",
                )
            ),
        )
        == missing
    )


def test_an_unknown_language_is_not_judged_by_what_it_denies() -> None:
    """Its words of denial are not known."""
    assert (
        lack("Ana does not smoke.", source(("Ana", "Ana sigara içmiyor, çünkü bu çok kötü bir şey."))) is None
    )


@each(
    ("said", "text", "missing"),
    [
        ("Ana asked for a sauna three times. We don't even have one.", "The house has no sauna.", None),
        ("Ana asked for a sauna three times. We love it.", "There is no sauna for Ana.", "a denial"),
        ("I want the small boat.", "Ana wants the small boat, not a big boat.", None),
        ("We are not taking the small boat.", "Ana takes the small boat.", "a denial"),
        ("We don't smoke.", "Ana's family are non-smokers.", None),
        ("Ana should use the yard, not the front door.", "Ana should use the front door.", "a denial"),
    ],
)
def test_a_clause_goes_on_with_the_one_before_it(said: str, text: str, missing: str | None) -> None:
    """Where it has hardly a word of its own, "one" is what was spoken of; a contrast denies nothing that is said."""
    assert lack(text, source(("Ana", said))) == missing


@each(
    ("said", "text", "missing"),
    [
        ("I booked the hotel.", "Bo booked the hotel.", "who it is"), ("I booked the hotel.", "Ana booked the hotel.", None),
        ("I booked the hotel for us.", "Bo booked the hotel.", None),
        ("I booked you a hotel.", "Bo has a hotel.", None), 
        ("Bo booked the hotel, and I paid.", "Bo booked the hotel.", None), ("My sister owns the hotel.", "Bo's sister owns the hotel.", "who it is"),
        ("I paid Bo for the hotel.", "Bo was paid by Ana for the hotel.", None),
        ("The hotel is booked.", "Bo booked the hotel.", None), ("I own the hotel.", "Bo's sister owns the hotel.", "who it is"),
        ("I own the hotel.", "Bo's friends own the hotel.", "who it is"),
    ],
)  # fmt: skip
def test_what_somebody_says_of_themselves_is_not_the_others(
    said: str, text: str, missing: str | None
) -> None:
    """Unless the clause is about the other one, too, or the statement names who says it."""
    assert lack(text, source(("Bo", "Hello there!"), ("Ana", said)), turn=1) == missing


def test_a_clause_is_what_stands_between_marks_and_conjunctions() -> None:
    """Each denies by itself."""
    found = split_clauses("I don't eat meat or fish, but I cook. Not today!")
    assert found == ["I don't eat meat", "fish", "I cook", "Not today"]


def test_true_statements_are_kept_and_distorted_ones_mostly_refused() -> None:
    """Of true ones in the language of the turns at most 8% are refused; of another number, name or date at most 9% pass.

    None passes by order of a turn, or from the prompt.
    """
    cases = [
        one
        for name in model_statements.SETS
        for one in model_statements.cases(model_statements.FOLDER / f"{name}.toml")
    ]
    true = [one for one in cases if one.true and one.kind != "translated"]
    assert 100 * sum(one.reason is not None for one in true) <= 8 * len(true)
    false = [one for one in cases if not one.true]
    passed = [one for one in false if one.reason is None]
    assert 100 * len(passed) <= 32 * len(false)
    assert not {one.kind for one in passed} & {"instruction", "copied"}
    for kind in ("number", "name", "date"):
        assert 100 * sum(one.kind == kind for one in passed) <= 9 * sum(one.kind == kind for one in false)


def test_replies_that_are_wrong_on_purpose_are_refused() -> None:
    """Every right one is kept; of the wrong ones three pass that have nothing but true words."""
    cases = list(model_statements.cases(model_statements.REPLIES))
    assert [one.text for one in cases if one.true and one.reason is not None] == []
    assert sorted(one.kind for one in cases if not one.true and one.reason is None) == [
        "denial",
        "swapped",
        "wrong turn",
    ]
