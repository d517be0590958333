"""An embedding model behind any endpoint that speaks OpenAI's embeddings."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memforest.endpoint import EmbeddingEndpoint
from memforest.errors import ModelError, ModelRequestError, ModelUnavailableError
from memforest.models.base import Vectors
from memforest.models.inputs import checked_texts, unit_rows
from memforest.models.ledger import counted, current_ledger
from memforest.models.openai_client import Clients, Target, timeouts
from memforest.models.openai_dialect import is_about_length
from memforest.models.openai_errors import Place, complaint, mapped, read_json
from memforest.spans import span
from memforest.tokens import count_tokens
from memforest.types import StepUsage

STEP = "embed"
"""What the calls are counted under."""
LEAST_CHARS = 200
"""A text is not cut below this; a server that refuses it still refuses it for another reason."""


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What the server takes: rows as base64 (shorter than numbers), and a length to cut them to."""

    base64: bool = True
    dimensions: bool = True

    def without(self, said: str, body: Mapping[str, Any]) -> _Dialect | None:
        """Return what to try after a complaint, None when it is about something else."""
        if "encoding_format" in said and body["encoding_format"] == "base64":
            return replace(self, base64=False)
        if ("dimension" in said or "matryoshka" in said) and "dimensions" in body:
            return replace(self, dimensions=False)
        return None


class _TooLong(Exception):
    """The server takes less text at once."""

    def __init__(self, error: ModelRequestError) -> None:
        super().__init__(str(error))
        self.error = error


class OpenAIEmbedder:
    """Embeds texts at an endpoint, in batches, several under way at once. Use it from any thread or event loop.

    Making one imports and connects nothing. A text that is longer than the model takes is cut to a half, a quarter
    and so on until it fits: the rest has no part in the vector. Every request is written to the current ledger, as
    step ``"embed"``. A key is sent as `ChatEndpoint.api_key` says.

    Args:
        endpoint: the model, and how to reach it.
    """

    remote = True
    """Many texts in one call cost less than many calls."""

    def __init__(self, endpoint: EmbeddingEndpoint) -> None:
        self.endpoint = endpoint
        shortened = "" if endpoint.dimensions is None else f"@{endpoint.dimensions}"
        self.model_id = f"openai:{endpoint.model}{shortened}"
        self.dimension = endpoint.dimensions or 0
        """Length of the rows; 0 until the first reply, unless `EmbeddingEndpoint.dimensions` asks for one."""
        self.query_prefix = endpoint.query_prefix
        self._clients = Clients()
        self._dialect = _Dialect()
        self._gates: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.endpoint!r})"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order; float32, shape (n, dimension). No text, no call.

        Texts that are the same are sent once.

        Raises:
            InputError: if `texts` is one string, or holds something else than strings.
            ModelUnavailableError: if the model cannot be reached, after retries.
            ModelRefusedError: if the key, the permission, the address or the model's name is wrong.
            ModelRequestError: if a text is not accepted.
            ModelError: if the reply is no matrix of finite rows of one length.
        """
        places: dict[str, int] = {}
        rows_of = [
            places.setdefault(text.encode("utf-8", "replace").decode("utf-8"), len(places))
            for text in checked_texts(texts)
        ]
        if not rows_of:
            return np.empty((0, self.dimension), dtype=np.float32)
        unique, size = list(places), self.endpoint.batch
        batches = [unique[at : at + size] for at in range(0, len(unique), size)]
        tasks = [asyncio.ensure_future(self._embed_batch(batch)) for batch in batches]
        try:
            parts = await asyncio.gather(*tasks)
        finally:
            # After a failure the others must not go on behind the caller's back.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if len({part.shape[1] for part in parts}) > 1:
            raise ModelError(f"embedder {self.model_id!r} returned vectors of different lengths")
        rows: Vectors = np.concatenate(parts)[rows_of]
        return rows

    async def embed_questions(self, texts: Sequence[str]) -> Vectors:
        """Return the rows of questions: `query_prefix` is put in front of each. Otherwise as `embed`."""
        return await self.embed([self.query_prefix + text for text in checked_texts(texts)])

    async def close(self) -> None:
        """Close the connections; a later `embed` opens new ones."""
        await self._clients.close()

    async def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        """Embed texts in one request; in smaller ones when the server finds it too long."""
        try:
            reply = await self._ask(texts)
        except _TooLong as exc:
            half = len(texts) // 2
            if half:
                parts = [await self._embed_batch(part) for part in (texts[:half], texts[half:])]
                return np.concatenate(parts)
            if len(texts[0]) <= LEAST_CHARS:
                raise exc.error from None
            return await self._embed_batch([texts[0][: max(len(texts[0]) // 2, LEAST_CHARS)]])
        return self._unit_rows(reply, len(texts))

    def _unit_rows(self, reply: list[Any], count: int) -> Vectors:
        """Return the rows of a reply as unit vectors of the length that is known, or learnt from it."""
        who = f"embedder {self.model_id!r}"
        rows = unit_rows(reply, count, self.endpoint.dimensions or 0, who)
        known, self.dimension = self.dimension, rows.shape[1]
        if known not in (0, self.dimension):
            # Which of the two is odd is not known: the memory, which has vectors, refuses the one that is not its.
            raise ModelError(f"{who} returned {self.dimension} numbers per text; expected {known}")
        return rows

    async def _ask(self, texts: Sequence[str]) -> list[Any]:
        """Send one request, again where the server does not understand it, and return the rows of its reply."""
        target = Target.of(self.endpoint, "embeddings")
        place = Place(target, self.endpoint.model, "embeddings", self.endpoint.timeout_s)
        used = StepUsage(calls=1)
        started = time.perf_counter()
        try:
            async with self._gate():
                started = time.perf_counter()
                while True:
                    spoken = self._dialect
                    with span(f"embeddings {self.endpoint.model}", self._about, kind="client") as current:
                        got = await self._try(place, spoken, texts)
                        if not isinstance(got, _Dialect):
                            current.set("gen_ai.usage.input_tokens", got[1])
                    if not isinstance(got, _Dialect):
                        break
                    # Requests under way together complain of different things.
                    now = self._dialect
                    self._dialect = _Dialect(now.base64 and got.base64, now.dimensions and got.dimensions)
                    used = replace(used, retries=used.retries + 1)
            rows, tokens, retries = got
            used = replace(used, prompt_tokens=tokens, retries=used.retries + retries)
        except _TooLong:
            used = StepUsage(retries=1)  # it is sent again, in parts
            raise
        except ModelError as exc:
            tried = exc.retries if isinstance(exc, ModelUnavailableError) else 0
            used = replace(used, failures=1, retries=used.retries + tried)
            raise
        finally:
            current_ledger().add(STEP, replace(used, seconds=time.perf_counter() - started))
        return rows

    @property
    def _about(self) -> dict[str, str | int | float | bool]:
        """What is known of a request before it is made."""
        return {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": self.endpoint.model,
        }

    async def _try(
        self, place: Place, spoken: _Dialect, texts: Sequence[str]
    ) -> tuple[list[Any], int, int] | _Dialect:
        """Return rows, tokens and retries, or how to ask instead."""
        client = await self._clients.get(place.target)
        from openai import APIStatusError

        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "input": list(texts),
            "encoding_format": "base64" if spoken.base64 else "float",
        }
        if self.endpoint.dimensions is not None and spoken.dimensions:
            body["dimensions"] = self.endpoint.dimensions
        with mapped(place):
            try:
                raw = await client.embeddings.with_raw_response.create(
                    **body, timeout=timeouts(self.endpoint.timeout_s)
                )
            except APIStatusError as exc:
                said = complaint(exc)
                other = spoken.without(said, body) if exc.status_code in (400, 422) else None
                if other is not None:
                    return other
                if exc.status_code == 413 or (exc.status_code in (400, 422) and is_about_length(said)):
                    what = f"{place} says {exc.status_code}: {place.clean(said)}"
                    raise _TooLong(ModelRequestError(what, status=exc.status_code)) from exc
                raise
        reply = read_json(raw.http_response, place)
        usage = reply.get("usage")
        reported = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
        tokens = counted(reported, sum(count_tokens(text) for text in texts))
        return _rows(reply.get("data"), place), tokens, raw.retries_taken

    def _gate(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        gate = self._gates.get(loop)
        if gate is None:
            gate = self._gates[loop] = asyncio.Semaphore(self.endpoint.max_in_flight)
        return gate


def _rows(data: Any, place: Place) -> list[Any]:
    """Return the rows of a reply in the order of the texts."""
    if not isinstance(data, list) or not all(isinstance(one, Mapping) for one in data):
        raise ModelError(f"{place} sent a reply without vectors")
    indices = [one.get("index") for one in data]
    if any(index is not None for index in indices):
        places = {index: at for at, index in enumerate(indices) if type(index) is int}
        if set(places) != set(range(len(data))):
            raise ModelError(
                f"{place} sent vectors whose indices are not 0 to {len(data) - 1}, each once: it cannot be told which "
                "text each belongs to"
            )
        data = [data[places[at]] for at in range(len(data))]
    return [_row(one.get("embedding"), place) for one in data]


def _row(value: Any, place: Place) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    except (binascii.Error, ValueError) as exc:
        raise ModelError(f"{place} sent a vector that is neither numbers nor base64 of them") from exc


_opened: weakref.WeakValueDictionary[tuple[Any, ...], OpenAIEmbedder] = weakref.WeakValueDictionary()


def open_embedding_endpoint(endpoint: EmbeddingEndpoint) -> OpenAIEmbedder:
    """Return the embedder of an endpoint; memories that are open with one endpoint share it, and its connections."""
    named = ((name, getattr(endpoint, name)) for name in EmbeddingEndpoint.__dataclass_fields__)
    key = tuple((name, tuple(sorted(v.items())) if isinstance(v, Mapping) else v) for name, v in named)
    embedder = _opened.get(key)
    if embedder is None:
        embedder = _opened[key] = OpenAIEmbedder(endpoint)
    return embedder
