"""The table, events, levels and settings of the hmem index, and how nodes of a window join.

A node is known by its founder: the item, fact or turn, that began it; an event by its own; a root has none. `said_ms` and
`tie` are those of the founder, and order the nodes of a window; a root has 0 and "". `within` is the key of the window of
the parent's size, of the memory of a year and of a root that of the year. `likeness` is how like its cluster a node was when
it joined; None of one that began it. `r_ms` is when it was last consolidated, and `n` how often.

Source: H-Mem (arXiv 2605.15701) §3.2, App. A.2 and A.4. The paper's L1 to L4 are the levels 0 to 3 here; level 4 is the root
of a year, which is no memory. A node joins others in one window of the size of its parent, which alone keeps a child's window
within its parent's; weeks are cut where months end. The paper leaves open what of a cluster a node is compared with (here the
member most like it), and which of two equally near clusters it joins: the one that was begun earlier. How alike nodes must be to join is measured per
embedder and level by `scripts/calibrate_memories.py`; an embedder that was not measured gets the middle of those that were.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memforest.config import Explore
from memforest.errors import ConfigError
from memforest.reading.periods import Unit
from memforest.settings import Bound, Count, Settings
from memforest.store import meta
from memforest.store.connections import AMONG, Tx, place_tie
from memforest.store.corrections import HIDDEN
from memforest.store.snapshot import muted_turns
from memforest.trees.index import measured

EventKind = Literal["fact", "turn"]

KINDS: Mapping[str, EventKind] = MappingProxyType({"facts": "fact", "turns": "turn"})
"""Setting `events` -> the kind of item that a leaf stands for."""


class Event(NamedTuple):
    """An event: its row, when it was first told, its tie among those of one instant, its leaf's interval, and its state.

    `r_ms` is when it was last told, and `n` how often again.
    """

    item: int
    said_ms: int
    tie: str
    start_ms: int
    end_ms: int
    r_ms: int
    n: int


_START = "coalesce(f.start_ms, f.said_ms)"
_FACTS = f"""SELECT f.id, f.said_ms, f.tie || ' ' || f.fact_id, {_START},
    CASE WHEN f.start_ms IS NULL OR f.end_ms IS NULL THEN {_START} + 1 ELSE max(f.end_ms, f.start_ms + 1) END,
    (SELECT max(o.said_ms) FROM occurrence o WHERE o.fact = f.id),
    (SELECT count(*) FROM occurrence o WHERE o.fact = f.id) - 1
    FROM fact f WHERE f.verdict < {HIDDEN} AND EXISTS (SELECT 1 FROM derived_fact_vector v WHERE v.item = f.id)"""

_TURNS = f"""SELECT t.id, t.said_ms, {place_tie("s.session_id", "t.ordinal")},
    t.said_ms, t.said_ms + 1, t.said_ms, 0
    FROM turn t JOIN session s ON s.id = t.session
    WHERE EXISTS (SELECT 1 FROM derived_turn_vector v WHERE v.item = t.id)"""


def events(tx: Tx, kind: EventKind, items: Collection[int]) -> dict[int, Event]:
    """Return those of some items that are events: stored, not hidden, and with a vector."""
    if kind == "fact":
        found = tx.execute(f"{_FACTS} AND f.id {AMONG}", (tx.ids(items),))
    else:
        shown = set(items) - set(muted_turns(tx))
        found = tx.execute(f"{_TURNS} AND t.id {AMONG}", (tx.ids(shown),))
    return {row[0]: Event(*row) for row in found if row[5] is not None}


def items_of(tx: Tx, kind: EventKind) -> list[int]:
    """Return the rows of all events, for a check."""
    if kind == "fact":
        return tx.column(_FACTS)
    muted = set(muted_turns(tx))
    return [row[0] for row in tx.execute(_TURNS) if row[0] not in muted]


EVENT, WEEK, MONTH, YEAR, ROOT = range(5)
LEVELS: Sequence[str] = ("event", "week", "month", "year", "root")
"""What a node of each level tells of: an event, or the time whose events it is made of."""

WITHIN: Mapping[int, Unit] = MappingProxyType({EVENT: "week_of_month", WEEK: "month", MONTH: "year"})
"""Level -> the unit of the window within which its nodes join one another."""

_DAY_MS = 86_400_000
_YOUNG_MS, _GROWN_MS = 7 * _DAY_MS, 30 * _DAY_MS


def top_level(first_ms: int, now_ms: int) -> int:
    """Return the highest level that a memory has: that of weeks for 7 days, that of months until it is more than 30 days old.

    Args:
        first_ms: when its first event was told, UTC ms.
        now_ms: the present. Before the first event, as with a clock that is wrong, the memory is young.
    """
    age_ms = now_ms - first_ms
    if age_ms < _YOUNG_MS:
        return WEEK
    return MONTH if age_ms <= _GROWN_MS else YEAR


_COLUMNS = (
    "i.node, i.level, i.founder, i.parent, i.within, i.said_ms, i.tie, i.likeness,"
    " i.start_ms, i.end_ms, i.leaves, i.r_ms, i.n"
)


def make_tables(tx: Tx) -> None:
    """Make the tables of the index."""
    for statement in (
        """CREATE TABLE ix_hmem_node (
            node INTEGER PRIMARY KEY,
            level INTEGER NOT NULL,
            founder INTEGER,
            parent INTEGER,
            within TEXT NOT NULL,
            said_ms INTEGER NOT NULL,
            tie TEXT NOT NULL,
            likeness REAL,
            start_ms INTEGER NOT NULL,
            end_ms INTEGER NOT NULL,
            leaves INTEGER NOT NULL,
            r_ms INTEGER NOT NULL,
            n INTEGER NOT NULL
        ) STRICT""",
        "CREATE INDEX ix_hmem_node_within ON ix_hmem_node (level, within, said_ms, tie)",
        "CREATE UNIQUE INDEX ix_hmem_node_founder ON ix_hmem_node (founder, level)",
        "CREATE INDEX ix_hmem_node_parent ON ix_hmem_node (parent, said_ms, tie)",
    ):
        tx.execute(statement)


class HMemNode(NamedTuple):
    """A node as it is stored."""

    node: int
    level: int
    founder: int | None
    parent: int | None
    within: str
    said_ms: int
    tie: str
    likeness: float | None
    start_ms: int
    end_ms: int
    leaves: int
    r_ms: int
    n: int

    @property
    def place(self) -> tuple[int, str]:
        """Where it stands among the nodes of its window."""
        return self.said_ms, self.tie


def _read(tx: Tx, condition: str, args: Sequence[object]) -> list[HMemNode]:
    return tx.rows(HMemNode, f"SELECT {_COLUMNS} FROM ix_hmem_node i {condition}", tuple(args))


def by_node(tx: Tx, nodes: Collection[int]) -> dict[int, HMemNode]:
    """Return the rows of nodes."""
    return {row.node: row for row in _read(tx, f"WHERE i.node {AMONG}", (tx.ids(nodes),))}


def by_founder(tx: Tx, level: int, founders: Collection[int]) -> dict[int, HMemNode]:
    """Return the nodes of a level by their founders."""
    found = _read(tx, f"WHERE i.founder {AMONG} AND i.level = ?", (tx.ids(founders), level))
    return {row.founder: row for row in found if row.founder is not None}


class WindowNode(NamedTuple):
    """A node among those of its window, and the event that began what it is below, with the place of that; None without."""

    node: int
    founder: int
    parent: int | None
    likeness: float | None
    begun_by: int | None
    begun_ms: int
    begun_tie: str


def window_around(
    tx: Tx, level: int, within: str, place: tuple[int, str], before: int, most: int | None
) -> tuple[list[WindowNode], int]:
    """Return the last `before` nodes of a window before a place and the first `most` from it on, or all; and how many are before."""
    found = []
    for side, way, limit in (("<", "DESC", before), (">=", "ASC", -1 if most is None else most)):
        rows = tx.execute(
            f"""SELECT i.node, i.founder, i.parent, i.likeness, p.founder, p.said_ms, p.tie
                FROM ix_hmem_node i LEFT JOIN ix_hmem_node p ON p.node = i.parent
                WHERE i.level = ? AND i.within = ? AND (i.said_ms, i.tie) {side} (?, ?)
                ORDER BY i.said_ms {way}, i.tie {way} LIMIT ?""",
            (level, within, *place, limit),
        )
        found.append([WindowNode(*row) for row in rows])
    return found[0][::-1] + found[1], len(found[0])


def not_under(tx: Tx, level: int, within: str, parent: int | None) -> list[HMemNode]:
    """Return the nodes of a level in a window that are not under `parent`, in order; all if that is None."""
    return _read(
        tx,
        "WHERE i.level = ? AND i.within = ? AND (? IS NULL OR i.parent IS NOT ?) ORDER BY i.said_ms, i.tie",
        (level, within, parent, parent),
    )


def above(tx: Tx, nodes: Collection[int]) -> list[HMemNode]:
    """Return the nodes above some nodes, up to the roots, each once, the lowest level first."""
    return _read(
        tx,
        f"""WHERE i.node IN (WITH RECURSIVE up(node) AS (
                SELECT parent FROM ix_hmem_node WHERE node {AMONG}
                UNION SELECT a.parent FROM up JOIN ix_hmem_node a ON a.node = up.node)
            SELECT node FROM up) ORDER BY i.level, i.said_ms, i.tie""",
        (tx.ids(nodes),),
    )


def root_of(tx: Tx, year: str) -> HMemNode | None:
    """Return the root of a year."""
    found = _read(tx, "WHERE i.level = ? AND i.within = ?", (ROOT, year))
    return found[0] if found else None


def windows_of(tx: Tx, level: int) -> list[str]:
    """Return the keys of the windows of a level in which there are nodes, in order."""
    sql = "SELECT DISTINCT within FROM ix_hmem_node WHERE level = ? ORDER BY within"
    return tx.column(sql, (level,))


def first_said(tx: Tx) -> int | None:
    """Return when the first event was told, UTC ms; None without any."""
    return tx.row(
        int,
        "SELECT said_ms FROM ix_hmem_node WHERE level = ? ORDER BY within, said_ms, tie LIMIT 1",
        (EVENT,),
    )


def level_sizes(tx: Tx) -> Mapping[int, int]:
    """Return how many nodes each level has."""
    return tx.pairs("SELECT level, count(*) FROM ix_hmem_node GROUP BY level")


def around(tx: Tx) -> dict[str, int]:
    """Return the numbers of turns, entities and relations.

    Entities are counted as they are stored, before names are resolved, and relations as they were told, states left out.
    """
    found = tx.execute(
        """SELECT (SELECT count(*) FROM turn), (SELECT count(*) FROM entity),
           (SELECT count(*) FROM (SELECT DISTINCT source, label, target FROM relation))"""
    ).fetchone()
    return dict(zip(("fragments", "entities", "edges"), found, strict=True))


def names(tx: Tx, nodes: Collection[int]) -> list[tuple[int, int, int, str | None]]:
    """Return id, level, times consolidated and calendar window of inner nodes."""
    found = tx.execute(
        f"""SELECT i.node, i.level, i.n, m.window FROM ix_hmem_node i JOIN node m ON m.id = i.node
            WHERE i.node {AMONG} AND i.level > {EVENT}""",
        (tx.ids(nodes),),
    )
    return [(row[0], row[1], row[2], row[3]) for row in found]


def everything(tx: Tx) -> list[HMemNode]:
    """Return all nodes, the lowest level first, in order."""
    return _read(tx, "ORDER BY i.level, i.within, i.said_ms, i.tie", ())


def add(tx: Tx, row: HMemNode) -> None:
    """Store a node."""
    tx.execute("INSERT INTO ix_hmem_node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def delete(tx: Tx, nodes: Iterable[int]) -> None:
    """Delete rows."""
    tx.executemany("DELETE FROM ix_hmem_node WHERE node = ?", [(node,) for node in nodes])


def join(tx: Tx, joins: Iterable[tuple[int, float | None, int]]) -> None:
    """Put nodes under others: the parent, how like it the node was, and the node."""
    tx.executemany("UPDATE ix_hmem_node SET parent = ?, likeness = ? WHERE node = ?", joins)


def put_event(tx: Tx, node: int, event: Event) -> None:
    """Update the interval of an event, when it was last told, and how often."""
    tx.execute(
        "UPDATE ix_hmem_node SET start_ms = ?, end_ms = ?, r_ms = ?, n = ? WHERE node = ?",
        (event.start_ms, event.end_ms, event.r_ms, event.n, node),
    )


Hull = tuple[tuple[int, ...], int, int, int, int, int]
"""What the children of a node are together: ids in order, interval, leaves, when last consolidated, and how often."""


def hull(tx: Tx, node: int) -> Hull | None:
    """Sum up the children of a node and store the sums with it; None if it has none.

    Each child but the first has been a join, and so has each of a child's own.
    """
    ids = tx.execute(
        "SELECT node FROM ix_hmem_node WHERE parent = ? ORDER BY said_ms, tie", (node,)
    ).fetchall()
    if not ids:
        return None
    sums = tx.execute(
        """SELECT min(start_ms), max(end_ms), sum(leaves), max(r_ms), sum(n) + count(*) - 1
           FROM ix_hmem_node WHERE parent = ?""",
        (node,),
    ).fetchone()
    made = (tuple(one for (one,) in ids), *sums)
    tx.execute(
        "UPDATE ix_hmem_node SET start_ms = ?, end_ms = ?, leaves = ?, r_ms = ?, n = ? WHERE node = ?",
        (*made[1:], node),
    )
    return made


CAP = 2048
"""Nodes right before a node, in one window, that it is compared with: what a product of 2 MB of half floats costs."""


Joined: TypeAlias = tuple[int, float | None]
"""The cluster that a node has joined, by the node that began it, and how like it was then; None for the one that began it."""

BLOCK = 128
"""Nodes that are compared at once with what stands before them: one product of matrices instead of many with a vector."""
NEW = -(2**63)
"""The place of the founder of a node that has none yet."""
FEW = 64
"""More nodes than these come or go: it costs less to place all anew than to find out which they move."""
SLACK = 2e-6
"""Of likenesses: twice what rounding makes of them."""


def assign_anew(
    found: Sequence[WindowNode],
    first: int,
    vectors: NDArray[np.float32],
    alpha: float,
    *,
    cap: int,
    come: int,
    gone: Collection[int],
) -> dict[int, Joined]:
    """Return the clusters, by the events that began them, of the nodes that have none and of those that others may have moved.

    A node stays where it is if what has come, or has moved, is less like it than what it joined, and nothing that it may have
    joined has gone.

    Args:
        found: nodes of a window.
        first: the first of them that may be placed anew; those before are as many as are compared with it.
        vectors: of their founders.
        alpha: see `assign`.
        cap: see there.
        come: number of nodes that have come.
        gone: what those that have gone were below.
    """
    places = {row.founder: at for at, row in enumerate(found)}
    begun = {(row.begun_ms, row.begun_tie, row.begun_by) for row in found if row.begun_by is not None}
    outside = sorted((one for one in begun if one[2] not in places), reverse=True)
    places |= {founder: -1 - at for at, (_, _, founder) in enumerate(outside)}
    known = np.array([NEW if row.begun_by is None else places[row.begun_by] for row in found], dtype=np.int64)
    likenesses = np.array([row.likeness for row in found], dtype=np.float64)  # not a number where it is None
    least = np.where(np.isnan(likenesses), alpha, likenesses) - SLACK
    doubtful = np.arange(len(found)) >= first
    if come + len(gone) <= FEW:
        parents = np.array([row.parent or 0 for row in found], dtype=np.int64)
        doubtful &= (known == NEW) | np.isin(parents, [*gone])
        # With what comes or goes between, others are the first that a node is compared with: some fewer, or some more.
        for shift in range(-come, min(come + len(gone), cap) if gone else 0):
            at = np.arange(max(first, cap - shift), len(found))
            edge = at - cap + shift
            if shift < 0:
                doubtful[at] |= parents[at] == parents[edge]
            else:
                doubtful[at] |= np.einsum("ij,ij->i", vectors[at], vectors[edge]) >= least[at]
    made = assign(vectors, known, alpha, cap=cap, least=least, doubtful=doubtful)
    founders = [*(row.founder for row in found), *(founder for _, _, founder in outside[::-1])]
    return {
        at: (founders[founder], likeness)
        for at, (founder, likeness) in zip(np.flatnonzero(doubtful).tolist(), made, strict=True)
    }


def assign(
    vectors: NDArray[np.float32],
    known: Sequence[int] | NDArray[np.int64],
    alpha: float,
    *,
    cap: int = CAP,
    least: NDArray[np.float64] | None = None,
    doubtful: NDArray[np.bool_] | None = None,
) -> list[Joined]:
    """Return the clusters that nodes of a window join, one after the other.

    Args:
        vectors: of nodes that stand one behind the other, of unit length, shape (m, d).
        known: the founders' places of the first ones, which have been assigned before. A place is one in `vectors`, below 0 for
            a founder that stands before these, the earlier the lower.
        alpha: the least likeness, -1 to 1.
        cap: most nodes that one is compared with.
        least: how like another node must be to each, if that has another cluster now, for it to be assigned again; None for never.
        doubtful: the nodes that are assigned, those behind the known ones if None; here are added those that are assigned again.

    Returns:
        One for each node that is assigned; a founder is a place.
    """
    # So that no rounded likeness depends on how many vectors are multiplied at once.
    wide = vectors.astype(np.float64)
    founders = np.full(len(wide), NEW, dtype=np.int64)
    founders[: len(known)] = known
    doubtful = np.arange(len(wide)) >= len(known) if doubtful is None else doubtful
    made: list[Joined] = []
    for begin in range(0, len(wide), BLOCK):
        end, reach = min(begin + BLOCK, len(wide)), max(0, begin - cap)
        rows = begin + np.flatnonzero(doubtful[begin:end])
        near = dict(zip(rows.tolist(), _products(wide[rows], wide[reach:end]), strict=True))
        for at in range(begin, end) if len(rows) else ():
            if not doubtful[at]:
                continue
            low = max(0, at - cap)
            joined: Joined = (at, None)
            if low < at:
                likeness = (
                    near[at][low - reach : at - reach]
                    if at in near
                    else _products(wide[at : at + 1], wide[low:at])[0]
                )
                found = _nearest(likeness, founders[low:at])
                joined = found if found[1] >= alpha else joined
            made.append(joined)
            behind = slice(at + 1, at + 1 + cap)
            if least is not None and founders[at] != joined[0] and not doubtful[behind].all():
                doubtful[behind] |= _products(wide[at : at + 1], wide[behind])[0] >= least[behind]
            founders[at] = joined[0]
    return made


def _products(some: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the products of some vectors with others; of few without BLAS, whose threads would cost more than they save."""
    found: NDArray[np.float64] = np.einsum("ij,kj->ik", some, others) if len(some) < 8 else some @ others.T
    return found


def _nearest(near: NDArray[np.float64], founders: NDArray[np.int64]) -> tuple[int, float]:
    """Return the nearest cluster by the likenesses of its members; of equally near ones that which was begun earliest.

    Likenesses are rounded, as the last digits of a product say how many nodes were in it.
    """
    rounded = np.round(near, 6)
    most = rounded.max()
    return int(founders[rounded == most].min()), float(most)


Likeness = Annotated[float, Bound(ge=-1, le=1)]

SCHEDULES: Mapping[str, Sequence[float]] = MappingProxyType(
    {"paper": (0.8, 0.7, 0.6), "strict": (0.9, 0.8, 0.7), "loose": (0.7, 0.6, 0.5)}
)
"""Least likenesses with which events join a week's memory, these a month's, and these a year's: the paper's, and the two others
that it measured."""


@dataclass(frozen=True, slots=True)
class HMemSettings(Settings):
    """How the index hmem joins events, consolidates them, and is searched."""

    KEPT: ClassVar[tuple[str, ...]] = ("events", "schedule", "compare", "cap", "eager", "words")

    events: Literal["facts", "turns"] = "facts"
    """What an event is: a statement with the turns that support it, or a turn, for memories without extraction."""
    schedule: Literal["calibrated", "paper", "strict", "loose"] | Sequence[Likeness] = "calibrated"
    """How alike is alike, on three levels: ``"calibrated"``, as measured for the embedder; the paper's .8 .7 .6, its
    ``"strict"`` .9 .8 .7 and ``"loose"`` .7 .6 .5; or three numbers."""
    compare: Literal["founder", "text"] = "founder"
    """By which vector memories of weeks and months are compared: of the event that began them, so that nothing waits for a text and
    the trees follow from what is stored, or of what they say, as in the paper, which needs `eager`. Events are compared by their own."""
    cap: Count = CAP
    """Most nodes of a window that one is compared with: those right before it."""
    eager: bool = False
    """Whether everything above an event is consolidated as soon as it has joined, as in the paper; otherwise once for all that
    has joined, when it is read or the write is over."""
    words: Sequence[Count] = (120, 180, 240)
    """Most words of the memory of a week, a month and a year."""

    explore: Explore = field(default_factory=Explore)
    """How evidence is looked for, where `Ranking.explore` does not say."""

    def _check(self) -> None:
        """Refuse a schedule or bounds of words that are not three numbers, and texts that would not be there to be compared."""
        if self.compare == "text" and not self.eager:
            raise ConfigError("compare='text' needs eager=True: memories are compared by what they say")
        if not isinstance(self.schedule, str):
            object.__setattr__(self, "schedule", tuple(self.schedule))
        for name in ("schedule", "words"):
            given = getattr(self, name)
            if not isinstance(given, str) and len(given) != 3:
                raise ConfigError(
                    f"{name}={list(given)!r} has {len(given)} numbers; give three, for weeks, months and years"
                )


def least_likenesses(settings: HMemSettings, model_id: str) -> Sequence[float]:
    """Return the least likenesses with which events, weeks and months join, -1 to 1."""
    if settings.schedule != "calibrated":
        return SCHEDULES[settings.schedule] if isinstance(settings.schedule, str) else settings.schedule
    table = measured("memory_thresholds.json")
    found = table.get(model_id)
    return tuple(
        float(median(one[level] for one in table.values()) if found is None else found[level])
        for level in LEVELS[WEEK:ROOT]
    )


_MADE = "ix_hmem_made"
"""Entry of `meta`: what the trees were made by, as JSON."""


@dataclass(frozen=True, slots=True)
class HMemMade:
    """The least likenesses, and the highest level."""

    alphas: Sequence[float]
    top: int = WEEK


def made_by(tx: Tx) -> HMemMade | None:
    """Return the likenesses and levels that the trees were made with; None before the first event."""
    stored = meta.get(tx, _MADE)
    return None if stored is None else HMemMade(**json.loads(stored))


def now(tx: Tx, settings: HMemSettings) -> HMemMade | None:
    """Return the likenesses that trees would be made with now; None in a memory without an embedder."""
    model = meta.get(tx, "embedder")
    if model is None:
        return None
    return HMemMade(list(least_likenesses(settings, model)))


def note(tx: Tx, made: HMemMade) -> None:
    """Store the likenesses and levels of the trees."""
    if made_by(tx) != made:
        meta.put(tx, _MADE, json.dumps(asdict(made)))


def forget(tx: Tx) -> None:
    """Forget the likenesses and levels, as there are no trees."""
    meta.remove(tx, _MADE)
