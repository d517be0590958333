"""Tables, settings and thresholds of the segtree index, and the rules by which sessions are cut into exchanges.

An exchange is a short run of turns of one session: something said and what was said to it. The order of exchanges is
(`place`, `tie`): the time of an exchange (the latest until then in its session, ms), then session and position. Each is in
the tree or waits. Which turns are an exchange is a named rule, as systems that are published under one word cut
differently; no rule looks at texts or times, reorders turns, or joins turns of two sessions.

Sources of the constants: SegTreeMem (arXiv 2606.04555) §4 and §5.3; where the paper says nothing, the setting's text
says where its default comes from. How like a node a leaf must be to join it is measured per embedder by
`scripts/calibrate_segments.py`; an embedder that was not measured gets the middle of those that were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError, InputError
from memforest.settings import Bound, Settings, Whole
from memforest.store.connections import AMONG, Tx, place_tie
from memforest.store.derived import NUMBER, pack_vector, unpack_vectors
from memforest.store.trees import told_lines
from memforest.trees.index import measured

WAITING, PLACED = 0, 1
"""States of an exchange: not in the tree yet, and in it."""


def make_tables(tx: Tx) -> None:
    """Make the tables of the index."""
    for statement in (
        """CREATE TABLE ix_segtree_exchange (
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL,
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            turn INTEGER NOT NULL,
            turn_last INTEGER NOT NULL,
            turns INTEGER NOT NULL,
            place INTEGER NOT NULL,
            tie TEXT NOT NULL,
            state INTEGER NOT NULL,
            level INTEGER,
            maker TEXT,
            vector BLOB
        ) STRICT""",
        "CREATE INDEX ix_segtree_exchange_order ON ix_segtree_exchange (state, place, tie)",
        "CREATE INDEX ix_segtree_exchange_session ON ix_segtree_exchange (session, first)",
    ):
        tx.execute(statement)


class SaidTurn(NamedTuple):
    """A turn, as far as the cutting into exchanges looks at it."""

    row: int
    ordinal: int
    speaker: str
    said_ms: int


class ExchangeCut(NamedTuple):
    """An exchange as it is to be: positions and row ids of its first and last turn, their number, and its place in the order."""

    first: int
    last: int
    turn: int
    turn_last: int
    turns: int
    place: int


class ExchangeRow(NamedTuple):
    """An exchange as it is stored; `start_ms` and `end_ms` are those of its leaf: from its first turn to its last."""

    id: int
    session: int
    first: int
    last: int
    turn: int
    turn_last: int
    place: int
    tie: str
    state: int
    start_ms: int
    end_ms: int


class ExchangePlace(NamedTuple):
    """Where an exchange stands, also one whose turns have gone."""

    id: int
    session: int
    place: int
    tie: str
    state: int


_SELECT = """SELECT e.id, e.session, e.first, e.last, e.turn, e.turn_last, e.place, e.tie, e.state,
    a.said_ms, max(a.said_ms, b.said_ms) + 1 FROM ix_segtree_exchange e
    JOIN turn a ON a.id = e.turn JOIN turn b ON b.id = e.turn_last"""


HOLDS = """SELECT o.id FROM ix_segtree_exchange o WHERE o.session = t.session AND o.first <= t.ordinal
    ORDER BY o.first DESC LIMIT 1"""
"""The only exchange that can hold a turn `t`."""


def _read(tx: Tx, condition: str, args: Sequence[object]) -> list[ExchangeRow]:
    return tx.rows(ExchangeRow, f"{_SELECT} {condition}", tuple(args))


def sessions_of(tx: Tx, turns: Collection[int]) -> tuple[dict[int, int], bool]:
    """Return the sessions of turns, each with the position of the first of them, and whether all turns are stored."""
    sql = (
        f"SELECT session, min(ordinal), count(*) FROM turn WHERE id {AMONG} GROUP BY session ORDER BY session"
    )
    found = tx.execute(sql, (tx.ids(turns),)).fetchall()
    return {row[0]: row[1] for row in found}, sum(row[2] for row in found) == len(turns)


def all_sessions(tx: Tx) -> list[int]:
    """Return all sessions that have turns."""
    return tx.column("SELECT DISTINCT session FROM turn ORDER BY session")


def turns_of_session(tx: Tx, session: int, first: int = 0) -> list[SaidTurn]:
    """Return the turns of a session from a position on."""
    return tx.rows(
        SaidTurn,
        "SELECT id, ordinal, speaker, said_ms FROM turn WHERE session = ? AND ordinal >= ? ORDER BY ordinal",
        (session, first),
    )


def turns_between(tx: Tx, session: int, first: int, last: int) -> tuple[int, ...]:
    """Return the row ids of the turns of a session from one position to another."""
    rows = tx.execute(
        "SELECT id FROM turn WHERE session = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
        (session, first, last),
    )
    return tuple(row[0] for row in rows)


def first_speaker(tx: Tx) -> str | None:
    """Return who speaks first in a memory; None in one without turns."""
    return tx.row(
        str,
        f"""SELECT t.speaker FROM session s JOIN turn t ON t.id =
            (SELECT o.id FROM turn o WHERE o.session = s.id ORDER BY o.ordinal LIMIT 1)
            ORDER BY t.said_ms, {place_tie("s.session_id", "t.ordinal")} LIMIT 1""",
    )


def add(tx: Tx, session: int, cuts: Sequence[ExchangeCut]) -> None:
    """Store exchanges of a session, which wait."""
    name = tx.execute("SELECT session_id FROM session WHERE id = ?", (session,)).fetchone()[0]
    tx.executemany(
        f"""INSERT INTO ix_segtree_exchange (session, first, last, turn, turn_last, turns, place, tie, state)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, {place_tie("?8", "?2")}, {WAITING})""",
        [(session, *cut, name) for cut in cuts],
    )


def delete(tx: Tx, exchanges: Collection[int]) -> None:
    """Delete exchanges."""
    tx.executemany("DELETE FROM ix_segtree_exchange WHERE id = ?", [(one,) for one in exchanges])


def of_session(tx: Tx, session: int, first: int = 0) -> dict[tuple[int, int, int], int]:
    """Return the exchanges of a session from a position on by their first turn, their last one and their place."""
    rows = tx.execute(
        "SELECT turn, turn_last, place, id FROM ix_segtree_exchange WHERE session = ? AND first >= ? ORDER BY first",
        (session, first),
    )
    return {(row[0], row[1], row[2]): row[3] for row in rows}


def last_before(tx: Tx, session: int, position: int, limit: int) -> list[tuple[int, int]]:
    """Return first position and place of the last exchanges of a session that end before a position, the last one first."""
    rows = tx.execute(
        """SELECT first, place FROM ix_segtree_exchange WHERE session = ?1 AND first < ?2 AND last < ?2
           ORDER BY first DESC LIMIT ?3""",
        (session, position, limit),
    )
    return [(row[0], row[1]) for row in rows]


def of_turns(tx: Tx, turns: Collection[int]) -> list[ExchangeRow]:
    """Return the exchanges that hold one of some turns, in their order."""
    found = tx.execute(
        f"""SELECT DISTINCT e.id FROM turn t JOIN ix_segtree_exchange e ON e.id = ({HOLDS})
            AND e.last >= t.ordinal WHERE t.id {AMONG}""",
        (tx.ids(turns),),
    )
    return by_id(tx, [row[0] for row in found])


def beginning_with(tx: Tx, turns: Collection[int]) -> dict[int, int]:
    """Return the exchanges that begin with one of some turns, each with that turn."""
    return tx.pairs(
        f"""SELECT e.id, t.id FROM turn t JOIN ix_segtree_exchange e ON e.session = t.session
            AND e.first = t.ordinal WHERE t.id {AMONG}""",
        (tx.ids(turns),),
    )


def by_id(tx: Tx, exchanges: Collection[int]) -> list[ExchangeRow]:
    """Return exchanges in their order."""
    return _read(tx, f"WHERE e.id {AMONG} ORDER BY e.place, e.tie", (tx.ids(exchanges),))


def places(tx: Tx, exchanges: Collection[int]) -> list[ExchangePlace]:
    """Return where exchanges stand, in no order."""
    return tx.rows(
        ExchangePlace,
        f"SELECT id, session, place, tie, state FROM ix_segtree_exchange WHERE id {AMONG}",
        (tx.ids(exchanges),),
    )


def waiting(tx: Tx, limit: int) -> list[ExchangeRow]:
    """Return the first exchanges that wait."""
    rows = tx.execute(
        f"SELECT id FROM ix_segtree_exchange WHERE state = {WAITING} ORDER BY place, tie LIMIT ?", (limit,)
    )
    return by_id(tx, [row[0] for row in rows])


def count(tx: Tx, state: int) -> int:
    """Return how many exchanges there are in a state."""
    row = tx.execute("SELECT count(*) FROM ix_segtree_exchange WHERE state = ?", (state,)).fetchone()
    return int(row[0])


def last_placed(tx: Tx) -> tuple[int, str] | None:
    """Return the place of the last exchange in the tree; None if there is none."""
    row = tx.execute(
        f"SELECT place, tie FROM ix_segtree_exchange WHERE state = {PLACED} ORDER BY place DESC, tie DESC LIMIT 1"
    ).fetchone()
    return None if row is None else (row[0], row[1])


def behind(tx: Tx, place: int, tie: str) -> int:
    """Return how many exchanges of the tree stand behind a place: few where it grows."""
    row = tx.execute(
        f"SELECT count(*) FROM ix_segtree_exchange WHERE state = {PLACED} AND (place, tie) > (?, ?)",
        (place, tie),
    ).fetchone()
    return int(row[0])


def last_of(tx: Tx, number: int) -> list[int]:
    """Return the last `number` exchanges of the tree, in their order."""
    return tx.column(
        f"SELECT id FROM ix_segtree_exchange WHERE state = {PLACED} ORDER BY place DESC, tie DESC LIMIT ?",
        (number,),
    )[::-1]


def mark_placed(tx: Tx, made: Sequence[tuple[int, int | None, str]]) -> None:
    """Mark exchanges as placed, with the level that each was put on (None for a new root) and its placer."""
    tx.executemany(
        f"UPDATE ix_segtree_exchange SET state = {PLACED}, level = ?2, maker = ?3 WHERE id = ?1", made
    )


def mark(tx: Tx, exchanges: Collection[int], state: int) -> None:
    """Set the state of exchanges that are not in the tree any more."""
    tx.executemany(
        "UPDATE ix_segtree_exchange SET state = ?2, level = NULL, maker = NULL WHERE id = ?1",
        [(one, state) for one in exchanges],
    )


def makers(tx: Tx) -> dict[str, int]:
    """Return how many leaves each placer has placed."""
    return tx.pairs(
        f"SELECT coalesce(maker, ''), count(*) FROM ix_segtree_exchange WHERE state = {PLACED} GROUP BY 1 ORDER BY 1"
    )


Share: TypeAlias = Annotated[float, Bound(gt=0, le=1)]


@dataclass(frozen=True, slots=True)
class SegTreeSettings(Settings):
    """How the segtree index grows its tree and reads it."""

    KEPT: ClassVar[tuple[str, ...]] = (
        "leaves",
        "opener",
        "leaf_vector",
        "placer",
        "tau",
        "fall",
        "backing",
        "height_max",
        "fan_out_max",
    )

    leaves: Literal["adjacent", "pairs", "turns"] = "adjacent"
    """What a leaf is. ``"adjacent"``: a turn of whoever spoke first in the memory (or of `opener`) and that of somebody
    else right behind it, which has the leaf counts of the paper; ``"pairs"``: every two turns; ``"turns"``: each by itself. Turns that
    belong to no pair join the leaf before them in their session, so that none is left out."""
    opener: str = ""
    """With whose turns ``"adjacent"`` begins a leaf; when empty, who speaks first in the memory."""
    leaf_vector: Literal["mean", "text"] = "mean"
    """What a leaf is compared by: the mean of its turns' vectors, or the vector of its text, as in the paper, which
    embeds everything that is said once more."""
    placer: Literal["centroid", "cosine"] = "centroid"
    """What decides where a leaf goes. ``"centroid"``: its likeness with the mean of the leaves below a node;
    ``"cosine"``: with the vector of what the node says, as in the paper, which has it made before."""
    tau: Annotated[float, Bound(ge=-1, le=1)] | None = None
    """How like a node a leaf must be to join it, -1 to 1; None is what was measured for the embedder
    (`scripts/calibrate_segments.py`). The paper does not give one."""
    fall: Share = 0.8
    """What is left of `tau` with each level that the tree is higher than one, above 0 and at most 1. 1 is the paper's
    constant threshold. On generated talk with known turns of topic .7 to .9 are alike; trees of LoCoMo's development half
    are higher than they need be at .9."""
    backing: Annotated[float, Bound(ge=0)] = 4.0
    """Leaves like the whole conversation that ``"centroid"`` adds to what each node is compared by, so that a large node
    does not win by its size; 0 for the plain mean. On generated talk turns of topic are found best with 4 to 8."""
    height_max: Whole = 12
    """Height from which on a leaf that is like no node joins the node of this level, in the place of a new root; 0 for no
    bound. Full nodes are cut at any level, so that a tree gets higher by a few more, as the logarithm of its leaves."""
    fan_out_max: Whole = 64
    """Children of a node above which it is cut where its neighbouring children are least alike; 0 for no bound, else at
    least 8."""
    summarise: Literal["kept", "every"] = "kept"
    """Which nodes' summaries are made: where the children's texts are short enough they are kept as they are, or every
    node's is made, as in the paper's Algorithm 1."""
    scorer: Literal["fused", "cosine"] = "fused"
    """How relevant a node is to a question. ``"fused"``: by words, turns and facts, an inner node by the mean of the
    leaves below it; ``"cosine"``: by the vector of what it says, as in the paper, which found far less of the evidence."""
    propagate: Literal["top-down", "bottom-up", "none"] = "top-down"
    """Where relevance goes along the edges of the tree: from nodes to their children, to their parents, or nowhere."""
    admissible: Literal["bounded", "all", "leaves"] = "bounded"
    """Which nodes can be evidence. ``"bounded"``: none with more than `share_max` of all leaves."""
    share_max: Share = 0.05
    """Share of all leaves that a node may have, above 0 and at most 1."""
    expand: bool = True
    """Hand back the turns below a node in its place, those of its best leaf first. Otherwise what a node says is the
    evidence, `top_k` counts nodes, and a leaf is all that was said in it: at equal context less of the answers was said so
    (`benchmarks/segtree_sweep.py`), and its summary has to be made before a question is answered."""

    def _check(self) -> None:
        """Refuse a fan-out in which no node could be cut."""
        if 0 < self.fan_out_max < 8:
            raise ConfigError(
                f"fan_out_max={self.fan_out_max} should be at least 8, or 0 for no bound: both parts of a node that is "
                "cut keep at least a quarter of its children"
            )

    @property
    def reads_texts(self) -> bool:
        """Whether placing reads what nodes say."""
        return self.placer != "centroid"


def least_likeness(model_id: str, placer: str, leaf_vector: str) -> float:
    """Return the likeness from which on a leaf joins a node, -1 to 1.

    Args:
        model_id: of the embedder.
        placer: ``"centroid"`` or ``"cosine"``.
        leaf_vector: ``"mean"`` or ``"text"``.
    """
    name = f"{placer}_{leaf_vector}"
    table = measured("segment_thresholds.json")
    return float(
        table[model_id][name] if model_id in table else median(float(one[name]) for one in table.values())
    )


def stale(tx: Tx) -> list[int]:
    """Return the exchanges whose turns are not stored as they say."""
    return tx.column(f"""SELECT e.id FROM ix_segtree_exchange e LEFT JOIN turn a ON a.id = e.turn LEFT JOIN turn b ON b.id = e.turn_last
           LEFT JOIN session s ON s.id = e.session
           WHERE a.session IS NOT e.session OR b.session IS NOT e.session OR a.ordinal IS NOT e.first
           OR e.tie IS NOT {place_tie("s.session_id", "e.first")} OR b.ordinal IS NOT e.last OR e.turns IS NOT (SELECT count(*) FROM turn t WHERE t.session = e.session
           AND t.ordinal BETWEEN e.first AND e.last) ORDER BY e.id""")


def unplaced(tx: Tx) -> list[int]:
    """Return the exchanges that are said to be in the tree and have no leaf."""
    return tx.column(f"""SELECT e.id FROM ix_segtree_exchange e WHERE state = {PLACED} AND NOT EXISTS (
            SELECT 1 FROM leaf l JOIN tree t ON t.id = l.tree AND t.owner = 'segtree'
            WHERE l.turn = e.turn AND coalesce(l.last, l.turn) = e.turn_last)""")


def uncovered(tx: Tx) -> list[int]:
    """Return the turns that are in no exchange."""
    return tx.column(f"""SELECT t.id FROM turn t LEFT JOIN ix_segtree_exchange e ON e.id = ({HOLDS})
            WHERE e.last IS NULL OR e.last < t.ordinal""")


def overlapping(tx: Tx) -> list[int]:
    """Return the exchanges that begin before the one in front of them in their session has ended."""
    return tx.column("""SELECT id FROM (SELECT id, first, max(last) OVER (PARTITION BY session ORDER BY first, id
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS ended FROM ix_segtree_exchange) WHERE first <= ended""")


def leaf_order(tx: Tx) -> list[tuple[int, int]]:
    """Return the first and last turns of the exchanges of the tree, in their order."""
    rows = tx.execute(
        f"SELECT turn, turn_last FROM ix_segtree_exchange WHERE state = {PLACED} ORDER BY place, tie"
    )
    return [(row[0], row[1]) for row in rows]


def texts(tx: Tx, exchanges: Collection[int]) -> dict[int, str]:
    """Return the texts of exchanges, "speaker: text" lines, without hidden parts; see `memforest.store.trees.told_lines`."""
    turns = tx.execute(
        f"""SELECT e.id, t.id, t.speaker || ': ' || t.text FROM ix_segtree_exchange e
            JOIN turn t ON t.session = e.session AND t.ordinal BETWEEN e.first AND e.last
            WHERE e.id {AMONG} ORDER BY e.id, t.ordinal""",
        (tx.ids(exchanges),),
    ).fetchall()
    told = told_lines(tx, {turn: line for _, turn, line in turns})
    lines: dict[int, list[str]] = {}
    for one, turn, _ in turns:
        lines.setdefault(one, []).extend(told[turn])
    return {one: "\n".join(said) for one, said in lines.items()}


def without_vector(tx: Tx, limit: int) -> list[int]:
    """Return the first waiting exchanges that have no vector of their text."""
    return tx.column(
        f"""SELECT id FROM ix_segtree_exchange WHERE state = {WAITING} AND vector IS NULL
            ORDER BY place, tie LIMIT ?""",
        (limit,),
    )


def put_vectors(tx: Tx, found: Sequence[tuple[ExchangeRow, NDArray[np.float32]]]) -> None:
    """Store the vectors of exchanges' texts, if they still have the same turns."""
    tx.executemany(
        "UPDATE ix_segtree_exchange SET vector = ? WHERE id = ? AND turn = ? AND turn_last = ?",
        [(pack_vector(vector), one.id, one.turn, one.turn_last) for one, vector in found],
    )


def leaf_vectors(tx: Tx, exchanges: Collection[int], *, of_text: bool) -> dict[int, NDArray[np.float64]]:
    """Return the vectors that exchanges are compared by, as far as there are any: unit, rounded to half precision.

    So a sum of fewer than 2^20 of them in float64 is exact, in whatever order it is taken: each number is a multiple of
    2^-24 below 1, and float64 has 53 bits.
    """
    if of_text:
        sql = f"SELECT id, vector FROM ix_segtree_exchange WHERE id {AMONG}"
    else:
        sql = f"""SELECT e.id, v.vector FROM ix_segtree_exchange e
            JOIN turn t ON t.session = e.session AND t.ordinal BETWEEN e.first AND e.last
            LEFT JOIN derived_turn_vector v ON v.item = t.id WHERE e.id {AMONG} ORDER BY e.id, t.ordinal"""
    blobs: dict[int, list[bytes | None]] = {}
    for one, blob in tx.execute(sql, (tx.ids(exchanges),)):
        blobs.setdefault(one, []).append(blob)
    by_count: dict[int, list[int]] = {}
    for one, found in blobs.items():
        if all(found):
            by_count.setdefault(len(found), []).append(one)
    made: dict[int, NDArray[np.float64]] = {}
    for count, some in by_count.items():  # those of as many turns at once
        vectors = unpack_vectors(*(blob or b"" for one in some for blob in blobs[one]))
        means = vectors.astype(np.float64).reshape(len(some), count, -1).sum(axis=1)
        lengths = np.sqrt((means * means).sum(axis=1))
        units = (means / np.where(lengths, lengths, 1.0)[:, None]).astype(NUMBER).astype(np.float64)
        made |= zip(some, units, strict=True)
    return {one: made[one] for one in blobs if one in made}


def text_vectors(tx: Tx) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the first turns of all exchanges that have a vector of their text, ascending, and these vectors, shape (n, d)."""
    found = tx.execute(
        "SELECT turn, vector FROM ix_segtree_exchange WHERE vector IS NOT NULL ORDER BY turn"
    ).fetchall()
    turns = np.array([row[0] for row in found], dtype=np.int64)
    return turns, unpack_vectors(*(row[1] for row in found)) if found else np.zeros((0, 0), dtype=np.float32)


LeafRule = Literal["adjacent", "pairs", "turns"]
"""How turns are cut where each is to be in an exchange, as in the leaves of a tree; of a session A B A B B A:

- ``"adjacent"``: a turn of the opener and the turn of somebody else right behind it, of which SegTreeMem (arXiv 2606.04555,
  Table 5) has the leaf counts; other turns join the exchange before them, those at the session's start the one behind
  (AB ABBA).
- ``"pairs"``: every two turns, whoever speaks; an odd last one joins the pair before it (AB AB BA).
- ``"turns"``: each turn by itself.
"""

LEAF_RULES: tuple[LeafRule, ...] = get_args(LeafRule)

MOST_TURNS = 16
"""Turns of one exchange at most: an hour's monologue is many leaves, and not one."""


Exchange = tuple[int, int]
"""A run of turns of one session: the positions of its first and its last turn, from 0."""


def leaf_exchanges(
    speakers: Sequence[str], rule: LeafRule = "adjacent", *, opener: str | None = None
) -> tuple[Exchange, ...]:
    """Return exchanges of a session that have every turn in exactly one of them, in order; at most `MOST_TURNS` in each.

    With ``"adjacent"``, a session in which the opener is never answered is cut with its own first speaker as the opener,
    and where nobody answers at all, into pairs; so are turns at its start that are too many for the first exchange. A turn
    that the exchange before it has no room for begins one of its own.

    Turns that are added to a session change no exchange but those of its last `MOST_TURNS` turns.

    Example:
        >>> leaf_exchanges(["Ann", "Bob", "Bob", "Ann", "Eve"], "adjacent")
        ((0, 2), (3, 4))

    Args:
        speakers: of the session's turns, one each.
        rule: see `LeafRule`.
        opener: with whose turns ``"adjacent"`` begins an exchange; who speaks first when not given.

    Raises:
        InputError: if there is no such rule.
    """
    if rule not in LEAF_RULES:
        raise InputError(f"there is no rule {rule!r} for leaves; known: {', '.join(LEAF_RULES)}")
    if rule == "turns":
        return tuple((at, at) for at in range(len(speakers)))
    if rule == "pairs" or not speakers:
        return tuple(_pairs_of_all(len(speakers)))
    return tuple(_adjacent(speakers, speakers[0] if opener is None else opener))


def _adjacent(speakers: Sequence[str], opener: str) -> Iterator[Exchange]:
    """Yield each turn and its answer with the turns that follow them; what stands before the first joins it if there is room."""
    begins = [at for at, who in enumerate(speakers[:-1]) if who == opener != speakers[at + 1]]
    if not begins:
        yield from _unanswered(speakers, opener)
        return
    if begins[0] + 2 <= MOST_TURNS:
        begins[0] = 0
    else:
        yield from _unanswered(speakers[: begins[0]], opener)
    for first, end in pairwise([*begins, len(speakers)]):
        for at in range(first, end, MOST_TURNS):
            yield at, min(at + MOST_TURNS, end) - 1


def _unanswered(speakers: Sequence[str], opener: str) -> Iterator[Exchange]:
    """Yield the exchanges of turns among which the opener is never answered."""
    if speakers[0] == opener or len(set(speakers)) == 1:
        yield from _pairs_of_all(len(speakers))
    else:
        yield from _adjacent(speakers, speakers[0])


def _pairs_of_all(turns: int) -> Iterator[Exchange]:
    """Yield every two turns; the last has three where turns are odd, and one where there is one turn."""
    for first in range(0, max(turns - 1, min(turns, 1)), 2):
        yield first, turns - 1 if turns - first <= 3 else first + 1
