"""The ledger of an operation, against a small model of it: what is counted, reserved, refused and told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.endpoint import Budget
from memforest.errors import BudgetError, ModelRefusedError
from memforest.models.ledger import FIRST_REPLY_TOKENS, MOST_COUNTED, Ledger, counted, current_ledger, keeping
from memforest.records import StepUsage


def spend(ledger: Ledger, step: str = "extract", prompt: int = 10, reply: int = 5) -> int:
    """Make a call of so many tokens; return what was reserved for it."""
    reserved = ledger.admit(step, prompt)
    ledger.record(step, reserved, StepUsage(1, prompt_tokens=prompt, completion_tokens=reply))
    return reserved


@each(
    ("told", "kept"),
    [(0, 0), (MOST_COUNTED, MOST_COUNTED), (MOST_COUNTED + 1, 7), (-1, 7), (3.0, 3), (3.5, 7), (float("inf"), 7), (float("nan"), 7),
     (False, 7), (None, 7), ("3", 7), ([3], 7)],
)  # fmt: skip
def test_a_count_is_a_whole_number_that_can_be(told: object, kept: int) -> None:
    """Otherwise the estimate stands; what is kept is an int."""
    found = counted(told, 7)
    assert (found, type(found)) == (kept, int)


def test_a_reply_is_expected_to_be_as_long_as_those_before() -> None:
    """The first by a constant, later ones by the mean of all that came, whatever their step."""
    ledger = Ledger()
    assert spend(ledger, prompt=10, reply=90) == 10 + FIRST_REPLY_TOKENS
    assert spend(ledger, "judge", prompt=20, reply=11) == 20 + 90
    assert spend(ledger, prompt=0, reply=0) == 50
    assert spend(ledger) == 10 + 33


def test_embeddings_make_no_reply_seem_short() -> None:
    """Their calls have no completion, and are not asked in the mean."""
    ledger = Ledger()
    ledger.add("embed", StepUsage(calls=9, prompt_tokens=900))
    assert ledger.admit("extract", 1) == 1 + FIRST_REPLY_TOKENS
    assert (ledger.calls, ledger.tokens) == (1, 0)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_so_many_calls_and_no_more(most: int) -> None:
    """Those that are under way count; the one that would be too many is refused with the bound."""
    ledger = Ledger(Budget(max_calls=most))
    for _ in range(most):
        ledger.admit("extract", 1)
    with pytest.raises(BudgetError, match=f"the budget of {most} model calls is used up"):
        ledger.admit("judge", 1)
    assert (ledger.calls, ledger.refused) == (most, {"judge": 1})


def test_tokens_may_reach_their_bound_and_not_pass_it() -> None:
    """What is reserved by calls under way is taken into account, and given back when they end."""
    ledger = Ledger(Budget(max_tokens=2 * (10 + FIRST_REPLY_TOKENS)))
    first = ledger.admit("extract", 10)
    assert ledger.admit("extract", 10) == first
    with pytest.raises(BudgetError):
        ledger.admit("extract", 0)
    ledger.record("extract", first, StepUsage(1, prompt_tokens=10, completion_tokens=0))
    assert ledger.admit("extract", 200) == 200, "210 are reserved and 10 used of 420"
    with pytest.raises(BudgetError):
        ledger.admit("extract", 1)
    assert ledger.refused == {"extract": 2}


def test_a_refused_call_is_not_under_way() -> None:
    """It reserves nothing, and is no call."""
    ledger = Ledger(Budget(max_calls=1))
    spend(ledger)
    for _ in range(3):
        with pytest.raises(BudgetError):
            ledger.admit("extract", 1)
    assert (ledger.calls, ledger.most_in_flight, ledger.refused["extract"]) == (1, 1, 3)


def test_the_most_calls_at_once_are_remembered() -> None:
    """When they have ended, too."""
    ledger = Ledger()
    reserved = [ledger.admit("extract", 1) for _ in range(3)]
    for one in reserved:
        ledger.record("extract", one, StepUsage(1))
    spend(ledger)
    assert ledger.most_in_flight == 3


def test_a_stop_is_for_the_whole_operation() -> None:
    """Told by one part, every other part and the whole get the same error, whatever the budget says."""
    whole = Ledger(Budget(max_calls=0), operation="ingest")
    one, other = whole.part(), whole.part()
    error = ModelRefusedError("wrong key")
    one.stop(error)
    for ledger in (whole, one, other):
        with pytest.raises(ModelRefusedError) as caught:
            ledger.admit("extract", 1)
        assert caught.value is error
    assert (whole.refused, other.operation) == ({}, "ingest")


def test_a_warning_is_told_once_wherever_it_comes_from() -> None:
    """In the order in which they came; parts and whole show the same."""
    whole = Ledger()
    one, other = whole.part(), whole.part()
    assert [one.warn("a"), other.warn("b"), other.warn("a"), whole.warn("b")] == [True, True, False, False]
    assert one.warnings == other.warnings == whole.warnings == ["a", "b"]


def test_what_a_part_may_not_is_counted_by_the_whole() -> None:
    """A budget is the operation's; a part has none of its own, and begins nothing that is refused."""
    whole = Ledger(Budget(max_calls=1))
    one, other = whole.part(), whole.part()
    spend(one)
    with pytest.raises(BudgetError):
        spend(other)
    assert (whole.refused, other.refused, other.calls) == ({"extract": 1}, {}, 0)


STEPS = st.sampled_from(["extract", "judge", "embed"])
SPENT = st.builds(
    StepUsage, *[st.integers(0, 9)] * 7, seconds=st.sampled_from([0.0, 0.25, 2.0])
)  # fmt: skip


@given(st.lists(st.tuples(STEPS, SPENT, st.integers(0, 2))))
def test_the_whole_is_the_sum_of_its_parts(spent: list[tuple[str, StepUsage, int]]) -> None:
    """Whichever part each came from, added or recorded, in whatever order."""
    whole = Ledger()
    parts = [whole.part(), whole.part(), whole.part()]
    for at, (step, used, which) in enumerate(spent):
        if at % 2:
            parts[which].add(step, used)
        else:
            parts[which].record(step, parts[which].admit(step, 3), used)
    for step in {step for step, _, _ in spent}:
        mine = [one.steps[step] for one in parts if step in one.steps]
        for name in ("calls", "failures", "prompt_tokens", "completion_tokens", "cached_tokens", "seconds"):
            told = sum(getattr(used, name) for has, used, _ in spent if has == step)
            assert sum(getattr(one, name) for one in mine) == getattr(whole.steps[step], name) == told
    assert set(whole.steps) == {step for step, _, _ in spent}
    assert whole.tokens == sum(one.tokens for one in parts)


@given(
    most=st.integers(0, 900),
    calls=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 300)), max_size=12),
)
def test_calls_one_by_one_pass_a_budget_by_one_reply_at_most(most: int, calls: list[tuple[int, int]]) -> None:
    """A reply may be longer than expected; the next call is refused then."""
    ledger, made = Ledger(Budget(max_tokens=most)), [0]
    for prompt, reply in calls:
        with contextlib.suppress(BudgetError):
            spend(ledger, prompt=prompt, reply=reply)
            made.append(prompt + reply)
    assert ledger.tokens == sum(made)
    assert ledger.tokens - made[-1] <= most


def test_tasks_have_the_ledger_of_whoever_started_them() -> None:
    """Threads too; beside each other two operations do not mix, and afterwards there is none."""

    async def operation(ledger: Ledger) -> bool:
        with keeping(ledger):
            inner = asyncio.ensure_future(_here())
            await asyncio.sleep(0)
            return (await inner) is (await asyncio.to_thread(current_ledger)) is ledger

    async def both() -> list[bool]:
        return list(await asyncio.gather(operation(Ledger()), operation(Ledger())))

    assert asyncio.run(both()) == [True, True]
    assert current_ledger() is not current_ledger(), "one that nobody reads"


async def _here() -> Ledger:
    return current_ledger()


@pytest.mark.parametrize("leave", [lambda: None, lambda: 1 / 0])
def test_the_ledger_before_is_the_current_one_again(leave: Callable[[], object]) -> None:
    """Also when the operation within fails."""
    outer = Ledger()
    with keeping(outer):
        with contextlib.suppress(ZeroDivisionError), keeping(Ledger()) as inner:
            assert current_ledger() is inner
            leave()
        assert current_ledger() is outer
