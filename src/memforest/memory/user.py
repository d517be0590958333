"""One user's memory as people use it: every verb of a user; those that write are here, those that read in `memforest.memory.reader`.

Each verb reads top-down: arguments of Python become those of the memory, the pool opens the file, and `Memory` or a function of
`memforest.read` does the work. Annotated types say what values are allowed; `memforest.memory.verbs` checks them.
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

    Of a user without a memory, `search`, `ask` and the verbs that list return nothing; those that name something raise a
    `NotFoundError`. Every write is durable when it returns. A verb that writes raises `StoreError` if the file cannot be written,
    any verb `InputError` for an argument of the wrong type or out of range, and `TimestampError` for an unreadable time.
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
        """Add something said just now: a text (by the user), a message, or a list of messages.

        What has no time of its own is stamped with the clock's and flagged so. A message that is in the session already, by
        its own ``id`` and what it says, is left out.

        Args:
            content: a text, a message or a list of messages, as for `AsyncMemForest.ingest_session`.
            session_id: appended to this session; when not given, to that of the day of `timestamp`, or of today.
            timestamp: the time of messages that have none.
            infer: False stores the text verbatim, without extraction; True when not given, but for a call with `statements`.
            metadata: kept with each of the messages, beside what they have themselves; see `filters` of `search` and `list`.
            statements: what you have understood of these messages already. Each is a mapping with the arguments of `remember`,
                of which only ``statement`` is needed; ``source`` is the ``id`` of the message that says it, the last one when
                not given. No model reads the messages then, unless `infer` is True.
            doubtful: return earlier statements too that these may have ended: `IngestResult.doubtful`. No model is asked, and
                nothing more embedded; all vectors of the memory are read where it has not been searched before.
            budget: what may be spent on models; `Config.ingest_budget` when not given.
            idempotency_key: a name of this write; a call that comes again with it writes nothing and returns what the first
                one did. See `AsyncMemForest.ingest_session`.
            on_progress: called with how far it has come; see `AsyncMemForest.ingest_session`.

        Raises:
            IdempotencyError: if the key was given with another request before.
            InputError: if a message is malformed, none has text, or one has the id of another message of the session;
                nothing was stored, and an unknown user stays unknown. A message whose text is missing or cannot be text is
                refused alone: see `IngestResult.refused`. Statements have the errors of `remember`.
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
        """Read chat files of other programs into this memory; the arguments are those of `AsyncMemForest.import_file`.

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
        """Decide that two names are one entity, and return it; `split_entity` takes it back.

        It holds for every reader and verb, for what is said later too, and over every rule. What was decided before counts no more.

        Args:
            a: one name.
            b: another one.

        Raises:
            InputError: if both names are one and the same already in what was said.
            NotFoundError: if nothing is known of one of them; the message has names that are near.
        """
        return await self._do(Memory.merge_entities, a, b)

    @verb("update_memory")
    async def split_entity(self, entity: str, name: str) -> Entity:
        """Decide that a name is another entity than the rest of its names, and return it; `merge_entities` takes it back.

        It holds for what is said later too, and over every rule.

        Args:
            entity: any name of the entity.
            name: the one that is somebody or something else.

        Raises:
            InputError: if the name is none of the entity's, or the only one that it has; of a name that is spelled in several
                ways, these stay together.
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
        """Correct a fact: hide it, and put another one in its place. What was said stays as it was said; `undo` takes it back.

        The new fact stands at the same turns and counts as said then, by the same speaker; local rules read whom it names and
        what it asserts. It holds for whatever is extracted anew: by ``replace=True``, after a rebuild, in a merged memory.

        Args:
            fact_id: of a fact that is shown; of one that was corrected, the newest.
            text: what holds, best with names instead of "I". The old text when not given.
            valid_from: from when on it is so. When not given, what a new text states, else what the old one states.
            valid_to: until when it was so, exclusive.

        Raises:
            InputError: if the text is empty, nothing differs, or the time ends before it begins.
            NotFoundError: if there is no such fact.
            CorrectionError: if it was corrected or forgotten already; the message names what holds now.
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
        """Remember one statement that you have understood, and end the one that it replaces; no model is asked. `undo` takes it back.

        Where no turn says it, the statement is stored as said now by the user. It holds for whatever is extracted anew.

        Args:
            statement: what is so, best with names instead of "I".
            about: whom or what it is about; who said it when not given.
            attribute: what of that it tells, as a timeline calls it: "residence", "gym".
            value: what the attribute is; it ends the value before.
            since: from when on it is so; when not given, what the statement states, else when it was said.
            until: until when it was so, exclusive.
            replaces: id of a fact that was so until then. It stays true of its time; what was not yet so then is forgotten.
            source: session id and turn id of a turn that says it.

        Raises:
            InputError: if the statement is empty, the time ends before it begins, or there is a value without an attribute.
            NotFoundError: if there is no such fact to replace, or no such turn.
            CorrectionError: if the fact was corrected, replaced or forgotten already; the message names what holds now.
        """
        given = read_statement(self._config, statement, about, attribute, value, since, until, replaces)
        if source is not None:
            return await self._do(Memory.remember_at, given, *source)
        said = {"role": "user", "content": given.text}
        done = await self._append(SessionInput(None, (said,), infer=False, statements=(given,)))
        return done.remembered[0]

    @verb("update_memory")
    async def pin(self, fact_id: str) -> CorrectionView:
        """Pin a fact: it is among the evidence of every question whose time filters it passes. `undo` takes it back.

        Where it was not found, it takes the place of the last evidence. The pin goes on to a fact that corrects it.

        Raises:
            NotFoundError: if there is no such fact.
            CorrectionError: if it is pinned already, or was corrected or forgotten.
        """
        return await self._do(Memory.mark, fact_id, "pin")

    @verb("delete_memory")
    async def forget(self, fact_id: str) -> CorrectionView:
        """Forget a fact: it is not shown any more, however often it is said or extracted. `undo` takes it back.

        What was said stays in the file; `delete` removes it.

        Raises:
            NotFoundError: if there is no such fact.
            CorrectionError: if it was corrected or forgotten already.
        """
        return await self._do(Memory.mark, fact_id, "forget")

    @verb("update_memory")
    async def undo(self, key: str) -> CorrectionView:
        """Take a correction back: an update, a pin, or a forgetting. What it changed is as if it had not been made.

        Args:
            key: of the correction, as the verb returned it; `history` names those of a fact.

        Raises:
            NotFoundError: if there is no such correction.
            CorrectionError: if it was undone already, or what it made was corrected since.
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
        """Delete one thing with everything that was made of it, so that no byte of its text is left in the memory's files.

        A fact that was said elsewhere too loses only what was said here. Deleting a fact or an entity deletes the sentences
        that it was made from as well, and of an entity those that name it, and all that it said. What is kept outside of the
        memory (backups, traces, what a model's endpoint logs) is not reached: see docs/deleting.md.

        Args:
            fact_id: a fact.
            turn: session id and turn id.
            session_id: a whole session.
            entity: a name: of who spoke, or of who or what was spoken of.
            during: [start, end), of when it was said; a start of None is the beginning.
            dry_run: only count what would go.

        Raises:
            InputError: if not exactly one thing is given, or the window ends before it begins.
            NotFoundError: if there is no such fact, turn, session or entity.
        """
        target = read_deletion(self._config, fact_id, turn, session_id, entity, during)
        return await self._do(Memory.delete, target, dry_run=dry_run)

    @verb("delete_memory")
    async def delete_all(self, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete the whole memory, as `AsyncMemForest.delete_user` does, or count what is in it; the next `add` begins a new one.

        Raises:
            NotFoundError: if there is no file for the user.
            StoreError: if a file cannot be deleted.
        """
        return await self._pool.remove(self.user_id, dry_run=dry_run)

    @verb("delete_memory")
    async def expire(self, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete the turns that were said longer ago than `Config.retention`, with everything that was made of them.

        Every ingest and `add` does the same, at most once a day by the configured clock, and says so in its warnings.

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

        Sessions, facts, corrections and trees are copied, and nothing is extracted again. A session that is here already is
        left, one that has grown there grows here; one whose id is taken by another gets another id, and `renamed` says so.
        Merging again brings what is new since. Every turn keeps whose memory it came from.

        People and things of one name become one, and `participants_joined` and `entities_joined` name them. The two
        users are two people, unless `same_person` says otherwise; if they have one display name it must say so.

        Args:
            from_user: whose memory.
            dry_run: write nothing, and return what would be done.
            same_person: True if both users are one person: what the other said is then this user's. False if they have
                one name and are two: the other one is then called "NAME (USER)".
            same: names there -> names here, of who or what is called otherwise here.
            apart: names there of who or what has the name of somebody else here; they become "NAME (USER)".
            directory: the other memory's forest, if it is not this one.
            refresh: as in `AsyncMemForest.ingest_session`.
            budget: what may be spent on models, which judge near facts and make summaries; `Config.ingest_budget` when not
                given.

        Raises:
            InputError: if both are one memory, or the caller has to say who is who.
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
        """Write everything that the memory holds into a file of JSON Lines, from which `import_` makes an equal one.

        It is of one moment, whoever writes meanwhile; the file is private, and there whole or not at all. A memory that
        cannot be written can be exported. docs/export.md has the schema.

        Args:
            target: path of a new file, or a stream of bytes.
            vectors: write vectors too, so that the import need not make them.
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
            InputError: if the file is no export, of a newer memforest, not whole, or has a wrong line, which is named by
                its number; or the user's memory holds something already. Nothing was stored.
            ModelError: if vectors cannot be made.
        """
        check_path("import_", "source", source, "read")
        async with self._pool.filling(self.user_id) as memory:
            done, vectors = await import_memory(memory, source, partial(embedder_for, self._config))
        return replace(done, embedded=await self._do(Memory.settle, vectors=vectors, budget=budget))

    @verb()
    async def backup(self, target: str | Path, *, overwrite: bool = False) -> BackupResult:
        """Copy the memory's file as it is at this moment, and check the copy; others may write meanwhile.

        The copy is private, there whole or not at all, and takes no more memory however large it is. docs/backup.md says
        how to restore one.

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
        """Repair what can be made anew from what was said, and finish what an interrupted write left.

        Lexical rows, vectors, trees and scenes that `verify` finds broken are made anew, sessions and summaries finished,
        the index merged, and free space given back. Turns, sessions and facts are never changed, nothing is made of a damaged
        turn, and a file that SQLite itself finds damaged is not touched at all: `.left` names what is left. A damaged turn is
        healed by its session, ingested again with ``replace=True``.
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
        """Make what is derived anew from what is stored: word rows, and summaries and vectors that are missing or damaged.

        Summaries that are there are kept, and so are vectors of unchanged texts; `verify` says whether they are. A call that is interrupted is finished by the
        same call.

        Args:
            stale: make anew just what `stale` names: read sessions again, one after the other, whose chunks were
                extracted by another extractor, prompt, model or version of its rules, or are not of `Config.chunk_turns`
                turns; indexes whose settings are others now; summaries that would be made otherwise, with another prompt,
                model or length than they were, or for another name. Until a session is read, what was extracted of it before
                is served.
            index: make only this index anew, from the start, with the settings that the configuration names for it.
            embedder: give the memory the configured embedder in the place of the one that it was made with: make all
                vectors anew beside the old ones, which are used until all are there, then switch in one transaction; nothing
                else is made anew. With ``Config(embedder="auto")`` it is the best that is installed.
            progress: called with what is being made, how many of it are done, and how many there are; in another thread.
            budget: what may be spent on models; `Config.ingest_budget` when not given.

        Raises:
            InputError: if `index` or `embedder` is given together with another one, or there is no embedder.
            ModelError: if the embedder fails; what was made is kept.
            NotFoundError: if the memory does not have the index.
            StepError: if some sessions could not be read again; they are as they were, and everything else is made anew.
            BudgetError: if the budget is used up; what was made stays, and the same call goes on.
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
