"""The trace of model calls: a line of JSON for each, with request and reply, and one for the statements refused of it.

A trace holds what users said. It is off unless a file is named, the file is readable by its owner alone, and a
redaction hook sees every record before it is written.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from memforest.clock import Clock
from memforest.errors import ConfigError, ModelError
from memforest.models.base import ChatReply, ChatRequest

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
            f"there can be no trace at {str(self._path)!r}: {why}; give trace= the path of a file in a directory "
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
        full: dict[str, Any] = {
            "at": self._clock().isoformat(),
            "operation": operation,
            "step": request.step,
            "model": model,
            "seconds": round(seconds, 6),
            "prompt_tokens": 0 if reply is None else reply.prompt_tokens,
            "completion_tokens": 0 if reply is None else reply.completion_tokens,
            "cached_tokens": 0 if reply is None else reply.cached_tokens,
            "finish": None if reply is None else reply.finish,
            "error": None if error is None else f"{type(error).__name__}: {error}",
            "messages": [{"role": one.role, "content": one.content} for one in request.messages],
            "reply": None if reply is None else reply.text,
        }
        self._put(full)

    def write_refused(
        self, operation: str, step: str, model: str, refused: Sequence[tuple[int, str, str]]
    ) -> None:
        """Append a record of the statements of a reply that were refused: number of the turn, statement, and reason of each.

        It has no messages and no reply; those are in the record of the call.

        Raises:
            TraceError: if it cannot be written, or the redaction hook fails.
        """
        self._put(
            {
                "at": self._clock().isoformat(),
                "operation": operation,
                "step": step,
                "model": model,
                "messages": [],
                "reply": None,
                "refused": [
                    {"turn": turn, "statement": text, "reason": reason} for turn, text, reason in refused
                ],
            }
        )

    def _put(self, full: dict[str, Any]) -> None:
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
