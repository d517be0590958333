"""The profile in force: of the last month that had ended, line by line, each with what it rests on.

Without a model, a month is composed again from its sources when it is read. So is a month whose text has no sections,
or came from its only week. Of what a model wrote the sections are read. A line of those is taken for
supported by the segments that share at least `LEAST` of its content words (all, where it has fewer), in which its
participant speaks or is named. Words that few of the segments have count more; the best one is taken, then those that have
words which the ones before lack. The name of the participant is none of the words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from memforest.errors import NotFoundError
from memforest.ports import FoundLine, split_sections
from memforest.search.cache import digests_of, forest_of
from memforest.search.filters import memory_zone
from memforest.search.forest import Forest, as_keys
from memforest.search.snapshot import Snapshot
from memforest.store import artifacts
from memforest.store.connections import Tx
from memforest.store.sessions import turns_with_ids
from memforest.text import cut, lexical_tokens
from memforest.times import one_line
from memforest.trees.index import FoundProfile, Index, ProfileRequest, leaves_beneath, ready_rows
from memforest.trees.timem_compose import person, profile_lines
from memforest.trees.timem_grow import LEVELS, MONTH, YEAR, speakers, turn_rows

LEAST = 2
"""Content words that a segment shares with a line that it supports."""
MOST = 8
"""Segments of a line."""


class Supports:
    """The segments of a month, by their words.

    Args:
        said: segment -> what is said in it, as (speaker, text), in order.
    """

    def __init__(self, said: Mapping[int, Sequence[tuple[str, str]]]) -> None:
        self._speakers = {node: {speaker for speaker, _ in turns} for node, turns in said.items()}
        self._words = {
            node: frozenset(token for _, text in turns for token in lexical_tokens(text))
            for node, turns in said.items()
        }
        self._holding: dict[str, list[int]] = {}
        for node, words in self._words.items():
            for word in words:
                self._holding.setdefault(word, []).append(node)

    def of(self, line: str, names: Collection[str]) -> list[int]:
        """Return the segments that support a line of somebody with these names, in order; none for one that nothing supports."""
        own = {token for name in names for token in lexical_tokens(name)}
        words = set(lexical_tokens(line)) - own
        least = min(LEAST, len(words))
        shared = Counter(node for word in words for node in self._holding.get(word, ()))
        found = [
            node for node, count in shared.items() if count >= least > 0 and self._is_of(node, names, own)
        ]
        weight = {
            word: math.log(1 + len(self._words) / len(self._holding[word]))
            for word in words & self._holding.keys()
        }
        kept: list[int] = []
        left = set(weight)
        while found and len(kept) < MOST:
            gains = {node: math.fsum(weight[word] for word in left & self._words[node]) for node in found}
            best = max(sorted(found), key=lambda node: gains[node])
            if not gains[best]:
                break
            kept.append(best)
            found.remove(best)
            left -= self._words[best]
        return [node for node in self._words if node in kept]

    def _is_of(self, node: int, names: Collection[str], own: Collection[str]) -> bool:
        """Return whether somebody speaks in a segment, or is named there."""
        return not self._speakers[node].isdisjoint(names) or not self._words[node].isdisjoint(own)


MOST_SINCE = 20
"""Turns of what was said since."""
COMPOSED = "composed"
"""The maker of lines that were composed of the facts of a month whose text is no profile."""
_RULES = "local"
"""What the makers of texts begin with that no model wrote."""


def found_profile(tx: Tx, snapshot: Snapshot, index: Index, request: ProfileRequest) -> FoundProfile:
    """Return the profile in force: of the last month that had ended, and all of which had been said, by the request's instants.

    Without an instant it is the last month that is written, an open one too if it is. Of a participant it is the last one in which
    they took part.

    Raises:
        NotFoundError: if nobody of that name takes part.
    """
    settings = index.settings
    names = None if request.participant is None else _names(snapshot, request.participant)
    level = next((one for one in (MONTH, YEAR) if LEVELS[one] in settings.levels), None)
    if level is None:
        why = "this memory's index 'timem' writes neither months nor years, which have the profiles: see its setting `levels`"
        return FoundProfile(warnings=(why,))
    forest = forest_of(tx, snapshot, index)
    rows = forest.kept.of_level.get(level, np.zeros(0, dtype=np.int64))
    texts = ready_rows(tx, snapshot, index, rows.tolist())
    told = [row for row in rows.tolist() if _may_be_told(forest, row, request)]
    month = _in_force(snapshot, forest, [row for row in told if row in texts], names)
    begin, end = forest.kept.begin, forest.kept.end
    later = [
        forest.window_of(row) or ""
        for row in told
        if row not in texts
        and (month is None or begin[row] > begin[month])
        and (request.as_of_ms is not None or end[row] <= request.now_ms)
    ]
    warnings: tuple[str, ...] = ()
    if later:
        listed = ", ".join(later[:6]) + (" …" if len(later) > 6 else "")
        warnings = (f"{listed}: ended, and not written; advance() writes it",)
    elif month is None:
        what = f"no {LEVELS[level]} had ended by then, so there is no profile"
        warnings = (f"{what}; advance(force=True) writes the one that goes on",)
    since, count = _said_since(snapshot, forest, month, request, names)
    if month is None:
        return FoundProfile(since=since, said_since=count, warnings=warnings)
    lines, unsupported, maker = _lines(tx, snapshot, index, forest, month, texts[month])
    wanted = [name for name in speakers(snapshot, forest, month) if names is None or name in names]
    shown = tuple(line for line in lines if line.participant in wanted)
    return FoundProfile(
        month=forest.window_of(month) or "",
        start_ms=int(begin[month]),
        end_ms=int(end[month]),
        participants=tuple(dict.fromkeys(line.participant for line in shown)) or tuple(wanted[:1]),
        lines=shown,
        unsupported=tuple(text for name, text in unsupported if names is None or name in wanted),
        maker=maker,
        since=since,
        said_since=count,
        warnings=warnings,
    )


def _may_be_told(forest: Forest, month: int, request: ProfileRequest) -> bool:
    """Return whether a month had ended, and all of it had been said, by the request's instants."""
    ended = request.as_of_ms is None or bool(forest.kept.end[month] <= request.as_of_ms)
    return ended and (request.bound_ms is None or bool(forest.end_ms[month] - 1 <= request.bound_ms))


def _in_force(
    snapshot: Snapshot, forest: Forest, months: Sequence[int], names: Sequence[str] | None
) -> int | None:
    """Return the last month in which a participant took part; anybody without names."""
    for month in reversed(months):
        if names is None or not set(names).isdisjoint(speakers(snapshot, forest, month)):
            return month
    return None


def _said_since(
    snapshot: Snapshot,
    forest: Forest,
    month: int | None,
    request: ProfileRequest,
    names: Sequence[str] | None,
) -> tuple[tuple[int, ...], int]:
    """Return the last turns that were said since a month's end, by anybody or under some names, in order, and how many there are."""
    turns, since = snapshot.turns, ~snapshot.turns.muted
    if month is not None:
        sessions = turns.session[turn_rows(forest, month)]
        since &= (turns.said_ms >= forest.kept.end[month]) & ~np.isin(turns.session, sessions)
    if request.bound_ms is not None:
        since &= turns.said_ms <= request.bound_ms
    if names is not None:
        since &= np.isin(turns.speaker, [snapshot.speakers.index(name) for name in names])
    rows = np.flatnonzero(since)
    last = rows[np.argsort(turns.said_ms[rows], kind="stable")][-MOST_SINCE:]
    return tuple(turns.ids[last].tolist()), len(rows)


def _names(snapshot: Snapshot, given: str) -> list[str]:
    """Return the names under which a person with this name or alias speaks."""
    known, wanted = sorted(snapshot.speakers), person(snapshot, given)
    found = [name for name in known if person(snapshot, name) == wanted]
    if not found:
        some = ", ".join(cut(one_line(name), 40) for name in known[:8]) + (" …" if len(known) > 8 else "")
        raise NotFoundError(
            f"nobody called {cut(repr(given), 60)} speaks in this memory; the speakers are: {some or 'nobody yet'}"
        )
    return found


def _lines(
    tx: Tx, snapshot: Snapshot, index: Index, forest: Forest, month: int, text: str
) -> tuple[list[FoundLine], list[tuple[str, str]], str]:
    """Return the lines of a month, the lines without a source as (participant, text), and the maker."""
    (key,) = as_keys(digests_of(tx, snapshot, index)[[month]])
    maker, who = artifacts.found(tx, [key])[key].maker, speakers(snapshot, forest, month)
    by_rules = maker.startswith(_RULES)
    passed_on = index.settings.pass_through and len(forest.children[month]) == 1
    if by_rules or passed_on or not any(name for name, _ in split_sections(text)):
        start_ms, end_ms = int(forest.kept.begin[month]), int(forest.kept.end[month])
        turns, zone = turn_rows(forest, month), memory_zone(tx)
        lines = profile_lines(tx, snapshot, start_ms, end_ms, who, zone, turns)
        bare = [(one.participant, one.text) for one in lines if not one.turns]
        return [one for one in lines if one.turns], bare, maker if by_rules else COMPOSED
    return (*_written(tx, snapshot, forest, month, who, text), maker)


def _written(
    tx: Tx, snapshot: Snapshot, forest: Forest, month: int, who: Sequence[str], text: str
) -> tuple[list[FoundLine], list[tuple[str, str]]]:
    """Return the lines that a model wrote with the turns that support them, and the unsupported ones."""
    below: dict[int, list[int]] = {}
    for row in leaves_beneath(forest, month).tolist():
        places = slice(int(forest.item[row]), int(forest.item_end[row]))
        below[row] = snapshot.turns.ids[places][~snapshot.turns.muted[places]].tolist()
    said = turns_with_ids(tx, [turn for own in below.values() for turn in own])
    spoken = {node: [(said[turn].speaker, said[turn].text) for turn in own] for node, own in below.items()}
    supports = Supports(spoken)
    people: dict[int | str, list[str]] = {}
    for name in who:
        people.setdefault(person(snapshot, name), []).append(name)
    lines, bare = list[FoundLine](), list[tuple[str, str]]()
    for heading, texts in split_sections(text):
        names = people.get(person(snapshot, heading), [])
        for line in texts:
            nodes = supports.of(line, names) if names else []
            turns = tuple(turn for node in nodes for turn in below[node])
            if turns:
                lines.append(FoundLine(names[0], line, "written", (), turns))
            else:
                bare.append((names[0] if names else heading, line))
    return lines, bare
