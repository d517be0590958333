"""The verbs that delete: from one user's memory, and a user with all of it."""

from __future__ import annotations

from datetime import datetime

from memforest.errors import InputError
from memforest.forest.options import TimeLike, check_flags, check_text, read_time
from memforest.forest.pool import MemoryPool
from memforest.forest.spanned import spanned
from memforest.memory.erase.receipt import DeleteReceipt
from memforest.memory.erase.targets import Target
from memforest.memory.ingest.turns import check_id

TARGETS = ("fact_id", "turn", "session_id", "entity", "during")


class DeletesFromMemory:
    """The verbs of a handle on one user's memory that delete."""

    _pool: MemoryPool
    user_id: str

    @spanned("delete_memory")
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

        A statement that was said elsewhere too loses only what was said here. Deleting a fact or an entity deletes the
        sentences as well that it was made from, and of an entity those that name it, and all that it said. What is kept
        outside of the memory (backups, traces, what a model's endpoint logs) is not reached: see docs/deleting.md.

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
            StoreError: if the file cannot be written.
        """
        check_flags("delete", dry_run=dry_run)
        given = (fact_id, turn, session_id, entity, during)
        if sum(one is not None for one in given) != 1:
            raise InputError(
                f"delete() takes exactly one of {', '.join(TARGETS)}; delete_all() deletes everything"
            )
        for name, value in (("fact_id", fact_id), ("session_id", session_id), ("entity", entity)):
            check_text("delete", name, value)
        target = Target(_turn(turn), session_id, fact_id, entity, self._window(during))
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.delete(target, dry_run=dry_run)
        )

    @spanned("delete_memory")
    async def delete_all(self, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete the whole memory, as `AsyncMemForest.delete_user` does, or count what is in it; the next `add` begins a new one.

        Raises:
            NotFoundError: if there is no file for the user.
            StoreError: if a file cannot be deleted.
        """
        check_flags("delete_all", dry_run=dry_run)
        return await self._pool.remove(self.user_id, dry_run=dry_run)

    @spanned("delete_memory")
    async def expire(self, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete the turns that were said longer ago than `Config.retention`, with everything that was made of them.

        Every ingest and `add` does the same, at most once a day by the clock of the configuration, and says so in its
        warnings.

        Raises:
            ConfigError: if `Config.retention` is not set.
            NotFoundError: if the user has no memory.
            StoreError: if the file cannot be written.
        """
        check_flags("expire", dry_run=dry_run)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.expire(dry_run=dry_run))

    def _window(self, during: object) -> tuple[datetime | None, datetime] | None:
        if during is None:
            return None
        if not isinstance(during, (tuple, list)) or len(during) != 2:
            raise InputError("delete(during=...) takes a pair of times, [start, end)")
        start, end = (read_time(one, self._pool.config, "during") for one in during)
        if end is None:
            raise InputError("delete(during=...) needs an end; delete_all() deletes everything")
        if start is not None and start >= end:
            raise InputError(f"delete(during=...): {start} is not before {end}; give the earlier time first")
        return start, end


def _turn(turn: object) -> tuple[str, str] | None:
    if turn is None:
        return None
    if not isinstance(turn, (tuple, list)) or len(turn) != 2 or not all(isinstance(one, str) for one in turn):
        raise InputError("delete(turn=...) takes a pair of texts: (session id, turn id)")
    for one in turn:
        check_text("delete", "turn", one)
    return turn[0], turn[1]


class DeletesUsers:
    """The verbs of a forest that delete."""

    _pool: MemoryPool

    @spanned("delete_memory")
    async def delete_turn(self, user_id: str, session_id: str, turn_id: str) -> DeleteReceipt:
        """Delete one turn with everything that was made of it; see `AsyncUserMemory.delete`.

        Raises:
            NotFoundError: if there is no such user, session or turn.
            StoreError: if the file cannot be written.
        """
        for name, value in (("session_id", session_id), ("turn_id", turn_id)):
            check_text("delete_turn", name, value, optional=False)
        return await self._handle(user_id).delete(turn=(session_id, turn_id))

    @spanned("delete_memory")
    async def delete_session(self, user_id: str, session_id: str) -> DeleteReceipt:
        """Delete a session with everything that was made of it; see `AsyncUserMemory.delete`.

        Raises:
            NotFoundError: if there is no such user or session.
            StoreError: if the file cannot be written.
        """
        check_text("delete_session", "session_id", session_id, optional=False)
        return await self._handle(user_id).delete(session_id=session_id)

    @spanned("delete_memory_store")
    async def delete_user(self, user_id: str) -> DeleteReceipt:
        """Delete a user's memory: its files, whatever state they are in.

        Calls on it that are under way in this process end with a `StoreClosedError`; other processes that have it open
        get a `StoreReplacedError` at their next call. The user may be ingested anew at once.

        Raises:
            NotFoundError: if there is no file for the user.
            ForeignStoreError: if the file is another program's, or another user's.
            StoreError: if a file cannot be deleted.
        """
        return await self._pool.remove(user_id)

    def _handle(self, user_id: str) -> DeletesFromMemory:
        return UserDeletions(self._pool, check_id(user_id, "user_id"))


class UserDeletions(DeletesFromMemory):
    """A handle that only deletes."""

    def __init__(self, pool: MemoryPool, user_id: str) -> None:
        self._pool = pool
        self.user_id = user_id
