"""The verbs that correct one user's memory: update, history, undo, pin, forget."""

from __future__ import annotations

from collections.abc import Sequence

from memforest.errors import InputError
from memforest.forest.options import TimeLike, check_text, read_time
from memforest.forest.pool import MemoryPool
from memforest.forest.spanned import spanned
from memforest.limits import MAX_FACT_CHARS
from memforest.memory.correct import Update
from memforest.memory.corrected import CorrectionView, HistoryEntry
from memforest.memory.inspect.history import history


class CorrectsMemory:
    """The verbs of a handle on one user's memory that correct it."""

    _pool: MemoryPool
    user_id: str

    @spanned("update_memory")
    async def update(
        self,
        fact_id: str,
        text: str | None = None,
        *,
        valid_from: TimeLike | None = None,
        valid_to: TimeLike | None = None,
    ) -> CorrectionView:
        """Correct a statement: hide it, and put another one in its place. What was said stays as it was said.

        The new statement stands at the same turns and counts as said then, by the same speaker; whom it names and what it
        asserts is read by local rules. It holds for whatever is extracted anew from what was said: by ``replace=True`` with
        the same turns, after a rebuild, in a merged memory. `undo` takes it back.

        Args:
            fact_id: of a statement that is shown; of one that was corrected, the newest.
            text: what holds, best with names instead of "I". The old text when not given.
            valid_from: from when on it is so. When not given, what a new text states, else what the old one states.
            valid_to: until when it was so, exclusive.

        Raises:
            InputError: if the text is empty, nothing differs, or the time ends before it begins.
            TimestampError: if a time is none.
            NotFoundError: if there is no such fact.
            CorrectionError: if it was corrected or forgotten already; the message names what holds now.
            StoreError: if the file cannot be written.
        """
        check_text("update", "fact_id", fact_id, optional=False)
        given = Update(
            _read_text(text),
            read_time(valid_from, self._pool.config, "valid_from"),
            read_time(valid_to, self._pool.config, "valid_to"),
        )
        if given == Update():
            raise InputError("update() is to change nothing; give text, valid_from or valid_to")
        if given.start is not None and given.end is not None and given.end <= given.start:
            raise InputError(
                f"valid_to ({given.end.isoformat()}) is not after valid_from ({given.start.isoformat()})"
            )
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.correct(lambda it: it.update(fact_id, given))
        )

    @spanned("update_memory")
    async def pin(self, fact_id: str) -> CorrectionView:
        """Pin a statement: it is among the evidence of every question that it passes the time filters of.

        Where it was not found, it takes the place of the last evidence; the first place stays that of what was found. The pin
        goes on to a statement that corrects it. `undo` takes it back.

        Raises:
            NotFoundError: if there is no such fact.
            CorrectionError: if it is pinned already, or was corrected or forgotten.
            StoreError: if the file cannot be written.
        """
        check_text("pin", "fact_id", fact_id, optional=False)
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.correct(lambda it: it.mark(fact_id, "pin"))
        )

    @spanned("delete_memory")
    async def forget(self, fact_id: str) -> CorrectionView:
        """Forget a statement: it is not shown any more, however often it is said or extracted. `undo` takes it back.

        What was said stays in the file; to have it gone, delete it.

        Raises:
            NotFoundError: if there is no such fact.
            CorrectionError: if it was corrected or forgotten already.
            StoreError: if the file cannot be written.
        """
        check_text("forget", "fact_id", fact_id, optional=False)
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.correct(lambda it: it.mark(fact_id, "forget"))
        )

    @spanned("update_memory")
    async def undo(self, key: str) -> CorrectionView:
        """Take a correction back: an update, a pin, or a forgetting. What it changed is as if it had not been made.

        Args:
            key: of the correction, as the verb returned it; `history` names those of a statement.

        Raises:
            NotFoundError: if there is no such correction.
            CorrectionError: if it was undone already, or what it made was corrected since.
            StoreError: if the file cannot be written.
        """
        check_text("undo", "key", key, optional=False)
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.correct(lambda it: it.undo(key))
        )

    @spanned()
    async def history(self, fact_id: str) -> Sequence[HistoryEntry]:
        """Return what happened to a statement, in the order this memory recorded it: said, corrected, undone, superseded.

        Args:
            fact_id: of the statement as it was said, or of one that corrects it.

        Raises:
            NotFoundError: if there is no such fact, and no correction of one.
        """
        check_text("history", "fact_id", fact_id, optional=False)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.view(history, fact_id))


def _read_text(text: str | None) -> str | None:
    """Return the text of an update, without blanks around it.

    Raises:
        InputError: if it is empty, too long, or no text that can be stored.
    """
    check_text("update", "text", text)
    if text is None:
        return None
    if not text.strip():
        raise InputError("the text is empty; forget(fact_id) hides a statement without another in its place")
    if len(text) > MAX_FACT_CHARS:
        raise InputError(f"the text has {len(text)} characters; a statement has {MAX_FACT_CHARS} at most")
    return text.strip()
