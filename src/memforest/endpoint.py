"""Where models are asked for over HTTP, and what an operation may spend on them: frozen settings.

Any server that speaks OpenAI's chat completions will do (OpenAI, vLLM, llama.cpp, Ollama, LiteLLM). Nothing here
connects to anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from memforest.errors import ConfigError

__all__ = ["STEPS", "Budget", "ChatEndpoint", "EmbeddingEndpoint"]

STEPS = ("extract", "judge", "summarise", "plan", "browse", "answer")
"""The steps that a chat model can do."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PER_STEP = ("model", "base_url", "api_key", "timeout_s", "temperature", "max_reply_tokens", "extra_body")


@dataclass(frozen=True, slots=True)
class Budget:
    """What one ingest or query may spend on models; None is no bound.

    `max_tokens` counts prompt and completion tokens together. A call is not begun when it is expected to pass the
    bound; as replies differ from what was expected, the sum may come out a little above it.
    """

    max_calls: int | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            ConfigError: if a bound is no whole number of at least 0.
        """
        for name in ("max_calls", "max_tokens"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise ConfigError(f"{name}={value!r}: give a whole number of at least 0, or None")

    def narrowed(self, max_calls: int | None, max_tokens: int | None) -> Budget:
        """Return the same budget with the bounds that are given in the place of its own."""
        return Budget(
            self.max_calls if max_calls is None else max_calls,
            self.max_tokens if max_tokens is None else max_tokens,
        )

    def less(self, calls: int, tokens: int) -> Budget:
        """Return what is left of it when so much has been spent."""
        return Budget(
            None if self.max_calls is None else max(self.max_calls - calls, 0),
            None if self.max_tokens is None else max(self.max_tokens - tokens, 0),
        )


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """A chat model behind an OpenAI-compatible endpoint.

    `steps` holds settings of single steps (see `STEPS`) that differ: any of ``model``, ``base_url``, ``api_key``,
    ``timeout_s``, ``temperature``, ``max_reply_tokens`` and ``extra_body``.
    """

    model: str
    """The model's name, as the endpoint knows it."""
    base_url: str | None = None
    """Where the endpoint is, up to and with ``/v1``; None is OpenAI's."""
    api_key: str | None = field(default=None, repr=False)
    """None sends no key to an endpoint that is named by `base_url`, and ``OPENAI_API_KEY`` to OpenAI's."""
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING, repr=False)
    """Sent with every request."""
    timeout_s: float = 120.0
    """How long one try may take, in seconds."""
    max_retries: int = 5
    """Tries after the first on 408, 409, 429, 5xx, time-outs and lost connections."""
    max_in_flight: int = 64
    """Most requests under way at once."""
    structured: Literal["auto", "schema", "json", "text"] = "auto"
    """How JSON is asked for: by a schema, as JSON without one, or in words alone; ``"auto"`` finds out."""
    temperature: float | None = 0.0
    """None sends none."""
    max_reply_tokens: int | None = None
    """Bounds every reply; None leaves the bound of each step."""
    extra_body: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Further fields of the request's body."""
    steps: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _NOTHING)
    """Step -> settings of it that differ."""

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            ConfigError: if a value is out of range, or an address is none.
        """
        _check_model(self.model, "chat model")
        _check_url(self.base_url)
        _check_numbers(self, {"max_retries": 0, "max_in_flight": 1}, ("timeout_s",))
        if self.structured not in ("auto", "schema", "json", "text"):
            raise ConfigError(f"structured={self.structured!r}: give 'auto', 'schema', 'json' or 'text'")
        for step, settings in self.steps.items():
            if step not in STEPS:
                raise ConfigError(f"there is no step {step!r}; known: {', '.join(STEPS)}")
            if unknown := sorted(set(settings) - set(_PER_STEP)):
                raise ConfigError(
                    f"step {step!r} has no setting {unknown[0]!r}; known: {', '.join(_PER_STEP)}"
                )
            _check_url(settings.get("base_url"))

    def for_step(self, step: str) -> ChatEndpoint:
        """Return the endpoint with a step's own settings in place."""
        own = self.steps.get(step)
        if not own:
            return self
        values = {one.name: getattr(self, one.name) for one in fields(self)} | dict(own)
        if "base_url" in own and "api_key" not in own:
            values["api_key"] = None  # a key is for one address
        return ChatEndpoint(**{**values, "steps": _NOTHING})


@dataclass(frozen=True, slots=True)
class EmbeddingEndpoint:
    """An embedding model behind an OpenAI-compatible endpoint.

    Its dimension is learnt from the first reply, stored with the memory, and checked from then on.
    """

    model: str
    """The model's name, as the endpoint knows it; recorded beside every vector."""
    base_url: str | None = None
    """Where the endpoint is, up to and with ``/v1``; None is OpenAI's."""
    api_key: str | None = field(default=None, repr=False)
    """As for `ChatEndpoint`."""
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING, repr=False)
    """Sent with every request."""
    timeout_s: float = 60.0
    """How long one try may take, in seconds."""
    max_retries: int = 5
    """Tries after the first."""
    max_in_flight: int = 8
    """Most requests under way at once."""
    batch: int = 64
    """Most texts of one request."""
    dimensions: int | None = None
    """Asked for from models that can shorten their vectors; None asks for none."""
    query_prefix: str = ""
    """Put in front of questions, for models that want an instruction there."""

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            ConfigError: if a value is out of range, or an address is none.
        """
        _check_model(self.model, "embedding model")
        _check_url(self.base_url)
        _check_numbers(self, {"max_retries": 0, "max_in_flight": 1, "batch": 1}, ("timeout_s",))
        if self.dimensions is not None:
            _check_numbers(self, {"dimensions": 1}, ())


def _check_model(value: Any, what: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"the {what} has no name; give the name that the endpoint knows it by")


def _check_url(value: Any) -> None:
    if value is None:
        return
    parts = urlsplit(value) if isinstance(value, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(f"base_url={value!r}: give an address such as 'http://127.0.0.1:8000/v1'")


def _check_numbers(settings: Any, least: Mapping[str, int], positive: tuple[str, ...]) -> None:
    for name, low in least.items():
        value = getattr(settings, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise ConfigError(f"{name}={value!r}: give a whole number of at least {low}")
    for name in positive:
        value = getattr(settings, name)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
            raise ConfigError(f"{name}={value!r}: give seconds above 0")
