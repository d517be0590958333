"""The one way to a chat model: bounded in flight, counted, within budget, traced.

Steps call `Calls.complete`; what stands behind it is any `ChatModel`.


The trace of model calls: a line of JSON for each, with request and reply, and one for the statements refused of it.

A trace holds what users said. It is off unless a file is named, the file is readable by its owner alone, and a
redaction hook sees every record before it is written.

"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from memforest.concurrency import PerLoop
from memforest.endpoint import STEPS
from memforest.errors import ConfigError, ModelError, ModelRefusedError, ModelUnavailableError, StepError
from memforest.models.ledger import Ledger, counted, current_ledger
from memforest.ports import ChatModel, ChatReply, ChatRequest
from memforest.records import StepUsage
from memforest.spans import model_span
from memforest.text import count_tokens
from memforest.times import Clock

Redact = Callable[[dict[str, Any]], Mapping[str, Any] | None]
"""Gets a record and returns what is to be written of it; None for nothing."""

_FLAGS = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""A link is not followed, as it may lead anywhere; a pipe without a reader is an error, not a wait for one."""


class TraceError(Exception):
    """A record could not be written. What it is about has been done and paid for, so this ends no operation."""


class Trace:
    """Appends records to a JSONL file; several processes may append to one.

    Args:
        path: the file; made with the first record, readable by its owner alone. One that exists is made so.
        clock: tells when.
        redact: sees every record first.
    """

    def __init__(self, path: str | Path, *, clock: Clock, redact: Redact | None = None) -> None:
        self._path = Path(path)
        self._clock = clock
        self._redact = redact
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise if no trace can be written at the path, before a model is paid for a call.

        Raises:
            ConfigError: if its directory does not exist or cannot be written, or if it is a directory itself, a link,
                or another user's file.
        """
        try:
            os.close(self._open())
            return
        except FileNotFoundError:
            # It is made with the first record.
            if os.access(self._path.parent, os.W_OK):
                return
            why = f"the directory {self._path.parent.name!r} does not exist or cannot be written"
        except (OSError, ValueError) as exc:
            why = _why(exc)
        raise ConfigError(
            f"cannot write a trace to {str(self._path)!r}: {why}; give trace= the path of a file in a directory "
            "that exists; links are not followed"
        )

    def write(
        self,
        operation: str,
        model: str,
        request: ChatRequest,
        reply: ChatReply | None,
        error: ModelError | None,
        seconds: float,
    ) -> None:
        """Append one record.

        Raises:
            TraceError: if it cannot be written, or the redaction hook fails.
        """
        told = {
            "seconds": round(seconds, 6),
            "prompt_tokens": 0 if reply is None else reply.prompt_tokens,
            "completion_tokens": 0 if reply is None else reply.completion_tokens,
            "cached_tokens": 0 if reply is None else reply.cached_tokens,
            "finish": None if reply is None else reply.finish,
            "error": None if error is None else f"{type(error).__name__}: {error}",
            "messages": [{"role": one.role, "content": one.content} for one in request.messages],
            "reply": None if reply is None else reply.text,
        }
        self._put(operation, request.step, model, told)

    def write_refused(
        self, operation: str, step: str, model: str, refused: Sequence[tuple[int, str, str]]
    ) -> None:
        """Append a record of the statements of a reply that were refused: number of the turn, statement, and reason of each.

        It has no messages and no reply; those are in the record of the call.

        Raises:
            TraceError: if it cannot be written, or the redaction hook fails.
        """
        rows = [{"turn": turn, "statement": text, "reason": reason} for turn, text, reason in refused]
        self._put(operation, step, model, {"messages": [], "reply": None, "refused": rows})

    def _put(self, operation: str, step: str, model: str, told: Mapping[str, Any]) -> None:
        head = {"at": self._clock().isoformat(), "operation": operation, "step": step, "model": model}
        full = {**head, **told}
        try:
            record = full if self._redact is None else self._redact(full)
            line = None if record is None else json.dumps(record, ensure_ascii=True) + "\n"
        except Exception as exc:
            # The hook is foreign code, which may raise anything; nothing of the record is written then.
            raise TraceError(
                f"a record of the trace was left out: redact failed: {type(exc).__name__}"
            ) from exc
        if line is None:
            return
        try:
            self._append(line.encode())
        except (OSError, ValueError) as exc:
            raise TraceError(f"cannot write the trace {self._path.name!r}: {_why(exc)}") from exc

    def _append(self, line: bytes) -> None:
        with self._lock:
            file = self._open(os.O_CREAT)
            try:
                # One write of one line, so that lines of several processes do not mix.
                if os.write(file, line) < len(line):
                    raise OSError(0, "the disk took a part of a line only")
            finally:
                os.close(file)

    def _open(self, create: int = 0) -> int:
        """Open the file and return its descriptor; nobody but its owner may read it from then on."""
        file = os.open(self._path, _FLAGS | create, 0o600)
        try:
            mode = os.fstat(file).st_mode
            if hasattr(os, "fchmod") and stat.S_ISREG(mode) and stat.S_IMODE(mode) & 0o077:
                os.fchmod(file, 0o600)
        except OSError:
            os.close(file)
            raise
        return file


def _why(exc: OSError | ValueError) -> str:
    return exc.strerror or str(exc) if isinstance(exc, OSError) else str(exc)


_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # where nobody listens, the result's warnings say it


class Calls:
    """Sends requests to a chat model.

    Args:
        model: answers them.
        max_in_flight: most requests under way at once in one event loop, at least 1.
        trace: gets a record of every call; None for none.
        close: gives back what the model holds open; None leaves that to whoever made the model.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        max_in_flight: int = 128,
        trace: Trace | None = None,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._model = model
        self._close = close
        self._trace = trace
        self._gates = PerLoop(partial(_Gate, max_in_flight))

    @property
    def model_id(self) -> str:
        """Id of the model, recorded with what is made by it."""
        return self._model.model_id

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the model's reply, and write down what it cost, as a failure too.

        A trace that cannot be written costs no reply: the operation is warned of it, once.

        Raises:
            BudgetError: if the operation may not spend more.
            StepError: if the model returns something else than a `ChatReply`.
            ModelUnavailableError, ModelRefusedError, ModelRequestError: as `ChatModel.complete`. After a
                refusal every further call of the operation gets it at once, without reaching the model.
        """
        ledger = current_ledger()
        tokens = _tokens(request)
        async with self._gates.get().turn(_rank(request.step, ledger.operation), tokens):
            reserved = ledger.admit(request.step, tokens)
            started = time.perf_counter()
            reply: ChatReply | None = None
            error: ModelError | None = None
            try:
                # What is behind a function of the caller's is not known here.
                provider = getattr(self._model, "provider_name", "custom")
                with model_span("chat", provider, self.model_id, kind="client", step=request.step) as current:
                    reply = _checked(await self._model.complete(request), request, self.model_id)
                    current.set("gen_ai.usage.input_tokens", reply.prompt_tokens)
                    current.set("gen_ai.usage.output_tokens", reply.completion_tokens)
                return reply
            except ModelError as exc:
                error = exc
                if isinstance(exc, ModelRefusedError):
                    ledger.stop(exc)
                raise
            finally:
                seconds = time.perf_counter() - started
                ledger.record(request.step, reserved, _usage(request, reply, error, seconds))
                told = (ledger.operation, self.model_id, request, reply, error, seconds)
                self._traced(ledger, lambda to: to.write(*told))

    def _traced(self, ledger: Ledger, write: Callable[[Trace], None]) -> None:
        """Write to the trace, if there is one; warn of what cannot be written."""
        if self._trace is None:
            return
        try:
            write(self._trace)
        except TraceError as exc:
            if ledger.warn(str(exc)):
                _log.warning("%s", exc)

    def trace_refused(self, step: str, refused: Sequence[tuple[int, str, str]]) -> None:
        """Add to the trace which statements of a reply were refused; nothing if none was, or without a trace.

        Args:
            step: that refused them.
            refused: number of the turn, statement, and reason of each.
        """
        if self._trace is not None and refused:
            ledger = current_ledger()
            self._traced(ledger, lambda to: to.write_refused(ledger.operation, step, self.model_id, refused))

    def check_trace(self) -> None:
        """Refuse a trace that can never be written; see `Trace.check`.

        Raises:
            ConfigError: if there is one.
        """
        if self._trace is not None:
            self._trace.check()

    async def close(self) -> None:
        """Give back what the model holds open; a later call opens it again."""
        if self._close is not None:
            await self._close()


def _rank(step: str, operation: str) -> int:
    """Return the priority of a call, smallest first: questions, then writes, then background work."""
    known = STEPS.get(step)
    if known is not None and known.waits:
        return 0
    return 2 if operation == "refresh" else 1


class _Gate:
    """Lets so many in at once; of those who wait, the first ranks before others, and long requests before short ones.

    A long one that is begun last is what everybody waits for at the end (longest processing time first: Graham 1969,
    https://doi.org/10.1137/0117039).
    """

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: list[tuple[int, int, int, asyncio.Future[None]]] = []
        self._count = 0

    @asynccontextmanager
    async def turn(self, rank: int, tokens: int) -> AsyncIterator[None]:
        """Wait for a turn, and give it back at the end."""
        if self._free:
            self._free -= 1
        else:
            called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._count += 1
            heappush(self._waiting, (rank, -tokens, self._count, called))
            try:
                await called
            except asyncio.CancelledError:
                if called.done() and not called.cancelled():
                    self._give_back()
                raise
        try:
            yield
        finally:
            self._give_back()

    def _give_back(self) -> None:
        while self._waiting:
            called = heappop(self._waiting)[-1]
            if not called.done():
                called.set_result(None)
                return
        self._free += 1


def _checked(reply: Any, request: ChatRequest, model_id: str) -> ChatReply:
    """Return a reply with valid usage counts; implausible ones are replaced by estimates."""
    if not isinstance(reply, ChatReply) or not isinstance(reply.text, str):
        raise StepError(
            f"the chat model {model_id!r} returned {type(reply).__name__}, not a ChatReply with a text"
        )
    prompt = counted(reply.prompt_tokens, _tokens(request))
    return replace(
        reply,
        prompt_tokens=prompt,
        completion_tokens=counted(reply.completion_tokens, count_tokens(reply.text)),
        cached_tokens=min(counted(reply.cached_tokens, 0), prompt),
        retries=counted(reply.retries, 0),
    )


def _tokens(request: ChatRequest) -> int:
    return sum(count_tokens(message.content) for message in request.messages)


def _usage(
    request: ChatRequest, reply: ChatReply | None, error: ModelError | None, seconds: float
) -> StepUsage:
    """Return what a call cost; one that was cancelled, or failed, costs no tokens that we know of."""
    if reply is None:
        retries = error.retries if isinstance(error, ModelUnavailableError) else 0
        return StepUsage(calls=1, failures=int(error is not None), retries=retries, seconds=seconds)
    prefix = count_tokens(request.messages[0].content) if request.messages else 0
    share = prefix / max(_tokens(request), 1)
    return StepUsage(
        calls=1,
        retries=reply.retries,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        cached_tokens=reply.cached_tokens,
        prefix_tokens=round(share * reply.prompt_tokens),
        seconds=seconds,
    )
