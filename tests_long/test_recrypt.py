"""Encrypting what is there, decrypting it, and changing its key: nothing lost, at whichever moment it ends."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_encryption import HEX, KEY, OTHER, a_forest, answers, bytes_beside, encrypted, fill
from tests_long.test_memory_residue import MARKERS, plain, secret, turns
from tests_long.worlds import differences, dump, fast_config, file_of, make_sessions

from memforest import AsyncMemForest, ConfigError, NotFoundError
from memforest.errors import (
    CorruptStoreError,
    SomeUsersFailedError,
    StoreKeyError,
    StoreLockedError,
    StoreWriteError,
)
from memforest.protection import Key
from memforest.store import files, upkeep
from memforest.store.directory import file_name
from memforest.store.files import beside

pytestmark = encrypted


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an unencrypted memory that has all kinds of rows, not to be changed."""
    folder = tmp_path_factory.mktemp("worlds")
    with a_forest(folder, None) as forest:
        for session_id, said in make_sessions(5, sessions=5):
            forest.ingest_session("nora", session_id, said)
        forest.ingest_session("nora", "marked", turns(secret(1)), metadata={"place": "Vrukkam"})
        forest.flush()
    return folder


@pytest.fixture
def filled(worlds: Path, folder: Path) -> Path:
    """A copy of that directory."""
    return Path(shutil.copytree(worlds, folder, dirs_exist_ok=True))


def marked(folder: Path) -> list[str]:
    """Return the marked words that are readable in some file."""
    held = bytes_beside(folder)
    return [word for word in (*MARKERS, "weather", "lisbon") if word.lower().encode() in held]


def no_leftovers(folder: Path) -> bool:
    """Return whether there are only memories and their salts, closed."""
    return {path.name.partition(".")[2] for path in folder.iterdir()} <= {"db", "db-salt"}


def test_there_and_back_again_is_the_same_memory(filled: Path, worlds: Path) -> None:
    """Encrypted, with another key, decrypted: each row is there, each key works only in its turn, and no words are left."""
    assert marked(filled)
    with a_forest(filled, KEY) as forest:
        told = forest.encrypt()
        assert (told.done, told.already) == ((file_name("nora"),), ())
        assert marked(filled) == []
        assert no_leftovers(filled)
        assert answers(forest.user("nora"))
        assert forest.user("nora").verify().ok
        assert forest.encrypt().already == (file_name("nora"),)
        forest.rekey(OTHER)
        with pytest.raises(StoreKeyError):
            forest.query("nora", "x")
    with a_forest(filled, OTHER) as forest:
        assert answers(forest.user("nora"))
        assert marked(filled) == []
        forest.decrypt()
        with pytest.raises(StoreKeyError):
            forest.query("nora", "x")
        assert forest.decrypt().done == ()
    assert no_leftovers(filled)
    assert differences(dump(file_of(worlds)), dump(file_of(filled))) == {}
    with a_forest(filled, None) as forest:
        assert forest.user("nora").verify().ok
        forest.ingest_session("nora", "later", turns(plain(3)))
    with a_forest(filled, KEY) as forest:
        forest.encrypt()
        assert "later" in {one.session_id for one in forest.user("nora").sessions()}


def test_the_salt_outlives_a_new_key(filled: Path) -> None:
    """A backup from before opens with the old key as long as there is the salt, and with no key when that is erased."""
    with a_forest(filled, KEY) as forest:
        forest.encrypt()
        forest.close()
        backup = file_of(filled).read_bytes()
        salt = files.salt_file(file_of(filled)).read_bytes()
        forest.rekey(OTHER)
    kept = files.read(file_of(filled))
    assert kept is not None
    file_of(filled).write_bytes(backup)
    files.salt_file(file_of(filled)).write_bytes(salt)
    with a_forest(filled, KEY) as forest:
        assert answers(forest.user("nora"))
    assert files.read(file_of(filled)).salt == kept.salt  # type: ignore[union-attr]
    files.erase(file_of(filled))
    with a_forest(filled, KEY) as forest, pytest.raises(StoreKeyError):
        forest.query("nora", "x")


def test_one_user_or_all(folder: Path) -> None:
    """What fails for one file is named, and all others are done; somebody else's files are left alone."""
    fill(folder, None, "a", "b")
    (folder / "their-own.db").write_bytes(b"x" * 4096)
    (folder / file_name("empty")).touch()
    steps: list[tuple[int, int, str]] = []
    with a_forest(folder, KEY) as forest:
        assert forest.encrypt("a").done == (file_name("a"),)
        assert forest.list_users() == ["a"]
        told = forest.encrypt(progress=lambda *step: steps.append(step))
        assert (set(told.done), set(told.already)) == ({file_name("b")}, {file_name("a"), file_name("empty")})
        assert [step[:2] for step in steps] == [(1, 3), (2, 3), (3, 3)]
        assert forest.list_users() == ["a", "b"]
        with pytest.raises(NotFoundError):
            forest.encrypt("nobody")
        assert set(forest.decrypt().done) == {file_name("a"), file_name("b")}
        files.erase(folder / file_name("a"))
        assert forest.decrypt("a").already == (file_name("a"),)
        assert files.read(folder / file_name("a")) is None
        forest.encrypt()
    with a_forest(folder, OTHER) as forest:
        with pytest.raises(StoreKeyError):
            forest.decrypt("a")
        with pytest.raises(SomeUsersFailedError) as caught:
            forest.encrypt()
        assert set(caught.value.files) == {file_name("a"), file_name("b")}
    with a_forest(folder, None) as forest, pytest.raises(ConfigError):
        forest.encrypt()
    with a_forest(folder, KEY) as forest:
        with pytest.raises(ConfigError):
            forest.rekey(None)
        with pytest.raises(ConfigError, match="token_hex"):
            forest.rekey(b"short")
        assert len(forest.list_users()) == 2


def test_a_plain_file_beside_a_salt_can_be_encrypted(filled: Path, worlds: Path) -> None:
    """Somebody has put an unencrypted backup in the place of an encrypted file."""
    with a_forest(filled, KEY) as forest:
        forest.encrypt()
        forest.close()
        shutil.copy(file_of(worlds), file_of(filled))
        with pytest.raises(StoreKeyError):
            forest.query("nora", "x")
        assert forest.encrypt().done
        assert answers(forest.user("nora"))
    assert marked(filled) == []


def in_another_process(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a program."""
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=False, timeout=60
    )


WRITE = """
import sys, memforest
from memforest.models import HashEmbedder
config = memforest.Config(embedder=HashEmbedder(32), key=sys.argv[2] or None, busy_timeout_s=0)
with memforest.MemForest(sys.argv[1], config) as forest:
    forest.user("nora").add("I sold the boat.")
"""


@pytest.mark.parametrize("elsewhere", ["in another forest", "in another process"])
def test_a_memory_in_use_is_left_alone(folder: Path, elsewhere: str) -> None:
    """Even if nothing is being written at the moment; closed, it is done."""
    fill(folder, None)
    held = (
        "import sys, memforest; f = memforest.MemForest(sys.argv[1], memforest.Config(embedder='none'));"
        "f.load('nora'); print('open', flush=True); sys.stdin.read(); f.close()"
    )
    with a_forest(folder, KEY) as forest, a_forest(folder, None) as other:
        if elsewhere == "in another forest":
            other.load("nora")
        else:
            process = subprocess.Popen(
                [sys.executable, "-c", held, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
        with pytest.raises(StoreLockedError):
            forest.encrypt("nora")
        if elsewhere == "in another forest":
            assert answers(other.user("nora"))
            other.close()
        else:
            process.communicate()
        assert forest.encrypt("nora").done
        assert answers(forest.user("nora"))


@pytest.mark.parametrize("have", [None, KEY])
def test_nobody_writes_while_it_is_under_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch, have: bytes | None
) -> None:
    """Up to the moment of the switch another process is told that the memory is locked, so no write is lost."""
    fill(folder, have)
    told: list[subprocess.CompletedProcess[str]] = []
    switch = upkeep._switch

    def late(*args: Any) -> None:
        told.append(in_another_process(WRITE, str(folder), "" if have is None else have.hex()))
        switch(*args)

    monkeypatch.setattr(upkeep, "_switch", late)
    with a_forest(folder, KEY) as forest:
        forest.encrypt() if have is None else forest.rekey(OTHER)
    assert [one.returncode for one in told] == [1]
    assert "StoreLockedError" in told[0].stderr
    with a_forest(folder, KEY if have is None else OTHER) as forest:
        assert len(forest.user("nora").sessions()) == 1


def test_who_waited_for_it_finds_the_new_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that had the old file open when it was replaced writes nothing into it, and makes no log for the new one."""
    fill(folder, None)
    path, switch = file_of(folder), upkeep._switch
    waiting: list[subprocess.Popen[str]] = []
    code = "import sys, pathlib, memforest.store.database as db; db.Database(pathlib.Path(sys.argv[1]), busy_timeout_s=60)"

    def late(*args: Any) -> None:
        waiting.append(
            subprocess.Popen([sys.executable, "-c", code, str(path)], stderr=subprocess.PIPE, text=True)
        )
        _wait_until_open(waiting[0].pid, path)
        switch(*args)

    monkeypatch.setattr(upkeep, "_switch", late)
    with a_forest(folder, KEY) as forest:
        forest.encrypt()
        _, error = waiting[0].communicate(timeout=60)
        assert "StoreReplacedError" in error
        assert no_leftovers(folder)
        assert answers(forest.user("nora"))


def _wait_until_open(process: int, path: Path) -> None:
    """Wait until a process has a file open."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("which files a process has open can be told on Linux alone")
    inode = path.stat().st_ino
    while True:
        for one in Path(f"/proc/{process}/fd").iterdir():
            try:
                if one.stat().st_ino == inode:
                    return
            except OSError:
                continue


def test_two_that_encrypt_one_directory(folder: Path) -> None:
    """One does a file, the other finds it done."""
    fill(folder, None, "a", "b", "c")

    async def both() -> list[Any]:
        forests = [AsyncMemForest(folder, fast_config(key=KEY)) for _ in range(2)]
        return await asyncio.gather(*(one.encrypt() for one in forests))

    told = asyncio.run(both())
    assert sorted(name for one in told for name in one.done) == sorted(file_name(user) for user in "abc")
    with a_forest(folder, KEY) as forest:
        assert forest.list_users() == ["a", "b", "c"]


def test_a_full_disk_changes_nothing(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The half-written copy goes, and the memory is used as before."""
    fsync = os.fsync
    for at in (1, 2, 3):  # of the salt, of the directory, of the copy
        calls: list[int] = []

        def full(number: int, at: int = at, calls: list[int] = calls) -> None:
            calls.append(number)
            if len(calls) == at:
                raise OSError(28, "No space left on device")
            fsync(number)

        with a_forest(filled, KEY) as forest, monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StoreWriteError):
                forest.encrypt("nora")
        assert not beside(file_of(filled), "-new").exists()
        with a_forest(filled, None) as forest:
            assert answers(forest.user("nora"))
            assert forest.user("nora").verify().ok
    with a_forest(filled, KEY) as forest:
        assert forest.encrypt().done


def test_a_plain_copy_that_was_left_is_overwritten(filled: Path) -> None:
    """A decryption was interrupted, and the memory is to stay encrypted after all; until then results warn of it."""
    with a_forest(filled, KEY) as forest:
        forest.encrypt()
    copy = beside(file_of(filled), "-new")
    copy.write_bytes(b"quixplotz" * 1000)
    other = filled / "other-name"
    os.link(copy, other)
    with a_forest(filled, KEY) as forest:
        assert any("was interrupted" in text for text in forest.query("nora", "x").warnings)
        assert forest.encrypt().done
        assert not any("was interrupted" in text for text in forest.query("nora", "x").warnings)
    assert not copy.exists()
    assert set(other.read_bytes()) == {0}
    other.unlink()
    assert marked(filled) == []


def test_a_copy_that_differs_is_not_used(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the copy is compared with the one that it is of, in both directions."""
    attached = upkeep._attached
    for sql in (
        "DELETE FROM turn WHERE id = 2",
        "UPDATE fact SET text = 'x' WHERE id = 1",
        "CREATE TABLE more (a)",
    ):
        calls: list[int] = []

        def wrong(*args: Any, sql: str = sql, calls: list[int] = calls) -> Any:
            made = attached(*args)
            calls.append(1)
            if len(calls) == 2:
                made.execute(sql)
            return made

        with monkeypatch.context() as patch, a_forest(filled, KEY) as forest:
            patch.setattr(upkeep, "_attached", wrong)
            with pytest.raises(CorruptStoreError):
                forest.encrypt("nora")
    with a_forest(filled, None) as forest:
        assert answers(forest.user("nora"))
        assert forest.user("nora").verify().ok


def test_a_call_that_is_cancelled_ends_behind_a_file(folder: Path) -> None:
    """What is done stays, the rest is done by the next call."""
    fill(folder, None, "a", "b", "c")

    async def run() -> int:
        async with AsyncMemForest(folder, a_forest(folder, KEY).config) as forest:
            loop, begun = asyncio.get_running_loop(), asyncio.Event()
            job = asyncio.ensure_future(
                forest.encrypt(progress=lambda *_: loop.call_soon_threadsafe(begun.set))
            )
            await begun.wait()
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
            users = len(await forest.list_users())
            await forest.encrypt()
            assert await forest.list_users() == ["a", "b", "c"]
            return users

    assert 1 <= asyncio.run(run()) <= 3
    assert no_leftovers(folder)


def killed(path: Path, have: str, want: str, step: int) -> tuple[int, str]:
    """Do it in a process that is killed at a step; return its exit code and what it printed."""
    program = Path(__file__).parent / "recrypting.py"
    done = subprocess.run(
        [sys.executable, str(program), str(path), have, want, str(step)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture(
    params=[("-", HEX), (HEX, OTHER.hex()), (OTHER.hex(), "-")], ids=["encrypt", "rekey", "decrypt"]
)
def change(request: pytest.FixtureRequest) -> Any:
    """The keys before and after."""
    return request.param


@pytest.mark.skipif(sys.platform == "win32", reason="kills with a signal")
@pytest.mark.timeout(300)
def test_killed_at_any_step(filled: Path, worlds: Path, change: tuple[str, str], soak_seed: int) -> None:
    """The memory opens with the key before or behind, whole; the same call again completes it and leaves nothing."""
    have, want = change
    path = file_of(filled)
    if have != "-":
        upkeep.recrypt(path, None, Key(have), timeout_s=5)
    held = {one.name: one.read_bytes() for one in filled.iterdir()}
    code, steps = killed(path, have, want, -1)
    assert code == 0
    points = list(range(int(steps)))
    assert len(points) > 20
    for at in Random(soak_seed).sample(points, 3 if soak_seed < 3 else len(points)):
        for one in filled.iterdir():
            one.unlink()
        for name, value in held.items():
            (filled / name).write_bytes(value)
        assert killed(path, have, want, at)[0] == -signal.SIGKILL
        check_interrupted(filled, have, want)
        code, _ = killed(path, have, want, -1)
        assert code == 0
        assert no_leftovers(filled)
        assert (marked(filled) == []) == (want != "-")
        if want != "-":
            upkeep.recrypt(path, Key(want), None, timeout_s=5)
        assert differences(dump(file_of(worlds)), dump(path)) == {}


def check_interrupted(folder: Path, have: str, want: str) -> None:
    """Check that one of the two keys opens the memory, with all that was said, and that the other one says what to do."""
    opened = 0
    for one in (have, want):
        with a_forest(folder, None if one == "-" else one) as forest:
            if forest.list_users() == ["nora"]:
                assert len(forest.user("nora").sessions()) == 6
                assert forest.user("nora").verify().ok
                opened += 1
            else:
                with pytest.raises(StoreKeyError):
                    forest.query("nora", "x")
    assert opened == 1
