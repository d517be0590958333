"""The JSON in a model's text: token by token, cut anywhere, wrapped in anything, and the same as Python reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.steps.llm.parse import ALONE_CHARS, MAX_CHARS, MAX_DEPTH, Found, find_json, find_values

NAMES = {"a", "list"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(-1e9, 1e9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "list"]), VALUES, min_size=1, max_size=3)


def values(text: str) -> list[tuple[Any, str]]:
    """Return (value, state) of everything in brackets."""
    return [(found.value, found.state) for found in find_values(text)]


def found(text: str, listed: str | None = "list") -> Any:
    """Return the object that is found, or None."""
    one = find_json(text, NAMES, listed)
    return None if one is None else one.value


# -- tokens ---------------------------------------------------------------------------------------


@given(value=VALUES, indent=st.sampled_from([None, 2]), ascii_only=st.booleans())
@settings(max_examples=40)
def test_json_is_read_as_python_reads_it(value: Any, indent: int | None, ascii_only: bool) -> None:
    """Whatever the value, its layout, and whether its characters are escaped."""
    text = json.dumps([value], indent=indent, ensure_ascii=ascii_only)
    assert values(f"So: {text}.") == [([value], "whole")]


@given(value=OBJECTS, before=st.sampled_from(["", "\ufeff", "Sure: ", "<think>hm</think>", "```json\n"]))
@settings(max_examples=40)
def test_what_stands_around_an_object_does_not_change_it(value: dict[str, Any], before: str) -> None:
    """A reply that is JSON alone is read by another reader than one in prose; both find the same."""
    assert found(before + json.dumps(value)) == found(json.dumps(value))


@each(
    ("text", "value"),
    [
        ("[true, True, false, False]", [True, True, False, False]),
        ("[null, None, NaN, Infinity, -Infinity]", [None] * 5),
        ("[1, -2, 3.5, 1e3, 2E-1, 007]", [1, -2, 3.5, 1000.0, 0.2, 7]),
        ("[1e308, 12345678901234567890]", [None, 12345678901234567890]),
        ("[1e300, 9e299]", [None, 9e299]),
        (r'["\u00e9", "\"", "\\", "\n\t", "\/"]', ["é", '"', "\\", "\n\t", "/"]),
        (r'["\ud83d\ude00", "a\qb", "\u12", "c\'d"]', ["😀", r"a\qb", r"\u12", r"c\'d"]),
        ('["a\nb\tc"]', ["a\nb\tc"]),
        ("[ 1 , 2 ,\r\n\t]", [1, 2]),
        ('[{"a": 1} {"b": 2}]', [{"a": 1}, {"b": 2}]),
        ("[[1] [2]]", [[1], [2]]),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"a" \n : \t 1}', {"a": 1}),
    ],
)
def test_what_models_write_for_json_is_read(text: str, value: Any) -> None:
    """Python's words, numbers that are none or too large, unknown escapes, missing and surplus commas."""
    assert values(text) == [(value, "whole")]


@each(
    "text",
    ["[1 2]", '["a" "b"]', "[,]", "[1,,2]", '{"a"}', '{"a" 1}', '{"a":}', '{"a":,}', '{"a":1 "b":2}', "{1:2}", "{a:1}", '{,"a":1}',
     '{"a":1,,"b":2}', "[word]", "[0x10]", "[1.]", "[.5]", "[1.2.3]", "[--1]", "[+1]", "[1}", '{"a":1]', "{[]}", '{{"a":1}}', '{"a":1:2}',
     "['a']", "[undefined]", "[" + "1" * 31 + "]", "[" + "x" * 60 + "]", '{"a":(1)}', "[é]"],
)  # fmt: skip
def test_what_cannot_stand_there_breaks_the_value(text: str) -> None:
    """No other reading of it is tried, and no error escapes."""
    assert next(state for _, state in values(text)) == "broken"


@each(
    ("text", "value"),
    [
        ("[1, 2", [1]),
        ("[1, 2,", [1, 2]),
        ("[1, 2 ", [1, 2]),
        ('["a", "b', ["a"]),
        ('["a", "b"', ["a", "b"]),
        ('["a", "b\\"', ["a"]),
        ("[tru", []),
        ('{"a": 1, "b', {"a": 1}),
        ('{"a": 1, "b"', {"a": 1}),
        ('{"a": 1, "b":', {"a": 1}),
        ('{"a": 1, "b": 2', {"a": 1}),
        ('{"a": {"b": [1, {"c": 2', {"a": {"b": [1]}}),
        ('{"a": [{"b": 1}, {"b": 2, "c"', {"a": [{"b": 1}]}),
        ("[[1], [2", [[1]]),
        ("[", []),
        ("{", {}),
    ],
)
def test_a_cut_keeps_whole_members_and_whole_items(text: str, value: Any) -> None:
    """An open object keeps what it has, an open item of a list goes, and so does a scalar that may go on."""
    assert values(text) == [(value, "cut")]


def test_several_values_are_found_in_order() -> None:
    """Behind a broken one the search goes on; behind the end of the text it does not."""
    assert values('[1] x {"a": 2} [word] [3] {"b": [4') == [
        ([1], "whole"), ({"a": 2}, "whole"), ([], "broken"), ([3], "whole"), ({"b": []}, "cut")]  # fmt: skip
    assert values("nothing (here) is in brackets") == []


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1])
def test_depth_is_the_same_for_both_readers(depth: int) -> None:
    """Up to the bound a value is read, alone and in prose; beyond it neither reads it whole."""
    text = '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"
    states = [one.state if one else None for one in (find_json(text, NAMES), find_json(f"So: {text}", NAMES))]
    assert states == (["whole"] * 2 if depth == MAX_DEPTH else ["broken"] * 2)


def test_only_so_many_characters_are_read() -> None:
    """What begins within them may be cut there; what lies behind them is not found."""
    assert found(" " * MAX_CHARS + '{"a": 1}') is None
    assert found(" " * (MAX_CHARS - 8) + '{"a": 1}') == {"a": 1}
    assert found("x" * MAX_CHARS + '{"a": 1}') is None
    late = "x" * (MAX_CHARS - 10) + '{"a": 1, "list": [2]}'
    assert find_json(late, NAMES) == Found({"a": 1}, "cut")


# -- which of them is meant -----------------------------------------------------------------------


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
    ("text", "value", "state"),
    [
        ('{"a": 1} then {"a": 2}', {"a": 2}, "whole"),
        ('{"a": 1} then {"a": 2, "list": [3', {"a": 1}, "whole"),
        ('{"a": 1, "list": [3 x] {"a": 2, "b": "c', {"a": 2}, "cut"),
        ('{"a": 1} then [5]', {"a": 1}, "whole"),
        ('[5] then {"a": 1}', {"a": 1}, "whole"),
        ('[5] then {"a": 1, "b', {"a": 1}, "cut"),
        ("[5] then [6]", {"list": [6]}, "whole"),
        ("[5] then [6, 7", {"list": [5]}, "whole"),
        ('{"a": 1} then {"b": 2}', {"a": 1}, "whole"),
        ("see [1]: none", {"list": [1]}, "whole"),
    ],
)
def test_the_last_whole_object_is_meant(text: str, value: Any, state: str) -> None:
    """Else the last that was cut; any object goes before a bare list."""
    assert find_json(text, NAMES, "list") == Found(value, state)  # type: ignore[arg-type]  # one of the three


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
        ("[]" + "." * ALONE_CHARS, None),
        ("[]" + "." * (ALONE_CHARS - 2), {"list": []}),
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


def test_a_list_behind_something_broken_is_a_part_of_it() -> None:
    """A fragment must not pass for the whole reply."""
    assert found('{"list" [1, 2], "a" 3}') is None
    assert found('{"x" 1} and so {"a": 1}') == {"a": 1}
