"""Settings of models behind endpoints are checked when they are made, and never show a key."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import traceback
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest import Budget, ChatEndpoint, Config, EmbeddingEndpoint
from memforest.errors import ConfigError
from memforest.steps.choose import choose_steps

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
        ({"headers": "a: b"}, "headers"),
        ({"base_url": "http://host/v1?token=secret"}, "query.*api_key"),
        ({"base_url": "http://host/v1?"}, "query"),
        ({"base_url": "http://host/v1#secret"}, "fragment"),
        ({"model": "m\ud800"}, "cannot be printed"),
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
        ({"extra_body": {"a": {1}}}, "extra_body: 'a'"),
        ({"extra_body": {"a": float("nan")}}, "extra_body: 'a'"),
        ({"extra_body": ["a"]}, "extra_body"),
        ({"steps": {"judge": "m"}}, "judge"),
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


SECRET = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", min_size=12, max_size=40)


@given(SECRET)
def test_no_secret_is_shown_of_settings_right_or_wrong(secret: str) -> None:
    """Neither by repr, nor by str, nor by the error of an address, key, header or field that is refused."""
    places: dict[str, Any] = {
        "api_key": secret,
        "headers": {"X-Key": secret},
        "extra_body": {"k": {"t": [secret]}},
    }
    endpoint = ChatEndpoint("m", URL, **places, steps={"judge": places})
    shown = f"{endpoint} {endpoint!r} {Config(chat=endpoint)!r} {Config(chat=endpoint)} {endpoint.for_step('judge')!r}"
    assert "'X-Key': ..." in shown
    assert "'k': ..." in shown
    refused: tuple[dict[str, Any], ...] = (
        {"base_url": f"http://host/v1?token={secret}"},
        {"base_url": f"http://host/v1#{secret}"},
        {"base_url": f"http://me:{secret}@host/v1"},
        {"base_url": secret},
        {"base_url": f"ftp://host/{secret}"},
        {"base_url": f"http://ho st/{secret}"},
        {"base_url": f"http://[{secret}/"},
        {"base_url": {"token": secret}},
        {"api_key": f"{secret}\n"},
        {"headers": {f"Authorization: {secret}": "x"}},
        {"headers": {"a": f"{secret}\n"}},
        {"headers": [secret]},
        {"extra_body": {"k": {secret}}},
        {"steps": {"judge": secret}},
        {"steps": {"judge": {"base_url": f"http://host/v1?token={secret}"}}},
    )
    for wrong in refused:
        with pytest.raises(ConfigError) as error:
            ChatEndpoint(**{"model": "m", **wrong})
        shown += "".join(traceback.format_exception(error.value))
    with pytest.raises(ConfigError) as error:
        choose_steps(Config(chat={"api_key": secret}))  # type: ignore[arg-type]
    shown += str(error.value)
    assert secret not in shown


@pytest.mark.parametrize(
    "endpoint",
    [
        ChatEndpoint("m"),
        EmbeddingEndpoint("m"),
        ChatEndpoint(
            "m", URL, "k", {"h": "v"}, extra_body={"a": {"b": [1]}}, steps={"judge": {"headers": {"h": "w"}}}
        ),
        EmbeddingEndpoint("m", URL, "k", {"h": "v"}, dimensions=64),
    ],
)
def test_an_endpoint_can_be_copied_and_sent_to_a_process(endpoint: Any) -> None:
    """Whole, with its key: what comes out is equal."""
    for copied in (copy.copy(endpoint), copy.deepcopy(endpoint), pickle.loads(pickle.dumps(endpoint))):
        assert copied == endpoint
    settings = Config(embedder=endpoint) if isinstance(endpoint, EmbeddingEndpoint) else Config(chat=endpoint)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as workers:
        assert workers.submit(copy.deepcopy, settings).result() == settings


def test_what_an_endpoint_was_made_from_can_change() -> None:
    """The endpoint does not."""
    headers = {"h": "v"}
    endpoint = ChatEndpoint("m", URL, headers=headers)
    headers["h"] = "w"
    assert endpoint.headers == {"h": "v"}


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
