"""The error tree: what catches what, what travels between processes, and the clock that nobody else reads."""

from __future__ import annotations

import copy
import inspect
import pickle
from datetime import timezone
from pathlib import Path

from tests.table import each

from memforest import errors
from memforest.errors import MemForestError, SomeUsersFailedError
from memforest.times import system_clock

KINDS: list[type[MemForestError]] = [getattr(errors, name) for name in errors.__all__]
PLAIN = [kind for kind in KINDS if kind is not SomeUsersFailedError]


@each(
    ("python", "ours"),
    [
        (
            ValueError,
            {"ConfigError", "IdempotencyError", "InputError", "MissingPackageError", "TimestampError"},
        ),
        (LookupError, {"NotFoundError"}),
        (OSError, set()),
        (RuntimeError, set()),
    ],
)
def test_errors_are_those_of_python_where_it_has_one(python: type[Exception], ours: set[str]) -> None:
    """Who catches wrong values or missing things needs no import."""
    assert {kind.__name__ for kind in KINDS if issubclass(kind, python)} == ours


@each("kind", PLAIN)
def test_an_error_is_its_message(kind: type[MemForestError]) -> None:
    """Sent to another process or copied it is the same, with all that it knows."""
    known = {"status": 503, "retries": 4, "reply": "{", "retry_after_s": 7.5}
    takes = {name: known[name] for name in inspect.signature(kind.__init__).parameters if name in known}
    error = kind("what was wrong", **takes)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert (str(again), vars(again)) == ("what was wrong", vars(error))
    bare = {"status": None, "retries": 0, "reply": "", "retry_after_s": 1.0}
    plain = vars(kind("m"))
    assert (plain, vars(error)) == ({name: bare[name] for name in plain}, {**plain, **takes})


def test_every_error_says_in_a_line_what_it_is_of() -> None:
    """Its docstring is not that of the one above it."""
    firsts = [(kind.__doc__ or "").splitlines()[0] for kind in KINDS]
    assert all(firsts)
    assert len(set(firsts)) == len(KINDS)


def test_the_clock_tells_the_present_in_utc(tmp_path: Path) -> None:
    """Aware, and the time that the system gives a file which is made now."""
    path = tmp_path / "now"
    told = system_clock()
    path.touch()
    assert told.tzinfo is timezone.utc
    assert abs(path.stat().st_mtime - told.timestamp()) < 30
