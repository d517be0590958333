"""Every verb survives a kill at any of its writes, lost writes, a full disk and pages that cannot be read."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.crashing import VERBS, Crasher
from tests.power import contents, recorded, torn_checkpoints, torn_logs, write_state
from tests.worlds import (
    differences,
    dump,
    eager_config,
    fast_folder,
    file_of,
    make_sessions,
    rows,
    said,
)

from memforest import AsyncMemForest, MemForest
from memforest.errors import EmbedderMismatchError, MemForestError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks, and kills with a signal")

LITTLE = 20_000
"""Bytes that the log may have, which no verb gets along with."""

verbs = pytest.mark.parametrize("verb", list(VERBS))


@pytest.fixture(scope="module")
def crasher() -> Iterator[Crasher]:
    """One crashing process for all tests here."""
    made = Crasher()
    yield made
    made.close()


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


def place(folder: str) -> Path:
    """Put the memory into a directory."""
    name, data = prepared()
    path = Path(folder) / name
    path.write_bytes(data)
    return path


class Expected:
    """What a verb makes of the memory, and how many writes that takes."""

    def __init__(self, crasher: Crasher, verb: str) -> None:
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            path = place(folder)
            self.before = dump(path)
            ended, self.writes = crasher.verb(folder, verb)
            assert ended == 0
            with MemForest(folder, eager_config(**VERBS[verb][1])) as forest:
                forest.flush("u")
            self.after = dump(path)
        assert self.writes > 1
        assert differences(self.before, self.after) != {} or verb == "rebuild"


_expected: dict[str, Expected] = {}


def expected(crasher: Crasher, verb: str) -> Expected:
    """Return what a verb makes, found out once."""
    if verb not in _expected:
        _expected[verb] = Expected(crasher, verb)
    return _expected[verb]


def turns_of(path: Path) -> dict[str, list[str]]:
    """Return the texts of each session."""
    found: dict[str, list[str]] = {}
    for session_id, _, text in rows(
        path, "SELECT session_id, ordinal, text FROM turn t JOIN session s ON s.id = t.session"
    ):
        found.setdefault(session_id, []).append(text)
    return found


def whole_versions(crasher: Crasher, verb: str) -> dict[str, list[list[str]]]:
    """Return every whole version of a session that there may be."""
    found: dict[str, list[list[str]]] = {}
    for state in (expected(crasher, verb).before, expected(crasher, verb).after):
        texts: dict[str, list[str]] = {}
        for session_id, _, _, _, _, text, *_ in sorted(state["turns"], key=lambda row: (row[0], row[1])):
            texts.setdefault(session_id, []).append(text)
        for session_id, version in texts.items():
            found.setdefault(session_id, []).append(version)
    return found


def check_survived(crasher: Crasher, verb: str, folder: str) -> None:
    """Open what is left, look, resume, run the verb again, and compare with an uninterrupted run."""
    path, settings = file_of(Path(folder)), VERBS[verb][1]
    versions, stored = whole_versions(crasher, verb), turns_of(path)
    assert all(texts in versions[session_id] for session_id, texts in stored.items()), "half a session"
    assert {name for name, *_ in expected(crasher, verb).before["turns"]} <= stored.keys(), "a lost session"
    for config in (eager_config(), eager_config(**settings)):
        try:
            with MemForest(folder, config) as forest:
                shown = forest.query("u", "Where does Ana live?", top_k=100).evidence
                assert {piece.quote for piece in shown} <= {
                    text for texts in stored.values() for text in texts
                }
                forest.resume("u")
                report = forest.user("u").verify()
                assert report.ok, report.problems
        except EmbedderMismatchError:
            assert "embedder" in settings  # it has one of the two
    ended, _ = crasher.verb(folder, verb)
    assert ended == 0
    with MemForest(folder, eager_config(**settings)) as forest:
        assert forest.user("u").verify().problems == ()
        forest.flush()
    assert differences(expected(crasher, verb).after, dump(path)) == {}
    assert rows(path, "SELECT 1 FROM derived_next_vector") == []


@verbs
@pytest.mark.timeout(300)
def test_killed_at_any_write(crasher: Crasher, verb: str, soak_seed: int) -> None:
    """What was there is there, whole; the verb is finished by the same call, and the end is the same."""
    points = [(at, moment) for at in range(expected(crasher, verb).writes) for moment in ("before", "after")]
    most = 1 if soak_seed < 3 else 12
    for at, moment in Random(soak_seed).sample(points, min(most, len(points))):
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            place(folder)
            assert crasher.verb(folder, verb, at=at, moment=moment)[0] == signal.SIGKILL
            check_survived(crasher, verb, folder)


@verbs
@pytest.mark.timeout(300)
def test_a_disk_that_fills_up(crasher: Crasher, verb: str, soak_seed: int) -> None:
    """The verb ends with an error of ours and what was there is whole; with room it is finished by the same call."""
    random, largest = Random(soak_seed), len(prepared()[1])
    sizes = (
        [LITTLE]
        if soak_seed == 0
        else [random.randrange(LITTLE, 2 * largest) for _ in range(1 if soak_seed < 3 else 8)]
    )
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            place(folder)
            ended, _ = crasher.verb(folder, verb, room=size - largest)
            assert ended == -3 if size == LITTLE else ended in (0, -3)
            check_survived(crasher, verb, folder)


@verbs
@pytest.mark.timeout(300)
def test_what_was_not_synced_is_lost(verb: str, soak_seed: int) -> None:
    """A log that ends anywhere in its last commit, or behind it in garbage, says what was committed before it."""
    random, tried = Random(soak_seed), 0
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder, tempfile.TemporaryDirectory() as other:
        path = place(folder)
        run, settings = VERBS[verb]

        async def work() -> None:
            async with AsyncMemForest(folder, eager_config(**settings)) as forest:
                await run(forest)

        with recorded(path) as states:
            asyncio.run(work())
        left = Path(other) / path.name
        chosen = random.sample(range(1, len(states)), min(3 if soak_seed < 3 else 10, len(states) - 1))
        for at in chosen:
            write_state(states[at - 1], left)
            before = contents(left)
            for torn, commits in torn_logs(states[at], random, 3):
                if commits:  # else the log was begun anew since
                    write_state(torn, left)
                    assert contents(left) == before
                    tried += 1
            write_state(states[at], left)
            wanted = contents(left)
            for mixed in torn_checkpoints(left, states[at], random, 2):
                write_state(mixed, left)
                assert contents(left) == wanted
        assert tried
        write_state(states[-1], left)
        with MemForest(other, eager_config(**settings)) as forest:
            forest.resume("u")
            assert forest.user("u").verify().problems == ()


SAID = """SELECT s.session_id, t.ordinal, t.turn_id, t.speaker, t.text, t.said_ms, f.fact_id, f.text, o.text, o.quote
    FROM turn t JOIN session s ON s.id = t.session LEFT JOIN occurrence_turn x ON x.turn = t.id
    LEFT JOIN occurrence o ON o.id = x.occurrence LEFT JOIN fact f ON f.id = o.fact"""


@pytest.mark.timeout(300)
def test_pages_that_read_as_something_else(soak_seed: int) -> None:
    """`verify` names it, unless what was said is as it was; every verb that reads fails with an error of ours, or is right."""
    random, named = Random(soak_seed), 0
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        path = place(folder)
        said_there, shown = rows(path, SAID), {text for texts in turns_of(path).values() for text in texts}
        data, size = path.read_bytes(), 4096
        for how in ("garbage", "zeros", "bit", "other") * (1 if soak_seed < 3 else 5):
            at, other = (random.randrange(1, len(data) // size) * size for _ in "ab")
            page = {
                "garbage": random.randbytes(size),
                "zeros": bytes(size),
                "bit": _flipped(data[at : at + size], random),
                "other": data[other : other + size],
            }[how]
            for left in Path(folder).iterdir():
                left.unlink()
            path.write_bytes(data[:at] + page + data[at + size :])
            is_named = _is_named(folder, shown)
            assert is_named or rows(path, SAID) == said_there
            named += is_named
    assert named


def _flipped(page: bytes, random: Random) -> bytes:
    changed = bytearray(page)
    changed[random.randrange(len(page))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _is_named(folder: str, said_there: set[str]) -> bool:
    """Return whether an error or `verify` names damage; no query may show what nobody has said."""
    try:
        with MemForest(folder, eager_config()) as forest:
            named = bool(forest.user("u").verify().problems)
            shown = forest.query("u", "Where does Ana live?", top_k=100).evidence
            assert {piece.quote for piece in shown} <= said_there
    except MemForestError:
        return True
    return named
