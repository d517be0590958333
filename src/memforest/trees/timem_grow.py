"""The tree of the timem index, and how its memories are written: segments, sessions, days, weeks, months and years.

There is one tree, which follows from the turns, their times and the memory's zone alone. A session belongs to the day on which
it starts. A node's interval is the hull of its turns, so a day covers a session that runs past midnight. Levels are
numbered by the places of their names in `LEVELS`. A level that a memory does not write is missing in its tree, and no
number changes. The paper's L1 to L5 are the levels 0 to 4.

A memory is written from the texts below it, those before it, and the level's own instruction (TiMem, arXiv 2601.02845, eq. 1 to
3: the last w memories of the level). Here those before it end before the window begins, so that a window which is written late
is not told what came after it, which the released code does. Segments are due at once, a session when the next one begins or
when it has been silent for `idle_min`, a window when it has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from memforest.config import Recall
from memforest.errors import ConfigError
from memforest.reading.periods import Unit
from memforest.reading.timestamps import dated_text
from memforest.reading.tokens import count_words
from memforest.records import SummaryRequest
from memforest.search.filters import memory_zone, told_by
from memforest.search.forest import NONE, TURNS, Digests, Forest, Ints, mixed
from memforest.search.snapshot import Snapshot, ranges
from memforest.settings import Bound, Count, Settings, Whole, experimental
from memforest.store.connections import Tx
from memforest.store.reads import statements_of
from memforest.times import from_ms
from memforest.trees.index import leaves_beneath
from memforest.trees.kernel import Growth, Window, windows_of
from memforest.trees.refresh import IndexPlan, NodeWork
from memforest.trees.texts import Finish, Said, said_of, turn_lines
from memforest.trees.timem_compose import profile_lines, profile_statements

OWNER, KIND = "timem", "calendar"

LEVELS: Sequence[str] = ("segment", "session", "day", "week", "month", "year", "root")
SEGMENT, SESSION, DAY, WEEK, MONTH, YEAR, ROOT = range(len(LEVELS))

MEMORY_LEVELS: Sequence[str] = LEVELS[:ROOT]
"""Those that memories may be written on."""

UNITS: Mapping[int, Unit] = MappingProxyType(
    {DAY: "day", WEEK: "week_of_month", MONTH: "month", YEAR: "year"}
)
"""Level -> its calendar windows. ISO weeks are cut at month ends: a whole one may lie in two months."""


def windowed(levels: Sequence[str]) -> list[int]:
    """Return the levels of a tree that stand for calendar windows, the lowest first; the year always is one of them.

    Args:
        levels: the names of those that memories are written on.
    """
    return [level for level in UNITS if LEVELS[level] in levels or level == YEAR]


@dataclass(frozen=True, slots=True)
class TiMemSettings(Settings):
    """How the timem index cuts time, writes memories, and is searched."""

    KEPT: ClassVar[tuple[str, ...]] = (
        "levels",
        "segment",
        "history",
        "history_of",
        "pass_through",
        "dates",
        "words",
        "idle_min",
    )

    levels: Sequence[str] = ("segment", "session", "day", "week", "month")
    """The levels that memories are written on, the lowest first: ``"segment"`` and ``"session"``, and any of ``"day"``,
    ``"week"``, ``"month"`` and ``"year"``."""
    segment: Count = experimental(1)
    """Exchanges, which are two turns each, of a segment; the paper measured 1, 2, 4 and 8 (Table 9)."""
    history: Sequence[Whole] = experimental((3, 3, 3, 3, 3, 3))
    """How many earlier texts are shown when a memory of each level is written, the lowest level first; 0 for none, 3 in the
    paper (eq. 3). One number is meant for all levels."""
    history_of: Literal["children", "memories"] = experimental("children")
    """Which earlier texts. ``"memories"``: the last ones of the level, as in the paper, so they are written one after
    the other. ``"children"``: the last inputs of these, so all of a level are written at once."""
    pass_through: bool = experimental(True)
    """Whether a window with one memory below it says what that says; otherwise, and in the paper, it is told once more."""
    dates: Literal["beside", "kept"] = experimental("beside")
    """Whether the day that is meant stands beside words such as "yesterday" in what a segment is written from, or, as in the
    paper, they are kept as they were said."""
    words: Sequence[Count] = experimental((80, 300, 400, 500, 600, 600))
    """Most words of a memory of each level, the lowest first (prompts of the released configuration); of a month, of each
    participant. Fewer where less is below."""
    idle_min: Annotated[float, Bound(ge=0)] = experimental(10.0)
    """Minutes without a turn after which a session has ended (released configuration)."""

    recall: Recall = field(default_factory=Recall)
    """How memories are recalled, where `Ranking.recall` does not say."""

    def _check(self) -> None:
        """Refuse levels that are unknown, out of order, or without the first two."""
        known = [one for one in LEVELS if one in MEMORY_LEVELS]
        if list(self.levels[:2]) != known[:2] or list(self.levels) != [
            one for one in known if one in self.levels
        ]:
            raise ConfigError(
                f"levels={list(self.levels)!r}: give 'segment' and 'session', and after them any of "
                f"{', '.join(repr(one) for one in known[2:])}, in this order"
            )
        for name, values in (("history", self.history), ("words", self.words)):
            if len(values) < len(self.levels):
                raise ConfigError(
                    f"{name}={list(values)!r} has {len(values)} numbers; give one for each of the {len(self.levels)} levels"
                )

    def history_at(self, level: int) -> int:
        """Return how many earlier texts a memory of a level is written with; levels by their places in `LEVELS`."""
        return int(self.history[self.levels.index(LEVELS[level])])


LEAST_WORDS = 40
"""Words that a memory may have however little is below it."""
SUMMARY_PART = 0.5
"""Part of the words below it that a memory may have, if that is more."""


@dataclass(frozen=True, slots=True, eq=False)
class Calendar:
    """What a forest keeps: where each node begins, and the nodes of each level in that order."""

    begin: Ints
    """The first turn of a segment or session, the start of a window; UTC ms, by row."""
    end: Ints
    """When each node's window ends; of segments and sessions when their last turn was said."""
    of_level: Mapping[int, Ints]


def grown(tx: Tx, snapshot: Snapshot, settings: TiMemSettings) -> Forest:
    """Return the tree of a snapshot."""
    turns, size = snapshot.turns, 2 * settings.segment
    if not len(turns.ids):
        return Growth(OWNER, snapshot, (), ()).forest(kept=Calendar(turns.ids, turns.ids, {}))
    growth, zone = Growth(OWNER, snapshot, [KIND], [0]), memory_zone(tx)
    starts = np.flatnonzero(turns.previous < 0)
    session = np.searchsorted(starts, np.arange(len(turns.ids)), side="right") - 1
    first = np.flatnonzero((np.arange(len(turns.ids)) - starts[session]) % size == 0)
    segments = growth.runs(
        np.zeros(len(first), dtype=np.int64), TURNS, first, np.r_[first[1:], len(turns.ids)]
    )
    said = np.minimum.reduceat(turns.said_ms, starts)
    in_time = np.argsort(said, kind="stable")
    place = np.empty(len(starts), dtype=np.int64)
    place[in_time] = np.arange(len(starts))
    below = growth.above(segments, place[session[first]], SESSION)
    of_level, heads, begins = {SEGMENT: segments, SESSION: below}, np.arange(len(starts)), said[in_time]
    levels, calendar = windowed(settings.levels), dict[int, Sequence[Window]]()
    cut = windows_of(begins, [UNITS[level] for level in levels], zone)
    for level, (number, windows) in zip(levels, cut, strict=True):
        own = [key for key, *_ in windows], np.arange(len(windows))
        below = growth.above(below, number[heads], level, own)
        heads = heads[np.diff(number[heads], prepend=NONE) != 0]
        of_level[level], calendar[level] = below, windows
    of_level[ROOT] = growth.above(below, np.zeros(len(below), dtype=np.int64), ROOT)
    bare = growth.forest()
    begin, end = bare.start_ms.copy(), bare.end_ms.copy()
    for level, windows in calendar.items():
        _, begin[of_level[level]], end[of_level[level]] = zip(*windows, strict=True)
    told = np.concatenate([rows for level, rows in of_level.items() if LEVELS[level] in settings.levels])
    return replace(bare, told=told, kept=Calendar(begin, end, of_level))


def history_of(forest: Forest, settings: TiMemSettings, row: int) -> list[int]:
    """Return the nodes whose texts stand before a memory when it is written, in order.

    With ``history_of="children"`` that is the last of what the nodes before it were made of, and of a segment what was said in
    the ones before it in its session.
    """
    level = int(forest.level[row])
    if LEVELS[level] not in settings.levels or not (many := settings.history_at(level)):
        return []
    calendar: Calendar = forest.kept
    if level == SEGMENT:
        kids = forest.children[int(forest.parent[row])]
        at = kids.index(row)
        return list(kids[max(0, at - many) : at])
    rows = calendar.of_level[level]
    before = rows[: np.searchsorted(rows, row)]
    ended: list[int] = before[forest.end_ms[before] <= calendar.begin[row]][-many:].tolist()
    if settings.history_of == "children":
        ended = [child for one in ended for child in forest.children[one]]
    return ended[-many:]


def made_of(forest: Forest, settings: TiMemSettings, row: int) -> list[int]:
    """Return the rows whose texts a memory is written from: its children, and its history."""
    before = history_of(forest, settings, row)
    if forest.level[row] == SEGMENT and settings.history_of == "children":
        before = []  # what was said, and no text
    return [*forest.children[row], *before]


def due(forest: Forest, settings: TiMemSettings, now_ms: int | None) -> NDArray[np.bool_]:
    """Return which memories may be written: what they are of has ended, by the clock or by what was said last."""
    found = np.ones(len(forest), dtype=np.bool_)
    if not len(forest):
        return found
    calendar: Calendar = forest.kept
    sessions = calendar.of_level[SESSION]
    if now_ms is None:
        now_ms = int(calendar.begin[sessions].max())
    last = forest.end_ms[sessions] + round(settings.idle_min * 60_000)
    following = np.r_[calendar.begin[sessions][1:], last[-1:]]
    found[sessions] = np.minimum(last, following) <= now_ms
    for level, rows in calendar.of_level.items():
        if level > SESSION:
            found[rows] = calendar.end[rows] <= now_ms
    return found


def finish(tx: Tx, snapshot: Snapshot, forest: Forest, settings: TiMemSettings) -> Finish:
    """Return what mixes into digests what memories are written from besides what is below them.

    That is their history; the statements that the turns of a segment support; and of a profile every observation of a state
    until its window ended, as it holds states however old.
    """
    said, supports = said_of(tx, snapshot), told_by(snapshot)
    told, turns = _sums(said.facts[supports.facts]), _sums(said.turns)
    own, lines = np.zeros((2, len(forest), 2), dtype=np.uint64)
    runs = np.flatnonzero(forest.kind == TURNS)
    first, end = forest.item[runs], forest.item_end[runs]
    at = np.searchsorted(supports.turn_of, np.stack([first, end]))
    own[runs], lines[runs] = told[at[1]] - told[at[0]], turns[end] - turns[first]
    known_ms, until = _states_until(snapshot, said)

    def of(rows: Ints, told_: Digests, out: Digests) -> Digests:
        level = int(forest.level[rows[0]])
        further = own[rows].copy()
        if level >= MONTH and level != ROOT:
            further += until[np.searchsorted(known_ms, forest.kept.end[rows])]
        if LEVELS[level] not in settings.levels or not (many := settings.history_at(level)):
            return mixed(told_ ^ further)
        if settings.history_of == "memories":
            # What is written with what came before depends on all that came before that.
            made = mixed(told_ ^ further)
            before = np.cumsum(made, axis=0, dtype=np.uint64) - made
            if level == SEGMENT:
                before -= before[forest.first[forest.parent[rows]]]
            return mixed(made ^ before)
        if level == SEGMENT:
            source, following, least = lines, rows, forest.first[forest.parent[rows]]
        else:
            kids, counts = forest.children.of_rows(rows), forest.children.counts[rows]
            source, following, least = out[kids], np.cumsum(counts) - counts, np.zeros_like(counts)
        for back in range(1, many + 1):
            has = following - back >= least
            further[has] += mixed(source[following[has] - back], back)
        if level == SESSION:  # of those that overlap an earlier one, not all that began before has ended
            ends = np.maximum.accumulate(forest.end_ms[rows])
            for at in (1 + np.flatnonzero(ends[:-1] > forest.kept.begin[rows[1:]])).tolist():
                ended = history_of(forest, settings, int(rows[at]))
                number = np.arange(len(ended), 0, -1)[:, None]
                further[at] = own[rows[at]] + mixed(out[ended], number).sum(axis=0, dtype=np.uint64)
        return mixed(told_ ^ further)

    return of


def _states_until(snapshot: Snapshot, said: Said) -> tuple[Ints, Digests]:
    """Return when observations of states were so and had been told, in order, and `_sums` of what they say."""
    states = snapshot.states
    row = np.array(snapshot.rows_of_facts([state.fact for state in states]), dtype=np.int64)
    at_ms = np.array([state.at_ms for state in states], dtype=np.int64)
    known_ms = np.maximum(at_ms, snapshot.facts.said_ms[row])
    order = np.argsort(known_ms, kind="stable")
    return known_ms[order], _sums(mixed(said.facts[row], at_ms[:, None])[order])


def _sums(of: Digests) -> Digests:
    """Return the sums of the first digests: of none, of one, ..."""
    return np.concatenate([np.zeros((1, 2), dtype=np.uint64), np.cumsum(of, axis=0, dtype=np.uint64)])


def requests_of(
    tx: Tx, plan: IndexPlan, settings: TiMemSettings, rows: Sequence[int], *, by_rules: bool
) -> list[NodeWork]:
    """Return how to write the memories of nodes; see `memforest.trees.index.Index.requests`."""
    snapshot, forest = plan.snapshot, plan.forest
    zone, calendar = memory_zone(tx), forest.kept
    before = {row: history_of(forest, settings, row) for row in rows}
    segments = [row for row in rows if forest.level[row] == SEGMENT]
    said = _said(snapshot, forest, {one for row in segments for one in (row, *before[row])})
    lines = turn_lines(tx, [turn for told in said.values() for turn, _ in told])
    statements = statements_of(tx, [turn for row in segments for turn, _ in said[row]]) if by_rules else {}

    def told(row: int, texts_of: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
        """Return the texts of a segment's turns, each once, with dates as the settings have them."""
        found = [(text, said_ms) for turn, said_ms in said[row] for text in texts_of.get(turn, ())]
        kept = settings.dates == "kept"
        return tuple(dict.fromkeys(text if kept else _dated(text, said_ms, zone) for text, said_ms in found))

    works = []
    for row in rows:
        level, participants = int(forest.level[row]), speakers(snapshot, forest, row)
        material, persons = plan.inputs(row), 1
        stated: tuple[str, ...] = ()
        history = tuple(plan.texts[one] for one in before[row] if plan.texts.get(one))
        if level == SEGMENT:
            material, stated = told(row, lines), told(row, statements)
            if settings.history_of == "children":
                history = tuple(filter(None, ("\n".join(told(one, lines)) for one in before[row])))
        start_ms, end_ms = int(calendar.begin[row]), int(calendar.end[row])
        alone = settings.pass_through and len(forest.children[row]) == 1
        if level >= MONTH:
            persons = max(1, len(participants))
            if by_rules:
                turns, alone = turn_rows(forest, row), False
                stated = profile_statements(
                    profile_lines(tx, snapshot, start_ms, end_ms, participants, zone, turns)
                )
        most = int(settings.words[settings.levels.index(LEVELS[level])]) * persons
        request = SummaryRequest(
            kind=LEVELS[level],
            label=", ".join(participants),
            start=from_ms(start_ms),
            end=from_ms(end_ms),
            inputs=material,
            max_words=min(most, max(LEAST_WORDS, round(SUMMARY_PART * sum(map(count_words, material))))),
            level=level + 1,
            history=history,
            window=forest.window_of(row) or "",
            participants=participants,
            summarise="kept" if settings.pass_through else "every",
            prompt="profile" if level >= MONTH else LEVELS[level],
            statements=stated,
        )
        works.append(NodeWork(row, request, kept=alone, words=True))
    return works


def _said(snapshot: Snapshot, forest: Forest, rows: Collection[int]) -> dict[int, list[tuple[int, int]]]:
    """Return the turns of segments by their ids, with when they were said, by row."""
    turns = snapshot.turns
    found = {}
    for row in rows:
        places = slice(int(forest.item[row]), int(forest.item_end[row]))
        found[row] = list(zip(turns.ids[places].tolist(), turns.said_ms[places].tolist(), strict=True))
    return found


@lru_cache(maxsize=512)  # what was said last is read again with what comes next
def _dated(text: str, said_ms: int, zone: tzinfo) -> str:
    return dated_text(text, from_ms(said_ms), zone)


def turn_rows(forest: Forest, row: int) -> Ints:
    """Return the rows of the turns at or below a node, in the order of its segments."""
    leaves = leaves_beneath(forest, row)
    return ranges(forest.item[leaves], forest.item_end[leaves])


def speakers(snapshot: Snapshot, forest: Forest, row: int) -> tuple[str, ...]:
    """Return who speaks at or below a node, in the order in which they first do."""
    rows = turn_rows(forest, row)
    rows = rows[np.argsort(snapshot.turns.said_ms[rows], kind="stable")]
    return tuple(snapshot.speakers[code] for code in dict.fromkeys(snapshot.turns.speaker[rows].tolist()))
