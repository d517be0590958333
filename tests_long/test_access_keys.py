"""Keys of a server: what is stored of them, who is let in by which, and when a change holds."""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.worlds import fast_config

from memforest.errors import InputError, NotFoundError, SchemaVersionError, StoreError, UnauthenticatedError
from memforest.server import keys as known_module
from memforest.server.access import KeyedAccess, steady
from memforest.server.auth import Access, AccessSettings, Principal
from memforest.server.keys import (
    KEY_FILE,
    LOOK_EVERY_S,
    NOTE_EVERY_S,
    KeyStore,
    KeyView,
    KnownKeys,
    MadeKey,
    id_of,
    read_lifetime,
    read_scopes,
)
from memforest.testing import FrozenClock

NO_LIMITS = AccessSettings(key_rate=None, tenant_rate=None)
GARBAGE = [
    *(
        "",
        " ",
        "x",
        "mfk_",
        "mfk_0123456789ab",
        "mfk_0123456789ab_",
        "a.b.c",
        "Bearer",
        "null",
        "\0",
        "é" * 80,
    ),
    *(
        "mfk_0123456789ab_" + "0" * 64,
        "MFK_0123456789AB_" + "0" * 64,
        "mfk_" + "0" * 100_000,
        "\ud800",
        "' OR 1=1 --",
    ),
]


class Watch:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.now


@pytest.fixture
def ticking() -> FrozenClock:
    """A clock that is moved by the test."""
    return FrozenClock("2026-01-01T00:00:00Z")


@pytest.fixture
def store(folder: Path, ticking: FrozenClock) -> KeyStore:
    """Keys of an empty directory."""
    return KeyStore(folder / "d", ticking)


def access(store: KeyStore, clock: FrozenClock, watch: Watch, **settings: Any) -> KeyedAccess:
    """Return access as a server of the same directory has it, in a connection of its own."""
    directory = store.path.parent.parent
    return KeyedAccess(directory, fast_config(clock=clock), NO_LIMITS, monotonic=watch, **settings)


async def let_in(by: Access, credential: str | None) -> Principal | None:
    """Return who is let in with a credential, None when nobody is."""
    try:
        return await by.identify(credential)
    except UnauthenticatedError:
        return None


def test_a_key_has_256_random_bits_and_is_stored_as_its_hash(store: KeyStore) -> None:
    """No part of what is random in it is in any file; two keys share none of it."""
    one, other = store.create("a"), store.create("b")
    assert re.fullmatch(r"mfk_[0-9a-f]{12}_[0-9a-f]{64}", one.key)
    assert one.key.split("_")[2] != other.key.split("_")[2]
    stored = b"".join(path.read_bytes() for path in store.path.parent.iterdir())
    assert one.view.id.encode() in stored
    assert one.key[-16:].encode() not in stored
    assert bytes.fromhex(one.key[-64:]) not in stored
    assert one.key not in repr(one)
    store.close()


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_files_are_for_their_owner_alone(store: KeyStore) -> None:
    """Also the log beside it, with any umask; rights that others have been given are taken away."""
    before = os.umask(0)
    try:
        store.create("a")
        folder = store.path.parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
        store.close()
        store.path.chmod(0o644)
        folder.chmod(0o777)
        assert store.ever()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    finally:
        os.umask(before)
        store.close()


def test_looking_makes_no_file(store: KeyStore) -> None:
    """A server without keys leaves nothing behind, nor does a list of none."""
    assert store.all() == []
    assert not store.ever()
    with pytest.raises(NotFoundError):
        store.revoke("a")
    assert not store.path.parent.exists()


def test_a_file_of_a_newer_version_is_refused(store: KeyStore) -> None:
    """Nobody is let in by half of what it says."""
    store.create("a")
    store.close()
    with closing(sqlite3.connect(store.path)) as conn:
        conn.execute("PRAGMA user_version = 99")
    with pytest.raises(SchemaVersionError):
        store.all()


def test_no_link_is_followed(store: KeyStore, folder: Path) -> None:
    """Whoever may write into the directory of keys cannot have keys stored elsewhere."""
    store.path.parent.mkdir(parents=True)
    store.path.symlink_to(folder / "elsewhere")
    with pytest.raises(StoreError):
        store.create("a")
    assert not (folder / "elsewhere").exists()


def test_a_key_is_listed_with_everything_but_itself(store: KeyStore, ticking: FrozenClock) -> None:
    """Name, tenant, user, scopes in their order, and times."""
    made = store.create("a", tenant="../t", user="ü", scopes=("admin", "read"), lifetime=timedelta(days=90))
    [seen] = store.all()
    assert seen == made.view
    assert (seen.name, seen.tenant, seen.user, seen.scopes) == ("a", "../t", "ü", ("read", "admin"))
    assert (seen.created, seen.expires) == (ticking(), ticking() + timedelta(days=90))
    assert (seen.used, seen.revoked, seen.state(ticking())) == (None, None, "active")
    assert seen.state(ticking() + timedelta(days=90)) == "expired"
    store.close()


def test_only_one_active_key_has_a_name(store: KeyStore, ticking: FrozenClock) -> None:
    """It is free again when that key is revoked or has expired; revoking by name means the one that can be used."""
    first = store.create("a")
    with pytest.raises(InputError):
        store.create("a")
    assert store.revoke("a").id == first.view.id
    ticking.advance(seconds=1)
    second = store.create("a", lifetime=timedelta(hours=1))
    ticking.advance(hours=1)
    third = store.create("a")
    assert store.revoke("a").id == third.view.id
    assert [one.revoked is not None for one in store.all()] == [True, False, True]
    assert store.revoke(second.view.id).id == second.view.id
    store.close()


def test_a_key_is_revoked_by_itself_too_and_once(store: KeyStore, ticking: FrozenClock) -> None:
    """Who finds one that leaked can use it as it is; the time of the first revocation stays."""
    made = store.create("a")
    at = store.revoke(made.key).revoked
    ticking.advance(days=1)
    assert store.revoke("a").revoked == at == ticking() - timedelta(days=1)
    store.close()


def test_nothing_is_revoked_by_an_empty_name(store: KeyStore) -> None:
    """What was erased has no name, and is not what an empty variable of a script means."""
    store.create("a")
    store.revoke("a", erase=True)
    with pytest.raises(NotFoundError):
        store.revoke("")
    store.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": "a\0"}, {"name": "a\nb"}, {"name": "x" * 101}, {"tenant": ""},
        {"name": "0123456789ab"}, {"name": "mfk_0123456789ab_" + "0" * 64}, {"name": "mfk_"}, {"tenant": "\ud800"},
        {"user": " "}, {"user": "x" * 10_000}, {"scopes": ()}, {"scopes": ("root",)}, {"scopes": ("read", "")},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_is_refused(store: KeyStore, wrong: dict[str, Any]) -> None:
    """Nothing is stored then."""
    with pytest.raises(InputError):
        store.create(**{"name": "a", **wrong})
    assert store.all() == []


@each("wrong", ["", "0d", "-1d", "1", "d", "1y", "1.5d", "99999d", "1d1d", "٣ x"])
def test_durations_that_are_none_are_refused(wrong: str) -> None:
    """The message says which there are."""
    with pytest.raises(InputError):
        read_lifetime(wrong)


def test_durations_and_scopes_are_read() -> None:
    """In the forms that people write."""
    assert [read_lifetime(one) for one in ("12h", " 90D ", "4 w")] == [
        timedelta(hours=12), timedelta(days=90), timedelta(weeks=4),
    ]  # fmt: skip
    assert read_scopes("read, write,read") == {"read", "write"} == read_scopes(["write", "read"])
    with pytest.raises(InputError):
        read_scopes("Read")
    with pytest.raises(InputError):
        read_scopes("")


def test_a_key_lets_in_who_it_was_made_for(store: KeyStore, ticking: FrozenClock) -> None:
    """With its tenant, user and scopes, and a name that is no secret."""
    made = store.create("a", tenant="t", user="u", scopes=("read",))

    async def work() -> None:
        by: Access = access(store, ticking, Watch())
        who = await by.identify(made.key)
        assert who == Principal("t", "u", frozenset({"read"}), f"key:{made.view.id}")
        await by.close()

    asyncio.run(work())


def test_garbage_lets_nobody_in(store: KeyStore, ticking: FrozenClock) -> None:
    """Nor does a key with one digit changed, another key's id, upper case, or blanks around it; all get one answer."""
    one, other = store.create("a"), store.create("b")
    flipped = one.key[:-1] + ("0" if one.key[-1] != "0" else "1")
    crossed = f"mfk_{other.view.id}_{one.key[-64:]}"
    near = [flipped, crossed, one.key.upper(), f" {one.key}", f"{one.key}\n", one.key[4:], one.view.id]

    async def work() -> None:
        by = access(store, ticking, Watch(), loopback=True)
        said = set()
        for credential in (*GARBAGE[1:], *near):
            with pytest.raises(UnauthenticatedError) as caught:
                await by.identify(credential)
            said.add(str(caught.value))
        assert said == {"the key or token is unknown, expired or revoked"}
        for nothing in (None, ""):
            with pytest.raises(UnauthenticatedError):
                await by.identify(nothing)
        await by.close()

    asyncio.run(work())


def test_keys_are_compared_in_constant_time(
    store: KeyStore, ticking: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole hashes of equal length, once for each credential, whether its id is known or not."""
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    class Spy:
        compare_digest = staticmethod(compare)

    monkeypatch.setattr(known_module, "hmac", Spy)
    made = store.create("a")

    async def work() -> None:
        keys = KnownKeys(KeyStore(store.path.parent.parent), ticking, Watch())
        for credential in (made.key, made.key[:-1] + "x", f"mfk_{'0' * 12}_{made.key[-64:]}", "x"):
            await keys.find(credential)
        await keys.close()

    asyncio.run(work())
    assert compared == [(32, 32)] * 4


def test_an_expired_key_lets_nobody_in_from_that_instant(store: KeyStore, ticking: FrozenClock) -> None:
    """By the clock of the configuration; nothing has to be read again for it."""
    made = store.create("a", lifetime=timedelta(hours=1))

    async def work() -> None:
        by = access(store, ticking, Watch())
        ticking.advance(seconds=3599.9)
        assert await let_in(by, made.key)
        ticking.advance(seconds=0.1)
        assert await let_in(by, made.key) is None
        await by.close()

    asyncio.run(work())


def test_a_clock_that_is_set_back_makes_no_key_valid_again(store: KeyStore, ticking: FrozenClock) -> None:
    """While the server runs: what has expired by the time that passed has expired, whatever the system says it is."""
    made, watch = store.create("a", lifetime=timedelta(hours=1)), Watch()

    async def work() -> None:
        by = access(store, ticking, watch)
        ticking.advance(seconds=-7200)
        watch.now += 3599
        assert await let_in(by, made.key)
        watch.now += 1
        assert await let_in(by, made.key) is None
        await by.close()

    asyncio.run(work())


def test_a_clock_that_was_wrong_for_a_moment_is_followed_back(ticking: FrozenClock) -> None:
    """Set a year ahead and back again, nothing has expired by that; what passes meanwhile is seen in any case."""
    watch = Watch()
    now = steady(ticking, watch)
    begun = ticking()
    ticking.advance(days=365)
    assert now() == begun + timedelta(days=365)
    ticking.advance(days=-365)
    watch.now += 60
    assert now() == begun + timedelta(seconds=60)


def test_without_any_key_everybody_on_this_machine_is_let_in(store: KeyStore, ticking: FrozenClock) -> None:
    """Also with a word that some client insists on sending; never with a key, which is for other memories."""

    async def work() -> None:
        by = access(store, ticking, Watch(), loopback=True)
        for credential in (None, "anything", "local"):
            assert await by.identify(credential) == Principal()
        assert await let_in(by, "mfk_0123456789ab_" + "0" * 64) is None
        await by.close()
        elsewhere = access(store, ticking, Watch())
        assert await let_in(elsewhere, None) is None
        await elsewhere.close()

    asyncio.run(work())
    assert not store.path.exists()


def test_once_a_key_was_made_nobody_is_anonymous_again(store: KeyStore, ticking: FrozenClock) -> None:
    """Not when all are revoked, and not in a running server when the file is deleted."""
    made, watch = store.create("a"), Watch()
    store.revoke("a")

    async def work() -> None:
        by = access(store, ticking, watch, loopback=True)
        assert [await let_in(by, one) for one in (None, made.key)] == [None, None]
        store.close()
        for path in store.path.parent.iterdir():
            path.unlink()
        watch.now += 10
        assert [await let_in(by, one) for one in (None, made.key)] == [None, None]
        await by.close()

    asyncio.run(work())


@pytest.mark.parametrize("left", ["nothing", "no rows", "a link to nowhere"])
def test_a_file_that_has_lost_its_keys_opens_no_door(
    store: KeyStore, ticking: FrozenClock, left: str
) -> None:
    """Also for a server that is started then: that there is a file says that a key was made."""
    made = store.create("a")
    store.close()
    path = store.path
    if left == "no rows":
        with closing(sqlite3.connect(path, isolation_level=None)) as conn:
            conn.execute("DELETE FROM key")
    else:
        path.unlink()
        path.touch() if left == "nothing" else path.symlink_to(path.with_name("nowhere"))

    async def work() -> None:
        by = access(store, ticking, Watch(), loopback=True)
        assert [await let_in(by, one) for one in (None, "x", made.key)] == [None] * 3
        await by.close()

    asyncio.run(work())
    assert store.ever()
    store.close()


def test_changes_of_others_hold_within_five_seconds(store: KeyStore, ticking: FrozenClock) -> None:
    """A first key, a second one and a revocation are known by the next look, which is due well before 5 s."""
    watch = Watch()

    async def work() -> None:
        by = access(store, ticking, watch, loopback=True)
        assert await by.identify(None) == Principal()
        one = store.create("a")
        watch.now += LOOK_EVERY_S
        assert await let_in(by, None) is None
        assert await let_in(by, one.key)
        two = store.create("b")
        watch.now += LOOK_EVERY_S
        assert await let_in(by, two.key)
        store.revoke("a")
        watch.now += LOOK_EVERY_S
        assert await let_in(by, one.key) is None
        assert await let_in(by, two.key)
        await by.close()

    asyncio.run(work())
    store.close()
    assert LOOK_EVERY_S < 5


def test_the_file_is_read_only_when_it_has_changed(
    store: KeyStore, ticking: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storm of unknown keys reads nothing; looks that find nothing new read no rows."""
    watch = Watch()
    reads: list[float] = []
    made = store.create("a")
    server = KeyStore(store.path.parent.parent)
    rows = server.all

    def counted() -> list[KeyView]:
        reads.append(watch.now)
        return rows()

    monkeypatch.setattr(server, "all", counted)

    async def work() -> None:
        keys = KnownKeys(server, ticking, watch)
        for n in range(200):
            assert await keys.find(f"mfk_{n:012x}_{'0' * 64}") is None
        assert len(reads) == 1
        for _ in range(5):
            watch.now += LOOK_EVERY_S
            assert await keys.find(made.key)
        assert len(reads) == 1
        store.create("b")
        watch.now += LOOK_EVERY_S
        await asyncio.gather(*(keys.find(made.key) for _ in range(20)))
        assert len(reads) == 2
        await keys.close()

    asyncio.run(work())
    store.close()


def test_keys_that_cannot_be_read_let_nobody_in(store: KeyStore, ticking: FrozenClock) -> None:
    """A damaged file is an error of the store, with no one let in by what was known before; a good one is used again."""
    made, watch = store.create("a"), Watch()
    store.close()
    path = store.path
    whole = path.read_bytes()

    async def work() -> None:
        by = access(store, ticking, watch, loopback=True)
        assert await let_in(by, made.key)
        path.with_name("new").write_bytes(b"\xff" * 4096)
        path.with_name("new").replace(path)
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        watch.now += LOOK_EVERY_S
        for credential in (made.key, None, "x"):
            with pytest.raises(StoreError):
                await by.identify(credential)
        path.with_name("new").write_bytes(whole)
        path.with_name("new").replace(path)
        assert await let_in(by, made.key)
        await by.close()

    asyncio.run(work())


def test_another_process_makes_and_revokes_while_the_server_runs(folder: Path, ticking: FrozenClock) -> None:
    """With the commands, as somebody would at a shell."""
    watch = Watch()

    def run(*args: str) -> str:
        command = [sys.executable, "-m", "memforest", "keys", *args, "--dir", str(folder)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    async def work() -> None:
        by = KeyedAccess(folder, fast_config(clock=ticking), NO_LIMITS, monotonic=watch)
        key = await asyncio.to_thread(run, "create", "x", "--tenant", "t")
        assert id_of(key)
        who = await by.identify(key)
        assert who.tenant == "t"
        await asyncio.to_thread(run, "revoke", "x")
        watch.now += LOOK_EVERY_S
        assert await let_in(by, key) is None
        await by.close()

    asyncio.run(work())


def test_many_make_keys_at_once(folder: Path) -> None:
    """Each connection of its own: all keys are there, and one name is taken once."""
    stores = [KeyStore(folder) for _ in range(8)]

    async def one(n: int, name: str) -> MadeKey | InputError:
        try:
            return await asyncio.to_thread(stores[n].create, name)
        except InputError as exc:
            return exc

    async def work() -> None:
        made = await asyncio.gather(*(one(n, f"k{n}") for n in range(8)))
        assert all(isinstance(key, MadeKey) for key in made)
        same = await asyncio.gather(*(one(n, "same") for n in range(8)))
        assert sum(isinstance(key, MadeKey) for key in same) == 1

    asyncio.run(work())
    assert len(stores[0].all()) == 9
    for store in stores:
        store.close()


def test_last_use_is_written_now_and_then_and_at_the_end(store: KeyStore, ticking: FrozenClock) -> None:
    """Not with every request; a later time is not overwritten by an earlier one."""
    made, watch = store.create("a"), Watch()

    async def work() -> None:
        by = access(store, ticking, watch)
        ticking.advance(seconds=5)
        await by.identify(made.key)
        watch.now += LOOK_EVERY_S
        await by.identify(made.key)
        assert store.all()[0].used is None
        watch.now += NOTE_EVERY_S
        await by.identify(made.key)
        assert store.all()[0].used == ticking()
        ticking.advance(minutes=5)
        await by.identify(made.key)
        await by.close()
        assert store.all()[0].used == ticking()

    asyncio.run(work())
    store.note_use([(made.view.id, ticking() - timedelta(days=1))])
    assert store.all()[0].used == ticking()
    store.close()


def test_that_last_use_cannot_be_written_keeps_nobody_out(
    store: KeyStore, ticking: FrozenClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, without the path."""
    made, watch = store.create("a"), Watch()
    server = KeyStore(store.path.parent.parent)

    def fail(_used: object) -> None:
        raise StoreError(f"{server.path} is full")

    monkeypatch.setattr(server, "note_use", fail)

    async def work() -> None:
        keys = KnownKeys(server, ticking, watch)
        assert await keys.find(made.key)
        watch.now += NOTE_EVERY_S
        assert await keys.find(made.key)
        await keys.close()

    asyncio.run(work())
    assert "times of last use" in caplog.text
    assert str(KEY_FILE) not in caplog.text
    store.close()
