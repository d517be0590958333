"""Pages of 50: what is shown, and where the next ones begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Items of one page. `next` is given as ``from=`` for the page behind it; None behind the last. `first` is where it begins."""

    items: Sequence[T]
    total: int | None
    next: str | None
    first: bool = True
