"""Filters of the facades: each operator, each mistake, and random filters against an evaluator that is written otherwise."""

from __future__ import annotations

import fnmatch
from datetime import datetime, timezone
from typing import Any

import pytest

pytest.importorskip("fastapi")

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.table import each

from memforest.errors import InputError
from memforest.integrations.openai_routes import VectorSearch
from memforest.integrations.records import Filter, fields_in, matches, read_mem0, users_of


def utc(*parts: int) -> datetime:
    """Return an instant."""
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[arg-type,misc]


RECORD: dict[str, Any] = {
    "user_id": "ann",
    "agent_id": "bot",
    "app_id": None,
    "run_id": "r1",
    "created_at": utc(2024, 5, 1),
    "updated_at": utc(2024, 5, 2),
    "categories": ["home", "food"],
    "metadata": {"n": 3, "flag": True, "name": "Lisbon", "tags": ["a", "b"], "none": None, "deep": {"k": 1}},
    "memory": "Ann likes Pasta",
    "id": "id1",
    "attributes": {"n": 3, "said": 1.5, "kind": "fact", "flag": False},
}


def read_openai(given: Any) -> Filter:
    """Return the filter in the body of a search."""
    filters = VectorSearch.model_validate({"query": "x", "filters": given}).filters
    return Filter() if filters is None else filters.read()


def asked(given: Any) -> bool:
    """Return whether the record passes."""
    return matches(read_mem0(given), RECORD)


@each(
    ("wanted", "passes"),
    [
        (None, True),
        ({}, True),
        ({"user_id": "ann"}, True),
        ({"user_id": "Ann"}, False),
        ({"user_id": {"eq": "ann"}}, True),
        ({"user_id": {"ne": "ann"}}, False),
        ({"user_id": {"in": ["bob", "ann"]}}, True),
        ({"user_id": {"in": []}}, False),
        ({"user_id": "*"}, True),
        ({"app_id": "*"}, False),
        ({"app_id": {"ne": "*"}}, True),
        ({"app_id": None}, True),
        ({"app_id": {"gt": "a"}}, False),
        ({"user_id": "ann", "agent_id": "bot"}, True),
        ({"user_id": "ann", "agent_id": "other"}, False),
        ({"created_at": {"gte": "2024-05-01"}}, True),
        ({"created_at": {"gt": "2024-05-01"}}, False),
        ({"created_at": {"gt": "2024-04-30", "lt": "2024-05-02"}}, True),
        ({"created_at": {"lte": "2024-05-01T00:00:00Z"}}, True),
        ({"created_at": {"lt": 1714521600}}, False),
        ({"created_at": {"eq": "2024-05-01T02:00:00+02:00"}}, True),
        ({"updated_at": {"lt": "2024-05-02T00:00:01Z"}}, True),
        ({"timestamp": {"in": ["2024-05-01"]}}, True),
        ({"categories": "food"}, True),
        ({"categories": "foo"}, False),
        ({"categories": {"contains": "foo"}}, True),
        ({"categories": {"contains": "FOO"}}, False),
        ({"categories": {"icontains": "FOO"}}, True),
        ({"categories": {"in": ["work", "home"]}}, True),
        ({"categories": {"ne": "home"}}, False),
        ({"categories": "*"}, True),
        ({"keywords": {"contains": "pasta"}}, False),
        ({"keywords": {"icontains": "pasta"}}, True),
        ({"memory_ids": ["id1", "id2"]}, True),
        ({"memory_ids": {"in": ["id2"]}}, False),
        ({"metadata": {"n": 3}}, True),
        ({"metadata": {"n": 3.0}}, True),
        ({"metadata": {"n": "3"}}, False),
        ({"metadata": {"n": True}}, False),
        ({"metadata": {"flag": True}}, True),
        ({"metadata": {"flag": 1}}, False),
        ({"metadata": {"n": {"gte": 3, "lt": 4}}}, True),
        ({"metadata": {"n": {"gt": "2"}}}, False),
        ({"metadata": {"flag": {"gte": 0}}}, False),
        ({"metadata": {"name": {"lt": "M"}}}, True),
        ({"metadata": {"name": {"icontains": "LIS"}}}, True),
        ({"metadata": {"tags": {"contains": "a"}}}, True),
        ({"metadata": {"tags": ["a", "b"]}}, True),
        ({"metadata": {"tags": ["b", "a"]}}, False),
        ({"metadata": {"missing": {"ne": 1}}}, True),
        ({"metadata": {"missing": "*"}}, False),
        ({"metadata": {"none": "*"}}, False),
        ({"metadata": {"none": None}}, True),
        ({"metadata": {"deep": {"k": 1}}}, True),
        ({"metadata": {"deep": {"k": 2}}}, False),
        ({"metadata": {"contains": {"n": 3, "flag": True}}}, True),
        ({"metadata": {"contains": {"n": 4}}}, False),
        ({"metadata": {"ne": {"n": 3}}}, True),
        ({"metadata": "*"}, True),
        ({"AND": [{"user_id": "ann"}, {"run_id": "r1"}]}, True),
        ({"AND": [{"user_id": "ann"}, {"run_id": "r2"}]}, False),
        ({"OR": [{"user_id": "bob"}, {"run_id": "r1"}]}, True),
        ({"NOT": [{"user_id": "bob"}, {"run_id": "r1"}]}, False),
        ({"NOT": [{"user_id": "bob"}, {"run_id": "r2"}]}, True),
        ({"NOT": {"user_id": "bob"}}, True),
        ({"AND": [{"OR": [{"user_id": "x"}, {"NOT": [{"agent_id": "x"}]}]}, {"categories": "home"}]}, True),
        ({"user_id": "ann", "NOT": [{"run_id": "r1"}]}, False),
    ],
)
def test_what_passes(wanted: Any, passes: bool) -> None:
    """Each operator on each kind of field, alone and joined."""
    assert asked(wanted) is passes


@each(
    "wrong",
    [
        [],
        "user_id",
        {"colour": "red"},
        {"user_id": {"like": "a"}},
        {"user_id": {"eq": "a", "like": "b"}},
        {"user_id": {}},
        {"user_id": {"in": "ann"}},
        {"user_id": {"in": list(range(1501))}},
        {"AND": []},
        {"OR": {}},
        {"AND": [{}]},
        {"AND": [None]},
        {"NOT": []},
        {"and": [{"user_id": "a"}]},
        {"created_at": {"gte": "no day"}},
        {"created_at": {"gte": True}},
        {"created_at": {"gte": {"a": 1}}},
        {"metadata": {}},
        {"metadata": "x"},
        {"AND": [{"user_id": "a"}] * 1000},
    ],
)
def test_mistakes_are_named(wrong: Any) -> None:
    """Each of them; none passes for a filter that lets everything pass."""
    with pytest.raises(InputError, match=r"filter|time"):
        read_mem0(wrong)


def test_depth_has_an_end() -> None:
    """A filter that is nested without end is refused before Python's stack is."""
    deep: Any = {"user_id": "a"}
    for _ in range(900):
        deep = {"AND": [deep]}
    with pytest.raises(InputError):
        read_mem0(deep)
    deep = {"type": "eq", "key": "a", "value": 1}
    for _ in range(900):
        deep = {"type": "and", "filters": [deep]}
    with pytest.raises(ValidationError, match="too large"):
        read_openai(deep)


def test_lists_have_an_end_together() -> None:
    """Each value may be compared with every memory, so that many lists are as bad as a long one."""
    half = {"metadata": {"n": {"in": list(range(700))}}}
    read_mem0({"OR": [half, half]})
    for wrong in ({"OR": [half, half, half]}, {"metadata": {"n": {"in": [0] * 1501}}}):
        with pytest.raises(InputError):
            read_mem0(wrong)
    many = {"type": "in", "key": "n", "value": [0] * 800}
    with pytest.raises(ValidationError, match="too large"):
        read_openai({"type": "or", "filters": [many, many]})


def test_messages_quote_no_values() -> None:
    """What a filter is asked for may be private."""
    with pytest.raises(InputError) as caught:
        read_mem0({"user_id": {"eq": "secret", "like": "secret"}})
    assert "secret" not in str(caught.value)


@each(
    ("wanted", "users"),
    [
        ({"user_id": "a"}, {"a"}),
        ({"user_id": {"in": ["a", "b"]}}, {"a", "b"}),
        ({"user_id": {"in": []}}, set()),
        ({"AND": [{"user_id": "a"}, {"run_id": "r"}]}, {"a"}),
        ({"AND": [{"user_id": {"in": ["a", "b"]}}, {"user_id": {"in": ["b", "c"]}}]}, {"b"}),
        ({"OR": [{"user_id": "a"}, {"user_id": "b"}]}, {"a", "b"}),
        ({"OR": [{"user_id": "a"}, {"run_id": "r"}]}, None),
        ({"NOT": [{"user_id": "a"}]}, None),
        ({"user_id": {"ne": "a"}}, None),
        ({"user_id": "*"}, None),
        ({"run_id": "r"}, None),
        (None, None),
        ({"user_id": ["a", "b"]}, {"a", "b"}),
    ],
)
def test_whose_memories_a_filter_means(wanted: Any, users: set[str] | None) -> None:
    """Only what every match has to have; never more users than the filter names."""
    found = users_of(read_mem0(wanted))
    assert found == (None if users is None else frozenset(users))


@each(
    ("wanted", "passes"),
    [
        (None, True),
        ({"type": "eq", "key": "n", "value": 3}, True),
        ({"type": "ne", "key": "n", "value": 3}, False),
        ({"type": "gt", "key": "said", "value": 1}, True),
        ({"type": "lte", "key": "said", "value": 1}, False),
        ({"type": "in", "key": "kind", "value": ["turn", "fact"]}, True),
        ({"type": "nin", "key": "kind", "value": ["turn", "fact"]}, False),
        ({"type": "nin", "key": "missing", "value": ["x"]}, True),
        ({"type": "eq", "key": "kind", "value": "*"}, False),
        ({"type": "eq", "key": "flag", "value": False}, True),
        ({"type": "and", "filters": [{"type": "eq", "key": "n", "value": 3}]}, True),
        (
            {
                "type": "or",
                "filters": [
                    {"type": "eq", "key": "n", "value": 4},
                    {"type": "and", "filters": [{"type": "gte", "key": "n", "value": 3}]},
                ],
            },
            True,
        ),
    ],
)
def test_filters_of_openai(wanted: Any, passes: bool) -> None:
    """Each type."""
    assert matches(read_openai(wanted), RECORD) is passes


@each(
    "wrong",
    [
        {},
        [],
        {"type": "eq", "key": "n"},
        {"type": "eq", "key": 3, "value": 1},
        {"type": "eq", "key": "n", "value": 1, "more": 2},
        {"type": "like", "key": "n", "value": 1},
        {"type": ["eq"], "key": "n", "value": 1},
        {"type": "in", "key": "n", "value": 1},
        {"type": "and", "filters": []},
        {"type": "and", "filters": "ab"},
        {"type": "or", "filters": [1]},
    ],
)
def test_mistakes_in_filters_of_openai(wrong: Any) -> None:
    """Each is named, and none passes for no filter."""
    with pytest.raises((InputError, ValidationError), match="filter"):
        read_openai(wrong)


WORDS = st.sampled_from(["a", "b", "ab", "B", ""])
NAMES = st.sampled_from(["user_id", "agent_id", "run_id"])


def conditions() -> st.SearchStrategy[dict[str, Any]]:
    """Return conditions that the oracle reads too."""
    texts = st.builds(
        lambda name, op, value: {name: {op: value}},
        NAMES,
        st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte", "contains", "icontains"]),
        WORDS,
    )
    several = st.builds(
        lambda name, values: {name: {"in": values}}, NAMES, st.lists(WORDS, min_size=1, max_size=3)
    )
    some = st.builds(lambda name: {name: "*"}, NAMES)
    numbers = st.builds(
        lambda op, value: {"metadata": {"n": {op: value}}},
        st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte"]),
        st.integers(-2, 2),
    )
    return st.one_of(texts, several, some, numbers)


FILTERS = st.recursive(
    conditions(),
    lambda inner: st.builds(
        lambda name, parts: {name: parts},
        st.sampled_from(["AND", "OR", "NOT"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)
RECORDS = st.fixed_dictionaries(
    {
        "user_id": st.sampled_from(["a", "b", "ab", "B"]),
        "agent_id": st.none() | WORDS,
        "run_id": st.none() | WORDS,
        "metadata": st.one_of(
            st.just({}), st.builds(lambda n: {"n": n}, st.integers(-2, 2) | st.none() | WORDS)
        ),
    }
)


def oracle(wanted: dict[str, Any], record: dict[str, Any]) -> bool:
    """Evaluate a filter straight from its JSON, as a truth table: another way than the reader's tree."""
    [(name, value)] = wanted.items()
    if name in ("AND", "OR", "NOT"):
        votes = [oracle(part, record) for part in value]
        return {"AND": all(votes), "OR": any(votes), "NOT": sum(votes) == 0}[name]
    if name == "metadata":
        name, value = "n", value["n"]
        record = record["metadata"]
    found = record.get(name)
    if value == "*":
        return found is not None
    [(op, want)] = value.items()
    if op in ("eq", "ne"):
        return (type(found) is type(want) and found == want) is (op == "eq")
    if op == "in":
        return found is not None and want.count(found) > 0
    if found is None or type(found) is not type(want):
        return False
    if op in ("contains", "icontains"):
        low = str.lower if op == "icontains" else str
        return fnmatch.fnmatchcase(low(found), f"*{low(want)}*")
    order = (found > want) - (found < want)
    return order in {"gt": (1,), "gte": (0, 1), "lt": (-1,), "lte": (-1, 0)}[op]


@given(FILTERS, RECORDS)
def test_random_filters_as_an_oracle_does(wanted: dict[str, Any], record: dict[str, Any]) -> None:
    """The two agree on every filter and record."""
    assert matches(read_mem0(wanted), record) is oracle(wanted, record)


@given(FILTERS, RECORDS)
def test_whoever_passes_is_among_the_users_meant(wanted: dict[str, Any], record: dict[str, Any]) -> None:
    """No filter finds somebody whose memory it is not looked up in."""
    read = read_mem0(wanted)
    users = users_of(read)
    if users is not None and matches(read, record):
        assert record["user_id"] in users


@given(FILTERS)
def test_fields_are_those_in_the_text(wanted: dict[str, Any]) -> None:
    """No field is overlooked, and none is invented."""
    text = repr(wanted)
    assert fields_in(read_mem0(wanted)) == {
        name for name in ("user_id", "agent_id", "run_id", "metadata") if repr(name) in text
    }
    assert fields_in(Filter()) == frozenset()
