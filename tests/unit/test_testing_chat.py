from __future__ import annotations

import asyncio

import pytest

from memforest.errors import ConfigError, ModelError, ModelUnavailableError
from memforest.ports import ChatModel, ChatReply, ChatRequest, Message
from memforest.testing import FunctionChat, ScriptedChat


def ask(chat: ChatModel, step: str = "extract", text: str = "hi") -> ChatReply:
    """Send one request."""
    return asyncio.run(chat.complete(ChatRequest(step, (Message("user", text),))))


def test_a_script_is_followed_in_order() -> None:
    """Texts and replies are returned and errors raised as they stand, and requests are kept."""
    whole = ChatReply("two", prompt_tokens=7, finish="length")
    chat = ScriptedChat(["one", whole, ModelUnavailableError("away", status=503)])
    assert ask(chat, text="first").text == "one"
    assert ask(chat) is whole
    with pytest.raises(ModelUnavailableError, match="away"):
        ask(chat)
    assert [request.messages[0].content for request in chat.requests] == ["first", "hi", "hi"]
    assert chat.left == 0


def test_a_script_that_runs_out_fails_the_test() -> None:
    """The error names the call and its step, and is none that a step would take for the model's."""
    chat = ScriptedChat(["one"])
    ask(chat)
    with pytest.raises(ConfigError) as caught:
        ask(chat, "judge")
    assert not isinstance(caught.value, ModelError)


def test_a_script_per_step() -> None:
    """Every step follows its own script; a step without one has no reply."""
    chat = ScriptedChat({"extract": ["e1", "e2"], "judge": ["j1"]})
    assert [ask(chat, step).text for step in ("extract", "judge", "extract")] == ["e1", "j1", "e2"]
    with pytest.raises(ConfigError):
        ask(chat, "plan")


def test_one_text_is_no_script() -> None:
    """A text in the place of a list is refused, as it would be taken letter by letter."""
    with pytest.raises(ConfigError, match="list"):
        ScriptedChat("one")


def test_texts_get_estimated_tokens() -> None:
    """A plain text counts as many tokens as memforest estimates, of prompt and reply."""
    reply = ask(FunctionChat(lambda request: "12345678"), text="x" * 40)
    assert (reply.prompt_tokens, reply.completion_tokens) == (10, 2)


def test_functions_may_be_async() -> None:
    """An async function is awaited, and its whole reply is handed on."""

    async def reply(request: ChatRequest) -> ChatReply:
        await asyncio.sleep(0)
        return ChatReply(request.step, retries=3)

    chat = FunctionChat(reply, model_id="mine")
    assert ask(chat, "plan") == ChatReply("plan", retries=3)
    assert (chat.model_id, len(chat.requests)) == ("mine", 1)
