"""Pages of 50: what is shown, and where the next ones begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from memforest.ui.visit import PAGE, Visit

__all__ = ["Found", "cut_page"]

T = TypeVar("T")
_MOST = 10_000_000


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Items of one page. `next` is given as ``from=`` for the page behind it; None behind the last. `first` is where it begins."""

    items: Sequence[T]
    total: int | None
    next: str | None
    first: bool = True


def cut_page(visit: Visit, items: Sequence[T]) -> Found[T]:
    """Return the page that a visit asks for of items that are all here."""
    at = visit.number("from", 0, _MOST)
    shown = items[at : at + PAGE]
    return Found(shown, len(items), str(at + PAGE) if at + PAGE < len(items) else None, at == 0)
