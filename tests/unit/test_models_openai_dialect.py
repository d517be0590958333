"""What a server's complaint makes of a request: which field is put in other words, and when it is left alone."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.endpoint import ChatEndpoint
from memforest.models.openai import Dialect, is_about_length, strict
from memforest.ports import ChatRequest, Message

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}
FIRST = Dialect("schema", "max_tokens")


def body(
    dialect: Dialect = FIRST,
    schema: Any = SCHEMA,
    *,
    said: str = "hello",
    is_strict: bool = True,
    **settings: Any,
) -> dict[str, Any]:
    """Return the body of a request."""
    messages = (Message("system", "be brief"), Message("user", said))
    return dialect.body(
        ChatEndpoint("m", **settings), ChatRequest("extract", messages, schema, 64, strict=is_strict)
    )


@pytest.mark.parametrize("form", ["schema", "json", "text"])
def test_each_form_asks_for_json_in_its_way(form: Literal["schema", "json", "text"]) -> None:
    """By a schema, by its type, or by words alone; words stand behind the last message, and the first stays the same."""
    made = body(Dialect(form, "max_tokens"))
    asked = made.get("response_format")
    assert (None if asked is None else asked["type"]) == {
        "schema": "json_schema",
        "json": "json_object",
        "text": None,
    }[form]
    first, last = (one["content"] for one in made["messages"])
    assert first == "be brief"
    assert (json.dumps(SCHEMA, separators=(",", ":")) in last) == (form != "schema")
    assert last.startswith("hello")
    assert body(Dialect(form, "max_tokens"), None)["messages"][1]["content"] == "hello"
    assert "response_format" not in body(Dialect(form, "max_tokens"), None)


def test_a_schema_is_named_after_its_step_and_strict_where_the_step_is() -> None:
    """A lax one goes as it is."""
    asked = body()["response_format"]["json_schema"]
    assert (asked["name"], asked["strict"], asked["schema"]) == ("extract", True, strict(SCHEMA))
    lax = body(is_strict=False)["response_format"]["json_schema"]
    assert (lax["strict"], lax["schema"]) == (False, SCHEMA)


@each(
    ("settings", "changed", "sent"),
    [
        ({}, {}, {"max_tokens": 64, "temperature": 0.0}),
        ({"temperature": 0.7}, {}, {"max_tokens": 64, "temperature": 0.7}),
        ({"temperature": None}, {}, {"max_tokens": 64}),
        ({}, {"temperature": False}, {"max_tokens": 64}),
        ({"max_reply_tokens": 9}, {}, {"max_tokens": 9, "temperature": 0.0}),
        ({}, {"bound": "max_completion_tokens"}, {"max_completion_tokens": 64, "temperature": 0.0}),
    ],
)
def test_bounds_and_temperature_are_sent_as_they_are_set(
    settings: dict[str, Any], changed: dict[str, Any], sent: dict[str, Any]
) -> None:
    """A bound of the endpoint goes before that of the step; what the model does not take is not sent."""
    made = body(Dialect(**{"form": "text", "bound": "max_tokens", **changed}), None, **settings)
    assert {name: made[name] for name in made if name not in ("model", "messages")} == sent


def test_half_a_character_is_replaced() -> None:
    """It could not be sent."""
    assert body(None or FIRST, None, said="a\ud83db")["messages"][1]["content"] == "a?b"


ABOUT_LENGTH = "this model's maximum context length is 8192 tokens; temperature is not supported"


@each(
    ("complaint", "changed"),
    [
        ("temperature is not supported", {"temperature": False}),
        ("unknown field: temperature", {"temperature": False}),
        ("temperature must be below 2", None),
        ("no temperatures are supported", None),
        (ABOUT_LENGTH, None),
        ("unsupported parameter: max_tokens", {"bound": "max_completion_tokens", "swapped": True}),
        ("max_tokens must be at least 1", None),
        ("my_max_tokens is unknown", None),
        ("response_format is not available", {"form": "json"}),
        ("invalid json_schema", {"form": "json"}),
        ("grammar error", {"form": "json"}),
        ("no such model", None),
        ("", None),
    ],
)
def test_a_complaint_changes_what_it_is_about(complaint: str, changed: dict[str, Any] | None) -> None:
    """One thing at a time; a value that is wrong, and a text that is too long, are the caller's."""
    found = FIRST.without(complaint, body(), may_reform=True)
    expected = None if changed is None else Dialect(**{"form": "schema", "bound": "max_tokens", **changed})
    assert found == expected


def test_what_was_not_sent_is_not_complained_of() -> None:
    """A temperature that was left out, a form that was not asked for or may not change, a bound that was swapped."""
    bare = body(Dialect("text", "max_tokens", temperature=False), None)
    assert FIRST.without("temperature is not supported", bare, may_reform=True) is None
    assert FIRST.without("response_format is unknown", bare, may_reform=True) is None
    assert FIRST.without("response_format is unknown", body(), may_reform=False) is None
    swapped = Dialect("schema", "max_completion_tokens", swapped=True)
    assert swapped.without("unknown field max_completion_tokens", body(swapped), may_reform=True) is None


@given(
    st.lists(
        st.sampled_from(
            [
                "temperature unknown",
                "max_tokens unknown",
                "max_completion_tokens unknown",
                "response_format unknown",
            ]
        ),
        max_size=12,
    )
)
@settings(max_examples=40)
def test_changing_the_dialect_comes_to_an_end(complaints: list[str]) -> None:
    """Whatever a server complains of, and however often: at most four changes, none of them back."""
    dialect, seen = FIRST, {FIRST}
    for complaint in complaints:
        other = dialect.without(complaint, body(dialect), may_reform=True)
        if other is not None:
            assert other not in seen
            seen.add(other)
            dialect = other
    assert len(seen) <= 5


@each(
    ("complaint", "long"),
    [
        ("this model's maximum context length is 8192 tokens", True), ("input is too long", True), ("prompt exceeds the context window", True),
        ("too many tokens", True), ("the input has too large a size", True), ("request exceeds 4096 tokens", True), ("token limit reached", True),
        ("maximum number of tokens is 5", True), ("no such field", False), ("", False),
    ],
)  # fmt: skip
def test_a_complaint_about_length_is_known(complaint: str, long: bool) -> None:
    """By the words that servers have for it."""
    assert is_about_length(complaint) is long


@each(
    ("schema", "made"),
    [
        ({"type": "integer", "default": 1}, {"type": "integer"}),
        ({"enum": [{"default": 1}]}, {"enum": [{"default": 1}]}),
        ({"const": {"default": 1}}, {"const": {"default": 1}}),
        ({"properties": {}}, {"properties": {}, "required": [], "additionalProperties": False}),
        ({"properties": 7}, {"properties": 7}),
        ({"anyOf": [{"default": None, "type": "null"}]}, {"anyOf": [{"type": "null"}]}),
        ({"definitions": {"default": {"type": "null"}}}, {"definitions": {"default": {"type": "null"}}}),
        (True, True),
        ([], []),
    ],
)
def test_defaults_go_and_names_and_values_stay(schema: Any, made: Any) -> None:
    """What is called "default" is one where it is a keyword; values are not looked into."""
    assert strict(schema) == made


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["properties", "items", "default", "$defs", "enum", "required", "a"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=8,
    )
)
@settings(max_examples=40)
def test_a_strict_schema_is_strict_already(schema: Any) -> None:
    """Once more changes nothing, whatever it is, and what was handed in stays as it was."""
    before = json.dumps(schema)
    made = strict(schema)
    assert strict(made) == made
    assert json.dumps(schema) == before
