"""Copying what the graph of another memory is made from: relations, names as they were spelled, and people's choices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from memforest.facts.entities import speaker_key
from memforest.memory.merge.match import Reading
from memforest.memory.merge.names import Names
from memforest.store import choices, copying, meta, names
from memforest.store import facts as fact_rows
from memforest.store.copying import MentionCopy
from memforest.store.db import Database
from memforest.store.tx import Tx


class Entities:
    """Finds or makes here what the other memory's facts name: by key, as within a memory."""

    def __init__(self, tx: Tx, source: Tx, renamed: Names, rows: dict[int, int], new: set[int]) -> None:
        self._tx, self._source, self._names = tx, source, renamed
        self._rows, self._new = rows, new
        self.participants: set[str] = set()
        """Names of those who take part in the other memory, and may say nothing here."""

    def here(self, there: int) -> int:
        """Return the row here of an entity there."""
        if there not in self._rows:
            self._put(fact_rows.entity_with_row(self._source, there))
        return self._rows[there]

    def participant(self, name: str) -> None:
        """Find or make the entity of a speaker."""
        key = speaker_key(name)
        found = None if key is None else fact_rows.entity_with_key(self._source, key)
        if found is not None:
            self._put(found)

    def _put(self, there: fact_rows.EntityRow) -> None:
        key, label = self._names.entity(there)
        if there.kind == "participant":
            self.participants.add(label)
        if fact_rows.entity_with_key(self._tx, key) is None:
            self._new.add(there.row)
        self._rows[there.row] = fact_rows.put_entity(self._tx, key, label, there.kind)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Telling:
    """Facts of another memory, what they are called here, and which rows they and the entities that they name have here."""

    reading: Reading
    names: Names
    facts: Mapping[int, int]
    here: Callable[[int], int]

    def text(self, fact: int, text: str) -> str:
        """Return a label or a name that a fact has there, with the names that those in it have here."""
        return self.names.text(text, self.reading.called.get(fact, ()))


def copy_told(
    tx: Tx, source: Tx, telling: Telling, mentions: Collection[MentionCopy], own: Mapping[int, int]
) -> None:
    """Insert the relations that occurrences tell, and how these spell the names of entities.

    Args:
        tx: the write transaction.
        source: a read transaction of the other memory.
        telling: the facts.
        mentions: those of the occurrences, as they are there.
        own: occurrence there -> here.
    """
    copying.insert_relations(
        tx,
        [
            one._replace(
                fact=telling.facts[one.fact],
                occurrence=own[one.occurrence],
                source=telling.here(one.source),
                label=telling.text(one.fact, one.label),
                target=telling.here(one.target),
            )
            for one in copying.relations(source, telling.reading.facts)
            if one.occurrence in own
        ],
    )
    _copy_names(tx, source, telling, mentions, own)


def _copy_names(
    tx: Tx, source: Tx, telling: Telling, mentions: Collection[MentionCopy], own: Mapping[int, int]
) -> None:
    """Insert how occurrences spell names: what is the label there may be another spelling here, and the other way round."""
    spelled: dict[tuple[int, int], set[str]] = {}
    for one in names.of_occurrences(source, own):
        spelled.setdefault((one.occurrence, one.entity), set()).add(one.name)
    labels = copying.entities(tx, {telling.here(one.entity) for one in mentions})
    said: dict[tuple[int, int], set[str]] = {}
    for mention in mentions:
        there = spelled.get((mention.occurrence, mention.entity), set())
        if not there and mention.roles != names.SPEAKS:
            there = {telling.reading.entities[mention.entity].label}
        now = said.setdefault((own[mention.occurrence], telling.here(mention.entity)), set())
        now.update(telling.text(mention.fact, name) for name in there)  # two there may be one here
    for (occurrence, entity), now in said.items():
        names.add(tx, occurrence, entity, now, labels[entity].label)


def merge_choices(db: Database, other: Database, renamed: Names) -> None:
    """Copy the choices of another memory, behind its statements, in a transaction of their own."""
    with other.read() as source:
        if choices.history(source):
            with db.write() as tx:
                copy_choices(tx, source, renamed)
                meta.bump(tx)


def copy_choices(tx: Tx, source: Tx, renamed: Names) -> int:
    """Insert what people have decided there of entities that both are here too; return how many decisions are new.

    The newest counts, wherever it was made. Merging again finds what was copied, unless it was taken back here.
    """
    told = choices.history(source)
    there = copying.entities(source, {row for one in told for row in (one.entity, one.other)})
    here: dict[int, int] = {}
    for row, entity in there.items():
        found = fact_rows.entity_with_key(tx, renamed.entity(entity)[0])
        if found is not None:
            here[row] = found.row
    known = {one[1:] for one in choices.history(tx)}
    new = 0
    for one in told:
        if one.entity in here and one.other in here:
            first, second = sorted((here[one.entity], here[one.other]))
            if first != second and (one.verdict, first, second, one.made_ms) not in known:
                choices.put(tx, one.verdict, first, second, one.made_ms)
                new += 1
    return new
