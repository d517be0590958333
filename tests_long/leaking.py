"""Two tenants whose every word is marked, and requests of one that name what is the other's, at every door of a server."""

from __future__ import annotations

import base64
import binascii
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

USERS = ("anawimberly", "benwimberly")
"""Of both tenants: what one of them names is there for both."""
WHEN = "2024-06-01T12:00:00Z"
BEFORE = "2024-01-01T00:00:00Z"
AGAIN = "wimberly-again"
"""The same name of a write, by both tenants."""
MCP = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
COOKIE = "memforest_ui"
_CODED = re.compile(r"[A-Za-z0-9_\-+]{16,}|(?<=/)[A-Za-z0-9_\-+/]{16,}")
_LISTED = {"next_cursor": "cursor", "next": "after", "id": "job_id"}
"""What a listing calls it -> what the next request calls it."""


@dataclass
class Tenant:
    """A tenant whose every word is marked, so that none of it can be anybody else's."""

    mark: str
    key: str
    cookie: str = ""
    form_token: str = ""
    mcp_session: str = ""
    ids: dict[str, set[str]] = field(default_factory=dict)
    sent: str = ""
    """All ids that it has sent so far: these may come back."""

    @property
    def name(self) -> str:
        """Somebody whom only its users know."""
        return f"{self.mark.capitalize()}ina"

    @property
    def words(self) -> tuple[str, ...]:
        """What only its users said, and what only it has to come in by: nobody else ever sends these as ids."""
        said = (f"{self.mark}burg", f"{self.mark}stad", f"{self.mark} bakery")
        return *said, self.key, self.cookie, self.mcp_session

    @property
    def own_ids(self) -> Iterator[str]:
        """Ids that no other tenant can have. A fact's id is a hash of its words, which two may say alike; so is a cursor."""
        for name in ("session_id", "turn_id", "key", "job_id"):
            yield from self.ids.get(name, ())

    def turns(self, user: str) -> list[dict[str, Any]]:
        """What one of its users said."""
        texts = (
            f"I live in {self.mark}burg.",
            f"My sister {self.name} works at the {self.mark} bakery.",
            f"{self.name} moved to {self.mark}stad last week, {user}.",
        )
        return [
            {
                "id": f"{self.mark}-turn-{n}",
                "role": "user",
                "content": text,
                "timestamp": f"2024-05-0{n}T10:00:00Z",
            }
            for n, text in enumerate(texts, 1)
        ]

    def seen(self, name: str, value: object) -> None:
        """Keep an id that the server gave."""
        if isinstance(value, str) and value:
            self.ids.setdefault(name, set()).add(value)

    def learn(self, value: Any) -> None:
        """Keep the ids and cursors in an answer."""
        for one in value if isinstance(value, list) else ():
            self.learn(one)
        for name, one in value.items() if isinstance(value, dict) else ():
            if name in ("fact_id", "next_cursor", "next", "key") or (name == "id" and "chunks_done" in value):
                self.seen(_LISTED.get(str(name), str(name)), one)
            self.learn(one)


@dataclass(frozen=True)
class Request:
    """A request, and what it does."""

    what: str
    method: str
    url: str
    headers: dict[str, str]
    json: Any = None
    form: dict[str, str] | None = None

    @property
    def sent(self) -> str:
        """All of it in one text, without what lets the caller in."""
        body = json.dumps(self.json) + json.dumps(self.form)
        return (self.url + body + unwrapped(self.url + body)).lower()


def unwrapped(text: str) -> str:
    """Return what stands in base64 in a text, as in cursors and in the ids of mem0's facade."""
    found = []
    # A path is no base64, whatever its parts are.
    for one in [part for found in _CODED.findall(text) for part in (found, *found.split("/"))]:
        try:
            plain = base64.b64decode(one + "=" * (-len(one) % 4), altchars=b"-_")
        except (binascii.Error, ValueError):
            continue
        found.append(plain.decode("latin-1"))
    return "\n".join(found)


class Drawn:
    """Draws requests at every door, with ids, keys and cursors of either tenant.

    Args:
        document: of the app.
        tenants: whose ids are drawn.
        rng: draws.
    """

    def __init__(self, document: dict[str, Any], tenants: list[Tenant], rng: random.Random) -> None:
        self._tenants = tenants
        self._rng = rng
        self._operations = [
            (method, path, one)
            for path, methods in document["paths"].items()
            for method, one in methods.items()
        ]
        self._left: list[tuple[str, str, dict[str, Any]]] = []
        self._doors: tuple[Callable[[Tenant, Tenant], Request], ...] = (
            self._rest,
            self._mem0,
            self._mcp,
            self._ui,
        )

    def draw(self, me: Tenant, other: Tenant) -> Request:
        """Return a request of one tenant; half of them over REST."""
        [door] = self._rng.choices(self._doors, (5, 2, 2, 2))
        return door(me, other)

    def _rest(self, me: Tenant, other: Tenant) -> Request:
        """Each operation of the document in turn; the cookie of the other's inspector lets nobody in here."""
        if not self._left:
            self._left = self._rng.sample(self._operations, len(self._operations))
        method, path, about = self._left.pop()
        query: list[str] = []
        for one in about.get("parameters", ()):
            name = one["name"]
            if one["in"] == "path":
                path = path.replace("{" + name + "}", quote(self._value(name), safe=""))
            elif (
                one["in"] == "query" and name in _DRAWN and (one.get("required") or self._rng.random() < 0.4)
            ):
                query.append(f"{name}={quote(self._value(name))}")
        headers = {"x-api-key": me.key, "cookie": f"{COOKIE}={other.cookie}"}
        if any(one["name"].lower() == "idempotency-key" for one in about.get("parameters", ())):
            headers["idempotency-key"] = AGAIN
        body = self._body(about["operationId"]) if "requestBody" in about else None
        url = f"{path}?{'&'.join(query)}" if query else path
        return Request(about["operationId"], method.upper(), url, headers, body)

    def _mem0(self, me: Tenant, other: Tenant) -> Request:
        """mem0's and OpenAI's routes."""
        memory, user, wanted = self._value("memory_id"), self._rng.choice(USERS), self._value("session_id")
        one, base = f"/compat/mem0/v1/memories/{memory}/", "/compat/mem0"
        found = {"query": f"Where is {self._value('entity')}?", "filters": {"user_id": user}}
        what, method, url, body = self._rng.choice(
            (
                ("mem0 get", "GET", one, None),
                ("mem0 history", "GET", f"{one}history/", None),
                ("mem0 update", "PUT", one, {"text": "I live in Cork."}),
                ("mem0 delete", "DELETE", one, None),
                ("mem0 search", "POST", f"{base}/v3/memories/search/", found),
                (
                    "mem0 list",
                    "POST",
                    f"{base}/v3/memories/",
                    {"filters": {"AND": [{"user_id": user}, {"run_id": wanted}]}},
                ),
                (
                    "mem0 batch",
                    "PUT",
                    f"{base}/v1/batch/",
                    {"memories": [{"memory_id": memory, "text": "I like rain."}]},
                ),
                ("mem0 entities", "GET", f"{base}/v1/entities/", None),
                ("mem0 event", "GET", f"{base}/v1/event/{memory}/", None),
                (
                    "mem0 add",
                    "POST",
                    f"{base}/v3/memories/add/",
                    {
                        "messages": [{"role": "user", "content": "I like snow."}],
                        "user_id": user,
                        "run_id": wanted,
                    },
                ),
                (
                    "openai search",
                    "POST",
                    f"/compat/openai/v1/vector_stores/{user}/search",
                    {"query": found["query"]},
                ),
            )
        )
        headers = {"authorization": f"Token {me.key}", "cookie": f"{COOKIE}={other.cookie}"}
        return Request(what, method, url, headers, body)

    def _mcp(self, me: Tenant, other: Tenant) -> Request:
        """Tools, resources and completions; in a session of either tenant."""
        user, fact, session = self._rng.choice(USERS), self._value("fact_id"), self._value("session_id")
        entity = self._value("entity")
        tools: dict[str, dict[str, Any]] = {
            "search_memory": {"query": f"Where is {entity}?"},
            "ask_memory": {"question": f"Where is {entity}?"},
            "get_timeline": {"entity": entity},
            "list_facts": {"session_id": session, "cursor": self._value("cursor")},
            "add_memory": {"content": "I like fog.", "session_id": session, "idempotency_key": AGAIN},
            "get_fact": {"fact_id": fact},
            "correct_memory": {"fact_id": fact, "text": "I live in Cork."},
            "list_sessions": {},
            "browse_tree": {"scope": session},
            "memory_stats": {},
        }
        name = self._rng.choice((*tools, "resource", "completion"))
        place = self._rng.choice((f"sessions/{quote(session)}", f"timeline/{quote(entity)}", "profile"))
        method, params = "tools/call", {"name": name, "arguments": {"user": user, **tools.get(name, {})}}
        if name == "resource":
            method, params = "resources/read", {"uri": f"memory://{user}/{place}"}
        if name == "completion":
            ref = {"type": "ref/resource", "uri": "memory://{user}/sessions/{session_id}"}
            value = {"name": "session_id", "value": session[:4]}
            method, params = (
                "completion/complete",
                {"ref": ref, "argument": value, "context": {"arguments": {"user": user}}},
            )
        owner = me if self._rng.random() < 0.8 else other
        headers = {**MCP, "authorization": f"Bearer {me.key}", "mcp-session-id": owner.mcp_session}
        return Request(
            f"mcp {name}",
            "POST",
            "/mcp",
            headers,
            {"jsonrpc": "2.0", "id": 7, "method": method, "params": params},
        )

    def _ui(self, me: Tenant, other: Tenant) -> Request:
        """Pages and forms of the inspector, with the other's key and now and then the other's token of forms."""
        headers = {"cookie": f"{COOKIE}={me.cookie}", "x-api-key": other.key}
        user, fact, job = self._rng.choice(USERS), self._value("fact_id"), self._value("job_id")
        named = {
            "user": user,
            "entity": self._value("entity"),
            "session": self._value("session_id"),
            "from": self._value("cursor"),
        }
        if self._rng.random() < 0.25:
            token = self._rng.choice((me, me, other)).form_token
            form = self._rng.choice(("pin", "update", "forget", "cancel"))
            fields = {
                "token": token,
                "user": user,
                "id": job if form == "cancel" else fact,
                "text": "I live in Cork.",
            }
            return Request(f"ui {form}", "POST", f"/ui/{form}", headers, form=fields)
        page, params = self._rng.choice(
            (
                ("", {}),
                ("forest", ("user",)),
                ("entities", ("user",)),
                ("timeline", ("user", "entity")),
                ("facts", ("user", "from")),
                ("sessions", ("user",)),
                ("session", ("user", "session")),
                ("ask", ("user",)),
                ("jobs", {}),
                ("fact", ("user",)),
                ("job", {}),
            )
        )
        more = {"fact": f"id={quote(fact)}", "job": f"id={quote(job)}", "ask": "q=Where+do+I+live"}.get(
            page, ""
        )
        query = "&".join([*(f"{name}={quote(named[name])}" for name in params), *([more] if more else [])])
        return Request(f"ui {page}", "GET", f"/ui/{page}?{query}", headers)

    def _value(self, name: str) -> str:
        """Return an id or a cursor of either tenant, or a value that suits the name."""
        if name in ("user_id", "participant"):
            return self._rng.choice(USERS)
        if name in ("as_of", "said_by", "known_at", "since", "until", "a", "b") and self._rng.random() < 0.9:
            return BEFORE if name in ("a", "since") else WHEN
        known = [one for tenant in self._tenants for one in sorted(tenant.ids.get(name, ()))]
        others = [one for tenant in self._tenants for kept in tenant.ids.values() for one in sorted(kept)]
        return self._rng.choice(known or others)

    def _body(self, operation: str) -> Any:
        value = self._value
        fact, entity, session = value("fact_id"), value("entity"), value("session_id")
        one, two = self._rng.sample(USERS, 2)
        turn = {"role": "user", "content": "I like tea.", "timestamp": WHEN}
        told = {"user_id": one, "session_id": session, "turns": [turn], "idempotency_key": AGAIN}
        return {
            "ingest_session": {"turns": [turn]},
            "add": {"content": "I like coffee.", "timestamp": WHEN, "session_id": session},
            "search": {"question": f"Where does {entity} live?", "explain": True},
            "ask": {"question": f"What did {entity} do?"},
            "context": {"question": "Where do I live?"},
            "update": {"text": "I live in Cork."},
            "delete": self._rng.choice(({"fact_id": fact}, {"session_id": session}, {"entity": entity})),
            "merge": {"from_user": one},
            "merge_user_forests": {"source_user_ids": [one], "target_user_id": two},
            "merge_entities": {"a": entity, "b": value("entity")},
            "split_entity": {"entity": entity, "name": value("entity")},
            "profile": {"participant": entity},
            "ingest": {"sessions": [told]},
        }.get(operation, {})


_DRAWN = frozenset(
    (
        "cursor",
        "after",
        "entity",
        "session_id",
        "scope",
        "as_of",
        "said_by",
        "known_at",
        "since",
        "until",
        "a",
        "b",
        "query",
    )
)
"""Parameters of queries that are drawn; others say only how much of it."""
