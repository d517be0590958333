"""Spans for OpenTelemetry, where its API is installed; otherwise nothing is done and nothing imported.

Names and attributes are those of the GenAI conventions for memory (``gen_ai.memory.client``) and for models (``chat``,
``embeddings``), which are in development: a later version of them may need other names here. A span holds no text of a
turn, a question or an error unless `CAPTURE` asks for that, and no id of a user: `store_id` is what names a memory.

Source: https://github.com/open-telemetry/semantic-conventions-genai (v0.1.0)

"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from hashlib import blake2b
from typing import Any, Literal

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that lets spans hold texts: of questions, and of what was found."""
_ON = frozenset(("true", "1", "span_only", "span_and_event"))

PROVIDER = "memforest"
"""Who does what is not done elsewhere, in ``gen_ai.provider.name``."""

Value = str | int | float | bool
Kind = Literal["internal", "client"]


class Span:
    """What is under way; attributes are added to it. Without OpenTelemetry it does nothing."""

    __slots__ = ("_inner", "recording")

    def __init__(self, inner: Any = None) -> None:
        self._inner = inner
        self.recording = inner is not None and bool(inner.is_recording())
        """Whether anybody will see it: attributes that cost something are worked out for such a one alone."""

    def set(self, name: str, value: Value | None) -> None:
        """Add an attribute; None adds nothing."""
        if self._inner is not None and value is not None:
            self._inner.set_attribute(name, value)

    def fail(self, error: BaseException) -> None:
        """Mark it as failed, by the error's class alone: messages quote what callers gave."""
        if self._inner is not None:
            self._inner.set_attribute("error.type", type(error).__name__)
            self._inner.set_status(_api().StatusCode.ERROR)


_NOTHING = Span()


@contextmanager
def span(name: str, attributes: Mapping[str, Value], *, kind: Kind = "internal") -> Iterator[Span]:
    """Record what is done in this context as a span below the one that is under way.

    Args:
        name: of the span.
        attributes: those that are known when it begins.
        kind: ``"client"`` for a call of another service.
    """
    api = _api()
    if api is None:
        yield _NOTHING
        return
    kinds = api.SpanKind
    with api.get_tracer("memforest").start_as_current_span(
        name,
        kind=kinds.CLIENT if kind == "client" else kinds.INTERNAL,
        attributes=attributes,
        record_exception=False,  # it would write messages and stack traces into the span
        set_status_on_exception=False,
    ) as inner:
        found = Span(inner) if inner.is_recording() else _NOTHING
        try:
            yield found
        except BaseException as exc:
            found.fail(exc)
            raise


def model_span(
    operation: str, provider: str, model: str, *, kind: Kind = "internal", **more: Value
) -> AbstractContextManager[Span]:
    """Return the span of a call of a model.

    Args:
        operation: ``"chat"`` or ``"embeddings"``.
        provider: who runs the model, or what its endpoint speaks.
        model: its id.
        kind: as for `span`.
        **more: attributes of our own, whose names begin with ``memforest.``.
    """
    told = {f"memforest.{name}": value for name, value in more.items()}
    about = {"operation.name": operation, "provider.name": provider, "request.model": model}
    told |= {f"gen_ai.{name}": value for name, value in about.items()}
    return span(f"{operation} {model}", told, kind=kind)


def prepare() -> None:
    """Import what the first span would."""
    _api()


def captures() -> bool:
    """Return whether spans may hold texts, as `CAPTURE` says now."""
    return os.environ.get(CAPTURE, "").lower() in _ON


def store_id(user_id: str) -> str:
    """Return what names a user's memory in a span: a digest, which is also in the name of its file.

    Example:
        >>> store_id("Ana") == store_id("Ana"), "Ana" in store_id("Ana"), len(store_id("Ana"))
        (True, False, 20)
    """
    return blake2b(user_id.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


@cache
def _api() -> Any:
    """Return OpenTelemetry's module of traces; None where it is not installed."""
    try:
        return importlib.import_module("opentelemetry.trace")
    except ImportError:
        return None
