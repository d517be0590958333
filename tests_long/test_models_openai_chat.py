"""The chat model behind an endpoint, against a server on this machine."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from tests.doubles import ChatServer, Fault, Latency, Reply, Schedule
from tests.doubles.listener import HttpReply, HttpRequest, Listener
from tests.table import each

from memforest import _sync
from memforest.endpoint import ChatEndpoint
from memforest.errors import ModelRefusedError, ModelRequestError, ModelUnavailableError
from memforest.models import OpenAIChat
from memforest.models.calls import Calls
from memforest.models.ledger import Ledger, keeping
from memforest.models.openai import Dialect, is_about_length, strict
from memforest.ports import ChatReply, ChatRequest, Message
from memforest.text import count_tokens

R = TypeVar("R")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SOON = 0.01
"""What a fault says about when to come back, in seconds, so that tests need not wait for the client's back-off."""


def ask(text: str = "Where does Nora live?", step: str = "extract", **more: Any) -> ChatRequest:
    """Return a request of two messages."""
    return ChatRequest(step, (Message("system", "You extract."), Message("user", text)), **more)


def complete(endpoint: ChatEndpoint, *requests: ChatRequest) -> list[ChatReply]:
    """Ask for replies one after the other, in a loop of their own."""

    async def run() -> list[ChatReply]:
        model = OpenAIChat(endpoint)
        return [await model.complete(request) for request in requests]

    return asyncio.run(run())


def at(server: ChatServer, **more: Any) -> ChatEndpoint:
    """Return the endpoint of a server."""
    return ChatEndpoint("double", base_url=server.url, **more)


def answering(
    handler: Callable[[HttpRequest], HttpReply], use: Callable[[str], Awaitable[R]]
) -> tuple[R, list[HttpRequest]]:
    """Run a coroutine against a server that sends raw HTTP replies; return its result and what was requested."""
    got: list[HttpRequest] = []

    async def serve(request: HttpRequest) -> HttpReply:
        got.append(request)
        return handler(request)

    async def run() -> R:
        listener = Listener(serve, lambda error: HttpReply(500, repr(error).encode()))
        port = await listener.open()
        try:
            return await use(f"http://127.0.0.1:{port}/v1")
        finally:
            listener.close()

    return asyncio.run(run()), got


def as_json(value: Any, status: int = 200) -> HttpReply:
    """Return a raw reply of JSON."""
    return HttpReply(status, json.dumps(value).encode(), {"content-type": "application/json"})


def refusing(
    complaint: str, accepts: Callable[[Mapping[str, Any]], bool]
) -> Callable[[HttpRequest], HttpReply]:
    """Return a handler that complains, with status 400, of every body that it does not accept."""

    def handle(request: HttpRequest) -> HttpReply:
        if not accepts(json.loads(request.body)):
            return as_json({"error": {"message": complaint, "type": "invalid_request_error"}}, 400)
        return as_json({"choices": [{"message": {"role": "assistant", "content": "{}"}}]})

    return handle


def test_a_reply_tells_its_text_and_its_tokens() -> None:
    """Text, tokens, cached tokens and the end come from the endpoint; nothing was tried again."""
    long = "Nora moved to Porto. " * 60
    with ChatServer(reply=lambda body: '{"city": "Porto"}') as server:
        first, again = complete(at(server), ask(long), ask(long))
        sent = server.calls[0]
    assert first == ChatReply(
        '{"city": "Porto"}', sent.prompt_tokens, sent.completion_tokens, 0, finish="stop", retries=0
    )
    assert first.prompt_tokens > 0
    assert again.cached_tokens > 0


def test_a_reply_that_was_cut_says_so() -> None:
    """A reply that ends at the bound of its tokens has the finish "length"."""
    with ChatServer(reply=lambda body: "one two three four five six seven") as server:
        (reply,) = complete(at(server), ask(max_tokens=2))
    assert (reply.finish, reply.completion_tokens) == ("length", 2)


@pytest.mark.parametrize("message", [{"content": None}, {}, {"content": None, "reasoning_content": "Hm."}])
def test_a_reply_without_content_is_empty(message: dict[str, Any]) -> None:
    """No content is an empty text, whatever the model thought; tokens that are not counted are estimated."""

    async def use(url: str) -> ChatReply:
        return await OpenAIChat(ChatEndpoint("m", base_url=url)).complete(ask("Where?"))

    reply, _ = answering(lambda _: as_json({"choices": [{"message": message, "finish_reason": None}]}), use)
    assert (reply.text, reply.finish, reply.completion_tokens) == ("", "stop", 0)
    assert reply.prompt_tokens == count_tokens("You extract.") + count_tokens("Where?")


def test_usage_with_holes_is_estimated() -> None:
    """Null counts, and cached tokens in DeepSeek's place, are read."""
    usage = {"prompt_tokens": 9, "completion_tokens": None, "prompt_cache_hit_tokens": 4}

    async def use(url: str) -> ChatReply:
        return await OpenAIChat(ChatEndpoint("m", base_url=url)).complete(ask())

    reply, _ = answering(
        lambda _: as_json({"choices": [{"message": {"content": "Porto"}}], "usage": usage}), use
    )
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == (9, 2, 4)


def test_a_request_holds_what_is_configured() -> None:
    """Model, messages, temperature, bound, schema and the further fields are in the body."""
    with ChatServer(reply=lambda body: "{}") as server:
        endpoint = at(server, extra_body={"top_k": 20}, temperature=0.5)
        complete(endpoint, ask("Where?", schema=SCHEMA, max_tokens=77))
        body = server.calls[0].body
    assert body == {
        "model": "double",
        "messages": [
            {"role": "system", "content": "You extract."},
            {"role": "user", "content": "Where?"},
        ],
        "max_tokens": 77,
        "temperature": 0.5,
        "top_k": 20,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "extract", "schema": strict(SCHEMA), "strict": True},
        },
    }


def test_no_temperature_and_no_schema_send_none() -> None:
    """What is not asked for is not in the body; the bound of the settings stands for that of the step."""
    with ChatServer(reply=lambda body: "x") as server:
        complete(at(server, temperature=None, max_reply_tokens=4096), ask())
        body = server.calls[0].body
    assert set(body) == {"model", "messages", "max_tokens"}
    assert body["max_tokens"] == 4096


def test_a_step_goes_to_its_own_endpoint() -> None:
    """A step with an address of its own is asked there, without the key and the headers of the other."""
    with ChatServer(reply=lambda body: "a") as one, ChatServer(reply=lambda body: "b") as other:
        endpoint = at(
            one,
            api_key="sk-one-secret",
            headers={"X-Tenant": "one-secret"},
            steps={"judge": {"base_url": other.url, "model": "small", "temperature": 0.2}},
        )
        replies = complete(endpoint, ask(), ask(step="judge"))
        (first,), (second,) = one.calls, other.calls
    assert [reply.text for reply in replies] == ["a", "b"]
    assert (first.headers["authorization"], first.headers["x-tenant"]) == (
        "Bearer sk-one-secret",
        "one-secret",
    )
    assert (second.body["model"], second.body["temperature"]) == ("small", 0.2)
    assert "one-secret" not in str(second.headers)


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_schema_is_told_in_words(form: Any) -> None:
    """Without schemas the last message ends with the schema; what stands first stays the same."""
    with ChatServer(reply=lambda body: "{}") as server:
        complete(at(server, structured=form), ask("Where?", schema=SCHEMA), ask("Where?"))
        with_schema, without = (call.body for call in server.calls)
    assert with_schema["messages"][0] == without["messages"][0]
    last = with_schema["messages"][-1]["content"]
    assert last.startswith("Where?\n")
    assert json.loads(last.rpartition("\n")[2]) == SCHEMA
    assert with_schema.get("response_format") == ({"type": "json_object"} if form == "json" else None)
    assert without["messages"][-1]["content"] == "Where?"
    assert "response_format" not in without


@pytest.mark.parametrize(
    ("refuses", "tried"),
    [
        ((), ["json_schema"] * 2),
        (("json_schema",), ["json_schema", "json_object", "json_object"]),
        (("json_schema", "json_object"), ["json_schema", "json_object", None, None]),
    ],
)
def test_how_json_is_asked_for_is_found_out_once(refuses: tuple[str, ...], tried: list[str | None]) -> None:
    """A form that the endpoint refuses is left for the next one, which is kept; it is no failure of the call."""
    ledger = Ledger()

    async def run(server: ChatServer) -> None:
        calls = Calls(OpenAIChat(at(server)))
        for _ in range(2):
            assert (await calls.complete(ask(schema=SCHEMA))).text == "{}"

    with ChatServer(reply=lambda body: "{}", refuses=refuses) as server, keeping(ledger):
        asyncio.run(run(server))
        forms = [call.body.get("response_format", {}).get("type") for call in server.calls]
    assert forms == tried
    assert (ledger.steps["extract"].calls, ledger.steps["extract"].failures) == (2, 0)


def test_many_requests_at_once_find_out_together() -> None:
    """Requests that were under way when the first was refused follow it, each after one refusal of its own."""

    async def run(server: ChatServer) -> None:
        model = OpenAIChat(at(server))
        await asyncio.gather(*(model.complete(ask(str(i), schema=SCHEMA)) for i in range(20)))
        await model.complete(ask("last", schema=SCHEMA))

    with ChatServer(reply=lambda body: "{}", refuses=("json_schema",)) as server:
        asyncio.run(run(server))
        assert len(server.calls) <= 41
        assert server.calls[-1].body["response_format"] == {"type": "json_object"}


def test_a_form_that_is_demanded_is_not_left() -> None:
    """With ``structured="schema"`` the refusal is the caller's to see."""
    with ChatServer(refuses=("json_schema",)) as server:
        with pytest.raises(ModelRequestError, match="json_schema"):
            complete(at(server, structured="schema"), ask(schema=SCHEMA))
        assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("complaint", "accepts", "sent"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            lambda body: "max_tokens" not in body,
            {"max_completion_tokens", "temperature"},
        ),
        (
            "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value "
            "is supported.",
            lambda body: "temperature" not in body,
            {"max_tokens"},
        ),
    ],
)
def test_a_parameter_that_is_not_understood_is_left(
    complaint: str, accepts: Callable[[Mapping[str, Any]], bool], sent: set[str]
) -> None:
    """The bound gets its other name, and a temperature is dropped, once for all later requests."""

    async def use(url: str) -> None:
        model = OpenAIChat(ChatEndpoint("m", base_url=url))
        await model.complete(ask())
        await model.complete(ask())

    _, got = answering(refusing(complaint, accepts), use)
    bodies = [json.loads(request.body) for request in got]
    assert [set(body) - {"model", "messages"} for body in bodies] == [
        {"max_tokens", "temperature"},
        sent,
        sent,
    ]


@pytest.mark.parametrize(
    "complaint",
    [
        "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens.",
        "max_tokens is too large: 5000. This model supports at most 4096 completion tokens.",
        "temperature must be below 2",
    ],
)
def test_other_complaints_are_the_callers(complaint: str) -> None:
    """A request that is too long, or names an impossible value, is refused with the endpoint's words."""

    async def use(url: str) -> None:
        with pytest.raises(ModelRequestError) as error:
            await OpenAIChat(ChatEndpoint("m", base_url=url)).complete(ask(schema=SCHEMA))
        assert complaint in str(error.value)
        assert error.value.status == 400

    _, got = answering(refusing(complaint, lambda body: False), use)
    assert len(got) == 1


def test_openai_is_asked_with_the_newer_name() -> None:
    """OpenAI's own models are bounded by ``max_completion_tokens`` from the first."""
    endpoint = ChatEndpoint("gpt", api_key="k")
    assert "max_completion_tokens" in Dialect.first(endpoint, openai=True).body(endpoint, ask())
    assert is_about_length("this model's maximum context length is 8192 tokens")


def test_a_strict_schema_requires_all_and_allows_no_more() -> None:
    """Objects inside lists, definitions and alternatives too; a property may be called like a keyword."""
    inner = {"type": "object", "properties": {"default": {"type": "integer", "default": 3}}}
    schema = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/One"}}, "n": {"anyOf": [inner]}},
        "$defs": {"One": inner},
        "required": ["n"],
    }
    made = strict(schema)
    closed = {
        "type": "object",
        "properties": {"default": {"type": "integer"}},
        "required": ["default"],
        "additionalProperties": False,
    }
    assert made["required"] == ["items", "n"]
    assert made["$defs"]["One"] == made["properties"]["n"]["anyOf"][0] == closed
    assert schema["required"] == ["n"], "what was handed in stays as it was"


@each("status", [408, 409, 429, 500, 503])
def test_what_passes_is_tried_again(status: int) -> None:
    """A passing refusal is tried again, and counted."""
    fault = Fault.status(status, retry_after_s=SOON)
    with ChatServer(reply=lambda body: "ok", faults=Schedule.first(2, fault)) as server:
        (reply,) = complete(at(server), ask())
        assert len(server.calls) == 3
    assert (reply.text, reply.retries) == ("ok", 2)


def test_retries_are_counted_in_failures_too() -> None:
    """After the last try, the error tells the status and how often it was tried; so does the ledger."""
    ledger = Ledger()
    fault = Fault.status(503, retry_after_s=SOON)
    with (
        ChatServer(faults=Schedule.every(1, fault)) as server,
        keeping(ledger),
        pytest.raises(ModelUnavailableError) as error,
    ):
        asyncio.run(Calls(OpenAIChat(at(server, max_retries=2))).complete(ask()))
    assert (error.value.status, error.value.retries) == (503, 2)
    assert (ledger.steps["extract"].failures, ledger.steps["extract"].retries) == (1, 2)


def test_retry_after_is_honoured() -> None:
    """The next try comes no sooner than the endpoint says; an hour is not waited for."""
    with ChatServer(reply=lambda body: "ok", faults={1: Fault.status(429, retry_after_s=0.4)}) as server:
        complete(at(server), ask())
        first, second = server.calls
    assert second.arrived_s - (first.ended_s or 0) >= 0.4
    with ChatServer(faults=Schedule.every(1, Fault.status(429, retry_after_s=3600))) as server:
        started = time.perf_counter()
        with pytest.raises(ModelUnavailableError):
            complete(at(server, max_retries=1), ask())
        assert time.perf_counter() - started < 30


def test_a_time_out_is_tried_again() -> None:
    """A try takes `timeout_s`; a reply that comes later is asked for again."""
    with ChatServer(reply=lambda body: "ok", faults={1: Fault.timeout(5)}) as server:
        (reply,) = complete(at(server, timeout_s=0.3), ask())
    assert reply.retries == 1
    with (
        ChatServer(latency=Latency(base_s=5)) as server,
        pytest.raises(ModelUnavailableError) as error,
    ):
        complete(at(server, timeout_s=0.2, max_retries=0), ask())
    assert (error.value.status, error.value.retries) == (None, 0)


@pytest.mark.parametrize("fault", [Fault.drop(), Fault.drop(0.5)])
def test_a_lost_connection_is_tried_again(fault: Fault) -> None:
    """So is a connection that ends before or within the reply."""
    with ChatServer(reply=lambda body: "ok", faults={1: fault}) as server:
        (reply,) = complete(at(server), ask())
    assert (reply.text, reply.retries) == ("ok", 1)


def test_a_server_that_is_not_there_is_named() -> None:
    """A refused connection names the address and the setting."""
    with ChatServer() as server:
        endpoint = at(server, max_retries=0)
    with pytest.raises(ModelUnavailableError) as error:
        complete(endpoint, ask())
    assert server.url in str(error.value)


def test_a_client_outlives_a_crash_of_the_server() -> None:
    """Connections that broke are opened anew."""

    async def run(server: ChatServer) -> list[str]:
        model = OpenAIChat(at(server))
        before = await model.complete(ask())
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.revive)
        return [before.text, (await model.complete(ask())).text]

    with ChatServer(reply=lambda body: "ok") as server:
        assert asyncio.run(run(server)) == ["ok", "ok"]


@each(
    ("status", "setting"),
    [
        (401, "chat.api_key (MEMFOREST_CHAT_API_KEY)"),
        (402, "chat.api_key"),
        (403, "chat.model (MEMFOREST_CHAT_MODEL)"),
        (404, "chat.base_url (MEMFOREST_CHAT_BASE_URL)"),
        (405, "chat.base_url"),
    ],
)
def test_a_refusal_names_the_setting_to_mend(status: int, setting: str) -> None:
    """Refusals for good are tried once, and stop what comes after them in the same operation."""
    ledger = Ledger()

    async def run(server: ChatServer) -> None:
        calls = Calls(OpenAIChat(at(server)))
        for _ in range(2):
            with pytest.raises(ModelRefusedError) as error:
                await calls.complete(ask())
            assert setting in str(error.value)
            assert error.value.status == status

    with ChatServer(faults=Schedule.every(1, Fault.status(status))) as server, keeping(ledger):
        asyncio.run(run(server))
        assert len(server.calls) == 1


def test_a_missing_model_is_named() -> None:
    """A model that the endpoint does not know is refused with its name."""
    with (
        ChatServer(models=("other",), strict=True) as server,
        pytest.raises(ModelRefusedError, match="'double'"),
    ):
        complete(at(server), ask())


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_not_accepted(status: int) -> None:
    """Such a request is tried once, and others may be tried after it."""
    with ChatServer(reply=lambda body: Reply("no such thing", status=status)) as server:
        with pytest.raises(ModelRequestError):
            complete(at(server), ask())
        assert len(server.calls) == 1


RAW: list[tuple[HttpReply, type[Exception], str]] = [
    (
        HttpReply(200, b"<html>Welcome</html>", {"content-type": "text/html"}),
        ModelRefusedError,
        "chat.base_url",
    ),
    (
        HttpReply(200, b'{"choices": [{"mess', {"content-type": "application/json"}),
        ModelUnavailableError,
        "broken",
    ),
    (HttpReply(200, b"", {"content-type": "application/json"}), ModelUnavailableError, "broken"),
    (HttpReply(307, b"", {"location": "http://127.0.0.1:1/v1"}), ModelRefusedError, "chat.base_url"),
    (HttpReply(502, b"<html>Bad gateway</html>", {}), ModelUnavailableError, "502"),
    (as_json({"choices": []}), ModelUnavailableError, "without a message"),
    (as_json({"choices": [{"message": None}]}), ModelUnavailableError, "without a message"),
    (as_json([]), ModelRefusedError, "chat.base_url"),
    (as_json({"error": {"code": 429, "message": "slow down"}}), ModelUnavailableError, "slow down"),
    (as_json({"error": {"code": 401, "message": "who?"}}), ModelRefusedError, "chat.api_key"),
    (as_json({"error": "out of order"}), ModelUnavailableError, "out of order"),
    (as_json({"detail": [{"loc": ["body"], "msg": "bad"}]}, 422), ModelRequestError, "bad"),
    (
        as_json({"error": {"message": "pay first", "code": "insufficient_quota"}}, 429),
        ModelRefusedError,
        "chat.api_key",
    ),
]


@each(("reply", "kind", "said"), RAW)
def test_odd_replies_become_errors_of_ours(reply: HttpReply, kind: type[Exception], said: str) -> None:
    """Pages, broken JSON, redirections and errors with status 200 are told apart; no other error comes out."""

    async def use(url: str) -> None:
        with pytest.raises(kind, match=said.replace(".", r"\.")) as error:
            await OpenAIChat(ChatEndpoint("m", base_url=url, max_retries=0)).complete(ask())
        assert type(error.value) is kind

    answering(lambda _: reply, use)


SECRETS = {
    "OPENAI_API_KEY": "sk-from-environment",
    "OPENAI_ADMIN_KEY": "sk-from-environment",
    "OPENAI_ORG_ID": "org-from-environment",
    "OPENAI_PROJECT_ID": "proj-from-environment",
    "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer sk-from-environment\nauthorization: from-environment\n"
    "X-Secret: from-environment",
    "OPENAI_BASE_URL": "http://127.0.0.1:1/from-environment",
}


@pytest.fixture
def keys_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set everything that the client reads from the environment."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("keys_around")
def test_no_key_of_the_environment_goes_to_a_configured_address() -> None:
    """A request to a configured address holds its own key or a placeholder, and nothing that the environment has."""
    with ChatServer(reply=lambda body: "ok") as server:
        complete(at(server), ask())
        complete(at(server, api_key="sk-own", headers={"x-own": "yes"}), ask())
        bare, own = (call.headers for call in server.calls)
    assert "from-environment" not in json.dumps([dict(bare), dict(own)])
    assert bare["authorization"] == "Bearer none"
    assert (own["authorization"], own["x-own"]) == ("Bearer sk-own", "yes")


def test_an_authorization_header_of_ones_own_wins() -> None:
    """`headers` may say how to log in."""
    with ChatServer(reply=lambda body: "ok") as server:
        complete(at(server, headers={"Authorization": "Basic abcd"}), ask())
        assert server.calls[0].headers["authorization"] == "Basic abcd"


def test_without_an_address_the_environment_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of OPENAI_API_KEY goes to OPENAI_BASE_URL; a configured key wins over it."""
    with ChatServer(reply=lambda body: "ok") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", " sk-from-environment\n")
        complete(ChatEndpoint("double"), ask())
        complete(ChatEndpoint("double", api_key="sk-own"), ask())
        sent = [call.headers["authorization"] for call in server.calls]
    assert sent == ["Bearer sk-from-environment", "Bearer sk-own"]


@pytest.mark.parametrize("key", [None, "", "two words", "naïve"])
def test_without_a_key_openai_is_not_asked(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    """What to set is named before anything is sent; an unusable key is not repeated."""
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ModelRefusedError) as error:
        complete(ChatEndpoint("gpt"), ask())
    for name in ("chat.api_key", "MEMFOREST_CHAT_API_KEY", "OPENAI_API_KEY", "chat.base_url"):
        assert name in str(error.value)
    assert not key or key not in str(error.value)


@pytest.mark.parametrize("url", ["http://host/v1?token=secret", "http://me:secret@host/v1", "secret"])
def test_an_address_of_the_environment_is_checked_too(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """The client would make a broken address of it, and write it to its log; the error does not show it."""
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ModelRefusedError, match="OPENAI_BASE_URL") as error:
        complete(ChatEndpoint("gpt", api_key="k"), ask())
    assert "secret" not in f"{error.value} {error.value.__cause__}"


def test_keys_are_in_no_message(capsys: pytest.CaptureFixture[str]) -> None:
    """Not in what is shown of the settings, nor in an error or its causes, even if the server repeats them."""
    secret = "sk-very-secret"
    said = f"wrong key {secret}, or header tenant-secret"
    with ChatServer(reply=lambda body: Reply(said, status=401)) as server:
        endpoint = at(
            server,
            api_key=secret,
            headers={"X-Key": "tenant-secret"},
            steps={"judge": {"api_key": "sk-other-secret"}},
        )
        with pytest.raises(ModelRefusedError) as error:
            complete(endpoint, ask())
    shown = repr(endpoint) + repr(OpenAIChat(endpoint)) + str(error.value) + repr(error.value)
    shown += "".join(str(one) for one in (error.value.__cause__,))
    assert "***" in str(error.value)
    assert "secret" not in shown


def test_importing_and_making_one_loads_and_connects_nothing() -> None:
    """The client's package is imported by the first call."""
    script = (
        "import sys\n"
        "from memforest import ChatEndpoint, EmbeddingEndpoint, MemForest, load_default_config\n"
        "from memforest.models import OpenAIChat, OpenAIEmbedder\n"
        "OpenAIChat(ChatEndpoint('m')); OpenAIEmbedder(EmbeddingEndpoint('m'))\n"
        "MemForest('nowhere', load_default_config('default_4b'))\n"
        "print([name for name in ('openai', 'httpx', 'httpx2', 'ssl') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [name for name in ("openai", "httpx", "httpx2") if name in done.stdout] == []


def test_as_many_requests_are_under_way_as_are_asked_for() -> None:
    """The connections of a client suffice for `max_in_flight`: none is answered before all have arrived."""
    most, everybody = 150, asyncio.Event()

    async def reply(body: dict[str, Any]) -> str:
        if server.most_in_flight == most:
            everybody.set()
        await everybody.wait()
        return "ok"

    async def run() -> None:
        calls = Calls(OpenAIChat(at(server, max_in_flight=most)), max_in_flight=most)
        await asyncio.gather(*(calls.complete(ask(str(i))) for i in range(most)))

    with ChatServer(reply) as server:
        asyncio.run(run())
        assert server.most_in_flight == most


def test_one_client_serves_many_requests_and_several_loops() -> None:
    """Connections are kept within a loop, and a model works in one loop after another, and in two at once."""
    with ChatServer(reply=lambda body: "ok") as server:
        model = OpenAIChat(at(server))

        async def run() -> None:
            for _ in range(3):
                await model.complete(ask())

        def connections() -> int:
            return len(server._listener.connections)

        asyncio.run(run())
        asyncio.run(run())
        _sync.run(run())
        asyncio.run(run())
        _sync.run(run())
        deadline = time.monotonic() + 5
        while connections() > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert connections() == 1, "that of the portal's loop; the others ended with their loops"
        asyncio.run(model.close())
        while connections() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert connections() == 0
        asyncio.run(run())
    gc.collect()  # an open socket would warn, and warnings are errors


def test_a_model_that_is_dropped_closes_its_connections() -> None:
    """Nobody need close a model: its connections end when it is collected."""
    with ChatServer(reply=lambda body: "ok") as server:
        _sync.run(OpenAIChat(at(server)).complete(ask()))
        gc.collect()
        deadline = time.monotonic() + 5
        while server._listener.connections and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not server._listener.connections


def test_a_cancelled_request_leaves_the_client_usable() -> None:
    """Cancelling a call ends it at once, and the next one works."""

    async def run(server: ChatServer) -> str:
        model = OpenAIChat(at(server))
        task = asyncio.ensure_future(model.complete(ask("slow")))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await model.complete(ask("quick"))).text

    slow = Schedule.when(lambda body: body["messages"][-1]["content"] == "slow", Fault.timeout(30))
    with ChatServer(reply=lambda body: "ok", faults=slow) as server:
        assert asyncio.run(run(server)) == "ok"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_opens_connections_of_its_own() -> None:
    """A child does not speak on the parent's connections, and does not close them."""
    script = (
        "import asyncio, os, sys\n"
        "from memforest import _sync as portal\n"
        "from memforest.endpoint import ChatEndpoint\n"
        "from memforest.models import OpenAIChat\n"
        "from memforest.ports import ChatRequest, Message\n"
        "model = OpenAIChat(ChatEndpoint('double', base_url=sys.argv[1]))\n"
        "ask = lambda: portal.run(model.complete(ChatRequest('answer', (Message('user', str(os.getpid())),)))).text\n"
        "assert ask() == 'ok'\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    assert ask() == 'ok'\n"
        "    sys.exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
        "assert ask() == 'ok'\n"
    )
    with ChatServer(reply=lambda body: "ok") as server:
        run = [sys.executable, "-W", "error", "-c", script, server.url]
        done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=50)
        assert (done.returncode, done.stderr) == (0, "")
        who = [call.body["messages"][-1]["content"] for call in server.calls]
    assert len(who) == 3
    assert who[0] == who[2] != who[1]


def test_settings_are_values() -> None:
    """Equal settings share the connections of one model; another key has its own."""
    with ChatServer(reply=lambda body: "ok") as server:
        one = at(server, api_key="sk-one-one", steps={"judge": {"api_key": "sk-two-two"}})
        complete(replace(one), ask(), ask(step="judge"), ask())
        sent = [call.headers["authorization"] for call in server.calls]
    assert sent == ["Bearer sk-one-one", "Bearer sk-two-two", "Bearer sk-one-one"]
