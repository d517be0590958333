"""The tree of the timem index, and how its memories are written: segments, sessions, days, weeks, months and years.

There is one tree, which follows from the turns, their times and the memory's zone alone. A session belongs to the day on which
it starts. A node's interval is the hull of its turns, so a day covers a session that runs past midnight. Levels are numbered by
the places of their names in `LEVELS`, so that levels which a memory does not write are left out of its tree and no number
changes; the paper's L1 to L5 are the levels 0 to 4.

A memory is written from the texts below it, those before it, and the level's own instruction (TiMem, arXiv 2601.02845, eq. 1 to
3: the last w memories of the level). Here those before it end before the window begins, so that a window which is written late
is not told what came after it, which the released code does. Segments are due at once, a session when the next one begins or
when it has been silent for `idle_min`, a window when it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from memforest.config import Recall
from memforest.errors import ConfigError
from memforest.reading.periods import Unit, window_keys, window_with_key
from memforest.reading.timestamps import dated_text
from memforest.reading.tokens import count_words
from memforest.records import SummaryRequest
from memforest.search.filters import memory_zone
from memforest.search.forest import TURNS, Digests, Forest, Ints, mixed
from memforest.search.snapshot import Snapshot, ranges
from memforest.settings import Bound, Count, Settings, Whole
from memforest.store.connections import Tx
from memforest.times import from_ms, to_ms
from memforest.trees.kernel import Growth
from memforest.trees.refresh import NodeWork
from memforest.trees.texts import Finish, said_of, turn_lines
from memforest.trees.timem_compose import profile_lines, profile_statements, statements_of

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
    segment: Count = 1
    """Exchanges, which are two turns each, of a segment; the paper measured 1, 2, 4 and 8 (Table 9)."""
    history: Sequence[Whole] = (3, 3, 3, 3, 3, 3)
    """How many earlier texts are shown when a memory of each level is written, the lowest level first; 0 for none, 3 in the
    paper (eq. 3). One number is meant for all levels."""
    history_of: Literal["children", "memories"] = "children"
    """Which earlier texts: ``"memories"``, the last ones of the level, as in the paper, so that one is written after the
    other; or ``"children"``, the last of what these were made of, so that all of a level are written at once."""
    pass_through: bool = True
    """Whether a window with one memory below it says what that says; otherwise, and in the paper, it is told once more."""
    dates: Literal["beside", "kept"] = "beside"
    """Whether the day that is meant stands beside words such as "yesterday" in what a segment is written from, or, as in the
    paper, they are kept as they were said."""
    words: Sequence[Count] = (80, 300, 400, 500, 600, 600)
    """Most words of a memory of each level, the lowest first (prompts of the released configuration); of a month, of each
    participant. Fewer where less is below."""
    idle_min: Annotated[float, Bound(ge=0)] = 10.0
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
                f"levels={list(self.levels)!r}: give 'segment' and 'session', and behind them any of "
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


PROMPTS: Mapping[int, str] = MappingProxyType(
    {SEGMENT: "segment", SESSION: "session", 2: "day", 3: "week", MONTH: "profile", 5: "profile"}
)
"""Level -> the prompt of its memories; a year's is a profile as a month's is."""

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
    begins = said[in_time]
    levels = windowed(settings.levels)
    keys = window_keys(begins.tolist(), [UNITS[level] for level in levels], zone)
    bounds: list[tuple[Ints, Sequence[int], Sequence[int]]] = []
    for at_level, level in enumerate(levels):
        own = [one[at_level] for one in keys]
        new = np.array([at == 0 or own[at] != own[at - 1] for at in range(len(own))], dtype=np.bool_)
        names = [key for key, begin in zip(own, new.tolist(), strict=True) if begin]
        rows = growth.above(below, np.cumsum(new) - 1, level, (names, np.arange(len(names))))
        spans = [_bounds_ms(key, UNITS[level], zone) for key in names]
        bounds.append((rows, [first for first, _ in spans], [last for _, last in spans]))
        below, keys = rows, [one for one, begin in zip(keys, new.tolist(), strict=True) if begin]
    growth.above(below, np.zeros(len(below), dtype=np.int64), ROOT)
    bare = growth.forest()
    begin, end = bare.start_ms.copy(), bare.end_ms.copy()
    for rows, first_ms, last_ms in bounds:
        begin[rows], end[rows] = first_ms, last_ms
    of_level = {level: np.flatnonzero(bare.level == level) for level in np.unique(bare.level).tolist()}
    told = np.flatnonzero(
        np.isin(bare.level, [at for at, name in enumerate(LEVELS) if name in settings.levels])
    )
    return growth.forest(told=told, kept=Calendar(begin, end, of_level))


@lru_cache(maxsize=4096)
def _bounds_ms(key: str, unit: Unit, zone: tzinfo) -> tuple[int, int]:
    """Return when a window starts and ends, UTC ms."""
    found = window_with_key(key, unit, zone)
    return to_ms(found.start), to_ms(found.end)


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
    found: list[int] = []
    place = int(np.searchsorted(rows, row))
    for one in rows[:place][::-1].tolist():
        if forest.end_ms[one] <= calendar.begin[row]:
            found += [one] if settings.history_of == "memories" else list(forest.children[one])[::-1]
        if len(found) >= many:
            break
    return found[:many][::-1]


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

    That is their history; the statements that the turns of a segment support; and of a profile all that was stated until its
    window ended, as it holds states however old.
    """
    said = said_of(tx, snapshot)
    runs = np.flatnonzero(forest.kind == TURNS)
    own, told = (
        np.zeros((len(forest), 2), dtype=np.uint64),
        np.zeros((len(snapshot.turns.ids), 2), dtype=np.uint64),
    )
    pairs = snapshot.facts.pairs
    np.add.at(told, pairs[:, 1], said.facts[pairs[:, 0]])
    lines = np.zeros((len(forest), 2), dtype=np.uint64)
    if len(runs):
        first, end = forest.item[runs], forest.item_end[runs]
        places, starts = ranges(first, end), np.cumsum(end - first) - (end - first)
        own[runs] = np.add.reduceat(told[places], starts)
        lines[runs] = np.add.reduceat(said.turns[places], starts)
    in_order = np.argsort(snapshot.facts.said_ms, kind="stable")
    until = np.concatenate(
        [np.zeros((1, 2), dtype=np.uint64), np.cumsum(said.facts[in_order], axis=0, dtype=np.uint64)]
    )

    def of(rows: Ints, told_: Digests, out: Digests) -> Digests:
        level = int(forest.level[rows[0]])
        further = own[rows].copy()
        if level >= MONTH and level != ROOT:
            count = np.searchsorted(snapshot.facts.said_ms[in_order], forest.kept.end[rows])
            further += until[count]
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
            source, following, least = (
                out[kids],
                np.cumsum(counts) - counts,
                np.zeros(len(rows), dtype=np.int64),
            )
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


def requests_of(
    tx: Tx,
    snapshot: Snapshot,
    forest: Forest,
    settings: TiMemSettings,
    rows: Sequence[int],
    inputs: Mapping[int, tuple[str, ...]],
    texts: Mapping[int, str],
    *,
    by_rules: bool,
) -> list[NodeWork]:
    """Return how to write the memories of nodes; see `memforest.trees.index.Index.requests`."""
    zone = memory_zone(tx)
    told = _said(tx, snapshot, forest, settings, rows, zone, by_rules=by_rules)
    return [
        _work(tx, snapshot, forest, settings, row, inputs[row], texts, told, zone, by_rules=by_rules)
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class _Said:
    """The turns of segments as a prompt may show them, and without a model the facts that they support, by row."""

    lines: Mapping[int, tuple[str, ...]]
    statements: Mapping[int, tuple[str, ...]]


def _said(
    tx: Tx,
    snapshot: Snapshot,
    forest: Forest,
    settings: TiMemSettings,
    rows: Sequence[int],
    zone: tzinfo,
    *,
    by_rules: bool,
) -> _Said:
    """Return the material that segments, and those behind them, are written from."""
    own = [row for row in rows if forest.level[row] == SEGMENT]
    every = {one for row in own for one in (row, *history_of(forest, settings, row))}
    turns = {row: snapshot.turns.ids[forest.item[row] : forest.item_end[row]].tolist() for row in every}
    lines = turn_lines(tx, {turn for row in every for turn in turns[row]})
    statements = statements_of(tx, [turn for row in own for turn in turns[row]]) if by_rules and own else {}
    said_ms = (
        dict(zip(snapshot.turns.ids.tolist(), snapshot.turns.said_ms.tolist(), strict=True)) if own else {}
    )

    def dated(told: Mapping[int, Sequence[str]], of: Sequence[int]) -> tuple[str, ...]:
        whole = [(turn, text) for turn in of for text in told.get(turn, ())]
        if settings.dates == "kept":
            return tuple(dict.fromkeys(text for _, text in whole))
        return tuple(dict.fromkeys(dated_text(text, from_ms(said_ms[turn]), zone) for turn, text in whole))

    return _Said(
        {row: dated(lines, turns[row]) for row in every},
        {row: dated(statements, turns[row]) for row in own},
    )


def _work(
    tx: Tx,
    snapshot: Snapshot,
    forest: Forest,
    settings: TiMemSettings,
    row: int,
    inputs: tuple[str, ...],
    texts: Mapping[int, str],
    told: _Said,
    zone: tzinfo,
    *,
    by_rules: bool,
) -> NodeWork:
    level, window = int(forest.level[row]), forest.window_of(row)
    start, end = from_ms(int(forest.start_ms[row])), from_ms(int(forest.end_ms[row]))
    if window is not None:
        span = window_with_key(window, UNITS[level], zone)
        start, end = span.start, span.end
    participants = speakers(snapshot, forest, row)
    inputs = tuple(told.lines.get(row, ())) if level == SEGMENT else inputs
    before = history_of(forest, settings, row)
    if level == SEGMENT and settings.history_of == "children":
        history: tuple[str, ...] = tuple("\n".join(told.lines.get(one, ())) for one in before)
    else:
        history = tuple(texts[one] for one in before if texts.get(one))
    statements = told.statements.get(row, ())
    prompt = PROMPTS[level]
    alone = settings.pass_through and len(forest.children[row]) == 1
    if prompt == "profile" and by_rules:
        turns = snapshot.turns.ids[turn_rows(forest, row)].tolist()
        lines = profile_lines(tx, to_ms(start), to_ms(end), participants, zone, turns=turns)
        statements, alone = profile_statements(lines), False
    most = int(settings.words[settings.levels.index(LEVELS[level])]) * (
        max(1, len(participants)) if prompt == "profile" else 1
    )
    request = SummaryRequest(
        kind=LEVELS[level],
        label=", ".join(participants),
        start=start,
        end=end,
        inputs=inputs,
        max_words=min(most, max(LEAST_WORDS, round(SUMMARY_PART * sum(map(count_words, inputs))))),
        level=level + 1,
        history=tuple(text for text in history if text),
        window=window or "",
        participants=participants,
        summarise="kept" if settings.pass_through else "every",
        prompt=prompt,
        statements=tuple(statements),
    )
    return NodeWork(row, request, kept=alone, words=True)


def turn_rows(forest: Forest, row: int) -> Ints:
    """Return the rows of the turns at or below a node, in the order of its segments."""
    leaves = np.array(list(_segments(forest, row)), dtype=np.int64)
    return ranges(forest.item[leaves], forest.item_end[leaves])


def _segments(forest: Forest, row: int) -> Iterator[int]:
    if forest.level[row] == SEGMENT:
        yield row
    for child in forest.children[row]:
        yield from _segments(forest, child)


def speakers(snapshot: Snapshot, forest: Forest, row: int) -> tuple[str, ...]:
    """Return who speaks at or below a node, in the order in which they first do."""
    rows = turn_rows(forest, row)
    rows = rows[np.argsort(snapshot.turns.said_ms[rows], kind="stable")]
    return tuple(snapshot.speakers[code] for code in dict.fromkeys(snapshot.turns.speaker[rows].tolist()))
