"""Making anew what is derived: all of it, what is stale, one index, or every vector by another embedder; and `repair`.

`reembed` makes all vectors anew beside those in use, then switches in one transaction; until then readers and writers go
on with the old ones. What is written meanwhile is found as lacking a vector, as what a killed run has left is, so the
same loop makes both. Verdicts on near-duplicates stay: facts are what they were.

`reextract` reads sessions again whose chunks would be cut or extracted otherwise now. Each session is one transaction:
until it is committed, what was extracted before is served, and a session that a model cannot read whole stays as it is.
What is the same as before keeps the time at which it was first stored.

`repair_parts` rebuilds, from the turns, what `verify` finds broken. What is derived (lexical rows, vectors, summaries)
can be made again and is; turns, sessions, chunks and facts cannot, so problems with them are left to a backup. Nothing is
made of a damaged turn: its words and its vector of before the damage may be the last trace of what was said. A damaged
file is not touched at all: writing into it may make what is still readable unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from memforest.concurrency import to_thread
from memforest.errors import (
    BudgetError,
    CorruptStoreError,
    InputError,
    ModelError,
    NotFoundError,
    StepError,
    StoreLockedError,
    StoreWriteError,
)
from memforest.models.ledger import current_ledger
from memforest.progress import Progress, Report, Timer, no_report
from memforest.read.stored import IndexView, VerifyReport
from memforest.read.verify import wrong_vectors, wrong_words
from memforest.read.views import index_views
from memforest.search.vectors import VectorMaker, check_own, digest, index_tokens, keep_embedder
from memforest.store import artifacts, checks, derived, meta, sessions
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.sessions import ChunkRow, damaged_turns
from memforest.store.upkeep import purge, vacuum
from memforest.text import cut
from memforest.times import LATEST, from_ms, to_ms
from memforest.trees.attached import adopt_settings, outdated
from memforest.trees.refresh import makers_of
from memforest.write.batch import SessionWriter, groups_of
from memforest.write.commit import CommittedSession, commit
from memforest.write.corrections import retract_chunk
from memforest.write.extract import ExtractedSession
from memforest.write.sessions import StoredSession, load, to_embed

BLOCK = 256
"""Texts that are read, embedded and written together."""

LEFT = 64
"""Texts that may lack a vector when it is switched, because they were written since the last look; `fill_vectors` makes
theirs at once."""

ROUNDS = 20
"""Times that missing vectors are looked for: a writer who is quicker than the embedder ends it."""


async def reembed(db: Database, maker: VectorMaker, report: Report) -> bool:
    """Give a memory the embedder of `maker`; return whether it had another one, or none.

    What was made before a crash or an error is kept, and the same call goes on there.

    Args:
        db: the memory.
        maker: runs the new embedder.
        report: told how many texts are done.

    Raises:
        ModelError: if the embedder fails.
        StoreError: if the memory cannot be written.
        StoreLockedError: if other writers add texts more quickly than they are embedded.
    """
    if not await db.writing(_begin, maker):
        return False
    for _ in range(ROUNDS):
        progress = Progress("vectors", await db.reading(meta.count_lacking_next), report)
        for kind in derived.ITEM_KINDS:
            await _make(maker, kind, progress)
        if await db.writing(_switch, maker):
            return True
    raise StoreLockedError(
        f"{db.path.name!r} grows faster than its texts can be embedded; what was made is kept. Run it again when less "
        "is written"
    )


def _begin(tx: Tx, maker: VectorMaker) -> bool:
    """Begin to keep vectors of the embedder; return whether the memory has those of another one."""
    model = maker.embedder.model_id
    if meta.get(tx, "embedder") == model and derived.dimension(tx) in (None, maker.embedder.dimension):
        meta.drop_next(tx)
        return False
    meta.begin_next(tx, model)
    return True


async def _make(maker: VectorMaker, kind: derived.ItemKind, progress: Progress) -> None:
    """Make the vectors of a kind that are lacking, block by block."""
    after = 0
    while True:
        last, texts = await maker.db.reading(_block, kind, after)
        if last is None:
            return
        if texts:
            rows = await maker.embed([text for _, text in texts], kind)
            found = [(item, digest(text), row) for (item, text), row in zip(texts, rows, strict=True)]
            await maker.db.writing(_put, maker, kind, found)
        progress.add(len(texts))
        after = last


def _block(tx: Tx, kind: derived.ItemKind, after: int) -> tuple[int | None, list[tuple[int, str]]]:
    """Return the last id of the next block and its (item, text to embed); damaged turns get no vector."""
    rows = meta.lacking_next(tx, kind, after, BLOCK)
    return (rows[-1][0] if rows else None), to_embed(tx, kind, rows)


def _put(tx: Tx, maker: VectorMaker, kind: derived.ItemKind, found: list[derived.VectorRow]) -> None:
    """Write the vectors of those items that still lack one and whose text is unchanged."""
    if meta.next_embedder(tx) != maker.embedder.model_id:
        return  # another process has switched, or has begun with a third embedder
    rows = meta.lacking_next(tx, kind, found[0][0] - 1, 2 * BLOCK)
    now = {(item, digest(text)) for item, text in to_embed(tx, kind, rows)}
    meta.put_next(tx, kind, [row for row in found if row[:2] in now])


def _switch(tx: Tx, maker: VectorMaker) -> bool:
    """Switch to the new vectors, unless too many are lacking; return whether the memory has them."""
    model = maker.embedder.model_id
    if meta.next_embedder(tx) != model:
        if meta.get(tx, "embedder") == model:
            return True  # another process was quicker
        raise StoreLockedError(
            f"another process is giving {maker.db.path.name!r} another embedder than {model!r}; wait until it has finished"
        )
    lacking = meta.count_lacking_next(tx)
    if lacking > LEFT and lacking - len(damaged_turns(tx)) > LEFT:
        return False
    meta.switch_embedder(tx)
    meta.forget(tx)  # a vector that changes in place is not noted
    meta.bump(tx)
    return True


async def reextract(writer: SessionWriter, report: Report) -> int:
    """Read the stale sessions again, and return how many were written.

    Args:
        writer: of the memory, with the configured chunk size.
        report: told how many sessions are done.

    Raises:
        BudgetError: if the budget is used up; what was written stays.
        StepError: if chunks of some sessions could not be read; all others are written.
        ModelError: if a model cannot be used at all.
        StoreError: if the memory cannot be written.
    """
    groups = await writer.db.reading(_stale, writer)
    total = sum(map(len, groups))
    progress, done, over_budget = Progress("sessions", total, report), 0, False
    left: dict[str, str] = {}
    for group in groups:
        for made, old in await _read(writer, group):
            if any(outcome.left for _, outcome in made.outcomes):
                over_budget = True
            elif (why := await writer.db.writing(_replace, writer, made, old)) is not None:
                left[made.stored.session_id] = why
            else:
                done += 1
            progress.add()
        if over_budget:
            raise BudgetError(
                f"the budget is used up: {done} of {total} sessions were read again, the others are as before; the "
                "same call goes on"
            )
    if left:
        name, why = next(iter(left.items()))
        raise StepError(
            f"{len(left)} of {total} sessions were left as they were, the first {cut(repr(name), 60)}: {why}; the "
            "same call tries them again"
        )
    return done


def _stale(tx: Tx, writer: SessionWriter) -> list[list[int]]:
    """Return the stale sessions in groups that are read together: several for a model, else each by itself."""
    rows = meta.stale_sessions(tx, writer.steps.extractor.name, writer.config.chunk_turns)
    found = [sessions.session_with_row(tx, row) for row in rows]
    turns, names = [one.turns for one in found], [one.session_id for one in found]
    groups = groups_of(turns, names, together=writer.steps.extracts_apart)
    return [[rows[at] for at in group] for group in groups]


async def _read(writer: SessionWriter, rows: Sequence[int]) -> list[tuple[ExtractedSession, list[ChunkRow]]]:
    """Extract the stale chunks of sessions; return each with the chunks that it replaces, as they were read."""
    found = await writer.db.reading(_load, writer, rows)
    made = await writer.extract((one for one, _ in found), Timer())
    return [(one, old) for one, (_, old) in zip(made, found, strict=True)]


def _load(tx: Tx, writer: SessionWriter, rows: Sequence[int]) -> list[tuple[StoredSession, list[ChunkRow]]]:
    """Return sessions with the chunks that they are to have in the place of others, and those; gone ones are left out."""
    found = []
    for row in rows:
        try:
            session = sessions.session_with_row(tx, row)
        except KeyError:
            continue
        ordinals = sorted(sessions.rows_at(tx, row))
        old, new = _recut(writer, session.infer, sessions.chunks(tx, row), ordinals)
        stored = StoredSession(row, session.session_id, infer=session.infer)
        found.append((load(tx, writer.config, stored, new), old))
    return found


def _recut(
    writer: SessionWriter, infer: bool, chunks: Sequence[ChunkRow], ordinals: Sequence[int]
) -> tuple[list[ChunkRow], list[ChunkRow]]:
    """Return the chunks that are to go, and those that are to come, which have no row yet."""
    turns, extractor = writer.config.chunk_turns, writer.steps.extractor.name
    parts = groupby(ordinals, key=lambda ordinal: ordinal // turns)
    spans = {(at, there[0], there[-1]) for at, part in parts for there in [list(part)]}
    kept = {
        (chunk.ordinal, chunk.first, chunk.last)
        for chunk in chunks
        if (chunk.status != "extracted" or not infer or chunk.maker == extractor)
    } & spans
    old = [chunk for chunk in chunks if (chunk.ordinal, chunk.first, chunk.last) not in kept]
    session = chunks[0].session
    new = [
        ChunkRow(-1 - at, session, at, first, last, "pending", None, None, ())
        for at, first, last in sorted(spans - kept)
    ]
    return old, new


def _replace(tx: Tx, writer: SessionWriter, made: ExtractedSession, old: Sequence[ChunkRow]) -> str | None:
    """Write what was extracted in the place of what was there; return why not if the session was left as it is."""
    failures = [outcome.failure for _, outcome in made.outcomes if outcome.failure is not None]
    if failures or made.stored.damaged:
        return failures[0] or "" if failures else "turns of it are damaged; `verify` names them"
    if made.model is not None:
        check_own(tx, writer.db.path, made.model)
    now = {chunk.row: chunk for chunk in sessions.chunks(tx, made.stored.row)}
    turns = {at: row for at, (row, _) in made.stored.turns.items()}
    span = min(turns, default=0), max(turns, default=-1)
    same = turns == sessions.rows_at(tx, made.stored.row, *span)
    same = same and all(now.get(chunk.row) == chunk for chunk in old)
    if not now or not same:
        return "another writer has changed it meanwhile"
    _write(tx, writer, made, old)
    return None


def _write(tx: Tx, writer: SessionWriter, made: ExtractedSession, old: Sequence[ChunkRow]) -> None:
    """Retract the old chunks, add the new ones and commit their statements.

    Raises:
        SessionConflictError: never, as the turns were compared in this transaction.
    """
    known = meta.facts_stored(tx, [chunk.row for chunk in old])
    for chunk in old:
        retract_chunk(tx, chunk.row)
    if made.outcomes:
        wanted = [(chunk.ordinal, chunk.first, chunk.last) for chunk, _ in made.outcomes]
        sessions.add_chunks(tx, made.stored.row, wanted)
        rows = {chunk.ordinal: chunk for chunk in sessions.chunks(tx, made.stored.row)}
        outcomes = [(rows[chunk.ordinal], outcome) for chunk, outcome in made.outcomes]
        commit(tx, replace(made, outcomes=outcomes), to_ms(writer.config.clock()), CommittedSession())
    meta.keep_stored(tx, known)
    meta.bump(tx)


async def add_index(writer: SessionWriter, name: str, settings: Any) -> IndexView:
    """Add an index, and return what its trees are; summaries are made when they are read.

    Raises:
        ConfigError: if there is no such index, the memory has it already, or a setting cannot be.
        NotFoundError: if another process has dropped it meanwhile.
    """

    def add(tx: Tx) -> None:
        keep_writers_embedder(tx, writer)
        writer.attached.add(tx, name, settings)
        meta.bump(tx)

    await writer.db.writing(add)
    found = [view for view in await writer.db.reading(_views, writer) if view.name == name]
    if not found:
        raise NotFoundError(f"the index {name!r} was dropped by another process while it was added")
    return found[0]


def drop_index(writer: SessionWriter, name: str) -> None:
    """Remove an index, with its summaries.

    Raises:
        NotFoundError: if the memory does not have it.
        ConfigError: if it is the last one.
    """
    with writer.db.write() as tx:
        writer.attached.drop(tx, name)
        meta.bump(tx)
    if writer.sweep():
        purge(writer.db)  # the log still holds what was overwritten in the file


async def advance(writer: SessionWriter, as_of: datetime | None, *, force: bool = False) -> list[IndexView]:
    """Make what is due by an instant, or with `force` all that is not made, and return a view of every index.

    Raises:
        ModelError: if a model cannot be used at all.
    """
    writer.summaries.try_again()
    now_ms = to_ms(LATEST if force else as_of or writer.config.clock())
    await _make_summaries(writer, Timer(), now_ms)
    return await writer.db.reading(_views, writer)


async def _make_summaries(writer: SessionWriter, timer: Timer, now_ms: int | None = None) -> None:
    for why in (*await writer.ready(), *(await writer.refresh(timer, now_ms)).failures):
        current_ledger().warn(why)


def _views(tx: Tx, writer: SessionWriter) -> list[IndexView]:
    return index_views(tx, writer.cache.get(tx), writer.attached)


def keep_writers_embedder(tx: Tx, writer: SessionWriter) -> None:
    """Note the writer's embedder at the first write of a memory.

    Raises:
        EmbedderMismatchError: if another process has written with another one since the opening.
    """
    keep_embedder(tx, writer.db.path, None if writer.vectors is None else writer.vectors.embedder)


def index_rows(tx: Tx, only: Collection[tuple[str, int]] | None = None) -> int:
    """Write word rows, of all turns and facts when `only` is None, and return how many; damaged turns get none."""
    damaged = damaged_turns(tx)
    made = 0
    for kind in derived.ITEM_KINDS:
        rows = [
            (row, " ".join(index_tokens(speaker, text, from_ms(said_ms))))
            for row, speaker, text, said_ms in checks.indexed_texts(tx, kind)
            if (only is None or (kind, row) in only) and not (kind == "turn" and row in damaged)
        ]
        derived.put_words(tx, kind, rows)
        made += len(rows)
    return made


SAID = ("session", "turn", "chunk", "fact", "occurrence")
"""Tables whose rows a repair must leave as many as they were."""

FREE_SHARE = 0.1
"""Share of unused pages from which the file is written anew."""

VACUUM_BYTES = 1 << 30
"""Largest file to write anew: SQLite keeps the copy in memory, as temporary files would hold transcripts."""


def repair_parts(db: Database, found: VerifyReport) -> list[str]:
    """Rebuild the broken parts in one transaction, and return what was done, in words.

    Raises:
        CorruptStoreError: if that would have changed what was said; nothing was changed then.
        StoreError: if the file cannot be written.
    """
    parts = {problem.part for problem in found.problems}
    wanted = [make for broken, make in _REPAIRS if broken & parts]
    if not wanted or parts & {"file", "session"}:
        return []
    with db.write() as tx:
        before = _said(tx)
        did = [make(tx) for make in wanted]
        if _said(tx) != before:
            raise CorruptStoreError(f"{db.path.name!r} cannot be repaired; restore it from a backup")
        meta.bump(tx)
    return did


def reclaim_space(db: Database) -> list[str]:
    """Merge the lexical index, give free space back, fold the log in; return what was done, in words."""
    did = []
    try:
        with db.write() as tx:
            derived.purge_words(tx)
        did.append("merged the lexical index")
        with db.read() as tx:
            share, size = meta.free_share(tx)
        if share > FREE_SHARE and size <= VACUUM_BYTES:
            vacuum(db)
            did.append(f"gave back {share:.0%} of the file")
        elif share > FREE_SHARE:
            did.append(
                f"left {share:.0%} of the file unused: writing {size:,} bytes anew takes as much memory"
            )
        purge(db)
        did.append("folded the write-ahead log into the file")
    except (StoreLockedError, StoreWriteError) as exc:
        did.append(f"did not tidy up: {exc}")
    return did


def _said(tx: Tx) -> dict[str, int]:
    found = meta.count_rows(tx)
    return {table: found[table] for table in SAID}


def _words(tx: Tx) -> str:
    """Rebuild the lexical index from its rows, and the rows that do not match their turn or fact."""
    derived.reindex_words(tx)
    wrong = wrong_words(tx)
    for kind, item, _ in wrong:
        derived.clear_words(tx, kind, (item,))
    index_rows(tx, {(kind, item) for kind, item, _ in wrong})
    return f"made the lexical index anew, and the words of {len(wrong)} turns and facts"


def _vectors(tx: Tx) -> str:
    wrong = {(kind, item) for kind, item, _ in wrong_vectors(tx)}
    for kind, item in wrong:
        derived.drop_vectors(tx, kind, (item,))
    if meta.next_problems(tx):
        meta.drop_next(tx)
    return f"dropped {len(wrong) + artifacts.drop_damaged(tx)} wrong vectors and summaries, to be made anew"


_REPAIRS: tuple[tuple[frozenset[str], Callable[[Tx], str]], ...] = (
    (frozenset({"words"}), _words),
    (frozenset({"vector", "summary"}), _vectors),
)


def rebuild_words(tx: Tx) -> int:
    """Rebuild the lexical index and the word rows of all turns and facts, and return how many rows."""
    derived.reindex_words(tx)
    return index_rows(tx)


@dataclass(frozen=True, slots=True)
class Rebuild:
    """What is to be made anew; see `memforest.memory.user.AsyncUserMemory.rebuild`."""

    stale: bool = False
    index: str | None = None
    embedder: bool = False
    report: Report = no_report


async def rebuild(writer: SessionWriter, timer: Timer, what: Rebuild) -> None:
    """Make anew what is derived; with `embedder` the writer's is another one than the memory's, or the same.

    Raises:
        NotFoundError: if the memory does not have the index.
        ModelError: if sessions could not be read again; everything else is made anew.
    """
    if what.embedder:
        await _give_embedder(writer, what.report)
        return
    left: ModelError | None = None
    if what.stale:
        with timer.timed("extract"):
            try:
                await reextract(writer, what.report)
            except ModelError as exc:
                left = exc
    await writer.db.writing(_forget, writer, what)
    writer.cache.drop()
    await writer.fill_vectors()
    await to_thread(writer.sweep)
    await _make_summaries(writer, timer)
    if left is not None:
        raise left


async def _give_embedder(writer: SessionWriter, report: Report) -> None:
    """Give the memory the writer's embedder, and finish what a killed run has left.

    Raises:
        InputError: if the writer has none.
    """
    if writer.vectors is None:
        raise InputError(
            "rebuild(embedder=True) needs a configured embedder, and there is none: give "
            "Config(embedder=...), or install one (`memforest doctor` says how)"
        )
    await reembed(writer.db, writer.vectors, report)
    await writer.fill_vectors()


def _forget(tx: Tx, writer: SessionWriter, what: Rebuild) -> None:
    """Take over configured settings, make the word rows anew, or drop what others have made, as is asked."""
    keep_writers_embedder(tx, writer)
    if what.index is not None:
        writer.attached.get(meta.index_rows(tx), what.index, listed=True)
        adopt_settings(tx, writer.config, writer.attached, what.index)
    elif what.stale:
        for name in outdated(tx, writer.config, writer.attached):
            adopt_settings(tx, writer.config, writer.attached, name)
        artifacts.drop_of_others(tx, makers_of(writer.steps.summariser, writer.steps.summary_length))
    else:
        rebuild_words(tx)
        artifacts.drop_damaged(tx)
    meta.bump(tx)
