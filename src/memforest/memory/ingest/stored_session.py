"""A session whose turns are stored, as the steps of a write behind that read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memforest.config import Config
from memforest.errors import SessionConflictError
from memforest.memory.chunks import ChunkReport
from memforest.memory.ingest.retract import Told
from memforest.memory.numeric_order import order_of
from memforest.memory.timing import Timer
from memforest.store import sessions
from memforest.store.digests import damaged_turns
from memforest.store.sessions import CellRow
from memforest.store.tx import Tx
from memforest.store.write_keys import WriteKey
from memforest.systems.base import Placed
from memforest.types import UNSPOKEN_ROLES, Chunk, Refused, Turn

CONTEXT_TURNS = 2
"""Turns before a chunk that an extractor may read, for who asked what."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session whose turns are stored, and what its write has changed so far; `load` adds what is to be extracted."""

    row: int
    session_id: str
    new_turns: int = 0
    replaced: bool = False
    """It has overwritten another one."""
    unfinished: bool = False
    """An earlier write of this session did not come to its end."""
    reworded: bool = False
    """What was taken back has left facts that are worded otherwise, and without a vector."""
    told: Told = field(default_factory=Told)
    """What earlier writes have told of the last cell, which is cut anew."""
    placed: Placed = field(default_factory=Placed)
    """What indexes have written because something was taken back."""
    problems: tuple[str, ...] = ()
    """Which indexes could not place what was written, and why."""
    refused: tuple[Refused, ...] = ()
    """Turns that the caller gave and that could not be stored."""
    notes: tuple[str, ...] = ()
    """What the caller should know of how the turns were read."""
    timer: Timer = field(default_factory=Timer)
    infer: bool = True
    first: int = 0  # the ordinal of the first new turn
    late: int = 0  # new turns that are said before stored ones
    redacted: int = 0  # turns that redaction has changed
    known_turns: int = 0  # turns that were given, and had been stored before
    repeats: WriteKey | None = None
    """The write with the same idempotency key that was done before; this one writes nothing."""
    day_first: bool | None = None
    """How the memory's people write numeric dates; None is not known."""
    turns: Mapping[int, tuple[int, Turn]] = field(default_factory=dict)
    """Ordinal -> (row id, turn); empty before `load`, as the next two are."""
    cells: Sequence[CellRow] = ()
    """The open cells that can be extracted."""
    damaged: Mapping[int, str] = field(default_factory=dict)
    """Ordinal -> name of each damaged turn: no chunk with one of them is read."""

    @property
    def speakers(self) -> tuple[str, ...]:
        """Who speaks in the session, in order of first appearance; a system and a tool say nothing."""
        return tuple(dict.fromkeys(turn.speaker for turn in _spoken(turn for _, turn in self.turns.values())))

    @property
    def chunks(self) -> list[Chunk]:
        """The open cells, as an extractor reads them: without the turns that nobody says, which may leave none."""
        speakers = self.speakers
        return [self._chunk(speakers, cell) for cell in self.cells]

    @property
    def open_chunks(self) -> list[ChunkReport]:
        """A report of each open cell: left, or failed before."""
        return [
            ChunkReport(
                tuple(turn.id for _, turn in self.span(cell.first, cell.last)),
                "left" if cell.status == "pending" else "failed",
                failure=cell.reason,
            )
            for cell in self.cells
        ]

    def span(self, first: int, last: int) -> list[tuple[int, Turn]]:
        """Return the turns from ordinal `first` to `last`, both included, with their row ids; some may be deleted."""
        return [self.turns[at] for at in range(first, last + 1) if at in self.turns]

    def _chunk(self, speakers: tuple[str, ...], cell: CellRow) -> Chunk:
        turns = [turn for _, turn in self.span(cell.first, cell.last)]
        before = [turn for _, turn in self.span(cell.first - CONTEXT_TURNS, cell.first - 1)]
        return Chunk(
            session_id=self.session_id,
            ordinal=cell.ordinal,
            turns=_spoken(turns),
            before=_spoken(turn for turn in before if turn.ordinal not in self.damaged),
            participants=speakers,
            day_first=self.day_first,
        )


def _spoken(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    return tuple(turn for turn in turns if turn.role not in UNSPOKEN_ROLES)


def load(tx: Tx, config: Config, stored: StoredSession) -> StoredSession:
    """Read the turns and open cells of a session from the store, as a crash or another writer may have changed them.

    Raises:
        SessionConflictError: if another writer has overwritten the session.
    """
    try:
        infer = sessions.session_with_row(tx, stored.row).infer
    except KeyError:
        raise overwritten() from None
    turns = {turn.ordinal: (rowid, turn) for rowid, turn in sessions.turns(tx, stored.row)}
    cells = [cell for cell in sessions.cells(tx, stored.row) if cell.status in ("pending", "failed")]
    first = min((cell.first for cell in cells), default=0) - CONTEXT_TURNS
    damaged = {one.ordinal: one.name for one in damaged_turns(tx, session=stored.row, first=first).values()}
    cells = [cell for cell in cells if damaged.keys().isdisjoint(range(cell.first, cell.last + 1))]
    return replace(
        stored, infer=infer, day_first=order_of(tx, config), turns=turns, cells=cells, damaged=damaged
    )


def overwritten() -> SessionConflictError:
    """Return the error of a session that another writer has overwritten since it was read."""
    return SessionConflictError(
        "the session was overwritten by another writer while it was being ingested; ingest it again"
    )
