"""Every verb survives a kill at any of its writes, lost writes, a full disk and pages that cannot be read."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.crashing import VERBS, Crasher
from tests_long.killing import Trial, kill, prepared, turns_of
from tests_long.power import contents, recorded, torn_checkpoints, torn_logs, write_state
from tests_long.worlds import eager_config, fast_folder, rows

from memforest import AsyncMemForest, MemForest
from memforest.errors import MemForestError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks, and kills with a signal")

LITTLE = 20_000
"""Bytes that the log may have, which no verb gets along with."""

_trials: dict[str, Trial] = {}


@pytest.fixture(scope="module")
def crasher() -> Iterator[Crasher]:
    """One crashing process for all tests here."""
    made = Crasher()
    yield made
    made.close()


@pytest.fixture(params=list(VERBS))
def trial(request: pytest.FixtureRequest, crasher: Crasher) -> Trial:
    """A verb, with what it makes undisturbed, which is found out once."""
    if request.param not in _trials:
        _trials[request.param] = Trial(crasher, request.param)
    return _trials[request.param]


in_transactions = pytest.mark.parametrize(
    "trial", [name for name, verb in VERBS.items() if not verb.files], indirect=True
)
"""The verbs that write transactions; `tests_long/test_recrypt.py` tells of the others what a damaged file does."""


@pytest.mark.timeout(300)
def test_killed_at_any_write(trial: Trial, soak_seed: int) -> None:
    """What was there is there, whole; the verb is finished by the same call, and the end is the same."""
    assert kill(trial, Random(soak_seed), 1 if soak_seed < 3 else 12)[1] == []


@pytest.mark.timeout(300)
def test_what_is_acknowledged_is_there(trial: Trial) -> None:
    """A verb that has come back is on the disk, although nothing was closed."""
    with trial.folder() as folder:
        assert trial.run(folder, moment="returned")[0] > 0
        assert trial.problems(folder, returned=True) == []


@pytest.mark.timeout(300)
def test_a_disk_that_fills_up(trial: Trial, soak_seed: int) -> None:
    """The verb ends with an error of ours and what was there is whole; with room it is finished by the same call."""
    random, largest = Random(soak_seed), len(prepared()[1])
    sizes = (
        [LITTLE]
        if soak_seed == 0
        else [random.randrange(LITTLE, 2 * largest) for _ in range(1 if soak_seed < 3 else 8)]
    )
    for size in sizes:
        with trial.folder() as folder:
            ended, _ = trial.run(folder, room=size)
            assert ended == -3 if size == LITTLE else ended in (0, -3)
            assert trial.problems(folder) == []


@in_transactions
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are found there")
@pytest.mark.timeout(300)
def test_reads_that_fail(trial: Trial, soak_seed: int) -> None:
    """From some write on nothing can be read: an error of ours, and what was there is whole when it can be read again."""
    random = Random(soak_seed)
    for _ in range(1 if soak_seed < 3 else 8):
        at = random.randrange(trial.writes) if soak_seed else trial.writes // 2
        with trial.folder() as folder:
            ended, _ = trial.run(folder, at=at, moment="unreadable")
            # The last pages may be in memory, and what writes little reads nothing behind it.
            assert ended in (0, -3) if soak_seed or trial.writes <= 2 else ended == -3
            assert trial.problems(folder) == []


@in_transactions
@pytest.mark.timeout(300)
def test_what_was_not_synced_is_lost(trial: Trial, soak_seed: int) -> None:
    """A log that ends anywhere in its last commit, or behind it in garbage, says what was committed before it."""
    random, tried = Random(soak_seed), 0
    with trial.folder() as folder, tempfile.TemporaryDirectory() as other:
        path, settings = trial.path(folder), trial.verb.settings

        async def work() -> None:
            async with AsyncMemForest(folder, eager_config(**settings)) as forest:
                await trial.verb.run(forest)

        with recorded(path) as states:
            asyncio.run(work())
        left = Path(other) / path.name
        chosen = random.sample(range(1, len(states)), min(3 if soak_seed < 3 else 10, len(states) - 1))
        for at in chosen:
            write_state(states[at - 1], left)
            before = contents(left)
            for torn in torn_logs(states[at], random, 3):
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
        name, data = prepared()
        path = Path(folder) / name
        path.write_bytes(data)
        said_there, shown = rows(path, SAID), {text for texts in turns_of(path).values() for text in texts}
        size = 4096
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
