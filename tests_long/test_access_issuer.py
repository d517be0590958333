"""Tokens of an issuer: which are taken, what is read from them, and how often the issuer is asked."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="the extra [server] is not installed")
pytest.importorskip("jwt", reason="the extra [server] is not installed")

sys.path.insert(0, str(Path(__file__).parent.parent))

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.table import each
from tests_long.test_access_keys import Watch, let_in
from tests_long.worlds import fast_config

from memforest.errors import IssuerUnavailableError, UnauthenticatedError
from memforest.server.access import DISCOVERY, Issuer, KeyedAccess
from memforest.server.auth import AccessSettings, IssuerSettings, Principal
from memforest.server.keys import KeyStore
from memforest.testing import FrozenClock

ISSUER, AUDIENCE = "https://id.example/realm", "memforest"
KEYS_AT = "https://keys.example/jwks"
NOW = 1_767_225_600
CLAIMS = {
    "iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "tenant": "acme", "iat": NOW - 10, "exp": NOW + 600,
    "scope": "openid memforest:read memforest:write",
}  # fmt: skip


@cache
def private(kind: str) -> Any:
    """Return a private key, made once."""
    made: dict[str, Callable[[], Any]] = {
        "RSA": lambda: rsa.generate_private_key(65537, 2048),
        "other": lambda: rsa.generate_private_key(65537, 2048),
        "weak": lambda: rsa.generate_private_key(65537, 1024),
        "EC": lambda: ec.generate_private_key(ec.SECP256R1()),
        "OKP": ed25519.Ed25519PrivateKey.generate,
    }
    return made[kind]()


def shown(kind: str, kid: str, **more: Any) -> dict[str, Any]:
    """Return the public key as an issuer shows it."""
    algorithm = {"EC": "ES256", "OKP": "EdDSA"}.get(kind, "RS256")
    key = jwt.get_algorithm_by_name(algorithm).to_jwk(private(kind).public_key(), as_dict=True)
    return {**key, "kid": kid, "use": "sig", "key_ops": ["verify"], **more}


def token(
    kind: str = "RSA", *, alg: str = "RS256", header: Mapping[str, Any] | None = None, **claims: Any
) -> str:
    """Return a signed token; what is None is left out."""
    said = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    named = {name: value for name, value in {"kid": "k1", **(header or {})}.items() if value is not None}
    return str(jwt.encode(said, private(kind), algorithm=alg, headers=named))


def packed(part: object) -> str:
    """Return a part of a token made by hand."""
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Served:
    """An issuer whose documents are handed in, and counted."""

    def __init__(self, *keys: Mapping[str, Any]) -> None:
        self.documents: dict[str, Any] = {
            ISSUER + DISCOVERY: {"issuer": ISSUER, "jwks_uri": KEYS_AT},
            KEYS_AT: {"keys": list(keys)},
        }
        self.asked: list[str] = []
        self.down = False

    def show(self, *keys: Mapping[str, Any]) -> None:
        """Show other keys from now on."""
        self.documents[KEYS_AT] = {"keys": list(keys)}

    async def __call__(self, url: str) -> Mapping[str, Any]:
        """Return a document."""
        self.asked.append(url)
        await asyncio.sleep(0)
        if self.down or url not in self.documents:
            raise IssuerUnavailableError("the issuer is down")
        found: Mapping[str, Any] = self.documents[url]
        return found


class World:
    """An issuer with the usual key, and what checks its tokens."""

    def __init__(self, **settings: Any) -> None:
        self.served = Served(shown("RSA", "k1"))
        self.clock, self.watch = FrozenClock("2026-01-01T00:00:00Z"), Watch()
        assert self.clock().timestamp() == NOW
        given = IssuerSettings(**{"issuer": ISSUER, "audience": AUDIENCE, **settings})
        self.settings = given
        self.issuer = Issuer(given, self.clock, self.watch, self.served)

    def find(self, credential: str) -> Principal | None:
        """Return who has a token."""
        return asyncio.run(self.issuer.find(credential))


def test_a_token_lets_in_who_it_says() -> None:
    """Tenant, user and scopes are its claims; its name in limits says neither."""
    who = World().find(token())
    assert who is not None
    assert (who.tenant, who.user) == ("acme", "ann")
    assert who.scopes == {"read", "write"}
    assert who.key.startswith("token:")
    assert "ann" not in who.key
    assert "acme" not in who.key


@each(
    ("kind", "alg"), [("RSA", "RS256"), ("RSA", "RS512"), ("RSA", "PS256"), ("EC", "ES256"), ("OKP", "EdDSA")]
)
def test_every_asymmetric_algorithm_is_taken(kind: str, alg: str) -> None:
    """With a key of its kind."""
    world = World()
    world.served.show(shown(kind, "k1", alg=alg))
    assert world.find(token(kind, alg=alg))


WRONG: dict[str, Callable[[], str]] = {
    "another audience": lambda: token(aud="other"),
    "several others' audience": lambda: token(aud=["a", "b"]),
    "no audience": lambda: token(aud=None),
    "another issuer": lambda: token(iss="https://evil.example"),
    "nearly the issuer": lambda: token(iss=ISSUER + "/"),
    "no issuer": lambda: token(iss=None),
    "expired": lambda: token(exp=NOW - 31),
    "never expires": lambda: token(exp=None),
    "expires in words": lambda: token(exp="later"),
    "expires at no number": lambda: token(exp=True),
    "not yet": lambda: token(nbf=NOW + 31),
    "from the future": lambda: token(iat=NOW + 31),
    "no tenant": lambda: token(tenant=None),
    "an empty tenant": lambda: token(tenant=""),
    "a tenant that is a list": lambda: token(tenant=["acme"]),
    "a tenant with NUL": lambda: token(tenant="a\0"),
    "no user": lambda: token(sub=None),
    "an id for logging out": lambda: token(header={"typ": "logout+jwt"}),
    "what must be understood": lambda: token(header={"crit": ["x"], "x": 1}),
    "a name of a key that is none": lambda: hand_made({"alg": "RS256", "kid": {"a": 1}}),
    "another key, same name": lambda: token("other"),
    "a changed claim": lambda: changed(token(), 1, {**CLAIMS, "tenant": "other"}),
    "a changed header": lambda: changed(token(), 0, {"alg": "RS512", "kid": "k1", "typ": "JWT"}),
    "no signature": lambda: token().rpartition(".")[0] + ".",
    "not JSON": lambda: f"{packed(b'x')}.{packed(b'x')}.x",
    "a list for a header": lambda: f"{packed([])}.{packed(CLAIMS)}.x",
    "deep JSON": lambda: f"{packed(b'[' * 9_000)}.{packed(CLAIMS)}.x",
    "dots alone": lambda: "..",
    "too long": lambda: token(padding="x" * 20_000),
    "not ASCII": lambda: "é.é.é",
}


def hand_made(header: Mapping[str, Any], signature: bytes = b"x") -> str:
    """Return a token with any header."""
    return f"{packed({'typ': 'JWT', **header})}.{packed(CLAIMS)}.{packed(signature)}"


def changed(given: str, part: int, to: object) -> str:
    """Return a token with another part, and the signature that it had."""
    parts = given.split(".")
    parts[part] = packed(to)
    return ".".join(parts)


@each("why", WRONG)
def test_what_is_not_for_here_and_now_is_not_taken(why: str) -> None:
    """Each for the one thing that is wrong with it: the same token without that is taken."""
    world = World()
    assert world.find(token())
    assert world.find(WRONG[why]()) is None


def test_no_signature_and_shared_secrets_are_never_taken() -> None:
    """``none`` in any spelling, and a secret that is the public key in any form, which everybody knows."""
    world = World()
    public = private("RSA").public_key()
    for alg in ("none", "None", "NONE", "nOnE", "", None, 0, ["RS256"], {"a": 1}):
        assert world.find(hand_made({"alg": alg, "kid": "k1"}, b"")) is None
    forms = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(shown("RSA", "k1")).encode(),
        shown("RSA", "k1")["n"].encode(),
        b"",
    ]
    for alg, name in (("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")):
        unsigned = f"{packed({'typ': 'JWT', 'alg': alg, 'kid': 'k1'})}.{packed(CLAIMS)}"
        for secret in forms:
            signature = hmac.new(secret, unsigned.encode(), getattr(hashlib, name)).digest()
            assert world.find(f"{unsigned}.{packed(signature)}") is None


@each(
    "wrong",
    [
        {"kty": "oct", "k": packed(b"secret" * 10)}, {"use": "enc"}, {"key_ops": ["encrypt"]}, {"key_ops": "verify"},
        {"alg": "RS512"}, {"n": "AQAB"}, {"n": None}, {"kty": "EC"}, {"kid": "k2"}, {"e": "!"},
    ],
)  # fmt: skip
def test_keys_that_are_not_for_it_are_not_used(wrong: Mapping[str, Any]) -> None:
    """Of another kind or use, for another algorithm, broken, or called otherwise."""
    world = World()
    world.served.show({**shown("RSA", "k1"), **wrong})
    assert world.find(token()) is None


def test_weak_and_ambiguous_keys_are_not_used() -> None:
    """An RSA key below 2,048 bits; two of one name. A token that names no key is checked with the only one that fits."""
    world = World()
    world.served.show(shown("weak", "k1"))
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        assert world.find(token("weak")) is None
    two = World()
    two.served.show(shown("RSA", "k1"), shown("other", "k1"), shown("EC", "k2"))
    assert two.find(token()) is None
    assert two.find(token("EC", alg="ES256", header={"kid": None})) is not None
    assert two.find(token(header={"kid": None})) is None


def test_clocks_may_be_apart_by_the_leeway() -> None:
    """And not more; time is that of the configured clock."""
    world = World()
    assert world.find(token(exp=NOW - 29))
    assert world.find(token(iat=NOW + 29, nbf=NOW + 30))
    held = token()
    world.clock.advance(seconds=629)
    assert world.find(held)
    world.clock.advance(seconds=1)
    assert world.find(held) is None


@each(
    ("settings", "claims", "expected"),
    [
        ({}, {"scope": None}, {"read"}),
        ({}, {"scope": "openid admin delete"}, {"read"}),
        ({}, {"scope": ["memforest:admin", 5, "memforest:root"]}, {"admin"}),
        ({}, {"scope": {"memforest:admin": 1}}, {"read"}),
        ({"scope_claim": "roles", "scope_prefix": ""}, {"roles": ["delete", "x"]}, {"delete"}),
        ({"default_scopes": ("read", "write")}, {"scope": ""}, {"read", "write"}),
    ],
)
def test_scopes_are_those_of_memforest_else_reading_alone(
    settings: dict[str, Any], claims: dict[str, Any], expected: set[str]
) -> None:
    """Scopes of other services count for nothing, whatever they are called."""
    who = World(**settings).find(token(**claims))
    assert who is not None
    assert who.scopes == expected


def test_without_default_scopes_a_token_needs_its_own() -> None:
    """Else it is refused."""
    world = World(default_scopes=())
    assert world.find(token(scope="openid")) is None
    assert world.find(token())


def test_claims_may_be_called_otherwise_or_left_out() -> None:
    """A name with dots and slashes is one name; without a claim for the tenant all are for the server's own directory."""
    named: dict[str, Any] = {"https://memforest.example/org": "x"}
    world = World(tenant_claim="https://memforest.example/org", user_claim="email")
    who = world.find(token(email="a@b.c", **named))
    assert who is not None
    assert (who.tenant, who.user) == ("x", "a@b.c")
    assert world.find(token(email="a@b.c")) is None
    plain = World(tenant_claim=None, user_claim=None).find(token(tenant=None, sub=None))
    assert plain is not None
    assert (plain.tenant, plain.user) == (None, None)


def test_limits_tell_subjects_apart() -> None:
    """Two subjects of one tenant, and one subject of two tenants, are counted apart; a new token of one is the same."""
    world = World()
    keys = [
        getattr(world.find(one), "key", None)
        for one in (token(), token(sub="bob"), token(tenant="o"), token(jti="2"))
    ]
    assert len(set(keys)) == 3
    assert keys[0] == keys[3]


def test_the_issuer_is_asked_once_and_again_when_its_keys_are_old() -> None:
    """Also when many come at once."""
    world = World()

    async def work() -> None:
        found = await asyncio.gather(*(world.issuer.find(token()) for _ in range(20)))
        assert all(found)
        assert world.served.asked == [ISSUER + DISCOVERY, KEYS_AT]
        world.watch.now += 599
        assert await world.issuer.find(token())
        assert len(world.served.asked) == 2
        world.watch.now += 1
        assert await world.issuer.find(token())
        assert len(world.served.asked) == 4

    asyncio.run(work())


def test_who_waits_for_the_issuer_is_not_kept_from_what_is_known() -> None:
    """While old keys are asked for anew they are used; a first request that is cut keeps nobody out."""
    world = World()
    held = asyncio.Event()

    async def slow(url: str) -> Mapping[str, Any]:
        await held.wait()
        return await world.served(url)

    async def work() -> None:
        issuer = Issuer(world.settings, world.clock, world.watch, slow)
        first = asyncio.create_task(issuer.find(token()))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        held.set()
        assert await issuer.find(token())
        held.clear()
        world.watch.now += 600
        asking = asyncio.create_task(issuer.find(token()))
        await asyncio.sleep(0.01)
        assert not asking.done()
        assert await issuer.find(token())
        held.set()
        assert await asking

    asyncio.run(work())


def test_a_storm_of_unknown_keys_asks_once_in_a_while() -> None:
    """A new key of the issuer's is found by its first token then."""
    world = World()

    async def work() -> None:
        assert await world.issuer.find(token())
        world.watch.now += 30
        for n in range(100):
            assert await world.issuer.find(token("other", header={"kid": f"x{n}"})) is None
        assert len(world.served.asked) == 4
        world.served.show(shown("RSA", "k1"), shown("other", "k2"))
        assert await world.issuer.find(token("other", header={"kid": "k2"})) is None
        world.watch.now += 30
        assert await world.issuer.find(token("other", header={"kid": "k2"}))
        assert len(world.served.asked) == 6

    asyncio.run(work())


def test_garbage_asks_nobody() -> None:
    """What cannot be a token of the issuer never makes this server call it."""
    world = World()
    for one in ("..", "a.b.c", hand_made({"alg": "none"}), hand_made({"alg": "HS256", "kid": "k1"}), "é.é.é"):
        assert world.find(one) is None
    assert world.served.asked == []


def test_a_key_that_the_issuer_has_withdrawn_is_not_used_when_it_is_asked_again() -> None:
    """Tokens that it signed are refused then."""
    world = World()
    assert world.find(token())
    world.served.show(shown("other", "k2"))
    world.watch.now += 600
    assert world.find(token()) is None


def test_an_issuer_that_fails_lets_nobody_in() -> None:
    """From the beginning: an error of its own. Later its keys go on for a while, and no longer."""
    world = World()
    world.served.down = True
    for _ in range(3):
        with pytest.raises(IssuerUnavailableError):
            world.find(token())
    assert len(world.served.asked) == 1
    world.served.down = False
    world.watch.now += 30
    assert world.find(token())
    world.served.down = True
    world.watch.now += 3_599
    assert world.find(token())
    world.watch.now += 1
    with pytest.raises(IssuerUnavailableError):
        world.find(token())


@each(
    "described",
    [
        {}, {"issuer": "https://evil.example", "jwks_uri": KEYS_AT}, {"issuer": ISSUER}, {"issuer": ISSUER, "jwks_uri": 5},
        {"issuer": ISSUER, "jwks_uri": "http://keys.example/jwks"}, {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"},
        {"issuer": ISSUER + "/", "jwks_uri": KEYS_AT},
    ],
)  # fmt: skip
def test_documents_of_somebody_else_are_not_used(described: Mapping[str, Any]) -> None:
    """A description must be of this issuer exactly, and its keys must come by https."""
    world = World()
    world.served.documents[ISSUER + DISCOVERY] = described
    with pytest.raises(IssuerUnavailableError):
        world.find(token())
    assert KEYS_AT not in world.served.asked


@each("keys", [None, {}, "x", 5])
def test_keys_that_are_no_list_are_not_used(keys: object) -> None:
    """Nor is an object in a list that is no key."""
    world = World()
    world.served.documents[KEYS_AT] = {"keys": keys}
    with pytest.raises(IssuerUnavailableError):
        world.find(token())
    world.served.documents[KEYS_AT] = {"keys": [None, 5, {}, shown("RSA", "k1")]}
    world.watch.now += 30
    assert world.find(token())


def test_a_server_takes_keys_and_tokens_and_nobody_else(folder: Path) -> None:
    """With an issuer nobody is anonymous, also on loopback without a key; keys go on when the issuer is down."""
    world = World()
    made = KeyStore(folder, world.clock).create("a", tenant="t")
    settings = AccessSettings(key_rate=None, tenant_rate=None, issuer=world.settings)

    async def work(directory: Path) -> None:
        by = KeyedAccess(
            directory,
            fast_config(clock=world.clock),
            settings,
            loopback=True,
            monotonic=world.watch,
            fetch=world.served,
        )
        assert [await let_in(by, one) for one in (None, "", "x", "a.b.c")] == [None] * 4
        who = await by.identify(token())
        assert (who.tenant, who.user) == ("acme", "ann")
        world.served.down = True
        world.watch.now += 10_000
        with pytest.raises(IssuerUnavailableError):
            await by.identify(token())
        if directory == folder:
            assert (await by.identify(made.key)).tenant == "t"
        world.served.down = False
        world.watch.now += 30
        with pytest.raises(UnauthenticatedError):
            await by.identify(token(exp=NOW - 100))
        await by.close()

    asyncio.run(work(folder))
    asyncio.run(work(folder / "without keys"))


@pytest.mark.parametrize("missing", ["jwt", "cryptography"])
def test_an_issuer_without_the_extra_is_refused_at_once(missing: str) -> None:
    """When the server starts, by one line that says what to install; not at the first token."""
    script = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from memforest.server.auth import IssuerSettings\n"
        "from memforest.server.access import Issuer\n"
        "from memforest.errors import ConfigError\n"
        "try:\n"
        "    Issuer(IssuerSettings('https://id.example', 'a'))\n"
        "except ConfigError as exc:\n"
        "    print(exc)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "tokens of an issuer need the extra [server]: pip install 'memforest[server]'\n"
