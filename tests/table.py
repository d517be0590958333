"""Tables of cases as one test that runs every row and lists those that failed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]
SHOWN = 40
"""Failures that are told in full; a broken table would fill the screen."""


def each(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test once per row, as `pytest.mark.parametrize` does, but as a single test.

    A table of 300 sentences as 300 tests costs a second of collection and fixtures; as one test it costs
    what its sentences cost. All rows run, also behind one that fails. Fixtures are shared by the rows, so a test that
    changes one wants `parametrize`.

    Args:
        names: of the arguments that a row gives; one name is a text, and then a row is its value.
        rows: of values, a tuple for each where there are several names; `pytest.param` is taken too.

    Raises:
        AssertionError: by the test, with the failing rows and what each raised.
    """
    arguments = [names] if isinstance(names, str) else list(names)

    def table(test: Test) -> Test:
        kept = list(rows)
        assert not any(getattr(row, "marks", ()) for row in kept), "a row with marks wants parametrize"

        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            failed = []
            for number, row in enumerate(kept):
                given = _values(row, single=isinstance(names, str))
                try:
                    test(*args, **fixtures, **dict(zip(arguments, given, strict=True)))
                except (Exception, pytest.fail.Exception) as exc:  # noqa: BLE001 - whatever a row raises is its failure
                    failed.append(f"row {number} {given!r:.300}: {type(exc).__name__}: {exc!s:.600}")
            assert kept, "the table is empty"
            assert not failed, f"{len(failed)} of {len(kept)} rows failed:\n" + "\n".join(failed[:SHOWN])

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in arguments]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return table


def _values(row: Any, *, single: bool) -> tuple[Any, ...]:
    """Return a row's values, one for each name."""
    if hasattr(row, "values") and hasattr(row, "marks"):  # pytest.param
        return tuple(row.values)
    return (row,) if single else tuple(row)
