"""Holds the verbs of `tests.crashing.VERBS` against kills: what is left must be whole, and the same call finishes it.

As a program it kills so many times and says what it found, with status 1 if it found anything:

    python tests_long/killing.py 500
    python tests_long/killing.py 100 --seed 7 --only ingest --only rebuild
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.crashing import VERBS, Crasher
from tests_long.worlds import (
    differences,
    dump,
    eager_config,
    fast_folder,
    file_of,
    make_sessions,
    rows,
    said,
    summaries,
)

from memforest import MemForest

__all__ = ["Trial", "prepared", "turns_of"]

QUESTION = "Where does Ana live?"

LOST = "acknowledged work that is lost"
HALF = "half visible"
WRONG = "`verify` finds"
OTHER = "not as an undisturbed run makes it"
KINDS = (LOST, HALF, WRONG, OTHER)


@cache
def prepared() -> tuple[str, bytes]:
    """Return the name and bytes of a memory for the verbs."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        with MemForest(folder, eager_config()) as forest:
            for session_id, turns in make_sessions(4, sessions=3, short_forms=False):
                forest.ingest_session("u", session_id, turns)
            forest.ingest_session("u", "grows", said("I live in Oslo.", day=8))
            forest.ingest_session("u", "changes", said("I lived in Lisbon.", "I had a dog.", day=9))
        path = file_of(Path(folder))
        return path.name, path.read_bytes()


def held(path: Path) -> dict[str, Any]:
    """Return what a memory holds, with its summaries."""
    return {**dump(path), "summaries": summaries(path)}


def turns_of(path: Path) -> dict[str, list[str]]:
    """Return the texts of each session, in their order."""
    found: dict[str, list[str]] = {}
    for session_id, _, text in rows(
        path, "SELECT session_id, ordinal, text FROM turn t JOIN session s ON s.id = t.session"
    ):
        found.setdefault(session_id, []).append(text)
    return found


class Trial:
    """One verb, with what it makes of the memory when nothing befalls it.

    Args:
        crasher: runs it.
        name: in `VERBS`.
    """

    def __init__(self, crasher: Crasher, name: str) -> None:
        self.name, self.verb, self._crasher = name, VERBS[name], crasher
        self._files = self._prepared()
        with self.folder() as folder:
            self.before, versions = held(self.path(folder)), [turns_of(self.path(folder))]
            begun = time.monotonic()
            ended, self.writes = self.run(folder)
            self.took_s = time.monotonic() - begun
            assert (ended, self.writes > 0) == (0, True), f"{name}, undisturbed, ended with {ended}"
            with MemForest(folder, eager_config(**self.verb.settings)) as forest:
                forest.flush("u")
            self.after = held(self.path(folder))
            versions.append(turns_of(self.path(folder)))
        assert self.verb.changes == bool(differences(self.before, self.after)), (
            f"{name} changes nothing, or something"
        )
        self._versions: dict[str, list[list[str]]] = {}
        for version in versions:
            for session_id, texts in version.items():
                self._versions.setdefault(session_id, []).append(texts)
        self._stay = versions[0].keys() & versions[1].keys()

    def _prepared(self) -> dict[str, bytes]:
        """Return what is in the directory before the verb is run."""
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            name, data = prepared()
            (Path(folder) / name).write_bytes(data)
            if self.verb.prepare is not None:
                self.verb.prepare(folder)
            return {path.name: path.read_bytes() for path in Path(folder).iterdir()}

    @contextmanager
    def folder(self) -> Iterator[str]:
        """Make a directory with the memory, and with what the verb needs besides."""
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            for name, data in self._files.items():
                (Path(folder) / name).write_bytes(data)
            yield folder

    def path(self, folder: str) -> Path:
        """Return the memory in a directory."""
        return Path(folder) / prepared()[0]

    def run(self, folder: str, **fault: Any) -> tuple[int, int]:
        """Run the verb in a child process; see `Crasher.verb`."""
        return self._crasher.verb(folder, self.name, **fault)

    def points(self) -> list[dict[str, Any]]:
        """Return every fault at the end of which the process is dead: before and after each commit, and after the last word."""
        found: list[dict[str, Any]] = [{"moment": "returned"}]
        for at in range(self.writes):
            found += [{"at": at, "moment": moment} for moment in ("before", "after")]
        return found

    def problems(self, folder: str, *, returned: bool = False) -> list[tuple[str, str]]:
        """Look at what is left, resume, run the verb again, compare with an undisturbed run; return (kind, what is wrong).

        Args:
            folder: where it was run.
            returned: it had come back, so all of it must be there without running it again.
        """
        stored = turns_of(self.path(folder))
        found = [
            (HALF, f"session {name!r} is {texts}")
            for name, texts in stored.items()
            if texts not in self._versions.get(name, [])
        ]
        found += [(LOST, f"session {name!r}") for name in self._stay - stored.keys()]
        seen = 0
        for settings in (self.verb.before, self.verb.settings):
            with suppress(*self.verb.refused):  # it has the one or the other
                found += self._seen(folder, [text for texts in stored.values() for text in texts], settings)
                seen += 1
        if not seen:
            found.append((LOST, "the memory can be opened neither as before nor as after"))
        if not returned:
            ended, _ = self.run(folder)
            found += [(OTHER, f"the same call ends with {ended}")] if ended else []
        with MemForest(folder, eager_config(**self.verb.settings)) as forest:
            found += [(WRONG, str(problem)) for problem in forest.user("u").verify().problems]
            forest.flush("u")
        if other := differences(self.after, held(self.path(folder))):
            found.append((LOST if returned else OTHER, str(other)))
        if left := rows(self.path(folder), "SELECT kind, item FROM derived_next_vector"):
            found.append((OTHER, f"{len(left)} vectors of a next embedder are left"))
        return found

    def _seen(self, folder: str, said_there: list[str], settings: dict[str, Any]) -> list[tuple[str, str]]:
        """Ask, resume and verify; return what is wrong."""
        with MemForest(folder, eager_config(**settings)) as forest:
            shown = {piece.quote for piece in forest.query("u", QUESTION, top_k=100).evidence}
            forest.resume("u")
            report = forest.user("u").verify()
        found = [
            (HALF, f"evidence says {quote!r}")
            for quote in shown
            if not any(quote in text for text in said_there)
        ]
        return found + [(WRONG, str(problem)) for problem in report.problems]


def kill(trial: Trial, random: Random, times: int) -> tuple[int, list[tuple[str, str]]]:
    """Kill a verb so many times: at each of its points in a random order, then at random moments; return kills and findings."""
    points, found, kills = trial.points(), [], 0
    random.shuffle(points)
    while kills < times:
        fault = points.pop() if points else {"within_s": random.uniform(0.0, trial.took_s)}
        with trial.folder() as folder:
            ended, _ = trial.run(folder, **fault)
            kills += ended > 0  # a child may be quicker than the moment
            found += trial.problems(folder, returned=fault.get("moment") == "returned" or ended == 0)
    return kills, found


def main() -> int:
    """Kill every verb, and print what was found."""
    parser = argparse.ArgumentParser(description="Kill memforest's verbs, and look at what they leave.")
    parser.add_argument("kills", type=int, help="how many times in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=list(VERBS), help="a verb; may be repeated")
    args = parser.parse_args()
    names, random, crasher = args.only or list(VERBS), Random(args.seed), Crasher()
    total, counts = 0, Counter[str]()
    for at, name in enumerate(names):
        share = args.kills * (at + 1) // len(names) - args.kills * at // len(names)
        trial = Trial(crasher, name)
        kills, found = kill(trial, random, share)
        total += kills
        counts.update(kind for kind, _ in found)
        _say(f"{name}: {kills} kills, {len(trial.points())} points, {len(found)} findings")
        for kind, what in found[:5]:
            _say(f"  {kind}: {what[:500]}")
    crasher.close()
    _say(f"{total} kills; " + ", ".join(f"{kind}: {counts[kind]}" for kind in KINDS))
    return 1 if counts else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
