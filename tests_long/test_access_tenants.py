"""Tenants: each in a directory of its own, all within one bound of open files and cached bytes."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_forest_pool import held
from tests_long.worlds import fast_config

from memforest import AsyncMemForest
from memforest.server.access import KeyedAccess, Tenants, directory_of
from memforest.server.auth import AccessSettings, Principal
from memforest.server.keys import KeyStore

WHEN = "2024-05-01T10:00:00Z"
ODD = [
    *(
        "a",
        "A",
        "á",
        "a ",
        "a/b",
        "../a",
        "..",
        "/etc",
        "tenants",
        "server",
        "ａ",
        "a\\b",
        "%2e%2e",
        "CON",
        "x" * 1_000,
    ),
    *("x" * 1_001, "аа", "🌳", "a.db", "-", "a\n"),
]


def run(folder: Path, work: Callable[[Tenants], Awaitable[None]], **settings: Any) -> None:
    """Run work with the tenants of a directory, and close them: nothing is left open."""

    async def inside() -> None:
        tenants = Tenants(folder, fast_config(**settings))
        try:
            await work(tenants)
        finally:
            await tenants.close()
        assert (tenants.opened, tenants.open_files, tenants.cached_bytes) == (0, 0, 0)

    asyncio.run(inside())
    assert held(folder) in (0, None)


async def say(tenants: Tenants, tenant: str | None, user: str, text: str) -> None:
    """Store something said in a memory of a tenant."""
    async with tenants.forest(tenant) as forest:
        await forest.user(user).add(text, timestamp=WHEN)


async def heard(tenants: Tenants, tenant: str | None, user: str, query: str) -> list[str]:
    """Return what a tenant finds."""
    async with tenants.forest(tenant) as forest:
        found = await forest.user(user).search(query)
        return [one.quote for one in found.evidence]


def test_every_tenant_has_a_directory_of_its_own_right_below(tmp_path: Path) -> None:
    """Whatever it is called: no two share one on any file system, none is elsewhere or another's parent."""
    made = [directory_of(tmp_path, one) for one in ODD]
    assert len({path.name.casefold() for path in made}) == len(ODD)
    for path in made:
        assert path.parent == tmp_path / "tenants"
        assert path.name.isascii()
        assert set(path.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert len(path.name) < 100
    assert directory_of(tmp_path, None) == tmp_path


def test_a_tenant_sees_nothing_of_another(folder: Path) -> None:
    """The same user id, the same words: a search finds its own, and who is not there is not there."""

    async def work(tenants: Tenants) -> None:
        await say(tenants, "one", "ann", "The code of tenant one is apple.")
        await say(tenants, "two", "ann", "The code of tenant two is pear.")
        await say(tenants, None, "bob", "The code of nobody is plum.")
        assert await heard(tenants, "one", "ann", "What is the code?") == ["The code of tenant one is apple."]
        assert await heard(tenants, "two", "ann", "What is the code?") == ["The code of tenant two is pear."]
        for tenant, user in (("one", "bob"), ("two", "bob"), (None, "ann"), ("three", "ann")):
            assert await heard(tenants, tenant, user, "What is the code?") == []
        for tenant, users in (("one", ["ann"]), (None, ["bob"]), ("three", [])):
            async with tenants.forest(tenant) as forest:
                assert await forest.list_users() == users

    run(folder, work)


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_directories_are_for_their_owner_alone(folder: Path) -> None:
    """With any umask: of the server, of tenants and of each."""
    before = os.umask(0o022)
    try:
        run(folder / "d", lambda tenants: say(tenants, "t", "u", "Hello there."))
    finally:
        os.umask(before)
    made = [path for path in (folder / "d").rglob("*") if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in [folder / "d", *made]} == {0o700}


def test_asking_for_a_tenant_makes_no_directory_of_it(folder: Path) -> None:
    """Only what is stored leaves a trace."""

    async def work(tenants: Tenants) -> None:
        async with tenants.forest("t") as forest:
            assert not await forest.has_user("u")

    run(folder, work)
    assert list((folder / "tenants").iterdir()) == []


def test_open_files_stay_within_one_bound_over_all_tenants(folder: Path) -> None:
    """Between calls never more than configured, as the system counts them; and no tenant is kept of whom nothing is open."""

    async def work(tenants: Tenants) -> None:
        for n in range(36):
            await say(tenants, f"t{n % 18}", f"u{n % 2}", f"Number {n} came by.")
            assert tenants.open_files <= 12
            assert (held(folder) or 0) <= 12
            assert tenants.opened <= 12

    run(folder, work, max_open_files=12)


def test_a_thousand_tenants_of_ten_users(folder: Path) -> None:
    """Open files and cached bytes stay within the bounds, and the tenants that are kept in memory within the files.

    The users are there in the way that counts: each is asked for in the tenant's directory. Making 10,000 memories is what
    `benchmarks/serving.py` does.
    """

    async def work(tenants: Tenants) -> None:
        async def visit(n: int) -> None:
            async with tenants.forest(f"tenant {n}") as forest:
                for user in range(10):
                    assert not await forest.has_user(f"user {user}")
                if n % 20 == 0:
                    await forest.user("user 0").add(f"Tenant {n} is here.", timestamp=WHEN)
                    assert (await forest.user("user 0").search("Who is here?")).evidence

        for start in range(0, 1000, 25):
            await asyncio.gather(*(visit(n) for n in range(start, start + 25)))
            assert tenants.open_files <= 24
            assert (held(folder) or 0) <= 24
            assert tenants.cached_bytes <= 1_000_000
            assert tenants.opened <= 24

    run(folder, work, max_open_files=24, max_cache_mb=1)


def test_cached_bytes_stay_within_one_bound_over_all_tenants(folder: Path) -> None:
    """With room for none, nothing is kept when a tenant is given back, though each alone may keep that much."""

    async def work(tenants: Tenants) -> None:
        for n in range(4):
            await say(tenants, f"t{n}", "u", "Hello there.")
            await heard(tenants, f"t{n}", "u", "Who said hello?")
            assert tenants.cached_bytes == 0

    run(folder, work, max_cache_mb=0)

    async def kept(tenants: Tenants) -> None:
        for n in range(4):
            await heard(tenants, f"t{n}", "u", "Who said hello?")
        assert tenants.cached_bytes > 0

    run(folder, kept, max_cache_mb=1)


def test_the_memory_used_longest_ago_goes_first_whosever_it_is(folder: Path) -> None:
    """A tenant that is used all the time keeps its memory open while others come and go."""

    async def work(tenants: Tenants) -> None:
        async with tenants.forest("busy") as forest:
            first = forest
        await say(tenants, "busy", "u", "Hello there.")
        opened: list[AsyncMemForest] = []
        for n in range(12):
            await say(tenants, f"t{n}", "u", "Hello there.")
            async with tenants.forest("busy") as forest:
                await forest.user("u").search("Who said hello?")
                opened.append(forest)
        assert all(one is opened[0] for one in opened)
        assert opened[0] is not first  # of whom nothing was open

    run(folder, work, max_open_files=16)


def test_what_is_in_use_is_not_closed(folder: Path) -> None:
    """A tenant that is lent stays the same object and goes on, while many others are opened and closed beside it."""

    async def work(tenants: Tenants) -> None:
        async with tenants.forest("lent") as forest:
            await forest.user("u").add("Hello there.", timestamp=WHEN)
            for n in range(8):
                await say(tenants, f"t{n}", "u", "Hello there.")
            async with tenants.forest("lent") as same:
                assert same is forest
            assert (await forest.user("u").search("Who said hello?")).evidence

    run(folder, work, max_open_files=3)


def test_many_at_once_write_and_read_their_own(folder: Path) -> None:
    """Far more tenants at work than may be open: each finds what it said, and the bound holds afterwards."""

    async def work(tenants: Tenants) -> None:
        async def one(n: int) -> None:
            tenant = f"t{n % 8}"
            await say(tenants, tenant, f"u{n}", f"My number is {n}.")
            assert await heard(tenants, tenant, f"u{n}", "What is my number?") == [f"My number is {n}."]

        await asyncio.gather(*(one(n) for n in range(16)))
        assert tenants.open_files <= 6

    run(folder, work, max_open_files=6)


def test_a_request_that_is_cancelled_leaves_nothing_open(folder: Path) -> None:
    """Wherever it is cut: what it had is given back."""

    async def work(tenants: Tenants) -> None:
        for wait in range(12):
            task = asyncio.create_task(say(tenants, f"t{wait}", "u", "Hello there."))
            for _ in range(wait):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await say(tenants, "last", "u", "Hello there.")
        assert held(folder) in (tenants.open_files, None)
        assert tenants.opened <= tenants.open_files

    run(folder, work, max_open_files=24)


def test_a_closed_server_opens_again(folder: Path) -> None:
    """What was said is there."""

    async def work(tenants: Tenants) -> None:
        await say(tenants, "t", "u", "Hello there.")
        await tenants.close()
        assert await heard(tenants, "t", "u", "Who said hello?") == ["Hello there."]

    run(folder, work)


def test_a_key_opens_its_tenants_memories_alone(folder: Path) -> None:
    """From the key to the words: the directory and the forest are those of the key's tenant."""
    store = KeyStore(folder)
    keys = {tenant: store.create(str(tenant), tenant=tenant) for tenant in ("one", "two", None)}
    store.close()
    no_limits = AccessSettings(key_rate=None, tenant_rate=None)

    async def work() -> None:
        access = KeyedAccess(folder, fast_config(), no_limits)
        for tenant, made in keys.items():
            who = await access.identify(made.key)
            assert access.directory(who) == directory_of(folder, tenant)
            async with access.forest(who) as forest:
                assert forest.directory == access.directory(who)
                await forest.user(f"of {tenant}").add("Hello there.", timestamp=WHEN)
        for tenant in keys:
            async with access.forest(Principal(tenant)) as forest:
                assert await forest.list_users() == [f"of {tenant}"]
        await access.close()

    asyncio.run(work())
    assert held(folder) in (0, None)
