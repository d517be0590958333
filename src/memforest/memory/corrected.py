"""The values that the verbs of correcting return: a correction, and an entry of a statement's history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memforest.memory.inspect.stored import Source
from memforest.memory.plain import Result
from memforest.text import cut


@dataclass(frozen=True, slots=True, repr=False)
class CorrectionView(Result):
    """What a person has decided of a statement: an ``"update"``, a ``"pin"`` or a ``"forget"``.

    `key` takes it back (`undo`). `fact_id` is the statement that it is about, and `said` how that was worded when the correction
    was `made`; it is `undone` since then, or None. Of an update `new_fact_id` is the statement that holds instead, `text` what
    it says, and `start` and `end` the time that it states, [start, end), if any.
    """

    key: str
    kind: Literal["update", "pin", "forget"]
    fact_id: str
    said: str
    made: datetime
    undone: datetime | None = None
    new_fact_id: str | None = None
    text: str | None = None
    start: datetime | None = None
    end: datetime | None = None

    def _line(self) -> str:
        gone = "" if self.undone is None else ", undone"
        now = "" if self.text is None else f" -> {cut(repr(self.text), 60)}"
        return f"{self.kind} {self.key}{gone}: {cut(repr(self.said), 60)}{now}"


@dataclass(frozen=True, slots=True, repr=False)
class HistoryEntry(Result):
    """One thing that happened to a statement, at the time `at` when this memory recorded it.

    - ``"said"``: it was said, by `speaker` at the time `said`; `quote` are the words, and `sources` the turns.
    - ``"corrected"``: a person put `text` in the place of `replaced`, and the fact `fact_id` in that of the fact before.
    - ``"pinned"``, ``"forgotten"``: a person decided so of `fact_id`.
    - ``"undone"``: the correction with this `key` was taken back.
    - ``"superseded"``: another value took its place: what `text` says, from `said` on.
    """

    kind: Literal["said", "corrected", "pinned", "forgotten", "undone", "superseded"]
    at: datetime
    fact_id: str
    text: str
    key: str | None = None
    replaced: str | None = None
    said: datetime | None = None
    speaker: str = ""
    quote: str = ""
    sources: tuple[Source, ...] = ()

    def _line(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.kind}: {cut(repr(self.text), 80)}"
