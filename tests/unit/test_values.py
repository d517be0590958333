"""Plans, usage, ports and token estimates by themselves: what they promise of any value, and what they refuse."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError, fields
from datetime import datetime, timedelta, timezone
from itertools import pairwise, permutations
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.concurrency import all_of
from memforest.config import PORTS, is_embedder, is_reranker
from memforest.errors import ConfigError, InputError
from memforest.models import HashEmbedder
from memforest.records import (
    Chunk,
    Mention,
    OperatorKind,
    QuestionKind,
    QuestionPlan,
    Refused,
    StepUsage,
    SubQuery,
    TimeOperator,
    Turn,
)
from memforest.text import count_tokens

NOW = datetime(2024, 6, 1, tzinfo=timezone.utc)


@each("kind", get_args(QuestionKind))
def test_a_kind_names_its_operator(kind: Any) -> None:
    """Every time operator by itself, with the anchor where it is relative to one; other kinds name none."""
    found = QuestionPlan(kind=kind, anchor="the oolong").kind_operator
    if kind in ("simple", "when", "list", "sessions", "events"):
        assert found is None
        return
    assert found is not None
    assert (found.kind, found.begins, found.manner) == (kind, False, False)
    relative = kind in ("predecessor", "successor", "since", "changed_back")
    assert found.anchor == ("the oolong" if relative else "")
    without = QuestionPlan(kind=kind).kind_operator
    assert without == TimeOperator(kind)


def test_every_operator_is_a_kind_of_question() -> None:
    """A plan can name each of them."""
    assert set(get_args(OperatorKind)) < {QuestionPlan(kind=kind).kind for kind in get_args(QuestionKind)}


EDGES = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


@given(EDGES)
def test_sub_queries_are_taken_if_some_order_answers_them(edges: set[tuple[int, int]]) -> None:
    """Against all orders of five: a circle of any length is refused, everything else is kept."""
    queries = tuple(
        SubQuery(str(at), "What?", tuple(str(other) for one, other in sorted(edges) if one == at))
        for at in range(5)
    )
    possible = any(
        all(order.index(other) < order.index(one) for one, other in edges) for order in permutations(range(5))
    )
    if possible:
        assert QuestionPlan(sub_queries=queries).sub_queries == queries
        return
    with pytest.raises(InputError) as refused:
        QuestionPlan(sub_queries=queries)
    circle = str(refused.value).split(": ")[1].split(";")[0].split(" -> ")
    assert circle[0] == circle[-1]
    assert {(int(one), int(other)) for one, other in pairwise(circle)} <= edges


@each(
    ("interval", "fits"),
    [
        ((NOW, None), True),
        ((NOW, NOW + timedelta(milliseconds=1)), True),
        ((NOW, NOW), False),
        ((NOW, NOW - timedelta(1)), False),
        ((None, NOW), False),
        ((NOW.replace(tzinfo=None), None), False),
        ((NOW, NOW.replace(tzinfo=None)), False),
        ((NOW,), False),
        ((NOW, None, None), False),
        ([NOW, None], False),
        (("2024-06-01", None), False),
        ("ab", False),
    ],
)
def test_the_time_of_a_sub_query_is_two_aware_times_in_order(interval: Any, fits: bool) -> None:
    """The end may be open; anything else is refused with the id of the sub-query, before a query uses it."""
    if fits:
        assert SubQuery("q", "When?", interval=interval).interval == interval
        return
    with pytest.raises(InputError):
        SubQuery("q", "When?", interval=interval)


@each("value", [None, 3, "", " \n\u3000"])
@each("name", ["id", "text"])
def test_a_sub_query_has_an_id_and_a_text(name: str, value: Any) -> None:
    """Neither is empty, and neither is of another type."""
    with pytest.raises(InputError, match=f"a sub-query's {name} is .*; give some text"):
        SubQuery(**{"id": "q", "text": "When?", name: value})


USAGES = st.builds(StepUsage, **{one.name: st.integers(0, 99) for one in fields(StepUsage)})


@given(st.lists(USAGES, max_size=4), USAGES)
def test_usages_add_up_field_by_field(several: list[StepUsage], taken: StepUsage) -> None:
    """The order does not matter, nothing is left out, and taking a part off leaves the rest."""
    total = StepUsage()
    for one in several:
        total = total.plus(one)
    for field in fields(StepUsage):
        assert getattr(total, field.name) == sum(getattr(one, field.name) for one in several)
    assert total.plus(taken).minus(taken) == total
    assert taken.minus(taken) == StepUsage()


def test_values_do_not_change() -> None:
    """What passes between rooms is frozen; a turn without metadata shares an empty mapping that nobody can write."""
    turn = Turn("t", "Ann", "Hello.", NOW, 0)
    for value, name in ((turn, "text"), (Chunk("s", 0, (turn,)), "turns"), (Mention("Ann"), "name")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, "")
    with pytest.raises(TypeError):
        turn.metadata["a"] = 1  # type: ignore[index]
    assert str(Refused(3, "t3", "has no text; give some")) == "turn 3 has no text; give some"


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_part_never_has_more_tokens_than_the_whole(one: str, other: str) -> None:
    """Two texts together have at most what they have apart, and less by one at most: a budget can be kept line by line."""
    together, apart = count_tokens(one + other), count_tokens(one) + count_tokens(other)
    assert max(count_tokens(one), count_tokens(other)) <= together <= apart <= together + 1
    assert count_tokens(one) <= len(one) <= 4 * count_tokens(one)


class Half:
    """It has a part of every port, and no port whole."""

    model_id = "half"
    name = "half"


@each("name", PORTS)
def test_a_port_says_what_it_takes(name: str) -> None:
    """Half a port, a class and a number are refused with all that would do; nothing at all is taken."""
    port = PORTS[name]
    port.check(name, None)
    wrongs: list[Any] = [Half(), 3, [], {"model": "sk-secret"}]
    for wrong in wrongs:
        assert not port.fits(wrong)
        with pytest.raises(
            ConfigError, match=rf"^Config\({name}=\.\.\.\) takes .*the {port.kind} port\) or None; "
        ) as no:
            port.check(name, wrong)
        assert "sk-secret" not in str(no.value)
        assert all(need in str(no.value) for need in port.needs)
        assert port.names in str(no.value)
        assert port.function in str(no.value)
    with pytest.raises(
        ConfigError, match=rf"Config\({name}=\.\.\.\) takes an object, not a class; write Half\(\.\.\.\)"
    ):
        port.check(name, Half)


@each(
    ("name", "given", "shown"),
    [
        ("chat", "gpt-4o-mini", "write Config(chat=ChatEndpoint(model='gpt-4o-mini'))"),
        ("chat", "org/model:1.5", "ChatEndpoint(model='org/model:1.5'))"),
        ("chat", "sk-abc123", "ChatEndpoint(model='gpt-4o'))"),
        ("chat", "my secret key", "ChatEndpoint(model='gpt-4o'))"),
        ("extractor", "m", "Config(chat=ChatEndpoint(model='m'), chat_steps=['extract'])"),
        ("summariser", "m", "chat_steps=['summarise'])"),
        ("answerer", "m", "chat_steps=['answer'])"),
        ("planner", "m", "not a str"),
        ("embedder", 3, "not an int"),
    ],
)
def test_what_to_write_instead(name: str, given: Any, shown: str) -> None:
    """A model's name is taken up in the message; what may be a key is not."""
    with pytest.raises(ConfigError) as refused:
        PORTS[name].check(name, given)
    assert str(refused.value).endswith(shown)


def test_what_fits_a_port_is_taken() -> None:
    """An object with the attributes, a name or a function where one will do; a class has the attributes of none."""
    for name, values in {
        "embedder": (HashEmbedder(8), "minilm", lambda texts: texts),
        "reranker": ("local", lambda question, texts: texts),
    }.items():
        for value in values:
            PORTS[name].check(name, value)
    assert is_embedder(HashEmbedder(8))
    assert not is_embedder(HashEmbedder)
    assert not is_reranker(HashEmbedder(8))
    with pytest.raises(ConfigError, match="takes"):
        PORTS["chat"].check("chat", lambda request: request)


def test_the_first_error_comes_out_and_late_ones_are_not_lost_in_a_log() -> None:
    """A job that fails while it is cancelled hides neither the first error nor itself behind the caller's back."""
    told: list[str] = []

    async def first() -> None:
        await asyncio.sleep(0)
        raise ValueError("the first")

    async def stubborn() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append("cleaned up")
            raise KeyError("late") from None

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
        with pytest.raises(ValueError, match="the first"):
            await all_of([stubborn(), first(), stubborn()])
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert told == ["cleaned up"] * 2
