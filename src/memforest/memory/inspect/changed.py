"""The values of `changes`, what a memory has learnt since a time, and of `diff`, what is so at one time and not at another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memforest.memory.inspect.stored import Source
from memforest.memory.plain import Result
from memforest.text import cut

ChangeKind = Literal["stored", "learnt", "merged", "corrected", "undone", "deleted"]


@dataclass(frozen=True, slots=True, repr=False)
class Change(Result):
    """One write to a memory.

    `kind`: turns of a session were ``"stored"``, a statement was ``"learnt"``, or heard again and ``"merged"`` with what was
    known, ``"corrected"`` (`what`: update, pin or forget), such a correction ``"undone"``, or items (`what`: session, turn or
    fact) were ``"deleted"``. `count` is how many turns were stored, or items deleted. `text` is what people read of the
    statement as it is told now, and `superseded` are the texts of those whose value this one took the place of. What was
    learnt and deleted since is counted by the deletion alone.
    """

    kind: ChangeKind
    at: datetime
    count: int = 1
    session_id: str | None = None
    fact_id: str | None = None
    text: str = ""
    superseded: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    what: str = ""

    def _line(self) -> str:
        about = self.text or self.session_id or self.what
        return f"{self.kind} {self.at:%Y-%m-%d %H:%M}: {cut(repr(about), 80)}"


@dataclass(frozen=True, slots=True, repr=False)
class ChangePage(Result):
    """One page of `changes`, oldest first; `next` is given to ``after=`` for the next one, None behind the last.

    Iterating gives the changes of the page, and a page without any is false.
    """

    changes: tuple[Change, ...]
    next: str | None = None

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def _line(self) -> str:
        return f"{len(self)} changes, next={self.next!r}"


@dataclass(frozen=True, slots=True, repr=False)
class DiffEntry(Result):
    """One value that was so at one of two times and not at the other.

    ``"begun"``: only `after` was so, ``"ended"``: only `before`, ``"changed"``: one took the other's place. `at` is when `after`
    began, or `before` ended; None where nobody said. `sources` support `after`, or where there is none `before`, with which
    `sources_before` has its own.
    """

    entity: str
    attribute: str
    change: Literal["begun", "ended", "changed"]
    before: str | None
    after: str | None
    at: datetime | None
    sources: tuple[Source, ...] = ()
    sources_before: tuple[Source, ...] = ()

    def _line(self) -> str:
        return f"{self.entity}, {self.attribute}: {self.before!r} -> {self.after!r}"


@dataclass(frozen=True, slots=True, repr=False)
class Diff(Result):
    """What was so at `a` and not at `b`, and the other way round, by entity and attribute.

    Iterating gives the entries, and a diff without any is false.
    """

    a: datetime
    b: datetime
    entries: tuple[DiffEntry, ...]
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[DiffEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def _line(self) -> str:
        return f"{len(self)} differences between {self.a:%Y-%m-%d} and {self.b:%Y-%m-%d}"
