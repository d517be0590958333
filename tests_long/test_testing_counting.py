"""The chat double that counts: calls by prompt, repairs, and how many are under way at once."""

from __future__ import annotations

import asyncio

import pytest
from tests.doubles import CountingChat, prompt_of
from tests.doubles.replies import all_prompts
from tests.table import each
from tests_long.scripted import run

from memforest.errors import ModelUnavailableError, ReplyError
from memforest.models.calls import Calls
from memforest.ports import ChatRequest, Message
from memforest.reading.prompts import ask, load_prompt
from memforest.reading.steps_llm import ChatJudge
from memforest.records import Equivalence
from memforest.text import count_tokens


@each("prompt", all_prompts())
def test_every_prompt_is_known_by_its_first_message(prompt: object) -> None:
    """As a `ChatRequest` and as the body of a request."""
    first: str = prompt.first.content  # type: ignore[attr-defined]
    id: str = prompt.id  # type: ignore[attr-defined]
    assert prompt_of(ChatRequest("any", (Message("system", first),))) == id
    assert prompt_of({"messages": [{"role": "system", "content": first}]}) == id
    assert prompt_of({"messages": [{"role": "system", "content": first + " "}]}) is None


def test_another_request_has_no_prompt() -> None:
    """It is counted by its step."""
    assert prompt_of(ChatRequest("extract", ())) is None
    chat = CountingChat(lambda request: "yes")
    assert run(chat.complete(ChatRequest("extract", (Message("user", "?"),)))).text == "yes"
    assert dict(chat.calls) == {"extract": 1}


def test_calls_are_counted_by_prompt() -> None:
    """Answered by local rules, with tokens, and no repair."""
    chat = CountingChat()
    run(ChatJudge(Calls(chat)).judge([Equivalence("Ann sails.", ("Ann sails.",))]))
    assert dict(chat.calls) == {"judge": 1}
    assert chat.repairs.total() == 0
    request = ChatRequest("judge", (Message("system", "one two three"),))
    said = run(chat.complete(request))
    assert (said.prompt_tokens, said.completion_tokens) == (
        count_tokens("one two three"),
        count_tokens(said.text),
    )


def test_repairs_are_calls_that_ask_again() -> None:
    """Both tries count, the second as a repair."""
    chat = CountingChat(lambda request: "no JSON")
    with pytest.raises(ReplyError):
        run(ask(Calls(chat), load_prompt("judge"), {"questions": []}, max_tokens=9))
    assert (dict(chat.calls), dict(chat.repairs)) == ({"judge": 2}, {"judge": 1})


def test_a_function_may_fail() -> None:
    """The call is counted, and is under way no more."""

    def gone(request: ChatRequest) -> str:
        raise ModelUnavailableError("gone")

    chat = CountingChat(gone)
    for _ in range(2):
        with pytest.raises(ModelUnavailableError):
            run(chat.complete(ChatRequest("judge", ())))
    assert (chat.calls["judge"], chat.most_in_flight) == (2, 1)


@pytest.mark.parametrize("in_flight", [1, 3, 8])
def test_how_many_are_under_way_is_seen(in_flight: int) -> None:
    """As many as the way to the model lets through; each takes its time."""
    chat = CountingChat(lambda request: "{}", delay_s=0.01)
    calls = Calls(chat, max_in_flight=in_flight)

    async def all_at_once() -> float:
        begun = asyncio.get_running_loop().time()
        await asyncio.gather(*(calls.complete(ChatRequest("judge", ())) for _ in range(8)))
        return asyncio.get_running_loop().time() - begun

    assert run(all_at_once()) >= 0.009 * 8 / in_flight
    assert chat.most_in_flight == in_flight
