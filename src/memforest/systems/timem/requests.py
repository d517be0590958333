"""What each memory is written from: the texts below it, those before it, and the level's own instruction.

Source: TiMem (arXiv 2601.02845) eq. 1 to 3. A memory is known by the digest of all that is told here, so that a changed child,
history, prompt or model makes it stale, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from types import MappingProxyType

from memforest.calendar import window_with_key
from memforest.interval import from_ms, to_ms
from memforest.language.counting import count_words
from memforest.language.dating import dated_text
from memforest.refresh.requests import NodeWork
from memforest.store import derived
from memforest.store import trees as tree_rows
from memforest.store.leaves import told_lines
from memforest.store.tx import Tx
from memforest.systems.timem import rows, turn_rows
from memforest.systems.timem.compose import profile_lines, profile_statements, statements_of
from memforest.systems.timem.history import by_rules, history_of
from memforest.systems.timem.levels import LEVELS, MONTH, SEGMENT, SESSION, UNITS
from memforest.systems.timem.rows import Row
from memforest.systems.timem.settings import TiMemSettings
from memforest.systems.timem.turn_rows import SaidLine
from memforest.systems.zone import memory_zone
from memforest.tree import Node
from memforest.types import SummaryRequest

PROMPTS: Mapping[int, str] = MappingProxyType(
    {SEGMENT: "segment", SESSION: "session", 2: "day", 3: "week", MONTH: "profile", 5: "profile"}
)
"""Level -> the prompt of its memories; a year's is a profile as a month's is."""

LEAST_WORDS = 40
"""Words that a memory may have however little is below it."""
PART = 0.5
"""Part of the words below it that a memory may have, if that is more."""


def requests_of(tx: Tx, settings: TiMemSettings, nodes: Collection[int]) -> list[NodeWork]:
    """Return how the memories of nodes are to be written; those of levels that are not written are passed over.

    Args:
        tx: a transaction.
        settings: of the index.
        nodes: ids; those that are not there are passed over.
    """
    found = [row for row in rows.by_node(tx, nodes).values() if LEVELS[row.level] in settings.levels]
    if not found:
        return []
    zone = memory_zone(tx)
    stored = tree_rows.nodes_with_ids(tx, [row.node for row in found])
    told = _told(tx, settings, found, zone)
    return [_work(tx, settings, row, stored[row.node], told, zone) for row in found if row.node in stored]


@dataclass(frozen=True, slots=True)
class _Told:
    """The turns of segments as they may be told, and without a model the statements that they support."""

    speakers: Mapping[int, Sequence[str]]
    lines: Mapping[int, Sequence[str]]
    statements: Mapping[int, Sequence[str]]
    by_rules: bool


def _told(tx: Tx, settings: TiMemSettings, found: Sequence[Row], zone: tzinfo) -> _Told:
    """Return what segments are written from: of those that are written, and of those before them."""
    rules, segments = by_rules(tx), [row for row in found if row.level == SEGMENT]
    if not segments:
        return _Told({}, {}, {}, rules)
    earlier = {one for row in segments for one in history_of(tx, settings, row)}
    turns = turn_rows.turns_below(tx, earlier.union(row.node for row in segments))
    said = {turn.row: turn for told in turns.values() for turn in told}
    own = {turn.row for row in segments for turn in turns[row.node]}
    lines = told_lines(tx, {row: turn.line for row, turn in said.items()})
    statements = statements_of(tx, own) if rules else {}

    def dated(told: Mapping[int, Sequence[str]], turns: Sequence[SaidLine]) -> tuple[str, ...]:
        whole = ((turn, text) for turn in turns for text in told.get(turn.row, ()))
        if settings.dates == "kept":
            return tuple(dict.fromkeys(text for _, text in whole))
        return tuple(dict.fromkeys(dated_text(text, from_ms(turn.said_ms), zone) for turn, text in whole))

    return _Told(
        {row.node: tuple(dict.fromkeys(turn.speaker for turn in turns[row.node])) for row in segments},
        {node: dated(lines, told) for node, told in turns.items()},
        {row.node: dated(statements, turns[row.node]) for row in segments},
        rules,
    )


def _work(tx: Tx, settings: TiMemSettings, row: Row, node: Node, told: _Told, zone: tzinfo) -> NodeWork:
    start, end = _window(row, node, zone)
    participants = tuple(
        told.speakers.get(row.node) or turn_rows.speakers(tx, rows.sessions_below(tx, row.node))
    )
    inputs = tuple(told.lines.get(row.node, ())) if row.level == SEGMENT else _texts(tx, node.children)
    earlier = history_of(tx, settings, row)
    if row.level == SEGMENT and settings.history_of == "children":
        history: tuple[str, ...] = tuple("\n".join(told.lines.get(one, ())) for one in earlier)
    else:
        history = _texts(tx, earlier)
    statements: tuple[str, ...] = tuple(told.statements.get(row.node, ()))
    prompt = PROMPTS[row.level]
    alone = settings.pass_through and len(node.children) == 1
    if prompt == "profile" and told.by_rules:
        statements, alone = _profile(tx, row, start, end, participants, zone), False
    most = settings.words_at(row.level) * (max(1, len(participants)) if prompt == "profile" else 1)
    request = SummaryRequest(
        kind=LEVELS[row.level],
        label=", ".join(participants),
        start=start,
        end=end,
        inputs=inputs,
        max_words=min(most, max(LEAST_WORDS, round(PART * sum(map(count_words, inputs))))),
        level=row.level + 1,
        history=tuple(text for text in history if text),
        window=row.window or "",
        participants=participants,
        summarise="kept" if settings.pass_through else "every",
        prompt=prompt,
        statements=statements,
    )
    return NodeWork(row.node, request, kept=alone, words=True)


def _window(row: Row, node: Node, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the time that a memory is of: its window, of a segment or session from its first turn to its last."""
    if row.window is None:
        return from_ms(node.start_ms), from_ms(node.end_ms)
    window = window_with_key(row.window, UNITS[row.level], zone)
    return window.start, window.end


def _texts(tx: Tx, nodes: Sequence[int]) -> tuple[str, ...]:
    """Return what was written of nodes, in their order; of those of which nothing was, nothing."""
    found = derived.summaries(tx, nodes)
    return tuple(found[node] for node in nodes if found.get(node))


def _profile(
    tx: Tx, row: Row, start: datetime, end: datetime, participants: Sequence[str], zone: tzinfo
) -> tuple[str, ...]:
    """Return what the memory holds of participants in a window, as the lines of a profile."""
    turns = turn_rows.turns_of_sessions(tx, rows.sessions_below(tx, row.node))
    return profile_statements(profile_lines(tx, to_ms(start), to_ms(end), participants, zone, turns=turns))
