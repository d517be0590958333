"""Runs a function in a new process, so that nothing that ran before is warm, and what it raises comes back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

__all__ = ["apart", "attempted"]

P = ParamSpec("P")
T = TypeVar("T")


def attempted(
    run: Callable[P, T], *args: P.args, **options: P.kwargs
) -> tuple[T | None, BaseException | None]:
    """Return what a function of a module returns in a process of its own, or else what it raises there."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        future = pool.submit(run, *args, **options)
        error = future.exception()
        return (None, error) if error else (future.result(), None)


def apart(run: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return what a function of a module returns in a process of its own; what it raises there is raised here."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(run, *args, **options).result()
