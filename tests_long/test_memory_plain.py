"""Results as plain values and in one line, and usage that adds up."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.models.ledger import Ledger
from memforest.plain import LINE_CHARS, MOST_LEVELS, Result, json_bytes, plain
from memforest.progress import Timer
from memforest.read.results import usage
from memforest.records import StepUsage

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=4)
    | st.datetimes()
    | st.dates()
    | st.complex_numbers()
    | st.builds(ValueError, st.text(max_size=4))
    | st.builds(np.float32, st.floats(width=32))
    | st.lists(st.floats(width=32), max_size=4).map(np.array)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@dataclass(frozen=True, repr=False)
class Shown(Result):
    """A result of two fields."""

    text: Any = ""
    found: Any = ()


def test_a_class_is_no_result_and_kinds_of_their_own_are_as_what_they_extend() -> None:
    """A dataclass itself has no values to show; subclasses of lists, dicts and texts are read as those."""

    class Text(str):
        """A text with a class of its own."""

    class Times(dict[date, list[Any]]):
        """A mapping with a class of its own."""

    assert plain([Shown, Shown("a", (1,))]) == [str(Shown), {"text": "a", "found": [1]}]
    assert plain(Times({date(2025, 1, 2): [Text("b"), date(2025, 1, 3)]})) == {
        "2025-01-02": ["b", "2025-01-03"]
    }


@given(VALUES)
def test_whatever_a_result_holds_json_takes_it(value: Any) -> None:
    """Strict JSON, which knows no NaN; and what was made plain once stays as it is."""
    made = plain(value)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert plain(made) == made


@given(VALUES)
def test_json_at_once_is_json_of_what_is_plain(value: Any) -> None:
    """Written in one pass or, where that cannot be, in two: the same values."""
    assert json.loads(json_bytes(Shown("a", value))) == plain(Shown("a", value))


def test_json_at_once_is_compact_and_in_utf_8() -> None:
    """No blanks, no escapes where none are needed, times ISO 8601, and null for what JSON has no number for."""
    when = datetime(2025, 1, 2, tzinfo=timezone.utc)
    assert json_bytes(Shown('ä"', (when, 1.5))).decode() == (
        '{"text":"ä\\"","found":["2025-01-02T00:00:00+00:00",1.5]}'
    )
    assert json_bytes(Shown(math.inf, {date(2025, 1, 2): {3}})) == b'{"text":null,"found":{"2025-01-02":[3]}}'


def test_json_at_once_of_what_is_too_deep_ends() -> None:
    """A list within itself, or within a thousand others, is cut as `plain` cuts it."""
    endless: list[Any] = []
    endless.append(endless)
    assert json.loads(json_bytes(endless)) == plain(endless)


@each(
    ("value", "made"),
    [
        (math.inf, None),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.int64(7), 7),
        (np.array([math.nan]), [None]),
        (datetime(2025, 9, 7, tzinfo=timezone.utc), "2025-09-07T00:00:00+00:00"),
        (date(2025, 9, 7), "2025-09-07"),
        (ValueError("no"), {"error": "ValueError", "message": "no"}),
        ({1: (2,)}, {"1": [2]}),
        (True, True),
        (Shown("a", (Shown(),)), {"text": "a", "found": [{"text": "", "found": []}]}),
        (Shown, str(Shown)),
    ],
)
def test_plain_forms(value: Any, made: Any) -> None:
    """What JSON has no form for gets one that can be told."""
    assert plain(value) == made
    assert type(plain(value)) is type(made)


@each("levels", [MOST_LEVELS - 1, MOST_LEVELS, MOST_LEVELS + 1, 50_000])
def test_what_lies_too_deep_is_left_out(levels: int) -> None:
    """A value of any depth is written; none costs Python its stack."""
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    written = json.dumps(plain(value))
    assert ("end" in written) == (levels <= MOST_LEVELS)


@given(st.text(), st.lists(st.integers(), max_size=5))
def test_a_result_is_one_short_line(text: str, found: list[int]) -> None:
    """It names what is there, and leaves out what is empty."""
    line = repr(Shown(text, tuple(found)))
    assert line.startswith("Shown(")
    assert len(line) <= LINE_CHARS + len("Shown()") + 1
    assert "\n" not in line
    assert ("text=" in line) == bool(text)
    assert (f"found=<{len(found)}>" in line) == bool(found)


USED = st.builds(
    StepUsage,
    calls=st.integers(1, 9),
    failures=st.integers(0, 3),
    retries=st.integers(0, 3),
    prompt_tokens=st.integers(0, 1000),
    completion_tokens=st.integers(0, 1000),
)
SPENT = st.lists(st.tuples(st.sampled_from(["extract", "judge", "embed"]), USED), max_size=5)


@given(SPENT, st.lists(SPENT, max_size=4))
def test_an_operation_and_its_parts_add_up(own: list[Any], others: list[list[Any]]) -> None:
    """What the whole spent is what its parts did and what is left for the last of them: nothing twice, nothing lost."""
    whole = Ledger(operation="ingest")
    for step, used in own:
        whole.add(step, used)
    parts = [whole.part() for _ in others]
    for part, spent in zip(parts, others, strict=True):
        for step, used in spent:
            part.add(step, used)
    left = usage(whole, {}, without=parts)
    for step, used in left.steps.items():
        assert used == sum_of(used for name, used in own if name == step)
    assert left.steps.keys() == {step for step, _ in own}
    total = left
    for part in parts:
        total = total.plus(usage(part, {}))
    assert total.steps == usage(whole, {}).steps


def sum_of(used: Any) -> StepUsage:
    """Return usages added up."""
    total = StepUsage()
    for one in used:
        total = total.plus(one)
    return total


def test_a_step_that_raises_is_timed_too() -> None:
    """Time is counted by step, as often as it comes."""
    timer = Timer()
    for _ in range(2):
        with pytest.raises(ValueError, match="no"), timer.timed("embed"):
            raise ValueError("no")
    with timer.timed("store"):
        pass
    assert timer.ms.keys() == {"embed", "store"}
    assert usage(Ledger(), timer.ms).ms == {step: round(value, 3) for step, value in timer.ms.items()}
