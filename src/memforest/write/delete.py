"""Deleting something from one memory: a turn, a session, a fact, an entity, or a span of time.

`aim` turns the target into the turns, the sentences of turns, and the occurrences that go (`memforest.write.erase`
deletes them). The transaction is followed by the vectors of what is worded otherwise now, the summaries that told of it, and the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from memforest.concurrency import to_thread
from memforest.errors import (
    ConfigError,
    CorruptStoreError,
    ForeignStoreError,
    ModelError,
    NotFoundError,
    StoreKeyError,
    StoreWriteError,
)
from memforest.protection import Key
from memforest.read.quoting import gone_digests
from memforest.read.receipts import LAYERS, DeleteReceipt
from memforest.reading.canonical import speaker_key
from memforest.reading.tokens import SentenceSpan
from memforest.search.snapshot import as_one, joined_entities, load_snapshot, members_of
from memforest.search.vectors import question_tokens
from memforest.store import artifacts, derived, erase, facts, files, meta, sessions
from memforest.store.connections import Tx, mapped_errors, undone
from memforest.store.corrections import NOW
from memforest.store.database import Database
from memforest.store.erase import note_deleted, owner_of, table_counts
from memforest.store.facts import OccurrenceRow
from memforest.store.files import count_files, remove_files
from memforest.store.reads import keys_of
from memforest.store.sessions import turns_with_ids
from memforest.store.upkeep import purge, remove
from memforest.text import cut
from memforest.times import DAY_MS, EARLIEST, to_ms
from memforest.write.batch import SessionWriter
from memforest.write.erase import Cuts, erase_turns
from memforest.write.erase_corrections import DeletedKeys, content_words, names, quoted, sharing, without


@dataclass(frozen=True, slots=True)
class DeleteTarget:
    """The target of a deletion; exactly one field is given. A turn is (session id, turn id); `during` is [start, end)."""

    turn: tuple[str, str] | None = None
    session_id: str | None = None
    fact_id: str | None = None
    entity: str | None = None
    during: tuple[datetime | None, datetime] | None = None

    @property
    def kind(self) -> str:
        """What it is, for the receipt."""
        kinds = ("turn", "session", "fact", "entity", "window")
        given = (self.turn, self.session_id, self.fact_id, self.entity, self.during)
        return next(kind for kind, one in zip(kinds, given, strict=True) if one is not None)


@dataclass(slots=True)
class _Aim:
    """What a deletion takes: whole turns, sentences of others, occurrences in any case, and texts elsewhere."""

    whole: set[int] = field(default_factory=set)
    pieces: dict[int, set[SentenceSpan]] = field(default_factory=dict)
    forced: set[int] = field(default_factory=set)
    texts: DeletedKeys = field(default_factory=DeletedKeys)

    def add(self, turn: int, pieces: Iterable[SentenceSpan]) -> None:
        """Let sentences of a turn go."""
        self.pieces.setdefault(turn, set()).update(pieces)


def aim(tx: Tx, target: DeleteTarget) -> tuple[Cuts, set[int], DeletedKeys]:
    """Return the text to leave of each turn, the occurrences that go in any case, and the texts that go from corrections.

    Raises:
        NotFoundError: if there is no such session, turn, fact or entity.
    """
    found = _Aim()
    if target.turn is not None:
        found.whole.update(_turns(tx, *target.turn))
    elif target.session_id is not None:
        found.whole.update(_turns(tx, target.session_id))
    elif target.fact_id is not None:
        _fact(tx, found, target.fact_id)
    elif target.entity is not None:
        _entity(tx, found, target.entity)
    elif target.during is not None:
        start, end = target.during
        found.whole.update(erase.turns_between(tx, None if start is None else to_ms(start), to_ms(end)))
    cuts = {
        spot: None if row in found.whole else without(spot.text, found.pieces[row])
        for row, spot in turns_with_ids(tx, found.whole.union(found.pieces)).items()
    }
    return cuts, found.forced, found.texts


def _turns(tx: Tx, session_id: str, turn_id: str | None = None) -> list[int]:
    """Return the turns of a session, or the one with that id."""
    found = erase.turns_named(tx, session_id, turn_id)
    if found:
        return found
    called = f"session {cut(repr(session_id), 60)}"
    if turn_id is None or not erase.turns_named(tx, session_id):
        raise NotFoundError(f"there is no {called}; sessions() lists them")
    raise NotFoundError(f"{called} has no turn {cut(repr(turn_id), 60)}; it may be deleted already")


def _fact(tx: Tx, found: _Aim, fact_id: str) -> None:
    """Let a fact go, with the sentences that it was made from."""
    fact = facts.fact_by_id(tx, fact_id)
    if fact is None:
        raise NotFoundError(
            f"there is no fact {cut(repr(fact_id), 60)}; it may be deleted already, or have another id since its wording changed"
        )
    found.texts = DeletedKeys.of(tx, fact.fact_id)
    _made_from(tx, found, facts.occurrences(tx, (fact.row,))[fact.row])


def _made_from(tx: Tx, found: _Aim, occurrences: Sequence[OccurrenceRow]) -> None:
    """Let occurrences go, with the sentences of each turn that they were made from.

    Those are what they quote; of a turn that is not quoted, the sentences that share words with the statement; of one that
    shares none, all.
    """
    texts = turns_with_ids(tx, {turn for one in occurrences for turn in one.turns})
    for one in occurrences:
        found.forced.add(one.row)
        for turn in one.turns:
            text = texts[turn].text
            pieces = quoted(text, one.quote) or sharing(text, content_words(one.text))
            if pieces:
                found.add(turn, pieces)
            else:
                found.whole.add(turn)


def _entity(tx: Tx, found: _Aim, name: str) -> None:
    """Let an entity go: the turns that it spoke, the facts that name it, and every sentence that does."""
    key = speaker_key(name)
    entity = None if key is None else facts.entity_by_key(tx, key)
    joined = joined_entities(tx)
    rows = [] if entity is None else members_of(joined, joined.get(entity.row, entity.row))
    own = {key, *(one.key for one in facts.entities(tx, rows).values())}
    spoken = [one for one in sessions.speakers(tx) if speaker_key(one) in own]
    keys = {key} if entity is None else keys_of(tx, rows)
    if entity is not None:
        named = erase.occurrences_naming(tx, rows)
        for fact, found_at in facts.occurrences(tx, named).items():
            _made_from(tx, found, [one for one in found_at if one.row in named[fact]])
    named_by = frozenset(one for one in keys if one is not None)
    found.texts = DeletedKeys.of(tx, keys=named_by)
    for turn, text in _turns_naming(tx, named_by):
        if pieces := names(text, named_by):
            found.add(turn, pieces)
    for turn, metadata in erase.told_beside(tx):
        if found.texts.has(metadata):
            found.add(turn, ())
    for speaker in spoken:
        found.whole.update(erase.turns_by(tx, speaker))
    if entity is None and not found.pieces and not found.whole and not found.texts.corrections:
        raise NotFoundError(f"nothing is known of {cut(repr(name), 60)}; no turn has that name")


def _turns_naming(tx: Tx, keys: Collection[str]) -> Iterable[tuple[int, str]]:
    """Return the turns that hold the words of one of some keys, with their texts."""
    rows: set[int] = set()
    for key in keys:
        tokens = question_tokens(key)
        having = [
            {item for item, _ in derived.postings(tx, "turn", token)} for token in dict.fromkeys(tokens)
        ]
        rows |= set[int].intersection(*having) if having else set(erase.turns_between(tx, None, NOW))
    return [(spot.row, spot.text) for spot in turns_with_ids(tx, rows).values()]


def delete_target(
    writer: SessionWriter, target: DeleteTarget, now_ms: int, *, dry_run: bool
) -> tuple[DeleteReceipt, bool]:
    """Delete in one transaction; return the receipt, and whether vectors are missing now.

    Summaries that tell of it are swept by the caller, and the log still holds what was deleted (see
    `memforest.store.upkeep.purge`). In a dry run all of it is counted, and undone before the transaction ends.

    Raises:
        NotFoundError: if there is nothing of that kind and name.
        StoreError: if the file cannot be written.
    """
    with writer.db.unfolded(), writer.db.write() as tx, undone(tx) if dry_run else nullcontext():
        cuts, forced, texts = aim(tx, target)
        if not cuts and not texts.corrections:
            return DeleteReceipt(target.kind, dict.fromkeys(LAYERS, 0), dry_run=dry_run), False
        erased = erase_turns(tx, cuts, now_ms, forced, texts)
        note_deleted(tx, {one for spot, text in cuts.items() for one in gone_digests(spot, text)})
        gone = {layer: erased.gone[layer] for layer in LAYERS}
        gone["word_rows"] = len(cuts) + gone["facts"]  # a turn that loses a sentence has another row now
        changed = {name: count for name, count in sorted(erased.changed.items()) if count}
        receipt = DeleteReceipt(target.kind, gone, changed, dry_run=dry_run)
        if dry_run and receipt and artifacts.any_stored(tx):
            known = artifacts.known(tx)
            gone["summaries"] = len(known) - len(writer.asked_for(tx, as_one(load_snapshot(tx)), known))
    return receipt, erased.reworded


def remove_memory(
    path: Path, user_id: str, *, busy_timeout_s: float, key: Key | None = None, dry_run: bool = False
) -> DeleteReceipt:
    """Delete the files of a user's memory, whatever state it is in and whatever its key; or count what is in them.

    Raises:
        ForeignStoreError: if it is another program's file, or another user's.
        StoreError: if a file cannot be deleted.
    """
    gone, warnings = dict.fromkeys(LAYERS, 0), []
    try:
        encrypted = key is not None and files.read(path) is not None
        db = Database(path, busy_timeout_s=busy_timeout_s, key=key if encrypted else None)
    except (CorruptStoreError, StoreKeyError, StoreWriteError) as exc:
        # Nobody can write to it, be it for want of room.
        with mapped_errors(path):
            gone["files"] = count_files(path) if dry_run else remove_files(path)
        return DeleteReceipt("user", gone, dry_run=dry_run, warnings=(f"nothing could be counted: {exc}",))
    with closing(db):
        try:
            gone |= _counted(db, user_id)
        except (CorruptStoreError, StoreWriteError) as exc:
            warnings.append(f"not all could be counted: {exc}")
        gone["files"] = count_files(path) if dry_run else remove(db)
    return DeleteReceipt("user", gone, dry_run=dry_run, warnings=tuple(warnings))


def _counted(db: Database, user_id: str) -> Mapping[str, int]:
    """Return how many rows of each layer a memory has.

    Raises:
        ForeignStoreError: if it is another user's.
        CorruptStoreError: if it cannot be read.
    """
    with db.read() as tx:
        if owner_of(tx) not in (None, user_id):
            raise ForeignStoreError(
                f"{db.path.name!r} belongs to another user id; it was renamed or copied here"
            )
        found = table_counts(tx)
    found["word_rows"] = found["turns"] + found["facts"]
    return found


LAST_EXPIRY = "expired_ms"
"""The setting of a memory that says when turns that are kept no longer were looked for last."""


async def expire(writer: SessionWriter, *, dry_run: bool = False) -> DeleteReceipt:
    """Delete the turns that were said longer ago than `Config.retention`, by the clock.

    Raises:
        ConfigError: if nothing is set there.
        StoreError: if the file cannot be written.
    """
    kept = writer.config.retention
    if not isinstance(kept, timedelta):
        raise ConfigError("nothing expires: Config.retention is not set; give a duration such as '365 days'")
    now = writer.config.clock()
    try:
        end = max(now - kept, EARLIEST)
    except OverflowError:
        end = EARLIEST
    receipt = await delete(writer, DeleteTarget(during=(None, end)), dry_run=dry_run)
    if not dry_run:
        await writer.db.writing(meta.put, LAST_EXPIRY, str(to_ms(now)))
    return replace(receipt, target="expired")


async def expire_if_due(writer: SessionWriter) -> str | None:
    """Delete the expired turns, unless that was done within the last day; return a note if any were deleted."""
    last, now_ms = await writer.db.reading(meta.get, LAST_EXPIRY), to_ms(writer.config.clock())
    # A clock that was set back must not put it off for long.
    if last is not None and last.isdecimal() and 0 <= now_ms - int(last) < DAY_MS:
        return None
    receipt = await expire(writer)
    return (
        f"retention: {receipt.gone['turns']} turn(s) were deleted, as they were said too long ago"
        if receipt
        else None
    )


async def delete(writer: SessionWriter, target: DeleteTarget, *, dry_run: bool) -> DeleteReceipt:
    """Delete something from a memory, or count what would go.

    Raises:
        NotFoundError: if there is nothing of that kind and name.
        StoreError: if the file cannot be written.
    """
    now_ms = to_ms(writer.config.clock())
    receipt, reworded = await to_thread(delete_target, writer, target, now_ms, dry_run=dry_run)
    problems: list[str] = []
    if dry_run or not receipt:
        return receipt
    if reworded:
        try:
            await writer.fill_vectors()
        except ModelError as exc:
            problems.append(f"vectors are left: {exc}; resume() makes them")
    receipt.gone["summaries"] = await to_thread(writer.sweep)  # type: ignore[index]  # it was made here
    secure, pending = await to_thread(purge, writer.db)
    return replace(
        receipt,
        secure_delete=secure,
        wal_pending=pending,
        vacuumed=not secure,
        warnings=(*receipt.warnings, *problems),
    )
