"""The profile in force: of the last month that had ended, line by line, each with what it rests on.

A month without a model is composed anew when it is read, which is what its text was made of; so is one whose text has no
sections, or was passed on from its only week. Of what a model wrote the sections are read. A line of those is taken for
supported by the segments that share at least `LEAST` of its content words (all, where it has fewer), in which its
participant speaks or is named. Words that few of the segments have count more; the best one is taken, then those that have
words which the ones before lack. The name of the participant is none of the words.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.errors import NotFoundError
from memforest.ports import FoundLine, split_sections
from memforest.search.cache import digests_of, forest_of
from memforest.search.filters import memory_zone
from memforest.search.forest import Forest, as_keys
from memforest.search.snapshot import Snapshot
from memforest.store import artifacts, facts
from memforest.store.connections import AMONG, Tx
from memforest.store.sessions import turns_with_ids
from memforest.store.snapshot import muted_turns
from memforest.text import cut, entity_key, lexical_tokens
from memforest.times import EARLIEST, one_line, to_ms
from memforest.trees.index import FoundProfile, Index, ProfileRequest, leaves_beneath, ready_rows
from memforest.trees.timem_compose import profile_lines
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


class _Month(NamedTuple):
    """A month that has a text: its node, when its window begins and ends, and who took part."""

    row: int
    window: str
    start_ms: int
    end_ms: int
    participants: Sequence[str]
    text: str


def said_behind(
    tx: Tx,
    after_ms: int,
    until_ms: int | None,
    *,
    but: Collection[int],
    muted: Collection[int],
    by: Sequence[str] | None,
    limit: int,
) -> tuple[list[int], int]:
    """Return the last turns that were said at or after an instant, in order, and how many there are.

    Args:
        tx: a transaction.
        after_ms: the first instant.
        until_ms: the last one; None for no end.
        but: sessions that are left out.
        muted: turns that are left out.
        by: who says them; None for anybody.
        limit: most turns.
    """
    among = "" if by is None else f"AND t.speaker {AMONG}"
    where = f"t.said_ms >= ? AND (? IS NULL OR t.said_ms <= ?) AND t.session NOT {AMONG} AND t.id NOT {AMONG} {among}"
    args = (after_ms, until_ms, until_ms, tx.ids(but), tx.ids(muted)) + (
        () if by is None else (json.dumps(list(by)),)
    )
    count = tx.execute(f"SELECT count(*) FROM turn t WHERE {where}", args).fetchone()[0]
    found = tx.execute(
        f"SELECT t.id FROM turn t WHERE {where} ORDER BY t.said_ms DESC, t.session DESC, t.ordinal DESC LIMIT ?",
        (*args, limit),
    )
    return [row[0] for row in found][::-1], int(count)


def found_profile(tx: Tx, snapshot: Snapshot, index: Index, request: ProfileRequest) -> FoundProfile:
    """Return the profile in force: of the last month that had ended, and all of which had been said, by the request's instants.

    Without an instant it is the last month that is written, an open one too if it is. Of a participant it is the last one in which
    they took part.

    Raises:
        NotFoundError: if nobody of that name takes part.
    """
    settings = index.settings
    names = None if request.participant is None else _names(tx, snapshot, request.participant)
    level = next((one for one in (MONTH, YEAR) if LEVELS[one] in settings.levels), None)
    if level is None:
        why = "this memory's index 'timem' writes neither months nor years, which have the profiles: see its setting `levels`"
        return FoundProfile(warnings=(why,))
    forest = forest_of(tx, snapshot, index)
    rows = forest.kept.of_level.get(level, np.zeros(0, dtype=np.int64))
    texts = ready_rows(tx, snapshot, index, rows.tolist())
    month = _in_force(snapshot, forest, rows, texts, request, names)
    warnings = _unwritten(forest, rows, texts, level, request, month)
    muted = frozenset(muted_turns(tx))
    sessions = (
        [] if month is None else np.unique(snapshot.turns.session[turn_rows(forest, month.row)]).tolist()
    )
    since, count = said_behind(
        tx,
        to_ms(EARLIEST) if month is None else month.end_ms,
        request.bound_ms,
        but=sessions,
        muted=muted,
        by=names,
        limit=MOST_SINCE,
    )
    if month is None:
        return FoundProfile(since=tuple(since), said_since=count, warnings=tuple(warnings))
    lines, unsupported, maker = _lines(tx, snapshot, index, forest, month, muted)
    wanted = [name for name in month.participants if names is None or name in names]
    shown = tuple(line for line in lines if line.participant in wanted)
    return FoundProfile(
        month=month.window,
        start_ms=month.start_ms,
        end_ms=month.end_ms,
        participants=tuple(dict.fromkeys(line.participant for line in shown)) or tuple(wanted[:1]),
        lines=shown,
        unsupported=tuple(text for name, text in unsupported if names is None or name in wanted),
        maker=maker,
        since=tuple(since),
        said_since=count,
        warnings=tuple(warnings),
    )


def _names(tx: Tx, snapshot: Snapshot, given: str) -> list[str]:
    """Return the names under which a person with this name or alias speaks."""
    known = sorted(snapshot.speakers)
    wanted = _person(tx, given)
    found = [name for name in known if name == given or (wanted is not None and _person(tx, name) == wanted)]
    if not found:
        some = ", ".join(cut(one_line(name), 40) for name in known[:8]) + (" …" if len(known) > 8 else "")
        raise NotFoundError(
            f"nobody called {cut(repr(given), 60)} speaks in this memory; who does: {some or 'nobody yet'}"
        )
    return found


def _person(tx: Tx, name: str) -> int | str | None:
    """Return the identity of a person: the entity, else the key of the name."""
    key = entity_key(name)
    found = None if key is None else facts.entity_by_key(tx, key)
    return key if found is None else found.row


def _in_force(
    snapshot: Snapshot,
    forest: Forest,
    rows: NDArray[np.int64],
    texts: Mapping[int, str],
    request: ProfileRequest,
    names: Sequence[str] | None,
) -> _Month | None:
    """Return the last month that may be told by the request's instants, and in which its participant took part."""
    for row in rows[::-1].tolist():
        start_ms, end_ms = int(forest.kept.begin[row]), int(forest.kept.end[row])
        if row not in texts or (request.as_of_ms is not None and end_ms > request.as_of_ms):
            continue
        if request.bound_ms is not None and forest.end_ms[row] - 1 > request.bound_ms:
            continue
        participants = speakers(snapshot, forest, row)
        if names is None or not set(names).isdisjoint(participants):
            return _Month(row, forest.window_of(row) or "", start_ms, end_ms, participants, texts[row])
    return None


def _unwritten(
    forest: Forest,
    rows: NDArray[np.int64],
    texts: Mapping[int, str],
    level: int,
    request: ProfileRequest,
    month: _Month | None,
) -> list[str]:
    """Return which later months have ended and are not written, or why there is no profile at all."""
    by_ms = request.now_ms if request.as_of_ms is None else request.as_of_ms
    later = [
        forest.window_of(row) or ""
        for row in rows.tolist()
        if row not in texts
        and (month is None or forest.kept.begin[row] > month.start_ms)
        and forest.kept.end[row] <= by_ms
        and (request.bound_ms is None or forest.end_ms[row] - 1 <= request.bound_ms)
    ]
    if later:
        listed = ", ".join(later[:6]) + (" …" if len(later) > 6 else "")
        return [f"{listed}: ended, and not written; advance() writes it"]
    if month is None:
        what = LEVELS[level]
        return [
            f"no {what} had ended by then, so there is no profile; advance(force=True) writes the one that goes on"
        ]
    return []


def _lines(
    tx: Tx, snapshot: Snapshot, index: Index, forest: Forest, month: _Month, muted: frozenset[int]
) -> tuple[list[FoundLine], list[tuple[str, str]], str]:
    """Return the lines of a month, the lines without a source as (participant, text), and the maker."""
    (key,) = as_keys(digests_of(tx, snapshot, index)[[month.row]])
    maker = artifacts.found(tx, [key])[key].maker
    passed_on = index.settings.pass_through and len(forest.children[month.row]) == 1
    if maker.startswith(_RULES) or passed_on or not any(name for name, _ in split_sections(month.text)):
        turns = snapshot.turns.ids[turn_rows(forest, month.row)].tolist()
        zone = memory_zone(tx)
        lines = profile_lines(tx, month.start_ms, month.end_ms, month.participants, zone, turns=turns)
        bare = [(one.participant, one.text) for one in lines if not one.turns]
        return [one for one in lines if one.turns], bare, maker if maker.startswith(_RULES) else COMPOSED
    return (*_written(tx, snapshot, forest, month, muted), maker)


def _written(
    tx: Tx, snapshot: Snapshot, forest: Forest, month: _Month, muted: frozenset[int]
) -> tuple[list[FoundLine], list[tuple[str, str]]]:
    """Return the lines that a model wrote with the turns that support them, and the unsupported ones."""
    below = {
        row: snapshot.turns.ids[forest.item[row] : forest.item_end[row]].tolist()
        for row in leaves_beneath(forest, month.row).tolist()
    }
    said = turns_with_ids(tx, [turn for turns in below.values() for turn in turns if turn not in muted])
    spoken = {
        node: [(said[turn].speaker, said[turn].text) for turn in turns if turn in said]
        for node, turns in below.items()
    }
    supports = Supports(spoken)
    people = _people(tx, month.participants)
    lines, bare = list[FoundLine](), list[tuple[str, str]]()
    for heading, texts in split_sections(month.text):
        names = people.get(_person(tx, heading) or heading, [])
        for line in texts:
            nodes = supports.of(line, names) if names else []
            turns = tuple(turn for node in nodes for turn in below[node] if turn in said)
            if turns:
                lines.append(FoundLine(names[0], line, "written", (), turns))
            else:
                bare.append((names[0] if names else heading, line))
    return lines, bare


def _people(tx: Tx, participants: Sequence[str]) -> Mapping[int | str, list[str]]:
    """Return the names under which each participant speaks, by what they are known by."""
    found: dict[int | str, list[str]] = {}
    for name in participants:
        found.setdefault(_person(tx, name) or name, []).append(name)
    return found
