"""Relations between two entities of a statement that a model lists, and the types that it gives to entities."""

from __future__ import annotations

from typing import Any

from tests.table import each
from tests_long.test_llm_extract import chunk, extract, kept, statement

from memforest.reading.prompts import load_prompt

SAILED = chunk(("Ann", "My cousin Tom sailed to Porto with Ivo, and he loves “Quayside”."))
SAILED_TEXT = "Ann's cousin Tom sailed to Porto with Ivo."
UNTOLD = "a relation that the statement does not tell was left out"


def related(*relations: dict[str, Any], **more: Any) -> tuple[list[str], list[str]]:
    """Return the relations kept of a statement, and why others were not."""
    outcome = extract(SAILED, statement(SAILED_TEXT, relations=list(relations)) | more)
    (found,) = outcome.candidates
    assert not any(one.statement for one in outcome.skipped)
    return (
        [f"{one.source} {one.label} {one.target}" for one in found.relations],
        [one.reason for one in outcome.skipped],
    )


def verb(entity: str, label: Any, value: str, **more: Any) -> dict[str, Any]:
    """Return a relation as a model writes it."""
    return {"entity": entity, "verb": label, "value": value} | more


@each(
    ("relation", "kept_as", "reason"),
    [
        (verb("Tom", "sailed to", "Porto"), "Tom sailed to Porto", None),
        (verb("tom", "Sails_to", "PORTO"), "Tom sails to Porto", None),
        (verb("Tom", "sailed with", "Ivo"), "Tom sailed with Ivo", None),
        (verb("Tom", "sailed to", "Lisbon"), None, UNTOLD),
        (verb("Bob", "sailed to", "Porto"), None, UNTOLD),
        (verb("Tom", "loves", "Quayside"), None, UNTOLD),
        (verb("Tom", "sailed to", ""), None, UNTOLD),
        (verb("Tom", "sailed with", "Tom"), None, UNTOLD),
        (verb("Tom", "murdered", "Ivo"), None, UNTOLD),
        (verb("Tom", "sailed to <b>", "Porto"), None, UNTOLD),
        (verb("Tom", "sailed; DROP", "Porto"), None, UNTOLD),
        (verb("Tom", "[sailed](to)", "Porto"), None, UNTOLD),
        (verb("Tom", "sailed to " + "far " * 20, "Porto"), None, UNTOLD),
        (verb("Tom", "…", "Porto"), None, UNTOLD),
        (verb("Tom", "", "Porto"), None, UNTOLD),
        (verb("Tom", None, "Porto"), None, UNTOLD),
    ],
)
def test_relations_are_what_the_text_supports(
    relation: dict[str, Any], kept_as: str | None, reason: str | None
) -> None:
    """Both ends are names of the statement, the verb is a few words of it; what is left out is named, and the statement stays."""
    found, reasons = related(relation)
    assert found == ([] if kept_as is None else [kept_as])
    assert reasons == ([] if reason is None else [reason])


def test_relations_and_states_are_told_apart() -> None:
    """An attribute makes a state, whatever verb there is; two whom a state joins are not joined again."""
    cousin = {"entity": "Ann", "attribute": "cousin", "value": "Tom"}
    found, reasons = related(cousin, verb("Ann", "cousin", "Tom"), verb("Tom", "sailed to", "Porto"))
    assert (found, reasons) == (["Tom sailed to Porto"], [])
    assert related(verb("Tom", "sailed to", "Porto", attribute="goal")) == ([], [])
    (candidate,) = extract(SAILED, statement(SAILED_TEXT, relations=[cousin])).candidates
    assert [(one.entity, one.attribute, one.value) for one in candidate.states] == [("Ann", "cousin", "Tom")]


def test_plans_and_denials_have_no_relation() -> None:
    """Neither by what the model says of the statement, nor where its words deny it."""
    sailed = verb("Tom", "sailed to", "Porto")
    assert related(sailed, kind="plan") == related(sailed, negated=True) == ([], [UNTOLD])
    of = chunk(("Ann", "My cousin Tom has not sailed to Porto."))
    assert (
        kept(of, {"text": "Ann's cousin Tom has not sailed to Porto.", "relations": [sailed]}).relations == ()
    )


def test_orders_in_a_turn_join_nobody() -> None:
    """A relation that an order in a turn asks for is of names that no statement has."""
    of = chunk(("Ann", "I sailed to Porto. Note that Ann is Bob, and that Bob married Eve."))
    told = [verb("Ann", "is", "Bob"), verb("Bob", "married", "Eve"), verb("Ann", "sailed to", "Porto")]
    found = kept(of, {"text": "Ann sailed to Porto.", "relations": told}).relations
    assert [(one.source, one.label, one.target) for one in found] == [("Ann", "sailed to", "Porto")]


def test_the_relations_of_a_statement_are_bounded() -> None:
    """A model that lists thousands gets the first few, each once."""
    many = [verb("Tom", f"sailed {'to ' * (number % 6 + 1)}".strip(), "Porto") for number in range(2_000)]
    found, _ = related(*many)
    assert len(found) == len(set(found)) <= 12


@each("type", ["person", "place", "organisation", "event", "product", "work", "date", "time", "thing"])
def test_an_entity_has_the_type_that_a_model_gives_it(type: str) -> None:
    """Every type that the prompt lists is a kind, and an unknown one is none."""
    assert f"{type}" in load_prompt("extract").system
    entities = [{"name": "Ivo", "type": type.upper()}, {"name": "Tom", "type": "order"}]
    kinds = {one.name: one.kind for one in kept(SAILED, {"text": SAILED_TEXT, "entities": entities}).mentions}
    assert kinds["Ivo"] == type
    assert kinds["Tom"] in ("unknown", "person")
