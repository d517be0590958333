"""Reads of many rows: the columns of a snapshot, what stands behind hits, and what was written to a memory since a time.

Hidden facts (forgotten, or corrected by another) are left out of the columns, with what they support, name or assert.
They can be asked for, because an earlier moment may still have shown them.

Writes are read oldest first, each kind by its index, a bounded number of rows. Their order is total: by time, then by kind,
then by row; so whoever has read up to a place goes on behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

from memforest.records import UNIT_DAYS
from memforest.store.connections import AMONG, AMONG_IDS, Tx
from memforest.store.corrections import HOLDS, NOW
from memforest.store.sessions import damaged_turns
from memforest.times import DAY_MS


class StateSeen(NamedTuple):
    """One observation of a state: an occurrence of a fact that asserts it.

    `change` is "is", "start" or "end". `at_ms` is when it was so, or its earliest time where that is coarse ("last month"); then `latest_ms` is the latest,
    not after it was said; 0 if no time is stated. `tie` orders observations of one instant, `row` those of one `tie`.
    """

    entity: int
    attribute: str
    value: str
    previous: str | None
    change: str
    fact: int
    at_ms: int
    tie: str
    row: int = 0
    latest_ms: int = 0
    occurrence: int = 0


class RelationRow(NamedTuple):
    """A relation that an occurrence of a fact states; `at_ms` is the start of the fact's stated time, else `said_ms`."""

    id: int
    fact: int
    occurrence: int
    source: int
    label: str
    target: int
    at_ms: int
    said_ms: int


class NameUse(NamedTuple):
    """A name by which an occurrence of a fact calls an entity, where that is not its label alone."""

    fact: int
    occurrence: int
    entity: int
    name: str


class SessionSpan(NamedTuple):
    """Where a session stands in the order of turns."""

    first_ms: int
    session_id: str
    id: int


Only = Collection[int] | None
"""Row ids that a read is limited to; None reads all."""


def _among(tx: Tx, column: str, only: Only) -> tuple[str, tuple[object, ...]]:
    """Return the condition that a column is among some ids, with its argument."""
    return ("", ()) if only is None else (f"WHERE {column} {AMONG}", (tx.ids(only),))


_HIDDEN = "(SELECT id FROM fact WHERE verdict > 1)"
"""The facts that are hidden; an index has just these."""


def _of_facts(tx: Tx, column: str, only: Only, hidden: bool) -> tuple[str, tuple[object, ...]]:
    """Return the condition that a column's fact is among some, with its argument; hidden facts are left out unless wanted."""
    shown = "TRUE" if hidden else f"{column} NOT IN {_HIDDEN}"
    return (
        (f"WHERE {shown} ", ()) if only is None else (f"WHERE {shown} AND {column} {AMONG}", (tx.ids(only),))
    )


def session_spans(tx: Tx, only: Only = None) -> list[SessionSpan]:
    """Return the sessions that have turns, in the order of turns: by first time, then id."""
    where, args = _among(tx, "s.id", only)
    return tx.rows(
        SessionSpan,
        f"""SELECT min(u.said_ms) AS first, s.session_id, s.id FROM session s
            JOIN turn u ON u.session = s.id {where} GROUP BY s.id ORDER BY first, s.session_id""",
        args,
    )


def turn_rows(tx: Tx, only: Only = None) -> Iterator[tuple[int, int, str, int, str, str | None]]:
    """Yield (id, session, speaker, said ms, text, role) of the turns of sessions, by session and position."""
    where, args = _among(tx, "session", only)
    sql = f"SELECT id, session, speaker, said_ms, text, role FROM turn {where} ORDER BY session, ordinal"
    return iter(tx.execute(sql, args))


def first_of_chunks(tx: Tx, only: Only = None) -> list[int]:
    """Return the turns that begin a chunk, of sessions."""
    where, args = _among(tx, "c.session", only)
    return tx.column(
        f"SELECT t.id FROM chunk c JOIN turn t ON t.session = c.session AND t.ordinal = c.first {where}", args
    )


def sessions_of(tx: Tx, turns: Collection[int]) -> set[int]:
    """Return the sessions of turns that there are."""
    return set(tx.column(f"SELECT DISTINCT session FROM turn WHERE id {AMONG}", (tx.ids(turns),)))


FactColumns = tuple[int, int, int | None, int | None, int, str, int]
"""A fact: its id, the entity of whoever said it first (0 for none), start, end and when it was said (ms), fact id, and whether it is pinned."""


def fact_rows(tx: Tx, only: Only = None, *, hidden: bool = False) -> Iterator[FactColumns]:
    """Yield facts, by id."""
    where, args = _of_facts(tx, "f.id", only, hidden)
    sql = f"""SELECT f.id, coalesce((SELECT m.entity FROM mention m JOIN entity e ON e.id = m.entity
                WHERE m.fact = f.id AND e.kind = 'participant' AND e.label = f.speaker LIMIT 1), 0),
            f.start_ms, f.end_ms, f.said_ms, f.fact_id, f.verdict = 1 FROM fact f
            {where} ORDER BY f.id"""
    return iter(tx.execute(sql, args))


def wordings(tx: Tx, only: Only = None) -> dict[int, str]:
    """Return the texts of facts, by row id."""
    where, args = _among(tx, "id", only)
    return tx.pairs(f"SELECT id, text FROM fact {where}", args)


def said_often(tx: Tx, only: Only = None, without: Collection[int] = ()) -> dict[int, tuple[int, ...]]:
    """Return fact -> the times of its occurrences, in order, for facts that were said more than once.

    Occurrences with the ids `without` are left out.
    """
    often = "fact IN (SELECT fact FROM occurrence GROUP BY fact HAVING count(*) > 1)"
    among, args = (often, ()) if only is None else (f"fact {AMONG}", (tx.ids(only),))
    sql = f"SELECT fact, said_ms FROM occurrence WHERE {among} AND id NOT {AMONG} ORDER BY said_ms"
    found = tx.groups(int, sql, (*args, tx.ids(without)))
    return {fact: tuple(times) for fact, times in found.items() if len(times) > 1}


def supports(tx: Tx, only: Only = None, *, hidden: bool = False) -> list[tuple[int, int]]:
    """Return distinct (fact, turn) pairs of facts."""
    where, args = _of_facts(tx, "o.fact", only, hidden)
    return tx.execute(
        f"""SELECT DISTINCT o.fact, x.turn FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id
            {where} ORDER BY 1, 2""",
        args,
    ).fetchall()


def mentions(tx: Tx, only: Only = None, *, hidden: bool = False) -> list[tuple[int, int]]:
    """Return distinct (fact, entity) pairs of facts."""
    where, args = _of_facts(tx, "fact", only, hidden)
    return tx.execute(
        f"SELECT DISTINCT fact, entity FROM mention {where} ORDER BY 1, 2",
        args,
    ).fetchall()


def muted_turns(tx: Tx) -> list[int]:
    """Return the turns that must not be shown as they are, because they state a hidden fact.

    These are the places of corrections, which are known before the facts are extracted anew, and the turns that support
    hidden facts.
    """
    rows = tx.execute(
        f"""SELECT x.turn FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id WHERE o.fact IN {_HIDDEN}"""
    )
    return sorted({row[0] for row in rows}.union(turns_with_hidden_places(tx)))


def turns_with_hidden_places(tx: Tx, at_ms: int = NOW) -> list[int]:
    """Return the turns in which a correction that held at a moment, and hides what it is about, has a place."""
    return tx.column(
        f"""SELECT DISTINCT t.id FROM correction c JOIN correction_place p ON p.correction = c.id
            JOIN session s ON s.session_id = p.session_id JOIN turn t ON t.session = s.id AND t.turn_id = p.turn_id
            WHERE {HOLDS} AND c.kind IN ('update', 'forget') ORDER BY t.id""",
        (at_ms, at_ms),
    )


_STATES = f"""SELECT s.entity, s.attribute, s.value, s.previous, s.change, s.fact, s.at_ms,
    coalesce(o.tie, f.tie) AS tie, s.id, CASE WHEN s.at_ms = f.start_ms THEN min(o.said_ms, coalesce(f.end_ms, o.said_ms),
        s.at_ms + {DAY_MS} * CASE f.precision {" ".join(f"WHEN '{unit}' THEN {days}" for unit, days in UNIT_DAYS.items())} ELSE 0 END)
    ELSE 0 END, s.occurrence FROM state s JOIN occurrence o ON o.id = s.occurrence JOIN fact f ON f.id = s.fact"""


def states_seen(tx: Tx, only: Only = None, *, hidden: bool = False) -> list[StateSeen]:
    """Return every observation of a state by facts: dated by the fact itself, else by each time it was said."""
    where, args = _of_facts(tx, "s.fact", only, hidden)
    return tx.rows(
        StateSeen, f"{_STATES} {where} ORDER BY s.entity, s.attribute, s.at_ms, tie, s.fact, s.id", args
    )


def relations(tx: Tx, only: Only = None, *, hidden: bool = False) -> list[RelationRow]:
    """Return the relations that facts state, by id."""
    where, args = _of_facts(tx, "r.fact", only, hidden)
    return tx.rows(
        RelationRow,
        f"""SELECT r.id, r.fact, r.occurrence, r.source, r.label, r.target, coalesce(f.start_ms, o.said_ms), o.said_ms
            FROM relation r JOIN occurrence o ON o.id = r.occurrence JOIN fact f ON f.id = r.fact {where} ORDER BY r.id""",
        args,
    )


def name_uses(tx: Tx, only: Only = None, *, hidden: bool = False) -> list[NameUse]:
    """Return every name that an occurrence has a row of, by occurrence, entity and name."""
    where, args = _of_facts(tx, "o.fact", only, hidden)
    return tx.rows(
        NameUse,
        f"""SELECT o.fact, n.occurrence, n.entity, n.name FROM name_use n JOIN occurrence o ON o.id = n.occurrence
            {where} ORDER BY n.occurrence, n.entity, n.name""",
        args,
    )


def states_with_ids(tx: Tx, rows: Collection[int]) -> list[StateSeen]:
    """Return observations by row id."""
    return tx.rows(
        StateSeen, f"{_STATES} WHERE s.fact NOT IN {_HIDDEN} AND s.id {AMONG} ORDER BY s.id", (tx.ids(rows),)
    )


_OF = f"s.fact NOT IN {_HIDDEN} AND s.entity {AMONG_IDS} AND s.attribute = :attribute"


def states_of_attribute(
    tx: Tx,
    entities: Collection[int],
    attribute: str,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> list[StateSeen]:
    """Return every observation of an attribute of entities that are one, or those between two times, in time order."""
    since = "" if since_ms is None else "AND s.at_ms >= :since_ms"
    until = "" if until_ms is None else "AND s.at_ms <= :until_ms"
    return tx.rows(
        StateSeen,
        f"{_STATES} WHERE {_OF} {since} {until} ORDER BY s.at_ms, tie, s.fact, s.id",
        {"ids": tx.ids(entities), "attribute": attribute, "since_ms": since_ms, "until_ms": until_ms},
    )


def time_before(tx: Tx, entities: Collection[int], attribute: str, before_ms: int, count: int) -> int | None:
    """Return when the first was of the last `count` observations of an attribute before a time, ms; None if there are fewer."""
    found: int | None = tx.value(
        f"""SELECT max(at_ms) FROM (SELECT at_ms FROM state WHERE entity {AMONG_IDS} AND attribute = :attribute
            AND at_ms < :before_ms ORDER BY at_ms DESC LIMIT 1 OFFSET :count)""",
        {"ids": tx.ids(entities), "attribute": attribute, "before_ms": before_ms, "count": count - 1},
    )
    return found


def names(tx: Tx) -> dict[str, int]:
    """Return every key and alias with its entity's row id; an alias goes before another entity's key."""
    return tx.pairs("SELECT key, id, 0 FROM entity UNION ALL SELECT key, entity, 1 FROM alias ORDER BY 1, 3")


def keys_of(tx: Tx, entities: Collection[int]) -> set[str]:
    """Return the keys and aliases of entities."""
    return set(
        tx.column(
            f"SELECT key FROM entity WHERE id {AMONG_IDS} UNION SELECT key FROM alias WHERE entity {AMONG_IDS}",
            {"ids": tx.ids(entities)},
        )
    )


def entities_of(tx: Tx, keys: Collection[str]) -> dict[str, int]:
    """Return the entities of keys and aliases, as `names` resolves them."""
    wanted = tx.ids(keys)
    return tx.pairs(
        f"""SELECT key, id, 0 FROM entity WHERE key {AMONG}
           UNION ALL SELECT key, entity, 1 FROM alias WHERE key {AMONG}
           ORDER BY 1, 3""",
        (wanted, wanted),
    )


QUOTED_MAKERS = ("local-", "verbatim")
"""Beginnings of the names of what makes facts by rule: people are shown what was said, not the statement."""


_ENDS = """EXISTS (SELECT 1 FROM correction r
    WHERE r.kind = 'remember' AND r.fact_id = k.fact_id AND r.id > k.id)"""
"""A correction `k` only ends a statement, as another was remembered in its place."""


class FactOccurrence(NamedTuple):
    """One occurrence of a fact: what made the statement, and the turns it was made from, by row id, in their order.

    `quote` is None when it is all of the only turn. `before` is the turn before the last one, None for a session's first.
    `first` is whether the fact has its wording from here. `corrected_ms` is when the fact was put in the place of what was said
    here, but for one that was only ended, and `shown` whether it is not hidden.
    """

    maker: str
    quote: str | None
    first: bool
    turns: tuple[int, ...]
    before: int | None
    corrected_ms: int | None = None
    shown: bool = True


class TurnName(NamedTuple):
    """By what a turn is known outside of its file."""

    session_id: str
    turn_id: str


def turn_names(tx: Tx, turns: Collection[int]) -> dict[int, TurnName]:
    """Return the names of turns by row id; their texts are not read."""
    found = tx.groups(
        TurnName,
        f"SELECT t.id, s.session_id, t.turn_id FROM turn t JOIN session s ON s.id = t.session WHERE t.id {AMONG}",
        (tx.ids(turns),),
    )
    return {row: name for row, (name,) in found.items()}


def fact_sayings(
    tx: Tx, facts: Collection[int], without: Collection[int] = ()
) -> dict[int, list[FactOccurrence]]:
    """Return the occurrences of each fact, in the order they were said; no text of a turn is read.

    Those with the ids `without` are left out.
    """
    found = tx.execute(
        f"""SELECT o.fact, o.id, CASE k.kind WHEN 'remember' THEN 'remembered' ELSE coalesce(c.maker, '') END, CAST(o.quote AS BLOB), o.text IS NULL,
                CASE WHEN k.kind = 'update' AND NOT {_ENDS} THEN k.made_ms END, f.verdict < 2, t.id, p.id FROM occurrence o
            JOIN fact f ON f.id = o.fact JOIN chunk c ON c.id = o.chunk
            JOIN occurrence_turn x ON x.occurrence = o.id JOIN turn t ON t.id = x.turn
            LEFT JOIN turn p ON p.session = t.session AND p.ordinal = t.ordinal - 1
            LEFT JOIN correction k ON k.id = o.correction
            WHERE o.fact {AMONG} AND o.id NOT {AMONG}
            ORDER BY o.fact, o.said_ms, coalesce(o.tie, f.tie), o.id, t.ordinal""",
        (tx.ids(facts), tx.ids(without)),
    )
    sayings: dict[int, list[FactOccurrence]] = {fact: [] for fact in facts}
    for (fact, _), rows in groupby(found, key=itemgetter(0, 1)):
        several = list(rows)
        _, _, maker, raw, first, corrected_ms, shown, _, before = several[-1]
        quote = None if raw is None else raw.decode(errors="replace")  # it is looked for in the turn
        turns = tuple(turn for *_, turn, _ in several)
        sayings[fact].append(
            FactOccurrence(maker, quote, bool(first), turns, before, corrected_ms, bool(shown))
        )
    return sayings


def fact_sources(tx: Tx, facts: Collection[int], without: Collection[int] = ()) -> dict[int, list[TurnName]]:
    """Return the (session id, turn id) pairs that support each fact, in the order they were said.

    Occurrences with the ids `without` are left out.
    """
    found = tx.groups(
        TurnName,
        f"""SELECT o.fact, s.session_id, t.turn_id FROM occurrence o
            JOIN occurrence_turn x ON x.occurrence = o.id JOIN turn t ON t.id = x.turn
            JOIN session s ON s.id = t.session WHERE o.fact {AMONG} AND o.id NOT {AMONG}
            ORDER BY o.fact, o.said_ms, s.session_id, t.ordinal""",
        (tx.ids(facts), tx.ids(without)),
    )
    return {fact: found.get(fact, []) for fact in facts}


def told_lines(tx: Tx, said: Mapping[int, str]) -> dict[int, list[str]]:
    """Return, by row id, the lines that may be shown for turns: "speaker: text" as it was said.

    A damaged turn has a line that says so; a turn that says something hidden has the shown facts that it supports.
    """
    if not said:
        return {}
    damaged = damaged_turns(tx, said.keys())
    shown = statements_of(tx, set(muted_turns(tx)).intersection(said))
    return {
        turn: [f"[{damaged[turn].name} is damaged]"] if turn in damaged else shown.get(turn, [line])
        for turn, line in said.items()
    }


def statements_of(tx: Tx, turns: Collection[int]) -> dict[int, list[str]]:
    """Return turn -> texts of the facts that it supports and that are not hidden, in the order said; each turn has an entry."""
    told = tx.groups(
        str,
        f"""SELECT x.turn, f.text FROM occurrence_turn x JOIN occurrence o ON o.id = x.occurrence
           JOIN fact f ON f.id = o.fact AND f.verdict < 2 WHERE x.turn {AMONG}
           ORDER BY x.turn, coalesce(o.tie, f.tie), o.id""",
        (tx.ids(turns),),
    )
    return {turn: [*dict.fromkeys(told.get(turn, ()))] for turn in turns}


_FACT_TEXTS = f"""
    SELECT f.id, f.text, o.speaker, o.quote, t.id, t.text,
        CASE WHEN o.correction IS NULL THEN c.maker END FROM fact f
    LEFT JOIN occurrence o ON o.id = (SELECT p.id FROM occurrence p WHERE p.fact = f.id
        ORDER BY p.text IS NOT NULL, p.said_ms, p.id LIMIT 1)
    LEFT JOIN chunk c ON c.id = o.chunk
    LEFT JOIN turn t ON t.id = (SELECT max(x.turn) FROM occurrence_turn x WHERE x.occurrence = o.id)
    WHERE f.verdict < 2 AND f.id {AMONG}"""
"""Facts with the occurrence that the fact has its wording from; its quote, and the turn that it is of."""


def fact_texts(tx: Tx, found: Collection[int]) -> dict[int, str]:
    """Return what facts say, by row id, without hidden ones: the quote with its speaker where a rule made the statement, else the statement."""
    rows = tx.execute(_FACT_TEXTS, (tx.ids(found),)).fetchall()
    by_rule = [row for row in rows if (row[-1] or "").startswith(QUOTED_MAKERS)]
    damaged = damaged_turns(tx, [turn for _, _, _, _, turn, _, _ in by_rule if turn is not None])
    texts = {row[0]: row[1] for row in rows}
    for fact, _, speaker, quote, turn, whole, _ in by_rule:
        if turn in damaged:
            texts[fact] = f"[{damaged[turn].name} is damaged]"
        else:
            said = (quote or whole or "").splitlines()
            texts[fact] = "\n".join(f"{speaker}: {line}" for line in said if line.strip())
    return texts


class WritePosition(NamedTuple):
    """Where a write stands in the order: UTC ms, the number of its kind, and its row."""

    at_ms: int
    kind: int
    row: int


WRITTEN_KINDS = ("stored", "learnt", "merged", "corrected", "undone", "deleted")
"""What was done, in the order of one instant: turns come before what was learnt of them."""


class Written(NamedTuple):
    """One write.

    `item` is the row of a session, a fact, an occurrence or a correction; of what was deleted the kind of item is
    `what`. `items` is how many turns were stored, or items deleted; 1 otherwise.
    """

    place: WritePosition
    item: int
    what: str = ""
    items: int = 1

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return WRITTEN_KINDS[self.place.kind]


_SOURCES: Mapping[str, tuple[str, str, str]] = {
    # kind: columns, table, time
    "learnt": ("id, ''", "fact", "stored_ms"),
    "merged": ("id, ''", "occurrence", "stored_ms"),
    "corrected": ("id, kind", "correction", "coalesce(stored_ms, made_ms)"),
    "undone": ("id, kind", "correction", "undone_ms"),
}


def written_since(
    tx: Tx, since_ms: int, until_ms: int, after: WritePosition | None, most: int
) -> list[Written]:
    """Return the first writes of [since, until), or those behind a place.

    Args:
        tx: a read transaction.
        since_ms: from when on, UTC ms.
        until_ms: up to before when.
        after: the last one that was read before.
        most: how many.
    """

    def bounds(kind: str) -> tuple[int, int]:
        """Return the time and row behind which a kind goes on."""
        if after is None:
            return since_ms - 1, 2**62
        number = WRITTEN_KINDS.index(kind)
        if number == after.kind:
            return after.at_ms, after.row
        # Of the same instant, a kind that comes later is still to be read as a whole, an earlier one has been.
        return after.at_ms, -1 if number > after.kind else 2**62

    parts = [_turns(tx, bounds("stored"), until_ms, most), _deletions(tx, bounds("deleted"), until_ms, most)]
    parts += [_rows(tx, kind, bounds(kind), until_ms, most) for kind in _SOURCES]
    return list(islice(merge(*parts, key=lambda one: one.place), most))


def _rows(tx: Tx, kind: str, behind: tuple[int, int], until_ms: int, most: int) -> list[Written]:
    columns, table, time = _SOURCES[kind]
    found = tx.execute(
        f"""SELECT {time}, {columns} FROM {table} WHERE {time} >= ? AND {time} < ? AND ({time}, id) > (?, ?)
            ORDER BY {time}, id LIMIT ?""",
        (behind[0], until_ms, *behind, most),
    )
    number = WRITTEN_KINDS.index(kind)
    return [Written(WritePosition(at, number, row), row, what) for at, row, what in found]


def _turns(tx: Tx, behind: tuple[int, int], until_ms: int, most: int) -> list[Written]:
    """Return what was stored of sessions: the turns of one session that were stored together are one write."""
    found = tx.execute(
        """SELECT stored_ms, session, id FROM turn WHERE stored_ms >= ? AND stored_ms < ? AND (stored_ms, id) > (?, ?)
           ORDER BY stored_ms, id""",
        (behind[0], until_ms, *behind),
    )
    return list(islice(_grouped(found), most))


def _grouped(found: Iterable[tuple[int, int, int]]) -> Iterator[Written]:
    """Yield one write for each run of turns of one session and time; it stands at its last turn."""
    for (at_ms, session), rows in groupby(found, key=itemgetter(0, 1)):
        ids = [row for *_, row in rows]
        yield Written(WritePosition(at_ms, WRITTEN_KINDS.index("stored"), ids[-1]), session, items=len(ids))


def _deletions(tx: Tx, behind: tuple[int, int], until_ms: int, most: int) -> list[Written]:
    """Return the deletions: items of one kind that were deleted together are one write, whenever they were stored."""
    found = tx.execute(
        """SELECT deleted_ms, kind, id, count FROM tombstone
           WHERE deleted_ms >= ? AND deleted_ms < ? AND (deleted_ms, id) > (?, ?) ORDER BY deleted_ms, id""",
        (behind[0], until_ms, *behind),
    )
    number, made = WRITTEN_KINDS.index("deleted"), []
    for (at_ms, what), rows in groupby(found, key=itemgetter(0, 1)):
        several = list(rows)
        row = several[-1][2]
        made.append(Written(WritePosition(at_ms, number, row), row, what, sum(one[3] for one in several)))
        if len(made) == most:
            break
    return made


def session_ids(tx: Tx, sessions: Collection[int]) -> dict[int, str]:
    """Return the ids of sessions by row."""
    return tx.pairs(f"SELECT id, session_id FROM session WHERE id {AMONG}", (tx.ids(sessions),))


def occurrence_sources(tx: Tx, occurrences: Collection[int]) -> dict[int, tuple[int, list[TurnName]]]:
    """Return, by occurrence, its fact and (session id, turn id) of the turns that support it there, in order."""
    found = tx.groups(
        lambda fact, *turn: (fact, TurnName(*turn)),
        f"""SELECT o.id, o.fact, s.session_id, t.turn_id FROM occurrence o
            JOIN occurrence_turn x ON x.occurrence = o.id JOIN turn t ON t.id = x.turn
            JOIN session s ON s.id = t.session WHERE o.id {AMONG} ORDER BY o.id, t.ordinal""",
        (tx.ids(occurrences),),
    )
    return {row: (said[0][0], [turn for _, turn in said]) for row, said in found.items()}


def first_occurrence(tx: Tx, fact: int) -> int:
    """Return the occurrence with which a fact was stored, 0 when it is gone."""
    return int(tx.value("SELECT min(id) FROM occurrence WHERE fact = ? AND stored_ms IS NULL", (fact,)) or 0)


def corrections(tx: Tx, rows: Collection[int]) -> dict[int, tuple[str, str]]:
    """Return, by row of a correction, the id of the fact that it is about and the text that it was given, if any."""
    found = tx.execute(
        f"SELECT id, fact_id, coalesce(text, '') FROM correction WHERE id {AMONG}", (tx.ids(rows),)
    )
    return {row: (fact_id, text) for row, fact_id, text in found}
