"""The HTTP double in a process of its own, so that it shares nothing with the client but the machine.

The parent says over a pipe which cost model to serve and gets the address back, and afterwards what was served. The
double answers memforest's steps by its own local rules and mem0's in mem0's form; what it has answered once it
remembers, so that after a run without waiting its thinking is no part of any time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from tests.doubles import ChatServer, Fault, Latency, Schedule, ServedCall, local_reply, step_of

from writing.costs import EMBED, CostModel
from writing.mem0_replies import is_mem0, reply_to_mem0

__all__ = ["DIMENSION", "Double", "Served", "most_at_once", "served"]

DIMENSION = 384
"""Of the vectors: that of MiniLM."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the double has served. `late_s` is the most by which a chat reply was later than declared."""

    chat_calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    most_in_flight: int
    embedding_calls: int
    embedding_tokens: int
    chat_s: float
    embedding_s: float
    late_s: float
    refused: int


def most_at_once(intervals: Sequence[tuple[float, float]]) -> int:
    """Return the most intervals [start, end) that overlap anywhere.

    Example:
        >>> most_at_once([(0, 2), (1, 3), (2, 4)])
        2
    """
    events = sorted([(end, -1) for _, end in intervals] + [(start, 1) for start, _ in intervals])
    now = most = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def served(calls: Sequence[ServedCall], cost: Latency) -> Served:
    """Return the sums over what a server has served."""
    ended = [call for call in calls if call.ended_s is not None]
    chat = [call for call in ended if call.path.endswith("/chat/completions")]
    embeddings = [call for call in ended if call.path.endswith("/embeddings")]
    spans = [(call.arrived_s, call.ended_s or call.arrived_s) for call in chat]
    late = [
        end - start - cost.seconds(call.prompt_tokens, call.completion_tokens, call.cached_tokens)
        for call, (start, end) in zip(chat, spans, strict=True)
    ]
    return Served(
        chat_calls=len(chat),
        prompt_tokens=sum(call.prompt_tokens for call in chat),
        completion_tokens=sum(call.completion_tokens for call in chat),
        cached_tokens=sum(call.cached_tokens for call in chat),
        most_in_flight=most_at_once(spans),
        embedding_calls=len(embeddings),
        embedding_tokens=sum(call.prompt_tokens for call in embeddings),
        chat_s=sum(end - start for start, end in spans),
        embedding_s=sum((call.ended_s or call.arrived_s) - call.arrived_s for call in embeddings),
        late_s=max(late, default=0.0),
        refused=sum(call.status != 200 for call in (*chat, *embeddings)),
    )


class Double:
    """The child process, from the parent's side; a context manager that ends it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Double:
        """Start the process."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "writing.server"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        if self._process is not None:
            self._process.__exit__(kind, error, trace)  # closes the pipes, at which it ends, and waits

    def serve(self, cost: CostModel | None, *, spoil: Mapping[str, float] | None = None) -> str:
        """Serve at a new address, and return it.

        Args:
            cost: how long calls take; None serves without waiting.
            spoil: step of memforest -> share of its replies, from 0 to 1, that are something else than asked for.
        """
        order = {"do": "serve", "cost": None if cost is None else asdict(cost), "spoil": dict(spoil or {})}
        return str(self._ask(order)["url"])

    def served(self) -> Served:
        """Return what was served at the last address so far."""
        return Served(**self._ask({"do": "served"}))

    def forget(self) -> None:
        """Count anew from here."""
        self._ask({"do": "forget"})

    def _ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("the double does not run; use it in a with statement")
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the double has ended, with exit code {process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found


_KNOWN: dict[str, str] = {}


def reply(body: dict[str, Any]) -> str:
    """Answer a chat request of either system."""
    key = json.dumps(body["messages"], sort_keys=True)
    text = _KNOWN.get(key)
    if text is None:
        prompt = str(body["messages"][-1]["content"])
        text = _KNOWN[key] = reply_to_mem0(prompt) if is_mem0(prompt) else local_reply(body)
    return text


def _spoiling(spoil: Mapping[str, float]) -> list[Schedule]:
    def of(step: str) -> Callable[[Mapping[str, Any]], bool]:
        return lambda body: step_of(body) == step

    return [Schedule.rate(share, Fault.wrong_schema(), when=of(step)) for step, share in spoil.items()]


def _serve(order: Mapping[str, Any]) -> tuple[ChatServer, CostModel]:
    waits = order["cost"] is not None
    cost = CostModel(**order["cost"]) if waits else CostModel()
    server = ChatServer(
        reply,
        latency=cost,
        embedding_latency=EMBED if waits else None,
        faults=_spoiling(order["spoil"]),
        embedding_dimension=DIMENSION,
        keep_bodies=False,
    )
    return server.start(), cost


def _main() -> int:
    """Serve what the parent orders, until it closes the pipe."""
    server, cost = _serve({"cost": None, "spoil": {}})
    for line in sys.stdin:
        order = json.loads(line)
        answer: dict[str, Any] = {}
        if order["do"] == "serve":
            server.stop()
            server, cost = _serve(order)
            answer = {"url": server.url}
        elif order["do"] == "forget":
            server.calls.clear()
        else:
            answer = asdict(served(server.calls, cost))
        print(json.dumps(answer), flush=True)
    server.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(_main())
