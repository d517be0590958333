"""Copying some sessions of another memory, whole, in one write transaction: turns, chunks, statements and what hangs on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memforest.errors import CorruptStoreError
from memforest.facts.canonical import Same, fact_identity, tie_end
from memforest.facts.entities import speaker_key
from memforest.interval import from_ms
from memforest.memory.ingest.corrections import Settled, settle_cells, settle_corrections
from memforest.memory.ingest.restate import drop_chosen, ensure_wordings, fact_signature, restate_fact
from memforest.memory.ingest.retract import retract_cell, retract_session
from memforest.memory.merge.match import Match, Reading, match, read_facts
from memforest.memory.merge.names import Names
from memforest.memory.merge.sessions import Becomes
from memforest.memory.merge.told import Telling, copy_told
from memforest.search.texts import index_tokens
from memforest.store import copying, derived, feed, meta
from memforest.store import facts as fact_rows
from memforest.store import wordings as word_digests
from memforest.store.aliases import resolve_aliases
from memforest.store.dates import read_dates, write_dates
from memforest.store.digests import AGAIN, damaged_turns
from memforest.store.fact_writes import StoredOccurrence, add_facts, add_occurrences
from memforest.store.facts import FactRow
from memforest.store.turns import insert_turns, turns_of_session
from memforest.store.tx import Tx
from memforest.systems.attached import Placings

__all__ = ["Merging", "copy_sessions"]


@dataclass(slots=True)
class Merging:
    """One merge: how it is done, and over its transactions what it has copied, row id there -> row id here."""

    names: Names
    stored_ms: int
    vectors: bool
    """Whether vectors can be taken: both memories have the same embedder."""
    threshold: float | None
    origins: Mapping[int | None, int | None]
    """Row ids of origins there -> here; those of the other memory's own turns are under None."""
    corrections: Mapping[int, int] = field(default_factory=dict)
    session_ids: dict[str, str] = field(default_factory=dict)
    """Ids of sessions there -> here, of those that are called otherwise here."""
    same: Mapping[str, Same] = field(default_factory=dict)
    sessions: dict[int, int] = field(default_factory=dict)
    """New ones, without those that have grown."""
    turns: dict[int, int] = field(default_factory=dict)
    cells: dict[int, int] = field(default_factory=dict)
    facts: dict[int, int] = field(default_factory=dict)
    new_facts: set[int] = field(default_factory=set)
    """Rows there of the facts that were made here."""
    entities: dict[int, int] = field(default_factory=dict)
    new_entities: set[int] = field(default_factory=set)
    """Rows there of the entities that were made here."""
    reworded: bool = False
    """Whether there is a fact or a turn without a vector now."""
    warnings: dict[str, None] = field(default_factory=dict)
    """What the caller should know of corrections; each once."""

    def settle(self, settled: Settled) -> None:
        """Note the outcome of applying corrections."""
        self.reworded |= settled.unembedded
        self.warnings |= dict.fromkeys(settled.warnings)

    def tie(self, tie: str) -> str:
        """Return the place of a statement, which begins with the id of its session, as it is here."""
        session_id, sign, rest = tie.partition("\x1f")
        return f"{self.session_ids.get(session_id, session_id)}{sign}{rest}" if self.session_ids else tie

    def placed(self, fact: FactRow) -> FactRow:
        """Return a fact that is new here as it is stored here."""
        return replace(fact, tie=self.tie(fact.tie), stored_ms=self.stored_ms)


def copy_sessions(
    tx: Tx, source: Tx, placings: Placings, merging: Merging, wanted: Sequence[Becomes]
) -> None:
    """Copy sessions that are new here or have grown; each is here whole when the transaction ends.

    Args:
        tx: the write transaction.
        source: a read transaction of the other memory.
        placings: the indexes, which are told what changes.
        merging: the merge; what is copied is added.
        wanted: the sessions.

    Raises:
        CorruptStoreError: if something of them is damaged there.
    """
    ensure_wordings(tx)
    noted = feed.position(tx)
    cells: list[int] = []
    for one in wanted:
        cells += _copy_session(tx, source, placings, merging, one)
    _copy_statements(tx, source, placings, merging, cells)
    drop_chosen(tx, placings)
    placings.close()
    feed.drop_repeated(tx, noted)
    meta.bump(tx)


# -- what was said ------------------------------------------------------------------------------------


def _copy_session(tx: Tx, source: Tx, placings: Placings, merging: Merging, one: Becomes) -> list[int]:
    """Copy a session's turns and chunks; return the rows there of the chunks that were copied."""
    there = one.there.row
    if damaged := next(iter(damaged_turns(source, session=there).values()), None):
        raise CorruptStoreError(f"{damaged.name} of the memory that is merged is damaged; {AGAIN} there")
    if one.over is not None:
        merging.reworded |= retract_session(tx, placings, one.over)
    if one.session_id != one.there.session_id:
        merging.session_ids[one.there.session_id] = one.session_id
    if one.row is None:
        row = copying.insert_session(tx, source, there, one.session_id, merging.stored_ms)
        merging.sessions[there] = row
    else:
        row = one.row
    _copy_turns(tx, source, merging, one, row)
    cells, kept = copying.cells(source, there), 0
    if one.row is not None:
        kept = _keep_cells(tx, placings, merging, cells, one.row)
    for cell, new in zip(cells[kept:], copying.insert_cells(tx, row, cells[kept:]), strict=True):
        merging.cells[cell[0]] = new
    if one.row is not None:
        copying.copy_status(tx, source, there, row)
    book = _Entities(tx, source, merging)
    for name in copying.speakers_of(source, there) if one.there.status == "ingested" else ():
        book.participant(name)
    return [cell[0] for cell in cells[kept:]]


def _keep_cells(
    tx: Tx, placings: Placings, merging: Merging, cells: Sequence[Sequence[object]], row: int
) -> int:
    """Take back the chunks here from the first on that is another one there; return how many stay."""
    own = copying.cells(tx, row)
    kept = 0
    while kept < min(len(own), len(cells)) and own[kept][1:5] == cells[kept][1:5]:
        kept += 1
    for cell in own[kept:]:
        merging.reworded |= retract_cell(tx, placings, cell[0])
    return kept


def _copy_turns(tx: Tx, source: Tx, merging: Merging, one: Becomes, row: int) -> None:
    """Copy the turns of a session that are not here, with their words and vectors."""
    there = turns_of_session(source, one.there.row, one.first)
    new = [
        turn._replace(
            session=row,
            session_id=one.session_id,
            speaker=merging.names.speaker(turn.speaker),
            stored_ms=merging.stored_ms,
            origin=merging.origins[turn.origin],
        )
        for turn in there
    ]
    rows = insert_turns(tx, new)
    same = [at for at, turn in enumerate(there) if new[at].speaker == turn.speaker]
    words = derived.words_of(source, "turn", [there[at].row for at in same])
    texts = {
        at: " ".join(index_tokens(turn.speaker, turn.text, from_ms(turn.said_ms)))
        for at, turn in enumerate(new)
        if there[at].row not in words
    }
    derived.copy_words(
        tx, "turn", [(rows[at], texts.get(at) or words.get(turn.row, "")) for at, turn in enumerate(there)]
    )
    vectors = (
        derived.stored_vectors(source, "turn", [there[at].row for at in same]) if merging.vectors else {}
    )
    merging.reworded |= len(vectors) < len(there)
    derived.copy_vectors(
        tx, "turn", [(rows[at], *vectors[turn.row]) for at, turn in enumerate(there) if turn.row in vectors]
    )
    merging.turns.update(zip((turn.row for turn in there), rows, strict=True))
    if one.first:  # statements of a chunk that is read anew may be of turns that were here
        both = zip(turns_of_session(source, one.there.row), turns_of_session(tx, row), strict=True)
        merging.turns.update((turn.row, here.row) for turn, here in both)


# -- statements ---------------------------------------------------------------------------------------


def _copy_statements(
    tx: Tx, source: Tx, placings: Placings, merging: Merging, cells: Collection[int]
) -> None:
    """Copy what chunks tell: facts that are new, and occurrences of those and of the facts that are here."""
    found = copying.occurrences(source, cells)
    reading = read_facts(source, {one.fact for one in found}, merging.names, vectors=merging.vectors)
    joined = match_new(tx, reading, merging)
    book = _Entities(tx, source, merging)
    _insert_facts(tx, source, merging, reading, joined)
    own = {one.row for one in found}
    mentions = [one for ones in reading.mentions.values() for one in ones if one.occurrence in own]
    states = [one for one in copying.states(source, reading.facts) if one.occurrence in own]
    called = copying.alias_uses(source, own)
    said = copying.said_in(source, own)
    rows = add_occurrences(
        tx,
        [_occurrence(one, merging, reading, joined) for one in found],
        [[merging.turns[turn] for turn in said.get(one.row, ())] for one in found],
    )
    copying.insert_named(
        tx,
        dict(zip((one.row for one in found), rows, strict=True)),
        [one._replace(fact=merging.facts[one.fact], entity=book.here(one.entity)) for one in mentions],
        [
            one._replace(
                fact=merging.facts[one.fact],
                entity=book.here(one.entity),
                value=merging.names.value(one.value),
                previous=None if one.previous is None else merging.names.value(one.previous),
            )
            for one in states
        ],
        [one._replace(entity=book.here(one.entity)) for one in called],
    )
    resolve_aliases(tx, {one.key for one in called})
    copy_told(
        tx,
        source,
        Telling(reading, merging.names, merging.facts, book.here),
        mentions,
        dict(zip((one.row for one in found), rows, strict=True)),
    )
    _restate(tx, source, placings, merging, reading, found)
    # What an update put somewhere there is not to stand here where the update was undone here, also if no other holds.
    settle = settle_cells if any(one.correction is not None for one in found) else settle_corrections
    merging.settle(settle(tx, placings, [merging.cells[cell] for cell in cells]))


def match_new(tx: Tx, reading: Reading, merging: Merging) -> dict[int, Match]:
    """Return what the facts of a reading join here, those that an earlier transaction copied among them."""
    known = {row: Match(row=merging.facts[row]) for row in reading.facts if row in merging.facts}
    rest = {row: fact for row, fact in reading.facts.items() if row not in known}
    return known | match(tx, replace(reading, facts=rest), merging.names, merging.threshold, merging.same)


def _insert_facts(
    tx: Tx, source: Tx, merging: Merging, reading: Reading, joined: Mapping[int, Match]
) -> None:
    """Insert the facts that are new here, with their words and vectors; note which row each fact has."""
    new = sorted(reading.facts.keys() - joined.keys())
    facts = {there: merging.placed(reading.facts[there]) for there in new}
    rows = dict(zip(new, add_facts(tx, list(facts.values())), strict=True))
    merging.new_facts |= rows.keys()
    merging.facts |= rows
    for there, one in joined.items():
        if one.row is not None:
            merging.facts[there] = one.row
    for there, one in joined.items():
        if one.there is not None:
            merging.facts[there] = merging.facts[one.there]
    renamed = {there for there in new if there in reading.called}
    words = derived.words_of(source, "fact", [there for there in new if there not in renamed])
    derived.copy_words(
        tx,
        "fact",
        [(row, words.get(there) or _fact_words(facts[there])) for there, row in rows.items()],
    )
    word_digests.put_wordings(
        tx,
        [
            (row, reading.wordings.get(there) or fact_signature(facts[there]).digest)
            for there, row in rows.items()
        ],
    )
    derived.copy_vectors(
        tx,
        "fact",
        [(row, *reading.vectors[there]) for there, row in rows.items() if there in reading.vectors],
    )
    merging.reworded |= any(there not in reading.vectors for there in new)


def _fact_words(fact: FactRow) -> str:
    return " ".join(index_tokens(fact.speaker, fact.text, from_ms(fact.said_ms)))


def _occurrence(
    one: StoredOccurrence, merging: Merging, reading: Reading, joined: Mapping[int, Match]
) -> StoredOccurrence:
    """Return an occurrence as it is here, with all that it shares with its fact there."""
    fact = reading.facts[one.fact]
    called = reading.called.get(one.fact, ())
    text = fact.text if one.text is None else merging.names.text(one.text, called)
    dates = write_dates(fact.dates) if one.dates is None else one.dates
    tie = fact.tie if one.tie is None else one.tie
    if called and one.tie is not None:
        times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
        tie = tie[: -len(tie_end(fact.fact_id))] + tie_end(
            fact_identity(text, times[0], times[1], read_dates(dates))
        )
    cosine = one.cosine
    if cosine is None and one.fact in joined:
        cosine = joined[one.fact].cosine
    return one._replace(
        fact=merging.facts[one.fact],
        cell=merging.cells[one.cell],
        speaker=merging.names.speaker(one.speaker),
        cosine=cosine,
        text=text,
        tie=merging.tie(tie),
        dates=dates,
        correction=None if one.correction is None else merging.corrections[one.correction],
        stored_ms=merging.stored_ms,
    )


def _restate(
    tx: Tx,
    source: Tx,
    placings: Placings,
    merging: Merging,
    reading: Reading,
    found: Sequence[StoredOccurrence],
) -> None:
    """Derive facts anew that were here, and those of which only a part of the occurrences came."""
    came = Counter(one.fact for one in found)
    whole = copying.occurrence_counts(source, came)
    by_here: dict[int, list[int]] = {}
    for row in came:
        # Under other ids sessions of one time may stand in another order.
        if row not in merging.new_facts or came[row] < whole[row] or merging.session_ids:
            by_here.setdefault(merging.facts[row], []).append(row)
    stored = fact_rows.facts_with_ids(tx, by_here)
    for here in sorted(by_here):
        now = restate_fact(tx, placings, stored[here])
        if now.text == stored[here].text:
            continue
        given = [
            row for row in by_here[here] if reading.facts[row].text == now.text and row in reading.vectors
        ]
        if given:
            derived.copy_vectors(tx, "fact", [(here, *reading.vectors[given[0]])])
        merging.reworded |= not given


class _Entities:
    """Finds or makes here what the other memory's facts name: by key, as within a memory."""

    def __init__(self, tx: Tx, source: Tx, merging: Merging) -> None:
        self._tx = tx
        self._source = source
        self._merging = merging

    def here(self, there: int) -> int:
        """Return the row here of an entity there."""
        if there not in self._merging.entities:
            self._put(fact_rows.entity_with_row(self._source, there))
        return self._merging.entities[there]

    def participant(self, name: str) -> None:
        """Find or make the entity of a speaker."""
        key = speaker_key(name)
        found = None if key is None else fact_rows.entity_with_key(self._source, key)
        if found is not None:
            self._put(found)

    def _put(self, there: fact_rows.EntityRow) -> None:
        key, label = self._merging.names.entity(there)
        if fact_rows.entity_with_key(self._tx, key) is None:
            self._merging.new_entities.add(there.row)
        self._merging.entities[there.row] = fact_rows.put_entity(self._tx, key, label, there.kind)  # type: ignore[arg-type]
