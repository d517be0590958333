"""The JSON in a model's text: token by token, cut anywhere, wrapped in anything, and the same as Python reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.replies import MAX_CHARS, MAX_DEPTH, find_json

NAMES = {"a", "list"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(-1e9, 1e9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "list"]), VALUES, min_size=1, max_size=3)


def found(text: str, listed: str | None = "list") -> Any:
    """Return the object that is found, or None."""
    one = find_json(text, NAMES, listed)
    return None if one is None else one[0]


@given(value=VALUES, indent=st.sampled_from([None, 2]), ascii_only=st.booleans())
@settings(max_examples=40)
def test_json_is_read_as_python_reads_it(value: Any, indent: int | None, ascii_only: bool) -> None:
    """Whatever the value, its layout, and whether its characters are escaped."""
    text = json.dumps({"a": value}, indent=indent, ensure_ascii=ascii_only)
    assert find_json(f"So: {text}.", NAMES) == ({"a": value}, True)


@given(value=OBJECTS, before=st.sampled_from(["", "\ufeff", "Sure: ", "<think>hm</think>", "```json\n"]))
@settings(max_examples=40)
def test_what_stands_around_an_object_does_not_change_it(value: dict[str, Any], before: str) -> None:
    """A reply that is JSON alone is read by another reader than one in prose; both find the same."""
    assert found(before + json.dumps(value)) == found(json.dumps(value))


@each(
    ("text", "value"),
    [
        ("[true, True, false, False]", [True, True, False, False]),
        ("[null, None]", [None] * 2),
        ("[null, NaN, Infinity]", [None] * 3),
        (r'["\ud83d\ude00", None]', ["😀", None]),
        ("[1, -2, 3.5, 1e3, 2E-1]", [1, -2, 3.5, 1000.0, 0.2]),
        (r'["\u00e9", "\"", "\\", "\n\t", "\/"]', ["é", '"', "\\", "\n\t", "/"]),
        ('["a\nb\tc"]', ["a\nb\tc"]),
        ("[ 1 , 2 ,\r\n\t]", [1, 2]),
        ('[{"x": 1} {"b": 2}]', [{"x": 1}, {"b": 2}]),
        ("['it', 'is']", ["it", "is"]),
    ],
)
def test_what_models_write_for_json_is_read(text: str, value: Any) -> None:
    """Python's words and quotes, line breaks in strings, missing and surplus commas."""
    assert find_json(f'So: {{"a": {text}}}', NAMES) == ({"a": value}, True)


@each(
    ("text", "value"),
    [
        ('{"list": [1, 2', [1]),
        ('{"list": [1, 2,', [1, 2]),
        ('{"list": ["a", "b', ["a"]),
        ('{"list": ["a", "b\\"', ["a"]),
        ('{"list": [{"b": 1}, {"b": 2, "c"', [{"b": 1}]),
        ('{"list": [{"b": [1]}, {"b": [2], "c": 1', [{"b": [1]}]),
        ('{"list": [[1], [2, 3', [[1]]),
        ('{"list": [{"b": "x } y, z"}, {"b": "x } y, z', [{"b": "x } y, z"}]),
        ('[{"b": 1}, {"b": 2', [{"b": 1}]),
        ('{"list": [1], "a": "b', [1]),
        ('{"list": [1], "b', [1]),
        ('{"list": [{"b": 1', []),
    ],
)
def test_a_cut_keeps_whole_members_and_whole_items(text: str, value: Any) -> None:
    """An open object keeps what it has, an open item of a list goes, and so does a scalar that may go on."""
    assert find_json(text, NAMES, "list") == ({"list": value}, False)


@each("text", ["{", "[", '{"a', '{"a": "b', "[1", "{}", "nothing (here) is in brackets", "[sic]", ":-["])
def test_nothing_that_is_whole_is_no_reply(text: str) -> None:
    """No part of an item is taken for it."""
    assert found(text) is None


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1])
def test_depth_is_bounded(depth: int) -> None:
    """Up to the bound a value is read, alone and in prose; beyond it neither is read whole."""
    text = '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"
    assert [(find_json(one, NAMES) or ("", False))[1] for one in (text, f"So: {text}")] == [
        depth == MAX_DEPTH
    ] * 2


def test_only_so_many_characters_are_read() -> None:
    """What begins within them may be cut there; what lies behind them is not found."""
    assert found(" " * MAX_CHARS + '{"a": 1}') is None
    assert found(" " * (MAX_CHARS - 8) + '{"a": 1}') == {"a": 1}
    assert found("x" * MAX_CHARS + '{"a": 1}') is None
    late = "x" * (MAX_CHARS - 10) + '{"a": 1, "list": [2]}'
    assert find_json(late, NAMES) == ({"a": 1}, False)


@each(
    ("text", "value"),
    [
        ('{"b": 1}', None),
        ('{"x": {"a": 1}}', {"a": 1}),
        ('{"x": {"a": 1}, "y": 2}', None),
        ('{"x": {"y": {"a": 1}}}', None),
        ('{"x": [{"a": 1}]}', None),
        ('[{"a": 1}]', {"a": 1}),
        ('[{"a": 1}, {"a": 2}]', {"list": [{"a": 1}, {"a": 2}]}),
        ("[1, 2]", {"list": [1, 2]}),
        ("[]", {"list": []}),
        ('"a"', None),
        ("7", None),
        ("null", None),
    ],
)
def test_a_reply_that_is_json_is_the_object_in_it(text: str, value: Any) -> None:
    """Itself, the only member of another, the only item of a list; a bare list is the one list that is asked for."""
    assert found(text) == value


def test_a_bare_list_means_nothing_where_no_list_is_asked_for() -> None:
    """It is no reply."""
    assert found("[1, 2]", listed=None) is None
    assert found("So: [1, 2]", listed=None) is None
    assert found('[{"a": 1}]', listed=None) == {"a": 1}


@each(
    ("text", "value", "whole"),
    [
        ('{"a": 1} then {"a": 2}', {"a": 2}, True),
        ('{"a": 1} then {"a": 2, "list": [3', {"a": 1}, True),
        ('{"a": 1, "list": [3]} {"a": 2, "b": "c', {"a": 1, "list": [3]}, True),
        ('{"a": 1} then [5]', {"a": 1}, True),
        ('[5] then {"a": 1}', {"a": 1}, True),
        ('[5] then {"a": 1, "b', {"a": 1}, False),
        ("[5] then [6]", {"list": [6]}, True),
        ("[5] then [6, 7", {"list": [5]}, True),
        ('{"a": 1} then {"b": 2}', {"a": 1}, True),
        ("see [1]: none", {"list": [1]}, True),
    ],
)
def test_the_last_whole_object_is_meant(text: str, value: Any, whole: bool) -> None:
    """Else the last that was cut; any object goes before a bare list."""
    assert find_json(text, NAMES, "list") == (value, whole)


@each(
    ("text", "value"),
    [
        ("[]", {"list": []}),
        ("```json\n[ ]\n```", {"list": []}),
        ("json: []", {"list": []}),
        ("JSON []", {"list": []}),
        ("I found [] there", None),
        ("[] [1]", {"list": [1]}),
        ("[1] []", {"list": [1]}),
        ("[]" + "." * 21, None),
    ],
)
def test_an_empty_list_counts_where_it_stands_alone(text: str, value: Any) -> None:
    """With a fence or its name perhaps; in a remark it says nothing."""
    assert found(text) == value


@each(
    ("text", "value"),
    [
        ('<think>{"a": 1}</think>{"a": 2}', {"a": 2}),
        ('<think>{"a": 1}</think>', {"a": 1}),
        ('<think>x</think><think>{"a": 1}</think>{"a": 3, "b', {"a": 3}),
        ('{"a": "x</think>{\\"a\\": 2}"}', {"a": 'x</think>{"a": 2}'}),
        ('\ufeff \n{"a": "</think>"} {"b": 1}', {"a": "</think>"}),
        ('{"a": 1, "b": "</think>[5]', {"a": 1}),
    ],
)
def test_thinking_is_passed_over_unless_nothing_else_is_there(text: str, value: Any) -> None:
    """A reply that starts with its JSON thinks nothing, whatever stands in its texts."""
    assert found(text) == value
