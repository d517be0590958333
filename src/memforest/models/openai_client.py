"""Clients of OpenAI-compatible endpoints: made at their first use, one per event loop, address and key.

The `openai` package is imported when the first call is made, in a thread, as that takes a second.

A client's connections belong to the event loop that opened them, so each is kept alive by an asynchronous generator.
Whoever ends a loop in an orderly way (`asyncio.run`, our own portal) finalises these first
(`loop.shutdown_asyncgens`), and with them the connections. `Clients.close`, or collecting the object, does it sooner.

Where a key goes: the client would add keys, organisations and headers that it finds in the environment
(``OPENAI_…``). These are meant for OpenAI, or for what ``OPENAI_BASE_URL`` names, so a request to an address that is
configured holds nothing but what is configured with it; and no request follows a redirection to another address.


The HTTP client below the `openai` client: every try has a deadline, and the body of every reply a bound.

The client's own time-outs are between two bytes, so that a server that sends a byte now and then would hold a call for
ever; and it keeps whatever body comes. Imports `openai`, so it is imported where a client is made.


Mapping the `openai` client's errors to ours: each names the setting to change, and never the key.

    try again later    408, 409, 425, 429, 5xx, time-outs, lost connections   ModelUnavailableError
    mend a setting     401, 402, 403, 404, 405, redirections, no JSON         ModelRefusedError
    mend the request   400, 413, 422 and the rest                             ModelRequestError

The client has tried again before it raises (`max_retries`): on 408, 409, 429, 5xx, time-outs and lost connections,
after 0.5 s, doubled up to 8 s, less up to a quarter at random, or after what ``Retry-After`` says; more than a minute
or two, by its version, is not waited for. See https://github.com/openai/openai-python#retries.

"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from memforest.concurrency import begins_anew_in_child
from memforest.endpoint import ChatEndpoint, EmbeddingEndpoint, check_url
from memforest.errors import (
    ConfigError,
    ModelError,
    ModelRefusedError,
    ModelRequestError,
    ModelUnavailableError,
)
from memforest.text import cut
from memforest.times import printable

if TYPE_CHECKING:
    import openai
    from openai import AsyncOpenAI


T = TypeVar("T")

OPENAI_URL = "https://api.openai.com/v1"
PLACEHOLDER_KEY = "none"
"""Sent to endpoints that are configured without a key: the client insists on one, and such servers ignore it."""
CONNECT_TIMEOUT_S = 10.0
"""A server that does not take the connection by then is not there; answers may take longer (the `openai` client's
own default is 5 s)."""
CLOSE_TIMEOUT_S = 2.0
"""How long `close` waits for another loop to close its connections."""
MOST_CHAT_BYTES = 8 << 20
"""Of a chat reply: a hundred thousand tokens of thoughts, escaped as JSON may, take a tenth of it."""
MOST_DIMENSIONS = 16_384
"""Numbers of a vector whose length is not known before the reply; the longest in use have about 12,000."""
BYTES_PER_NUMBER = 32
"""Of a vector in JSON: sixteen digits, sign, exponent, and the spaces of a reply that is indented."""

_HTTP_HEADERS = (
    *("accept", "accept-encoding", "authorization", "connection", "content-length"),
    *("content-type", "host", "transfer-encoding", "user-agent"),
)
"""What HTTP needs, and the client's name; all else that is sent is configured, or starts with `_CLIENT_HEADERS`."""
_CLIENT_HEADERS = "x-stainless-"
"""The client's own: its version, the time-out, the number of the try."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """Where a request goes, and with what; two requests of one target share connections."""

    base_url: str | None
    """None is what the client finds: ``OPENAI_BASE_URL``, else OpenAI's."""
    api_key: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    max_retries: int
    max_in_flight: int
    most_bytes: int
    """Of the body of a reply, unpacked; more is no reply of such a model."""
    environment: tuple[str | None, ...] = field(repr=False)
    """What the client takes from the environment, which may change between calls; nothing with a `base_url`."""

    @classmethod
    def of(cls, endpoint: ChatEndpoint | EmbeddingEndpoint, section: str) -> RequestTarget:
        """Return the target of an endpoint.

        Args:
            endpoint: settings.
            section: its name in a settings file, ``"chat"`` or ``"embeddings"``, for the message.

        Raises:
            ModelRefusedError: if no address is configured, and no key for OpenAI's, or ``OPENAI_BASE_URL`` is no
                address.
        """
        key = endpoint.api_key
        environment: tuple[str | None, ...] = ()
        if endpoint.base_url is None:
            environment = tuple(os.environ.get(f"OPENAI_{name}") for name in _ENVIRONMENT)
            _check_environment(environment[0])
            key = key or os.environ.get("OPENAI_API_KEY", "").strip()
            authorised = any(name.lower() == "authorization" for name in endpoint.headers)
            if not authorised and not (key and key.isascii() and key.isprintable() and " " not in key):
                raise ModelRefusedError(
                    f"there is no usable key for the model {endpoint.model!r} of OpenAI: set {section}.api_key "
                    f"({variable(section, 'API_KEY')}) or OPENAI_API_KEY, or the address of another endpoint in "
                    f"{section}.base_url ({variable(section, 'BASE_URL')})"
                )
        return cls(
            base_url=endpoint.base_url,
            api_key=key or PLACEHOLDER_KEY,
            headers=tuple(sorted(endpoint.headers.items())),
            max_retries=endpoint.max_retries,
            max_in_flight=endpoint.max_in_flight,
            most_bytes=_most_bytes(endpoint),
            environment=environment,
        )

    @property
    def url(self) -> str:
        """The address that requests go to."""
        return self.base_url or (self.environment and self.environment[0]) or OPENAI_URL

    @property
    def address(self) -> str:
        """The address as it may be shown: without a query."""
        url = urlsplit(self.url)
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"

    @property
    def is_openai(self) -> bool:
        """Whether the address is one of OpenAI's own."""
        host = urlsplit(self.address).hostname or ""
        return host == "openai.com" or host.endswith(".openai.com")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain: key, headers, organisation and project."""
        values = (
            self.api_key,
            *(value for _, value in self.headers),
            *(one or "" for one in self.environment[1:]),
        )
        words = {word for one in values for word in (one, *one.split())} - {PLACEHOLDER_KEY}
        return tuple(sorted((one for one in words if len(one) >= _SECRET_CHARS), key=len, reverse=True))


def _check_environment(url: str | None) -> None:
    try:
        if url:
            check_url(url, "OPENAI_BASE_URL")
    except ConfigError as exc:
        raise ModelRefusedError(str(exc)) from None


def _most_bytes(endpoint: ChatEndpoint | EmbeddingEndpoint) -> int:
    if isinstance(endpoint, ChatEndpoint):
        return MOST_CHAT_BYTES
    numbers = endpoint.batch * (endpoint.dimensions or MOST_DIMENSIONS)
    return (1 << 20) + numbers * BYTES_PER_NUMBER


_ENVIRONMENT = ("BASE_URL", "ORG_ID", "PROJECT_ID", "CUSTOM_HEADERS")
_SECRET_CHARS = 4
"""Shorter values are no secrets, and occur in ordinary words."""


def variable(section: str, setting: str) -> str:
    """Return the environment variable of a setting.

    Example:
        >>> variable("embeddings", "API_KEY")
        'MEMFOREST_EMBEDDING_API_KEY'
    """
    return f"MEMFOREST_{section.upper().removesuffix('S')}_{setting}"


def timeouts(seconds: float) -> Any:
    """Return the client's time-outs for one try of `seconds`; imports the client."""
    from openai import Timeout

    return Timeout(seconds, connect=min(seconds, CONNECT_TIMEOUT_S))


class _LoopClient:
    """A client in the event loop that it belongs to, and how it ends: once, whoever wants it first."""

    def __init__(self, client: AsyncOpenAI) -> None:
        self.client = client
        self.loop = asyncio.get_running_loop()
        self._closing: asyncio.Task[None] | None = None
        self._life = self._until_the_loop_ends()

    async def begin(self) -> None:
        """Make the client end with its loop."""
        _alive_clients.add(self)
        await self._life.__anext__()

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self.close()

    def start_closing(self) -> asyncio.Task[None]:
        """Close the client in a task of its own; call it in the client's loop."""
        if self._closing is None or self._closing.cancelled():
            self._closing = self.loop.create_task(self.client.close())
            self._closing.add_done_callback(self._closed)
        return self._closing

    def _closed(self, closing: asyncio.Task[None]) -> None:
        if not closing.cancelled():
            _alive_clients.discard(self)

    async def close(self) -> None:
        """Close the client, in its loop."""
        # asyncio.run cancels all tasks, ours too, before it winds the loop up; then it is done again.
        while not self.start_closing().done():
            await asyncio.wait([self.start_closing()])


_ByLoop = dict[asyncio.AbstractEventLoop, tuple[asyncio.Lock, dict[RequestTarget, _LoopClient]]]
"""The clients of each event loop, and the lock that lets one client be made at a time."""


class Clients:
    """Makes clients and keeps them, per event loop. Use it from any thread or event loop.

    Their connections are closed by `close`, when this object is collected, or with the loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin_anew()
        begins_anew_in_child(self)

    def _begin_anew(self) -> None:
        self._loops: _ByLoop = {}
        self._finalizer = weakref.finalize(self, _drop, self._loops)
        self._finalizer.atexit = False  # the loops are wound up by then

    async def get(self, target: RequestTarget) -> AsyncOpenAI:
        """Return the client of a target, for the loop that runs.

        Raises:
            ModelRefusedError: if no client can be made with these settings.
        """
        making, clients = self._here()
        held = clients.get(target)
        if held is None or held.client.is_closed():
            async with making:
                held = clients.get(target)
                if held is None or held.client.is_closed():
                    held = _LoopClient(await asyncio.to_thread(_make, target))
                    await held.begin()
                    clients[target] = held
        return held.client

    async def ask(
        self,
        place: ModelAddress,
        resource: str,
        body: Mapping[str, Any],
        reworded: Callable[[int, str], T | None],
    ) -> tuple[dict[str, Any], int] | T:
        """Send a request, and return what is said in reply and how often it was sent again; or how to ask instead.

        Args:
            place: which model is asked.
            resource: of the client: ``"chat.completions"`` or ``"embeddings"``.
            body: the arguments of the request.
            reworded: returns how to ask instead, by the status and the complaint of a server; None for not at all.

        Raises:
            ModelError: as `mapped` and `read_json`.
        """
        client = await self.get(place.target)
        from openai import APIStatusError

        with mapped(place):
            try:
                create = attrgetter(f"{resource}.with_raw_response.create")(client)
                raw = await create(**body, timeout=timeouts(place.timeout_s))
            except APIStatusError as exc:
                if (other := reworded(exc.status_code, complaint(exc))) is None:
                    raise
                return other
        return read_json(raw.http_response, place), raw.retries_taken

    async def close(self) -> None:
        """Close every connection; a later call opens new ones."""
        with self._lock:
            loops = dict(self._loops)
            self._loops.clear()
        here = asyncio.get_running_loop()
        for held in (one for _, clients in loops.values() for one in clients.values()):
            if held.loop is here:
                await held.close()
            elif held.loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(held.close(), held.loop)
                await asyncio.wait([asyncio.wrap_future(closing)], timeout=CLOSE_TIMEOUT_S)

    def _here(self) -> tuple[asyncio.Lock, dict[RequestTarget, _LoopClient]]:
        loop = asyncio.get_running_loop()
        with self._lock:
            # What ended without being wound up cannot be closed any more.
            for old in [one for one in self._loops if one.is_closed()]:
                _alive_clients.difference_update(self._loops.pop(old)[1].values())
            return self._loops.setdefault(loop, (asyncio.Lock(), {}))

    def after_fork_in_child(self) -> None:
        """Open connections of its own."""
        self._lock = threading.Lock()
        _left_behind.extend((self._loops, *_alive_clients))
        _alive_clients.clear()
        self._finalizer.detach()
        self._begin_anew()


def _drop(loops: _ByLoop) -> None:
    """Close the clients of an object that was collected; this may happen in any thread, at any moment."""
    for held in [one for _, clients in loops.values() for one in clients.values()]:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            held.loop.call_soon_threadsafe(held.start_closing)


def _make(target: RequestTarget) -> AsyncOpenAI:
    """Make a client; blocking, as it imports the package, resources included, and reads certificates."""
    import openai
    import openai.resources.chat
    import openai.resources.embeddings

    from memforest.models.openai_http import BoundedClient

    headers = dict(target.headers)
    hooks: dict[str, list[Callable[..., Awaitable[None]]]] = {}
    if target.base_url is not None:
        named = {name.lower(): value for name, value in target.headers}
        hooks["request"] = [_only({"authorization": f"Bearer {target.api_key}", **named})]
    most = target.max_in_flight
    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=most, max_keepalive_connections=most)
    try:
        return openai.AsyncOpenAI(
            api_key=target.api_key,
            base_url=target.url,
            max_retries=target.max_retries,
            default_headers=headers,
            http_client=BoundedClient(most_bytes=target.most_bytes, limits=limits, event_hooks=hooks),
        )
    # A proxy of an unknown kind, a missing file of certificates, an address in OPENAI_BASE_URL that is none.
    except (openai.OpenAIError, OSError, ValueError, TypeError, ImportError) as exc:
        raise ModelRefusedError(
            f"cannot connect to {target.address}: {type(exc).__name__}; look at the proxy, certificate and OPENAI_ "
            "variables of the environment"
        ) from exc


def _only(ours: Mapping[str, str]) -> Callable[..., Awaitable[None]]:
    """Return what takes all headers off a request that are neither ours nor HTTP's own."""

    async def clean(request: Any) -> None:
        for name in list(request.headers):
            if name not in _HTTP_HEADERS and not name.startswith(_CLIENT_HEADERS):
                del request.headers[name]
        request.headers.update(ours)

    return clean


_alive_clients: set[_LoopClient] = set()
"""Kept from being collected before they are closed."""
_left_behind: list[object] = []
"""What a child has inherited: closing it, even by collecting it, would speak on the parent's sockets."""


MOST_CHARS = 300
"""Of a server's own words in a message."""
AGAIN = frozenset({408, 409, 425, 429})
REFUSED = frozenset({401, 402, 403, 404, 405})


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """Which model is asked, where, and by which section of the settings; for messages."""

    target: RequestTarget
    model: str
    section: str
    timeout_s: float
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """Further texts that no message may hold."""

    def __str__(self) -> str:
        kind = {"chat": "chat model", "embeddings": "embedding model"}.get(self.section, "model")
        return f"the {kind} {self.model!r} at {self.target.address}"

    def setting(self, name: str) -> str:
        """Return how a setting is called, in a file and in the environment."""
        other = ", OPENAI_API_KEY" if name == "api_key" and self.target.base_url is None else ""
        return f"{self.section}.{name} ({variable(self.section, name.upper())}{other})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, as they are and as JSON writes them; the longest first."""
        told = {printable(one) for one in (*self.target.secrets, *self.hidden)} - {""}
        forms = told | {json.dumps(one, ensure_ascii=False)[1:-1] for one in told}
        return tuple(sorted(forms, key=len, reverse=True))

    def holds_secret(self, text: str) -> bool:
        """Return whether a secret stands in a text, in capitals or small letters and however often it is quoted."""
        bare = _bare(text)
        return any(_bare(secret) in bare for secret in self.secrets)

    def clean(self, text: str) -> str:
        """Return a text in one line, cut, without what is secret and what no terminal and no file can hold."""
        # What cannot be printed goes first: it may stand inside a secret.
        text = printable(text)
        if secrets := self.secrets:
            text = re.sub("|".join(map(re.escape, secrets)), "***", text, flags=re.IGNORECASE)
        return cut(text, MOST_CHARS)


@contextmanager
def mapped(place: ModelAddress) -> Iterator[None]:
    """Raise the client's errors as errors of memforest.

    Raises:
        ModelUnavailableError, ModelRefusedError, ModelRequestError: see above. The client's error is the cause,
            unless its text holds a secret.
    """
    from openai import OpenAIError

    try:
        yield
    except OpenAIError as exc:
        hidden = place.holds_secret(f"{exc} {exc.__cause__}")
        raise _ours(exc, place) from (None if hidden else exc)


def _bare(text: str) -> str:
    return printable(text).replace("\\", "").lower()


def _ours(exc: openai.OpenAIError, place: ModelAddress) -> ModelError:
    import openai

    if isinstance(exc, openai.APIStatusError):
        spent = exc.code == "insufficient_quota"  # comes as 429, and waiting does not help
        return _of_status(402 if spent else exc.status_code, _said(exc), _retries(exc), place)
    if isinstance(exc, openai.APIConnectionError):
        retries = _retries(exc)
        if isinstance(exc, openai.APITimeoutError):
            what = f"{place} gave no whole answer within {place.timeout_s:g} s"
            fix = f"check whether it is overloaded, or raise {place.section}.timeout_s"
        else:
            what = f"{place} cannot be reached: {place.clean(str(exc.__cause__ or exc))}"
            fix = f"start it, or mend {place.setting('base_url')}"
        return ModelUnavailableError(f"{what}{_tried(retries)}; {fix}", retries=retries)
    # The rest is raised for what is not asked for here: streams, parsed replies, web sockets, other ways to log in.
    return ModelRequestError(f"{place}: {type(exc).__name__}: {place.clean(str(exc))}")


def _of_status(status: int, said: str, retries: int, place: ModelAddress) -> ModelError:
    words = place.clean(said)
    what = f"{place} says {status}{': ' + words if words else ''}"
    if status in AGAIN or status >= 500:
        return ModelUnavailableError(
            f"{what}{_tried(retries)}; try again later", status=status, retries=retries
        )
    if status in REFUSED or status < 400:
        return ModelRefusedError(f"{what}; {_fix(status, place)}", status=status)
    return ModelRequestError(what, status=status)


def _fix(status: int, place: ModelAddress) -> str:
    if status == 401:
        return f"the key is wrong or missing: mend {place.setting('api_key')}"
    if status == 402:
        return f"the account has no credit: add some, or use another {place.setting('api_key')}"
    if status == 403:
        return f"the key has no permission for this model: mend {place.setting('api_key')} or {place.setting('model')}"
    if status == 404:
        return (
            f"there is no such model or address: mend {place.setting('model')} or {place.setting('base_url')}, "
            "which mostly ends in /v1"
        )
    return f"that is no address of this kind: mend {place.setting('base_url')}, which mostly ends in /v1"


def _tried(retries: int) -> str:
    return f" ({retries} {'retry' if retries == 1 else 'retries'})" if retries else ""


def _retries(exc: openai.APIError) -> int:
    """Return how often a failed request had been sent again: the client writes it on each."""
    count = exc.request.headers.get("x-stainless-retry-count", "")
    return int(count) if count.isdigit() else 0


def _said(exc: openai.APIStatusError) -> str:
    body: Any = exc.body
    if not isinstance(body, Mapping):
        return str(body or "")
    return _words(body.get("message") or body.get("detail") or body.get("error") or "")


def _words(said: Any) -> str:
    """Return what a server says, however it is nested."""
    try:
        return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return ""  # nothing that anybody could read


def complaint(exc: openai.APIStatusError) -> str:
    """Return what a server finds wrong with a request, in lower case, with the parameter that it names."""
    return f"{_said(exc)} {exc.param if isinstance(exc.param, str) else ''}".lower()


def read_json(response: Any, place: ModelAddress) -> dict[str, Any]:
    """Read the body of a successful reply.

    Raises:
        ModelRefusedError: if it is something else than JSON: the address is that of something else.
        ModelUnavailableError: if it is broken JSON, or longer than any reply of such a model.
        ModelError: if it tells of an error after all, as some gateways do.
    """
    from memforest.models.openai_http import CUT

    if CUT in response.extensions:
        most = f"{place.target.most_bytes / 1e6:,.0f} MB"
        what = f"{place} sent a reply of more than {most}, which was not read"
        raise ModelUnavailableError(f"{what}; check what runs at {place.setting('base_url')}", status=200)
    content: bytes = response.content
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as exc:
        if not content or content.lstrip()[:1] in (b"{", b"["):
            raise ModelUnavailableError(f"{place} sent a reply that is broken: {exc}", status=200) from exc
        body = None
    if not isinstance(body, dict):
        what = f"{place} does not answer with the JSON of an OpenAI-compatible endpoint"
        raise ModelRefusedError(f"{what}; {_fix(405, place)}", status=200)
    error = body.get("error")
    if error:
        code = error.get("code") if isinstance(error, Mapping) else None
        said = error.get("message") if isinstance(error, Mapping) else error
        status = code if isinstance(code, int) and 400 <= code <= 599 else 500
        raise _of_status(status, _words(said or error), 0, place)
    return body
