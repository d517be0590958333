"""A memory as the inspector's tests look into it: full of markup, of marks that turn text around, and of ids like paths."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

import httpx
from tests_long.worlds import fast_config

from memforest.errors import RateLimitError, UnauthenticatedError
from memforest.memory.forest import AsyncMemForest
from memforest.server.auth import ALL_SCOPES, OpenAccess, Principal, Scope

__all__ = [
    "BIDI",
    "HOSTILE_SESSION",
    "HOSTILE_USER",
    "MARKUP",
    "MARKUPS",
    "Browser",
    "Keys",
    "fill",
    "key",
    "links",
    "opened",
    "tags",
]

MARKUP = "<script>window.broken=1</script><img src=x onerror=window.broken=2>"
MARKUPS = (
    MARKUP,
    "{{ 7*7 }} {% raw %}",
    "</title><svg onload=window.broken=3>",
    "'\"><b>bold</b>",
    "javascript:alert(1)",
)
BIDI = "abc \u202egnihton\u202c \u2067שלום\u2069 مرحبا \u200b."
HOSTILE_USER = "../../<b>ann</b>%2e%2e/\u202e"
HOSTILE_SESSION = "../s%2e%2e/<i>1</i>?x=1&y=2#z"


def turn(speaker: str, text: str, when: str, **more: Any) -> Mapping[str, Any]:
    """Return a turn."""
    return {"speaker": speaker, "content": text, "timestamp": when, **more}


async def fill(forest: AsyncMemForest) -> None:
    """Give a forest two users: ann, with an ordinary life, and one whose every text and id is hostile."""
    await forest.ingest_session(
        "ann",
        "trip",
        [
            turn("ann", "I live in Berlin. My sister Clara lives in Rome.", "2023-03-05T10:00:00Z", id="t-1"),
            turn("Bob", "I work at Acme as a cook.", "2023-03-05T10:01:00Z", id="t-2"),
        ],
    )
    await forest.ingest_session(
        "ann",
        "later",
        [
            turn("ann", "I moved to Lisbon last week. I work as a nurse.", "2024-01-20T09:00:00Z"),
            turn("Bob", "I moved to Oslo. I work at Globex now.", "2024-02-02T09:00:00Z"),
            turn("ann", "Clara visited me in May.", "2024-06-01T09:00:00Z"),
        ],
    )
    turns = [
        turn(
            f"<u>Eve {at}</u>", f"I live in {text}. {BIDI}", f"2024-0{1 + at}-03T08:00:00Z", id=f"../{at}<a>"
        )
        for at, text in enumerate(MARKUPS)
    ]
    turns += [turn("Eve", f"I live in {MARKUP} now.\nI like\ttea.", "2024-07-01T08:00:00Z")]
    await forest.ingest_session(HOSTILE_USER, HOSTILE_SESSION, turns)


def opened(folder: object) -> AsyncMemForest:
    """Return a forest in a folder with what `fill` gives it."""
    made = AsyncMemForest(str(folder), fast_config())
    asyncio.run(fill(made))
    return made


class Keys(OpenAccess):
    """Access by keys that a test hands out and takes back."""

    def __init__(self, forest: AsyncMemForest) -> None:
        super().__init__(forest)
        self.known: dict[str, Principal] = {}
        self.counted: list[str] = []
        self.most = 10_000

    async def identify(self, credential: str | None) -> Principal:
        """Return whose key it is."""
        if credential not in self.known:
            raise UnauthenticatedError("no such key")
        return self.known[credential]

    async def count(self, principal: Principal) -> None:
        """Count, up to a bound."""
        self.counted.append(principal.key)
        if len(self.counted) > self.most:
            raise RateLimitError("one request too many", retry_after_s=6.5)


def key(name: str, *scopes: Scope, user: str | None = None) -> Principal:
    """Return who has a key; with all scopes where none is named."""
    return Principal(user=user, scopes=frozenset(scopes) or ALL_SCOPES, key=name)


class Browser:
    """A browser without JavaScript: it keeps cookies, and follows a redirect when it is told to."""

    def __init__(self, app: Any, host: str = "localhost", scheme: str = "http") -> None:
        self.app = app
        self.origin = f"{scheme}://{host}"
        self.cookies = httpx.Cookies()

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request and return the answer."""

        async def once() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(
                transport=transport, base_url=self.origin, cookies=self.cookies
            ) as client:
                answer = await client.request(method, path, **more)
                self.cookies = client.cookies
                return answer

        return asyncio.run(once())

    def get(self, path: str, **params: str) -> httpx.Response:
        """Read a page."""
        return self.send("GET", path, params=params or None)

    def post(self, path: str, **fields: str) -> httpx.Response:
        """Post a form."""
        return self.send("POST", path, data=fields)

    def token(self, page: str = "/login") -> str:
        """Return the token of a page's forms."""
        found = re.search(r'name="token" value="([0-9a-f]{64})"', self.get(page).text)
        assert found is not None
        return found.group(1)

    def log_in(self, credential: str) -> httpx.Response:
        """Log in as a person does."""
        return self.post("/login", token=self.token(), key=credential)


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a tag links to."""
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag == "a" and given.get("href"):
            self.found.append(str(given["href"]))


def links(page: str) -> Iterator[str]:
    """Yield the addresses on this site that a page links to, without their fragments."""
    reader = _Links()
    reader.feed(page)
    for one in reader.found:
        parts = urlsplit(one)
        if not parts.netloc and not one.startswith("#"):
            yield parts._replace(fragment="").geturl()


def tags(page: str) -> list[tuple[str, dict[str, str | None]]]:
    """Return the tags of a page with their attributes."""
    reader = _Links()
    reader.feed(page)
    return reader.tags
