"""Corrections and choices: what people have decided of statements and of entities; and what a memory held at a moment.

A correction has places: where its statement was said. The verdicts of facts follow from the corrections that hold. Of the
choices about two entities (that they are one, or that they are two) the newest counts; the ones before stay, so that
taking it back leaves what was so before. A choice goes with either of its entities.

What a memory did not hold yet at an earlier moment is read by index. A turn is held from when it was stored; an occurrence
from when it, its fact and all of its turns were. What was deleted since is not there to be read: `deleted_since` counts it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import astuple, dataclass
from typing import Literal, NamedTuple

from memforest.records import Precision
from memforest.store.connections import AMONG, Tx, listed
from memforest.store.facts import FactRow, facts_with_ids

CorrectionKind = Literal["update", "pin", "forget", "remember"]

VERDICTS = ("", "pinned", "forgotten", "corrected")
"""What is decided of a fact, by its code in `fact.verdict`."""
PINNED, HIDDEN = 1, 2
"""A fact of this code is evidence of every question; one of this code or more is not shown."""

NOW = 2**63 - 1
"""As a moment in UTC ms: after everything that was stored."""

HELD_FROM = "coalesce(c.stored_ms, c.made_ms)"
"""From when on this memory has a correction `c`: one that came by a merge was made earlier elsewhere."""
HOLDS = f"({HELD_FROM} <= ? AND coalesce(c.undone_ms > ?, 1))"
"""Whether a correction `c` held at a moment, which is bound twice."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction as stored; `row` is ignored when it is added.

    `fact_id` is the identity of the statement that it is about, and `said` how that was worded. `made` is the identity of the
    statement that an update put in its place, with the text, stated time and precision of that. `stored_ms` is when it was
    merged, if it was made in another memory. `state` is the JSON of what the caller says that `made` asserts: whom it is about,
    the attribute and the value, or nothing, and then rules read it.

    To remember is to put a statement at turns that are its places: `made` is that, and `fact_id` the one that it replaces, which
    another correction of the same instant ends; where it replaces none, it is `made` too.
    """

    row: int
    key: str
    kind: CorrectionKind
    fact_id: str
    made: str | None
    text: str | None
    start_ms: int | None
    end_ms: int | None
    precision: Precision
    made_ms: int
    undone_ms: int | None
    said: str
    stored_ms: int | None = None
    state: str = "[]"

    @property
    def held_ms(self) -> int:
        """Since when this memory has it, UTC ms."""
        return self.made_ms if self.stored_ms is None else self.stored_ms

    @property
    def hides(self) -> bool:
        """Whether it hides the statement that it is about."""
        return self.kind in ("update", "forget")

    @property
    def about(self) -> list[str]:
        """What the caller says that its statement asserts: of whom, and where given, which attribute and value."""
        return list(json.loads(self.state))

    @property
    def told(self) -> str:
        """All words of the statement that it made, in its text and in what the caller says that it asserts."""
        return "\n".join((self.text or "", *self.about))


class SentencePlace(NamedTuple):
    """A sentence of a turn, by its digest."""

    session_id: str
    turn_id: str
    quote: bytes


class HeldPlace(NamedTuple):
    """A place of a correction in a turn that is stored, by the rows of both."""

    correction: int
    turn: int
    quote: bytes


_NAMES = Correction.__slots__[1:]
_COLUMNS = ", ".join(("c.id", *(f"c.{name}" for name in _NAMES)))


def hidden_facts(tx: Tx) -> list[int]:
    """Return the facts that are hidden, by row id."""
    return tx.column("SELECT id FROM fact WHERE verdict > 1 ORDER BY id")


def exists(tx: Tx) -> bool:
    """Return whether any correction holds."""
    return tx.execute("SELECT 1 FROM correction WHERE undone_ms IS NULL LIMIT 1").fetchone() is not None


def all_corrections(tx: Tx) -> list[Correction]:
    """Return all corrections, in the order they were made."""
    return tx.rows(Correction, f"SELECT {_COLUMNS} FROM correction c ORDER BY c.made_ms, c.id")


def decided_facts(tx: Tx) -> list[FactRow]:
    """Return the facts that have a verdict."""
    return list(facts_with_ids(tx, tx.column("SELECT id FROM fact WHERE verdict != 0 ORDER BY id")).values())


def decided_since(tx: Tx, at_ms: int) -> bool:
    """Return whether a correction came or was taken back after a moment."""
    since = f"SELECT c.id FROM correction c WHERE {HELD_FROM} > ? UNION ALL SELECT id FROM correction WHERE undone_ms > ?"
    return tx.row(int, f"{since} LIMIT 1", (at_ms, at_ms)) is not None


def facts_looked_at(tx: Tx) -> list[FactRow]:
    """Return the facts that any correction may affect, undone ones included: by identity, and by where they were said."""
    rows = tx.column(
        """SELECT f.id FROM correction c JOIN fact f ON f.fact_id = c.fact_id
           UNION SELECT f.id FROM correction c JOIN fact f ON f.fact_id = c.made
           UNION SELECT o.fact FROM correction_place p JOIN session s ON s.session_id = p.session_id
               JOIN turn t ON t.session = s.id AND t.turn_id = p.turn_id
               JOIN occurrence_turn x ON x.turn = t.id JOIN occurrence o ON o.id = x.occurrence ORDER BY 1"""
    )
    return list(facts_with_ids(tx, rows).values())


def add_correction(tx: Tx, one: Correction) -> int:
    """Insert a correction and return its row id."""
    marks = ", ".join("?" * len(_NAMES))
    return tx.insert(
        f"INSERT INTO correction ({', '.join(_NAMES)}) VALUES ({marks}) RETURNING id", astuple(one)[1:]
    )


def undo_correction(tx: Tx, row: int, now_ms: int) -> None:
    """Note that a correction was taken back."""
    tx.execute("UPDATE correction SET undone_ms = ? WHERE id = ?", (now_ms, row))


def correction_with_key(tx: Tx, key: str) -> Correction | None:
    """Return the correction with that key, or None."""
    return tx.row(Correction, f"SELECT {_COLUMNS} FROM correction c WHERE c.key = ?", (key,))


def ended_with(tx: Tx, one: Correction) -> list[Correction]:
    """Return what ends or hides the statement that a remembered one replaces, as long as that holds."""
    found = corrections_of(tx, {one.fact_id}) if one.kind == "remember" else ()
    return [
        each for each in found if (each.fact_id, each.made_ms) == (one.fact_id, one.made_ms) and each.hides
    ]


def remembered_at(tx: Tx, session: int) -> set[int]:
    """Return the ordinals of the turns of a session at which a statement was remembered, also if that was taken back."""
    sql = """SELECT t.ordinal FROM turn t JOIN session s ON s.id = t.session
             JOIN correction_place p ON p.session_id = s.session_id AND p.turn_id = t.turn_id
             JOIN correction c ON c.id = p.correction WHERE t.session = ? AND c.kind = 'remember'"""
    return set(tx.column(sql, (session,)))


def correction_with_row(tx: Tx, row: int) -> Correction:
    """Return the correction with that row id.

    Raises:
        KeyError: if there is none.
    """
    for found in tx.rows(Correction, f"SELECT {_COLUMNS} FROM correction c WHERE c.id = ?", (row,)):
        return found
    raise KeyError(row)


def corrections_of(
    tx: Tx, fact_ids: Collection[str], *, undone: bool = False, at_ms: int = NOW
) -> list[Correction]:
    """Return the corrections that are about statements or made them, by identity, in the order they were made.

    Args:
        tx: a transaction.
        fact_ids: identities.
        undone: also those that were taken back.
        at_ms: those that held at this moment.
    """
    wanted = tx.ids(fact_ids)
    return tx.rows(
        Correction,
        f"""SELECT {_COLUMNS} FROM correction c WHERE c.id IN (
                SELECT id FROM correction WHERE fact_id {AMONG} UNION
                SELECT id FROM correction WHERE made IS NOT NULL AND made {AMONG})
            AND (? OR {HOLDS}) ORDER BY c.made_ms, c.id""",
        (wanted, wanted, undone, at_ms, at_ms),
    )


def add_places(tx: Tx, correction: int, places: Iterable[SentencePlace]) -> None:
    """Note where the statement of a correction was said."""
    tx.executemany(
        "INSERT INTO correction_place VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(correction, *place) for place in sorted(places)],
    )


def drop_places(tx: Tx, places: Iterable[HeldPlace]) -> None:
    """Delete places whose turns say something else now."""
    tx.executemany(
        """DELETE FROM correction_place WHERE correction = ? AND quote = ? AND (session_id, turn_id) =
           (SELECT s.session_id, t.turn_id FROM turn t JOIN session s ON s.id = t.session WHERE t.id = ?)""",
        [(one.correction, one.quote, one.turn) for one in places],
    )


def places_of(tx: Tx, correction: int) -> list[HeldPlace]:
    """Return the places of a correction whose turns are stored."""
    return tx.rows(
        HeldPlace,
        """SELECT p.correction, t.id, p.quote FROM correction_place p JOIN session s ON s.session_id = p.session_id
           JOIN turn t ON t.session = s.id AND t.turn_id = p.turn_id WHERE p.correction = ? ORDER BY t.id, p.quote""",
        (correction,),
    )


def named_places(tx: Tx) -> dict[int, list[SentencePlace]]:
    """Return correction -> its places, of all corrections, also in turns that are not stored."""
    sql = "SELECT correction, session_id, turn_id, quote FROM correction_place ORDER BY 1, 2, 3, 4"
    return tx.groups(SentencePlace, sql)


def corrections_at(
    tx: Tx, turns: Collection[int], at_ms: int = NOW
) -> tuple[dict[int, Correction], list[HeldPlace]]:
    """Return the corrections that held at a moment and have a place in some turns, by row, and those places."""
    rows = tx.execute(
        f"""SELECT p.correction, t.id, p.quote, {_COLUMNS} FROM turn t JOIN session s ON s.id = t.session
           JOIN correction_place p ON p.session_id = s.session_id AND p.turn_id = t.turn_id
           JOIN correction c ON c.id = p.correction AND {HOLDS}
           WHERE t.id {AMONG} ORDER BY c.made_ms, c.id, t.id, p.quote""",
        (at_ms, at_ms, tx.ids(turns)),
    ).fetchall()
    return {row[0]: Correction(*row[3:]) for row in rows}, [HeldPlace(*row[:3]) for row in rows]


def turns_of_chunks(tx: Tx, chunks: Collection[int]) -> dict[int, int]:
    """Return turn -> chunk for the turns of chunks, in their order."""
    return tx.pairs(
        f"""SELECT t.id, c.id FROM chunk c JOIN turn t ON t.session = c.session AND t.ordinal BETWEEN c.first AND c.last
           WHERE c.id {AMONG} ORDER BY t.session, t.ordinal""",
        (tx.ids(chunks),),
    )


def ordinal_of_chunk(tx: Tx, chunk: int) -> int:
    """Return the position of a chunk in its session."""
    return int(tx.value("SELECT ordinal FROM chunk WHERE id = ?", (chunk,)))


def chunks_of_turns(tx: Tx, turns: Collection[int]) -> set[int]:
    """Return the chunks that turns are in."""
    sql = f"""SELECT c.id FROM turn t JOIN chunk c ON c.session = t.session AND t.ordinal BETWEEN c.first AND c.last
              WHERE t.id {AMONG}"""
    return set(tx.column(sql, (tx.ids(turns),)))


def stored_times(tx: Tx, fact: int) -> dict[int, tuple[int, list[tuple[str, str]]]]:
    """Return, by occurrence of a fact, when the last of its turns was stored, and (session id, turn id) of all."""
    found = tx.groups(
        lambda *turn: turn,
        """SELECT o.id, t.stored_ms, s.session_id, t.turn_id FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id
           JOIN turn t ON t.id = x.turn JOIN session s ON s.id = t.session WHERE o.fact = ? ORDER BY o.id, t.ordinal""",
        (fact,),
    )
    return {
        row: (max(ms for ms, *_ in turns), [(one, of) for _, one, of in turns])
        for row, turns in found.items()
    }


def chunks_with_places(tx: Tx, facts: Collection[int], at_ms: int = NOW) -> list[int]:
    """Return the chunks from which facts were extracted and in which a correction that held at a moment has a place."""
    return tx.column(
        f"""SELECT DISTINCT o.chunk FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id
           JOIN turn t ON t.id = x.turn JOIN session s ON s.id = t.session
           JOIN correction_place p ON p.session_id = s.session_id AND p.turn_id = t.turn_id
           JOIN correction c ON c.id = p.correction AND {HOLDS}
           WHERE o.correction IS NULL AND o.fact {AMONG} ORDER BY o.chunk""",
        (at_ms, at_ms, tx.ids(facts)),
    )


def facts_said_instead(tx: Tx, correction: int) -> list[tuple[int, int]]:
    """Return (fact, chunk) of the statements that a correction put in the place of others."""
    sql = "SELECT DISTINCT fact, chunk FROM occurrence WHERE correction = ? ORDER BY fact, chunk"
    return tx.execute(sql, (correction,)).fetchall()


def speakers_of(tx: Tx, chunk: int) -> list[str]:
    """Return who speaks in the session of a chunk, in order of first appearance."""
    return tx.column(
        """SELECT t.speaker FROM turn t JOIN chunk c ON c.session = t.session WHERE c.id = ?
           GROUP BY t.speaker ORDER BY min(t.ordinal)""",
        (chunk,),
    )


def put_verdict(tx: Tx, fact: int, verdict: int) -> None:
    """Set the verdict of a fact."""
    tx.execute("UPDATE fact SET verdict = ? WHERE id = ?", (verdict, fact))


Verdict = Literal["same", "apart"]


class ChoiceRow(NamedTuple):
    """A decision about two entities, of which the one with the lower row stands first; when it was made, UTC ms."""

    id: int
    verdict: Verdict
    entity: int
    other: int
    made_ms: int

    @property
    def same(self) -> bool:
        """Whether the two are one."""
        return self.verdict == "same"


def add(tx: Tx, verdict: Verdict, entity: int, other: int, made_ms: int) -> int:
    """Insert a choice about two entities and return its id; the caller raises the generation.

    It is never dated before an earlier one of the pair, whatever the clock says.

    Raises:
        ValueError: if the two are one row.
    """
    if entity == other:
        raise ValueError("a choice is about two entities")
    first, second = sorted((entity, other))
    newest = tx.value("SELECT max(made_ms) FROM choice WHERE entity = ? AND other = ?", (first, second))
    return put(tx, verdict, first, second, made_ms if newest is None else max(made_ms, newest))


def put(tx: Tx, verdict: Verdict, first: int, second: int, made_ms: int) -> int:
    """Record a decision that was made at a time, maybe before others of the pair; the lower row is first."""
    return tx.insert(
        "INSERT INTO choice (verdict, entity, other, made_ms) VALUES (?, ?, ?, ?) RETURNING id",
        (verdict, first, second, made_ms),
    )


def entities(tx: Tx) -> set[int]:
    """Return the entities about which something was decided."""
    return set(tx.column("SELECT entity FROM choice UNION SELECT other FROM choice"))


def history(tx: Tx) -> list[ChoiceRow]:
    """Return all choices, the oldest first."""
    return tx.rows(ChoiceRow, "SELECT id, verdict, entity, other, made_ms FROM choice ORDER BY made_ms, id")


def read(tx: Tx, known_ms: int | None = None) -> list[ChoiceRow]:
    """Return the newest choice of each pair of entities, the oldest first; with `known_ms`, the newest by that moment."""
    newest: dict[tuple[int, int], ChoiceRow] = {}
    for one in history(tx):
        if known_ms is None or one.made_ms <= known_ms:
            newest.pop((one.entity, one.other), None)
            newest[one.entity, one.other] = one
    return list(newest.values())


def later_turns(tx: Tx, known_ms: int) -> list[int]:
    """Return the turns that were stored after a moment."""
    return tx.column("SELECT id FROM turn WHERE stored_ms > ?", (known_ms,))


def turns_having(tx: Tx, having: str) -> list[int]:
    """Return the turns whose metadata holds all of a JSON object's entries; a turn's own metadata overrides its session's."""
    wanted = json.loads(having)
    about = {
        session: json.loads(metadata)
        for session, metadata in tx.execute("SELECT id, metadata FROM session WHERE metadata != '{}'")
    }
    rows = tx.execute(
        """SELECT t.id, t.session, t.metadata FROM turn t JOIN session s ON s.id = t.session
           WHERE t.metadata != '{}' OR s.metadata != '{}'"""
    )
    found = []
    for row, session, metadata in rows:
        held = {**about.get(session, {}), **json.loads(metadata)}
        if all(key in held and held[key] == one for key, one in wanted.items()):
            found.append(row)
    return found


def keys_unknown(tx: Tx, having: str) -> list[str]:
    """Return the keys of metadata (a JSON object) that no turn and no session has."""
    has = " UNION ALL ".join(
        f"SELECT 1 FROM {table}, {listed(f'{table}.metadata')} j WHERE {table}.metadata != '{{}}' AND j.key = :key"
        for table in ("turn", "session")
    )
    return [
        key for key in json.loads(having) if tx.execute(f"{has} LIMIT 1", {"key": key}).fetchone() is None
    ]


def later_occurrences(tx: Tx, known_ms: int | None, turns: Collection[int]) -> list[tuple[int, int]]:
    """Return (occurrence, fact) pairs that were not held at a moment: stored later, or supported by a turn that was not held.

    What a correction has put in the place of a statement was stored with the correction.

    Args:
        tx: a read transaction.
        known_ms: the moment, UTC ms; None leaves out nothing by stored time.
        turns: row ids of the turns that are not held.
    """
    found = tx.execute(
        f"""SELECT o.id, o.fact FROM occurrence_turn x JOIN occurrence o ON o.id = x.occurrence WHERE x.turn {AMONG}""",
        (tx.ids(turns),),
    ).fetchall()
    if known_ms is not None:
        found += tx.execute(
            """SELECT o.id, o.fact FROM fact f JOIN occurrence o ON o.fact = f.id
               WHERE f.stored_ms > ? AND o.stored_ms IS NULL
               UNION ALL SELECT id, fact FROM occurrence WHERE stored_ms > ?
               UNION ALL SELECT o.id, o.fact FROM correction k JOIN occurrence o ON o.correction = k.id
               WHERE coalesce(k.stored_ms, k.made_ms) > ?""",
            (known_ms, known_ms, known_ms),
        ).fetchall()
    return sorted(set(found))


def facts_beside(tx: Tx, facts: Collection[int], without: Collection[int]) -> list[int]:
    """Return those facts that have another occurrence than the given ones."""
    return tx.column(
        f"SELECT DISTINCT fact FROM occurrence WHERE fact {AMONG} AND id NOT {AMONG} ORDER BY fact",
        (tx.ids(facts), tx.ids(without)),
    )


def mentions_lost(tx: Tx, facts: Collection[int], without: Collection[int]) -> list[tuple[int, int]]:
    """Return distinct (fact, entity) pairs that only some occurrences of facts mention."""
    mention = f"SELECT fact, entity FROM mention WHERE fact {AMONG} AND occurrence"
    args = (tx.ids(facts), tx.ids(without))
    return tx.execute(f"{mention} {AMONG} EXCEPT {mention} NOT {AMONG}", args * 2).fetchall()


def states_of(tx: Tx, occurrences: Collection[int]) -> set[int]:
    """Return the row ids of the observations of states that some occurrences make."""
    return set(tx.column(f"SELECT id FROM state WHERE occurrence {AMONG}", (tx.ids(occurrences),)))


def updates_taken_back(tx: Tx, known_ms: int) -> int:
    """Return how many updates that held at a moment were undone since, which deletes what they said."""
    return int(
        tx.value(
            f"SELECT count(*) FROM correction c WHERE c.kind = 'update' AND c.undone_ms > ? AND {HELD_FROM} <= ?",
            (known_ms, known_ms),
        )
    )


def deleted_since(tx: Tx, known_ms: int) -> tuple[int, int]:
    """Return how many turns and facts that were held at a moment, UTC ms, have been deleted since."""
    found = tx.pairs(
        """SELECT kind, sum(count) FROM tombstone WHERE deleted_ms > ? AND stored_ms <= ? GROUP BY kind""",
        (known_ms, known_ms),
    )
    return found.get("turn", 0), found.get("fact", 0)
