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
from tests.table import each

from memforest import Budget, ChatEndpoint, Config, EmbeddingEndpoint
from memforest.endpoint import Private, check_url
from memforest.errors import ConfigError
from memforest.reading.steps import choose_steps

URL = "http://127.0.0.1:8000/v1"


@each(
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
@each("kind", [ChatEndpoint, EmbeddingEndpoint])
def test_what_no_endpoint_can_be_is_refused(kind: Any, settings: dict[str, Any], said: str) -> None:
    """A model without a name, no address, a key or a header that cannot be sent, a number out of range."""
    with pytest.raises(ConfigError, match=said):
        kind(**{"model": "m", **settings})


@each(
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


SECRET = st.text(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", min_size=12, max_size=36
).map("sk-x{}".format)


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


@each(
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


@each(
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


BOUND = st.none() | st.integers(0, 50)
BUDGETS = st.builds(Budget, BOUND, BOUND)


@given(one=BUDGETS, two=BUDGETS, calls=st.integers(0, 60), tokens=st.integers(0, 60))
def test_budgets_are_added_and_spent_bound_by_bound(
    one: Budget, two: Budget, calls: int, tokens: int
) -> None:
    """No bound stays none, whatever is spent or added; what is left is never below nought."""
    both, left = one.plus(two), one.less(calls, tokens)
    for name, spent in (("max_calls", calls), ("max_tokens", tokens)):
        mine, theirs = getattr(one, name), getattr(two, name)
        assert getattr(both, name) == (None if None in (mine, theirs) else mine + theirs)
        assert getattr(left, name) == (None if mine is None else max(0, mine - spent))
    assert both == two.plus(one)


@given(own=BUDGETS, calls=BOUND, tokens=BOUND)
def test_bounds_that_are_given_take_the_place_of_others(
    own: Budget, calls: int | None, tokens: int | None
) -> None:
    """Nought is a bound; None leaves what there is."""
    found = own.narrowed(calls, tokens)
    assert found.max_calls == (own.max_calls if calls is None else calls)
    assert found.max_tokens == (own.max_tokens if tokens is None else tokens)


def test_a_private_mapping_is_one_and_shows_no_value() -> None:
    """It equals a dictionary, cannot be changed by whoever it was made from, and is empty or full."""
    values = {"X-Key": "secret", "b": {"c": "secret"}}
    found = Private(values)
    assert found == values
    assert repr(found) == "{'X-Key': ..., 'b': ...}"
    assert repr(Private({})) == "{}"
    assert (len(found), list(found), found["X-Key"], found.get("d")) == (2, ["X-Key", "b"], "secret", None)
    values["X-Key"] = "other"
    assert found["X-Key"] == "secret"
    assert not hasattr(found, "__setitem__")
    assert "secret" in repr(pickle.loads(pickle.dumps(found))._values), "a pickle holds the values"


@each(
    "url",
    [
        "http://h",
        "https://h/v1/",
        "http://127.0.0.1:1/v1",
        "http://[::1]:8000/v1",
        "http://h:65535",
        "HTTP://H/V1",
        "http://h/a%20b",
        "http://h./v1",
    ],
)
def test_an_address_of_a_server_is_taken_as_it_is(url: str) -> None:
    """With a port or without, by name or by number."""
    check_url(url, "base_url")
    assert ChatEndpoint("m", url).base_url == url


@each(
    ("url", "said"),
    [("http://h:0/v1", "not the address of a server"), ("http://h:65536", "is not "), ("http://h:x", "is not "), ("//h/v1", "is not "), ("", "is not "),
     ("http://@h/v1", "a user name"), ("http://h/v1#", "a fragment"), ("http://h/a b", "is not "), ("http://h/\u00e9", "is not "), ("http://h\n", "is not "),
     ("file:///v1", "is not "), ("http://[::1/v1", "is not ")],
)  # fmt: skip
def test_what_is_no_address_is_told_by_its_setting(url: str, said: str) -> None:
    """And never shown."""
    with pytest.raises(ConfigError, match=f"^chat.base_url .*{said}") as caught:
        check_url(url, "chat.base_url")
    assert not url or url not in str(caught.value)


def test_a_steps_fault_names_the_step() -> None:
    """Known steps and settings are listed."""
    with pytest.raises(ConfigError):
        ChatEndpoint("m", steps={"judges": {}})
    with pytest.raises(ConfigError):
        ChatEndpoint("m", steps={"judge": {"timeout_s": -1}})
    with pytest.raises(ConfigError):
        ChatEndpoint("m", steps={"judge": {"max_in_flight": 1}})


@each(
    "own",
    [
        {"model": "n"},
        {"timeout_s": 3.0},
        {"temperature": None},
        {"max_reply_tokens": 5},
        {"extra_body": {"a": 1}},
        {"headers": {"a": "b"}},
        {"api_key": "k2"},
    ],
)
def test_each_setting_of_a_step_stands_alone(own: dict[str, Any]) -> None:
    """The others are the endpoint's; the step's endpoint has no steps."""
    whole = ChatEndpoint(
        "m", URL, "k", {"h": "v"}, 9.0, 2, 3, "json", 0.5, 77, {"z": 1}, {"judge": own, "plan": {}}
    )
    step = whole.for_step("judge")
    for name in ("model", "base_url", "api_key", "headers", "timeout_s", "max_retries", "max_in_flight", "structured", "temperature",
                 "max_reply_tokens", "extra_body"):  # fmt: skip
        assert getattr(step, name) == own.get(name, getattr(whole, name))
    assert dict(step.steps) == {}
    assert whole.for_step("plan") is whole
