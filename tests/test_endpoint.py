"""Settings of models behind endpoints are checked when they are made, and never show a key."""

from __future__ import annotations

from typing import Any

import pytest

from memforest import Budget, ChatEndpoint, EmbeddingEndpoint
from memforest.errors import ConfigError

URL = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": " "}, "no name"),
        ({"base_url": "127.0.0.1:8000"}, "base_url"),
        ({"base_url": "ftp://host/v1"}, "base_url"),
        ({"base_url": "http://host:99999/v1"}, "base_url"),
        ({"base_url": "http:///v1"}, "base_url"),
        ({"base_url": "http://ho st/v1"}, "base_url"),
        ({"base_url": 8000}, "base_url"),
        ({"api_key": ""}, "api_key"),
        ({"api_key": "sk-1\n"}, "api_key"),
        ({"headers": {"a b": "c"}}, "header"),
        ({"headers": {"a": "b\nc"}}, "header"),
        ({"headers": {"a": 1}}, "header"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": "60"}, "timeout_s"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_in_flight": 0}, "max_in_flight"),
    ],
)
@pytest.mark.parametrize("kind", [ChatEndpoint, EmbeddingEndpoint])
def test_what_no_endpoint_can_be_is_refused(kind: Any, settings: dict[str, Any], said: str) -> None:
    """A model without a name, no address, a key or a header that cannot be sent, a number out of range."""
    with pytest.raises(ConfigError, match=said):
        kind(**{"model": "m", **settings})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"structured": "xml"}, "structured"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"max_reply_tokens": 0}, "max_reply_tokens"),
        ({"steps": {"think": {}}}, "think"),
        ({"steps": {"judge": {"max_retries": 1}}}, "max_retries"),
        ({"steps": {"judge": {"base_url": "nowhere"}}}, "base_url"),
        ({"steps": {"judge": {"timeout_s": 0}}}, "timeout_s"),
        ({"steps": {"judge": {"model": ""}}}, "no name"),
    ],
)
def test_settings_of_chat_models_are_checked(settings: dict[str, Any], said: str) -> None:
    """Those of single steps as well, before the step is run."""
    with pytest.raises(ConfigError, match=said):
        ChatEndpoint("m", **settings)


def test_settings_of_embedding_models_are_checked() -> None:
    """Sizes of batches and of rows are whole numbers of at least 1."""
    with pytest.raises(ConfigError, match="batch"):
        EmbeddingEndpoint("m", batch=0)
    with pytest.raises(ConfigError, match="dimensions"):
        EmbeddingEndpoint("m", dimensions=0)


def test_keys_are_not_shown() -> None:
    """Neither in what is shown of an endpoint, nor in what is said of a wrong one."""
    endpoint = ChatEndpoint(
        "m", api_key="sk-secret", headers={"k": "secret"}, steps={"judge": {"api_key": "sk-secret"}}
    )
    assert "secret" not in repr(endpoint) + repr(EmbeddingEndpoint("m", api_key="sk-secret"))
    for wrong in (
        {"api_key": "sk secret"},
        {"base_url": "http://me:secret@host/v1"},
        {"headers": {"a": "secret\n"}},
    ):
        with pytest.raises(ConfigError) as error:
            ChatEndpoint("m", **wrong)
        assert "secret" not in str(error.value)


def test_a_step_takes_what_it_does_not_set() -> None:
    """A step's own settings stand over the endpoint's; one without any has the endpoint itself."""
    endpoint = ChatEndpoint("m", URL, "k", {"h": "v"}, steps={"judge": {"temperature": 0.5}})
    assert endpoint.for_step("extract") is endpoint
    judge = endpoint.for_step("judge")
    assert (judge.model, judge.base_url, judge.api_key, judge.temperature) == ("m", URL, "k", 0.5)
    assert judge.headers == {"h": "v"}


@pytest.mark.parametrize(
    ("own", "key", "headers"),
    [
        ({"base_url": "http://other/v1"}, None, {}),
        ({"base_url": "http://other/v1", "api_key": "k2", "headers": {"a": "b"}}, "k2", {"a": "b"}),
        ({"base_url": None}, None, {}),
        ({"base_url": URL}, "k", {"h": "v"}),
        ({"model": "m2"}, "k", {"h": "v"}),
    ],
)
def test_a_key_is_for_one_address(own: dict[str, Any], key: str | None, headers: dict[str, str]) -> None:
    """A step at another address gets no key and no headers but its own."""
    step = ChatEndpoint("m", URL, "k", {"h": "v"}, steps={"judge": own}).for_step("judge")
    assert (step.api_key, dict(step.headers)) == (key, headers)


@pytest.mark.parametrize("wrong", [-1, 1.5, True])
def test_budgets_are_whole_numbers(wrong: Any) -> None:
    """A budget that bounds nothing sensible is refused; 0 allows nothing, None everything."""
    for name in ("max_calls", "max_tokens"):
        with pytest.raises(ConfigError, match=name):
            Budget(**{name: wrong})
    assert Budget(max_calls=0).max_tokens is None
