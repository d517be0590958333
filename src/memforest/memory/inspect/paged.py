"""Pages of listings, as values: sequences of what is listed, with the cursor of the page that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

from memforest.memory.directory import Unreadable
from memforest.memory.inspect.stored import SessionView, TimelineEntry, TurnView
from memforest.memory.plain import Result

T = TypeVar("T")


class _Page(Result, Sequence[T]):
    """A result that is a sequence of what is on it, and equal to a list or tuple of the same."""

    __slots__ = ()
    next_cursor: str | None

    def _items(self) -> tuple[T, ...]:
        raise NotImplementedError

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...
    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        return self._items()[at]

    def __len__(self) -> int:
        return len(self._items())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Page):
            return (
                type(self) is type(other)
                and self._items() == other._items()
                and self.next_cursor == other.next_cursor
            )
        return list(self._items()) == list(other) if isinstance(other, (list, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._items()))

    def _line(self) -> str:
        more = "" if self.next_cursor is None else ", and more"
        return f"{len(self)}{more}"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SessionPage(_Page[SessionView]):
    """Stored sessions in time order, of `total`; `next_cursor` is that of the next page, None on the last one.

    It is a sequence of them.
    """

    sessions: tuple[SessionView, ...]
    total: int
    next_cursor: str | None = None

    def _items(self) -> tuple[SessionView, ...]:
        return self.sessions


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class TurnPage(_Page[TurnView]):
    """Turns of a session in order, of `total`; `next_cursor` is that of the next page, None on the last one.

    It is a sequence of them.
    """

    turns: tuple[TurnView, ...]
    total: int
    next_cursor: str | None = None

    def _items(self) -> tuple[TurnView, ...]:
        return self.turns


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class TimelinePage(_Page[TimelineEntry]):
    """Entries of an entity's timeline, of `total`; `next_cursor` is that of the next page, None on the last one.

    It is a sequence of them. `attributes` are all of which the entity has states, whatever is on the page.
    """

    entries: tuple[TimelineEntry, ...]
    total: int
    next_cursor: str | None = None
    attributes: tuple[str, ...] = ()

    def _items(self) -> tuple[TimelineEntry, ...]:
        return self.entries


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class UserPage(_Page[str]):
    """Ids of users, by the names of their files; `next_cursor` is that of the next page, None on the last one.

    It is a sequence of them. `unreadable` are the files of this page whose user could not be read.
    """

    users: tuple[str, ...]
    next_cursor: str | None = None
    unreadable: tuple[Unreadable, ...] = ()

    def _items(self) -> tuple[str, ...]:
        return self.users
