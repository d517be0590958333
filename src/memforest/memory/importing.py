"""Reading chat files into memories: first what they hold and whether it fits together, then session by session.

Both are passes over the files as streams, in worker threads; no pass holds more than the sessions that go to the memory
together. Every session is durable when it is counted, so an interruption loses nothing that was reported.


The verb that brings in what other programs have exported, of a forest and of the handle on one memory.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, BinaryIO

from memforest.config import Config
from memforest.endpoint import Budget
from memforest.errors import InputError, MemForestError, SessionConflictError
from memforest.importers.detect import ChatFile, open_chat
from memforest.importers.files import FileSession, ReadOptions, Skips
from memforest.memory.many import ingest_sessions
from memforest.memory.options import read_time
from memforest.memory.pool import MemoryPool
from memforest.progress import OnProgress, Watch
from memforest.read import views
from memforest.read.receipts import ImportedFile, ImportedMemory, ImportProgress, ImportResult
from memforest.read.results import IngestResult
from memforest.reading.date_rules import ambiguous_dates, numeric_order
from memforest.records import Refused, Turn
from memforest.times import shown
from memforest.write.turns import SessionInput, TurnReader, check_id, messages_of, time_key

TURNS_TOGETHER = 1024
"""Turns of the sessions that go to a model together: enough for hundreds of requests in flight, few enough that
progress shows and an interruption costs little."""

FileLike = str | os.PathLike[str] | BinaryIO
"""A path, or a file that is open for reading bytes, which is read into memory."""
OnSession = Callable[[ImportProgress], None]
"""Called after each session."""


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """The arguments of `AsyncMemForest.import_file`."""

    files: Sequence[FileLike]
    user_id: str | None = None
    default_user: str | None = None
    format: str | None = None
    session_id: str | None = None
    timestamp: datetime | None = None
    display_name: str | None = None
    day_first: bool | None = None
    infer: bool = True
    replace: bool = False
    dry_run: bool = False
    budget: Budget = field(default_factory=Budget)
    on_session: OnSession | None = None
    on_progress: OnProgress | None = None

    @classmethod
    def of(cls, config: Config, file: object, user_id: str | None, **options: Any) -> ImportRequest:
        """Return the request of a call, with the options of `AsyncMemForest.import_file`.

        Raises:
            InputError: if there is no file, or an id is no usable text.
        """
        files = (
            (file,) if isinstance(file, (str, os.PathLike)) or callable(getattr(file, "read", None)) else file
        )
        if not isinstance(files, Sequence) or isinstance(files, (bytes, Mapping)) or not files:
            raise InputError(
                f"import_file(file) takes a path, a file open for reading bytes, or a list of them, not {shown(file)}"
            )
        for name in ("format", "session_id", "display_name", "default_user"):
            if (value := options.get(name)) is not None:
                check_id(value, name)
        if user_id is not None:
            check_id(user_id, "user_id")
        options["timestamp"] = read_time(options["timestamp"], config, "timestamp")
        options["budget"] = options["budget"] or config.ingest_budget
        return cls(tuple(files), user_id, **options)


async def import_files(pool: MemoryPool, request: ImportRequest) -> ImportResult:
    """Read files into memories; see `AsyncMemForest.import_file`."""
    run = _Run(pool, request)
    try:
        await asyncio.to_thread(run.scan)
        if not request.dry_run:
            await run.store()
    finally:
        await asyncio.to_thread(run.opened.close)
    return ImportResult(
        tuple(one.found for one in run.chats), tuple(run.memories.values()), dry_run=request.dry_run
    )


@dataclass(slots=True)
class _Chat:
    """A file that is open, and what was found in it."""

    file: ChatFile
    found: ImportedFile
    session_id: str | None = None
    """The id of its only session, where the caller names it."""


class _Run:
    """One import."""

    def __init__(self, pool: MemoryPool, request: ImportRequest) -> None:
        self._pool = pool
        self._config: Config = pool.config
        self._request = request
        self.opened = ExitStack()
        """The files."""
        self.chats: list[_Chat] = []
        self.memories: dict[str, ImportedMemory] = {}
        self._where: dict[tuple[str, str], _Chat] = {}
        """(user, session id) -> the file that it is in."""

    def scan(self) -> None:
        """Open the files, and read what they hold.

        Raises:
            InputError: if a file cannot be read at all, or they do not fit together.
        """
        request = self._request
        for file in request.files:
            chat = self.opened.enter_context(open_chat(file, format=request.format))
            self.chats.append(_Chat(chat, ImportedFile(chat.name, chat.format)))
        named: set[str] = set()
        for one in self.chats:
            skips = Skips()
            ids = self._scan_file(one, skips, named)
            self._name_session(one, ids)
            if skips.wrong and not ids:
                raise InputError(
                    f"{one.found.source}{', ' if skips.wrong[0].where else ': '}{skips.wrong[0]}"
                )
            one.found.left_out, one.found.notes = dict(skips.left_out), dict(skips.notes)
            one.found.wrong, one.found.wrong_count = tuple(skips.wrong), skips.wrong_count
        if request.user_id is not None and len(named) > 1:
            raise InputError(
                f"the files hold the memories of {len(named)} users; leave out user_id (--user), and each user gets a memory"
            )

    def _scan_file(self, one: _Chat, skips: Skips, named: set[str]) -> list[str]:
        """Count what a file holds, and return the ids of its sessions, two of them at most."""
        ids: list[str] = []
        for session in one.file.sessions(self._options, skips):
            user = self._user(session, one)
            if session.user is not None:
                named.add(session.user)
            turns, span, problem = self._readable(session, user, skips)
            one.found.see(user, len(turns), span)
            memory = self.memories.setdefault(user, ImportedMemory(user))
            if problem is not None and self._request.dry_run:
                self._fail(memory, one, session, problem)
            memory.sessions += 1
            memory.turns += len(turns)
            ids = [*ids[:1], session.session_id]
            if self._request.session_id is None:
                self._note(user, session, one)
        return ids

    def _note(self, user: str, session: FileSession, one: _Chat) -> None:
        """Raise if another file has a session of the same user and id."""
        if (before := self._where.setdefault((user, session.session_id), one)) is not one:
            raise InputError(
                f"{before.found.source} and {one.found.source} both have the session {shown(session.session_id)}; import them one by one, with "
                "session_id (--session) for one of them"
            )

    def _name_session(self, one: _Chat, ids: Sequence[str]) -> None:
        """Give the file's only session the name that the caller wants; days of a chat have it in front already."""
        wanted = self._request.session_id
        if wanted is None or all(name == wanted or name.startswith(f"{wanted}/") for name in ids):
            return
        if one.found.sessions > 1 or len(self.chats) > 1:
            raise InputError(
                f"{one.found.source} holds several sessions, which session_id (--session) cannot name; leave it out"
            )
        one.session_id = wanted

    @property
    def _options(self) -> ReadOptions:
        request = self._request
        day_first = self._config.day_first if request.day_first is None else request.day_first
        return ReadOptions(request.session_id, day_first, self._config.zone, request.display_name)

    def _user(self, session: FileSession, one: _Chat) -> str:
        user = self._request.user_id or session.user or self._request.default_user
        if user is None:
            raise InputError(f"{one.found.source} does not say whose memory it is; give user_id")
        return check_id(user, "user_id")

    def _readable(
        self, session: FileSession, user: str, skips: Skips
    ) -> tuple[list[Mapping[str, Any]], tuple[datetime, datetime] | None, str | None]:
        """Return the turns of a session that can be stored, when they were said, and what is wrong if there are none.

        A malformed turn is named and left out, so that the others are stored. Where all are, the session is at fault.
        """
        try:
            reader = self._reader(session, user)
        except InputError as exc:
            return [], None, str(exc)
        kept: list[Mapping[str, Any]] = []
        wrong: list[tuple[str, str]] = []
        ids: dict[str, int] = {}
        said: list[datetime] = []
        for index, item in enumerate(session.turns):
            try:
                turn = reader.turn(item, index, str(len(kept)), len(kept))
                if isinstance(turn, Turn):
                    if turn.id in ids:
                        raise InputError(
                            f"turns {ids[turn.id]} and {index} have the same id {shown(turn.id)}"
                        )
                    said.append(turn.said)
                    ids[turn.id] = index
                kept.append(self._dated(item, turn))
            except InputError as exc:
                wrong.append((session.place(index), str(exc)))
        if not said:
            return [], None, wrong[0][1] if wrong else "nothing can be stored: no turn has text"
        for where, reason in wrong:
            skips.fail(where, reason)
        return kept, (min(said), max(said)), None

    def _dated(self, item: Mapping[str, Any], turn: Turn | Refused) -> Mapping[str, Any]:
        """Return a message whose numeric date reads as the caller has stated, whatever the memory's people write."""
        if self._request.day_first is None or not isinstance(turn, Turn):
            return item
        key = time_key(item)
        if key is None or not isinstance(item[key], str) or not ambiguous_dates(item[key]):
            return item
        local = turn.said.astimezone(self._config.zone).replace(tzinfo=None)
        return {**item, key: (local if turn.time_source == "naive" else turn.said).isoformat()}

    def _reader(self, session: FileSession, user: str) -> TurnReader:
        config = self._config
        given = self._request.timestamp
        when = read_time(session.timestamp, config, "timestamp") if session.timestamp is not None else given
        order = self._options.day_first
        if order is None:
            times = [one[key] for one in session.turns if (key := time_key(one)) is not None]
            order = numeric_order([one for one in times if isinstance(one, str)])
        label = self._request.display_name or user
        return TurnReader(config.zone, label, config.max_turn_chars, when, None, order)

    async def store(self) -> None:
        """Ingest the sessions of all files in order; one that is malformed or in conflict is noted, and the rest goes on.

        Raises:
            MemForestError: if a memory cannot be opened or written.
        """
        request = self._request
        if request.display_name is not None:
            for memory in self.memories.values():
                if memory.turns:
                    async with self._pool.open(memory.user, label=request.display_name):
                        pass
        for memory in self.memories.values():
            Watch(memory.user, request.on_progress).say("received", None, memory.turns, 0, memory.turns)
        for one in self.chats:
            batches = self._batches(one)
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                await self._ingest(one, batch)
        for memory in self.memories.values():
            await self._finish(memory)

    def _batches(self, one: _Chat) -> Iterator[list[tuple[str, FileSession]]]:
        """Yield what is ingested in one call, of one user: a session, or as much as a model may well read at once."""
        together = self._config.chat is not None
        batch: list[tuple[str, FileSession]] = []
        turns = 0
        for session in one.file.sessions(self._options, Skips()):
            user = self._user(session, one)
            kept, _, problem = self._readable(session, user, Skips())
            if problem is None:
                session = replace(session, turns=tuple(kept), places=())
            if one.session_id is not None:
                session = replace(session, session_id=one.session_id)
            turns += len(session.turns)
            if batch and (not together or turns > TURNS_TOGETHER or user != batch[0][0]):
                yield batch
                batch, turns = [], len(session.turns)
            batch.append((user, session))
        if batch:
            yield batch

    async def _ingest(self, one: _Chat, batch: Sequence[tuple[str, FileSession]]) -> None:
        started = time.perf_counter()
        memory = self.memories[batch[0][0]]
        results: dict[int, IngestResult | MemForestError] = {}
        given = {at: self._session_input(session) for at, (_, session) in enumerate(batch)}
        budget = self._request.budget.less(memory.model_calls, memory.model_tokens)
        how = {"budget": budget, "on_progress": self._request.on_progress}
        await ingest_sessions(self._pool, memory.user, given, results, how)
        for at, (_, session) in enumerate(batch):
            result = results[at]
            if isinstance(result, (InputError, SessionConflictError)):
                self._fail(memory, one, session, str(result))
            elif isinstance(result, MemForestError):
                raise result
            else:
                memory.count(result)
            self._tell(session)
        memory.seconds = round(memory.seconds + time.perf_counter() - started, 2)

    @staticmethod
    def _fail(memory: ImportedMemory, one: _Chat, session: FileSession, reason: str) -> None:
        """Note a session that is not stored."""
        where = f" ({session.where})" if session.where else ""
        memory.sessions_failed += 1
        memory.errors.append(f"{one.found.source}, session {shown(session.session_id)}{where}: {reason}")

    def _session_input(self, session: FileSession) -> SessionInput:
        request = self._request
        when = request.timestamp if session.timestamp is None else session.timestamp
        return SessionInput(
            session.session_id,
            messages_of(list(session.turns)),
            read_time(when, self._config, "timestamp"),
            request.infer,
            request.replace,
            session.metadata,
        )

    def _tell(self, session: FileSession) -> None:
        if self._request.on_session is not None:
            found = list(self.memories.values())
            self._request.on_session(
                ImportProgress(
                    session, found, sum(one.sessions for one in found), sum(one.turns for one in found)
                )
            )

    async def _finish(self, memory: ImportedMemory) -> None:
        """Wait for what a model makes behind the sessions, as the process may end then; other summaries are left."""
        user = memory.user
        if not await asyncio.to_thread(self._pool.exists, user):
            return
        async with self._pool.open(user, "refused") as opened:
            if self._config.chat is not None and self._config.refresh in (None, "behind"):
                left = self._request.budget.less(memory.model_calls, memory.model_tokens)
                memory.add(await opened.flush(left))
            memory.close(await opened.view(views.stats, user))
