"""REST, what bodies and paths are made of: settings as models, whole numbers, strict JSON, encoded ids."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

pytest.importorskip("fastapi")
sys.path.insert(0, str(Path(__file__).parent.parent))

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.table import each

from memforest.config import Config, Explore, Ranking, Recall
from memforest.endpoint import Budget
from memforest.errors import InputError
from memforest.memory.options import read_time
from memforest.server.rest.bodies import (
    FIRST_SECONDS,
    MOST,
    AddBody,
    SearchBody,
    encoded,
    settings_body,
)
from memforest.server.rest.routing import read_json

PLAIN = Config(embedder="none")


@each("kind", [Budget, Ranking, Recall, Explore])
def test_settings_have_the_same_fields(kind: type) -> None:
    """A model of settings has those of the class that people set, with its defaults."""
    model = settings_body(kind)
    assert list(model.model_fields) == [
        one.name for one in fields(kind) if "experimental" not in one.metadata
    ]
    assert settings_body(kind) is model


@each(
    ("body", "made"),
    [
        ({"budget": {"max_calls": 3}}, {"budget": Budget(max_calls=3)}),
        ({"budget": {}}, {"budget": Budget()}),
        ({"budget": None}, {"budget": None}),
        ({"ranking": {"rerank": 1}}, {"ranking": Ranking(rerank=1.0)}),
        ({"ranking": {"recall": {"gate": "off"}}}, {"ranking": Ranking(recall=Recall(gate="off"))}),
        ({"ranking": {"explore": {"planner": "off"}}}, {"ranking": Ranking(explore=Explore(planner="off"))}),
        ({"top_k": 4.0}, {"top_k": 4}),
        ({}, {}),
    ],
)
def test_options_become_what_the_verb_takes(body: dict[str, Any], made: dict[str, Any]) -> None:
    """Settings of the core, whole numbers as such, and nothing that was not given."""
    options = SearchBody.model_validate({"question": "Where?", **body}).options()
    assert options == {"question": "Where?", **made}


def test_experimental_settings_are_no_part_of_rest() -> None:
    """They are refused as what there is not."""
    with pytest.raises(ValidationError, match="lexical"):
        SearchBody.model_validate({"question": "Where?", "ranking": {"lexical": 1}})


@each("number", [MOST + 1, -1, "3", True, 1.5, float("inf")])
def test_numbers_that_are_no_budget(number: object) -> None:
    """Too large for a reader of JSON, negative, or none."""
    with pytest.raises(ValidationError):
        SearchBody.model_validate({"question": "Where?", "budget": {"max_calls": number}})


def test_messages_keep_what_is_theirs() -> None:
    """Further fields go on as they came, and what was not given is not there."""
    body = AddBody.model_validate({"content": [{"role": "user", "content": "Hi.", "mood": {"is": 3}}]})
    assert body.options() == {"content": [{"role": "user", "content": "Hi.", "mood": {"is": 3}}]}


@settings(max_examples=200)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_ids_come_back_from_a_path(one: str) -> None:
    """As one part of it, whatever they are made of; and none that a client takes for a step up."""
    part = encoded(one)
    assert unquote(part, errors="strict") == one
    assert part.isascii()
    assert not set(part) & set("/?#\\ ")
    assert part not in (".", "..")


@each("text", ['{"a": 1e5}', "[1, -2.5, null, true]", '"\\u00e9"', "-0"])
def test_json_is_read(text: str) -> None:
    """What RFC 8259 has."""
    read_json(text.encode())


@each(
    "text",
    ["NaN", "-Infinity", "{'a': 1}", "[1,]", "1" * 500, "", "\ufeff{}", "[" * 50_000, '[{"a": 1, "a": 1}]'],
)
def test_what_is_no_json(text: str) -> None:
    """It is refused in words that show nothing of it."""
    with pytest.raises(InputError) as found:
        read_json(text.encode(), "filters")
    assert "11111" not in str(found.value)


@each(
    "number",
    [1e8, 1_714_557_600, 1_714_557_600.25, 1_714_557_600_123, -1e8, -1_500_000_000, 1e14 - 1, FIRST_SECONDS],
)
def test_numbers_that_are_times(number: float) -> None:
    """Those of the core, which reads each as the same time."""
    body = SearchBody.model_validate({"question": "x", "as_of": number})
    assert read_time(body.as_of, PLAIN, "as_of") == read_time(number, PLAIN, "as_of")


@each("number", [0, 5, 1e8 - 1, -1e8 + 1, 1e14, FIRST_SECONDS - 1, -1e14, 1e300, True])
def test_numbers_that_are_no_times(number: float) -> None:
    """Neither here nor in the core."""
    with pytest.raises(ValidationError):
        SearchBody.model_validate({"question": "x", "as_of": number})
    with pytest.raises(InputError):
        read_time(number, PLAIN, "as_of")
