"""The profile in force: of the last month that had ended, line by line, each with what it rests on.

A month without a model is composed anew when it is read, which is what its text was made of; so is one whose text has no
sections, or was passed on from its only week. Of what a model wrote the sections are read. A line of those is taken for
supported by the segments that share at least `LEAST` of its content words (all, where it has fewer), in which its
participant speaks or is named. Words that few of the segments have count more; the best one is taken, then those that have
words which the ones before lack. The name of the participant is none of the words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import tzinfo
from typing import NamedTuple

from memforest.errors import NotFoundError
from memforest.ports import FoundLine, split_sections
from memforest.reading.periods import window_with_key
from memforest.search.filters import memory_zone
from memforest.store import derived, facts, jobs, trees
from memforest.store.connections import Tx
from memforest.store.evidence import turn_texts
from memforest.store.snapshot import muted_turns
from memforest.text import cut, entity_key, lexical_tokens
from memforest.times import EARLIEST, one_line, to_ms
from memforest.trees import timem_grow, timem_rows
from memforest.trees.index import FoundProfile, ProfileRequest
from memforest.trees.timem_compose import profile_lines
from memforest.trees.timem_rows import (
    JOB_OWNER,
    LEVELS,
    MONTH,
    SEGMENT,
    UNITS,
    YEAR,
    TiMemNode,
    TiMemSettings,
    key_of_row,
)

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
    """A month that has a text: when its window begins and ends, and who took part."""

    row: TiMemNode
    start_ms: int
    end_ms: int
    sessions: Sequence[int]
    participants: Sequence[str]


def found_profile(tx: Tx, settings: TiMemSettings, request: ProfileRequest) -> FoundProfile:
    """Return the profile in force: of the last month that had ended, and all of which had been said, by the request's instants.

    Without an instant it is the last month that is written, an open one too if it is. Of a participant it is the last one in which
    they took part.

    Raises:
        NotFoundError: if nobody of that name ever spoke.
    """
    names = None if request.participant is None else _names(tx, request.participant)
    level = next((one for one in (MONTH, YEAR) if LEVELS[one] in settings.levels), None)
    if level is None:
        why = "this memory's index 'timem' writes neither months nor years, which have the profiles: see its setting `levels`"
        return FoundProfile(warnings=(why,))
    zone = memory_zone(tx)
    month = _in_force(tx, level, request, names, zone)
    warnings = _unwritten(tx, level, request, month, zone)
    muted = frozenset(muted_turns(tx))
    since, count = timem_grow.said_behind(
        tx,
        to_ms(EARLIEST) if month is None else month.end_ms,
        request.bound_ms,
        but=() if month is None else month.sessions,
        muted=muted,
        by=names,
        limit=MOST_SINCE,
    )
    if month is None:
        return FoundProfile(since=tuple(since), said_since=count, warnings=tuple(warnings))
    lines, unsupported, maker = _lines(tx, settings, month, zone, muted)
    wanted = [name for name in month.participants if names is None or name in names]
    shown = tuple(line for line in lines if line.participant in wanted)
    return FoundProfile(
        month=month.row.window,
        start_ms=month.start_ms,
        end_ms=month.end_ms,
        participants=tuple(dict.fromkeys(line.participant for line in shown)) or tuple(wanted[:1]),
        lines=shown,
        unsupported=tuple(text for name, text in unsupported if names is None or name in wanted),
        maker=maker,
        out_of_date=bool(timem_rows.dirty_among(tx, [month.row.node])),
        since=tuple(since),
        said_since=count,
        warnings=tuple(warnings),
    )


def _names(tx: Tx, given: str) -> list[str]:
    """Return the names under which a person with this name or alias speaks."""
    known = timem_grow.speakers_ever(tx)
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
    tx: Tx, level: int, request: ProfileRequest, names: Sequence[str] | None, zone: tzinfo
) -> _Month | None:
    """Return the last month that may be told by the request's instants, and in which its participant took part."""
    for row in timem_rows.told(tx, level):
        start_ms, end_ms = _span(row, zone)
        if request.as_of_ms is not None and end_ms > request.as_of_ms:
            continue
        if request.bound_ms is not None and row.end_ms - 1 > request.bound_ms:
            continue
        sessions = timem_rows.sessions_below(tx, row.node)
        participants = timem_grow.speakers(tx, sessions)
        if names is None or not set(names).isdisjoint(participants):
            return _Month(row, start_ms, end_ms, sessions, participants)
    return None


def _span(row: TiMemNode, zone: tzinfo) -> tuple[int, int]:
    window = window_with_key(row.window or "", UNITS[row.level], zone)
    return to_ms(window.start), to_ms(window.end)


def _unwritten(tx: Tx, level: int, request: ProfileRequest, month: _Month | None, zone: tzinfo) -> list[str]:
    """Return which later months have ended and are not written, or why there is no profile at all."""
    by_ms = request.now_ms if request.as_of_ms is None else request.as_of_ms
    later = [
        row
        for row in timem_rows.untold(tx, level)
        if (month is None or row.begin_ms > month.row.begin_ms)
        and _span(row, zone)[1] <= by_ms
        and (request.bound_ms is None or row.end_ms - 1 <= request.bound_ms)
    ]
    if later:
        failed = {one.key: one.payload["reason"] for one in jobs.failures(tx, JOB_OWNER)}
        why = next((failed[key] for row in later if (key := key_of_row(row)) in failed), "")
        listed = ", ".join(row.window or "" for row in later[:6]) + (" …" if len(later) > 6 else "")
        because = f" ({cut(why, 200)})" if why else ""
        return [f"{listed}: ended, and not written{because}; advance() writes it"]
    if month is None:
        what = LEVELS[level]
        return [
            f"no {what} had ended by then, so there is no profile; advance(force=True) writes the one that goes on"
        ]
    return []


def _lines(
    tx: Tx, settings: TiMemSettings, month: _Month, zone: tzinfo, muted: frozenset[int]
) -> tuple[list[FoundLine], list[tuple[str, str]], str]:
    """Return the lines of a month, the lines without a source as (participant, text), and the maker."""
    maker = derived.summary_makers(tx, [month.row.node])[month.row.node].maker
    node = trees.nodes_with_ids(tx, [month.row.node])[month.row.node]
    text = derived.summaries(tx, [month.row.node])[month.row.node]
    passed_on = settings.pass_through and len(node.children) == 1
    if maker.startswith(_RULES) or passed_on or not any(name for name, _ in split_sections(text)):
        turns = timem_grow.turns_of_sessions(tx, month.sessions)
        lines = profile_lines(tx, month.start_ms, month.end_ms, month.participants, zone, turns=turns)
        bare = [(one.participant, one.text) for one in lines if not one.turns]
        return [one for one in lines if one.turns], bare, maker if maker.startswith(_RULES) else COMPOSED
    return (*_written(tx, month, text, muted), maker)


def _written(
    tx: Tx, month: _Month, text: str, muted: frozenset[int]
) -> tuple[list[FoundLine], list[tuple[str, str]]]:
    """Return the lines that a model wrote with the turns that support them, and the unsupported ones."""
    segments = [one.node for session in month.sessions for one in timem_rows.of_session(tx, session, SEGMENT)]
    below = {node: [one.row for one in turns] for node, turns in timem_grow.turns_below(tx, segments).items()}
    said = turn_texts(tx, [turn for turns in below.values() for turn in turns if turn not in muted])
    spoken = {
        node: [(said[turn].speaker, said[turn].text) for turn in turns if turn in said]
        for node, turns in below.items()
    }
    supports = Supports(spoken)
    people = _people(tx, month.participants)
    lines, bare = list[FoundLine](), list[tuple[str, str]]()
    for heading, texts in split_sections(text):
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
