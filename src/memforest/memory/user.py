"""One user's memory: the verbs that write. The verbs that read are in `memforest.memory.reader`.

Each verb converts its arguments, the pool opens the file, and `Memory` or a function of `memforest.read` does the
work. Annotated types say what values are allowed, and `memforest.memory.verbs` checks them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from memforest import __version__
from memforest.endpoint import Budget
from memforest.memory.importing import FileLike, ImportRequest, OnSession, import_files
from memforest.memory.memory import Memory
from memforest.memory.open import embedder_for
from memforest.memory.options import (
    ExportTarget,
    ImportSource,
    TimeLike,
    check_path,
    read_deletion,
    read_rebuild,
    read_statement,
    read_statements,
    read_time,
    read_update,
)
from memforest.memory.pool import Absent
from memforest.memory.reader import AsyncReader
from memforest.memory.transfer import backup_memory, export_memory, import_memory, merge_from_directory
from memforest.memory.verbs import verb
from memforest.progress import OnProgress, Report, as_raised
from memforest.read.entities import Entity
from memforest.read.receipts import (
    BackupResult,
    DeleteReceipt,
    ExportResult,
    ImportResult,
    MemoryImport,
    MergeResult,
)
from memforest.read.results import FlushResult, IngestResult, Usage
from memforest.read.stored import (
    CorrectionView,
    IndexView,
    RepairReport,
)
from memforest.times import floor_ms
from memforest.write.merge_plan import MergeOptions
from memforest.write.turns import SessionInput, messages_of, read_turns, redacted


class AsyncUserMemory(AsyncReader):
    """One user's memory; made by `AsyncMemForest.user`. The blocking twin is `memforest.memory.blocking.UserMemory`.

    If the user has no memory yet, `search`, `ask` and the verbs that list return nothing, and verbs that name
    something raise `NotFoundError`. Every write is durable when it returns. A write raises `StoreError` if the file
    cannot be written. Every verb raises `InputError` for an argument of the wrong type or out of range, and
    `TimestampError` for an unreadable time.
    """

    @verb("upsert_memory")
    async def add(
        self,
        content: Any,
        *,
        session_id: str | None = None,
        timestamp: TimeLike | None = None,
        infer: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        statements: Sequence[Mapping[str, Any]] = (),
        doubtful: bool = False,
        budget: Budget | None = None,
        idempotency_key: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> IngestResult:
        """Add what was said just now: a text (by the user), a message, or a list of messages.

        A message without a time gets the clock's, and is marked so. A message with the ``id`` and the text of a stored
        one is left out.

        Args:
            content: a text, a message or a list of messages, as for `AsyncMemForest.ingest_session`.
            session_id: the session to append to. Default: the session of the day of `timestamp`, or of today.
            timestamp: the time of messages that have none.
            infer: False stores the text only, without extracting facts. Default: True, but False with `statements`.
            metadata: stored with each message, beside its own; see `filters` of `search` and `list`.
            statements: what you understood of these messages. Each is a mapping with the arguments of `remember`; only
                ``statement`` is required. ``source`` is the ``id`` of the message that says it, the last one by
                default. No model reads the messages then, unless `infer` is True.
            doubtful: return earlier facts that these may have ended, as `IngestResult.doubtful`. No model is asked,
                and nothing more is embedded. If the memory was not searched before, all its vectors are read.
            budget: what may be spent on models; `Config.ingest_budget` when not given.
            idempotency_key: a name of this write. A second call with it writes nothing, and returns the first result.
                See `AsyncMemForest.ingest_session`.
            on_progress: called as the work goes on; see `AsyncMemForest.ingest_session`.

        Raises:
            IdempotencyError: if the key was used for another request.
            InputError: if a message is malformed, none has text, or one has the id of another message of the session.
                Nothing was stored, and an unknown user stays unknown. A message without a usable text is only refused:
                see `IngestResult.refused`. Statements have the errors of `remember`.
        """
        if isinstance(content, str):
            content = {"role": "user", "content": content}
        if isinstance(content, (bytes, Mapping)) or not isinstance(content, Sequence):
            content = [content]
        when = None if timestamp is None else read_time(timestamp, self._config, "timestamp")
        given = SessionInput(
            session_id, messages_of(content), when, metadata=metadata, idempotency_key=idempotency_key
        )
        understood, infer = (
            read_statements(self._config, statements),
            not statements if infer is None else infer,
        )
        given = replace(given, infer=infer, statements=understood, doubtful=doubtful)
        return await self._append(given, budget=budget, on_progress=on_progress)

    async def _append(self, given: SessionInput, **how: Any) -> IngestResult:
        """Append to a session; a user without a memory gets one, unless there is something to be replaced."""
        new = await redacted(given, self._config)

        def check(label: str) -> None:
            read_turns(new, self._config, label, floor_ms(self._config.clock()))

        absent: Absent = "refused" if any(one.replaces for one in given.statements) else "made"
        async with self._pool.open(self.user_id, absent, check=check) as memory:
            return await as_raised(memory.append(new, **how))

    @verb("upsert_memory")
    async def import_file(
        self,
        file: FileLike | Sequence[FileLike],
        *,
        format: str | None = None,
        session_id: str | None = None,
        timestamp: TimeLike | None = None,
        display_name: str | None = None,
        day_first: bool | None = None,
        infer: bool = True,
        replace: bool = False,
        dry_run: bool = False,
        budget: Budget | None = None,
        on_session: OnSession | None = None,
        on_progress: OnProgress | None = None,
    ) -> ImportResult:
        """Read chat files of other programs into this memory. The arguments are those of `AsyncMemForest.import_file`.

        Raises:
            InputError: as there, and if the files hold the memories of several users.
        """
        request = ImportRequest.of(
            self._config,
            file,
            self.user_id,
            format=format,
            session_id=session_id,
            timestamp=timestamp,
            display_name=display_name,
            day_first=day_first,
            infer=infer,
            replace=replace,
            dry_run=dry_run,
            budget=budget,
            on_session=on_session,
            on_progress=on_progress,
        )
        return await as_raised(import_files(self._pool, request))

    @verb("update_memory")
    async def merge_entities(self, a: str, b: str) -> Entity:
        """Make two names one entity, and return it. `split_entity` undoes it.

        It holds for every verb, also for what is said later, and overrides every rule. It replaces earlier decisions
        on these names.

        Args:
            a: one name.
            b: another one.

        Raises:
            InputError: if the turns have both as the same name already.
            NotFoundError: if nothing is known of one of them; the message has names that are near.
        """
        return await self._do(Memory.merge_entities, a, b)

    @verb("update_memory")
    async def split_entity(self, entity: str, name: str) -> Entity:
        """Make one name of an entity an entity of its own, and return it. `merge_entities` undoes it.

        It holds also for what is said later, and overrides every rule.

        Args:
            entity: any name of the entity.
            name: the name that belongs to somebody or something else.

        Raises:
            InputError: if the entity does not have the name, or has no other. Spellings of one name stay together.
            NotFoundError: if nothing is known of one of them; the message has names that are near.
        """
        return await self._do(Memory.split_entity, entity, name)

    @verb("update_memory")
    async def update(
        self,
        fact_id: str,
        text: str | None = None,
        *,
        valid_from: TimeLike | None = None,
        valid_to: TimeLike | None = None,
    ) -> CorrectionView:
        """Correct a fact: hide it, and put another one in its place. The turn does not change. `undo` takes it back.

        The new fact has the same turns, speaker and time of saying. Local rules read its entities and states. The
        correction holds when facts are extracted again: by ``replace=True``, after a rebuild, or in a merged memory.

        Args:
            fact_id: id of a visible fact. If it was corrected before, give the newest one.
            text: the right statement, best with names instead of "I". Default: the old text.
            valid_from: when it became true. Default: what the new text states, else what the old one states.
            valid_to: when it stopped being true, exclusive.

        Raises:
            InputError: if the text is empty, nothing differs, or the time ends before it begins.
            NotFoundError: if there is no such fact.
            CorrectionError: if it was corrected or forgotten already. The message names the newest fact.
        """
        given = read_update(self._config, text, valid_from, valid_to)
        return await self._do(Memory.update, fact_id, given)

    @verb("upsert_memory")
    async def remember(
        self,
        statement: str,
        *,
        about: str | None = None,
        attribute: str | None = None,
        value: str | None = None,
        since: TimeLike | None = None,
        until: TimeLike | None = None,
        replaces: str | None = None,
        source: tuple[str, str] | None = None,
    ) -> CorrectionView:
        """Store one statement, and end the one that it replaces. No model is asked. `undo` takes it back.

        Without a `source`, it is stored as a turn that the user says now. It holds when facts are extracted again.

        Args:
            statement: what is true, best with names instead of "I".
            about: the entity it is about. Default: the speaker.
            attribute: the attribute it states, as in a timeline: "residence", "gym".
            value: the value of the attribute; it ends the value before.
            since: when it became true. Default: what the statement states, else when it was said.
            until: when it stopped being true, exclusive.
            replaces: id of the fact that ends now. It stays true for its time. If it had not begun by then, it is
                forgotten.
            source: session id and turn id of a turn that says it.

        Raises:
            InputError: if the statement is empty, the time ends before it begins, or there is a value without an attribute.
            NotFoundError: if there is no such fact to replace, or no such turn.
            CorrectionError: if the fact was corrected, replaced or forgotten already. The message names the newest
                fact.
        """
        given = read_statement(self._config, statement, about, attribute, value, since, until, replaces)
        if source is not None:
            return await self._do(Memory.remember_at, given, *source)
        said = {"role": "user", "content": given.text}
        done = await self._append(SessionInput(None, (said,), infer=False, statements=(given,)))
        return done.remembered[0]

    @verb("update_memory")
    async def pin(self, fact_id: str) -> CorrectionView:
        """Pin a fact: it is in the evidence of every question whose time filters it passes. `undo` takes it back.

        If the search did not find it, it takes the last place. If the fact is corrected, the new fact is pinned.

        Raises:
            NotFoundError: if there is no such fact.
            CorrectionError: if it is pinned already, or was corrected or forgotten.
        """
        return await self._do(Memory.mark, fact_id, "pin")

    @verb("delete_memory")
    async def forget(self, fact_id: str) -> CorrectionView:
        """Hide a fact, even if it is said or extracted again. `undo` takes it back.

        Its turn stays in the file; `delete` removes both.

        Raises:
            NotFoundError: if there is no such fact.
            CorrectionError: if it was corrected or forgotten already.
        """
        return await self._do(Memory.mark, fact_id, "forget")

    @verb("update_memory")
    async def undo(self, key: str) -> CorrectionView:
        """Undo a correction: an update, a pin or a forget. Everything is then as if it had not been made.

        Args:
            key: the correction's key, which the verb returned. `history` has the keys of a fact.

        Raises:
            NotFoundError: if there is no such correction.
            CorrectionError: if it was undone already, or its result was corrected since.
        """
        return await self._do(Memory.undo, key)

    @verb("delete_memory")
    async def delete(
        self,
        fact_id: str | None = None,
        *,
        turn: tuple[str, str] | None = None,
        session_id: str | None = None,
        entity: str | None = None,
        during: tuple[TimeLike | None, TimeLike] | None = None,
        dry_run: bool = False,
    ) -> DeleteReceipt:
        """Delete one thing and everything that was made of it. No byte of its text stays in the memory's files.

        A fact that was said elsewhere too loses only this source. With a fact go the sentences it was made from. With
        an entity go all sentences that name it, and all that it said itself. Copies outside of the memory stay:
        backups, traces, and the logs of a model's endpoint. See docs/deleting.md.

        Args:
            fact_id: a fact.
            turn: session id and turn id.
            session_id: a whole session.
            entity: the name of a speaker, or of somebody or something that turns name.
            during: [start, end) of the time it was said. A start of None is the beginning.
            dry_run: only count what would be deleted.

        Raises:
            InputError: if not exactly one thing is given, or the window ends before it begins.
            NotFoundError: if there is no such fact, turn, session or entity.
        """
        target = read_deletion(self._config, fact_id, turn, session_id, entity, during)
        return await self._do(Memory.delete, target, dry_run=dry_run)

    @verb("delete_memory")
    async def delete_all(self, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete the whole memory, as `AsyncMemForest.delete_user` does. The next `add` begins a new one.

        Raises:
            NotFoundError: if there is no file for the user.
            StoreError: if a file cannot be deleted.
        """
        return await self._pool.remove(self.user_id, dry_run=dry_run)

    @verb("delete_memory")
    async def expire(self, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete the turns that are older than `Config.retention`, and everything that was made of them.

        Every write does the same, at most once a day by the configured clock, and warns about it.

        Raises:
            ConfigError: if `Config.retention` is not set.
            NotFoundError: if the user has no memory.
        """
        return await self._do(Memory.expire, dry_run=dry_run)

    @verb("upsert_memory")
    async def merge(
        self,
        from_user: str,
        *,
        dry_run: bool = False,
        same_person: bool | None = None,
        same: Mapping[str, str] | None = None,
        apart: Sequence[str] = (),
        directory: str | Path | None = None,
        refresh: bool | None = None,
        budget: Budget | None = None,
    ) -> MergeResult:
        """Merge another user's memory into this one; the other stays as it is.

        Sessions, facts, corrections and trees are copied, and nothing is extracted again. A session that is here
        already stays, and grows if it has grown there. If its id belongs to another session here, it gets a new id;
        see `renamed`. A second merge adds only what is new. Every turn keeps the user it came from.

        People and things with the same name become one entity; `participants_joined` and `entities_joined` list them.
        The two users are two people, unless you say `same_person`. If both have the same display name, you must say
        it.

        Args:
            from_user: the user whose memory is merged into this one.
            dry_run: write nothing, and return what would be done.
            same_person: True if both users are one person: the other's turns are then this user's. False if they are
                two with the same name: the other one is then called "NAME (USER)".
            same: name there -> name here, for entities with another name here.
            apart: names there that mean another entity here; they become "NAME (USER)".
            directory: the other memory's forest, if it is not this one.
            refresh: as in `AsyncMemForest.ingest_session`.
            budget: what may be spent on models that judge similar facts and make summaries; `Config.ingest_budget`
                when not
                given.

        Raises:
            InputError: if both are the same memory, or you must give `same_person`, `same` or `apart`.
            NotFoundError: if the other user has no memory, or this one in a dry run.
            EmbedderMismatchError: if the vectors of the two are of different embedders.
            CorruptStoreError: if the other memory is damaged; sessions that were merged before are whole.
            StoreKeyError: if it is encrypted with another key than this one, or only one of both is.
            SchemaVersionError: if another version has written it.
        """
        options = MergeOptions(same_person, same or {}, tuple(apart), dry_run=dry_run, refresh=refresh)
        return await merge_from_directory(self._pool, self.user_id, directory, from_user, options, budget)

    @verb()
    async def export(
        self, target: ExportTarget, *, vectors: bool = False, summaries: bool = True, overwrite: bool = False
    ) -> ExportResult:
        """Write the whole memory to a file of JSON Lines. `import_` makes the same memory from it.

        The file shows one moment, even if others write meanwhile. Only you can read it, and a failed export leaves no
        file. You can also export a memory that is read-only. docs/export.md has the schema.

        Args:
            target: path of a new file, or a stream of bytes.
            vectors: write vectors too: the import is faster.
            summaries: write the summaries of trees too: a model may have been paid for them.
            overwrite: replace a file that is there.

        Raises:
            NotFoundError: if the user has no memory.
            InputError: if the file is there already, or its directory is not.
            StoreError: if the file cannot be written, or the memory cannot be read.
        """
        check_path("export", "target", target, "write")
        how = {"vectors": vectors, "summaries": summaries, "overwrite": overwrite}
        return await self._do(export_memory, target, version=__version__, **how)

    @verb("upsert_memory")
    async def import_(self, source: ImportSource, *, budget: Budget | None = None) -> MemoryImport:
        """Make this user's memory from a file that `export` wrote; no chat model is asked.

        All of it is stored or nothing. A user without a memory is registered. Vectors that the file lacks are made by
        the embedder; if that fails, everything else is stored, and `resume` makes them.

        Args:
            source: path of the file, or a stream of bytes.
            budget: what the embedder may spend behind an endpoint; `Config.ingest_budget` when not given.

        Raises:
            InputError: if the file is not an export, comes from a newer memforest, is not complete, or has a wrong
                line, which the message names. Also if the user's memory has content already. Nothing was stored.
            ModelError: if vectors cannot be made.
        """
        check_path("import_", "source", source, "read")
        async with self._pool.filling(self.user_id) as memory:
            done, vectors = await import_memory(memory, source, partial(embedder_for, self._config))
        return replace(done, embedded=await self._do(Memory.settle, vectors=vectors, budget=budget))

    @verb()
    async def backup(self, target: str | Path, *, overwrite: bool = False) -> BackupResult:
        """Copy the memory's file as it is now, and check the copy. Others may write meanwhile.

        Only you can read the copy, and a failed backup leaves none. It needs no more memory for a large file.
        docs/backup.md says how to restore a backup.

        Args:
            target: path of a new file.
            overwrite: replace a file that is there.

        Raises:
            NotFoundError: if the user has no memory.
            InputError: if the file is there already, or its directory is not.
            CorruptStoreError: if the memory's file is damaged.
            StoreError: if the copy cannot be written.
        """
        check_path("backup", "target", target)
        return await self._do(backup_memory, Path(target), overwrite=overwrite)

    @verb()
    async def repair(self) -> RepairReport:
        """Repair what can be made again from the turns, and finish what an interrupted write left.

        Word rows, vectors, trees and scenes that `verify` finds broken are made again. Sessions and summaries are
        finished, the word index is merged, and free space is given back. Turns, sessions and facts never change, and
        nothing is made from a damaged turn. If SQLite finds the file damaged, nothing is touched. `.left` names what
        is left. To heal a damaged turn, ingest its session again with ``replace=True``.
        """
        return await self._do(Memory.repair)

    @verb()
    async def rebuild(
        self,
        *,
        stale: bool = False,
        index: str | None = None,
        embedder: bool = False,
        progress: Report | None = None,
        budget: Budget | None = None,
    ) -> Usage:
        """Rebuild derived data: word rows, and summaries and vectors that are missing or damaged.

        Sound summaries stay, and so do vectors of unchanged texts; `verify` checks them. After an interruption, call
        it again.

        Args:
            stale: rebuild only what `stale` lists. Sessions are read again, one after the other, if another extractor,
                prompt, model or version of the rules read them, or their chunks do not have `Config.chunk_turns`
                turns. Indexes are rebuilt if their settings have changed. Summaries are made again if they came from
                another prompt, model, length or name. Until a session is read, searches use its old facts.
            index: rebuild only this index, with its configured settings.
            embedder: change to the configured embedder. All vectors are made again beside the old ones. Searches use
                the old ones until all are there, and the switch is one transaction. Nothing else is rebuilt. With
                ``Config(embedder="auto")`` it is the best that is installed.
            progress: called with what is being made, how many are done, and how many there are, in another thread.
            budget: what may be spent on models; `Config.ingest_budget` when not given.

        Raises:
            InputError: if `index` or `embedder` is given together with another one, or there is no embedder.
            ModelError: if the embedder fails; what was made is kept.
            NotFoundError: if the memory does not have the index.
            StepError: if some sessions could not be read again. They are as before, and everything else is done.
            BudgetError: if the budget is used up. What was made stays, and the same call goes on.
        """
        what = read_rebuild(stale=stale, index=index, embedder=embedder, progress=progress)
        opening = self._pool.apart(self.user_id) if embedder else self._pool.open(self.user_id, "refused")
        async with opening as memory:
            return await memory.rebuild(what, budget)

    @verb()
    async def flush(self, *, budget: Budget | None = None) -> FlushResult:
        """Wait for the summaries that are made behind writes, make those that are left, and return what all that did.

        Args:
            budget: what may be spent on models for those that are left; `Config.ingest_budget` when not given.
        """
        return await self._do(Memory.flush, budget)

    @verb()
    async def add_index(
        self, name: str, settings: Mapping[str, Any] | object | None = None, *, budget: Budget | None = None
    ) -> IndexView:
        """Add an index of everything that the memory holds, and return what its trees are.

        Its summaries are made when they are read, or by `resume`.

        Args:
            name: of an index that there is.
            settings: its settings, laid over those of `Config.index_settings`; they are kept in the file.
            budget: what may be spent on models; `Config.ingest_budget` when not given.

        Raises:
            ConfigError: if there is no such index, the memory has it already, or a setting is unknown or cannot be.
        """
        return await self._do(Memory.add_index, name, settings, budget)

    @verb()
    async def drop_index(self, name: str) -> None:
        """Take an index away with everything that it has in the file; what was said stays as it is.

        Raises:
            NotFoundError: if the memory does not have it.
            ConfigError: if it is the last one.
        """
        await self._do(Memory.drop_index, name)

    @verb()
    async def advance(
        self, as_of: TimeLike | None = None, *, force: bool = False, budget: Budget | None = None
    ) -> Sequence[IndexView]:
        """Make what is due by a time, such as the profile of a month that has ended, and return how all indexes stand.

        Every ingest makes what is due by what was said last; this goes by the calendar, when nothing is said.

        Args:
            as_of: the present; the clock's when not given.
            force: have also what is not due yet, such as calendar windows that have not ended.
            budget: what may be spent on models; `Config.ingest_budget` when not given.
        """
        when = read_time(as_of, self._config, "as_of")
        return await self._do(Memory.advance, when, force=force, budget=budget)
