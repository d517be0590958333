"""A line of JSON per model call, for those who want to see what was asked and answered.

A trace holds what users said. It is off unless a file is named, the file is readable by its owner alone, and a
redaction hook sees every record before it is written.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memforest.clock import Clock
from memforest.errors import ConfigError, ModelError
from memforest.models.base import ChatReply, ChatRequest

__all__ = ["Redact", "Trace"]

Redact = Callable[[dict[str, Any]], Mapping[str, Any] | None]
"""Gets a record and returns what is to be written of it; None for nothing."""


class Trace:
    """Appends records to a JSONL file; several processes may append to one.

    Args:
        path: the file; made when it does not exist, readable by its owner alone.
        clock: tells when.
        redact: sees every record first.
    """

    def __init__(self, path: str | Path, *, clock: Clock, redact: Redact | None = None) -> None:
        self._path = Path(path)
        self._clock = clock
        self._redact = redact
        self._lock = threading.Lock()

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
            ConfigError: if the file cannot be written.
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
        record = full if self._redact is None else self._redact(full)
        if record is None:
            return
        line = json.dumps(record, ensure_ascii=True) + "\n"
        try:
            with self._lock:
                # One write of one line, so that lines of several processes do not mix.
                file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    os.write(file, line.encode())
                finally:
                    os.close(file)
        except OSError as exc:
            raise ConfigError(f"cannot write the trace {self._path.name!r}: {exc.strerror}") from exc
