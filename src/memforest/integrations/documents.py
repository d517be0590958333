"""Documents in a user's memory: values that come back as they were put in, with a text that is read like what was said.

A document is a session of one turn. The turn has the text; the session's metadata has the value, the name and the times, so that
one read lists all documents of a user. The stores of frameworks and the files of agents are kept so.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from memforest.concurrency import Turns
from memforest.errors import InputError, MemForestError, NotFoundError, SessionConflictError
from memforest.integrations.adapter import Bridge, clean, scores
from memforest.read.results import Evidence
from memforest.read.views import ViewContext
from memforest.settings import MAX_ID_CHARS, MAX_TOP_K
from memforest.store.sessions import SessionRow, find_session, list_sessions
from memforest.write.turns import json_object

UNREAD = "(a document that is not searched)"
_TRIES = 5
"""How often a document is written that another process is writing too."""


@dataclass(frozen=True, slots=True)
class Document:
    """A value with its name; `created` and `updated` are aware UTC. `indexed` is whether a search may find it by its text."""

    name: tuple[str, ...]
    value: Any
    created: datetime
    updated: datetime
    indexed: bool
    session_id: str


@dataclass(frozen=True, slots=True)
class Put:
    """A document to be written for a user; `text` is what is read of it, None for one that no search finds."""

    user_id: str
    name: tuple[str, ...]
    value: Any
    text: str | None


class Documents:
    """The documents of one kind in the memories of a forest.

    Args:
        bridge: to the memories.
        kind: tells them from documents of other adapters.
    """

    def __init__(self, bridge: Bridge, kind: str) -> None:
        self.bridge, self.kind = bridge, kind
        self._last: datetime | None = None
        self._writing = Turns()

    def session_id(self, name: Sequence[str]) -> str:
        """Return the session of a document: its name as JSON, or its digest where that is too long."""
        text = f"{self.kind}:{json.dumps(name, ensure_ascii=False)}"
        text = text.encode("utf-8", "backslashreplace").decode()
        digest = hashlib.sha256(text.encode()).hexdigest()
        return text if len(text) <= MAX_ID_CHARS // 2 else f"{self.kind}:{digest}"

    async def find(self, user_id: str, names: Sequence[Sequence[str]] | None = None) -> list[Document]:
        """Return a user's documents of these names that there are, all when not given, in the order they were made in."""
        wanted = None if names is None else [self.session_id(name) for name in names]

        def view(context: ViewContext) -> list[SessionRow]:
            if wanted is None:
                return list_sessions(context.tx)
            return [row for one in wanted if (row := find_session(context.tx, one)) is not None]

        rows = await self.bridge.forest.user(user_id)._view(view)
        held = [(row, row.metadata.get(self.kind)) for row in rows]
        found = [
            Document(
                tuple(at["name"]),
                at["value"],
                datetime.fromisoformat(at["created"]),
                datetime.fromisoformat(at["updated"]),
                at["indexed"],
                row.session_id,
            )
            for row, at in held
            if isinstance(at, Mapping)
        ]
        return sorted(found, key=lambda one: one.created)

    async def put(self, puts: Sequence[Put]) -> None:
        """Write documents, each in the place of one of the same name, which it takes the time of making from.

        Each is durable for itself: when some fail, the others are written.

        Raises:
            InputError: if a value is not JSON; nothing was written.
            MemForestError: the first one of those that failed.
        """
        async with self._writing.turn():
            requests = await self._requests(puts)
            for tries in range(_TRIES if requests else 0):
                done = await self.bridge.forest.ingest_parallel(requests)
                # Another process writes the same one.
                again = [at for at, one in enumerate(done) if isinstance(one, SessionConflictError)]
                requests = [requests[at] for at in again if tries < _TRIES - 1]
                failed = [one for one in done if isinstance(one, MemForestError)]
                if not requests and failed:
                    raise failed[0]
                if not requests:
                    return

    async def _requests(self, puts: Sequence[Put]) -> list[dict[str, Any]]:
        before: dict[tuple[str, str], datetime] = {}
        by_user = defaultdict(list)
        for one in puts:
            by_user[one.user_id].append(one.name)
        for user_id, names in by_user.items():
            await self.bridge.user(user_id)
            for found in await self.find(user_id, names):
                before[user_id, found.session_id] = found.created
        return [self._request(one, before) for one in puts]

    def _request(self, put: Put, before: Mapping[tuple[str, str], datetime]) -> dict[str, Any]:
        config, session_id, now = self.bridge.forest.config, self.session_id(put.name), self._now()
        text = clean(put.text or "", config.max_turn_chars).strip() or UNREAD
        document = {
            "name": list(put.name),
            "value": put.value,
            "created": before.get((put.user_id, session_id), now).isoformat(),
            "updated": now.isoformat(),
            "indexed": put.text is not None,
        }
        json_object({"value": put.value}, "the document")
        if json.loads(json.dumps(put.value)) != _listed(put.value):
            raise InputError(
                "the value has keys that are not texts, which JSON cannot hold; convert them first"
            )
        role = "user" if put.text is not None else "system"
        turn = {"role": role, "content": text, "timestamp": now, "id": now.isoformat()}
        return {
            "user_id": put.user_id,
            "session_id": session_id,
            "turns": [turn],
            "infer": put.text is not None,
            "replace": True,
            "metadata": {self.kind: document, "kind": self.kind, "indexed": put.text is not None},
        }

    def _now(self) -> datetime:
        """Return the clock's time, later than any that was returned before."""
        now = self.bridge.forest.config.clock()
        self._last = now if self._last is None else max(now, self._last + timedelta(microseconds=1))
        return self._last

    async def delete(self, user_id: str, name: Sequence[str]) -> bool:
        """Delete a document with everything that was made of it; return whether there was one."""
        async with self._writing.turn():
            try:
                await self.bridge.forest.user(user_id).delete(session_id=self.session_id(name))
            except NotFoundError:
                return False
            return True

    async def search(
        self, user_id: str, question: str, most: int, **options: Any
    ) -> dict[str, list[tuple[float, Evidence]]]:
        """Return session id -> evidence from a user's documents with its score in 0..1, best first."""
        how = {"top_k": min(MAX_TOP_K, most), "filters": {"kind": self.kind, "indexed": True}, **options}
        found: dict[str, list[tuple[float, Evidence]]] = {}
        evidence = (await self.bridge.forest.user(user_id).search(question, **how)).evidence
        for one, score in zip(evidence, scores(evidence), strict=True):
            for source in one.sources:
                found.setdefault(source.session_id, []).append((score, one))
        return found


def _listed(value: Any) -> Any:
    """Return a value with lists in the place of tuples, as JSON has them."""
    if isinstance(value, Mapping):
        return {key: _listed(one) for key, one in value.items()}
    return [_listed(one) for one in value] if isinstance(value, (list, tuple)) else value
