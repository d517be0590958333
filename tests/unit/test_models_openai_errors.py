"""Every error of the `openai` client becomes one of ours, which says what to mend and holds no key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.endpoint import ChatEndpoint, EmbeddingEndpoint
from memforest.errors import ModelError, ModelRefusedError, ModelRequestError, ModelUnavailableError
from memforest.models import openai_http
from memforest.models.openai_client import MOST_CHARS, ModelAddress, RequestTarget, _words, mapped, read_json

PLACE = ModelAddress(
    RequestTarget.of(ChatEndpoint("m", base_url="http://127.0.0.1:1/v1"), "chat"), "m", "chat", 1.0
)
OURS = (ModelUnavailableError, ModelRefusedError, ModelRequestError)


def classes(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    """Return a class and all below it."""
    yield kind
    for one in kind.__subclasses__():
        yield from classes(one)


class _Sent:
    """As much of a request as is read."""

    def __init__(self, tries: str) -> None:
        self.headers = {"x-stainless-retry-count": tries}


def raised(kind: type[BaseException], **fields: Any) -> ModelError:
    """Raise an error of the client as it comes, and return what becomes of it."""
    error = kind.__new__(kind)
    defaults = {"request": _Sent("3"), "status_code": 400, "body": None, "param": None, "code": None}
    for name, value in {**defaults, **fields}.items():
        setattr(error, name, value)
    with pytest.raises(ModelError) as caught, mapped(PLACE):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


@each("kind", list(classes(openai.OpenAIError)))
def test_no_error_of_the_client_is_left(kind: type[BaseException]) -> None:
    """Whatever class the client raises, one of our three comes out, with a message."""
    found = raised(kind)
    assert type(found) in OURS
    assert str(found)


@each(
    ("kind", "status", "ours"),
    [
        (openai.BadRequestError, 400, ModelRequestError),
        (openai.AuthenticationError, 401, ModelRefusedError),
        (openai.PermissionDeniedError, 403, ModelRefusedError),
        (openai.NotFoundError, 404, ModelRefusedError),
        (openai.ConflictError, 409, ModelUnavailableError),
        (openai.UnprocessableEntityError, 422, ModelRequestError),
        (openai.RateLimitError, 429, ModelUnavailableError),
        (openai.InternalServerError, 500, ModelUnavailableError),
        (openai.APIStatusError, 413, ModelRequestError),
        (openai.APIStatusError, 408, ModelUnavailableError),
        (openai.APIStatusError, 307, ModelRefusedError),
    ],
)
def test_a_status_decides(kind: type[BaseException], status: int, ours: type[ModelError]) -> None:
    """Each class of status errors becomes the error that its status means."""
    found = raised(kind, status_code=status)
    assert type(found) is ours
    assert getattr(found, "status", None) == status


@pytest.mark.parametrize("kind", [openai.APIConnectionError, openai.APITimeoutError])
def test_a_lost_connection_tells_the_tries(kind: type[BaseException]) -> None:
    """An error without a reply has no status, and says how often it was tried again."""
    found = raised(kind)
    assert isinstance(found, ModelUnavailableError)
    assert (found.status, found.retries) == (None, 3)


def place(url: str | None = "http://127.0.0.1:1/v1", **more: Any) -> ModelAddress:
    """Return the place of a chat model."""
    hidden = more.pop("hidden", ())
    return ModelAddress(
        RequestTarget.of(ChatEndpoint("m", base_url=url, **more), "chat"), "m", "chat", 1.0, hidden
    )


SECRETS = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="*"), min_size=8, max_size=12
)


@given(secret=SECRETS, before=st.text(max_size=8), nested=st.booleans(), lower=st.booleans())
@settings(max_examples=40)
def test_a_key_is_in_no_words_of_a_server(secret: str, before: str, nested: bool, lower: bool) -> None:
    """However the server puts it: alone, in small letters, or in a structure that is shown as JSON."""
    said = before + (secret.lower() if lower else secret) + "!"
    shown = place(api_key=secret).clean(_words([{"msg": said}] if nested else said))
    assert secret.lower() not in shown.lower()
    assert json.dumps(secret)[1:-1].lower() not in shown.lower()
    assert "***" in shown


@each("said", ["it was sk-\x00secret", "it was sk-\x1bsecret", "sk-secret", "asksk-secretsk-secret"])
def test_what_cannot_be_printed_hides_no_key(said: str) -> None:
    """What is taken out of a text is taken out first."""
    assert "sk-secret" not in place(api_key="sk-secret").clean(said)


def test_of_a_key_that_is_a_part_of_another_nothing_is_left() -> None:
    """Longer ones go first; a header counts as a whole and word by word; what is short is no secret."""
    at = place(
        api_key="abcd", headers={"Authorization": "Bearer abcdefgh", "X-Org": "abc"}, hidden=("hidden field",)
    )
    assert at.clean("abcdefgh abcd Bearer hidden field abc") == "*** *** *** *** abc"
    assert place().clean("none of it is a placeholder") == "none of it is a placeholder"


def test_a_message_is_one_short_line() -> None:
    """Of the server's words as many as help, without controls."""
    shown = place().clean("a\nb\x1b[31m " + "x" * 999)
    assert shown.startswith("a b[31m xxx")
    assert len(shown) == MOST_CHARS


@pytest.mark.parametrize("form", ["{}", "Error: {}", "['{}']"])
def test_a_cause_that_holds_a_key_is_left_out(form: str) -> None:
    """A traceback shows causes, too; one without it stays."""
    kind: Any = openai.OpenAIError
    for secret in ("sk-secret", "a\"b'c\\d"):
        with pytest.raises(ModelError) as caught, mapped(place(api_key=secret)):
            raise kind(form.format(secret))
        assert caught.value.__cause__ is None
        with pytest.raises(ModelError) as caught, mapped(place(api_key=secret)):
            raise kind(repr({"message": f"{secret} \"'"}))
        assert caught.value.__cause__ is None
    with pytest.raises(ModelError) as caught, mapped(place(api_key="sk-secret")):
        raise kind("nothing")
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("section", "name", "said"),
    [
        ("chat", "api_key", "chat.api_key (MEMFOREST_CHAT_API_KEY)"),
        ("embeddings", "base_url", "embeddings.base_url (MEMFOREST_EMBEDDING_BASE_URL)"),
    ],
)
def test_a_setting_is_told_by_its_names(section: str, name: str, said: str) -> None:
    """In a file and in the environment; OpenAI's own variable where it is OpenAI that is asked."""
    assert replace(PLACE, section=section).setting(name) == said
    assert place(None, api_key="k").setting("api_key").endswith("_API_KEY, OPENAI_API_KEY)")
    assert "OPENAI" not in place(None, api_key="k").setting("model")


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("chat", "the chat model 'm' at http://127.0.0.1:1/v1"),
        ("embeddings", "the embedding model 'm' at http://127.0.0.1:1/v1"),
        ("rerank", "the model 'm' at http://127.0.0.1:1/v1"),
    ],
)
def test_a_place_says_which_model_and_where(section: str, said: str) -> None:
    """Every message begins with it."""
    assert str(replace(PLACE, section=section)) == said


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (openai.APITimeoutError, "gave no whole answer within 1 s (3 retries); check whether it is overloaded, or raise chat.timeout_s"),
        (openai.APIConnectionError, r"cannot be reached: .*\(3 retries\); start it, or mend chat.base_url"),
    ],
)  # fmt: skip
def test_a_lost_connection_says_what_to_do(kind: type[BaseException], said: str) -> None:
    """Other things for a server that is slow and one that is not there."""
    assert re.search(said if "*" in said else re.escape(said), str(raised(kind)))


@each(
    ("tries", "told", "shown"), [("0", 0, ""), ("1", 1, " (1 retry)"), ("2", 2, " (2 retries)"), ("x", 0, ""), ("-1", 0, ""), ("", 0, "")]
)  # fmt: skip
def test_tries_are_told_as_the_client_counts_them(tries: str, told: int, shown: str) -> None:
    """None are told where there were none, or where it does not say."""
    found = raised(openai.InternalServerError, status_code=503, request=_Sent(tries))
    assert isinstance(found, ModelUnavailableError)
    assert found.retries == told
    assert str(found).endswith(f"says 503{shown}; try again later")


@each(
    ("body", "words"),
    [
        ({"message": "one", "detail": "two"}, ": one"),
        ({"detail": "two", "error": "three"}, ": two"),
        ({"error": "three"}, ": three"),
        ({"message": ["a", {"b": "é"}]}, ': ["a", {"b": "é"}]'),
        ("plain words", ": plain words"),
        ({"other": 1}, ""),
        ({}, ""),
        (None, ""),
        ([], ""),
    ],
)
def test_a_server_is_quoted_wherever_it_puts_its_words(body: Any, words: str) -> None:
    """A message, a detail, an error, a text; nothing where it says nothing."""
    assert str(raised(openai.BadRequestError, body=body)).endswith(f"says 400{words}")


@each(
    ("status", "settings"),
    [(401, ["api_key"]), (402, ["api_key"]), (403, ["api_key", "model"]), (404, ["model", "base_url"]), (405, ["base_url"]), (301, ["base_url"])],
)  # fmt: skip
def test_each_refusal_names_the_settings_to_mend(status: int, settings: list[str]) -> None:
    """Those that may be wrong, and no other."""
    text = str(raised(openai.APIStatusError, status_code=status))
    assert [name for name in ("api_key", "model", "base_url") if f"chat.{name} (" in text] == settings


def test_spent_credit_is_no_reason_to_wait() -> None:
    """It comes as "too many requests"; the code tells, not the words."""
    spent = raised(openai.RateLimitError, status_code=429, code="insufficient_quota")
    assert isinstance(spent, ModelRefusedError)
    assert (spent.status, "no credit" in str(spent)) == (402, True)
    busy = raised(openai.RateLimitError, status_code=429, body={"message": "insufficient_quota"})
    assert isinstance(busy, ModelUnavailableError)


@each(
    ("url", "is_openai"),
    [("https://api.openai.com/v1", True), ("https://eu.api.openai.com/v1", True), ("https://openai.com", True), ("http://OPENAI.com/v1", True),
     ("https://notopenai.com/v1", False), ("https://openai.com.example/v1", False), ("http://host/openai.com", False)],
)  # fmt: skip
def test_openai_is_known_by_its_host(url: str, is_openai: bool) -> None:
    """Not by a name that contains its."""
    assert RequestTarget.of(ChatEndpoint("m", base_url=url), "chat").is_openai is is_openai


def test_an_address_of_the_environment_is_where_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no address configured; without that it is OpenAI's. Nothing of it counts for a configured one."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1234")
    assert RequestTarget.of(ChatEndpoint("m", api_key="k"), "chat").url == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://here/v1")
    found = RequestTarget.of(ChatEndpoint("m", api_key="k"), "chat")
    assert (found.url, found.address, found.secrets) == ("http://here/v1", "http://here/v1", ("org-1234",))
    assert RequestTarget.of(ChatEndpoint("m", base_url="http://there/v1"), "chat").environment == ()


def test_targets_that_share_connections_are_equal() -> None:
    """The order of headers makes no difference; a key, an address or a bound does."""

    def target(**more: Any) -> RequestTarget:
        return RequestTarget.of(ChatEndpoint(**{"model": "m", "base_url": "http://here/v1", **more}), "chat")

    assert target(headers={"a": "1", "b": "2"}) == target(
        headers={"b": "2", "a": "1"}, model="other", timeout_s=3.0
    )
    others = [
        target(api_key="k"),
        target(base_url="http://there/v1"),
        target(max_in_flight=3),
        target(headers={"a": "1"}),
    ]
    assert len({target(), target(max_retries=1), *others}) == 6
    assert "sk-secret" not in repr(target(api_key="sk-secret", headers={"a": "sk-secret"}))


@each("more", [{}, {"batch": 1}, {"dimensions": 8}, {"batch": 999, "dimensions": 4096}])
def test_the_bound_of_a_reply_leaves_room_for_all_vectors(more: dict[str, Any]) -> None:
    """As JSON with all their digits, indented; it grows with what was asked for."""
    endpoint = EmbeddingEndpoint("m", base_url="http://here/v1", **more)
    one, two = (json.dumps({"data": [{"embedding": [-0.012345678901234567] * n}]}, indent=2) for n in (1, 2))
    numbers = endpoint.batch * (endpoint.dimensions or 12_288)
    most = RequestTarget.of(endpoint, "embeddings").most_bytes
    assert numbers * (len(two) - len(one)) < most < numbers * 100 + (2 << 20)


def body_of(content: bytes, **extensions: Any) -> dict[str, Any]:
    """Return what is read out of the body of a reply of status 200."""
    return read_json(openai_http._http.Response(200, content=content, extensions=extensions), PLACE)


def test_the_body_of_a_reply_is_its_object() -> None:
    """Whatever else is in it; an error that is none does not count."""
    assert body_of(b' {"a": [1, null]}\n') == {"a": [1, None]}
    for nothing in (b"null", b'""', b"{}", b"false", b"0"):
        assert "error" in body_of(b'{"error": ' + nothing + b"}")


@each(
    ("content", "kind", "said"),
    [
        (b"", ModelUnavailableError, "sent a reply that is broken"),
        (b'  {"a": 1', ModelUnavailableError, "sent a reply that is broken"),
        (b"\n[1,", ModelUnavailableError, "sent a reply that is broken"),
        (b"[" * 100_000, ModelUnavailableError, "sent a reply that is broken"),
        (b"<html>", ModelRefusedError, "does not answer with the JSON.*chat.base_url"),
        (b"   ", ModelRefusedError, "does not answer with the JSON"),
        (b"hello", ModelRefusedError, "does not answer with the JSON"),
        (b"[]", ModelRefusedError, "does not answer with the JSON"),
        (b"7", ModelRefusedError, "does not answer with the JSON"),
        (b'"{}"', ModelRefusedError, "does not answer with the JSON"),
    ],
)  # fmt: skip
def test_what_is_no_object_is_broken_or_of_something_else(
    content: bytes, kind: type[ModelError], said: str
) -> None:
    """JSON that ends too soon may come whole next time; a page comes from another address than was meant."""
    with pytest.raises(kind, match=said) as caught:
        body_of(content)
    assert getattr(caught.value, "status", None) == 200


@each(
    ("error", "kind", "status"),
    [
        ({"code": 400}, ModelRequestError, 400),
        ({"code": 401}, ModelRefusedError, 401),
        ({"code": 429}, ModelUnavailableError, 429),
        ({"code": 599}, ModelUnavailableError, 599),
        ({"code": 600}, ModelUnavailableError, 500),
        ({"code": 399}, ModelUnavailableError, 500),
        ({"code": "401"}, ModelUnavailableError, 500),
        ({"message": "x"}, ModelUnavailableError, 500),
        ("out of order", ModelUnavailableError, 500),
        (["out", "of"], ModelUnavailableError, 500),
    ],
)
def test_an_error_in_a_good_reply_is_one(error: Any, kind: type[ModelError], status: int) -> None:
    """As some gateways send it: by its code where that is a status, else as one that may pass."""
    with pytest.raises(kind) as caught:
        body_of(json.dumps({"error": error}).encode())
    assert getattr(caught.value, "status", None) == status
    said = (
        error
        if isinstance(error, str)
        else error.get("message")
        if isinstance(error, dict)
        else '["out", "of"]'
    )
    assert not said or said in str(caught.value)


def test_a_reply_that_was_cut_is_not_read() -> None:
    """How much is read is told, and where to look."""
    with pytest.raises(ModelUnavailableError):
        body_of(b'{"a": 1}', **{openai_http.CUT: True})
