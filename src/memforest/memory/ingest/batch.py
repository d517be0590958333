"""Sessions on their way from `received` to their results, several in one call.

What the sessions of a call share (judging, routing, the refresh) counts for the last of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from memforest.config import Config
from memforest.errors import InputError, MemForestError, ModelError
from memforest.interval import floor_ms
from memforest.memory.ingest.extract import Processed, SessionWriter, ingest_result
from memforest.memory.ingest.receive import Received
from memforest.memory.ingest.turns import Reading, TurnReader, check_id, json_object
from memforest.memory.results import IngestResult
from memforest.memory.timing import Timer
from memforest.memory.usage import shared, usage
from memforest.models.ledger import current_ledger
from memforest.refresh.refresher import Refreshed
from memforest.text import cut
from memforest.types import Refused

__all__ = [
    "Arrival",
    "Arrived",
    "Batch",
    "Refresh",
    "check_addition",
    "groups_of",
    "read_arrival",
    "turn_reader",
]


Refresh = Literal["all", "path", "nothing"]
"""What a write brings up to date before it returns."""

MOST_TURNS_AT_ONCE = 4096
"""Turns whose chunks go to a model together. Enough to keep hundreds of requests in flight; what is made of a
group is written before the next is begun, so that a crash costs at most one group's replies."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A session as the caller gives it; see `AsyncMemForest.ingest_session`."""

    session_id: str
    turns: Sequence[Any]
    timestamp: datetime | None = None
    infer: bool = True
    replace: bool = False
    metadata: Mapping[str, Any] | None = None


def turn_reader(
    config: Config, label: str, session_time: datetime | None, now: datetime | None = None
) -> TurnReader:
    """Return the `TurnReader` of a session of the user with that display name."""
    return TurnReader(
        zone=config.zone,
        user_label=label,
        max_turn_chars=config.max_turn_chars,
        session_time=session_time,
        now=now,
    )


def read_arrival(arrival: Arrival, config: Config, label: str) -> Reading:
    """Read the turns of a session, and list those that are refused; nothing is stored.

    Raises:
        InputError: if its id, a turn or its metadata are malformed, or there is no turn.
    """
    check_id(arrival.session_id, "session_id")
    read = turn_reader(config, label, arrival.timestamp).read(arrival.turns)
    if not read.turns:
        raise InputError(f"session {arrival.session_id!r} has no turns; give it at least one")
    json_object(arrival.metadata, "metadata")
    return read


def check_addition(arrival: Arrival, config: Config, label: str) -> None:
    """Check what is added live to a memory that has nothing yet.

    Raises:
        InputError: if a turn or the metadata are malformed, or there is no turn.
    """
    check_id(arrival.session_id, "session_id")
    reader = turn_reader(config, label, arrival.timestamp, floor_ms(config.clock()))
    if not reader.read(arrival.turns).turns:
        raise InputError("there is nothing to add; give a text or at least one message")
    json_object(arrival.metadata, "metadata")


@dataclass(frozen=True, slots=True)
class Arrived:
    """A session whose turns are stored, with the timer of its write and its refused turns."""

    session_id: str
    got: Received
    timer: Timer
    refused: tuple[Refused, ...] = ()


def groups_of(arrivals: Sequence[Arrival], *, together: bool) -> list[list[int]]:
    """Return which arrivals go through the steps together; no session comes twice in a group.

    Args:
        arrivals: in the order of the call.
        together: several at once; else each by itself.
    """
    groups: list[list[int]] = []
    for at, arrival in enumerate(arrivals):
        last = groups[-1] if groups else []
        turns = sum(len(arrivals[other].turns) for other in last)
        again = any(arrivals[other].session_id == arrival.session_id for other in last)
        if last and together and not again and turns < MOST_TURNS_AT_ONCE:
            last.append(at)
        else:
            groups.append([at])
    return groups


class Batch:
    """Processes stored sessions together (extract, judge, commit, refresh), and makes the result of each.

    Args:
        writer: of the memory.
        warnings: said with every result.
    """

    def __init__(self, writer: SessionWriter, warnings: Sequence[str]) -> None:
        self._writer = writer
        self._warnings = tuple(warnings)
        self._arrived: dict[int, Arrived] = {}
        self._processed: dict[int, Processed] = {}
        self._errors: dict[int, MemForestError] = {}
        self._refreshed = Refreshed()
        self._failures: list[str] = []
        self._tried = False

    def fail(self, at: int, error: MemForestError) -> None:
        """Record an error as the result of a session."""
        self._errors[at] = error

    def warn(self, problems: Sequence[str]) -> None:
        """Add warnings to the results."""
        self._failures += problems

    @property
    def replaced(self) -> bool:
        """Whether a session has overwritten another one."""
        return any(one.got.replaced for one in self._arrived.values())

    @property
    def left_dirty(self) -> bool:
        """Whether summaries are out of date, of this write or an earlier one."""
        return self._refreshed.left > 0

    @property
    def placed(self) -> frozenset[int]:
        """The trees that were written."""
        return frozenset[int]().union(*(one.done.placed.trees for one in self._processed.values()))

    async def process(self, arrived: Mapping[int, Arrived]) -> None:
        """Extract, embed, judge and commit some sessions together.

        Args:
            arrived: place in the call -> the session.
        """
        self._arrived.update(arrived)
        open_ = {at: one for at, one in arrived.items() if one.got.new_turns or one.got.unfinished}
        if not open_:
            return
        timer = list(open_.values())[-1].timer
        try:
            made = await self._writer.process([one.got.session for one in open_.values()], timer)
        except MemForestError as exc:
            for at, one in open_.items():
                self.fail(at, _stored(exc, one.session_id) if isinstance(exc, ModelError) else exc)
            return
        for at, done in zip(open_, made, strict=True):
            if isinstance(done, Processed):
                self._processed[at] = done
            else:
                self.fail(at, done)

    async def finish(self, *, refresh: Refresh) -> None:
        """Make the vectors of what was worded anew, let indexes go on, and bring the trees up to date, as far as is wanted.

        What a model fails to make is left for `resume`, with a warning: the sessions are written.

        Args:
            refresh: all that is out of date, the paths above what was written, or nothing.
        """
        if any(one.got.reworded for one in self._arrived.values()):
            try:
                await self._writer.fill_vectors()
            except ModelError as exc:
                self._failures.append(f"vectors are left: {exc}; resume() makes them")
        self.warn(await self._writer.catch_up(failed=False))
        timer = self._arrived[max(self._processed)].timer if self._processed else Timer()
        if refresh == "all" and (self._processed or not self._arrived):
            self._refreshed = await self._writer.refresh(timer)
        elif refresh == "path" and self.placed:
            self._refreshed = await self._writer.refresh_above(self.placed, timer)
        else:
            self._refreshed = await self._writer.refresh_nothing()
        self._tried = refresh != "nothing"

    def result(self, at: int) -> IngestResult | MemForestError:
        """Return the result of a session, or the error that it ended with."""
        if at in self._errors:
            return self._errors[at]
        one, processed = self._arrived[at], self._processed.get(at)
        last = bool(self._processed) and at == max(self._processed)
        told = last or (not self._processed and at == max(self._arrived))
        cost = usage(current_ledger().part(), one.timer.ms)
        if processed is not None:
            cost = usage(processed.spent, one.timer.ms, processed.embeds)
        if last:
            parts = [each.spent for each in self._processed.values()]
            nodes = {} if self._writer.vectors is None else self._writer.vectors.ran
            cost = cost.plus(usage(shared(current_ledger(), parts), {}, nodes))
        return ingest_result(
            one.session_id,
            one.got,
            processed=processed,
            refreshed=self._refreshed if told else None,
            cost=cost,
            refused=one.refused,
            warnings=(
                *self._warnings,
                *one.got.problems,
                *_refusals(one.refused),
                *(self._told() if told else ()),
            ),
        )

    def only(self) -> IngestResult:
        """Return the result of the only session.

        Raises:
            MemForestError: if it failed.
        """
        [result] = self.all()
        return result

    def all(self) -> list[IngestResult]:
        """Return the results of all sessions.

        Raises:
            MemForestError: if one failed; the first of them.
        """
        found = []
        for at in sorted({*self._arrived, *self._errors}):
            result = self.result(at)
            if isinstance(result, MemForestError):
                raise result
            found.append(result)
        return found

    def _told(self) -> list[str]:
        """Return the warnings of the whole operation."""
        return [*self._failures, *self._left(), *current_ledger().warnings]

    def _left(self) -> list[str]:
        """Return the warning that names what the budget did not reach; empty when it reached everything."""
        ledger = current_ledger()
        if not ledger.refused:
            return []
        chunks = sum(chunk.status == "left" for one in self._processed.values() for chunk in one.chunks)
        left = {
            "chunks": chunks,
            "judgements": ledger.refused.get("judge", 0),
            "summaries": self._refreshed.left if self._tried else 0,
        }
        what = ", ".join(f"{count} {name}" for name, count in left.items() if count)
        bounds = [
            f"{most} {name}"
            for name, most in (("calls", ledger.budget.max_calls), ("tokens", ledger.budget.max_tokens))
            if most is not None
        ]
        return [
            f"the budget of {' and '.join(bounds)} is used up and these are left: {what}; "
            "resume() goes on with chunks and summaries"
        ]


def _refusals(refused: Sequence[Refused]) -> list[str]:
    """Say which turns were not stored, the first of them by name."""
    if not refused:
        return []
    more = f"; and {len(refused) - 3} more" if len(refused) > 3 else ""
    said = "; ".join(str(one) for one in refused[:3])
    return [f"{len(refused)} turn(s) were not stored, all others are: {said}{more}"]


def _stored(exc: ModelError, session_id: str) -> ModelError:
    """Return the same error, saying that nothing of the session is lost."""
    said = copy(exc)  # with status and retries
    said.args = (
        f"{exc}; the turns of session {cut(repr(session_id), 60)} are stored, and resume() makes memory of them",
    )
    said.__cause__ = exc
    return said
