"""Where models are asked for over HTTP, and what an operation may spend on them: frozen settings.

Any server that speaks OpenAI's chat completions will do (OpenAI, vLLM, llama.cpp, Ollama, LiteLLM). Nothing here
connects to anything.

No message and no ``repr`` shows a key, the value of a header or of a further field, or an address that is refused.


The steps that a chat model can do: a registry, which an index extends.

A step is declared only in data, and imports nothing. Its prompts are files, and the reader of its replies is named as
``"module:name"`` and imported when it is needed. The steps of an index are
registered by its module ``memforest.trees.NAME.steps``, which is imported when steps are first asked for, so that settings
know them before anything is opened.

"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from memforest.errors import ConfigError
from memforest.settings import Bound, Count, Settings, Whole, experimental, refuse_unknown

_NAME = re.compile(r"[a-z][a-z_]{0,30}")


@dataclass(frozen=True, slots=True)
class ChatStep:
    """A kind of request to a chat model, with its prompts and the types of their replies."""

    name: str
    """A lower-case word, as in `Config.chat_steps`, in usage and in traces."""
    does: str
    """What the model does, for people: "chooses the way down a tree"."""
    prompts: Mapping[str, str]
    """Id of each prompt -> ``"module:name"`` of the `Reply` that it asks for."""
    waits: bool = field(default=False, kw_only=True)
    """Whether somebody waits for the reply, as in a query: such a call goes before those of writes."""

    def reply(self, prompt: str) -> Any:
        """Return the type of the reply to one of its prompts."""
        return pkgutil.resolve_name(self.prompts[prompt])


_OWN = "memforest.reading.replies:"
_EXPLORE = "memforest.reading.explore_llm:"
STEPS: Mapping[str, ChatStep] = {
    step.name: step
    for step in (
        ChatStep(
            "extract",
            "reads statements out of turns",
            {"extract": f"{_OWN}Extraction"},
        ),
        ChatStep(
            "judge",
            "tells whether statements say the same",
            {"judge": f"{_OWN}Judgement"},
        ),
        ChatStep(
            "summarise",
            "summarises the nodes of trees",
            dict.fromkeys(
                (
                    "consolidate",
                    "hmem_memory",
                    "summarise_conversation",
                    "summarise_entity",
                    "summarise_scene",
                    "summarise_session",
                    "timem_segment",
                    "timem_session",
                    "timem_day",
                    "timem_week",
                ),
                f"{_OWN}Summary",
            )
            | {"hmem_profile": f"{_EXPLORE}EntityFile", "timem_profile": f"{_OWN}Profile"},
        ),
        ChatStep(
            "plan",
            "says what to look for: in each recalled tree, how much of a memory a question needs, or in which parts",
            {
                "hmem_plan": f"{_EXPLORE}QuestionParts",
                "plan": f"{_OWN}BrowseGuide",
                "timem_plan": f"{_OWN}QuestionNeeds",
            },
            waits=True,
        ),
        ChatStep(
            "browse",
            "chooses the way down a tree",
            {"browse": f"{_OWN}BrowseChoice"},
            waits=True,
        ),
        ChatStep(
            "answer",
            "answers from the evidence, also a question in parts",
            {
                "answer": f"{_OWN}AnswerReply",
                "hmem_answer": f"{_OWN}AnswerReply",
                "hmem_reason": f"{_EXPLORE}Reasoning",
            },
            waits=True,
        ),
        ChatStep(
            "sift",
            "chooses which recalled memories help with a question, where an index asks",
            {"timem_gate": f"{_OWN}Sifted"},
            waits=True,
        ),
    )
}
"""The steps that a chat model can do, by name, in order."""


def step_names() -> tuple[str, ...]:
    """Return the names of all steps, in order."""
    return tuple(STEPS)


def prompt_step(prompt: str) -> ChatStep | None:
    """Return the step that a prompt belongs to, None if it belongs to none."""
    return next((step for step in STEPS.values() if prompt in step.prompts), None)


_PER_STEP = (
    "model",
    "base_url",
    "api_key",
    "headers",
    "timeout_s",
    "temperature",
    "max_reply_tokens",
    "extra_body",
)
Seconds: TypeAlias = Annotated[float, Bound(gt=0)]
_ADDRESS = "give an address such as 'http://127.0.0.1:8000/v1'"


class Private(Mapping[str, Any]):
    """A read-only mapping whose ``repr`` shows the keys alone, as the values may be secret.

    It can be copied and pickled; a pickle holds the values.

    Example:
        >>> Private({"X-Key": "tenant-secret"})
        {'X-Key': ...}
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: ..." for key in self._values) + "}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Private, (self._values,)


@dataclass(frozen=True, slots=True)
class Budget(Settings):
    """What one ingest or query may spend on a chat model; None is no bound. Embeddings are counted, not bounded.

    `max_tokens` counts prompt and completion tokens together. A call is not begun when it is expected to pass the
    bound; as replies differ from what was expected, the sum may come out a little above it.
    """

    max_calls: Whole | None = None
    """Most calls; at least 0."""
    max_tokens: Whole | None = None
    """Most tokens of prompts and replies together; at least 0."""

    def narrowed(self, max_calls: int | None, max_tokens: int | None) -> Budget:
        """Return the same budget with the bounds that are given in the place of its own."""
        return Budget(
            self.max_calls if max_calls is None else max_calls,
            self.max_tokens if max_tokens is None else max_tokens,
        )

    def plus(self, other: Budget) -> Budget:
        """Return what both allow together."""

        def both(one: int | None, two: int | None) -> int | None:
            return None if one is None or two is None else one + two

        return Budget(both(self.max_calls, other.max_calls), both(self.max_tokens, other.max_tokens))

    def less(self, calls: int, tokens: int) -> Budget:
        """Return what is left of it when so much has been spent."""
        return Budget(
            None if self.max_calls is None else max(self.max_calls - calls, 0),
            None if self.max_tokens is None else max(self.max_tokens - tokens, 0),
        )


@dataclass(frozen=True, slots=True)
class Endpoint(Settings):
    """A model behind an OpenAI-compatible endpoint.

    An endpoint can be pickled, for a worker process; the pickle holds the key and the headers in plain text.
    """

    model: str
    """The model's name, as the endpoint knows it; that of an embedding model is recorded beside every vector."""
    base_url: str | None = None
    """Where the endpoint is, up to and with ``/v1``; None is OpenAI's."""
    api_key: str | None = field(default=None, repr=False)
    """None sends no key to an endpoint that is named by `base_url`, and ``OPENAI_API_KEY`` to OpenAI's."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request."""
    timeout_s: Seconds = 120.0
    """How long one try may take as a whole, from connecting to the last byte of the reply, in seconds."""
    max_retries: Whole = 5
    """Tries after the first on 408, 409, 429, 5xx, time-outs and lost connections; each may take `timeout_s`."""
    max_in_flight: Count = 128
    """Most requests under way at once. A write asks a chat model about as many as it has pairs of turns."""

    def _check(self) -> None:
        """Refuse what cannot be sent."""
        if not self.model.strip() or not self.model.isprintable():
            raise ConfigError(
                "the model has no name, or one that cannot be printed; give its name at the endpoint"
            )
        _keep_private(self, "headers")
        _check_place(self)


@dataclass(frozen=True, slots=True)
class ChatEndpoint(Endpoint):
    """A chat model behind an OpenAI-compatible endpoint.

    `steps` holds settings of single steps (see `STEPS`) that differ: any of ``model``, ``base_url``, ``api_key``,
    ``headers``, ``timeout_s``, ``temperature``, ``max_reply_tokens`` and ``extra_body``. A step with an address of
    its own gets neither the key nor the headers of the other.
    """

    structured: Literal["auto", "schema", "json", "text"] = "auto"
    """How JSON is asked for: by a schema, as JSON without one, or in words alone; ``"auto"`` finds out."""
    temperature: Annotated[float, Bound(ge=0)] | None = 0.0
    """None sends none. Not sent either to a model that says that it takes none."""
    max_reply_tokens: Count | None = None
    """Most tokens of every reply, thoughts included; None leaves the bound of each step."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request's body."""
    steps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Step -> settings of it that differ."""

    def _check(self) -> None:
        """Refuse what cannot be sent, and settings of single steps that are wrong."""
        Endpoint._check(self)
        _keep_private(self, "extra_body", "steps")
        _check_body(self.extra_body)
        for step, settings in self.steps.items():
            if step not in STEPS:
                raise ConfigError(f"unknown step {step!r}; known: {', '.join(STEPS)}")
            refuse_unknown(settings, dict.fromkeys(_PER_STEP), f"step {step!r}: ")
            try:
                self.for_step(step)
            except ConfigError as exc:
                raise ConfigError(f"step {step!r}: {exc}") from None

    def for_step(self, step: str) -> ChatEndpoint:
        """Return the endpoint with a step's own settings in place."""
        own = self.steps.get(step)
        if not own:
            return self
        values = {one.name: getattr(self, one.name) for one in fields(self)} | dict(own)
        if own.get("base_url", self.base_url) != self.base_url:
            # A key is for one address, and headers may hold one.
            values |= {"api_key": own.get("api_key"), "headers": own.get("headers", {})}
        return ChatEndpoint(**{**values, "steps": {}})


@dataclass(frozen=True, slots=True)
class EmbeddingEndpoint(Endpoint):
    """An embedding model behind an OpenAI-compatible endpoint.

    Its dimension is learnt from the first reply, stored with the memory, and checked from then on.
    """

    timeout_s: Seconds = 60.0
    """As for `Endpoint`."""
    max_in_flight: Count = 8
    """As for `Endpoint`."""
    batch: Count = experimental(64)
    """Most texts of one request."""
    dimensions: Count | None = None
    """Asked for from models that can shorten their vectors; None asks for none."""
    query_prefix: str = ""
    """Put in front of questions, for models that want an instruction there."""


def _keep_private(endpoint: Endpoint, *names: str) -> None:
    """Keep mappings as copies that do not show their values."""
    for name in names:
        object.__setattr__(endpoint, name, Private(getattr(endpoint, name)))


def _check_body(fields: Mapping[str, Any]) -> None:
    for key, value in fields.items():
        try:
            json.dumps({key: value}, allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError):
            raise ConfigError(
                f"extra_body: {key!r} has a value that JSON cannot hold; give JSON values"
            ) from None


def _check_place(endpoint: Endpoint) -> None:
    """Refuse an address, key or header that cannot be sent; a message never holds a key."""
    if endpoint.base_url is not None:
        check_url(endpoint.base_url, "base_url")
    if endpoint.api_key is not None and not _is_plain(endpoint.api_key):
        raise ConfigError("api_key is empty or holds a space, a line break or a letter outside ASCII")
    for name, value in endpoint.headers.items():
        if not _is_plain(name):
            raise ConfigError(
                "the name of a header is empty or holds a space, a line break or a letter outside ASCII"
            )
        if not all(" " <= ch <= "~" for ch in value):
            raise ConfigError(f"the header {name!r} holds a line break or a letter outside ASCII")


def _is_plain(value: str) -> bool:
    return bool(value) and all("!" <= ch <= "~" for ch in value)


def check_url(value: str, name: str) -> None:
    """Refuse what requests cannot be sent to.

    Args:
        value: an address.
        name: where it is set, for the message, which never shows the address: it may hold a secret.

    Raises:
        ConfigError: if it is no address of a server, or has a user name, a password, a query or a fragment.
    """
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ConfigError(f"{name} is not an address; {_ADDRESS}") from None
    if "@" in parts.netloc:
        raise ConfigError(f"{name} holds a user name or a password; give them in headers instead")
    if "?" in value or "#" in value:
        raise ConfigError(
            f"{name} has a query ('?') or a fragment ('#'), so no path can follow it; leave it out, and give "
            "a key as api_key or in headers"
        )
    if not usable or not all("!" <= ch <= "~" for ch in value):
        raise ConfigError(f"{name} is not the address of a server; {_ADDRESS}")
