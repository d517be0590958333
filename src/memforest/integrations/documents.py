"""Documents in a user's memory: values that come back as they were put in, with a text that is read like what was said.

A document is a session of one turn. The turn has the text; the session's metadata has the value, the name and the times, so that
one read lists all documents of a user. A value that is put again may be a further session, so that the older one stays in time. The
stores of frameworks and the files of agents are kept so.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from memforest.concurrency import Turns
from memforest.errors import InputError, MemForestError, NotFoundError, SessionConflictError
from memforest.integrations.adapter import Bridge, clean, scores
from memforest.read.results import Evidence
from memforest.read.views import ViewContext
from memforest.settings import MAX_ID_CHARS, MAX_TOP_K
from memforest.store.connections import Tx
from memforest.store.meta import generation
from memforest.store.sessions import list_sessions, session_with_row, sessions_with_root
from memforest.write.turns import json_object

Window = tuple[datetime | None, datetime | None]
UNREAD = "(a document that is not searched)"
_FEW = 100
"""New sessions that are read one by one; of more all are read."""
_TRIES = 5
"""How often a document is written that another process is writing too."""


@dataclass(frozen=True, slots=True)
class Document:
    """One version of a value with its name; times are aware UTC.

    `created` is when a value of this name was first put, `updated` when this one was, and `until` when the next one was, None for
    the newest. `indexed` is whether a search may find it by its text.
    """

    name: tuple[str, ...]
    value: Any
    created: datetime
    updated: datetime
    indexed: bool
    session_id: str
    row: int
    until: datetime | None = None

    def held(self, at: datetime | None) -> bool:
        """Return whether it was not followed by another version at a time; None is now."""
        return self.until is None or (at is not None and at < self.until)


@dataclass(frozen=True, slots=True)
class Put:
    """A document to be written for a user; `text` is what is read of it, None for one that no search finds."""

    user_id: str
    name: tuple[str, ...]
    value: Any
    text: str | None


class Documents:
    """The documents of one kind in the memories of a forest.

    What was read is kept for as long as a memory stays open; from then on only what is new is read.

    Args:
        bridge: to the memories.
        kind: tells them from documents of other adapters.
        keeps: a searched value that is put again stays as history, each version a session; else a new one takes its place.
    """

    def __init__(self, bridge: Bridge, kind: str, *, keeps: bool = False) -> None:
        self.bridge, self.kind, self._keeps = bridge, kind, keeps
        self._last: datetime | None = None
        self._writing = Turns()
        self._read: WeakKeyDictionary[Any, tuple[int, list[Document]]] = WeakKeyDictionary()

    def session_id(self, name: Sequence[str]) -> str:
        """Return the session of a document: its name as JSON, or its digest where that is too long; versions end in "~" and a time."""
        text = f"{self.kind}~{json.dumps(name, ensure_ascii=False)}"
        text = text.encode("utf-8", "backslashreplace").decode()
        digest = hashlib.sha256(text.encode()).hexdigest()
        return text if len(text) <= MAX_ID_CHARS // 2 else f"{self.kind}~{digest}"

    async def find(
        self, user_id: str, names: Sequence[Sequence[str]] | None = None, within: Window = (None, None)
    ) -> list[Document]:
        """Return a user's documents in the order they were made in.

        Args:
            user_id: whose.
            names: only those of these names.
            within: no version that was followed by another one before the first time, None for now, or put after the second one.
        """
        (at, by), found = within, await self._versions(user_id, names)
        return [one for one in found if one.held(at) and (by is None or one.updated <= by)]

    async def _versions(self, user_id: str, names: Sequence[Sequence[str]] | None) -> list[Document]:
        """Return all versions, in the order their documents were made in; of all names, when not given."""

        def view(context: ViewContext) -> list[Document]:
            tx, now = context.tx, generation(context.tx)
            then, known = self._read.get(context.cache, (-1, []))
            if names is None and then == now:
                return known
            roots = [self.kind] if names is None else map(self.session_id, names)
            rows = {row for root in roots for row in sessions_with_root(tx, root, root).values()}
            found = self._load(tx, rows, known if names is None else [])
            if names is None:
                self._read[context.cache] = now, found
            return found

        return await self.bridge.forest.user(user_id)._view(view)

    def _load(self, tx: Tx, rows: set[int], known: list[Document]) -> list[Document]:
        """Return the versions in sessions of these rows; those that are known are not read."""
        kept = [one for one in known if one.row in rows]
        new = rows - {one.row for one in kept}
        read = list_sessions(tx) if len(new) > _FEW else [session_with_row(tx, row) for row in new]
        for row in read:
            if row.row in new and isinstance(at := row.metadata.get(self.kind), Mapping):
                created, updated = (datetime.fromisoformat(at[name]) for name in ("created", "updated"))
                what = tuple(at["name"]), at["value"], created, updated, at["indexed"]
                kept.append(Document(*what, row.session_id, row.row))
        later: dict[tuple[str, ...], datetime] = {}
        for place, one in sorted(enumerate(kept), key=lambda each: each[1].updated, reverse=True):
            if one.until != (until := later.get(one.name)):
                kept[place] = replace(one, until=until)
            later[one.name] = one.updated
        return sorted(kept, key=lambda one: one.created)

    async def put(self, puts: Sequence[Put]) -> None:
        """Write documents, each as the newest of its name, with the first one's time of making. The same value again changes nothing.

        Each is durable for itself: when some fail, the others are written.

        Raises:
            InputError: if a value is not JSON; nothing was written.
            MemForestError: the first one of those that failed.
        """
        async with self._writing.turn():
            requests = await self._requests(puts)
            failed: list[tuple[MemForestError, dict[str, Any]]] = []
            for _ in range(_TRIES if requests else 0):
                done = zip(await self.bridge.forest.ingest_parallel(requests), requests, strict=True)
                failed = [(one, request) for one, request in done if isinstance(one, MemForestError)]
                # Another process writes the same one.
                requests = [request for one, request in failed if isinstance(one, SessionConflictError)]
                if not requests:
                    break
            if failed:
                raise failed[0][0]

    async def _requests(self, puts: Sequence[Put]) -> list[dict[str, Any]]:
        before: dict[tuple[str, tuple[str, ...]], Document] = {}
        by_user = defaultdict(list)
        for one in puts:
            by_user[one.user_id].append(one.name)
        for user_id, names in by_user.items():
            await self.bridge.user(user_id)
            before |= {(user_id, found.name): found for found in await self.find(user_id, names)}
        return [self._request(one, before.get((one.user_id, one.name))) for one in puts]

    def _request(self, put: Put, before: Document | None) -> dict[str, Any]:
        config, now, session_id = self.bridge.forest.config, self._now(), self.session_id(put.name)
        json_object({"value": put.value}, "the document")
        value = json.dumps(put.value)
        if json.loads(value) != _listed(put.value):
            raise InputError(
                "the value has keys that are not texts, which JSON cannot hold; convert them first"
            )
        if before is not None and json.dumps(before.value) == value:  # it was so already
            session_id, now = before.session_id, before.updated
        elif before is not None and self._keeps and before.indexed:
            session_id += f"~{round(now.timestamp() * 10**6):x}"
        elif before is not None:
            session_id = before.session_id
        searched, role = (True, "user") if put.text is not None else (False, "system")
        document = {
            "name": list(put.name),
            "value": put.value,
            "created": (before.created if before else now).isoformat(),
            "updated": now.isoformat(),
            "indexed": searched,
        }
        text = clean(put.text or "", config.max_turn_chars).strip() or UNREAD
        turn = {"role": role, "content": text, "timestamp": now, "id": now.isoformat()}
        return {
            "user_id": put.user_id,
            "session_id": session_id,
            "turns": [turn],
            "infer": searched,
            "replace": True,
            "metadata": {self.kind: document, "kind": self.kind, "indexed": searched},
        }

    def _now(self) -> datetime:
        """Return the clock's time, later than any that was returned before."""
        now = self.bridge.forest.config.clock()
        self._last = now if self._last is None else max(now, self._last + timedelta(microseconds=1))
        return self._last

    async def delete(self, user_id: str, name: Sequence[str]) -> bool:
        """Delete a document with its history and everything that was made of it; return whether there was one."""
        async with self._writing.turn():
            found = await self._versions(user_id, [name])
            for one in sorted(found, key=lambda one: one.updated):  # the newest goes last
                with suppress(NotFoundError):
                    await self.bridge.forest.user(user_id).delete(session_id=one.session_id)
            return bool(found)

    async def search(
        self, user_id: str, question: str, most: int, within: Window = (None, None), **options: Any
    ) -> dict[tuple[str, ...], tuple[Document, list[tuple[float, Evidence]]]]:
        """Return name -> document with its evidence and the scores of that in 0..1, best first.

        Args:
            user_id: whose.
            question: the question.
            most: most pieces of evidence.
            within: as for `find`.
            options: of `search`.
        """
        versions = {one.session_id: one for one in await self._versions(user_id, None)}
        most = MAX_TOP_K if any(one.until for one in versions.values()) else min(MAX_TOP_K, most)
        how = {"top_k": most, "filters": {"kind": self.kind, "indexed": True}, **options}
        found: dict[tuple[str, ...], tuple[Document, list[tuple[float, Evidence]]]] = {}
        evidence = (await self.bridge.forest.user(user_id).search(question, **how)).evidence
        for one, score in zip(evidence, scores(evidence), strict=True):
            for source in one.sources:
                version = versions.get(source.session_id)
                if version is not None and version.held(within[0]):
                    first, told = found.setdefault(version.name, (version, []))
                    if first is version:
                        told.append((score, one))
        return found


def _listed(value: Any) -> Any:
    """Return a value with lists in the place of tuples, as JSON has them."""
    if isinstance(value, Mapping):
        return {key: _listed(one) for key, one in value.items()}
    return [_listed(one) for one in value] if isinstance(value, (list, tuple)) else value
