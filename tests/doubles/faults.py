"""What goes wrong at a model endpoint, and when: faults, and schedules that say which calls meet them.

Schedules that throw dice do it per request and try, from a seed, so that the same requests meet the same faults in
whatever order they arrive.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memforest.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong with a call; made by the class methods.

    Faults of the content (`malformed_json`, `truncated`, `empty`, `wrong_schema`, `prompt_echo`) come with
    status 200, as from a model that does badly. An embeddings call has no such text: there `malformed_json`
    breaks the body, `truncated` leaves out half of the rows and `empty` all of them, `wrong_schema` cuts a number
    off every row, and `prompt_echo` does nothing.
    """

    name: str
    code: int | None = None
    retry_after_s: float | None = None
    seconds: float = 0.0
    sent_share: float = -1.0

    @classmethod
    def malformed_json(cls) -> Fault:
        """The reply's text is no JSON: colons and the last brackets are missing, and another opens."""
        return cls("malformed_json")

    @classmethod
    def truncated(cls) -> Fault:
        """The reply stops in the middle, with `finish_reason` ``"length"``."""
        return cls("truncated")

    @classmethod
    def empty(cls) -> Fault:
        """The reply has no text."""
        return cls("empty")

    @classmethod
    def wrong_schema(cls) -> Fault:
        """The reply is JSON, but nothing that was asked for."""
        return cls("wrong_schema")

    @classmethod
    def prompt_echo(cls) -> Fault:
        """The reply is the last message of the prompt."""
        return cls("prompt_echo")

    @classmethod
    def status(cls, code: int, *, retry_after_s: float | None = None) -> Fault:
        """The call is refused with an HTTP status, and told when to come back if `retry_after_s` is given.

        Raises:
            ConfigError: if the status is none of an error (400 to 599).
        """
        if not 400 <= code <= 599:
            raise ConfigError(f"status {code!r} is no error; give one of 400 to 599")
        return cls("status", code=code, retry_after_s=retry_after_s)

    @classmethod
    def timeout(cls, seconds: float) -> Fault:
        """The reply comes, but only after so many seconds more."""
        return cls("timeout", seconds=seconds)

    @classmethod
    def drop(cls, sent_share: float = -1.0) -> Fault:
        """The connection is closed instead of a reply, or after a part of the body, from 0 to 1, was sent."""
        return cls("drop", sent_share=sent_share)

    @classmethod
    def kill(cls) -> Fault:
        """The server goes away: every connection breaks and none is accepted, until `ChatServer.revive`."""
        return cls("kill")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call as a schedule sees it.

    `number` counts the calls for replies and embeddings from 1, in order of arrival; `try_number` counts the calls
    with the same body from 1.
    """

    number: int
    try_number: int
    body: Mapping[str, Any]
    digest: bytes = b""


When = Callable[[Mapping[str, Any]], bool]


def _always(_: Mapping[str, Any]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Schedule:
    """Says which calls meet which fault; made by the class methods.

    `when` narrows a schedule to requests whose parsed body it accepts, e.g. those of one step
    (`tests.doubles.step_of`).
    """

    pick: Callable[[Attempt], Fault | None]

    @classmethod
    def at(cls, faults: Mapping[int, Fault]) -> Schedule:
        """By the number of the call, from 1: ``{3: Fault.empty()}`` is the third."""
        return cls(lambda attempt: faults.get(attempt.number))

    @classmethod
    def every(cls, n: int, fault: Fault, *, when: When = _always) -> Schedule:
        """Every nth call: 1 is all of them.

        Raises:
            ConfigError: if `n` is below 1.
        """
        if n < 1:
            raise ConfigError(f"every {n!r} calls: give at least 1")
        return cls(lambda attempt: fault if attempt.number % n == 0 and when(attempt.body) else None)

    @classmethod
    def first(cls, n: int, fault: Fault, *, when: When = _always) -> Schedule:
        """The first `n` tries of every distinct request: what is tried once more succeeds."""
        return cls(lambda attempt: fault if attempt.try_number <= n and when(attempt.body) else None)

    @classmethod
    def rate(
        cls, share: float, faults: Fault | Sequence[Fault], *, seed: int = 0, when: When = _always
    ) -> Schedule:
        """A share of the calls, from 0 to 1, drawn from a seed; one of several faults is drawn as well.

        Raises:
            ConfigError: if the share is out of range, or no fault is given.
        """
        several = [faults] if isinstance(faults, Fault) else list(faults)
        if not 0 <= share <= 1 or not several:
            raise ConfigError(
                f"share={share!r} of {len(several)} faults: give 0 to 1, and at least one fault"
            )

        def pick(attempt: Attempt) -> Fault | None:
            drawn, which = _draw(seed, attempt)
            return several[which % len(several)] if drawn < share and when(attempt.body) else None

        return cls(pick)

    @classmethod
    def when(cls, accepts: When, fault: Fault) -> Schedule:
        """Every call whose parsed body is accepted."""
        return cls(lambda attempt: fault if accepts(attempt.body) else None)


Faults = Mapping[int, Fault] | Schedule | Sequence[Schedule]
"""Faults by the number of the call, a schedule, or several, of which the first that has a fault for a call counts."""


def pick_fault(faults: Faults, attempt: Attempt) -> Fault | None:
    """Return the fault that a call meets, if any."""
    if isinstance(faults, Mapping):
        return faults.get(attempt.number)
    if isinstance(faults, Schedule):
        return faults.pick(attempt)
    return next((fault for one in faults if (fault := one.pick(attempt)) is not None), None)


def spoiled(fault: Fault | None, text: str, prompt: str) -> tuple[str, bool]:
    """Return a reply's text as a fault of the content leaves it, and whether it was cut in the middle."""
    name = None if fault is None else fault.name
    if name == "malformed_json":
        # Beyond repair wherever a parser stands: a line break may not be inside a string, nor a comma come first.
        return text.replace('":', '"').rstrip().rstrip("}]") + ",\n{", False
    if name == "truncated":
        return text[: len(text) // 2], True
    if name == "empty":
        return "", False
    if name == "wrong_schema":
        return '{"unexpected": [1, "two", null]}', False
    if name == "prompt_echo":
        return prompt, False
    return text, False


def _draw(seed: int, attempt: Attempt) -> tuple[float, int]:
    """Return a number in [0, 1) and a whole one that depend on the seed, the request and the try alone."""
    text = f"{seed}:{attempt.try_number}:".encode() + attempt.digest
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return int.from_bytes(digest[:8], "big") / 2**64, int.from_bytes(digest[8:], "big")
