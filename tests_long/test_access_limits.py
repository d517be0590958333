"""Limits of a server: requests of keys and tenants, ingests at once; where it may listen; settings that are refused."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("limits", reason="the extra [server] is not installed")

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.test_access_keys import Watch
from tests_long.worlds import fast_config

from memforest.errors import ConfigError, RateLimitError
from memforest.server.access import KeyedAccess, Rates, Shares
from memforest.server.auth import AccessSettings, IssuerSettings, Principal, may_bind

ONE, TWO, OTHER = Principal("t", key="key:1"), Principal("t", key="key:2"), Principal("o", key="key:3")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """What counts look at for the time."""
    made = Watch()
    for module in ("limits.storage.memory", "memforest.server.access"):
        monkeypatch.setattr(f"{module}.time", SimpleNamespace(time=made))
    return made


def rates(key_rate: str | None = "3/minute", tenant_rate: str | None = "5/minute") -> Rates:
    """Return counts with small limits."""
    return Rates(AccessSettings(key_rate=key_rate, tenant_rate=tenant_rate))


def let_pass(counted: Rates, who: Principal, times: int) -> int:
    """Return how many of some requests were let pass."""
    passed = 0
    for _ in range(times):
        try:
            counted.count(who)
        except RateLimitError:
            continue
        passed += 1
    return passed


def test_a_key_may_ask_so_often_and_its_tenant_with_all_keys_so_often() -> None:
    """A request that is refused for one is not counted for the other; another tenant is not concerned."""
    counted = rates()
    assert let_pass(counted, ONE, 10) == 3
    assert let_pass(counted, TWO, 10) == 2
    assert let_pass(counted, OTHER, 10) == 3


@each(("rate", "one"), [("3/minute", 3), ("1/second", 1), ("600/minute", 600), ("2/3 minutes", 2)])
def test_who_waits_as_long_as_was_said_is_let_pass(rate: str, one: int, watch: Watch) -> None:
    """And not sooner, wherever in a window the requests came."""
    for start in (0.0, 0.3, 29.9, 59.99):
        watch.now += start
        counted = rates(rate, None)
        assert let_pass(counted, ONE, one + 5) == one
        for _ in range(5):
            with pytest.raises(RateLimitError) as caught:
                counted.count(ONE)
            wait = caught.value.retry_after_s
            assert wait > 0
            watch.now += wait * 0.9
            assert let_pass(counted, ONE, 1) == 0
            watch.now += wait * 0.1
            assert let_pass(counted, ONE, one + 5) == one  # those that came at once


def test_no_burst_is_let_pass_where_one_window_ends_and_the_next_begins(watch: Watch) -> None:
    """As fixed windows do: the last instant of one and the first of the next hold the rate once, not twice."""
    watch.now = 60 * 20 - 0.01
    counted = rates("30/minute", None)
    assert let_pass(counted, ONE, 50) == 30
    watch.now += 0.02
    assert let_pass(counted, ONE, 50) == 0


def test_in_the_long_run_the_rate_is_kept(watch: Watch) -> None:
    """However greedy the requests are, and whenever they come; and about that many do pass."""
    drawn = random.Random(5)
    counted = rates("30/minute", None)
    begun, passed = watch.now, 0
    for _ in range(4_000):
        watch.now += drawn.choice([0.01, 0.1, 1.0])
        passed += let_pass(counted, ONE, 1)
    allowed = 30 * (watch.now - begun) / 60
    assert 0.8 * allowed <= passed <= allowed + 30


def test_without_a_rate_nothing_is_counted() -> None:
    """None is no limit."""
    counted = rates(None, None)
    assert let_pass(counted, ONE, 50) == 50


def test_names_of_tenants_and_keys_do_not_run_together() -> None:
    """One tenant's name with a key's is not another's: nobody uses up somebody else's limit."""
    counted = rates("3/minute", "3/minute")
    crossing = [
        Principal("a", key="b"), Principal("ab", key=""), Principal("", key="ab"), Principal(None, key="ab"),
        Principal("a/b", key="c"), Principal("a", key="b/c"), Principal("1:a", key="b"), Principal("-", key="b"),
    ]  # fmt: skip
    named = {(one.tenant, one.key) for one in crossing}
    assert len(named) == len(crossing)
    # Two are of one tenant, and share its limit.
    assert sum(let_pass(counted, one, 3) for one in crossing) == 3 * (len(crossing) - 1)


def test_a_server_counts_keys_and_not_who_needs_none(folder: Path) -> None:
    """On loopback without keys there are no limits, of requests or of ingests."""
    settings = AccessSettings(key_rate="2/minute", ingests_per_tenant=1)

    async def work() -> None:
        access = KeyedAccess(folder, fast_config(), settings, loopback=True, monotonic=Watch())
        anybody = await access.identify(None)
        for _ in range(10):
            await access.count(anybody)
        async with access.ingesting(anybody), access.ingesting(anybody):
            pass
        for _ in range(2):
            await access.count(ONE)
        with pytest.raises(RateLimitError):
            await access.count(ONE)
        async with access.ingesting(ONE):
            with pytest.raises(RateLimitError):
                await access.ingesting(TWO).__aenter__()
            async with access.ingesting(OTHER):
                pass
        await access.close()

    asyncio.run(work())


def test_so_many_ingests_of_a_tenant_are_under_way() -> None:
    """One more is refused at once, and let in when one has ended, also with an error or by being cancelled."""
    ingests = Shares(2, "ingests")

    async def hold(until: asyncio.Event) -> None:
        with ingests.one("t"):
            await until.wait()
            raise ValueError("it failed")

    async def work() -> None:
        end = asyncio.Event()
        tasks = [asyncio.create_task(hold(end)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(RateLimitError) as caught, ingests.one("t"):
            raise AssertionError("let in")
        assert caught.value.retry_after_s > 0
        with ingests.one("other"), ingests.one(None):
            pass
        tasks[0].cancel()
        await asyncio.gather(tasks[0], return_exceptions=True)
        with ingests.one("t"):
            pass
        end.set()
        assert isinstance((await asyncio.gather(tasks[1], return_exceptions=True))[0], ValueError)
        with ingests.one("t"), ingests.one("t"):
            pass

    asyncio.run(work())


@each("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LOCALHOST.", "::ffff:127.0.0.1"])
def test_without_keys_this_machine_may_be_served(host: str) -> None:
    """Nobody else reaches these addresses."""
    may_bind(host, keyed=False)


@each(
    "host",
    [
        "0.0.0.0",
        "::",
        "",
        "192.168.1.4",
        "example.com",
        "localhost.example.com",
        "::ffff:10.0.0.1",
        "127.0.0.1.nip",
        "0",
    ],
)
def test_without_keys_other_addresses_are_refused_with_what_to_do(host: str) -> None:
    """With a key that was ever made, or an issuer, any may be listened on."""
    with pytest.raises(ConfigError):
        may_bind(host, keyed=False)
    may_bind(host, keyed=True)


def issuer(**settings: Any) -> IssuerSettings:
    """Return settings of an issuer."""
    return IssuerSettings(**{"issuer": "https://id.example", "audience": "memforest", **settings})


@each(
    "make",
    [
        *(lambda rate=rate: AccessSettings(key_rate=rate) for rate in ("", "0/minute", "5", "5/year", "-1/second", "5/minute;x")),
        lambda: AccessSettings(tenant_rate="many"),
        lambda: AccessSettings(ingests_per_tenant=0),
        lambda: AccessSettings(key_rate=5),  # type: ignore[arg-type]
        lambda: issuer(issuer="http://id.example"),
        lambda: issuer(issuer="id.example"),
        lambda: issuer(issuer="https://user:secret@id.example"),
        lambda: issuer(issuer="file:///etc/passwd"),
        lambda: issuer(audience=" "),
        lambda: issuer(default_scopes=["root"]),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(make: Callable[[], object]) -> None:
    """Where they are written, and without showing what may be secret."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert "secret@" not in str(caught.value)


def test_an_issuer_on_this_machine_may_be_asked_in_clear_text() -> None:
    """As in development; and lists become tuples, so that settings stay as they are."""
    given = issuer(issuer="http://localhost:8080/realms/dev", default_scopes=[])
    assert given.default_scopes == ()


def test_limits_without_the_extra_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the server starts; without rates nothing is needed."""
    monkeypatch.setitem(sys.modules, "limits", None)
    with pytest.raises(ConfigError, match=r"memforest\[server\]"):
        rates()
    assert let_pass(rates(None, None), ONE, 5) == 5
